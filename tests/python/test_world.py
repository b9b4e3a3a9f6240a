# SPDX-License-Identifier: BSD-3-Clause
"""NICs in virtual time, their memory, and wrong use of both: an exception each time, never a crash."""

import errno
import gc
import os
import subprocess
import sys
import threading
import unittest
import weakref

import spindle
from spindle.errors import error

try:
    import numpy
except ImportError:
    numpy = None


def code(number):
    """assertRaises for an Error with this errno."""
    class Context:
        def __enter__(self):
            return self

        def __exit__(self, kind, value, _):
            assert kind is not None, "no error; %s expected" % errno.errorcode[number]
            assert issubclass(kind, spindle.Error), value
            assert value.errno == number, value
            self.text = str(value)
            return True
    return Context()


def transfer(seed, size=300000, **link):
    """A reliable message from one NIC to another. Returns the times and counts of the run."""
    data = bytes(range(256)) * (size // 256)
    with spindle.World(seed) as world:
        a, b = world.pair(**{"bandwidth": 10e9, "delay": 1e-3, "loss": 0.02, **link})
        source, sink = a.memory(len(data)), b.memory(len(data))
        source.write(data)
        to, at = a.sdr().qp(nonce=1), b.sdr().qp(nonce=2)
        to.connect(at.info)
        at.connect(to.info)
        send, receive = to.reliable(), at.reliable()
        got, sent = receive.receive(sink), send.send(source, immediate=5)
        got.wait(timeout=20)
        sent.wait(timeout=20)
        assert sink.read() == data and got.status().immediate == 5
        return world.now_ps, send.status(), a.totals(), world._links[0].counters()


class World(unittest.TestCase):
    def test_a_message_arrives_over_a_lossy_wire(self):
        now, status, totals, link = transfer(1)
        self.assertGreater(link["lost"], 0)
        self.assertGreater(status["retransmitted"], 0)
        self.assertGreater(now, 2 * 10 ** 9)  # a round trip
        self.assertEqual(totals["sent"], link["offered"])
        self.assertEqual(totals["dropped"], 0)

    def test_the_same_seed_is_the_same_run_and_another_one_is_not(self):
        one, again, other = transfer(11), transfer(11), transfer(12)
        self.assertEqual(one, again)
        self.assertNotEqual(one, other)

    def test_many_transfers_go_in_the_order_in_which_they_were_made(self):
        def run(held):
            with spindle.World(3) as w:
                a, b = w.pair(delay=1e-4, bandwidth=1e9, loss=0.02)
                source, sink, ops = a.memory(20000), b.memory(20000), []
                for i in range(8):
                    held.append(bytearray(i * 1000))  # so that objects lie elsewhere each time
                    one, two = a.sdr().qp(nonce=2 * i + 1), b.sdr().qp(nonce=2 * i + 2)
                    one.connect(two.info)
                    two.connect(one.info)
                    send, receive = one.reliable(), two.reliable()
                    ops += [receive.receive(sink), send.send(source)]
                self.assertEqual([a._in_order(), b._in_order()], [[op._parent for op in ops[e::2]] for e in (1, 0)])
                times = []
                for op in ops:
                    op.wait(20)
                    times.append(w.now_ps)
                return times, w._links[0].counters(0), w._links[0].counters(1)
        held = []
        first = run(held)
        for _ in range(4):
            self.assertEqual(run(held), first)

    def test_impairments_do_what_they_say(self):
        with spindle.World() as w:
            a, b = w.pair(loss=1.0)
            c, d = w.pair(delay=0.25, back={"delay": 0.5})
            e, f = w.pair(burst=4, loss=0.2)
            qps = [x.sdr().qp(control_slots=4096) for x in (a, b, c, d, e, f)]
            for one, two in ((0, 1), (2, 3), (4, 5)):
                qps[one].connect(qps[two].info)
                qps[two].connect(qps[one].info)
            qps[0].send_datagram(b"lost")
            qps[2].send_datagram(b"there")
            self.assertFalse(w.run(0.7, lambda: qps[1].receive_datagram()))
            self.assertFalse(w.run(0.04))
            self.assertEqual(w.now, 0.74)
            self.assertIsNone(qps[3].receive_datagram())  # ARP there and back, then the datagram: 1 s
            w.wait(lambda: w._links[1].counters(0)["delivered"] >= 2, timeout=1)
            self.assertEqual(qps[3].receive_datagram(), b"there")
            self.assertAlmostEqual(w.now, 1.0, places=3)
            self.assertGreater(w._links[0].counters(0)["lost"], 0)
            self.assertEqual(w._links[0].counters(0)["delivered"], 0)
            for _ in range(20):
                for _ in range(100):
                    qps[4].send_datagram(b"burst")
                w.run(1)
            bursts = w._links[2].counters(0)
            self.assertGreater(bursts["offered"], 1000)
            self.assertTrue(0.1 < bursts["lost"] / bursts["offered"] < 0.3, bursts)  # the seed's, so always the same

    def test_wrong_links_and_nics_are_refused_by_name(self):
        with spindle.World() as w:
            for bad in ({"loss": 2}, {"loss": float("nan")}, {"delay": -1}, {"delay": float("inf")}, {"bandwidth": 10e30},
                        {"burst": 3, "loss": 0.9}, {"queue": -1}, {"corrupt": -0.1}):
                with self.subTest(bad):
                    with code(errno.EINVAL) as c:
                        w.link(**bad)
                    self.assertIn(str(next(iter(bad.values()))), c.text)
            self.assertRaises(TypeError, w.link, back={"los": 1})
            link = w.link()
            for addresses, word in ((["300.0.0.1"], "300"), (["10.0.0.1/77"], "10.0.0.1"), (["10.0.0.1/x"], "prefix")):
                with self.subTest(addresses):
                    with code(errno.EINVAL) as c:
                        w.nic(link.ports[0], addresses)
                    self.assertIn(word, c.text)
            with code(errno.EINVAL):
                w.nic(link.ports[0], ["10.0.0.1"] * 20)
            w.nic(link.ports[0], ["10.0.0.1/24"])
            with code(errno.EINVAL):
                w.nic(link.ports[0], ["10.0.0.2/24"])
            with code(errno.EINVAL):
                link.counters(2)
            with code(errno.ENAMETOOLONG):
                w.nic(None, [], name="x" * 40)

    def test_contexts_take_any_handler_and_say_what_is_wrong_with_settings(self):
        with spindle.World() as w:
            a, b = w.pair()
            with a.context("count", {"filter": "udp port 9"}, name="nine") as context:
                self.assertEqual(context.qp(), 0)
                self.assertIsNone(context.event())
                self.assertIn("nine", a.report()["contexts"])
                with code(errno.EOPNOTSUPP):
                    context.call(0x100, [1])
                self.assertRaises(spindle.Error, context.call, 1, range(7))
            self.assertNotIn("nine", a.report()["contexts"])
            for handler, settings, word in (("count", {"filter": "udp prot 9"}, "filter"), ("count", {"bogus": 1}, "bogus"),
                                            ("nosuch", {}, "nosuch")):
                with self.subTest(word), self.assertRaises(spindle.Error) as c:
                    a.context(handler, settings, name="x")
                self.assertIn(word, str(c.exception))

    def test_an_exception_in_a_condition_ends_the_run_and_is_raised(self):
        with spindle.World() as w:
            w.pair()

            def bad():
                raise KeyError("mine")
            self.assertRaises(KeyError, w.run, 1, bad)
            for again in (lambda: w.run(1), w.close, lambda: w.link(), lambda: w.pair()):
                raised = []

                def inside():
                    try:
                        again()
                    except spindle.Error as e:
                        raised.append(e.errno)
                    return True
                self.assertTrue(w.run(1, inside))
                self.assertEqual(raised, [errno.EBUSY])
            self.assertFalse(w.run(0.5))
            self.assertRaises(spindle.Timeout, w.wait, lambda: False, 0.1)
            self.assertRaises(TimeoutError, w.wait, lambda: False)

    def test_threads_may_share_a_world(self):
        with spindle.World() as w:
            a, b = w.pair(loss=0.1, delay=1e-4)
            wrong, qps = [], []
            for i in range(4):
                one, two = a.sdr().qp(), b.sdr().qp()
                one.connect(two.info)
                two.connect(one.info)
                qps.append((one.reliable(), two.reliable(), a.memory(50000), b.memory(50000)))

            def work(send, receive, source, sink, byte):
                try:
                    for _ in range(5):
                        source.write(bytes([byte]) * 50000)
                        with receive.receive(sink) as got, send.send(source) as sent:
                            got.wait(10)
                            sent.wait(10)
                            if sink.read() != source.read():
                                wrong.append("bytes of %d" % byte)
                except BaseException as e:
                    wrong.append(e)
            threads = [threading.Thread(target=work, args=(*q, i + 1)) for i, q in enumerate(qps)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertEqual(wrong, [])

    def test_a_forked_child_is_refused_and_ends_in_good_order(self):
        script = ("import os, sys, gc, errno, spindle\n"
                  "w = spindle.World()\n"
                  "a, b = w.pair()\n"
                  "m = a.memory(100)\n"
                  "child = os.fork()\n"
                  "if not child:\n"
                  "    for call in (w.run, m.view, a.address, w.close):\n"
                  "        try:\n"
                  "            call()\n"
                  "        except spindle.Error as e:\n"
                  "            assert e.errno == errno.EPERM, e\n"
                  "        else:\n"
                  "            os._exit(2)\n"
                  "    del m, a, b, w, call\n"
                  "    gc.collect()\n"
                  "    sys.exit(7)\n"
                  "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7\n"
                  "m.write(b'still ours')\n"
                  "w.close()\n")
        path = os.path.dirname(os.path.dirname(spindle.__file__))
        run = subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.PIPE, text=True)
        self.assertEqual((run.returncode, run.stderr), (0, ""))


class Misuse(unittest.TestCase):
    def test_random_calls_do_not_end_the_interpreter(self):
        here = os.path.dirname(os.path.abspath(__file__))
        for seed in range(1, 41) if os.environ.get("SPINDLE_LONG") else (1, 4):
            run = subprocess.run([sys.executable, os.path.join(here, "misuse.py"), str(seed), "700"], stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True,
                                 env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(spindle.__file__))})
            self.assertEqual(run.returncode, 0, "seed %d: %s" % (seed, run.stdout[-3000:]))
            self.assertGreater(int(run.stdout.split()[0]), 30, run.stdout)


