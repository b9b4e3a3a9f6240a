#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Packets beside the model: by how much the mean completion time of selective repeat, simulated packet by packet, differs from the
stochastic model of the SDR paper; 400 Gbit/s, 3750 km, 64 KiB chunks lost independently. Prints a Markdown table.

  testbed/experiments/model.py [--spindle build/spindle] [--quick] [--seed N]
"""

import argparse
import json
import math
import subprocess
import sys

SIZES = (("128K", 6000), ("1M", 4000), ("8M", 2000), ("128M", 1000), ("1G", 160))
DROPS = ("1e-6", "1e-5", "1e-4", "1e-3", "1e-2")


def sim(spindle, *arguments):
    process = subprocess.run([spindle, "sim", "sdr", "--json", *arguments], stdout=subprocess.PIPE, text=True)
    if process.returncode:
        sys.exit(process.returncode)
    return json.loads(process.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spindle", default="build/spindle")
    parser.add_argument("--quick", action="store_true", help="a tenth of the samples")
    parser.add_argument("--seed", default="1")
    options = parser.parse_args()
    print("| scheme | message | samples |", " | ".join(DROPS), "|")
    print("|---|---|---|" + "---|" * len(DROPS))
    for scheme in ("sr-rto", "sr-nack"):
        for size, samples in SIZES:
            row = []
            samples = max(samples // 10, 2) if options.quick else samples
            for drop in DROPS:
                common = ("--scheme", scheme, "--message", size, "--drop", drop, "--seed", options.seed)
                packets = sim(options.spindle, *common, "--payload-less", "--samples", str(samples))
                model = sim(options.spindle, *common, "--model", "--samples", "1000000")
                error = math.hypot(packets["mean_error_s"], model["mean_error_s"])
                row.append("%+.1f ± %.1f %%" % tuple(100 * x / model["mean_s"] for x in (packets["mean_s"] - model["mean_s"], error)))
                if packets["spurious_retransmissions"]:
                    row[-1] += " (%d needless)" % packets["spurious_retransmissions"]
            print("| %s | %s | %d |" % (scheme, size, samples), " | ".join(row), "|", flush=True)


if __name__ == "__main__":
    main()
