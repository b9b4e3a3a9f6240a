# SPDX-License-Identifier: BSD-3-Clause
"""The package as others get it: installed by pip into an environment of its own, without a network; and its types."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import spindle

PYTHON = os.path.dirname(os.path.dirname(os.path.abspath(spindle.__file__)))
SCENARIO = """
import spindle
assert spindle.__file__.startswith({prefix!r}), spindle.__file__
with spindle.World(seed=3) as world:
    a, b = world.pair(loss=0.05, delay=1e-3)
    one, two = a.sdr().qp(), b.sdr().qp()
    one.connect(two.info)
    two.connect(one.info)
    source, sink = a.memory(50000), b.memory(50000)
    source.write(b"x" * 50000)
    send, receive = one.reliable(), two.reliable()
    got, sent = receive.receive(sink), send.send(source)
    got.wait(10)
    assert sink.read() == source.read()
print("arrived at", world.closed, spindle.__version__)
"""


class Package(unittest.TestCase):
    def run_it(self, *command, **more):
        env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PIP_INDEX_URL")}
        env.update(PIP_NO_INDEX="1", PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_CONFIG_FILE=os.devnull)
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, **more)
        self.assertEqual(run.returncode, 0, run.stdout[-3000:])
        return run.stdout

    def test_pip_installs_it_without_a_network(self):
        for module in ("venv", "pip", "setuptools", "wheel"):
            if not importlib.util.find_spec(module):
                self.skipTest("python3-%s is not installed" % module)
        with tempfile.TemporaryDirectory(prefix="spindle-pip-") as folder:
            source, home = os.path.join(folder, "python"), os.path.join(folder, "home")
            shutil.copytree(PYTHON, source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
            # cffi is Debian's, and so is what pip builds with.
            self.run_it(sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", home)
            python = os.path.join(home, "bin", "python3")
            said = self.run_it(python, "-m", "pip", "install", "--no-build-isolation", ".", cwd=source)
            self.assertIn("Successfully installed spindle-" + spindle.__version__, said)
            said = self.run_it(python, "-c", SCENARIO.format(prefix=home), cwd=folder)
            self.assertIn("arrived at True " + spindle.__version__, said)
            (place,) = (os.path.join(d, "spindle") for d, names, _ in os.walk(home) if "spindle" in names and "site-packages" in d)
            here = {n for n in os.listdir(os.path.join(PYTHON, "spindle")) if n != "__pycache__"}
            self.assertEqual(here, {n for n in os.listdir(place) if n != "__pycache__"})
            self.assertEqual(sorted(os.listdir(os.path.join(PYTHON, "spindle", "declarations"))),
                             sorted(os.listdir(os.path.join(place, "declarations"))))

    def test_a_library_that_is_not_there_is_named(self):
        said = self.run_it(sys.executable, "-c", (
            "import os, errno, sys\n"
            "sys.path.insert(0, %r)\n"
            "import spindle\n"
            "from spindle import _library\n"
            "_library.VERSIONS['libspindle'] = '1.none'\n"
            "try:\n"
            "    spindle.attach('x')\n"
            "except spindle.Error as e:\n"
            "    assert e.errno == errno.ENOENT\n"
            "    print(e)\n") % PYTHON)
        self.assertIn("libspindle.so.1.none", said)
        self.assertIn("SPINDLE_LIBRARIES", said)

    def test_types_are_right(self):
        if not importlib.util.find_spec("mypy"):
            self.skipTest("mypy is not installed")
        with tempfile.TemporaryDirectory(prefix="spindle-mypy-") as folder:
            self.run_it(sys.executable, "-m", "mypy", "--config-file", os.path.join(PYTHON, "pyproject.toml"), "--cache-dir", folder,
                        os.path.join(PYTHON, "spindle"), os.path.join(PYTHON, "declarations.py"))

    def test_everything_public_is_documented_and_annotated(self):
        import inspect
        from spindle import device, errors, rdma, replay, rvma, sdr, world
        bare = []
        for module in (spindle, device, errors, rdma, replay, rvma, sdr, world):
            for name, one in vars(module).items():
                if name.startswith("_") or not callable(one) or getattr(one, "__module__", "") != module.__name__:
                    continue
                if not inspect.getdoc(one):
                    bare.append("%s.%s" % (module.__name__, name))
                for method, function in vars(one).items() if inspect.isclass(one) else [(name, one)]:
                    function = function.fget if isinstance(function, property) else function
                    if method.startswith("_") or not inspect.isfunction(function):
                        continue
                    if "return" not in getattr(function, "__annotations__", {}):
                        bare.append("%s.%s.%s has no types" % (module.__name__, name, method))
                    if not function.__doc__ and method not in ("close", "closed", "number"):
                        bare.append("%s.%s.%s" % (module.__name__, name, method))
        self.assertEqual(bare, [])


if __name__ == "__main__":
    unittest.main()
