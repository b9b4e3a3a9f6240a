/* SPDX-License-Identifier: BSD-3-Clause */
/* Reliable messages over SDR: ends that die, start anew, refuse, give up or lie. */
#include "../lib/reliable_pair.h"

#include "../../handlers/reliability/bytes.h"
#include "../../handlers/reliability/receiver.h"

static void bad_link(struct rel *p)
{
	for (unsigned e = 0; e < 2; e++) {
		struct sp_link_direction *l = &p->link[e];

		l->loss = (double)rel_below(p, 10) / 100;
		if (rel_below(p, 3) == 0)
			sp_link_burst(l, 1 + (double)rel_below(p, 20), (double)rel_below(p, 12) / 100);
		l->duplicate = (double)rel_below(p, 20) / 100;
		l->reorder = (double)rel_below(p, 10) / 100;
		l->reorder_delay = rel_below(p, 2 * l->delay);
		p->qp.max_packet_life += 4 * l->delay;
	}
}

/* ---- ends that die ---- */
enum { BEFORE_CONNECT, BEFORE_POSTING, UNDER_WAY, BEFORE_LAST_ACK, CLOSING, ANEW, DEATHS };

static bool all_received(void *arg)
{
	const struct rel *p = arg;

	return p->text[0] || p->conn[0].flow[0].over_recv == p->conn[0].flow[0].messages;
}

static bool one_closes(void *arg)
{
	const struct rel *p = arg;

	return p->text[0] || rel_end_over(p, &p->conn[0], 1);
}

/* The program at end 1 is gone, and with it its QPs. */
static void die(struct rel *p)
{
	p->dead[1] = p->quiet = true;
	for (unsigned i = 0; i < p->conns; i++) {
		struct conn *c = &p->conn[i];

		rel_end_close(p, c, 1);
		for (unsigned k = 0; k < REL_MESSAGES; k++)
			c->flow[1].message[k].send = c->flow[0].message[k].recv = NULL;
		c->flow[1].over_send = c->flow[1].next_send;
		c->flow[0].over_recv = c->flow[0].next_recv;
	}
}

/* What it says now is of another connection: it proves nothing, but that all is over. */
static void come_anew(struct rel *p)
{
	struct sdr_reliable_status before[REL_CONNS], after;

	rel_pass(p, 20 * p->link[0].delay + 100 * SP_MS); /* what waits in queues of the dead one arrives */
	for (unsigned i = 0; i < p->conns; i++)
		sdr_reliable_status(p->conn[i].reliable[0], &before[i]);
	for (unsigned i = 0; i < p->conns && !p->text[0]; i++) {
		struct conn *c = &p->conn[i];
		struct sp_rel_ack_maker m;
		uint8_t bytes[SP_REL_ACK_LEAST];

		rel_end_open(p, c, 1, c->info[1].qpn);
		rel_conn_connect(p, c, 1);
		sp_rel_ack_begin(&m, bytes, sizeof(bytes), NULL, c->flow[0].next_send); /* all has come */
		for (unsigned n = 0; n < 100; n++) {					/* more than a burst takes */
			rel_expect(p, !sdr_control_send(c->qp[1], bytes, (uint32_t)sp_rel_ack_end(&m)), "control");
			rel_pass(p, p->link[0].delay / 4 + SP_US);
		}
	}
	rel_pass(p, 20 * p->link[0].delay + 1100 * SP_MS); /* the old one is asked, and silent */
	for (unsigned i = 0; i < p->conns && !p->text[0]; i++) {
		struct conn *c = &p->conn[i];
		struct sdr_reliable_op *op;
		struct sdr_qp_status status;

		sdr_qp_status(c->qp[0], &status);
		sdr_reliable_status(c->reliable[0], &after);
		rel_expect(p, status.peer_restarted, "a hundred datagrams of the new one, and nobody has noticed");
		rel_expect(p, after.sent == before[i].sent && after.acks == before[i].acks && !after.refused,
			   "datagrams with another nonce count: %llu", U(after.acks - before[i].acks));
		rel_expect(p, !after.sending && !after.receiving, "%u sends and %u receives are not over",
			   after.sending, after.receiving);
		for (uint64_t k = 0; k < c->flow[0].next_send; k++) {
			const int sent = c->flow[0].message[k].sent;

			rel_expect(p, !sent || sent == -ECONNABORTED || sent == -ETIMEDOUT, "send %llu: %d", U(k),
				   sent);
		}
		rel_expect(p, sdr_reliable_send(c->reliable[0], NULL, 0, 0, 0, &op) == -ECONNABORTED,
			   "it can be sent to");
		rel_expect(p, sdr_reliable_deadline(c->reliable[0]) == SP_NEVER, "something is still to be done");
	}
}

