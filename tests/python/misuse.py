# SPDX-License-Identifier: BSD-3-Clause
"""misuse.py SEED CALLS: random calls of the package's public methods with random arguments, in any state, by two threads.
Exceptions are fine; what may not happen is that the interpreter ends. test_world.py runs it."""

import faulthandler
import gc
import inspect
import random
import sys
import threading

import spindle
from spindle import rdma, rvma

faulthandler.enable()
SKIP = {"load", "wait"}  # wait() without a limit may last
FINE = (spindle.Error, TypeError, ValueError, OverflowError, AttributeError, KeyError, IndexError, MemoryError, BufferError)


def objects_of(value):
    for one in value if isinstance(value, (list, tuple)) and not hasattr(value, "_fields") else [value]:
        if type(one).__module__.startswith("spindle"):
            yield one


class Misuse:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.pool = []
        self.done = {}
        self.fresh()

    def fresh(self):
        world = spindle.World(self.random.randrange(1, 99))
        a, b = world.pair(loss=0.1, delay=1e-5)
        self.pool += [world, a, b, *world._links, a.memory(5000), b.memory(5000)]
        ends = []
        for nic in (a, b):
            context, sdr = nic.rdma(), nic.sdr()
            pd, cq, qp = context.pd(), context.cq(8), sdr.qp()
            mailboxes = nic.rvma()
            ends += [context, pd, cq, pd.qp(cq, send_wr=4), qp, mailboxes, mailboxes.window(1, threshold=100), sdr]
        self.pool += ends

    def argument(self, name):
        r = self.random
        if name == "timeout":
            return r.choice((0, 1e-6, 1e-4, 0.01))
        if name == "duration":
            return r.choice((0, 1e-6, 1e-4, 0.01, -1, float("nan")))
        if name == "size":
            return r.choice((0, 1, 100, 5000, 1 << 20, -1, 2 ** 64))
        if name in ("until", "done"):
            return lambda: False
        kind = r.random()
        if kind < 0.45 and self.pool:
            return r.choice(self.pool)
        if kind < 0.9:
            return r.choice((0, 1, 2, 3, 7, 64, 100, 1000, 4096, 5000, 5001, -1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 63, 2 ** 64 - 1,
                             2 ** 64, 0.5))
        return r.choice((None, "", "10.0.0.2", "::1", "count", b"", b"x" * 128, b"y" * 5000, [], {}, {"filter": "udp"}, ("mds", 4, 2),
                         bytearray(100), "sr-rto", "ec-mds", rdma.Op.SEND, rvma.Mode.MANAGED, [rdma.Sge(None, 0, 1)]))

    def call(self):
        if len(self.pool) < 20:
            self.fresh()
        one = self.random.choice(self.pool)
        names = [n for n, f in inspect.getmembers(type(one)) if not n.startswith("_") and n not in SKIP
                 and (inspect.isfunction(f) or isinstance(f, property))]
        if not names:
            return
        name = self.random.choice(names)
        # Worlds and NICs live longer than the rest.
        if name == "close" and isinstance(one, (spindle.World, spindle.Nic)) and self.random.random() < 0.8:
            return
        try:
            member = getattr(one, name)
            if callable(member):
                arguments = {}
                for key, p in inspect.signature(member).parameters.items():
                    if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL):
                        continue
                    if p.default is p.empty or self.random.random() < 0.3:
                        arguments[key] = self.argument(key)
                member = member(**arguments)
            self.done[type(one).__name__ + "." + name] = 1
        except FINE:
            return
        finally:
            if self.random.random() < 0.02 and len(self.pool) > 5:
                del self.pool[self.random.randrange(len(self.pool))]
            if self.random.random() < 0.01:
                gc.collect()
        self.pool += objects_of(member)
        if isinstance(member, memoryview) and len(member):
            member[self.random.randrange(len(member))] = 1
            if self.random.random() < 0.3:
                self.pool.append(member)
        while len(self.pool) > 120:
            del self.pool[self.random.randrange(len(self.pool))]


def main(seed, calls):
    misuse = Misuse(seed)

    def thread():
        other = Misuse(seed + 1)
        other.pool += misuse.pool
        for _ in range(calls // 4):
            other.call()
    beside = threading.Thread(target=thread)
    beside.start()
    for _ in range(calls):
        misuse.call()
    beside.join()
    print("%d methods did something" % len(misuse.done))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
