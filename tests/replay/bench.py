#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spindle replay as a test bench: impairments, pace, expectations, plug-ins, and what is wrong with their options."""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import packets  # noqa: E402
from packets import Sdr, ethernet, ipv4, udp  # noqa: E402
from replay import NIC, equal, main, rule  # noqa: E402

PLUGINS = sys.argv.pop(2) if len(sys.argv) > 2 else ""
START = 1700000000123456789
REFLECT = NIC + "[context echo]\nhandler = reflect\nfilter = udp port 9\n"
BYTES = 200


def datagram(i, size=BYTES):
    """Each frame is of `size` bytes and says its number, as four bytes from byte 42."""
    return ethernet(ipv4(udp(i.to_bytes(4, "big") + bytes(size - 46), sport=4000, dport=9), ident=i & 0xFFFF), 0x0800)


class Bench:
    """One configuration and one capture, for several runs."""

    def __init__(self, run, times, config=REFLECT, size=BYTES):
        self.run, self.times = run, times
        run.runs += 1
        self.out = run.path("bench-out.pcap")
        self.ini = run.write("bench.ini", config)
        self.capture = packets.write_capture(run.path("bench.pcap"), [(t, datagram(i, size)) for i, t in enumerate(times)],
                                             start=START)

    def __call__(self, *options, expect=0, out=True, report=True):
        arguments = ["replay", "-c", self.ini, *(["-w", self.out] if out else []), *(["--json"] if report else []), *options]
        self.process = self.run.command(*arguments, self.capture)
        equal(self.process.returncode, expect, "exit status (%s)" % self.process.stderr)
        return json.loads(self.process.stdout) if report and self.process.stdout else self.process

    def sent(self):
        """[(nanoseconds since the first packet, its number)]"""
        return [(t - START, int.from_bytes(frame[42:46], "big")) for t, frame in packets.read_capture(self.out)]

    def bytes(self):
        with open(self.out, "rb") as f:
            return f.read()


# ---- impairments -----------------------------------------------------------------------------------------------------------

@rule("the same seed loses, repeats and reorders the same packets, another one others; the report's link counts them")
def seeds(run):
    bench = Bench(run, [1000 * i for i in range(400)])
    options = ("--loss", "0.1", "--duplicate", "0.05", "--reorder", "0.1", "--reorder-delay", "5us", "--delay", "1ms")
    reports, files = [], []
    for seed in ("1", "1", "2"):
        reports.append(bench(*options, "--seed", seed))
        files.append(bench.bytes())
        sent, link = bench.sent(), reports[-1]["link"]
        numbers = [n for _, n in sent]
        equal(link["offered"], 400)
        equal(link["lost"], 400 - len(set(numbers)), "lost")
        equal(link["duplicated"], len(numbers) - len(set(numbers)), "duplicated")
        equal(link["delivered"], len(numbers), "delivered")
        equal(reports[-1]["packets"], len(numbers), "received")
        assert 15 < link["lost"] < 80 and 5 < link["duplicated"] < 50 and 15 < link["reordered"] < 80, link
        assert numbers != sorted(numbers), "nothing was overtaken"
        assert all(t - 1000 * n in (1000000, 1005000) for t, n in sent), "not 1 ms later, or 5 us more"
    equal((files[0], reports[0]), (files[1], reports[1]), "twice the same")
    assert files[0] != files[2] and reports[0]["link"] != reports[2]["link"], "another seed, and the same"


@rule("bursts lose packets together, jitter and distance delay them, corruption is counted; the order of options says nothing")
def bursts(run):
    bench = Bench(run, [1000 * i for i in range(400)])
    reports = [bench(*options) for options in (("--loss", "0.2", "--burst", "8"), ("--burst", "8", "--loss", "0.2"))]
    equal(reports[0], reports[1])
    got = {n for _, n in bench.sent()}
    begun = sum(n not in got and n - 1 in got for n in range(1, 400))
    assert 20 < reports[0]["link"]["lost"] < 180 and begun < reports[0]["link"]["lost"] / 3, (reports[0]["link"], begun)
    bench("--distance", "300km", "--jitter", "5us")
    sent = bench.sent()
    assert all(0 <= t - 1000 * n - 1000000 <= 5000 for t, n in sent) and len(sent) == 400, "not 1 ms and up to 5 us later"
    assert [n for _, n in sent] != sorted(n for _, n in sent), "nothing was overtaken"
    equal(bench("--corrupt", "1")["link"]["corrupted"], 400)


