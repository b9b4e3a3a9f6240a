# SPDX-License-Identifier: BSD-3-Clause
"""A NIC of another process: `spindle run`, with a port to nowhere, whose packets to itself it loops back."""

import errno
import os
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import spindle
from spindle import rdma
from test_world import code

INI = "[nic]\nname = own\nip = 192.0.2.1/24\nport = net_null0\n"
DATA = bytes(range(256)) * 1000


class Attached(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="spindle-py-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        if len(cls.folder) > 80:
            raise unittest.SkipTest("the path of the temporary directory is too long for a socket")
        os.environ["SPINDLE_SOCKETS"] = cls.folder
        cls.run_nic()
        cls.addClassCleanup(cls.end_nic)

    @classmethod
    def run_nic(cls):
        file = os.path.join(cls.folder, "nic.ini")
        with open(file, "w") as f:
            f.write(INI)
        with open(os.path.join(cls.folder, "stderr"), "w") as errors:
            cls.process = subprocess.Popen([os.environ["SPINDLE_COMMAND"], "run", "-c", file, "--", "--vdev", "net_null0,no-rx=1"],
                                           env={**os.environ, "RUNTIME_DIRECTORY": cls.folder}, stdin=subprocess.PIPE,
                                           stdout=subprocess.PIPE, stderr=errors)
        ready, _, _ = select.select([cls.process.stdout], [], [], 60)
        line = os.read(cls.process.stdout.fileno(), 4096).decode() if ready else ""
        if "own ready" not in line:
            with open(os.path.join(cls.folder, "stderr")) as f:
                raise AssertionError("spindle run: %s%s" % (line, f.read()))

    @classmethod
    def end_nic(cls, number=signal.SIGTERM):
        cls.process.send_signal(number)
        cls.process.communicate(timeout=60)

    def test_a_nic_that_is_not_there_is_named(self):
        with code(errno.ENOENT) as c:
            spindle.attach("another")
        self.assertIn("another", c.text)
        with code(errno.EINVAL):
            spindle.attach("no name!")

    def test_reliable_messages_between_two_applications_and_threads(self):
        with spindle.attach("own") as one, spindle.attach("own") as two:
            self.assertEqual(one.address(), "192.0.2.1")
            source, sink = one.memory(len(DATA)), two.memory(len(DATA))
            source.write(DATA)
            to, at = one.sdr().qp(), two.sdr().qp()
            to.connect(at.info)
            at.connect(to.info)
            send, receive = to.reliable(), at.reliable()
            wrong = []

            def received():  # each thread has a device of its own here
                try:
                    for i in range(3):
                        with receive.receive(sink) as got:
                            got.wait(30)
                            self.assertEqual(got.status().immediate, i)
                    receive.close(quiet=0.05)
                except BaseException as e:
                    wrong.append(e)
            thread = threading.Thread(target=received)
            thread.start()
            for i in range(3):
                with send.send(source, immediate=i) as sent:
                    sent.wait(30)
            thread.join()
            self.assertEqual(wrong, [])
            self.assertEqual(sink.read(), DATA)
            with code(errno.EOPNOTSUPP):
                one.register(bytearray(100))

    def test_threads_share_a_device_while_one_waits(self):
        with spindle.attach("own") as device:
            flag = threading.Event()
            waiter = threading.Thread(target=lambda: device.wait(flag.is_set, 60))
            waiter.start()
            for _ in range(20):
                device.memory(4096).close()
            flag.set()
            waiter.join(60)
            self.assertFalse(waiter.is_alive())
            self.assertRaises(spindle.Timeout, device.wait, lambda: False, 0.01)

    def test_closing_while_another_thread_waits_is_an_error_there(self):
        device = spindle.attach("own")
        said = []

        def wait():
            try:
                device.wait(lambda: False, 60)
            except spindle.ClosedError as e:
                said.append(e)
        thread = threading.Thread(target=wait)
        thread.start()
        device.close()
        thread.join(60)
        self.assertEqual(len(said), 1)
        device.close()

    def test_puts_and_mailboxes(self):
        with spindle.attach("own") as device:
            source, sink = device.memory(len(DATA)), device.memory(len(DATA))
            source.write(DATA)
            here, there = device.rvma(), device.rvma()
            window = there.window(7, threshold=len(DATA))
            window.post(sink)
            put = here.peer(there.address).put(7, source)
            window.wait(1, 30)
            put.wait(30)
            self.assertEqual(sink.read(), DATA)

    def test_a_context_of_any_handler(self):
        with spindle.attach("own") as device, device.context("reflect", {"filter": "udp port 77"}, name="mine") as context:
            self.assertIsNone(context.event())
            self.assertEqual(context.area(), b"")
            with code(errno.EINVAL):
                device.context("reflect", {"filter": "udp prot 77"}, name="other")

    def test_verbs_by_the_connection_manager(self):
        with spindle.attach("own") as one, spindle.attach("own") as two:
            source, sink = one.memory(4096), two.memory(4096)
            source.write(b"by name")
            here, there = one.rdma(), two.rdma()
            pd, other = here.pd(), there.pd()
            cq, got = here.cq(), there.cq()
            qp, asked = pd.qp(cq), other.qp(got)
            region, target = pd.region(source), other.region(sink)
            listener = there.listen()
            wrong = []

            def accept():
                try:
                    request = listener.wait(30)
                    self.assertEqual((request.peer, request.private_data[:5]), ("192.0.2.1", b"hello"))
                    asked.init()
                    asked.post_recv([target.sge()], wr_id=4)
                    listener.accept(request, asked, b"welcome")
                except BaseException as e:
                    wrong.append(e)
            thread = threading.Thread(target=accept)
            thread.start()
            with code(errno.ECONNREFUSED):
                here.cm().connect(pd.qp(cq), "192.0.2.1", listener.port ^ 1, 30)
            cm = here.cm()
            answer = cm.connect(qp, "192.0.2.1", listener.port, 30, b"hello")
            thread.join()
            self.assertEqual((wrong, answer[:7]), ([], b"welcome"))
            qp.post_send(rdma.Op.SEND, [region.sge(0, 7)], wr_id=3)
            self.assertEqual([c.wr_id for c in cq.wait(1, 30) + got.wait(1, 30)], [3, 4])
            self.assertEqual(sink.read(0, 7), b"by name")
            cm.disconnect()

    def test_views_outlive_the_device_object(self):
        device = spindle.attach("own")
        view = device.memory(1 << 16).view()
        self.assertRaises(spindle.ExportedError, device.close)
        del device
        view[:] = b"\x55" * (1 << 16)
        view.release()

    def test_z_a_nic_that_dies_is_an_error_and_memory_stays(self):
        device = spindle.attach("own")
        memory = device.memory(1 << 16)
        view, window = memory.view(), device.rvma().window(1, threshold=5)
        thread_said = []

        def wait():
            try:
                window.wait(1, 60)
            except spindle.Error as e:
                thread_said.append(e.errno)
        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.05)
        type(self).end_nic(signal.SIGKILL)
        thread.join(60)
        self.assertIn(thread_said, ([errno.ECONNABORTED], [errno.ENODEV]))
        view[0] = 1
        view.release()
        with self.assertRaises(spindle.Error):
            device.memory(100)
        device.close()
        type(self).run_nic()


if __name__ == "__main__":
    unittest.main()
