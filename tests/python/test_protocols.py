# SPDX-License-Identifier: BSD-3-Clause
"""SDR, RVMA and RDMA between two NICs in virtual time: the package's calls do what the library's do."""

import errno
import socket
import unittest

import spindle
from spindle import rdma, rvma
from test_world import code

DATA = bytes(i * 7 & 0xFF for i in range(100000))


class Pair(unittest.TestCase):
    link = {"delay": 1e-4, "bandwidth": 10e9}

    def setUp(self):
        self.world = spindle.World(5)
        self.a, self.b = self.world.pair(**self.link)
        self.source, self.sink = self.a.memory(len(DATA)), self.b.memory(len(DATA))
        self.source.write(DATA)

    def tearDown(self):
        self.world.close()

    def qps(self, **attributes):
        one, two = self.a.sdr().qp(**attributes), self.b.sdr().qp(**attributes)
        one.connect(two.info)
        two.connect(one.info)
        return one, two


class Sdr(Pair):
    def test_a_message_its_bitmap_and_its_immediate(self):
        one, two = self.qps(mtu=1000, chunk_bytes=10000)
        got = two.receive(self.sink)
        self.assertFalse(got.complete())
        sent = one.send(self.source, 0, 55000, immediate=0xABCD1234)
        self.assertFalse(sent.sent())
        got.wait(1)
        sent.wait(1)
        self.assertTrue(sent.sent())
        self.assertEqual(got.chunks(), [True] * 6)
        self.assertEqual(got.packets(5), [True] * 5)
        self.assertEqual(got.immediate(), 0xABCD1234)
        status = got.status()
        self.assertEqual((status.length, status.packets, status.complete), (55000, 55, True))
        got.release()
        got.release()
        self.assertRaises(spindle.ClosedError, got.status)
        self.assertEqual(self.sink.read(), DATA[:55000] + bytes(len(DATA) - 55000))
        self.assertEqual(two.status().completed, 1)
        for handle in (one, two):
            handle.close()
            handle.close()

    def test_pieces_in_any_order_and_what_is_missing(self):
        one, two = self.qps(mtu=1000, chunk_bytes=10000)
        got, sent = two.receive(self.sink, 0, 40000), one.stream(40000)
        sent.piece(self.source, at=30000, offset=30000, length=10000)
        sent.piece(self.source, at=0, length=13000)
        self.world.run(0.01)
        self.assertEqual(got.chunks(), [True, False, False, True])
        self.assertEqual(got.packets(1), [True] * 3 + [False] * 7)
        self.assertTrue(sent.sent())  # so far
        sent.piece(self.source, at=13000, offset=13000, length=17000)
        with code(errno.EINVAL):
            sent.piece(self.source, at=500, length=1000)
        with code(errno.EFAULT):
            sent.piece(self.source, at=0, offset=len(DATA) - 5, length=1000)
        sent.close()
        got.wait(1)
        self.assertEqual(self.sink.read(0, 40000), DATA[:40000])

    def test_limits_have_errors(self):
        one, two = self.qps(mtu=1000, chunk_bytes=10000, max_messages=2, max_message_bytes=20000)
        for _ in range(2):
            two.receive(self.sink, 0, 20000)
        self.assertRaises(BlockingIOError, two.receive, self.sink, 0, 20000)
        with code(errno.EINVAL):
            one.send(self.source, 0, 20001)
        with code(errno.EFAULT):
            one.send(self.source, len(DATA) - 10, 11)
        with code(errno.EISCONN):
            one.connect(two.info)
        for bad, word in (({"mtu": 63}, "mtu"), ({"split": "1+2"}, "split"), ({"mtu": 1000, "chunk_bytes": 1500}, "chunk")):
            with self.subTest(word), self.assertRaises(spindle.Error) as c:
                self.a.sdr().qp(**bad)
            self.assertIn(word, str(c.exception))
        self.assertRaises(OverflowError, self.a.sdr().qp, mtu=-1)
        self.assertRaises(OverflowError, one.send, self.source, 0, 10, 1 << 32)
        other = self.b.sdr().qp(mtu=512)
        with code(errno.EPROTO) as c:
            self.a.sdr().qp(mtu=1024).connect(other.info)
        self.assertIn("mtu", c.text)
        with code(errno.EINVAL):
            self.a.sdr().qp().connect(b"short")
        context = self.a.sdr()
        context.qp()
        with code(errno.EBUSY):
            context.close()

    def test_datagrams(self):
        one, two = self.qps()
        self.assertIsNone(two.receive_datagram())
        for data in (b"one", b"", b"x" * 1000):
            one.send_datagram(data)
            self.world.run(0.01)
            self.assertEqual(two.receive_datagram(), data)
        with code(errno.EMSGSIZE):
            one.send_datagram(b"x" * 5000)


