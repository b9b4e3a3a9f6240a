# SPDX-License-Identifier: BSD-3-Clause
"""docs/python.md, run as it is written: its blocks of Python in their order, in one program per section that begins with
an import. A block marked `output` is what the block before it prints."""

import contextlib
import io
import os
import re
import unittest

import spindle

SOURCE = os.environ.get("MESON_SOURCE_ROOT") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


class Guide(unittest.TestCase):
    def test_every_block_runs_as_written_and_prints_what_is_shown(self):
        with open(os.path.join(SOURCE, "docs", "python.md"), encoding="utf-8") as f:
            text = f.read()
        blocks = re.findall(r"^```(\w*)([^\n]*)\n(.*?)^```$", text, re.M | re.S)
        names, said, ran, compared = {"__name__": "__main__"}, "", 0, 0
        for kind, label, body in blocks:
            if kind == "python" and "not run" not in label:
                if "scapy" in body:
                    try:
                        import scapy  # noqa: F401
                    except ImportError:
                        self.skipTest("python3-scapy is not installed")
                out = io.StringIO()
                with self.subTest(body.splitlines()[0]), contextlib.redirect_stdout(out):
                    exec(compile(body, "docs/python.md", "exec"), names)
                said, ran = out.getvalue(), ran + 1
            elif kind == "output":
                self.assertEqual(said, body)
                compared += 1
        self.assertGreaterEqual(ran, 5)
        self.assertGreaterEqual(compared, 3)

    def test_the_scenario_takes_twenty_lines(self):
        with open(os.path.join(SOURCE, "docs", "python.md"), encoding="utf-8") as f:
            scenario = re.search(r"^```python\n(.*?)^```$", f.read(), re.M | re.S).group(1)
        lines = [line for line in scenario.splitlines() if line.strip()]
        self.assertLessEqual(len(lines), 20)
        self.assertIn("assert", scenario)
        self.assertIn("loss=", scenario)

    def test_it_names_every_error_class(self):
        with open(os.path.join(SOURCE, "docs", "python.md"), encoding="utf-8") as f:
            text = f.read()
        for name in spindle.__all__:
            if isinstance(getattr(spindle, name), type) and issubclass(getattr(spindle, name), Exception):
                self.assertIn("`%s`" % name, text)


if __name__ == "__main__":
    unittest.main()