@rule("a link without faults changes nothing but the time, and bandwidth spaces the packets out")
def bandwidth(run):
    bench = Bench(run, [0] * 50, size=226)  # 226 + 24 bytes: 2000 bits
    bench("--bandwidth", "1G", "--delay", "10us")
    equal(bench.sent(), [(10000 + 2000 * (i + 1), i) for i in range(50)])
    bench.run.command("replay", "-c", bench.ini, "-w", bench.out, bench.capture)
    plain = bench.bytes()
    bench("--loss", "0")
    equal(bench.bytes(), plain)


@rule("several workers take their flows from a link as from a capture")
def workers_behind_a_link(run):
    frames = [ethernet(ipv4(udp(i.to_bytes(4, "big") + bytes(20), sport=4000 + i, dport=9), ident=i), 0x0800) for i in range(200)]
    capture = packets.write_capture(run.path("flows.pcap"), frames)
    ini = run.write("flows.ini", REFLECT.replace("[nic]", "[nic]\nworkers = 3"))
    for options in ((), ("--delay", "1ms")):
        report = json.loads(run.command("replay", "-c", ini, "--json", *options, capture).stdout)
        equal((report["packets"], report["sent"]), (200, 200))
        assert all(w["packets"] > 20 for w in report["workers"]), report["workers"]


# ---- pace ------------------------------------------------------------------------------------------------------------------

@rule("--loop goes through the capture N times, a mean gap after the last packet of the pass before")
def loop(run):
    bench = Bench(run, [0, 1000, 5000, 9000])  # mean gap 3000
    report = bench("--loop", "3")
    equal(bench.sent(), [(12000 * p + t, i) for p in range(3) for i, t in enumerate(bench.times)])
    equal((report["packets"], report["capture"]["passes"], report["capture"]["packets"]), (12, 3, 12))
    equal(bench()["capture"]["passes"], 1)
    for times in ([0], [0, 0]):  # no gap: 1 us
        bench = Bench(run, times)
        bench("--loop", "5")
        equal(bench.sent(), [(1000 * p, i) for p in range(5) for i in range(len(times))])