class Memory(unittest.TestCase):
    def setUp(self):
        self.world = spindle.World()
        self.nic, self.peer = self.world.pair()

    def tearDown(self):
        self.world.close()

    def test_a_view_is_the_memory_itself(self):
        memory = self.nic.memory(5000)
        view = memory.view()
        self.assertEqual((len(memory), len(view), bytes(view[:4])), (5000, 5000, b"\0\0\0\0"))
        view[10:13] = b"abc"
        self.assertEqual(memory.read(9, 5), b"\0abc\0")
        memory.write(b"xyz", 4997)
        self.assertEqual(bytes(view[4997:]), b"xyz")
        for offset, length in ((4998, 3), (-1, 2), (0, 5001), (6000, 0)):
            with code(errno.EFAULT):
                memory.read(offset, length)
        with code(errno.EFAULT):
            memory.write(b"1234", 4997)
        for size in (0, 1 << 62):
            self.assertRaises(spindle.Error, self.nic.memory, size)
        self.assertRaises(OverflowError, self.nic.memory, -1)
        view.release()

    def test_it_is_not_closed_while_views_exist(self):
        memory = self.nic.memory(4096)
        whole, part = memory.view(), memory.view()[100:200]
        for close in (memory.close, self.nic.close, self.world.close):
            self.assertRaises(spindle.ExportedError, close)
            self.assertRaises(BufferError, close)
        whole.release()
        self.assertRaises(spindle.ExportedError, memory.close)
        part[0] = 7
        self.assertEqual(memory.read(100, 1), b"\7")
        part.release()
        memory.close()
        memory.close()
        self.assertTrue(memory.closed)
        for use in (memory.view, memory.read, lambda: memory.write(b"x")):
            self.assertRaises(spindle.ClosedError, use)

    @unittest.skipUnless(numpy, "python3-numpy is not installed")
    def test_arrays_are_the_memory_itself_and_keep_it_open(self):
        memory = self.nic.memory(4096)
        array = memory.numpy("<u4", 16, 10)
        array[:] = range(10)
        self.assertEqual(memory.read(20, 4), b"\1\0\0\0")
        derived = array.reshape(2, 5)[1]
        del array
        self.assertRaises(spindle.ExportedError, memory.close)
        derived[0] = 9
        self.assertEqual(memory.read(36, 1), b"\t")
        del derived
        memory.close()

    def test_views_keep_world_and_memory_alive(self):
        world = spindle.World()
        nic, _ = world.pair()
        gone = weakref.ref(world)
        view = nic.memory(1 << 20).view()[5:]
        del world, nic, _
        gc.collect()
        self.assertIsNotNone(gone())
        view[:] = b"\xaa" * len(view)  # would crash if it were unmapped
        self.assertEqual(view[-1], 0xAA)
        del view
        gc.collect()
        self.assertIsNone(gone())

    def test_memory_that_nobody_holds_is_given_back(self):
        before = self.nic.report()["memory_used"]
        for _ in range(50):
            self.nic.memory(1 << 20)
        gc.collect()
        self.nic.address()
        self.assertEqual(self.nic.report()["memory_used"], before)

    def test_the_programs_own_memory_is_used_where_it_lies(self):
        data = bytearray(b"mine" * 1000)
        memory = self.nic.register(data)
        self.assertRaises(BufferError, data.extend, b"x")
        sink = self.peer.memory(4000)
        window = self.peer.rvma().window(3, threshold=4000)
        window.post(sink)
        data[0:4] = b"MINE"
        put = self.nic.rvma().peer(window._parent.address).put(3, memory)
        put.wait(5)
        window.wait(1, 5)
        self.assertEqual(sink.read(0, 8), b"MINEmine")
        memory.close()
        data.extend(b"x")
        self.assertRaises((BufferError, TypeError, ValueError), self.nic.register, b"constant")

    def test_worlds_leave_nothing_behind_of_what_was_not_closed(self):
        def resident():
            with open("/proc/self/statm") as f:
                return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")

        def run():
            for seed in range(40):
                with spindle.World(seed) as w:
                    for nic in w.pair():
                        qps = [nic.sdr().qp().reliable() for _ in range(5)]
                        nic.rvma().window(1)
                        nic.rdma().pd().region(nic.memory(4096))
                        qps[0]._parent.close()
                        self.assertTrue(qps[0].closed)
            gc.collect()
        run()
        before = resident()
        run()
        self.assertLess(resident() - before, 32 << 20)  # four times that, if the library kept it

    def test_a_registered_view_of_memory_ends_with_its_world(self):
        script = ("import gc, spindle\n"
                  "w = spindle.World()\n"
                  "a, b = w.pair()\n"
                  "m = a.register(b.memory(100).view())\n"
                  "w.me = [w, m]\n"  # a circle
                  "del w, a, b, m\n"
                  "gc.collect()\n")
        path = os.path.dirname(os.path.dirname(spindle.__file__))
        run = subprocess.run([sys.executable, "-X", "faulthandler", "-c", script], env={**os.environ, "PYTHONPATH": path},
                             stderr=subprocess.PIPE, text=True)
        self.assertEqual((run.returncode, run.stderr), (0, ""))

    def test_memory_in_use_is_not_closed(self):
        sink, qp = self.peer.memory(4096), self.peer.sdr().qp()
        qp.connect(self.nic.sdr().qp().info)
        qp.receive(sink)
        self.world.run(1e-3)
        with code(errno.EBUSY):
            sink.close()
        qp.close()
        sink.close()

    def test_closed_objects_say_so(self):
        a = self.nic
        sdr, rvma, rdma = a.sdr(), a.rvma(), a.rdma()
        qp, memory, pd, cq = sdr.qp(), a.memory(100), rdma.pd(), rdma.cq()
        reliable = a.sdr().qp().reliable()
        region, pair, window, peer = pd.region(memory), pd.qp(cq), rvma.window(1), rvma.peer(rvma.address)
        everything = [sdr, rvma, rdma, qp, memory, pd, cq, region, pair, window, peer, reliable]
        link = self.world._links[0]
        a.close()
        uses = [a.address, lambda: a.memory(1), a.sdr, a.rvma, a.rdma, lambda: a.context("count"), sdr.qp, lambda: qp.info,
                lambda: qp.send(memory), lambda: qp.connect(b"\0" * 128), qp.receive_datagram, qp.reliable, memory.view, rdma.limits,
                rdma.pd, rdma.cq, rdma.listen, lambda: pd.region(memory), lambda: pd.qp(cq), cq.poll, lambda: cq.wait(1, 0),
                pair.init, pair.query, lambda: pair.post_send(2, inlined=b"x"), lambda: pair.post_recv([region.sge()]),
                lambda: rvma.address, lambda: rvma.window(2), lambda: window.epoch, window.completed, lambda: window.post(memory),
                lambda: peer.put(1, memory), lambda: reliable.send(memory), reliable.status, qp.status, qp.disconnect]
        for i, use in enumerate(uses):
            with self.subTest(i), self.assertRaises(spindle.ClosedError):
                use()
        for one in everything:
            self.assertTrue(one.closed)
            one.close()
        self.assertGreaterEqual(a.totals()["received"], 0)  # the NIC is still there
        self.world.close()
        self.world.close()
        for use in (self.world.run, self.world.pair, a.totals, a.report, link.counters, lambda: self.world.now):
            self.assertRaises(spindle.ClosedError, use)

    def test_memory_of_another_nic_is_refused(self):
        theirs, qp, pd = self.peer.memory(100), self.nic.sdr().qp(), self.nic.rdma().pd()
        rvma = self.nic.rvma()
        for use in (lambda: qp.send(theirs), lambda: qp.receive(theirs), lambda: pd.region(theirs), lambda: rvma.window(1).post(theirs),
                    lambda: rvma.peer(rvma.address).put(1, theirs)):
            with code(errno.EINVAL) as c:
                use()
            self.assertIn("another NIC", c.text)
        self.assertRaises(TypeError, qp.send, bytearray(5))

    def test_errors_are_the_systems_classes_too(self):
        self.assertIsInstance(error(errno.EAGAIN), BlockingIOError)
        self.assertIsInstance(error(errno.ETIMEDOUT, "x"), TimeoutError)
        self.assertIsInstance(error(errno.EBADF), ValueError)
        self.assertEqual(str(error(errno.EPERM, "what")), "[Errno 1] what: Operation not permitted")
