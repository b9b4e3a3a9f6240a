#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Counts TAP lines in the logs that `meson test` left:
summary.py [--failed WHAT]... BUILD-DIRECTORY=TESTS... [--tap FILE=STATUS]
summary.py --again BUILD-DIRECTORY

Prints every failure and every skip with its reason, then "N passed, N failed, N skipped". meson's own sums count test
programs, not tests, and call a skipped program of TAP lines an error. --tap: what a program said that is no test of
meson's, and its exit status.

--again: prints the programs that tests/run may run once more: whole systems, which wait for what other work on the
machine may keep from them. If the second run passes, the summary says AGAIN, with what failed at first, and counts the
second run. A crash, a sanitizer's report or a rule of threads is never tried again: it comes seldom, and is real.
"""

import json
import re
import sys

LINE = re.compile(r"\s*(not )?ok\b\s*(\d+)?\s*(?:- )?(.*?)(?:\s*#\s*(SKIP|TODO)\b\s*(.*))?$", re.I)
PLAN = re.compile(r"1\.\.(\d+)(?:\s*#\s*SKIP\b\s*(.*))?$", re.I)
SANITIZER = re.compile(r"(Address|Thread|Leak|UndefinedBehavior)Sanitizer|runtime error:")
AGAIN_MOST = 5  # more failures than these are no accident


def logs_of(directory, name="testlog"):
    try:
        with open("%s/meson-logs/%s.json" % (directory, name)) as f:
            return [json.loads(line) for line in f]
    except FileNotFoundError:
        return []


def name_of(log):
    return log["name"].split(" / ")[-1]


def may_run_again(log):
    said = (log.get("stdout") or "") + (log.get("stderr") or "")
    return name_of(log).startswith("e2e/") and log.get("returncode") in (0, 1) and not SANITIZER.search(said)


def run_again(directory):
    failed = [log for log in logs_of(directory) if log["result"] not in ("OK", "SKIP")]
    return [name_of(log) for log in failed if may_run_again(log)] if len(failed) <= AGAIN_MOST else []


def tail(text, count):
    return ["    " + line for line in (text or "").rstrip().splitlines()[-count:]]


class Summary:
    def __init__(self):
        self.passed, self.failures, self.skips = 0, [], []

    def fail(self, where, what, details=()):
        self.failures.append("\n".join(["FAIL %s: %s" % (where, what), *details]))

    def skip(self, where, what, reason):
        self.skips.append("skip %s%s: %s" % (where, what and ": " + what, reason or "no reason given"))

    def lines(self, where, text):
        """The TAP lines of one program: how many tests it told of and how many of them failed, its plan, a skip of all."""
        told = failed = 0
        plan, skipped, comments = None, None, []
        for line in text.splitlines():
            match = PLAN.match(line)
            if match:
                plan, skipped = int(match[1]), match[2] if match[1] == "0" else None
                continue
            if line.startswith("#"):
                comments.append("    " + line)
                continue
            match = LINE.match(line)
            if not match:
                continue
            told += 1
            name = match[3] or "test %s" % match[2]
            if match[1]:
                failed += 1
                self.fail(where, name, comments[-20:])
            elif (match[4] or "").upper() == "SKIP":
                self.skip(where, name, match[5])
            else:
                self.passed += 1
            comments = []
        return told, failed, plan, skipped

    def program(self, where, log):
        out, errors, status = log.get("stdout") or "", log.get("stderr") or "", log.get("returncode")
        errors = errors.replace("(test program exited with status code %s)" % status, "")
        told, failed, plan, skipped = self.lines(where, out)
        details = tail(out, 10 if told else 20) + tail(errors, 40)
        if log["result"] == "TIMEOUT":
            self.fail(where, "timed out after %.0f s" % log.get("duration", 0), details)
        elif status == 77 and not told:
            self.skip(where, "", " ".join(out.split("\n")[-2:]).strip() or errors.strip())
        elif plan == 0 and status == 0:
            self.skip(where, "", skipped)
        elif status not in (0, 1) or (status == 1 and not failed):
            how = "killed by signal %d" % -status if (status or 0) < 0 else "exit status %s" % status
            if status == -4:  # SIGILL
                how += " (where sanitizers look on: undefined behaviour in the test's own code; gdb says where)"
            self.fail(where, how, details)
        elif plan is not None and plan != told:
            self.fail(where, "told of %d tests, ran %d" % (plan, told), details)
        elif not told and not log.get("tap"):
            self.passed += 1  # a program whose exit status is all it says
        elif not told:
            self.fail(where, "ran no test", details)
        elif log["result"] not in ("OK", "SKIP") and not failed:
            self.fail(where, "meson says %s" % log["result"], details)


def main(arguments):
    if arguments[:1] == ["--again"]:
        print(*run_again(arguments[1]))
        return 0
    s, again = Summary(), []
    while arguments[:1] == ["--failed"]:
        s.fail("tests/run", arguments[1])
        arguments = arguments[2:]
    if arguments[-2:-1] == ["--tap"]:
        path, _, status = arguments[-1].rpartition("=")
        with open(path, encoding="utf-8", errors="replace") as f:
            s.program(path, {"stdout": f.read(), "returncode": int(status), "result": "OK", "tap": True})
        arguments = arguments[:-2]
    for argument in arguments:
        directory, _, count = argument.partition("=")
        with open(directory + "/meson-info/intro-tests.json") as f:
            tap = {t["name"]: t.get("protocol") == "tap" for t in json.load(f)}
        logs = logs_of(directory)
        second = {name_of(log): log for log in logs_of(directory, "again")}
        if len(logs) != int(count):
            s.fail(directory, "%s test programs were to run, %d did" % (count, len(logs)))
        for log in logs:
            name = name_of(log)
            where, log["tap"] = "%s %s" % (directory, name), tap.get(name, False)
            if name in second:
                first, retried = Summary(), Summary()
                first.program(where, log)
                retried.program(where, {**second[name], "tap": log["tap"]})
                if not retried.failures:
                    again += ["AGAIN, passed alone; at first: " + text.removeprefix("FAIL ") for text in first.failures]
                    s.passed += retried.passed
                    s.skips += retried.skips
                    continue
            s.program(where, log)
    print()
    for text in s.skips + again + s.failures:
        print(text)
    print("%d passed, %d failed, %d skipped" % (s.passed, len(s.failures), len(s.skips)))
    return 0 if s.passed and not s.failures else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