/* Both ends, new connections between the same NICs: all works. */
static void again(struct rel *p)
{
	p->attr.timeout = 300 * SP_SEC;
	p->attr.recv_timeout = 0;
	p->linger = 0;
	p->fails = p->quiet = p->dead[1] = p->alone[1] = false;
	for (unsigned i = 0; i < p->conns; i++) {
		struct conn *c = &p->conn[i];

		for (unsigned e = 0; e < 2; e++) {
			struct flow *f = &c->flow[e];

			f->messages = 1 + rel_below(p, 12);
			f->next_send = f->next_recv = f->over_send = f->over_recv = 0;
			for (uint64_t k = 0; k < f->messages; k++) {
				struct message *m = &f->message[k];

				*m = (struct message){.length = rel_below(p, p->qp.max_message_bytes + 1),
						      .immediate = 7,
						      .sent = -EAGAIN,
						      .received = -EAGAIN};
				m->posted = m->length;
			}
		}
		rel_end_close(p, c, 0);
		rel_end_close(p, c, 1);
		rel_conn_open(p, c);
	}
	if (p->text[0])
		return;
	rel_step(p, sp_world_now(p->world));
	rel_run(p);
}

static void death(struct rel *p)
{
	const unsigned when = (unsigned)(p->seed % DEATHS);

	bad_link(p);
	p->fails = true;
	p->attr.timeout = p->link[0].delay * 1000 + 500 * SP_MS;
	p->attr.recv_timeout = p->attr.timeout * 2;
	p->alone[1] = when == BEFORE_CONNECT;
	p->dead[1] = when == BEFORE_CONNECT || when == BEFORE_POSTING;
	p->linger = when == CLOSING ? 100 * p->link[0].delay : 0;
	rel_open(p);
	if (when == BEFORE_LAST_ACK)
		sp_world_run(p->world, 10 * SP_SEC, all_received, p);
	else if (when == CLOSING)
		sp_world_run(p->world, 10 * SP_SEC, one_closes, p);
	else if (when != BEFORE_CONNECT || rel_below(p, 2))
		rel_pass(p, rel_below(p, 1 + rel_below(p, 400)) * p->link[0].delay);
	die(p);
	sp_time died = sp_world_now(p->world);
	if (when == ANEW)
		come_anew(p);
	rel_run(p);
	rel_expect(p, sp_world_now(p->world) <= died + p->attr.recv_timeout + p->linger + SP_SEC, "over after %.6f s",
		   (double)(sp_world_now(p->world) - died) / 1e12);
	for (unsigned i = 0; i < p->conns && !p->text[0]; i++) {
		struct flow *f = &p->conn[i].flow[1];
		const uint64_t bytes = f->arena_mr->len;

		rel_expect(p, sdr_mr_dereg(f->arena_mr) == 0, "sdr_mr_dereg of receive buffers");
		rel_expect(p, sdr_mr_reg(p->context[0], f->arena, bytes, &f->arena_mr) == 0, "sdr_mr_reg");
	}
	rel_expect(p, sdr_mr_dereg(p->source[0]) == 0, "sdr_mr_dereg of send buffers");
	rel_expect(p, sdr_mr_reg(p->context[0], rel_source, REL_SOURCE, &p->source[0]) == 0, "sdr_mr_reg");
	if (!p->text[0])
		again(p);
	rel_close(p);
}

