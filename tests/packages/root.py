# SPDX-License-Identifier: BSD-3-Clause
"""Clean roots of Debian, in which packages are built and installed: of the archive that this machine's apt uses."""
import fnmatch
import glob
import os
import shutil
import subprocess

ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
# Mounts that end with the command. /dev and /sys are the machine's: null, urandom and the like, and the processors.
ENTER = 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && mount --rbind /sys "$0/sys" && cd "$0" && exec chroot "$0" /bin/sh -c "$1"'
UNREACHABLE = ("Could not resolve", "Failed to fetch", "Unable to connect", "Could not connect", "Temporary failure")


class Unavailable(Exception):
    """Why there can be no root here."""


class Failed(Exception):
    """A command that failed: its output."""


def output(*command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **more)
    return done.returncode, done.stdout


def archive():
    """Where this machine's apt has Debian from, as lines of sources.list."""
    lines = output("apt-get", "indextargets", "--format", "deb $(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages",
                   "Origin: Debian")[1]
    return "\n".join(sorted(set(lines.splitlines()))) + "\n"


class Roots:
    """Makes roots below a directory: the first one from the archive, the others from a copy of it."""
    def __init__(self, work):
        self.work, self.bases = work, {}
        for tool in ("mmdebstrap", "apt-get", "unshare"):
            if not shutil.which(tool):
                raise Unavailable("%s is not installed" % tool)
        if os.geteuid():
            raise Unavailable("this needs root")
        if not archive().strip():
            raise Unavailable("apt knows no archive of Debian (apt-get update)")

    def base(self, suite):
        if suite not in self.bases:
            tar = os.path.join(self.work, suite + ".tar")
            status, said = output("mmdebstrap", "--variant=apt", "--format=tar", suite, tar, "-", input=archive())
            if status and any(word in said for word in UNREACHABLE):
                raise Unavailable("the archive cannot be reached")
            if status:
                raise Failed("mmdebstrap: " + said[-3000:])
            self.bases[suite] = tar
        return self.bases[suite]

    def make(self, name, suite):
        path = os.path.join(self.work, name)
        os.mkdir(path)
        subprocess.run(["tar", "-xf", self.base(suite), "-C", path, "--numeric-owner"], check=True)
        for name_of in ("resolv.conf", "hosts"):
            if os.path.exists("/etc/" + name_of):
                shutil.copy("/etc/" + name_of, os.path.join(path, "etc", name_of))
        with open(os.path.join(path, "etc/apt/apt.conf.d/90machine"), "w", encoding="utf-8") as f:
            f.write(output("apt-config", "dump", "Acquire")[1])  # proxies
        return Root(path)


class Root:
    def __init__(self, path):
        self.path, self.folder = path, "/"

    def run(self, command):
        """Its output; Failed: its status was not 0."""
        script = "cd '%s' && %s" % (self.folder, command)
        status, said = output("unshare", "--mount", "/bin/sh", "-c", ENTER, self.path, script, env=ENVIRONMENT)
        if status:
            raise Failed("%s: status %d\n%s" % (command, status, said[-4000:]))
        return said

    def inside(self, path):
        return os.path.join(self.path, os.path.join(self.folder, path).lstrip("/"))

    def copy(self, source, patterns, destination, ignored=()):
        """As COPY: folders give what is in them, files themselves."""
        to = self.inside(destination)
        for pattern in patterns:
            found = sorted(glob.glob(os.path.join(source, pattern.lstrip("/"))))
            if not found:
                raise Failed("COPY: there is no %s" % pattern)
            for path in found:
                if os.path.isdir(path):
                    top = os.path.realpath(path)
                    shutil.copytree(top, to, symlinks=True, dirs_exist_ok=True,
                                    ignore=lambda at, names, top=top: [name for name in names if at == top and any(
                                        fnmatch.fnmatch(name, pattern) for pattern in ignored)])
                else:
                    os.makedirs(to, exist_ok=True)
                    shutil.copy(path, to)