class Lossy(Pair):
    link = {"delay": 1e-3, "bandwidth": 10e9, "loss": 0.05}

    def test_every_scheme_brings_all_bytes(self):
        for scheme in ("sr-rto", "sr-nack", "ec-mds", "ec-xor", "auto"):
            with self.subTest(scheme):
                ec = ("xor" if "xor" in scheme else "mds", 8, 4) if scheme[:2] in ("ec", "au") else None
                one, two = self.qps(chunk_bytes=1024, max_message_bytes=1 << 18, ec=ec)
                send, receive = one.reliable(scheme), two.reliable(scheme)
                self.sink.write(bytes(len(DATA)))
                got, sent = receive.receive(self.sink), send.send(self.source, immediate=3)
                with code(errno.EBUSY):
                    sent.close()
                got.wait(20)
                sent.wait(20)
                self.assertEqual(self.sink.read(), DATA)
                status = send.status()
                self.assertEqual((status["sent"], status["sent_failed"], len(status["coded_of"])), (1, 0, 15))
                if ec and scheme != "auto":
                    self.assertGreater(receive.status()["repaired"], 0)
                sent.close()
                got.close()
                receive.close(quiet=0.01)
                send.close()
                one.close()
                two.close()
        with code(errno.EINVAL) as c:
            self.qps()[0].reliable("tcp")
        self.assertIn("sr-nack", c.text)

    def test_failures_are_exceptions(self):
        one, two = self.qps()
        send, receive = one.reliable(timeout=0.05), two.reliable(recv_timeout=0.2)
        lost = send.send(self.source)  # nobody receives
        self.assertRaises(TimeoutError, lost.wait, 5)
        self.assertRaises(spindle.Timeout, lost.done)
        got = receive.receive(self.sink)
        got.cancel()
        with code(errno.ECANCELED):
            got.wait(5)

    def test_parity_by_hand_repairs_what_is_lost(self):
        one, two = self.qps(mtu=1024, chunk_bytes=1024, max_message_bytes=1 << 17, max_messages=64, ec=("mds", 16, 8))
        scratch_size = one.parity_bytes(65536)
        self.assertEqual(scratch_size, 32 * 1024)
        scratch, parity = self.a.memory(scratch_size), self.b.memory(scratch_size)
        got, other = two.receive(self.sink, 0, 65536), two.receive(parity)
        sent = [one.send(self.source, 0, 65536), one.parity(self.source, scratch, 0, 65536)]
        got.wait(5)
        self.assertEqual(self.sink.read(0, 65536), DATA[:65536])
        self.assertGreater(two.status().repaired, 0)
        for s in sent:
            s.wait(5)
        other.release()
        got.release()


