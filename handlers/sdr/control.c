/* SPDX-License-Identifier: BSD-3-Clause */
/* sdr, control packets that arrive: clear-to-send, ended messages, datagrams. */
#include "control.h"
#include "connection.h"
#include "datagram.h"

/* The peer has ended the messages below `count`. The last packets of messages of which we have seen none may be in
 * flight. */
static uint32_t sdr_peer_ended(struct sp_ctx *c, struct sdr *s, uint64_t count)
{
	const uint64_t seen = __atomic_load_n(&s->highest_seen, __ATOMIC_RELAXED),
		       lap = (uint64_t)s->slots * s->generations;
	uint64_t k = __atomic_load_n(&s->peer_ended, __ATOMIC_RELAXED);

	if (count > __atomic_load_n(&s->next_open, __ATOMIC_RELAXED)) /* more than were granted */
		return SP_DROP(SDR_BAD_CONTROL);
	if (seen > s->slots && k < seen - s->slots)
		k = seen - s->slots;
	if (count > lap && k < count - lap)
		k = count - lap;
	for (; k < count; k++)
		sdr_raise(&s->quiet[sp_sdr_slot(k, s->slots) * s->generations +
				    sp_sdr_generation(k, s->slots, s->generations)],
			  c->now | 1);
	sdr_raise(&s->peer_ended, count);
	return SP_DONE;
}

/* A probe of the peer, or its answer to ours. */
static uint32_t sdr_probed(struct sp_ctx *c, struct sdr *s, uint8_t type, uint64_t number)
{
	if (!number)
		return SP_DROP(SDR_BAD_CONTROL);
	if (type == SP_SDR_PROBE) {
		__atomic_store_n(&s->alive, number, __ATOMIC_RELAXED);
		sp_issue_start(c, &s->issue);
		return SP_DONE;
	}
	/* Of another probe: it is old, and proves nothing. */
	return __atomic_compare_exchange_n(&s->probe, &number, 0, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)
		       ? SP_DONE
		       : SP_DROP(SDR_BAD_CONTROL);
}

uint32_t sdr_control(struct sp_ctx *c, struct sp_packet *p)
{
	struct sdr *s = c->state;
	const struct sp_sdr_cts *cts = (const void *)p->data;
	const struct sp_sdr_control *head = &cts->head;

	if (p->opcode != SP_UC_SEND_ONLY)
		return SP_DROP(SDR_BAD_OPCODE);
	if (p->len < sizeof(*head))
		return SP_DROP(SDR_SHORT_HEADER);
	if (sp_load_be32(head->magic) != SP_SDR_CONTROL_MAGIC || head->version != SP_SDR_CONTROL_VERSION ||
	    sp_load_be16(head->length) > p->len || !__atomic_load_n(&s->connected, __ATOMIC_ACQUIRE))
		return SP_DROP(SDR_BAD_CONTROL);
	if (sp_load_be64(head->to) != s->nonce)
		return SP_DROP(SDR_BAD_NONCE);
	if (sp_load_be64(head->from) != s->peer_nonce) {
		/* The sender knows our nonce, but has another one than our peer: the peer has restarted and no longer
		 * holds our messages. Or somebody who has read our nonce wants us to think so. */
		if (!__atomic_load_n(&s->suspect, __ATOMIC_RELAXED)) {
			__atomic_store_n(&s->suspect, 1, __ATOMIC_RELAXED);
			sp_issue_start(c, &s->issue);
		}
		return SP_DROP(SDR_BAD_NONCE);
	}
	if (head->type == SP_SDR_DATAGRAM && sp_load_be16(head->length) >= sizeof(*head))
		return sdr_take_datagram(c, s, p->data + sizeof(*head),
					 sp_load_be16(head->length) - (uint32_t)sizeof(*head));
	if (head->type < SP_SDR_CTS || head->type > SP_SDR_ALIVE || sp_load_be16(head->length) < sizeof(*cts))
		return SP_DROP(SDR_BAD_CONTROL);
	if (head->type == SP_SDR_ENDED)
		return sdr_peer_ended(c, s, sp_load_be64(cts->count));

	if (head->type == SP_SDR_PROBE || head->type == SP_SDR_ALIVE)
		return sdr_probed(c, s, head->type, sp_load_be64(cts->count));

	const uint64_t count = sp_load_be64(cts->count), before = __atomic_load_n(&s->may_send, __ATOMIC_RELAXED);

	if (count > before && count - before > SP_SDR_CTS_AHEAD)
		return SP_DROP(SDR_BAD_CONTROL);
	c->counters[SDR_CTS_RECEIVED]++;
	sdr_flag(c, s, SP_SDR_PEER_SEEN);
	if (count > before) {
		sdr_raise(&s->may_send, count);
		sp_issue_start(c, &s->issue); /* publishes may_send too */
	} else if (__atomic_load_n(&s->ended, __ATOMIC_RELAXED)) {
		/* The peer repeats itself: it may be waiting to learn of lost messages. sdr_issue() knows whether we
		 * wait too. */
		__atomic_store_n(&s->answer, 1, __ATOMIC_RELAXED);
		sp_issue_start(c, &s->issue);
	}
	return SP_DONE;
}
