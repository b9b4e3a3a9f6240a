# SPDX-License-Identifier: BSD-3-Clause
"""What the package tells cffi of the libraries is what their headers say."""

import enum
import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

import spindle
from spindle import _library, rdma, rvma, sdr

SOURCE = os.environ.get("MESON_SOURCE_ROOT") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
ffi = _library.ffi
CC = shlex.split(os.environ.get("CC", "cc"))
HEADERS = ["host-api/sdr.h", "host-api/reliable.h", "host-api/rvma.h", "host-api/rdma.h", "pipeline/nic.h", "testbed/link.h",
           "testbed/world.h"]


def declared(pattern):
    out = []
    for name in _library._FILES:
        with open(os.path.join(os.path.dirname(_library.__file__), "declarations", name)) as f:
            out += re.findall(pattern, f.read(), re.M)
    return out


class Declarations(unittest.TestCase):
    def compiled(self, lines):
        """What a C program with the public headers prints for these expressions."""
        text = "#include <stdio.h>\n" + "".join('#include "%s"\n' % h for h in HEADERS) + "int main(void)\n{\n" + "".join(
            '\tprintf("%%llu\\n", (unsigned long long)(%s));\n' % line for line in lines) + "\treturn 0;\n}\n"
        with tempfile.TemporaryDirectory() as folder:
            file, program = os.path.join(folder, "sizes.c"), os.path.join(folder, "sizes")
            with open(file, "w") as f:
                f.write(text)
            try:
                subprocess.run(CC + ["-std=gnu11", "-D_GNU_SOURCE", "-w", "-I", SOURCE, file, "-o", program], check=True)
            except FileNotFoundError:
                self.skipTest("there is no C compiler")
            return [int(n) for n in subprocess.run([program], check=True, stdout=subprocess.PIPE).stdout.split()]

    def test_they_are_made_from_the_headers_as_they_are(self):
        try:
            subprocess.run(CC + ["--version"], check=True, stdout=subprocess.DEVNULL)
        except FileNotFoundError:
            self.skipTest("there is no C compiler")
        run = subprocess.run([sys.executable, os.path.join(SOURCE, "python", "declarations.py"), SOURCE, "--check"],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(run.returncode, 0, run.stdout)

    def test_structs_have_the_compilers_sizes_and_offsets(self):
        expressions, mine = [], []
        for name in sorted(set(declared(r"^struct (\w+) \{"))):
            struct = ffi.typeof("struct " + name)
            expressions.append("sizeof(struct %s)" % name)
            mine.append(ffi.sizeof(struct))
            for field, at in struct.fields:
                if field:
                    expressions.append("__builtin_offsetof(struct %s, %s)" % (name, field))
                    mine.append(at.offset)
        self.assertGreater(len(mine), 500)
        for expression, a, b in zip(expressions, mine, self.compiled(expressions)):
            self.assertEqual(a, b, expression)

    def test_constants_have_the_compilers_values(self):
        constants = dict(declared(r"^#define (\w+) (\d+)$"))
        self.assertGreater(len(constants), 30)
        for (name, value), right in zip(constants.items(), self.compiled(list(constants))):
            self.assertEqual(int(value), right, name)

    def test_the_libraries_have_every_function(self):
        missing = []
        for file, library in _library._FILES.items():
            with open(os.path.join(os.path.dirname(_library.__file__), "declarations", file)) as f:
                names = re.findall(r"^(?!typedef)(?:extern )?[\w ]+?[ *](\w+)\(", f.read(), re.M)
            self.assertTrue(names, file)
            for name in names:
                try:
                    getattr(_library.library(library), name)
                except AttributeError:
                    missing.append(name)
        self.assertEqual(missing, [])

    def test_the_packages_words_are_the_librarys(self):
        def words(c, prefix):
            return {k[len(prefix):]: v for k, v in ffi.typeof(c).relements.items()}
        for mine, c, prefix, part in ((rdma.Access, "enum sp_rdma_access", "SP_RDMA_", False),
                                      (rdma.QpType, "enum sp_rdma_qp_type", "SP_RDMA_", False),
                                      (rdma.State, "enum sp_rdma_qp_state", "SP_RDMA_", False),
                                      (rdma.Op, "enum sp_rdma_wr_op", "SP_RDMA_WR_", True),
                                      (rdma.Status, "enum sp_rdma_status", "SP_RDMA_", False),
                                      (rdma.WcOp, "enum sp_rdma_wc_op", "SP_RDMA_WC_", False),
                                      (rvma.Epoch, "enum rvma_epoch_type", "RVMA_EPOCH_", False),
                                      (rvma.Mode, "enum rvma_mode", "RVMA_", False)):
            self.assertTrue(issubclass(mine, enum.Enum))
            here, there = {k: int(v) for k, v in mine.__members__.items()}, words(c, prefix)
            if part:  # windows are not wrapped
                there = {k: v for k, v in there.items() if k != "BIND_MW"}
            self.assertEqual(here, there, c)
        self.assertEqual(sdr.CODES, {k.lower(): v for k, v in words("enum sdr_code", "SDR_CODE_").items()})
        schemes = words("enum sdr_reliable_scheme", "SDR_")
        self.assertEqual({s.replace("-", "_").upper(): i for i, s in enumerate(sdr.SCHEMES)}, schemes)
        fields = {name for name, _ in ffi.typeof("struct sp_rdma_qp_attr").fields}
        mask = words("enum sp_rdma_qp_mask", "SP_RDMA_QP_")
        for field, bit in rdma._MASK.items():
            self.assertIn(field, fields)
            self.assertIn(bit, mask)

    def test_the_version_is_the_projects(self):
        with open(os.path.join(SOURCE, "meson.build")) as f:
            self.assertEqual(re.search(r"version: '([^']+)'", f.read()).group(1), spindle.__version__)