TEST_CALL(messages_to_the_dead_fail_in_time_and_new_connections_work, rel_over_seeds(__func__, 120, death))

/* ---- messages that are given up by either end ---- */
static uint64_t ends[256]; /* of sends, by error */

static void give_up(struct rel *p)
{
	bad_link(p);
	p->fails = true;
	p->qp.max_messages = 1 + (uint32_t)rel_below(p, 6);
	p->attr.recv_timeout = 10 * SP_SEC; /* all polls that tell of one may be lost, in a long burst */
	p->cancel = 64u << rel_below(p, 8);
	for (unsigned i = 0; i < p->conns; i++)
		for (unsigned e = 0; e < 2; e++) {
			struct flow *f = &p->conn[i].flow[e];

			f->messages = 20 + rel_below(p, p->seed % 8 ? 30 : REL_MESSAGES - 20);
			for (uint64_t k = 0; k < f->messages; k++) {
				struct message *m = &f->message[k];

				m->length = rel_below(p, rel_below(p, 2) ? p->qp.max_message_bytes + 1 : p->qp.mtu);
				m->source = rel_below(p, REL_SOURCE - p->qp.max_message_bytes);
				m->posted = rel_below(p, 10) ? m->length : rel_below(p, m->length + 1);
				m->sent = m->received = -EAGAIN;
			}
		}
	rel_open(p);
	rel_run(p);
	for (unsigned i = 0; i < p->conns; i++)
		for (unsigned e = 0; e < 2; e++)
			for (uint64_t k = 0; k < p->conn[i].flow[e].messages; k++) {
				const struct message *m = &p->conn[i].flow[e].message[k];
				const bool short_one = m->posted < m->length;

				rel_expect(p, m->sent == 0 || m->sent == -EREMOTEIO || m->sent == -ECANCELED,
					   "send %llu: %d", U(k), m->sent);
				rel_expect(p,
					   m->received == 0 || m->received == -ECANCELED ||
						   (m->received == -EMSGSIZE && short_one) ||
						   (m->received == -ETIMEDOUT && m->sent),
					   "receive %llu: %d, sent %d", U(k), m->received, m->sent);
				rel_expect(p, m->sent || !m->received, "message %llu has come? %d", U(k), m->received);
				rel_expect(p, m->sent != -EREMOTEIO || m->received, "message %llu was not refused",
					   U(k));
				rel_expect(p, m->received || !short_one, "message %llu is longer than its receive",
					   U(k));
				ends[-m->sent]++;
			}
	rel_close(p);
}

TEST(both_ends_agree_on_what_either_has_given_up_and_go_on)
{
	rel_over_seeds(__func__, 60, give_up);
	printf("# %llu messages came, %llu were refused, %llu cancelled\n", U(ends[0]), U(ends[EREMOTEIO]),
	       U(ends[ECANCELED]));
	CU_ASSERT(getenv("SPINDLE_SEED") || (ends[0] && ends[EREMOTEIO] && ends[ECANCELED]));
}

