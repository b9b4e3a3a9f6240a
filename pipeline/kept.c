/* SPDX-License-Identifier: BSD-3-Clause */
#include "kept.h"
#include "engine.h"
#include "exec_context.h"
#include "port.h"
#include "registry.h"

#include <rte_mbuf.h>

int sp_kept_offset = -1;

void sp_kept_register(void)
{
	static const struct rte_mbuf_dynfield field = {
		.name = "spindle_kept", .size = sizeof(struct sp_kept), .align = __alignof__(struct sp_kept)};

	sp_kept_offset = rte_mbuf_dynfield_register(&field); /* again: the same one */
}

static void release(struct rte_mempool *pool, void *arg, void *object, unsigned index)
{
	struct rte_mbuf *m = object;
	struct sp_kept *k = sp_kept_of(m);

	(void)pool;
	(void)index;
	const uint32_t count = k->context == arg ? k->count : 0;

	if (count)
		*k = (struct sp_kept){.context = NULL};
	for (uint32_t n = 0; n < count; n++)
		rte_pktmbuf_free(m);
}

static void all_of(const struct sp_nic *nic, rte_mempool_obj_cb_t *fn, void *arg)
{
	if (sp_kept_offset < 0)
		return;
	rte_mempool_obj_iter(sp_registry_pool(), fn, arg);
	for (unsigned i = 0; i < nic->ports; i++)
		if (nic->port[i].pool && nic->port[i].pool != sp_registry_pool())
			rte_mempool_obj_iter(nic->port[i].pool, fn, arg);
}

void sp_kept_release(struct sp_context *c)
{
	all_of(c->nic, release, c);
}

static void give(struct rte_mempool *pool, void *arg, void *object, unsigned index)
{
	struct sp_context **pair = arg; /* from, to */
	struct sp_kept *k = sp_kept_of(object);

	(void)pool;
	(void)index;
	if (k->context == pair[0])
		k->context = pair[1];
}

void sp_kept_give(struct sp_context *from, struct sp_context *to)
{
	struct sp_context *pair[] = {from, to};

	all_of(from->nic, give, pair);
}
