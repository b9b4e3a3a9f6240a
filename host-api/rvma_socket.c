/* SPDX-License-Identifier: BSD-3-Clause */
/* Sockets over RVMA: random numbers, and cells. */
#include "rvma_socket_private.h"

#include <string.h>
#include <sys/random.h>

uint64_t rvma_entropy(void)
{
	uint64_t n;

	while (getrandom(&n, sizeof(n), 0) < 0 && errno == EINTR)
		;
	return n;
}

uint64_t rvma_secret(struct rvma_socket *s)
{
	return s->attr.seed ? rvma_random(s) : rvma_entropy();
}

uint64_t rvma_random(struct rvma_socket *s)
{
	uint64_t z = s->random += 0x9E3779B97F4A7C15u; /* splitmix64 */

	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
	z = (z ^ z >> 27) * 0x94D049BB133111EBu;
	return z ^ z >> 31;
}

/* ---- cells ---- */
struct rvma_cell *rvma_cell_take(struct rvma_socket *s, const struct rvma_record *r)
{
	struct rvma_cell *c = STAILQ_FIRST(&s->cells);

	if (!c)
		return NULL;
	STAILQ_REMOVE_HEAD(&s->cells, link);
	s->cells_free--;
	c->from = r->from;
	c->sequence = r->sequence;
	c->length = r->length;
	c->read = 0;
	c->end = r->type == SP_RVMA_RECORD_END;
	memcpy(c->bytes, r->bytes, r->length);
	return c;
}

void rvma_cell_free(struct rvma_socket *s, struct rvma_cell *c)
{
	STAILQ_INSERT_HEAD(&s->cells, c, link);
	s->cells_free++;
}
