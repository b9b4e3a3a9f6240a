/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies past the caches, by the widest stores of a level. */
#ifndef ISA_STREAM_H
#define ISA_STREAM_H

#include <stdint.h>

#include "isa.h"

/* len bytes, of whole lines of 64, to the beginning of a line. */
typedef void sp_isa_stream_fn(uint8_t *to, const uint8_t *from, uint32_t len);

extern sp_isa_stream_fn *sp_isa_stream; /* that of sp_isa_level(); written before main() */
/* That of a level, which the processor must have. */
sp_isa_stream_fn *sp_isa_stream_of(enum sp_isa_level level);

sp_isa_stream_fn sp_isa_stream_baseline, sp_isa_stream_avx2, sp_isa_stream_avx512;

#endif
