#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""symbols.py map|stubs|header TABLE OUTPUT: of a table as symbols.txt is, the linker's version script; the stubs in C; or
SHIM_PRIVATE(), by which a real function has its name in all private nodes."""
import collections
import sys

RETURNS = {
    "errno": ("int", "return ENOSYS;"),
    "minus": ("int", "return -1;"),
    "null": ("void *", "return NULL;"),
    "zero": ("uint64_t", "return 0;"),
    "none": ("void", ""),
    "data": (None, None),
}
Symbol = collections.namedtuple("Symbol", "node how name default")


def read(table):
    """The symbols, each private one for each number, and these numbers."""
    symbols, numbers = [], {}
    with open(table, encoding="utf-8") as lines:
        for at, line in enumerate(lines, 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            if words[0] == "private":
                numbers[words[1]] = words[2:]
                continue
            if len(words) != 3:
                sys.exit("%s:%d: NODE HOW NAME" % (table, at))
            node, how, name = words
            old = how.startswith("old-")
            how = how[4:] if old else how
            if how != "real" and how not in RETURNS:
                sys.exit("%s:%d: '%s' is no way to make a symbol" % (table, at, how))
            for number, value in enumerate(numbers.get(node, [""])):
                default = not old and (number == 0 or "*" in name)
                symbols.append(Symbol(node.replace("*", value), how, name.replace("*", value), default))
    return symbols, numbers


def version_script(symbols):
    """Stubs and private names get their versions by .symver. A node with a dot inherits the one before. What is local is
    said in a node without stubs: in another, they would be local as well."""
    text, before = "", ""
    stubbed = {s.node for s in symbols if s.how != "real"}
    local = next(s.node for s in symbols if s.node not in stubbed)
    for node in dict.fromkeys(s.node for s in symbols):
        names = [s.name for s in symbols if s.node == node and s.how == "real" and "PRIVATE" not in node]
        text += node + " {\n"
        text += "\tglobal:\n" + "".join("\t\t%s;\n" % name for name in names) if names else ""
        text += "\tlocal: *;\n" if node == local else ""
        inherits = "." in node and before
        text += "}" + (" " + before if inherits else "") + ";\n"
        before = node if "." in node else before
    return text


def stubs(symbols):
    """One function for each way to return, which has many names."""
    text = "/* Made by symbols.py. */\n#include <errno.h>\n#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n"
    for how in sorted({s.how for s in symbols} - {"real"}):
        returns, body = RETURNS[how]
        stub = "shim_stub_" + how
        if returns:
            text += "\n%s %s(void);\n%s %s(void)\n{\n\terrno = ENOSYS;\n\t%s\n}\n" % (returns, stub, returns, stub, body)
        else:
            text += "\nextern bool %s;\nbool %s = false;\n" % (stub, stub)
        for s in symbols:
            if s.how == how:
                text += '__asm__(".symver %s, %s@%s%s");\n' % (stub, s.name, "@" if s.default else "", s.node)
    return text


def header(numbers):
    """The function may not have the name itself: GNU ld would then drop the default version."""
    text = "/* Made by symbols.py. */\n#define SHIM_PRIVATE(function, name)"
    for node, values in numbers.items():
        for n, value in enumerate(values):
            text += ' \\\n\t__asm__(".symver " #function ", " #name "@%s%s");' % ("" if n else "@", node.replace("*", value))
    return text + "\n"


def main():
    what, table, output = sys.argv[1:]
    symbols, numbers = read(table)
    made = {"map": lambda: version_script(symbols), "stubs": lambda: stubs(symbols), "header": lambda: header(numbers)}
    with open(output, "w", encoding="utf-8") as out:
        out.write(made[what]())


if __name__ == "__main__":
    main()
