#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""run.py MODULE [WORD]: the unittest module test_MODULE.py of this folder, those of its tests with this word in their
names. TAP. `python3 -m unittest` runs them as well, with the environment that tests/meson.build sets."""

import os
import sys
import traceback
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "python")]
sys.dont_write_bytecode = True


class Tap(unittest.TestResult):
    count = 0

    def say(self, ok, test, more=""):
        self.count += 1
        print("%sok %d - %s%s" % ("" if ok else "not ", self.count, test.id().split(".")[-1], more), flush=True)

    def wrong(self, test, error):
        print("".join("# %s\n" % line for line in "".join(traceback.format_exception(*error)).splitlines()), end="")
        self.say(False, test)

    def addSuccess(self, test):
        self.say(True, test)

    def addError(self, test, err):
        super().addError(test, err)
        self.wrong(test, err)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.wrong(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            print("# %s" % subtest)
            self.wrong(test, err)

    def addSkip(self, test, reason):
        self.say(True, test, " # SKIP %s" % reason)


def main():
    try:
        import cffi  # noqa: F401
    except ImportError:
        print("1..0 # SKIP python3-cffi is not installed")
        return 0
    loader = unittest.TestLoader()
    if len(sys.argv) > 2:
        loader.testNamePatterns = ["*%s*" % sys.argv[2]]
    suite = loader.loadTestsFromName("test_" + sys.argv[1])
    result = Tap()
    suite.run(result)
    print("1..%d" % result.count)
    return 0 if result.wasSuccessful() and result.count else 1


if __name__ == "__main__":
    sys.exit(main())
