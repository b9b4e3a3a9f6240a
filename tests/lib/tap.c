/* SPDX-License-Identifier: BSD-3-Clause */
#include "tap.h"

uint64_t tap_mix(uint64_t hash, const uint8_t *bytes, uint32_t len)
{
	uint64_t word;

	for (; len >= 8; len -= 8, bytes += 8) {
		memcpy(&word, bytes, 8);
		hash = (hash ^ word) * 0x9FB21C651E98DF25u;
		hash ^= hash >> 32;
	}
	for (; len; len--)
		hash = (hash ^ *bytes++) * 0x100000001B3u;
	return hash;
}

static void tap_hash(struct tap *t, bool in, const uint8_t *frame, uint32_t len, sp_time now)
{
	const uint64_t head[2] = {now, (uint64_t)len << 1 | in};

	t->hash = tap_mix(tap_mix(t->hash, (const uint8_t *)head, sizeof(head)), frame, len);
}

static void tap_push(struct tap *t, struct rte_mbuf *m, uint16_t queue, uint64_t tag)
{
	if (t->spread)
		queue = (uint16_t)(sp_random_next(&t->random) >> 40) % t->queues;
	t->fifo[queue].packet[t->fifo[queue].tail % TAP_FIFO] = m;
	t->fifo[queue].tag[t->fifo[queue].tail++ % TAP_FIFO] = tag;
	t->waiting++;
}

void tap_inject(struct tap *t, const uint8_t *frame, uint32_t len, uint64_t tag, sp_time at)
{
	struct tap_injection *i = malloc(sizeof(*i) + len), **where = &t->injection;

	if (!i)
		abort();
	*i = (struct tap_injection){.at = at, .tag = tag, .len = len};
	memcpy(i->frame, frame, len);
	while (*where && (*where)->at <= at)
		where = &(*where)->next;
	i->next = *where;
	*where = i;
}

static void tap_pull(struct tap *t, sp_time now)
{
	struct rte_mbuf *m[32];

	for (uint16_t q = 0; t->under && q < t->queues; q++) {
		unsigned n;

		while ((n = t->under->receive(t->under_arg, q, m, 32, now)))
			for (unsigned i = 0; i < n; i++)
				tap_push(t, m[i], q, 0);
	}
	while (t->injection && t->injection->at <= now) {
		struct tap_injection *i = t->injection;
		struct rte_mbuf *p = sp_packet_alloc();

		t->injection = i->next;
		if (p) {
			memcpy(rte_pktmbuf_append(p, (uint16_t)i->len), i->frame, i->len);
			tap_push(t, p, sp_flow_queue(i->frame, i->len, t->queues), i->tag);
		} else {
			t->no_buffer++;
		}
		free(i);
	}
}

unsigned tap_receive(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	struct tap *t = port;
	unsigned n = 0;

	tap_pull(t, now);
	while (n < max && t->fifo[queue].head != t->fifo[queue].tail) {
		const uint32_t at = t->fifo[queue].head++ % TAP_FIFO;
		struct rte_mbuf *m = t->fifo[queue].packet[at];
		const uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);

		t->waiting--;
		if (!t->seen(t->arg, true, frame, m->data_len, t->fifo[queue].tag[at], now)) {
			rte_pktmbuf_free(m);
			continue;
		}
		tap_hash(t, true, frame, m->data_len, now);
		t->in++;
		packet[n++] = m;
	}
	return n;
}

unsigned tap_transmit(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now)
{
	struct tap *t = port;
	unsigned n = 0;

	/* One by one: a frame is seen once it is known to be taken, and before it can be changed. */
	while (n < count) {
		uint8_t frame[10000];
		const uint32_t len = packet[n]->data_len;

		memcpy(frame, rte_pktmbuf_mtod(packet[n], uint8_t *), len);
		if (packet[n]->nb_segs != 1)
			abort();
		if (t->under && !t->under->transmit(t->under_arg, queue, &packet[n], 1, now))
			break;
		if (!t->under)
			rte_pktmbuf_free(packet[n]);
		n++;
		tap_hash(t, false, frame, len, now);
		t->out++;
		t->seen(t->arg, false, frame, len, 0, now);
	}
	return n;
}

sp_time tap_next(void *port, uint16_t queue, bool transmit_blocked)
{
	const struct tap *t = port;
	sp_time next = t->injection ? t->injection->at : SP_NEVER;

	if (t->fifo[queue].head != t->fifo[queue].tail)
		return 0;
	for (uint16_t q = 0; t->under && q < t->queues; q++) {
		const sp_time at = t->under->next(t->under_arg, q, transmit_blocked && q == queue);

		next = at < next ? at : next;
	}
	return next;
}

const struct sp_port_ops tap_ops = {.receive = tap_receive, .transmit = tap_transmit, .next = tap_next};

void tap_open(struct tap *t, const struct sp_port_ops *under, void *under_arg, uint16_t queues)
{
	*t = (struct tap){.under = under, .under_arg = under_arg, .queues = queues, .hash = 0xCBF29CE484222325u};
	for (uint16_t q = 0; q < queues; q++) {
		t->fifo[q].packet = calloc(TAP_FIFO, sizeof(*t->fifo[q].packet));
		t->fifo[q].tag = calloc(TAP_FIFO, sizeof(*t->fifo[q].tag));
		if (!t->fifo[q].packet || !t->fifo[q].tag)
			abort();
	}
}

void tap_close(struct tap *t)
{
	for (uint16_t q = 0; q < t->queues; q++) {
		while (t->fifo[q].head != t->fifo[q].tail)
			rte_pktmbuf_free(t->fifo[q].packet[t->fifo[q].head++ % TAP_FIFO]);
		free(t->fifo[q].packet);
		free(t->fifo[q].tag);
	}
	while (t->injection) {
		struct tap_injection *i = t->injection;

		t->injection = i->next;
		free(i);
	}
}
