/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets into a message by several workers, with locked operations. */
#ifndef HANDLERS_SDR_PLACE_WORKERS_H
#define HANDLERS_SDR_PLACE_WORKERS_H

#include "state.h"

#pragma GCC visibility push(hidden)
void sdr_place_workers(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot, struct sp_packet *const *packet,
		       unsigned n, uint32_t *verdicts);
/* Publishes these chunks of a word of the chunk bitmap. All their bytes are in place. */
void sdr_publish_chunks(struct sp_ctx *c, const struct sdr *s, struct sdr_slot *slot, uint64_t word, uint64_t chunks);
/* Fixes the length of the message at what is known of it. 0: it is that; *fixed: this call has fixed it. -ERANGE: it is
 * another one. -EAGAIN: a packet is about to fix it. */
int sdr_fix_length(struct sdr_slot *slot, uint64_t length, bool *fixed);
#pragma GCC visibility pop

#endif
