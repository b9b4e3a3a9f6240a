/* SPDX-License-Identifier: BSD-3-Clause */
/* The host programs of planet.h: they send and receive reliably, and compare every byte. */
#ifndef TESTS_PROPERTY_PLANET_HOSTS_H
#define TESTS_PROPERTY_PLANET_HOSTS_H

#include <errno.h>
#include <stdarg.h>

#include "../../host-api/reliable.h"
#include "../../testbed/link.h"
#include "../../testbed/world.h"
#include "../lib/suite.h"

#define PLANET_SOURCE	(1u << 20)
#define PLANET_CONNS	3
#define PLANET_MESSAGES 320 /* of a flow */
#define PLANET_GUARD	64
#define PLANET_SLACK	(20 * SP_MS) /* until the NIC has sent what waits for the wire, and the buffer is free */
#define U(n)		((unsigned long long)(n))

static uint8_t planet_source[PLANET_SOURCE];

struct message {
	uint64_t length, posted, source;
	uint32_t immediate;
	struct sdr_reliable_op *send, *recv;
	int sent, received; /* -EAGAIN: not over */
	sp_time began[2];   /* sending, receiving */
};

struct flow { /* from one end to the other */
	uint64_t messages, next_send, next_recv, over_send, over_recv;
	struct message message[PLANET_MESSAGES];
	uint8_t *arena; /* a buffer per slot, with guards */
	struct sp_mr *arena_mr;
};

struct conn {
	struct sdr_qp *qp[2];
	struct sdr_qp_info info[2];
	struct sdr_reliable *reliable[2];
	struct flow flow[2];
};

struct planet {
	uint64_t seed;
	struct sp_random random;
	char text[200]; /* what failed first */

	/* what a seed stands for; a rule may change it before planet_open */
	struct sp_link_direction link[2];
	uint16_t workers;
	unsigned conns;
	struct sdr_context_attr context_attr;
	struct sdr_qp_attr qp;
	struct sdr_reliable_attr attr;
	bool dead[2];  /* that host program has stopped */
	bool alone[2]; /* that end does not connect */
	bool quiet;    /* no more operations are begun */
	bool fails;    /* messages may fail */
	bool liar;     /* end 1 of the first connection: what it says has come may not have */
	bool (*lose)(void *arg, const uint8_t *frame, uint32_t len); /* not NULL: besides; arg: this */
	unsigned cancel; /* not 0: in one step of so many an operation is cancelled */
	sp_time linger;	 /* not 0: an end whose messages are over closes with that */

	struct sp_world *world;
	struct sp_link *under;
	struct sp_nic *nic[2];
	struct sp_dev *dev[2];
	struct sdr_context *context[2];
	struct sp_mr *source[2];
	struct conn conn[PLANET_CONNS];
	uint64_t steps;
};

static inline void __attribute__((format(printf, 3, 4))) expect(struct planet *p, bool right, const char *format, ...)
{
	va_list list;
	int n;

	if (right || p->text[0])
		return;
	n = snprintf(p->text, sizeof(p->text), "at %.9f s: ", p->world ? (double)sp_world_now(p->world) / 1e12 : 0);
	va_start(list, format);
	vsnprintf(p->text + n, sizeof(p->text) - (size_t)n, format, list);
	va_end(list);
}

static inline uint64_t below(struct planet *p, uint64_t bound)
{
	return sp_random_next(&p->random) % bound;
}

/* ---- the host programs ---------------------------------------------------------------------------------------------
 */
/* NULL: that end is gone. */
static inline uint8_t *buffer_of(struct planet *p, struct flow *f, uint64_t k)
{
	if (!f->arena)
		return NULL;
	return f->arena + k % p->qp.max_messages * (p->qp.max_message_bytes + 2 * PLANET_GUARD) + PLANET_GUARD;
}

static inline void check_bytes(struct planet *p, struct flow *f, uint64_t k)
{
	const struct message *m = &f->message[k];
	const uint8_t *b = buffer_of(p, f, k);

	if (!b)
		return;
	expect(p, !memcmp(b, planet_source + m->source, m->length), "message %llu has other bytes than were sent",
	       U(k));
	for (uint64_t i = m->length; i < m->posted + PLANET_GUARD; i++)
		expect(p, b[i] == 0x5A, "message %llu: byte %llu beyond its end", U(k), U(i));
}

/* An end that is always there is told within the time-out. (0: there is none.) */
static inline void check_time(struct planet *p, unsigned e, const char *what, uint64_t k, sp_time began,
			      sp_time timeout)
{
	expect(p, e || !timeout || sp_world_now(p->world) - began <= timeout + PLANET_SLACK,
	       "%s %llu was over after %.6f s of %.6f", what, U(k), (double)(sp_world_now(p->world) - began) / 1e12,
	       (double)timeout / 1e12);
}

