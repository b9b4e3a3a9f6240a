#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""embed.py OUT.c FILE...: the files of a new handler's project as C, for command/handler/new.c.

A name that ends in .in is that of a text with placeholders; without it, it is the file's name in the project.
"""

import os
import sys


def main(out, *files):
    text = ['#include "handler/new.h"\n', "const struct template_file template_files[] = {"]
    for path in files:
        name = os.path.basename(path)
        with open(path, "rb") as f:
            data = f.read()
        place, placeholders = (name[:-3], True) if name.endswith(".in") else (name, False)
        text.append('{"%s", %d, 0%o, %d, (const unsigned char[]){' %
                    (place, placeholders, 0o777 if data.startswith(b"#!") else 0o666, len(data)))
        text += [",".join(map(str, data[at:at + 32])) + "," for at in range(0, len(data), 32)]
        text.append("}},")
    with open(out, "w") as f:
        f.write("\n".join(text + ["{NULL}};", ""]))


main(*sys.argv[1:])
