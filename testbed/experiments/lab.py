# SPDX-License-Identifier: BSD-3-Clause
"""The source of the figures' values: `spindle sim`, with packets and with the model, and `spindle bench`. Results are cached."""

import json
import os
import statistics
import subprocess
import tempfile

UNITS = {"K": 10, "M": 20, "G": 30, "T": 40}
PACKET = 4096  # bytes of payload, --mtu
SIMULATED = 1 << 18  # most packets of a simulated message
RINGS = 6  # factor of the packet budget for allreduces
TAIL = 1000  # samples needed for a 99.9 % quantile ...
MEAN = 4  # ... otherwise, or once that is reached, a value gets the budget divided by this
MOST = 6000  # most samples, for short messages
FEW = 500000  # one process simulates so many packets as fast as several
SETTINGS = (
    "message",
    "chunk",
    "drop",
    "drop_per",
    "rtt",
    "distance",
    "bandwidth",
    "ec",
    "beta",
    "repair_rate",
    "repair_workers",
)
# Fields of --json that become columns of the figures' tables. Missing ones stay empty.
COLUMNS = (
    "scheme",
    "source",
    "ec",
    "message",
    "chunk",
    "mtu",
    "bandwidth_bps",
    "rtt_s",
    "drop",
    "drop_per",
    "chunk_drop",
    "samples",
    "seed",
    "lossless_s",
    "mean_s",
    "mean_error_s",
    "p50_s",
    "p99_s",
    "p999_s",
    "slowdown_mean",
    "slowdown_p999",
    "fallbacks",
    "fallback_probability",
    "packets",
    "parity_packets",
    "retransmitted_packets",
    "repaired_chunks",
    "repair_bps",
    "repair_workers",
    "decode_s",
)


class Failed(Exception):
    """spindle has failed, with its message."""


def size(text):
    """Bytes, from text such as 64K."""
    return int(text[:-1]) << UNITS[text[-1]] if text[-1] in UNITS else int(text)


def processors():
    """Numbers of processors to use: powers of 2 up to the available ones."""
    return [1 << i for i in range(len(os.sched_getaffinity(0)).bit_length())]


