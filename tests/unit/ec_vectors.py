#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What parity must be, computed from the definition alone: prints tests/unit/ec_vectors.h. Run by hand; its output is
kept, so that a change of the format cannot go unnoticed.

    tests/unit/ec_vectors.py > tests/unit/ec_vectors.h
"""
import zlib


def times(a, b):  # GF(2^8) modulo x^8 + x^4 + x^3 + x^2 + 1
    product = 0
    while b:
        if b & 1:
            product ^= a
        a = a << 1 ^ (0x11D if a & 0x80 else 0)
        b >>= 1
    return product


INVERSE = {a: next(b for b in range(256) if times(a, b) == 1) for a in range(1, 256)}


def data_chunk(j, length):  # as in ec.h
    return bytes((j * 131 + b * b * 7 + b * 29 + (b >> 8) * 53 + 11) & 255 for b in range(length))


def parity_chunk(kind, k, m, data, size, last, i):
    rows = -(-data * m // k)
    out = bytearray(size)
    for j in range(data):
        chunk = data_chunk(j, last if j == data - 1 else size)
        if kind == 'MDS':
            c = INVERSE[(255 - i) ^ j]
            table = bytes(times(c, x) for x in range(256))
            chunk = chunk.translate(table)
        elif j % rows != i:
            continue
        for b, x in enumerate(chunk):
            out[b] ^= x
    return bytes(out)


CODES = [('MDS', 1, 1, 1, 64, 64), ('MDS', 1, 1, 1, 64, 1), ('MDS', 2, 2, 2, 65, 63), ('MDS', 4, 2, 4, 1000, 1000),
         ('MDS', 32, 8, 32, 1024, 1024), ('MDS', 32, 8, 9, 1024, 17), ('MDS', 32, 8, 1, 4096, 5),
         ('MDS', 10, 10, 7, 200, 136), ('MDS', 240, 15, 240, 64, 64), ('MDS', 240, 15, 17, 128, 127),
         ('MDS', 127, 128, 127, 64, 33), ('MDS', 1, 254, 1, 64, 64), ('MDS', 254, 1, 254, 64, 1),
         ('XOR', 32, 8, 32, 1024, 1024), ('XOR', 32, 8, 9, 1024, 17), ('XOR', 1, 1, 1, 64, 3),
         ('XOR', 7, 3, 7, 333, 332), ('XOR', 254, 1, 254, 64, 64), ('XOR', 127, 127, 100, 64, 1)]

print('/* SPDX-License-' 'Identifier: BSD-3-Clause */')  # in two: this line is not what licenses this file
print('/* CRC-32 of parity chunks: printed by ec_vectors.py. */')
print('/* clang-format off: one a line */')
print('static const struct {\n\tenum sp_ec_kind kind;\n\tunsigned k, m, data;\n\tuint32_t bytes, last;'
      '\n\tunsigned row;\n\tuint32_t crc;\n} vectors[] = {')
for kind, k, m, data, size, last in CODES:
    rows = -(-data * m // k)
    for i in sorted({0, 1, rows // 2, rows - 1} & set(range(rows))):
        crc = zlib.crc32(parity_chunk(kind, k, m, data, size, last, i))
        print(f'\t{{SP_EC_{kind}, {k}, {m}, {data}, {size}, {last}, {i}, 0x{crc:08X}}},')
print('};')
