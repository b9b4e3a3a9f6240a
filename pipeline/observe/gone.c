/* SPDX-License-Identifier: BSD-3-Clause */
#include "gone.h"
#include "../engine.h"
#include "../context.h"
#include "../view.h"

#include <stdlib.h>
#include <string.h>

static uint64_t context_drops(const struct sp_context *c, unsigned reason)
{
	return sp_context_sum(c, offsetof(struct sp_view, drops) + reason * sizeof(uint64_t));
}

void sp_stats_remember_drops(struct sp_nic *nic, const char *reason, uint64_t n)
{
	struct sp_gone *g = nic->gone;

	while (g && strcmp(g->name, reason))
		g = g->next;
	if (!g && n) {
		char *name = strdup(reason);

		g = calloc(1, sizeof(*g));
		if (!g || !name) { /* then only the total counts these drops */
			free(g);
			free(name);
			return;
		}
		g->name = name;
		g->next = nic->gone;
		nic->gone = g;
	}
	if (g)
		g->count += n;
}

void sp_stats_remember(struct sp_nic *nic, const struct sp_context *c)
{
	for (unsigned r = 0; r < c->reasons; r++)
		sp_stats_remember_drops(nic, c->handler->drops[r], context_drops(c, r));
}

void sp_stats_forget(struct sp_nic *nic)
{
	while (nic->gone) {
		struct sp_gone *g = nic->gone;

		nic->gone = g->next;
		free((char *)(uintptr_t)g->name);
		free(g);
	}
}
