# SPDX-License-Identifier: BSD-3-Clause
"""TAP for the checks of the source, which know all results before they say the first."""


def report(results, before=""):
    """results: a rule's name, and what is wrong, a line each; none: it holds. A name that ends in `# SKIP why` was not
    looked at. Returns the exit status."""
    print("1..%d" % len(results))
    for number, (rule, wrong) in enumerate(results, 1):
        print("%sok %d - %s" % ("not " if wrong else "", number, rule))
        for line in wrong:
            print("# " + before + line)
    return 1 if any(wrong for _, wrong in results) else 0
