/* SPDX-License-Identifier: BSD-3-Clause */
/* Reliable messages over SDR, over a link that does what links do: whole and right, or failed in time. */
#include "../lib/reliable_pair.h"

#include "../../handlers/reliability/receiver.h"

static struct {
	uint64_t runs, sent, units, retransmitted, spurious, polls, lost;
} sum;

static uint64_t lost(struct rel *p)
{
	struct sp_link_counters c;
	uint64_t n = 0;

	for (unsigned e = 0; e < 2; e++) {
		sp_link_count(p->under, e, &c);
		n += c.lost + c.corrupted;
	}
	return n;
}

static void add(struct rel *p, const struct sdr_reliable_status *s)
{
	sum.runs++;
	sum.sent += s->sent;
	sum.units += s->units;
	sum.retransmitted += s->retransmitted;
	sum.spurious += s->spurious;
	sum.polls += s->polls;
	sum.lost += lost(p);
}

#define RULE(rule, count) TEST_SEEDS(rule, over, count, struct rel *p)

static void over(const char *rule, unsigned count, void (*one)(struct rel *p))
{
	memset(&sum, 0, sizeof(sum));
	rel_over_seeds(rule, count, one);
	printf("# %s: %llu runs, %llu messages, %llu units, %llu sent again (%llu needlessly), %llu polls, %llu "
	       "packets "
	       "lost\n",
	       rule, U(sum.runs), U(sum.sent), U(sum.units), U(sum.retransmitted), U(sum.spurious), U(sum.polls),
	       U(sum.lost));
}

RULE(every_message_arrives_whole_and_right, 60)
{
	struct sdr_reliable_status s;

	rel_bad_link(p);
	rel_open(p);
	rel_run(p);
	rel_counters(p, &s);
	rel_expect(p, !s.refused && !s.sending && !s.receiving && s.sent == s.received,
		   "%llu datagrams refused, %u sends and %u receives not over, %llu sent and %llu received",
		   U(s.refused), s.sending, s.receiving, U(s.sent), U(s.received));
	add(p, &s);
	rel_close(p);
}

RULE(nothing_is_sent_again_where_nothing_is_lost, 30)
{
	struct sdr_reliable_status s;

	for (unsigned e = 0; e < 2; e++)
		p->link[e].duplicate = (double)rel_below(p, 30) / 100;
	rel_open(p);
	rel_run(p);
	rel_counters(p, &s);
	rel_expect(p, !lost(p) && !s.retransmitted && !s.spurious,
		   "%llu of %llu units were sent again, and none was lost", U(s.retransmitted), U(s.units));
	add(p, &s);
	rel_close(p);
}

RULE(no_unit_is_sent_again_twice_for_one_loss, 60)
{
	struct sdr_reliable_status s;

	for (unsigned e = 0; e < 2; e++) {
		p->link[e].loss = (double)rel_below(p, 15) / 100;
		if (rel_below(p, 2))
			sp_link_burst(&p->link[e], 1 + (double)rel_below(p, 20), (double)rel_below(p, 15) / 100);
	}
	rel_open(p);
	rel_run(p);
	rel_counters(p, &s);
	rel_expect(p, s.retransmitted <= lost(p) && !s.spurious,
		   "%llu packets lost, %llu units sent again, %llu needlessly", U(lost(p)), U(s.retransmitted),
		   U(s.spurious));
	add(p, &s);
	rel_close(p);
}