class Lab:
    def __init__(self, spindle, seed=1, packets=0, draws=10000, bench=(), progress=None, nodes=64):
        """packets: budget of simulated packets per value, 0: none. draws: samples of the model. bench: options of spindle bench. nodes:
        of simulated networks."""
        self.spindle, self.seed, self.budget, self.draws, self.bench_options = spindle, seed, packets, draws, bench
        self.nodes = nodes
        self.progress = progress or (lambda words: None)
        self.known, self.missing = {}, {}

    def command(self, *arguments):
        process = subprocess.run([self.spindle, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if process.returncode:
            raise Failed(
                "spindle %s: %s" % (" ".join(arguments), (process.stderr.splitlines() or ["status %d" % process.returncode])[0])
            )
        return process.stdout

    def sim(self, *arguments, what="sdr"):
        key = ("sim", what, arguments)
        if key not in self.known:
            self.progress(" ".join(arguments))
            self.known[key] = json.loads(self.command("sim", what, "--json", "--seed", str(self.seed), *arguments))
        return self.known[key]

    @staticmethod
    def arguments(scheme, settings):
        assert set(settings) <= set(SETTINGS), settings
        return ["--scheme", scheme] + [
            word for name in SETTINGS if settings.get(name) for word in ("--" + name.replace("_", "-"), str(settings[name]))
        ]

    def simulates(self, scheme):
        """Whether the scheme can be simulated, not only modelled."""
        if scheme not in self.missing:
            try:
                self.command("sim", "sdr", "--scheme", scheme, "--message", "64K", "--samples", "1", "--payload-less")
                self.missing[scheme] = ""
            except Failed as why:
                self.missing[scheme] = str(why)
        return not self.missing[scheme]

    def samples(self, message, most=MOST):
        """Number of simulated samples: enough for a tail if the budget allows, else fewer; 0: too few, or the message is too long."""
        count = -(-size(message) // PACKET)
        enough = TAIL if self.budget // count >= TAIL else min(self.budget // count, 10)
        samples = min(max(self.budget // MEAN // count, enough), most)
        return 0 if samples < 10 or count > SIMULATED else samples

    @staticmethod
    def simulated(samples, settings):
        """Options of a simulation. For a short one, one process is faster than several; the results are the same."""
        return ["--payload-less", "--samples", str(samples)] + (
            ["--jobs", "1"] if samples * size(settings["message"]) < FEW * PACKET else []
        )

    def model(self, scheme, **settings):
        got = self.sim(*self.arguments(scheme, settings), "--model", "--samples", str(self.draws))
        return dict(got, source="model")

    def packets(self, scheme, most=MOST, **settings):
        """A simulation of at most so many samples. None: not possible."""
        samples = self.samples(settings["message"], most)
        if not samples or not self.simulates(scheme):
            return None
        return dict(self.sim(*self.arguments(scheme, settings), *self.simulated(samples, settings)), source="packets")

    def allreduces(self, scheme, nodes, most, **settings):
        """A simulation of 10 to `most` allreduces of a buffer, `message`; None: beyond the budget."""
        message = -(-size(settings["message"]) // nodes)
        packets = nodes * (2 * nodes - 2) * -(-message // PACKET)
        samples = min(RINGS * self.budget // packets, most)
        if samples < 10 or -(-message // PACKET) > SIMULATED or not self.simulates(scheme):
            return None
        jobs = ["--jobs", "1"] if samples * packets < FEW else []
        arguments = [*self.arguments(scheme, settings), "--nodes", str(nodes), "--payload-less", "--samples", str(samples), *jobs]
        return dict(self.sim(*arguments, what="allreduce"), source="packets")

    def times(self, source, scheme, **settings):
        """Seconds of each sample of the model or of the simulation; None: not possible."""
        samples = self.draws if source == "model" else self.samples(settings["message"])
        if not samples or source != "model" and not self.simulates(scheme):
            return None
        key = (source, scheme, *sorted(settings.items()))
        if key not in self.known:
            arguments = self.arguments(scheme, settings)
            arguments += ["--model", "--samples", str(samples)] if source == "model" else self.simulated(samples, settings)
            with tempfile.TemporaryDirectory(prefix="spindle-figures-") as folder:
                file = os.path.join(folder, "times")
                self.sim(*arguments, "--times", file)
                with open(file) as f:
                    self.known[key] = [float(line) for line in f]
        return self.known[key]

    def repair_rate(self):
        """Repair speed of one processor with MDS (32,8), bit/s, as measured by spindle sim: the median of several runs."""
        little = ("--scheme", "ec-mds", "--message", "64K", "--samples", "1", "--jobs", "1", "--repair-rate", "measured")
        return int(statistics.median(json.loads(self.command("sim", "sdr", "--json", *little))["repair_bps"] for _ in range(5)))

    def cases(self):
        """Names of spindle bench's cases."""
        return [line.split()[0] for line in self.command("bench", "--list").splitlines() if line and not line[0].isspace()]

    def bench(self, case, *options, workers=1, run=0):
        """Results of the case in so many processes at once, each on its own processor; packets without ICRC. Another `run` measures again."""
        key = ("bench", case, options, workers, run)
        if key not in self.known:
            command = [self.spindle, "bench", "--json", "--filter", case, "--icrc", "off", *self.bench_options, *options]
            self.progress(" ".join(command[1:]))
            processors = sorted(os.sched_getaffinity(0))
            running = [
                subprocess.Popen(
                    ["taskset", "-c", str(processors[i % len(processors)]), *command] if workers > 1 else command,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                for i in range(workers)
            ]
            said = [process.communicate() for process in running]
            for process, (_, wrong) in zip(running, said):
                if process.returncode:
                    raise Failed("spindle bench: %s" % (wrong.splitlines() or ["status %d" % process.returncode])[-1])
            reports = [json.loads(out) for out, _ in said]
            self.known[key] = [
                dict(next(c for c in report["cases"] if c["name"].startswith(case)), tsc_hz=report["tsc_hz"], cpu=report["cpu"])
                for report in reports
            ]
        skipped = [result["skipped"] for result in self.known[key] if result["skipped"]]
        if skipped:
            raise Failed("spindle bench skips %s: %s" % (case, skipped[0]))
        return self.known[key]
