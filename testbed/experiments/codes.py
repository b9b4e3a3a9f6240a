# SPDX-License-Identifier: BSD-3-Clause
"""Figure 11: losses that MDS and XOR can repair, and the cost of encoding."""

import ctypes
import ctypes.util
import os
import statistics
import threading
import time

from lab import processors
from messages import LOSS, READINGS, SLOWDOWN, Sweep, claim, notes
from plot import COLOURS, Figure, Panel, Series

DROPS = ("1e-6", "1e-5", "3e-5", "1e-4", "3e-4", "1e-3", "3e-3", "1e-2", "2e-2", "3e-2", "5e-2", "1e-1")
K, M, CHUNK, BUFFER = 32, 8, 64 << 10, 128 << 20
LINE = 400e9 / 8 / 1e9  # GB/s
OURS = {"ec-xor": "#e08e0b", "ec-mds": "#7d3c98"}  # colours of all but ISA-L
PAPER = {"ec-xor": 4, "ec-mds": 8}  # cores needed to encode at 400 Gbit/s


class Isal:
    """ISA-L itself on a buffer in memory: submessages of K chunks, M of parity each."""

    def __init__(self, library):
        self.library = ctypes.CDLL(library)
        matrix = (ctypes.c_ubyte * ((K + M) * K))()
        self.library.gf_gen_cauchy1_matrix(matrix, K + M, K)
        self.tables = (ctypes.c_ubyte * (32 * K * M))()
        self.library.ec_init_tables(K, M, ctypes.byref(matrix, K * K), self.tables)
        self.data = ctypes.create_string_buffer(os.urandom(1 << 20) * (BUFFER >> 20), BUFFER + 64)
        self.parity = ctypes.create_string_buffer(BUFFER // K * M + 64)

    def jobs(self, scheme):
        """[(function, arguments)], one for each submessage, or for each group of one."""
        start, to = (-(-ctypes.addressof(b) // 64) * 64 for b in (self.data, self.parity))
        for i in range(BUFFER // (K * CHUNK)):
            data = [start + (i * K + j) * CHUNK for j in range(K)]
            parity = [to + (i * M + j) * CHUNK for j in range(M)]
            if scheme == "ec-mds":
                yield self.library.ec_encode_data, (
                    CHUNK,
                    K,
                    M,
                    self.tables,
                    (ctypes.c_void_p * K)(*data),
                    (ctypes.c_void_p * M)(*parity),
                )
            for j in range(M if scheme == "ec-xor" else 0):
                group = data[j::M] + [parity[j]]
                yield self.library.xor_gen, (len(group), CHUNK, (ctypes.c_void_p * len(group))(*group))

    def rate(self, scheme, cores, rounds):
        """GB/s of data, the median of the rounds."""
        jobs = list(self.jobs(scheme))

        def work(mine):
            for function, arguments in mine:
                function(*arguments)

        rates = []
        for _ in range(rounds + 1):  # the first is not counted
            threads = [threading.Thread(target=work, args=(jobs[i::cores],)) for i in range(cores)]
            began = time.monotonic()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            rates.append(BUFFER / 1e9 / (time.monotonic() - began))
        return statistics.median(rates[1:])


def encode(lab):
    """[(who, scheme, cores, GB/s)]"""
    library, found = ctypes.util.find_library("isal"), []
    if library:
        isal = Isal(library)
        found += [
            ("ISA-L", scheme, cores, isal.rate(scheme, cores, 5))
            for scheme in ("ec-xor", "ec-mds")
            for cores in processors()
        ]
    for case in lab.cases():
        if not (case.startswith("ec-encode") and case.endswith("-%d-%d-%dK" % (K, M, CHUNK >> 10))):
            continue
        got = lab.bench(case)
        if got[0]["unit"] == "GB/s":
            found.append(("Spindle", "ec-xor" if "xor" in case else "ec-mds", 1, got[0]["value"]))
    return found


def fallback_panel(panels, sweeps):
    series = []
    for (chunk, words), sweep in zip(READINGS, sweeps):
        for scheme in ("ec-xor", "ec-mds"):
            series.append(
                Series(
                    "%s, %s" % (scheme[3:].upper(), words),
                    [(r["x"], r["fallback_probability"]) for r in sweep.rows if r["scheme"] == scheme and r["source"] == "model"],
                    "line" if chunk == "64K" else "dashes",
                    COLOURS[scheme],
                )
            )
    panels.append(Panel("128 MiB: falls back to selective repeat", "P", "probability", series, "x"))


def figure11(lab):
    sweeps, panels, claims = [], [], []
    for chunk, words in READINGS:
        sweep = Sweep(
            lab, chunk, ("ec-xor", "ec-mds"), [(float(p), {"drop": p}) for p in DROPS], "x", message="128M", chunk=chunk
        )
        sweeps.append(sweep)
        panels.append(Panel("128 MiB, mean, " + words, "P", SLOWDOWN, sweep.series, "xy", least=0.9))
        for scheme, paper in (("ec-xor", "1e-3"), ("ec-mds", "beyond 1e-2")):
            at = [p for p in DROPS if lab.model(scheme, drop=p, message="128M", chunk=chunk)["fallback_probability"] >= 0.05]
            claims.append(
                (
                    "smallest P at which 1 of 20 messages of 128 MiB falls back, %s, %s" % (scheme[3:].upper(), words),
                    paper,
                    at[0],
                    None,
                )
            )
    fallback_panel(panels, sweeps)
    claims.append(
        claim(
            lab,
            "XOR (32,8), 128 MiB, P = 1e-2, chunks of 64 KiB, mean",
            "2.22 (another run of its model)",
            "ec-xor",
            message="128M",
            chunk="64K",
            drop="1e-2",
        )
    )
    rates = encode(lab)
    rows = [r for sweep in sweeps for r in sweep.rows]
    if rates:
        series = [
            Series(
                "%s %s" % (who, scheme[3:].upper()),
                [(str(c), v) for w, s, c, v in rates if (w, s) == (who, scheme)],
                colour=(COLOURS if who == "ISA-L" else OURS)[scheme],
            )
            for who, scheme in dict.fromkeys((w, s) for w, s, _, _ in rates)
        ]
        panels.append(
            Panel(
                "encoding (32,8), 64 KiB chunks, 128 MiB",
                "cores",
                "GB/s of data",
                series,
                names=[str(c) for c in processors()],
                bars=True,
                least=0,
            )
        )
    for who, scheme, cores, rate in rates:
        rows.append(
            {
                "panel": "encode",
                "x": cores,
                "scheme": scheme,
                "source": who,
                "ec": "%d,%d" % (K, M),
                "message": BUFFER,
                "chunk": CHUNK,
                "encode_GBps": rate,
            }
        )
        if cores == 1:
            claims.append(
                (
                    "cores that encode %s (32,8) at 400 Gbit/s, each as fast as one here (%s, %.1f GB/s)"
                    % (scheme[3:].upper(), who, rate),
                    "%d (4 GHz Xeon)" % PAPER[scheme],
                    "%.1f" % (LINE / rate),
                    None,
                )
            )
    return Figure(
        "fig11",
        "Figure 11: MDS beside XOR, 128 MiB, (32,8)",
        "What each withstands, and what encoding costs: measured on this machine, as busy as it was, from memory to memory.",
        panels,
        rows,
        claims,
        notes(lab, [n for s in sweeps for n in s.counts], LOSS),
        across=2,
    )
