/* SPDX-License-Identifier: BSD-3-Clause */
#include "reliable_hosts.h"

uint8_t rel_source[REL_SOURCE];

/* ---- the host programs ---- */
/* NULL: that end is gone. */
static uint8_t *buffer_of(struct rel *p, struct flow *f, uint64_t k)
{
	if (!f->arena)
		return NULL;
	return f->arena + k % p->qp.max_messages * (p->qp.max_message_bytes + 2 * REL_GUARD) + REL_GUARD;
}

static void check_bytes(struct rel *p, struct flow *f, uint64_t k)
{
	const struct message *m = &f->message[k];
	const uint8_t *b = buffer_of(p, f, k);

	if (!b)
		return;
	rel_expect(p, !memcmp(b, rel_source + m->source, m->length), "message %llu has other bytes than were sent",
		   U(k));
	for (uint64_t i = m->length; i < m->posted + REL_GUARD; i++)
		rel_expect(p, b[i] == 0x5A, "message %llu: byte %llu beyond its end", U(k), U(i));
}

/* An end that is always there is told within the time-out. (0: there is none.) */
static void check_time(struct rel *p, unsigned e, const char *what, uint64_t k, sp_time began, sp_time timeout)
{
	rel_expect(p, e || !timeout || sp_world_now(p->world) - began <= timeout + REL_SLACK,
		   "%s %llu was over after %.6f s of %.6f", what, U(k), (double)(sp_world_now(p->world) - began) / 1e12,
		   (double)timeout / 1e12);
}

static void send_step(struct rel *p, struct conn *c, unsigned e)
{
	struct flow *f = &c->flow[e];

	for (uint64_t k = f->over_send; k < f->next_send; k++) {
		struct message *m = &f->message[k];

		if (m->send && p->cancel && !rel_below(p, p->cancel))
			sdr_reliable_cancel(m->send);
		if (!m->send || sdr_reliable_poll(m->send) == -EAGAIN)
			continue;
		m->sent = sdr_reliable_poll(m->send);
		check_time(p, e, "send", k, m->began[0], p->attr.timeout);
		rel_expect(p, p->fails || !m->sent, "message %llu failed: %d", U(k), m->sent);
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

		rel_expect(p, rc == 0 || rc == -EAGAIN, "sdr_reliable_send says %d", rc);
		if (rc)
			break;
		m->began[0] = sp_world_now(p->world);
		f->next_send++;
	}
}

static void recv_step(struct rel *p, struct conn *c, unsigned e)
{
	struct flow *f = &c->flow[!e];

	for (uint64_t k = f->over_recv; k < f->next_recv; k++) {
		struct message *m = &f->message[k];
		struct sdr_reliable_op_status s;

		if (m->recv && p->cancel && !rel_below(p, p->cancel))
			sdr_reliable_cancel(m->recv);
		if (!m->recv || sdr_reliable_poll(m->recv) == -EAGAIN)
			continue;
		m->received = sdr_reliable_poll(m->recv);
		check_time(p, e, "receive", k, m->began[1], p->attr.recv_timeout);
		rel_expect(p, p->fails || !m->received, "receive %llu failed: %d", U(k), m->received);
		sdr_reliable_op_status(m->recv, &s);
		if (!m->received) {
			rel_expect(p, s.message == k && s.length == m->length && s.done == s.units,
				   "receive %llu: message %llu of %llu bytes, should be %llu", U(k), U(s.message),
				   U(s.length), U(m->length));
			rel_expect(p, !((s.immediate ^ m->immediate) & s.mask), "receive %llu: immediate", U(k));
			check_bytes(p, f, k);
		}
		for (uint64_t i = 0; i < REL_GUARD; i++)
			rel_expect(p, buffer_of(p, f, k)[m->posted + i] == 0x5A, "message %llu: beyond the buffer",
				   U(k));
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

		rel_expect(p, rc == 0 || rc == -EAGAIN, "sdr_reliable_recv says %d", rc);
		if (rc)
			break;
		m->began[1] = sp_world_now(p->world);
		memset(b - REL_GUARD, 0x5A, p->qp.max_message_bytes + 2 * REL_GUARD);
		f->next_recv++;
	}
}

bool rel_end_over(const struct rel *p, const struct conn *c, unsigned e)
{
	const struct flow *out = &c->flow[e], *in = &c->flow[!e];

	return out->over_send == (p->quiet ? out->next_send : out->messages) &&
	       in->over_recv == (p->quiet ? in->next_recv : in->messages);
}

void rel_step(void *arg, sp_time now)
{
	struct rel *p = arg;

	rel_expect(p, ++p->steps < 5000000, "the run does not end");
	for (unsigned i = 0; i < p->conns && !p->text[0]; i++)
		for (unsigned e = 0; e < 2; e++) {
			struct conn *c = &p->conn[i];

			if (p->dead[e] || !c->reliable[e])
				continue;
			int rc = sdr_reliable_progress(c->reliable[e], now);
			rel_expect(p, rc == 0, "sdr_reliable_progress says %d", rc);
			send_step(p, c, e);
			recv_step(p, c, e);
			if (p->linger && rel_end_over(p, c, e) && sdr_reliable_close(c->reliable[e], p->linger) == 0)
				c->reliable[e] = NULL;
		}
}

sp_time rel_next(void *arg)
{
	const struct rel *p = arg;
	sp_time next = SP_NEVER;

	for (unsigned i = 0; i < p->conns && !p->text[0]; i++)
		for (unsigned e = 0; e < 2; e++)
			if (!p->dead[e] && p->conn[i].reliable[e]) {
				const sp_time t = sdr_reliable_deadline(p->conn[i].reliable[e]);

				next = t < next ? t : next;
			}
	return next;
}

bool rel_done(void *arg)
{
	const struct rel *p = arg;

	for (unsigned i = 0; i < p->conns && !p->text[0]; i++)
		for (unsigned e = 0; e < 2; e++)
			if (!p->dead[e] && (!rel_end_over(p, &p->conn[i], e) || (p->linger && p->conn[i].reliable[e])))
				return false;
	return true;
}