@rule("--loop ends where a capture would be longer than 200 days, and refuses what can be read only once")
def loop_ends(run):
    bench = Bench(run, [0, 150 * 86400 * 10 ** 9])
    assert "200 days" in bench("--loop", "2", expect=1, report=False).stderr
    equal(len(bench.sent()), 2)
    empty = packets.write_capture(run.path("none.pcap"), [])
    equal(run.command("replay", "-c", bench.ini, "--loop", "1000000000000", empty).returncode, 0)
    fifo = run.path("fifo")
    os.mkfifo(fifo)
    with open(bench.capture, "rb") as f:
        data = f.read()
    feeder = subprocess.Popen([sys.executable, "-c", "import sys\nopen(sys.argv[1], 'wb').write(sys.stdin.buffer.read())", fifo],
                              stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    feeder.stdin.write(data)
    feeder.stdin.close()
    process = run.command("replay", "-c", bench.ini, "--loop", "2", fifo)
    feeder.wait(20)
    equal(process.returncode, 1)
    assert "only once" in process.stderr, process.stderr


@rule("--rate spaces packets as a wire or by their number, exactly also in the long run, over all passes")
def rate(run):
    bench = Bench(run, [0, 7, 123456, 99], size=226)  # 2000 bits on the wire
    report = bench("--rate", "1G", "--loop", "2")
    equal([t for t, _ in bench.sent()], [2000 * i for i in range(8)])
    equal(report["capture"]["backwards"], 0)
    bench("--rate", "2.5Mpps")
    equal([t for t, _ in bench.sent()], [400 * i for i in range(4)])
    bench("--rate", "3Mpps", "--loop", "300")  # 333.33 ns
    equal([t for t, _ in bench.sent()], [10 ** 9 * i // 3000000 for i in range(1200)])
    bench("--rate", "3M", "--loop", "10")      # 666.67 us
    equal([t for t, _ in bench.sent()], [2000 * 10 ** 9 * i // 3000000 for i in range(40)])
    bench = Bench(run, [0, 0], size=46)        # padded to 60
    bench("--rate", "84k")
    equal([t for t, _ in bench.sent()], [0, 8000000])


# ---- expectations ------------------------------------------------------------------------------------------------------------

@rule("an expected capture: as it was written it passes; a changed field is named with packet and values, status 3")
def expect_capture(run):
    bench = Bench(run, [1000 * i for i in range(6)])
    bench()
    expected = run.path("expected.pcap")
    os.replace(bench.out, expected)
    equal(bench("--expect", expected, report=False).stderr, "")
    equal(len(bench.sent()), 6, "packets in the file that is compared")
    frames = packets.read_capture(expected)
    wrong = bytearray(frames[2][1])
    wrong[22] -= 1  # TTL, and its checksum
    wrong[24:26] = bytes(2)
    wrong[24:26] = packets.checksum(bytes(wrong[14:34])).to_bytes(2, "big")
    frames[2] = (frames[2][0], bytes(wrong))
    changed = packets.write_capture(run.path("changed.pcap"), frames, start=0)
    process = bench("--expect", changed, out=False, report=False, expect=3)
    lines = process.stderr.splitlines()
    prefix = "spindle replay: --expect %s: " % changed
    assert all(line.startswith(prefix) for line in lines), process.stderr
    assert any("packet 3" in line and "ip.ttl" in line and "63" in line and "64" in line for line in lines), process.stderr
    assert lines[-1][len(prefix):].split()[1] in ("difference", "differences"), process.stderr
    bench("--expect", changed, "--tolerate", "ip.ttl", out=False)
    short = packets.write_capture(run.path("short.pcap"), frames[:2] + frames[3:], start=0)
    assert "packet" in bench("--expect", short, out=False, report=False, expect=3).stderr
    later = packets.write_capture(run.path("later.pcap"), [(t + 500, f) for t, f in packets.read_capture(expected)], start=0)
    bench("--expect", later, "--tolerate", "time=499ns", out=False, expect=3)
    bench("--expect", later, "--tolerate", "time=500ns", out=False)


@rule("what is as expected is said in one line of the text; a difference, and JSON, have no such line")
def expected_is_said(run):
    bench = Bench(run, [0, 1000])
    bench()
    expected = run.path("expected.pcap")
    os.replace(bench.out, expected)
    right, wrong = run.write("right.json", '{"packets": 2}'), run.write("wrong.json", '{"packets": 3}')
    replay = ["replay", "-c", bench.ini, "--expect", expected, "--expect-json"]
    text = run.command(*replay, right, bench.capture)
    equal((text.returncode, text.stdout.splitlines()[-1]), (0, "as expected: --expect %s, --expect-json %s" % (expected, right)))
    differs = run.command(*replay, wrong, bench.capture)
    assert differs.returncode == 3 and "as expected" not in differs.stdout, differs.stdout
    json.loads(run.command(*replay, right, "--json", bench.capture).stdout)
    assert "as expected" not in run.command("replay", "-c", bench.ini, bench.capture).stdout


@rule("the text tells of each context once, and which answers are whose")
def text_says_once(run):
    bench = Bench(run, [0, 1000])
    text = run.command("replay", "-c", bench.ini, bench.capture).stdout.splitlines()
    names = [line.split()[0] for line in text]
    assert "handlers" not in names and names.count("verdicts") == 1, text
    equal([line.split() for line in text if "answered" in line.split()[0]], [["answered_by_nic", "0"], ["answered_by_handler", "2"]])


@rule("an expected report: what it says must be there, what it does not say may be; status 3 and the path")
def expect_json(run):
    bench = Bench(run, [0, 1000])
    right = run.write("right.json", '{"packets": 2, "contexts": {"echo": {"handler": "reflect"}}, "capture": {"passes": 1}}')
    wrong = run.write("wrong.json", '{"packets": 2, "contexts": {"echo": {"packets": 7}}}')
    equal(bench("--expect-json", right, report=False).stderr, "")
    process = bench("--expect-json", wrong, expect=3, report=False)
    assert "--expect-json %s: contexts.echo.packets: expected 7, found 2\n" % wrong in process.stderr, process.stderr
    assert "--expect-json %s: 1 difference\n" % wrong in process.stderr, process.stderr


@rule("expected memory: of receives that are posted, and of the area that a context shares")
def expect_memory(run):
    sdr = Sdr()
    data = bytes(range(256)) * 4
    capture = packets.write_capture(run.path("sdr.pcap"), sdr.message(0, data))
    ini = run.write("sdr.ini", NIC + sdr.ini())
    area = run.path("area")
    run.command("replay", "-c", ini, "--dump", "sdr0=" + area, capture)
    assert os.path.getsize(area) > 0
    right, wrong = run.write("right.bin", data), run.write("wrong.bin", data[:700] + b"x" + data[701:])
    for options, status in ((["--post", "sdr0=1", "--expect-memory", "sdr0=" + right], 0),
                            (["--post", "sdr0=1", "--expect-memory", "sdr0=" + wrong], 3),
                            (["--expect-memory", "sdr0=" + area], 0), (["--expect-memory", "sdr0=" + right], 3)):
        process = run.command("replay", "-c", ini, *options, capture)
        equal(process.returncode, status, process.stderr)
        equal("context sdr0" in process.stderr, status == 3, process.stderr)
    bench = Bench(run, [0])
    for option in ("--dump", "--expect-memory"):
        process = bench(option, "echo=" + right, expect=1, report=False)
        assert option in process.stderr and "no area" in process.stderr, process.stderr
    with open(right, "rb") as f:
        equal(f.read(), data, "what was expected")


@rule("an expectation that cannot be read is refused before anything is replayed or written")
def unreadable(run):
    bench = Bench(run, [0])
    before = b"is here"
    kept = run.write("kept", before)
    missing, plain = run.path("missing"), run.write("plain", "neither a capture nor JSON")
    for option in (["--expect", missing], ["--expect", plain], ["--expect-json", missing], ["--expect-json", plain],
                   ["--expect-memory", "echo=" + missing], ["--expect", os.path.dirname(plain)]):
        process = bench(*option, "-w", kept, out=False, expect=1, report=False)
        equal((process.stdout, len(process.stderr.splitlines())), ("", 1), process.stderr)
        assert option[0] in process.stderr and option[1].split("=")[-1] in process.stderr, process.stderr
        with open(kept, "rb") as f:
            equal(f.read(), before)


@rule("something wrong counts for more than something unexpected")
def wrong_before_unexpected(run):
    bench = Bench(run, [0, 1000])
    with open(bench.capture, "rb") as f:
        data = f.read()
    cut = run.write("cut.pcap", data[:-10])
    unexpected = run.write("other.json", '{"packets": 7}')
    process = run.command("replay", "-c", bench.ini, "--expect-json", unexpected, cut)
    equal(process.returncode, 1, process.stderr)
    assert "expected 7, found 1" in process.stderr and "cut off" in process.stderr, process.stderr


# ---- handlers ----------------------------------------------------------------------------------------------------------------

@rule("a plug-in and built-in handlers work over one capture, and the report tells of each")
def several_handlers(run):
    frames = [ethernet(ipv4(udp(bytes([i]) * 16, sport=4000, dport=9333 if i % 2 else 9), ident=i), 0x0800) for i in range(10)]
    frames += Sdr().message(0, bytes(1000))
    capture = packets.write_capture(run.path("several.pcap"), frames)
    config = (NIC + Sdr().ini() + "[context echo]\nhandler = reflect\nfilter = udp dst port 9\n"
              "[context mine]\nhandler = histogram\nfilter = udp dst port 9333\n")
    ini = run.write("several.ini", config)
    plugin = os.path.join(PLUGINS, "histogram.so")
    by_file = run.write("by-file.ini", config.replace("[nic]", "[nic]\nplugin = " + plugin, 1))
    reports = []
    for arguments in (["-c", ini, "--plugin", plugin], ["-c", by_file], ["-c", by_file, "--plugin", plugin]):
        process = run.command("replay", *arguments, "--json", "--post", "sdr0=1", capture)
        equal((process.returncode, process.stderr), (0, ""))
        reports.append(json.loads(process.stdout))
        contexts = reports[-1]["contexts"]
        equal({name: (c["handler"], c["packets"]) for name, c in contexts.items()},
              {"sdr0": ("sdr", 4), "echo": ("reflect", 5), "mine": ("histogram", 5)})
    process = run.command("replay", "-c", ini, capture)
    equal(process.returncode, 1)
    assert "histogram" in process.stderr and "several.ini:" in process.stderr, process.stderr
    process = run.command("replay", "-c", ini, "--plugin", run.path("missing.so"), capture)
    equal(process.returncode, 1)
    assert "missing.so" in process.stderr, process.stderr


@rule("a trace changes nothing of what comes out; with --json the report is its last line")
def traced(run):
    bench = Bench(run, [1000 * i for i in range(5)])
    plain = bench()
    before = bench.bytes()
    file = run.path("trace")
    equal((bench("--trace=" + file), bench.bytes()), (plain, before))
    assert os.path.getsize(file) > 0
    lines = bench("--trace=-", report=False).stdout.splitlines()
    with open(file) as f:
        text = [json.loads(line) for line in f]
    assert len(text) >= 5 and len(lines) > 5 * 3, lines
    process = bench("--trace", "--json", report=False)
    *objects, last = [json.loads(line) for line in process.stdout.splitlines()]
    equal(last, plain)
    equal(len(objects), len(text), "objects of the trace")


# ---- the command line ----------------------------------------------------------------------------------------------------------

VALUES = {
    "--loss": ("", "x", "-0.1", "1.1", "nan", "0.5x"),
    "--duplicate": ("2",),
    "--reorder": ("-1",),
    "--burst": ("0.9", "nan", "inf", "x", "3,4"),
    "--corrupt": ("1.1", "nan"),
    "--jitter": ("11s", "-1us"),
    "--distance": ("-1", "nan", "4e6", "3m", "x"),
    "--reorder-delay": ("1", "11s", "-1us"),
    "--delay": ("11s", "fast"),
    "--bandwidth": ("0", "999", "100001G", "x"),
    "--seed": ("x", "-1", ""),
    "--loop": ("0", "-1", "x", "1.5"),
    "--rate": ("0", "pps", "0pps", "x", "1001T", "1Mbps", "-1", "9" * 40),
    "--call-limit": ("0s", "1us", "3601s", "2"),
    "--wait": ("x", "3601s"),
    "--dump": ("sdr", "=x", "sdr="),
    "--expect-memory": ("sdr", "=x", "sdr="),
    "--tolerate": ("ip.tll", "time=x", ""),
}


@rule("a bad value of each option is told with the option's name, exit status 2", plain=True)
def bad_values(run):
    for option, values in VALUES.items():
        for value in values:
            process = run.command("replay", "-c", "nic.ini", "--expect", "x.pcap", option, value, "in.pcap")
            equal((process.returncode, process.stdout), (2, ""), (option, value, process.stderr))
            line = process.stderr.splitlines()[0]
            assert line.startswith("spindle replay: %s" % option) and line.endswith(value.split("=")[0] if not value else ""), line


@rule("options that do not go together are told, exit status 2")
def together(run):
    for arguments, words in ((("--tolerate", "time"), "--tolerate"), (("--wait", "1s"), "--wait"),
                             (("--burst", "3"), "--burst"), (("--burst", "1", "--loss", "0.6"), "--burst"),
                             (("--port", "net_null0"), "--config"), (("--dump", "a=x", "--dump", "a=y"), "--dump was given twice"),
                             (("--expect-memory", "a=x", "--expect-memory", "a=y"), "--expect-memory was given twice")):
        process = run.command("replay", "-c", "nic.ini", *arguments, "in.pcap")
        equal((process.returncode, process.stdout), (2, ""), (arguments, process.stderr))
        assert words in process.stderr.splitlines()[0], process.stderr
    for option in (("--post", "a=1"), ("--dump", "a=b"), ("--plugin", "x"), ("--trace",), ("--call-limit", "1s"), ("--loss", "0.1"),
                   ("--seed", "1"), ("--expect-memory", "a=b")):
        process = run.command("replay", "--port", "net_null0", *option, "in.pcap")
        equal(process.returncode, 2, option)
        assert process.stderr.startswith("spindle replay: %s " % option[0]), process.stderr


@rule("no output overwrites what is to be read: expectations, plug-ins")
def outputs(run):
    bench = Bench(run, [0])
    file = run.write("file", "precious")
    for read in (["--expect", file], ["--expect-json", file], ["--expect-memory", "a=" + file], ["--plugin", file]):
        for write in (["-w", file], ["--dump", "b=" + file], ["--trace=" + file]):
            process = bench(*read, *write, out=False, expect=1, report=False)
            equal((process.stdout, len(process.stderr.splitlines())), ("", 1), process.stderr)
            assert read[0].replace("--plugin", "plug-in") in process.stderr, process.stderr
            with open(file) as f:
                equal(f.read(), "precious")


if __name__ == "__main__":
    main()