class Rvma(Pair):
    def test_puts_complete_buffers_and_epochs_can_be_read_and_rewound(self):
        here, there = self.a.rvma(), self.b.rvma()
        window, peer = there.window(0x42, key=9, threshold=2000, readable=True), here.peer(there.address)
        for i in range(3):
            window.post(self.sink, i * 2000, 2000)
        puts = [peer.put(0x42, self.source, i * 1000, 1000, key=9, at=i % 2 * 1000) for i in range(4)]
        window.wait(2, 5)
        for put in puts:
            put.wait(5)
            self.assertTrue(put.done())
            put.close()
        self.assertEqual([(c.memory, c.offset, c.length, c.epoch, c.mailbox, c.partial) for c in window.completed()],
                         [(self.sink, 0, 2000, 0, 0x42, False), (self.sink, 2000, 2000, 1, 0x42, False)])
        self.assertEqual(self.sink.read(0, 4000), DATA[:4000])
        back = self.a.memory(500)
        peer.get(0x42, back, key=9, at=100, back=1).wait(5)
        self.assertEqual(back.read(), DATA[100:600])
        self.assertEqual(window.rewind(0).epoch, 0)
        self.assertEqual(window.epoch, 1)
        self.world.run(0.01)  # the other end knows, too, that the get has ended
        window.release(0)
        self.assertEqual((window.completed(), window.status().held), ([], 0))
        with code(errno.ENODATA):
            window.rewind(0)
        window.shut()
        with code(errno.ESHUTDOWN):
            window.post(self.sink)
        window.close()
        window.close()
        here.close()
        self.assertTrue(peer.closed)

    def test_refused_puts_say_why_each_time_they_are_asked(self):
        here, there = self.a.rvma(timeout=0.5), self.b.rvma()
        window, peer = there.window(1, key=9, mode=rvma.Mode.MANAGED, threshold=100), here.peer(tuple(there.address))
        for number, put in ((errno.ENOENT, lambda: peer.put(2, self.source)), (errno.ENOBUFS, lambda: peer.put(1, self.source, key=9)),
                            (errno.EACCES, lambda: peer.put(1, self.source, key=8))):
            op = put()
            for _ in range(2):
                with code(number):
                    op.wait(2)
            op.close()
        window.post(self.sink)
        peer.put(1, self.source, 0, 60, key=9).wait(1)
        peer.put(1, self.source, 60, 40, key=9, fenced=True).wait(1)
        self.assertEqual(window.epoch, 1)
        self.assertEqual(self.sink.read(0, 100), DATA[:100])
        with code(errno.EEXIST) as c:
            there.window(1)
        self.assertIn("0x1", c.text)
        with code(errno.ENODATA):
            there.window(5).inc_epoch()
        self.assertRaises(ValueError, there.window, 6, mode=7)
        lost = peer.put(1, None)
        self.assertRaises(spindle.Error, lost.wait, 5)


