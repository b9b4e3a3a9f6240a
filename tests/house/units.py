#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""units.py COMMAND SYSUSERS UNIT...: systemd has nothing to say about our units and our user. TAP.

The units are those of the build, with the command that was built in place of the one that will be installed."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

import tap

SKIPPED = " # SKIP "


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ, SYSTEMD_LOG_LEVEL="info"))
    return done.returncode, (done.stdout + done.stderr).splitlines()


def verify(work, name, text):
    """What it says: an unknown key is told, and no error."""
    with open(os.path.join(work, name), "w", encoding="utf-8") as f:
        f.write(text)
    status, said = run("systemd-analyze", "verify", "--man=no", os.path.join(work, name.replace("@.", "@left.")))
    return said or (["systemd-analyze verify: status %d" % status] if status else [])


def main():
    command, user, *units = sys.argv[1:]
    results = []
    with tempfile.TemporaryDirectory() as work:
        for path in units:
            name = os.path.basename(path)
            with open(path, encoding="utf-8") as f:
                text, commands = re.subn(r"^(Exec\w+=)\S+/spindle ", r"\1" + os.path.abspath(command) + " ", f.read(), flags=re.M)
            if not shutil.which("systemd-analyze"):
                results.append(("systemd-analyze verify %s%ssystemd-analyze is not installed" % (name, SKIPPED), []))
                continue
            wrong = verify(work, name, text)
            results.append(("systemd-analyze verify " + name, wrong if commands else ["it runs no command of ours"]))
            # that it would say so
            results.append(("a wrong key in it is told", [] if verify(work, name, text + "\n[Service]\nProtectHomes=yes\n") else ["it is not"]))
        if not shutil.which("systemd-sysusers"):
            results.append(("systemd-sysusers takes spindle.conf%ssystemd-sysusers is not installed" % SKIPPED, []))
        else:
            status, said = run("systemd-sysusers", "--dry-run", "--root=" + work, os.path.abspath(user))
            made = any(re.search(r"[Cc]reat\w+ user '?spindle\b", line) for line in said)
            results.append(("systemd-sysusers makes the user of spindle.conf", [] if not status and made else said + ["status %d" % status]))
    return tap.report(results)


if __name__ == "__main__":
    sys.exit(main())