RULE(messages_to_an_end_that_vanishes_fail_in_time_and_all_is_usable_again, 40)
{
	const bool lossy = rel_below(p, 2);
	struct sdr_reliable_status s;

	p->fails = true;
	/* Longer than polls that nobody answers are apart at the most: 64 times that an answer takes. */
	p->attr.timeout = p->link[0].delay * 1000 + 500 * SP_MS;
	p->attr.recv_timeout = p->attr.timeout * 2;
	for (unsigned e = 0; e < 2 && lossy; e++)
		p->link[e].loss = (double)rel_below(p, 10) / 100;
	rel_open(p);
	rel_pass(p, rel_below(p, 3) ? rel_below(p, p->attr.timeout) : 0);
	p->dead[1] = true;
	p->quiet = true;
	sp_time died = sp_world_now(p->world);
	rel_run(p);
	rel_expect(p, sp_world_now(p->world) <= died + p->attr.recv_timeout + 200 * SP_MS, "over after %.6f s",
		   (double)(sp_world_now(p->world) - died) / 1e12);
	for (unsigned i = 0; i < p->conns; i++) {
		sdr_reliable_status(p->conn[i].reliable[0], &s);
		rel_expect(p, !s.sending && !s.receiving && sdr_reliable_deadline(p->conn[i].reliable[0]) == SP_NEVER,
			   "%u sends and %u receives not over", s.sending, s.receiving);
	}
	rel_memory_is_released(p, 0);

	/* It has only been away: what is open there ends too, and everything works again. */
	p->dead[1] = p->quiet = false;
	rel_run(p);
	rel_memory_is_released(p, 0);
	rel_memory_is_released(p, 1);
	p->fails = lossy; /* round trips that took as long as it was away count */
	for (unsigned i = 0; i < p->conns; i++)
		for (unsigned e = 0; e < 2; e++) {
			struct flow *f = &p->conn[i].flow[e];

			for (uint64_t k = 0; k < f->messages; k++)
				rel_expect(p, f->message[k].sent || !f->message[k].received,
					   "message %llu is said to have come: %d", U(k), f->message[k].received);
			for (unsigned n = 0; n < 4; n++, f->messages++) {
				f->message[f->messages] = f->message[0];
				f->message[f->messages].length = f->message[f->messages].posted = 1 + n;
				f->message[f->messages].sent = f->message[f->messages].received = -EAGAIN;
			}
		}
	rel_step(p, sp_world_now(p->world));
	rel_run(p);
	rel_counters(p, &s);
	add(p, &s);
	rel_close(p);
}

RULE(a_finished_end_answers_until_the_peer_is_quiet, 25)
{
	struct sdr_reliable_status s;

	for (unsigned e = 0; e < 2; e++)
		p->link[e].loss = (double)rel_below(p, 40) / 100;
	p->linger = 4 * SP_SEC;
	rel_open(p);
	rel_run(p);
	rel_counters(p, &s);
	add(p, &s);
	rel_close(p);
}

/* ---- what peers and callers may do wrong
 * -----------------------------------------------------------------------------
 */
/* Datagrams that nobody should send, beside the right ones. */
RULE(datagrams_that_cannot_be_true_change_nothing, 15)
{
	struct sdr_reliable_status s;

	p->link[0].loss = p->link[1].loss = 0.05;
	rel_open(p);
	for (unsigned turn = 0; turn < 40; turn++) {
		uint8_t bytes[128];
		struct sp_rel_ack_maker m;
		const struct sp_rel_asked asked = {.poll = 1ull << 40};
		size_t len = rel_below(p, sizeof(bytes));

		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (uint8_t)sp_random_next(&p->random);
		if (rel_below(p, 2)) { /* an answer to what was never asked, all of what was never sent has come */
			sp_rel_ack_begin(&m, bytes, sizeof(bytes), rel_below(p, 2) ? &asked : NULL,
					 rel_below(p, 2) ? 1ull << 40 : 0);
			sp_rel_ack_add(&m, (1ull << 40) + rel_below(p, 9), NULL, 1u << 31);
			len = sp_rel_ack_end(&m);
		}
		sdr_control_send(p->conn[0].qp[rel_below(p, 2)], bytes, (uint32_t)(len < 124 ? len : 124));
		rel_pass(p, rel_below(p, 4 * p->link[0].delay));
	}
	rel_run(p);
	rel_counters(p, &s);
	rel_expect(p, s.refused, "nothing was refused");
	add(p, &s);
	rel_close(p);
}

