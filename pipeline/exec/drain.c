/* SPDX-License-Identifier: BSD-3-Clause */
#include "drain.h"
#include "calls.h"
#include "../entity.h"
#include "fate.h"
#include "measure.h"
#include "message.h"

/* Runs the packets of messages that an older version has open. The others stay in p; returns how many. */
static unsigned run_older(struct sp_view *v, struct sp_packet **p, unsigned n)
{
	const struct sp_handler *h = v->context->handler;
	struct sp_packet *own[SP_BURST + SP_PARKED];
	struct sp_worker *w = v->owner;
	unsigned owns = 0, left = 0, i, j;

	if (sp_messages_quiet(v->context))
		return n;
	v->pub.now = w->now;
	sp_doing_begin(w, v, SP_DOING_PACKETS, p, n);
	for (i = 0; i < n; i++) {
		uint64_t key;

		sp_doing_at(w, i);
		key = h->classify(&v->pub, p[i]);
		if (key != SP_NO_MESSAGE && key <= SP_REJECT(256) && sp_message_is_here(v, key)) {
			p[i]->key = key;
			own[owns++] = p[i];
		} else {
			p[left++] = p[i];
		}
	}
	sp_doing_begin(w, v, SP_DOING_PACKETS, own, owns);
	for (i = 0; i < owns; i = j) {
		unsigned ended;

		for (j = i + 1; j < owns && own[j]->key == own[i]->key; j++)
			;
		/* Packets of a message that has ended just now are for a newer version. */
		for (ended = sp_call_message(v, own + i, j - i, true); ended; ended--)
			p[left++] = own[j - ended];
	}
	return left;
}

void sp_drain_packets(struct sp_view *v, struct sp_packet **p, unsigned n)
{
	struct sp_context *older[SP_MAX_VERSIONS], *c = v->context;
	unsigned versions = 0;

	if (c->home_only && c->home != v->pub.worker) { /* the version that they were looked up for was not */
		for (unsigned i = 0; i < n; i++)
			sp_packet_hand_over(v->owner, c->home, p[i]);
		return;
	}
	while (versions < SP_MAX_VERSIONS && (c = __atomic_load_n(&c->older, __ATOMIC_ACQUIRE)) != NULL)
		older[versions++] = c;
	while (n && versions) /* the oldest first: only the others are known to open no messages any more */
		n = run_older(older[--versions]->view[v->pub.worker], p, n);
	if (!n)
		return;
	sp_doing_begin(v->owner, v, SP_DOING_PACKETS, p, n);
	sp_call_packets(v, p, n);
}
