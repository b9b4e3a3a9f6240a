/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Schedules of training: checkpoints. Worker 0 sends them to storage beside its other messages, in parts. A timer lets
 * one part go at a time, so that they take no more than their share of the link; storage takes them as they come.
 */
#include "train_private.h"

#define PART	   65536u /* bytes of a message, at least */
#define PARTS_MOST 1024u
#define TAG	   ((uint32_t)TRAIN_KEEP << TRAIN_ACTION)
#define RESTORE	   (TAG | TRAIN_TAG)

bool train_has_store(const struct train_config *c)
{
	return c->checkpoint || c->restore;
}

uint32_t train_checkpoint_parts(const struct train_config *c)
{
	const uint64_t parts = (c->checkpoint_bytes + PART - 1) / PART;

	return parts < 1 ? 1 : parts < PARTS_MOST ? (uint32_t)parts : PARTS_MOST;
}

bool train_checkpoint_due(const struct train_config *c, uint32_t step)
{
	return c->checkpoint && (c->before + step + 1) % c->checkpoint == 0;
}

void train_checkpoint_send(struct train_builder *b, uint32_t ended)
{
	const struct train_config *c = b->c;
	const uint32_t parts = train_checkpoint_parts(c), store = b->train->ranks - 1;
	uint32_t turn = ended;

	b->cpu = TRAIN_PACER;
	for (uint32_t i = 0; i < parts; i++) {
		const uint64_t bytes = train_part(c->checkpoint_bytes, i, parts);
		const sp_time wait = (links_wire(bytes, c->checkpoint_rate) + SP_NS - 1) / SP_NS;

		turn = train_calc(b, wait, TRAIN_PACER, turn);
		b->streamed = train_send(b, store, bytes, TAG | i, TRAIN_NETWORK, turn);
	}
}

void train_checkpoint_store(struct train_builder *b)
{
	const struct train_config *c = b->c;
	const uint32_t parts = train_checkpoint_parts(c);

	for (uint32_t w = 0; c->restore && !b->step && w < c->workers; w++)
		train_send(b, w, c->checkpoint_bytes, RESTORE, TRAIN_NETWORK, TRAIN_NONE);
	for (uint32_t i = 0; train_checkpoint_due(c, b->step) && i < parts; i++)
		train_receive(b, 0, train_part(c->checkpoint_bytes, i, parts), TAG | i, TRAIN_NETWORK, TRAIN_NONE);
}

uint32_t train_checkpoint_restore(struct train_builder *b)
{
	if (!b->c->restore || b->rank >= b->c->workers)
		return TRAIN_NONE;
	return train_receive(b, b->train->ranks - 1, b->c->checkpoint_bytes, RESTORE, TRAIN_NETWORK, TRAIN_NONE);
}
