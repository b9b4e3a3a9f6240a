#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Instructions per packet do not grow by more than 5 % over those of table.txt, which --update writes anew.

    counts.py PROGRAM [CASE...]                 TAP: holds what callgrind counts against the table
    counts.py PROGRAM --update                  writes the table
    counts.py PROGRAM --functions CASE          where they go, by function, in Markdown

PROGRAM is counts.c. Counts do not depend on how fast or busy the machine is, but on the compiler and on DPDK's libraries:
with others than those of the table nothing can be said, and the test is skipped.

All is counted at the level of instructions avx2. ICRC, codes and copies, which exist once for each level (handlers/isa/isa.h), are
counted at the others, too; in the table and on the command line those are LEVEL/CASE. A table of all levels ends the TAP."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "table.txt")
PATH = "sp_nic_poll"  # what is counted, with all that it calls
MOST = 5.0  # per cent
LEVEL = "avx2"  # of what says no other
OTHERS = ("baseline", "avx512")
LEVELLED = [
    *("icrc-%d" % size for size in (64, 1024, 4096)), *("place-%d" % size for size in (1024, 4096)),
    *("ec-%s-%s4-2" % (way, kind) for kind in ("", "xor-") for way in ("encode", "decode")),
]  # fmt: skip
UNCOUNTED = {"avx512": "callgrind knows no AVX-512"}
SHOWN = 0.5  # per cent of the whole: functions with less are not listed
NEEDED = {"avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}  # of x86-64-v3
HEAD = """# Instructions of sp_nic_poll() for each packet, KiB or timer of a case, or of a kernel alone, as callgrind counts them, at the
# level avx2 or at the one before the slash. tests/counts/counts.py holds builds against them, and writes them anew with --update
# (ninja -C build update-counts).
"""


def unable(program):
    """Why nothing can be counted here, or None."""
    with open("/proc/cpuinfo") as f:
        flags = set(next((line for line in f if line.startswith("flags")), "").split())
    if program is None:
        return "valgrind's headers were missing when this was built"
    if not shutil.which("valgrind"):
        return "valgrind is missing"
    if not NEEDED <= flags:
        return "the processor is none of x86-64-v3"
    return None


def run(program, cases, directory, *options, level=LEVEL):
    """{case: (units, unit)}, {case: why it is skipped}, what it was built with, callgrind's file. Children, in which eBPF
    programs are looked at, have files of their own. The case "level": why all are skipped."""
    # rep movsb counts as an instruction a byte, and whether libc uses it depends on the machine.
    env = dict(os.environ, GLIBC_TUNABLES="glibc.cpu.hwcaps=-ERMS,-FSRM", TMPDIR=directory, SPINDLE_ISA=level)
    r = subprocess.Popen(["valgrind", "-q", "--tool=callgrind", "--collect-atstart=no", "--toggle-collect=" + PATH, *options,
                          "--callgrind-out-file=" + os.path.join(directory, "%p"), program, *cases], env=env,
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        said, wrong = r.communicate(timeout=240)
    finally:
        r.kill()
    units, skipped, built = {}, {}, ""
    for line in said.splitlines():
        word = line.split(None, 2)
        if word[0] == "with":
            built = line[5:]
        elif word[1] == "skipped":
            skipped[word[0]] = word[2]
        else:
            units[word[0]] = (int(word[1]), word[2])
    if r.returncode or not built:
        sys.exit(f"counts.py: {program} under valgrind: exit status {r.returncode}\n{wrong}")
    return units, skipped, built, os.path.join(directory, str(r.pid))


def count_level(program, cases, level):
    """{case: (instructions a unit, unit)}, and the next two as run()."""
    with tempfile.TemporaryDirectory() as directory:
        units, skipped, built, out = run(program, cases, directory, "--combine-dumps=yes", level=level)
        counts, case = {}, None
        if "level" in skipped:
            return {}, skipped, built
        with open(out) as f:
            for line in f:
                if line.startswith("desc: Trigger: "):
                    case = line.rpartition(": ")[2].strip()
                elif line.startswith("summary: ") and case in units:
                    counts[case] = (int(line.split()[1]) / units[case][0], units[case][1])
    for case in units:
        if not counts.get(case, (0,))[0]:
            sys.exit(f"counts.py: callgrind has counted nothing of {case}")
    return counts, skipped, built


def count(program, cases):
    """The same at all levels, for those LEVEL/CASE. cases: none are all."""
    mine = [case for case in cases if "/" not in case]
    counts, skipped, built = count_level(program, mine, LEVEL) if mine or not cases else ({}, {}, "")
    if "level" in skipped:
        skipped = dict.fromkeys(mine or read_table()[0], skipped["level"])
    for level in OTHERS:
        some = [case for case in LEVELLED if not cases or level + "/" + case in cases]
        if level in UNCOUNTED:
            skipped.update((level + "/" + case, UNCOUNTED[level]) for case in some)
        elif some:
            more, without, built = count_level(program, some, level)
            counts.update((level + "/" + case, each) for case, each in more.items())
            skipped.update((level + "/" + case, why) for case, why in without.items() if case != "level")
            if "level" in without:
                skipped.update((level + "/" + case, without["level"]) for case in some)
    return counts, skipped, built


def by_level(counts):
    """Lines: a kernel each, with its instructions at each level."""
    levels = ("baseline", LEVEL, "avx512")
    yield "%-20s" % "instructions" + "".join("%12s" % level for level in levels) + "  for a"
    for case in LEVELLED:
        found = [counts.get(case if level == LEVEL else level + "/" + case) for level in levels]
        if any(found):
            unit = next(each[1] for each in found if each)
            yield "%-20s" % case + "".join("%12.1f" % each[0] if each else "%12s" % "-" for each in found) + "  " + unit


def read_table():
    table, built = {}, ""
    if os.path.exists(TABLE):
        with open(TABLE) as f:
            for line in f:
                word = line.split()
                if line.startswith("with "):
                    built = line[5:].strip()
                elif word and not line.startswith("#"):
                    table[word[0]] = float(word[1])
    return table, built


def update(program):
    counts, skipped, built = count(program, [])
    skipped = {case: why for case, why in skipped.items() if case.partition("/")[0] not in UNCOUNTED}
    if skipped:
        sys.exit("counts.py: not written: " + "; ".join(f"{case}: {why}" for case, why in skipped.items()))
    before = read_table()[0]
    with open(TABLE, "w") as f:
        f.write(HEAD + f"with {built}\n")
        for case, (each, unit) in counts.items():
            f.write(f"{case:<24} {each:9.1f} {unit}\n")
            was = f"{before[case]:9.1f} {100 * (each / before[case] - 1):+6.1f} %" if case in before else "      new"
            print(f"{case:<24} {each:9.1f} a {unit}, was {was}")


def gate(program, cases):
    table, wanted = read_table()
    counts, skipped, built = count(program, cases)
    if built and built != wanted:
        print(f"1..0 # SKIP the table was made with {wanted}, this is {built}")
        return 0
    failed, n = 0, 0
    for case in list(dict.fromkeys([*(cases or table), *counts, *skipped])):
        n += 1
        name = f"{n} - {case}: instructions are at most {MOST:g} % more than in the table"
        if case in skipped:
            print(f"ok {name} # SKIP {skipped[case]}")
            continue
        each, unit = counts.get(case, (None, None))
        right = case in table and each is not None and each <= table[case] * (1 + MOST / 100)
        failed += not right
        print(("ok " if right else "not ok ") + name)
        if case not in table:
            print("# it is not in the table: ninja -C build update-counts")
        elif each is None:
            print("# there is no such case")
        else:
            change = 100 * (each / table[case] - 1)
            less = change < -MOST and ": keep that, by ninja -C build update-counts"
            print(f"# {each:.1f} a {unit}, in the table {table[case]:.1f}: {change:+.1f} %{less or ''}")
    print(f"1..{n}")
    for line in by_level(counts):
        print("# " + line)
    return failed != 0


def annotated(file, inclusive):
    """{(function, object): instructions}; functions of objects without symbols are one."""
    text = subprocess.run(["callgrind_annotate", "--threshold=100", "--auto=no", "--show-percs=no",
                           "--inclusive=" + inclusive, file], check=True, stdout=subprocess.PIPE, text=True).stdout
    found = {}
    for line in text.splitlines():
        m = re.match(r"\s*([\d,]+)\s+\S*?:(\S+|\(below main\))(?: \[(.*)\])?$", line)
        if m:
            key = ("?" if m[2].startswith("0x") else m[2],
                   "compiled at run time" if m[3] in (None, "???") else os.path.basename(m[3]).partition(".so")[0])
            found[key] = found.get(key, 0) + int(m[1].replace(",", ""))
    return found


def functions(program, case):
    with tempfile.TemporaryDirectory() as directory:
        units, skipped, _, out = run(program, [case], directory)
        if case not in units:
            sys.exit(f"counts.py: {case}: {skipped.get(case, 'there is no such case')}")
        n, unit = units[case]
        own, whole = annotated(out + ".1", "no"), annotated(out + ".1", "yes")
    total = next((cost for key, cost in whole.items() if key[0] == PATH), 0)
    if not total:
        sys.exit(f"counts.py: {case}: nothing of it is in {PATH}()")
    own = {key: cost for key, cost in own.items() if cost < total}  # callgrind lays all of it on those above PATH, too
    print("| function | in | its own | share | with what it calls |\n|---|---|---|---|---|")
    rest = total
    for key, cost in sorted(own.items(), key=lambda item: -item[1]):
        if 100 * cost < SHOWN * total:
            break
        rest -= cost
        inclusive = "" if key[0] == "?" else f"{whole.get(key, cost) / n:.1f}"
        print(f"| {key[0]} | {key[1]} | {cost / n:.1f} | {100 * cost / total:.1f} % | {inclusive} |")
    print(f"| others | | {rest / n:.1f} | {100 * rest / total:.1f} % | |")
    print(f"| sum, a {unit} | | {total / n:.1f} | | |")


def main(args):
    program = args.pop(0) if args else None
    why = unable(program)
    if args[:1] == ["--update"] or args[:1] == ["--functions"]:
        if why:
            sys.exit("counts.py: " + why)
        return functions(program, args[1]) if args[0] == "--functions" else update(program)
    if why:
        print("1..0 # SKIP " + why)
        return 0
    return gate(program, args)


sys.exit(main(sys.argv[1:]))