class Rdma(Pair):
    link = {"delay": 1e-4, "bandwidth": 10e9, "loss": 0.01}

    def both(self, type=rdma.QpType.RC, **more):
        self.ends = []
        for nic, memory in ((self.a, self.source), (self.b, self.sink)):
            context = nic.rdma()
            pd, cq = context.pd(), context.cq()
            qp = pd.qp(cq, type=type, **more)
            qp.init()
            self.ends.append((qp, cq, pd.region(memory), pd, context))
        (one, *_), (two, *_) = self.ends
        one.start(self.b.address(), two.number, psn=7, own_psn=5)
        two.start(self.a.address(), one.number, psn=5, own_psn=7)
        return self.ends[0][:3], self.ends[1][:3]

    def test_write_read_send_and_atomics_over_a_lossy_wire(self):
        (one, cq, here), (two, other, there) = self.both(inlined=64)
        one.post_send(rdma.Op.WRITE, [here.sge()], wr_id=1, remote=there.address, rkey=there.rkey)
        (done,) = cq.wait(1, 5)
        self.assertEqual((done.wr_id, done.status, done.op), (1, rdma.Status.OK, rdma.WcOp.WRITE))
        self.assertEqual(self.sink.read(), DATA)
        self.sink.write(bytes(8) + b"from there", 0)
        one.post_send(rdma.Op.FETCH_ADD, [here.sge(0, 8)], wr_id=2, remote=there.address, rkey=there.rkey, compare_add=5)
        one.post_send(rdma.Op.CAS, [here.sge(8, 8)], wr_id=3, remote=there.address, rkey=there.rkey, compare_add=5, swap=6)
        one.post_send(rdma.Op.READ, [here.sge(16, 10)], wr_id=4, remote=there.address + 8, rkey=there.rkey)
        self.assertEqual([c.wr_id for c in cq.wait(3, 5)], [2, 3, 4])
        self.assertEqual((self.source.read(0, 26), self.sink.read(0, 1)), (bytes(8) + b"\5" + bytes(7) + b"from there", b"\6"))
        two.post_recv([there.sge(100, 20)], wr_id=8)
        one.post_send(rdma.Op.SEND_IMM, inlined=b"inlined", imm=0x01020304, wr_id=5)
        (got,) = other.wait(1, 5)
        self.assertEqual((got.wr_id, got.length, got.imm, got.op, got.src_qp), (8, 7, 0x01020304, rdma.WcOp.RECV, got.src_qp))
        self.assertEqual(self.sink.read(100, 7), b"inlined")
        self.assertEqual((one.query()["state"], one.query()["ip"]), (rdma.State.RTS, self.b.address()))
        self.assertEqual([c.wr_id for c in cq.wait(1, 5)], [5])

    def test_a_wrong_key_is_a_status_and_flushes_the_rest(self):
        (one, cq, here), (_, _, there) = self.both()
        one.post_send(rdma.Op.WRITE, [here.sge(0, 10)], wr_id=1, remote=there.address, rkey=there.rkey ^ 0x100)
        one.post_send(rdma.Op.WRITE, [here.sge(0, 10)], wr_id=2, remote=there.address, rkey=there.rkey)
        self.assertEqual([(c.wr_id, c.status) for c in cq.wait(2, 5)],
                         [(1, rdma.Status.REM_ACCESS_ERR), (2, rdma.Status.FLUSHED)])
        self.assertEqual(self.sink.read(0, 10), bytes(10))

    def test_datagrams(self):
        (one, cq, here), (two, other, there) = self.both(rdma.QpType.UD)
        self.assertRaises(spindle.Error, one.post_send, rdma.Op.SEND, [here.sge(0, 10)])
        with self.ends[0][3].address_handle(self.b.address()) as ah:
            for _ in range(20):  # some are lost
                two.post_recv([there.sge(0, 100)])
                one.post_send(rdma.Op.SEND, [here.sge(0, 10)], ah=ah, remote_qp=two.number)
            self.assertEqual(len(cq.wait(20, 5)), 20)
            self.world.run(0.01)
            got = other.poll(20)
            self.assertGreater(len(got), 10)
            self.assertEqual((got[0].length, got[0].src_qp, self.sink.read(40, 10)), (50, one.number, DATA[:10]))

    def test_wrong_use_has_errors(self):
        (one, cq, here), (two, _, there) = self.both(send_wr=4, inlined=16)
        with code(errno.EFAULT):
            here.sge(len(DATA) - 4, 5)
        with code(errno.EINVAL):
            one.post_send(rdma.Op.SEND, [there.sge()])
        with code(errno.EFAULT):
            one.post_send(rdma.Op.SEND, [rdma.Sge(here, 5, len(DATA))])
        with code(errno.EMSGSIZE):
            one.post_send(rdma.Op.SEND, inlined=b"x" * 200)
        self.assertRaises(ValueError, one.post_send, 99, [here.sge()])
        self.assertRaises(OverflowError, one.post_send, rdma.Op.SEND_IMM, [here.sge()], imm=1 << 40)
        self.assertRaises(TypeError, one.modify, bogus=1)
        for _ in range(4):
            two.post_recv([there.sge(0, 10)])
            one.post_send(rdma.Op.SEND, [here.sge(0, 10)])
        with code(errno.EAGAIN):
            one.post_send(rdma.Op.SEND, [here.sge(0, 10)])
        with code(errno.EBUSY):
            cq.close()
        with code(errno.EBUSY):
            self.ends[0][3].close()
        for bad in (0, -1, 1 << 40):
            with code(errno.EINVAL):
                cq.poll(bad)
        with code(errno.EOPNOTSUPP) as c:
            self.ends[0][4].cm().connect(one, "10.0.0.2", 5)
        self.assertIn("real time", c.text)
        self.assertRaises(spindle.Timeout, cq.wait, 5, 1)
        self.assertEqual(len(cq.poll()), 4)  # those that were there stay
        here.close()
        with self.assertRaises(spindle.ClosedError):
            one.post_send(rdma.Op.SEND, [here.sge(0, 1)])
        one.close()
        cq.close()
        self.assertGreater(self.ends[0][4].limits()["qps"], 0)
        self.assertEqual(self.a.payload(socket.AF_INET6), 1416)


if __name__ == "__main__":
    unittest.main()
