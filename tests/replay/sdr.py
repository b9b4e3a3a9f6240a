#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""SDR receive against an independent model (tests/tools/packets.py) under many seeds. SPINDLE_SEEDS sets how many."""

import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import packets as p
from replay import NIC, equal, main, rule

with open(sys.argv[1], "rb") as program:  # a quarter is enough for a sanitizer: it does not look at values
    SEEDS = int(os.environ.get("SPINDLE_SEEDS") or (100 if b"__asan_init" in program.read() else 800))
AT_ONCE = 100  # contexts in one run: starting the NIC costs more than the packets


def parameters(r, qp):
    mtu = r.choice((64, 68, 100, 256, 1000, 1024))
    per_chunk = r.choice((1, 1, 2, 3, 4, 7, 64, 65))
    slots = r.choice((1, 2, 3, 4, 8))
    split = r.choice(((10, 18, 4), (10, 18, 4), (8, 22, 2), (4, 12, 16), (16, 16, 0), (3, 28, 1), (8, 16, 8)))
    packets_ = r.choice((1, 2, 5, 8, 20, 70, 130))
    max_bytes = max(1, mtu * packets_ - r.choice((0, 0, 1, mtu // 2)))
    return p.Sdr(qp=qp, rkey=r.getrandbits(32), mtu=mtu, chunk=mtu * per_chunk, max_bytes=max_bytes, slots=slots,
                 generations=r.choice((1, 2, 3, 4, 5)), channels=r.choice((1, 1, 2, 3)), split=split)


PSN_KINDS = ("counted", "counted", "counted", "zero", "offset", "random")


def numbering(r, kind):
    """A function of a packet's QP and offset that gives its PSN. counted: as RoCE senders do, one more per packet of a QP."""
    first = 0xFFFFFF - r.randrange(60) if r.random() < 0.5 else r.getrandbits(24)
    sent = {}

    def count(qp):
        sent[qp] = sent.get(qp, -1) + 1
        return first + 1000003 * qp + sent[qp] & 0xFFFFFF
    return {"counted": lambda qp, offset: count(qp), "zero": lambda qp, offset: 0, "offset": lambda qp, offset: offset,
            "random": lambda qp, offset: r.getrandbits(24)}[kind]


def traffic(r, sdr, count, v6, spread=False):
    """Messages 0..count-1 on a bad network: frames in the order of their arrival."""
    loss, repeat, wrong = r.choice((0, 0.02, 0.3)), r.choice((0, 0.05, 0.5)), r.choice((0, 0, 0.05))
    window, far, whole, old = r.choice((0, 0, 3, 40)), r.choice((0, 0, 0.02)), r.choice((0, 0, 0.1, 0.4)), r.choice((0, 0.03))
    psn_of = numbering(r, r.choice(PSN_KINDS))
    arrivals, late, begun, at, budget = [], [], [], 0, 400
    for k in range(count):
        begun.append(at + 0.5)
        lost = r.random() < whole
        size = r.choice((0, 1, sdr.mtu, sdr.max_bytes, sdr.max_bytes, r.randint(0, sdr.max_bytes)))
        data = r.randbytes(min(size, sdr.max_bytes))
        user = r.getrandbits(32)
        last = max(1, -(-len(data) // sdr.mtu)) - 1
        budget -= last
        for i in range(last + 1):
            piece = data[i * sdr.mtu:(i + 1) * sdr.mtu]
            more = {"sport": 0xC000 + r.randrange(64)} if spread else {}
            if r.random() < wrong:
                more.update(r.choice(({"rkey": sdr.rkey ^ 1 << r.randrange(32)}, {"length": len(piece) + r.choice((1, 4, 1 << 31))},
                                      {"address": r.getrandbits(64)}, {"opcode": 0x2A}, {"se": True},
                                      {"immediate": r.getrandbits(32)})))
            # a message may end by SE alone, by a short packet alone, or reach the maximum without either
            more.setdefault("se", i == last and (r.random() < 0.9 or len(data) < sdr.max_bytes and len(piece) == sdr.mtu))
            channel = r.randrange(sdr.channels)
            frame = sdr.write(k, i, piece, channel=channel, user=user, psn=psn_of(sdr.qpn(k, channel), i), v6=v6, **more)
            at += 1
            for _ in range(1 + (r.random() < repeat) + (r.random() < repeat / 4)):
                if not lost and r.random() >= loss:
                    arrivals.append((at + r.random() * window + (r.random() * 500 if r.random() < far else 0), at, frame))
            if r.random() < old:
                late.append((k + r.randint(1, sdr.slots * (sdr.generations + 1)), at, frame))
        if budget < 0:
            break
    arrivals += [(begun[k] if k < len(begun) else at + k, number, frame) for k, number, frame in late]
    arrivals.sort(key=lambda a: a[:2])
    return [frame for _, _, frame in arrivals]


def compare(result, name, model, seed):
    context = result.report["contexts"][name]
    what = "seed %d" % seed
    equal(context["drops"], model.drops, what + " drops")
    equal(context["packets"], model.taken, what + " taken")
    got = context["messages"]
    expected = model.report()
    equal(len(got), len(expected), what + " messages")
    for g, e in zip(got, expected):
        equal({key: g[key] for key in e}, e, what + " message")
    if result.dump[name] != model.memory():
        where = next(i for i, (a, b) in enumerate(zip(result.dump[name], model.memory())) if a != b)
        raise AssertionError("%s: memory differs at byte %d (mtu %d)" % (what, where, model.sdr.mtu))


def many(run, seeds, posts_of, workers=1, spread=False):
    """Each seed is one context; the packets of all of them take turns."""
    config, post, models, streams = NIC + "workers = %d\n" % workers, {}, {}, []
    for number, seed in enumerate(seeds):
        r = random.Random(seed)
        sdr = parameters(r, 0x1000 + 64 * number)
        name = "s%d" % number
        post[name] = posts_of(r, sdr)
        v6 = r.random() < 0.3
        frames = traffic(r, sdr, r.randint(1, max(1, min(40, 3 * sdr.slots * sdr.generations))), v6, spread)
        models[name] = p.SdrReceiver(sdr, post[name])
        for frame in frames:
            models[name].receive_frame(frame, v6)
        config += sdr.ini(name)
        streams.append(frames)
    order = [n for n, stream in enumerate(streams) for _ in stream]
    random.Random(seeds[0]).shuffle(order)
    turn = [iter(stream) for stream in streams]
    result = run.replay(config, [next(turn[n]) for n in order], post=post, dump=list(models))
    for number, seed in enumerate(seeds):
        compare(result, "s%d" % number, models["s%d" % number], seed)
    return result


def chunked(first, count):
    return [list(range(start, min(start + AT_ONCE, first + count))) for start in range(first, first + count, AT_ONCE)]


@rule("the model itself takes a whole message and nothing else")
def _():
    sdr = p.Sdr()
    data = bytes(range(256)) * 5 + b"tail"
    model = p.SdrReceiver(sdr, 2)
    for frame in sdr.message(0, data, user=0xCAFEF00D) + sdr.message(3, data):
        model.receive_frame(frame)
    equal(model.memory(), data.ljust(2 * 8192, b"\0"))
    equal(model.drops, {"not-posted": 6})
    equal(model.report()[0]["chunk_bitmap"], "11")
    equal(model.report()[0]["immediate"], None)  # 6 packets carry 6 of 8 fragments
    equal(model.report()[1]["complete"], False)


@rule("bitmaps, memory, immediates and drops are the model's, with loss, repeats, reordering and faults, under every seed")
def _(run):
    for seeds in chunked(1, SEEDS):
        many(run, seeds, lambda r, sdr: r.randint(1, sdr.slots * sdr.generations * 3))


@rule("the same on two workers, the packets of each message spread over both")
def _(run):
    for seeds in chunked(1000001, max(AT_ONCE, SEEDS // 5)):
        many(run, seeds, lambda r, sdr: r.randint(1, sdr.slots), workers=2, spread=True)


@rule("one and two workers give the same report of every context")
def _(run):
    seeds = list(range(77, 177))
    one = many(run, seeds, lambda r, sdr: r.randint(1, sdr.slots), workers=1, spread=True)
    two = many(run, seeds, lambda r, sdr: r.randint(1, sdr.slots), workers=2, spread=True)
    busy = [w["packets"] for w in two.report["workers"]]
    assert len(busy) == 2 and min(busy) > sum(busy) / 4, "the second worker had nothing to do: %r" % busy
    equal(two.dump, one.dump)
    for name, context in one.report["contexts"].items():
        equal(two.report["contexts"][name]["messages"], context["messages"], name)
        equal(two.report["contexts"][name]["drops"], context["drops"], name)


# ---- slots that move on by themselves, against what was sent: no model, no rule, only whose bytes are where --------------

class Stream:
    """Messages sent in order. packets: (message, offset, qp, how many packets were sent on that QP before, frame, payload).
    arrived: those that are not lost. Messages lost whole are fewer than slots in a row, and fewer than generations - 1 in a
    row of one slot: a slot that has missed a whole turn of its generations cannot know. Of the others one packet in five is
    lost, with edges only inner ones."""

    def __init__(self, r, sdr, count, kind, edges=False):
        self.sdr, self.count, self.packets, self.arrived, self.gone = sdr, count, [], [], set()
        psn_of, sent = numbering(r, kind), {}
        for k in range(count):
            mates = [k - turn * sdr.slots for turn in range(1, sdr.generations - 1)]
            if (r.random() < 0.3 and sdr.generations > 2 and not all(m in self.gone for m in mates) and
                    not all(k - d in self.gone for d in range(1, sdr.slots))):
                self.gone.add(k)
            total = r.randint(1, sdr.max_bytes // sdr.mtu)
            there = [i for i in range(total) if r.random() < 0.8 or edges and i in (0, total - 1)] or [r.randrange(total)]
            for i in range(total):
                qp = sdr.qpn(k, i)
                payload = bytes(r.randrange(1, 256) for _ in range(sdr.mtu))
                frame = sdr.write(k, i, payload, channel=i, se=i == total - 1, psn=psn_of(qp, i))
                self.packets.append((k, i, qp, sent.setdefault(qp, 0), frame, payload))
                sent[qp] += 1
                if k not in self.gone and i in there:
                    self.arrived.append(self.packets[-1])

    def check(self, result, name, frames, what):
        """All that has arrived in time is where it belongs, and what came late is there too, or is nowhere."""
        sdr, memory, context = self.sdr, result.dump[name], result.report["contexts"][name]
        for k, i, qp, number, frame, payload in self.packets:
            at = k * sdr.max_bytes + i * sdr.mtu
            there = memory[at:at + sdr.mtu]
            assert there == payload or not any(there), "%s: message %d packet %d has other bytes" % (what, k, i)
        for k, i, qp, number, frame, payload in self.arrived:
            at = k * sdr.max_bytes + i * sdr.mtu
            assert memory[at:at + sdr.mtu] == payload, "%s: message %d packet %d is lost" % (what, k, i)
        own = sum(len(payload) for _, _, _, _, _, payload in
                  {p[:2]: p for p in self.packets if any(memory[p[0] * sdr.max_bytes + p[1] * sdr.mtu:][:sdr.mtu])}.values())
        equal(sum(map(bool, memory)), own, what + " bytes that nobody sent")
        equal(set(context["drops"]) | {"late"}, {"late"}, what)
        equal(context["packets"] + context["drops"].get("late", 0), frames, what)
        equal(sum(m["late"] for m in context["messages"]), context["drops"].get("late", 0), what)
        return context


def streams(run, shapes, late_by=None):
    """shapes: (kind of PSNs, slots, generations, channels). late_by(slots, generations): packets come again, or after all,
    that many messages after their own. Returns how many were late."""
    config, post, made = NIC, {}, {}
    for number, (kind, slots, generations, channels) in enumerate(shapes):
        r = random.Random(number)
        sdr = p.Sdr(qp=0x1000 + 64 * number, mtu=64, chunk=64, max_bytes=64 * r.choice((1, 2, 4)), slots=slots,
                    generations=generations, channels=channels)
        lap = slots * generations
        stream = Stream(r, sdr, 4 * lap + r.randrange(lap), kind, edges=kind == "offset")
        frames, highest, newest = [], -1, {}
        for k, i, qp, place, frame, payload in stream.arrived:
            frames.append(frame)
            highest, newest[qp] = k, (k, place)
            if late_by and k >= 2 * lap and r.random() < 0.5:
                by = late_by(slots, generations)
                old = [q for q in stream.packets if highest - by <= q[0] < highest and q[2] in newest and
                       (q[3] <= newest[q[2]][1] or q[0] == newest[q[2]][0])]
                frames += [q[4] for q in r.sample(old, min(len(old), 3))]
                edge = [q for q in old if q[0] == highest - by]
                frames += [r.choice(edge)[4]] if edge else []
        name = "s%d" % number
        config, post[name], made[name] = config + sdr.ini(name), stream.count, (stream, frames)
    turn = {name: iter(frames) for name, (_, frames) in made.items()}
    order = [name for name, (_, frames) in made.items() for _ in frames]
    random.Random(1).shuffle(order)
    result, late = run.replay(config, [next(turn[name]) for name in order], post=post, dump=list(made)), 0
    for number, (name, (stream, frames)) in enumerate(made.items()):
        context = stream.check(result, name, len(frames), "stream %d, %s" % (number, shapes[number]))
        if not late_by:
            equal(context["drops"], {}, "stream %d" % number)
        late += context["drops"].get("late", 0)
    return late


@rule("of a lossy capture in order every packet lands in its own message, also after messages lost whole, PSNs or not")
def _(run):
    streams(run, [(kind, slots, generations, channels) for kind in ("counted", "zero", "offset") for slots in (1, 2, 3, 5)
                  for generations in (3, 4, 5) for channels in (1, 2)])


@rule("with two generations too, where PSNs count packets: an incomplete message makes way")
def _(run):
    streams(run, [("counted", slots, 2, 1) for slots in (1, 2, 3, 4, 8) for _ in range(5)])


@rule("a packet up to slots * generations - 1 messages late touches no other message, also the newest one of its QP if "
      "something of its message came in time")
def _(run):
    late = streams(run, [("counted", slots, generations, 1 if generations == 2 else channels) for slots in (1, 2, 3, 5)
                         for generations in (2, 3, 4, 5) for channels in (1, 1, 2, 3)],
                   lambda slots, generations: slots * generations - 1)
    assert late > 1000, late


@rule("without PSNs that is so for packets up to slots * (generations - 1) - 1 messages late")
def _(run):
    late = streams(run, [(kind, slots, generations, channels) for kind in ("zero", "offset") for slots in (1, 2, 3, 5)
                         for generations in (3, 4, 5) for channels in (1, 2)],
                   lambda slots, generations: slots * (generations - 1) - 1)
    assert late > 1000, late


@rule("a packet that comes late, by up to generations - 2 turns of its slot, changes neither memory nor bitmaps of what is there now")
def _(run):
    sdr = p.Sdr(mtu=256, chunk=512, max_bytes=2048, slots=3, generations=4)
    r = random.Random(5)
    count = 3 * 4 * 3
    data = [r.randbytes(2048) for _ in range(count)]
    frames, late, model = [], 0, p.SdrReceiver(sdr, count)
    for k in range(count):
        whole = sdr.message(k, data[k])
        lost = r.sample(range(8), 2)
        frames += [frame for i, frame in enumerate(whole) if i not in lost]
        for turns in (1, 2):
            old = k - turns * sdr.slots
            if old >= 0:
                frames += r.sample(sdr.message(old, data[old]), 4)
                late += 4
    result = run.replay(NIC + sdr.ini(), frames, post={"sdr0": count}, dump=["sdr0"])
    equal(result.drops(), {"late": late})
    equal(sum(m["late"] for m in result.report["contexts"]["sdr0"]["messages"]), late)
    for k, message in enumerate(result.report["contexts"]["sdr0"]["messages"]):
        equal((message["packets"], message["generation"], message["id"]), (6, k // 3 % 4, k % 3))
        got = result.dump["sdr0"][k * 2048:(k + 1) * 2048]
        missing = 0
        for i in range(8):
            piece = got[i * 256:(i + 1) * 256]
            missing += piece == bytes(256)
            assert piece in (bytes(256), data[k][i * 256:(i + 1) * 256]), "message %d packet %d has another one's bytes" % (k, i)
        equal(missing, 2)


@rule("the user's immediate is whole once enough packets have come, and null before")
def _(run):
    for split, needed in (((10, 18, 4), 8), ((8, 22, 2), 16), ((8, 16, 8), 4), ((4, 12, 16), 2), ((3, 28, 1), 32)):
        sdr = p.Sdr(mtu=64, chunk=64, max_bytes=64 * 40, slots=4, split=split)
        frames = sdr.message(0, bytes(64 * 40), user=0xDEADBEEF)
        for count, expected in ((needed - 1, None), (needed, 0xDEADBEEF)):
            result = run.replay(NIC + sdr.ini(), frames[:count], post={"sdr0": 1})
            equal(result.report["contexts"]["sdr0"]["messages"][0]["immediate"], expected, str(split))


@rule("messages are listed in the order of posting, also those of which nothing came")
def _(run):
    sdr = p.Sdr()
    result = run.replay(NIC + sdr.ini(), sdr.message(1, bytes(1024)), post={"sdr0": 11})
    messages = result.report["contexts"]["sdr0"]["messages"]
    equal([(m["id"], m["generation"]) for m in messages], [(k % 4, k // 4 % 2) for k in range(11)])
    equal([m["packets"] for m in messages], [0, 4] + [0] * 9)
    equal(messages[1]["complete"], True)
    equal(messages[10]["chunk_bitmap"], "00000000")


@rule("a repeat that tells the end which the first copy did not tell completes the message, on one worker and on two")
def _(run):
    sdr = p.Sdr(mtu=256, chunk=1024, max_bytes=8192)
    data = bytes(i % 255 + 1 for i in range(6 * 256))
    frames = [sdr.write(0, i, data[i * 256:(i + 1) * 256], sport=0xC000 + i) for i in range(6)]
    frames.append(sdr.write(0, 5, data[5 * 256:], se=True, sport=0xC000 + 5))
    for workers in (1, 2):
        config = NIC + "workers = %d\n" % workers + sdr.ini()
        before, after = (run.replay(config, part, post={"sdr0": 1}).report["contexts"]["sdr0"]["messages"][0]
                         for part in (frames[:6], frames))
        equal((before["chunk_bitmap"], before["complete"]), ("10000000", False))
        equal((after["chunk_bitmap"], after["complete"], after["packets"], after["duplicates"]), ("11", True, 6, 1))


@rule("sdr with PSNs of any order, gaps and repeats places every packet")
def _(run):
    sdr = p.Sdr()
    r = random.Random(3)
    data = r.randbytes(8192)
    frames = [sdr.write(0, i, data[i * 256:(i + 1) * 256], psn=r.choice((0, 0xFFFFFF, r.getrandbits(24)))) for i in range(32)]
    result = run.replay(NIC + sdr.ini(), frames, post={"sdr0": 1}, dump=["sdr0"])
    equal(result.dump["sdr0"], data)
    equal(result.report["contexts"]["sdr0"]["messages"][0]["complete"], True)


main()