RULE(each_operation_ends_as_the_header_says, 10)
{
	struct sdr_reliable_op *send[4], *recv[4];
	struct sdr_reliable_op_status s;
	struct sdr_reliable *r;
	struct conn *c = &p->conn[0];

	p->conns = 1;
	p->qp.mtu = 1024;
	p->qp.chunk_bytes = 4096;
	p->qp.max_message_bytes = 65536;
	p->qp.max_messages = 4;
	for (unsigned e = 0; e < 2; e++)
		p->link[e] = (struct sp_link_direction){.delay = SP_MS, .bandwidth = 10000000000, .loss = 0.1};
	p->attr.timeout = 400 * SP_MS;
	p->attr.in_flight = 0;
	c->flow[0].messages = c->flow[1].messages = 0;
	rel_open(p);
#define REFUSED(...)                                                                                                   \
	rel_expect(p, sdr_reliable_open(c->qp[0], &(const struct sdr_reliable_attr){__VA_ARGS__}, &r) == -EINVAL,      \
		   #__VA_ARGS__)
	REFUSED(.scheme = (enum sdr_reliable_scheme)7);
	REFUSED(.polls = 129);
	REFUSED(.in_flight = 1000);
	REFUSED(.in_flight = 1u << 31);
	rel_expect(p,
		   sdr_reliable_scheme("sr-rto") == SDR_SR_RTO && sdr_reliable_scheme("sr-nack") == SDR_SR_NACK &&
			   sdr_reliable_scheme("") == -EINVAL,
		   "names");
	rel_expect(p, sdr_reliable_send(c->reliable[0], NULL, 0, 1, 0, send) == -EINVAL, "no memory");
	rel_expect(p, sdr_reliable_send(c->reliable[0], p->source[0], REL_SOURCE, 1, 0, send) == -EFAULT, "beyond");
	rel_expect(p, sdr_reliable_send(c->reliable[0], p->source[0], 0, 65537, 0, send) == -EINVAL, "too long");

	/* Longer than the receive; whole; cancelled by the sender; by the receiver. */
	for (unsigned i = 0; i < 4; i++) {
		rel_expect(p, !sdr_reliable_send(c->reliable[0], p->source[0], 0, 40000, i, &send[i]), "send");
		rel_expect(p, sdr_reliable_op_free(send[i]) == -EBUSY, "freed though not over");
	}
	rel_expect(p, sdr_reliable_send(c->reliable[0], p->source[0], 0, 1, 0, send) == -EAGAIN, "more than there are");
	sdr_reliable_cancel(send[2]);
	for (unsigned i = 0; i < 4; i++)
		rel_expect(p, !sdr_reliable_recv(c->reliable[1], c->flow[0].arena_mr, 0, i ? 65536 : 20480, &recv[i]),
			   "recv");
	sdr_reliable_cancel(recv[2]);
	sdr_reliable_cancel(recv[3]);
	/* Who is refused knows soon: fewer round trips than its time-out has. */
	rel_pass(p, p->attr.timeout / 2);
	rel_expect(p, sdr_reliable_poll(send[3]) == -EREMOTEIO, "a refused message: %d", sdr_reliable_poll(send[3]));
	rel_pass(p, 20 * SP_SEC);
	sdr_reliable_op_status(recv[1], &s);
	rel_expect(p, s.length == 40000 && s.units == 10 && s.done == 10, "status");
	rel_expect(p, sdr_reliable_poll(send[0]) == -EREMOTEIO && sdr_reliable_poll(recv[0]) == -EMSGSIZE, "%d and %d",
		   sdr_reliable_poll(send[0]), sdr_reliable_poll(recv[0]));
	rel_expect(p, !sdr_reliable_poll(send[1]) && !sdr_reliable_poll(recv[1]), "the whole one");
	rel_expect(p, sdr_reliable_poll(send[2]) == -ECANCELED && sdr_reliable_poll(recv[2]) == -ECANCELED, "%d and %d",
		   sdr_reliable_poll(send[2]), sdr_reliable_poll(recv[2]));
	rel_expect(p, sdr_reliable_poll(send[3]) == -EREMOTEIO && sdr_reliable_poll(recv[3]) == -ECANCELED, "%d and %d",
		   sdr_reliable_poll(send[3]), sdr_reliable_poll(recv[3]));
	for (unsigned i = 0; i < 4; i++)
		rel_expect(p, !sdr_reliable_op_free(send[i]) && !sdr_reliable_op_free(recv[i]), "free");
	rel_close(p);
}