static inline void send_step(struct planet *p, struct conn *c, unsigned e)
{
	struct flow *f = &c->flow[e];

	for (uint64_t k = f->over_send; k < f->next_send; k++) {
		struct message *m = &f->message[k];

		if (m->send && p->cancel && !below(p, p->cancel))
			sdr_reliable_cancel(m->send);
		if (!m->send || sdr_reliable_poll(m->send) == -EAGAIN)
			continue;
		m->sent = sdr_reliable_poll(m->send);
		check_time(p, e, "send", k, m->began[0], p->attr.timeout);
		expect(p, p->fails || !m->sent, "message %llu failed: %d", U(k), m->sent);
		if (!m->sent && m->received == -EAGAIN &&
		    !(p->liar && c == p->conn)) /* whoever says so must be right at once */
			check_bytes(p, f, k);
		sdr_reliable_op_free(m->send);
		m->send = NULL;
	}
	while (f->over_send < f->next_send && !f->message[f->over_send].send)
		f->over_send++;
	while (f->next_send < f->messages && !p->quiet) {
		struct message *m = &f->message[f->next_send];
		const int rc =
			sdr_reliable_send(c->reliable[e], p->source[e], m->source, m->length, m->immediate, &m->send);

		expect(p, rc == 0 || rc == -EAGAIN, "sdr_reliable_send says %d", rc);
		if (rc)
			break;
		m->began[0] = sp_world_now(p->world);
		f->next_send++;
	}
}

static inline void recv_step(struct planet *p, struct conn *c, unsigned e)
{
	struct flow *f = &c->flow[!e];

	for (uint64_t k = f->over_recv; k < f->next_recv; k++) {
		struct message *m = &f->message[k];
		struct sdr_reliable_op_status s;

		if (m->recv && p->cancel && !below(p, p->cancel))
			sdr_reliable_cancel(m->recv);
		if (!m->recv || sdr_reliable_poll(m->recv) == -EAGAIN)
			continue;
		m->received = sdr_reliable_poll(m->recv);
		check_time(p, e, "receive", k, m->began[1], p->attr.recv_timeout);
		expect(p, p->fails || !m->received, "receive %llu failed: %d", U(k), m->received);
		sdr_reliable_op_status(m->recv, &s);
		if (!m->received) {
			expect(p, s.message == k && s.length == m->length && s.done == s.units,
			       "receive %llu: message %llu of %llu bytes, should be %llu", U(k), U(s.message),
			       U(s.length), U(m->length));
			expect(p, !((s.immediate ^ m->immediate) & s.mask), "receive %llu: immediate", U(k));
			check_bytes(p, f, k);
		}
		for (uint64_t i = 0; i < PLANET_GUARD; i++)
			expect(p, buffer_of(p, f, k)[m->posted + i] == 0x5A, "message %llu: beyond the buffer", U(k));
		sdr_reliable_op_free(m->recv);
		m->recv = NULL;
	}
	while (f->over_recv < f->next_recv && !f->message[f->over_recv].recv)
		f->over_recv++;
	while (f->next_recv < f->messages && !p->quiet) {
		struct message *m = &f->message[f->next_recv];
		uint8_t *b = buffer_of(p, f, f->next_recv);
		const int rc =
			sdr_reliable_recv(c->reliable[e], f->arena_mr, (uint64_t)(b - f->arena), m->posted, &m->recv);

		expect(p, rc == 0 || rc == -EAGAIN, "sdr_reliable_recv says %d", rc);
		if (rc)
			break;
		m->began[1] = sp_world_now(p->world);
		memset(b - PLANET_GUARD, 0x5A, p->qp.max_message_bytes + 2 * PLANET_GUARD);
		f->next_recv++;
	}
}

static inline bool end_over(const struct planet *p, const struct conn *c, unsigned e)
{
	const struct flow *out = &c->flow[e], *in = &c->flow[!e];

	return out->over_send == (p->quiet ? out->next_send : out->messages) &&
	       in->over_recv == (p->quiet ? in->next_recv : in->messages);
}

static inline void planet_step(void *arg, sp_time now)
{
	struct planet *p = arg;

	expect(p, ++p->steps < 5000000, "the run does not end");
	for (unsigned i = 0; i < p->conns && !p->text[0]; i++)
		for (unsigned e = 0; e < 2; e++) {
			struct conn *c = &p->conn[i];
			int rc;

			if (p->dead[e] || !c->reliable[e])
				continue;
			rc = sdr_reliable_progress(c->reliable[e], now);
			expect(p, rc == 0, "sdr_reliable_progress says %d", rc);
			send_step(p, c, e);
			recv_step(p, c, e);
			if (p->linger && end_over(p, c, e) && sdr_reliable_close(c->reliable[e], p->linger) == 0)
				c->reliable[e] = NULL;
		}
}

static inline sp_time planet_next(void *arg)
{
	const struct planet *p = arg;
	sp_time next = SP_NEVER;

	for (unsigned i = 0; i < p->conns && !p->text[0]; i++)
		for (unsigned e = 0; e < 2; e++)
			if (!p->dead[e] && p->conn[i].reliable[e]) {
				const sp_time t = sdr_reliable_deadline(p->conn[i].reliable[e]);

				next = t < next ? t : next;
			}
	return next;
}

static inline bool planet_done(void *arg)
{
	const struct planet *p = arg;

	for (unsigned i = 0; i < p->conns && !p->text[0]; i++)
		for (unsigned e = 0; e < 2; e++)
			if (!p->dead[e] && (!end_over(p, &p->conn[i], e) || (p->linger && p->conn[i].reliable[e])))
				return false;
	return true;
}

#endif