/* ---- a peer that lies ---- */
/* Well-formed, and with numbers that might be true. */
static uint32_t lie(struct rel *p, uint8_t *bytes, size_t room, bool *asks)
{
	const struct flow *f = &p->conn[0].flow[0];
	struct sdr_reliable_status s;
	struct sp_rel_ack_maker m;
	struct sp_rel_asked asked;

	sdr_reliable_status(p->conn[0].reliable[0], &s);
	*asks = rel_below(p, 3) == 0;
	if (*asks) {
		struct sp_rel_poll poll = {.head = {.version = SP_REL_VERSION, .type = SP_REL_POLL}};
		const uint64_t begin = rel_below(p, 20) ? rel_below(p, 3) : sp_random_next(&p->random);

		sp_rel_put32(poll.head.magic, SP_REL_MAGIC);
		sp_rel_put64(poll.head.poll, rel_below(p, 2) ? 1 + rel_below(p, 100) : sp_random_next(&p->random));
		sp_rel_put64(poll.begin, begin);
		sp_rel_put64(poll.from_message, begin + rel_below(p, 4));
		sp_rel_put32(poll.reach, rel_below(p, 2) ? 4 + (uint32_t)rel_below(p, 4) : UINT32_MAX);
		sp_rel_put32(poll.from_unit, (uint32_t)rel_below(p, 30));
		memcpy(bytes, &poll, sizeof(poll));
		return sizeof(poll);
	}
	asked.poll = s.polls ? s.polls - rel_below(p, s.polls < 4 ? s.polls : 4) : 1;
	asked.from_message = f->over_send + rel_below(p, 2);
	asked.from_unit = (uint32_t)rel_below(p, 4);
	sp_rel_ack_begin(&m, bytes, room, rel_below(p, 4) ? &asked : NULL, f->over_send + rel_below(p, 2));
	for (uint64_t k = f->over_send; k < f->next_send && rel_below(p, 4); k++) {
		const uint64_t bitmap = sp_random_next(&p->random) & sp_random_next(&p->random);

		if (rel_below(p, 8) == 0)
			sp_rel_ack_refuse(&m, k, 0);
		else
			sp_rel_ack_add(&m, k, rel_below(p, 6) ? &bitmap : NULL, (uint32_t)rel_below(p, 21));
	}
	return (uint32_t)sp_rel_ack_end(&m);
}

static void liar(struct rel *p)
{
	struct sdr_reliable_status s, peer;
	uint64_t questions = 0;
	bool asks;

	p->liar = p->fails = true;
	p->conns = REL_CONNS;
	p->qp.mtu = 256;
	p->qp.chunk_bytes = 512;
	p->qp.max_message_bytes = 512 * 20;
	p->link[0].loss = (double)rel_below(p, 10) / 100; /* repeats would be answered twice */
	p->attr.timeout = 2000 * p->link[0].delay + 2 * SP_SEC;
	p->attr.recv_timeout = 2 * p->attr.timeout;
	for (unsigned i = 0; i < p->conns; i++)
		for (unsigned e = 0; e < 2; e++)
			for (uint64_t k = 0; k < REL_MESSAGES; k++) {
				struct message *m = &p->conn[i].flow[e].message[k];

				m->length = m->posted = rel_below(p, p->qp.max_message_bytes + 1);
				m->source %= REL_SOURCE - p->qp.max_message_bytes;
			}
	rel_open(p);
	for (unsigned turn = 0; turn < 60; turn++) {
		for (uint64_t flood = rel_below(p, 4) ? 1 : 40; flood--;) {
			uint8_t bytes[256];
			const uint32_t len = lie(p, bytes, sizeof(bytes), &asks);

			questions += sdr_control_send(p->conn[0].qp[1], bytes, len) == 0 && asks;
		}
		rel_pass(p, rel_below(p, 2 * p->link[0].delay));
	}
	rel_run(p);
	sdr_reliable_status(p->conn[0].reliable[0], &s);
	sdr_reliable_status(p->conn[0].reliable[1], &peer);
	rel_expect(p, s.answers <= questions + peer.polls + s.received + s.received_failed,
		   "%llu answers to %llu questions and %llu messages", U(s.answers), U(questions + peer.polls),
		   U(s.received + s.received_failed));
	for (unsigned i = 1; i < p->conns; i++)
		for (unsigned e = 0; e < 2; e++)
			for (uint64_t k = 0; k < p->conn[i].flow[e].messages; k++)
				rel_expect(p,
					   !p->conn[i].flow[e].message[k].sent &&
						   !p->conn[i].flow[e].message[k].received,
					   "message %llu of another connection: %d and %d", U(k),
					   p->conn[i].flow[e].message[k].sent, p->conn[i].flow[e].message[k].received);
	rel_close(p);
}

TEST_CALL(a_liar_harms_nobody_but_his_own_messages, rel_over_seeds(__func__, 60, liar))
