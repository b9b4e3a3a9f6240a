#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Whether property/rdma_model finds faults: faults.py CC [N...]. TAP.

Each fault is put into a copy of handlers/rdma, with which the test is compiled: it must fail. A fault that does not fit the
source any more is an error, too: then it is to be written anew. Three of them; all with SPINDLE_LONG=1."""

import glob
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
FEW = (0, 6, 11)

# What is wrong; file; what it says; what it says then.
FAULTS = [
    ("an ACK names the next PSN", "respond.c",
     "rdma_due(in, RDMA_ACK, rdma_psn(in->psn - 1));", "rdma_due(in, RDMA_ACK, in->psn);"),
    ("an ACK comes too late", "rdma.c",
     "\tif (latest)\n\t\trdma_answer_now(c, latest);\n\treturn all;", "\treturn all;"),
    ("a duplicate is executed", "respond.c",
     "\tif (ahead < 0)\n\t\treturn rdma_again(c, qp, p, &q);", "\tif (ahead < -2)\n\t\treturn rdma_again(c, qp, p, &q);"),
    ("receive entries are taken in another order", "rq.c",
     "\tentry = q->entry + (uint64_t)(at & ((1u << q->log) - 1)) * q->stride;",
     "\tentry = q->entry + (uint64_t)((left ? at ^ 1 : at) & ((1u << q->log) - 1)) * q->stride;"),
    ("the timer of an RNR NAK is ignored", "retry.c",
     "q->rnr_until = c->now + rdma_rnr_time[code & 31] * 10 * SP_US;", "q->rnr_until = c->now + SP_US;"),
    ("the MSN counts packets", "respond.c",
     "\trdma_advance(qp, p, 1);", "\tin->msn += !(q.form->flags & RDMA_LAST);\n\trdma_advance(qp, p, 1);"),
    ("an ATOMIC that comes again is done again", "respond.c",
     "\tif (ahead < 0)\n\t\treturn rdma_again(c, qp, p, &q);",
     "\tif (ahead < 0 && q.form->kind != RDMA_KIND_ATOMIC)\n\t\treturn rdma_again(c, qp, p, &q);"),
    ("a READ is asked for again from its beginning", "packet.c",
     "rdma_put_reth(ext, op->remote + at, op->rkey, len)", "rdma_put_reth(ext, op->remote, op->rkey, len)"),
    ("a READ is answered again from its beginning", "respond.c",
     "\tr->at = (uint32_t)at;\n", "\tr->at = 0;\n"),
    ("an invalidation is forgotten", "key.c",
     "\t__atomic_store_n(&m->invalidated, true, __ATOMIC_RELEASE);\n", ""),
    ("solicited is ignored", "message.c",
     "\tr->solicited = p->flags & SP_PKT_SE;", "\tr->solicited = false;"),
    ("the fence is ignored", "request.c",
     "\t\tif (!op->begun && op->flags & SP_RDMA_FENCE && q->reads)\n\t\t\treturn NULL;\n", ""),
    ("what is flushed goes before what has failed", "request.c",
     "\t\t\tstatus = op->status ? op->status : SP_RDMA_FLUSHED;",
     "\t\t\tstatus = op->status && !op->next ? op->status : SP_RDMA_FLUSHED;"),
    ("more READs are out than may be", "request.c",
     "\tif (q->reads >= qp->attr.max_rd_atomic)", "\tif (q->reads > qp->attr.max_rd_atomic)"),
    ("an ACK behind a READ acknowledges the READ", "ack.c",
     "\t\t\tif (within || seq >= rdma_op_end(op))\n\t\t\t\trdma_retry_response(c, qp);\n\t\t\treturn false;",
     "\t\t\tif (within || seq < rdma_op_end(op)) {\n\t\t\t\trdma_retry_response(c, qp);\n\t\t\t\treturn false;\n\t\t\t}"),
    ("the sequence NAK is said again and again", "respond.c",
     "\tif (!in->nak_sent)\n\t\trdma_due(in, RDMA_NAK_PSN, in->psn);\n\tin->nak_sent", "\trdma_due(in, RDMA_NAK_PSN, in->psn);\n\tin->nak_sent"),
    ("the end of a WRITE's range is not checked", "key.c",
     "len <= m->len - (va - m->va) ? m : NULL;", "len <= m->len ? m : NULL;"),
    ("a receive entry of a message that failed is flushed", "message.c",
     "\tif (!qp->in.receive.taken)\n\t\treturn;\n\tif (why", "\tif (!qp->in.receive.taken || why == RDMA_LONG)\n\t\treturn;\n\tif (why"),
    ("an ATOMIC brings the value in the wire's order", "ack.c",
     "\tvalue = sp_load_be64(p->data + sizeof(struct sp_aeth));", "\tmemcpy(&value, p->data + sizeof(struct sp_aeth), 8);"),
    ("requests that nobody wanted to be told of are told", "request.c",
     "\tif (status || signaled)\n\t\trdma_cq_post", "\tif (status || signaled || op == SP_RDMA_WR_READ)\n\t\trdma_cq_post"),
    ("retries have no end", "retry.c",
     "\tq->retries--;\n\trdma_go_back(c, qp, true);", "\trdma_go_back(c, qp, true);"),
    ("a gap within a UC message goes unnoticed", "respond.c",
     "\telse if (gap || in->message != q.form->kind)", "\telse if (in->message != q.form->kind)"),
    ("the immediate of a WRITE takes no receive entry", "message.c",
     "\tif (r->form->flags & RDMA_IMM) {\n\t\tconst int entry", "\tif (r->form->flags & RDMA_IMM && r->len) {\n\t\tconst int entry"),
    ("a timeout comes too early", "retry.c",
     "(RETRY_TICK << (qp->attr.timeout & 31))", "(RETRY_TICK << (qp->attr.timeout & 31)) / 2"),
    ("a READ that comes again keeps its place from the next one", "respond.c",
     "\tif (r->pending && r->answered)\n\t\trdma_qp_end_answer(qp, r);\n", ""),
    ("of duplicates that come at once, the first is acknowledged", "respond.c",
     "\t\tif (!in->again_due || rdma_psn_diff(again, in->again_psn) > 0)\n", "\t\tif (!in->again_due)\n"),
    ("an RNR NAK behind a sequence NAK is not heeded", "retry.c",
     "\tif (q->rnr_until) /* it waits already: the NAK is a repeated one */", "\tif (q->at == q->una)"),
]


# Instead of the kernels for each level of instructions.
COPY = """#include <string.h>
#include "handlers/isa/stream.h"
static void copy(uint8_t *to, const uint8_t *from, uint32_t len)
{
	memcpy(to, from, len);
}
sp_isa_stream_fn *sp_isa_stream = copy;
"""
FLAGS = ["-O1", "-D_GNU_SOURCE", "-std=gnu11", "-w"]


def model(cc, scratch):
    """What is the same for all: objects."""
    objects = [os.path.join(scratch, "copy.c.o")]
    with open(os.path.join(scratch, "copy.c"), "w") as f:
        f.write(COPY)
    subprocess.run(cc + FLAGS + ["-c", f.name, "-o", objects[0]], check=True)
    for name in sorted(glob.glob(os.path.join(ROOT, "tests", "property", "rdma_model*.c"))) + \
            [os.path.join(ROOT, "tests", "lib", n) for n in ("suite.c", "main.c")]:
        if not name.endswith("rdma_model_nic.c"):
            objects.append(os.path.join(scratch, os.path.basename(name) + ".o"))
            subprocess.run(cc + FLAGS + ["-c", name, "-o", objects[-1]], check=True)
    return objects


def seeded(cc, objects, scratch, fault):
    """What is wrong with it, or empty, as the fault was found; and what the test said."""
    _, name, before, after = fault
    with open(os.path.join(ROOT, "handlers", "rdma", name)) as f:
        text = f.read()
    if text.count(before) != 1:
        return "%s has that %d times: %s" % (name, text.count(before), before), ""
    with open(os.path.join(scratch, "handlers", "rdma", name), "w") as f:
        f.write(text.replace(before, after))
    target = os.path.join(scratch, "test")
    done = subprocess.run(cc + FLAGS + [os.path.join(scratch, "tests", "property", "rdma_model_nic.c")] + objects +
                          ["-o", target, "-lcunit"], capture_output=True, text=True)
    shutil.copy(os.path.join(ROOT, "handlers", "rdma", name), os.path.join(scratch, "handlers", "rdma"))
    if done.returncode:
        return "it does not compile: " + done.stderr, ""
    try:
        done = subprocess.run([target], capture_output=True, text=True, timeout=200,
                              env={k: v for k, v in os.environ.items() if k != "SPINDLE_LONG"})
    except subprocess.TimeoutExpired:
        return "", "it does not end"
    said = [line for line in done.stdout.splitlines() if ", seed " in line]
    return "" if done.returncode else "it was not found", said[0] if said else "ended by %d" % done.returncode


def copied(to):
    for name in ("handlers", "handlers/wire", "handlers/isa", "handlers/reliability", "handlers/rdma", "tests/property"):
        os.makedirs(os.path.join(to, name), exist_ok=True)
        for path in glob.glob(os.path.join(ROOT, name, "*.[ch]")):
            shutil.copy(path, os.path.join(to, name))


def main():
    cc, chosen = shlex.split(sys.argv[1]), [int(x) for x in sys.argv[2:]]
    chosen = chosen or (range(len(FAULTS)) if os.environ.get("SPINDLE_LONG") else FEW)
    print("1..%d" % len(chosen))
    bad = 0
    with tempfile.TemporaryDirectory() as scratch:
        copied(scratch)
        objects = model(cc, scratch)
        for k, number in enumerate(chosen):
            wrong, said = seeded(cc, objects, scratch, FAULTS[number])
            bad += wrong != ""
            print("# " + (wrong or said.lstrip("# ")).replace("\n", "\n# "))
            print("%s %d - found: %s" % ("not ok" if wrong else "ok", k + 1, FAULTS[number][0]), flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
