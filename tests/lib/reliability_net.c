/* SPDX-License-Identifier: BSD-3-Clause */
#include "reliability_net.h"

void __attribute__((format(printf, 3, 4))) net_expect(struct net *n, bool right, const char *format, ...)
{
	va_list list;

	if (right || n->failed)
		return;
	n->failed = true;
	printf("# seed %llu at %.9f s: ", (unsigned long long)n->seed, (double)n->now / (double)SP_SEC);
	va_start(list, format);
	vprintf(format, list);
	va_end(list);
	putchar('\n');
}

uint64_t net_below(struct net *n, uint64_t bound)
{
	return sp_random_next(&n->random) % bound;
}

bool before(const struct event *a, const struct event *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void push(struct net *n, const struct event *e)
{
	struct event *copy = malloc(sizeof(*copy));
	size_t i = n->events++;

	if (n->events > n->room) {
		n->room = n->room ? 2 * n->room : 1024;
		n->heap = realloc(n->heap, n->room * sizeof(struct event *));
	}
	*copy = *e;
	copy->order = n->order++;
	for (; i && before(copy, n->heap[(i - 1) / 2]); i = (i - 1) / 2)
		n->heap[i] = n->heap[(i - 1) / 2];
	n->heap[i] = copy;
}

struct event *net_pop(struct net *n)
{
	struct event *first = n->heap[0], *last = n->heap[--n->events];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < n->events) {
		child += child + 1 < n->events && before(n->heap[child + 1], n->heap[child]);
		if (!before(n->heap[child], last))
			break;
		n->heap[i] = n->heap[child];
		i = child;
	}
	n->heap[i] = last;
	return first;
}

static void transmit(struct net *n, struct event *e, sp_time left, bool control)
{
	const bool lost = sp_random_chance(&n->random, control ? n->control_loss : n->data_loss) || n->dead;
	const bool again = sp_random_chance(&n->random, n->duplicate);

	n->data_sent += !control;
	n->data_lost += lost && !control;
	for (int i = 0; i < (lost ? 0 : again ? 2 : 1); i++) {
		e->at = left + n->delay + (n->jitter ? net_below(n, n->jitter + 1) : 0);
		push(n, e);
	}
}

/* ---- the ends ---- */
static bool chosen(const struct net *n, unsigned these, uint64_t poll)
{
	return n->proof_polls && poll >= n->proof_polls && poll < n->proof_polls + 32 &&
	       these >> (poll - n->proof_polls) & 1;
}

void answer(struct net *n, const struct sp_rel_asked *asked)
{
	struct event e = {.kind = ARRIVES_ACK, .poll = asked ? asked->poll : 0};
	struct sp_rel_ack_maker m;

	if (n->base < n->receiver.begin)
		n->base = n->receiver.begin;
	while (!n->refuses && n->base < n->highest && n->came[n->base] == n->units[n->base])
		n->base++;
	uint64_t from = asked && asked->from_message > n->base ? asked->from_message : n->base;
	if (asked ? chosen(n, n->answers_lost, asked->poll) : n->denies || n->untold)
		return;
	sp_rel_ack_begin(&m, e.bytes, n->ack_room, asked, n->denies ? 0 : n->base);
	for (uint64_t k = from; k < n->highest && n->refuses; k++)
		sp_rel_ack_refuse(&m, k, (uint8_t)(1 + k % 200));
	for (uint64_t k = from; k < n->highest && !n->denies && !n->refuses; k++)
		if (n->came[k] && !sp_rel_ack_add(&m, k, n->came[k] == n->units[k] ? NULL : n->have[k], n->units[k]))
			break;
	e.len = sp_rel_ack_end(&m);
	net_expect(n, e.len <= n->ack_room, "an ACK of %zu bytes", e.len);
	transmit(n, &e, n->now, true);
}

static void unit_arrives(struct net *n, uint64_t message, uint32_t unit)
{
	const uint64_t bit = 1ull << unit % 64;

	if (message >= n->highest)
		n->highest = message + 1;
	if (n->have[message][unit / 64] & bit)
		return;
	n->have[message][unit / 64] |= bit;
	if (++n->came[message] == n->units[message])
		answer(n, NULL);
}

void net_arrive(struct net *n, const struct event *e)
{
	struct sp_rel_asked asked;
	struct event later = *e;
	int rc;

	if (e->kind != ARRIVES_ACK && n->now < n->away) {
		later.at = n->away;
		push(n, &later);
		return;
	}
	switch (e->kind) {
	case ARRIVES_UNIT:
		unit_arrives(n, e->message, e->unit);
		break;
	case ARRIVES_POLL:
		rc = sp_rel_poll_take(&n->receiver, e->bytes, e->len, &asked);
		net_expect(n, rc == 0, "sp_rel_poll_take says %d", rc);
		if (!n->idle) {
			answer(n, &asked);
			break;
		}
		if (!n->waiting || asked.poll > n->question.poll)
			n->question = asked;
		later.kind = IS_READ;
		later.at = (n->now / n->idle + 1) * n->idle;
		if (!n->waiting)
			push(n, &later);
		n->waiting = true;
		break;
	case IS_READ:
		n->waiting = false;
		answer(n, &n->question);
		break;
	case ARRIVES_ACK:
		rc = sp_rel_ack(&n->sender, e->bytes, e->len, n->now);
		net_expect(n, rc == 0, "sp_rel_ack says %d", rc);
		n->answered = e->poll > n->answered ? e->poll : n->answered;
		break;
	}
}

static void collect(struct net *n)
{
	for (uint64_t k = n->sender.begin; k < n->sender.end; k++) {
		enum sp_rel_state state = sp_rel_state(&n->sender, k);

		if (state != SP_REL_DONE && state != SP_REL_FAILED && state != SP_REL_REFUSED)
			continue;
		if (state == SP_REL_DONE)
			net_expect(n, n->came[k] == n->units[k], "message %llu is done with %u of %u units",
				   (unsigned long long)k, n->came[k], n->units[k]);
		n->failures += state == SP_REL_FAILED;
		n->refusals += state == SP_REL_REFUSED;
		if (state == SP_REL_REFUSED)
			net_expect(n, sp_rel_reason(&n->sender, k) == 1 + k % 200, "message %llu refused for %u",
				   (unsigned long long)k, sp_rel_reason(&n->sender, k));
		n->finished++;
		net_expect(n, !sp_rel_release(&n->sender, k), "release");
	}
}

void net_step(struct net *n)
{
	struct sp_rel_next next;
	uint64_t number, sends = 0;

	collect(n);
	while (n->started < n->to_start && !sp_rel_start(&n->sender, n->units[n->started], n->now, &number)) {
		net_expect(n, number == n->started, "number");
		n->started++;
	}
	for (sp_rel_next(&n->sender, n->now, &next); next.what != SP_REL_NOTHING && !n->failed;
	     sp_rel_next(&n->sender, n->now, &next)) {
		struct event e = {.kind = next.what == SP_REL_ASK ? ARRIVES_POLL : ARRIVES_UNIT,
				  .message = next.message,
				  .unit = next.unit,
				  .len = sizeof(next.poll)};

		net_expect(n, sends++ < 1000000, "sending does not end");
		sp_rel_sent(&n->sender, &next, n->unit_bits, n->now);
		if (next.what == SP_REL_ASK) {
			n->polls++;
			if (n->proof && n->now >= n->proof && !n->proof_polls)
				n->proof_polls = n->polls;
			memcpy(e.bytes, &next.poll, sizeof(next.poll));
			if (!chosen(n, n->polls_lost, n->polls))
				transmit(n, &e, n->now, true);
			continue;
		}
		net_expect(n, next.unit < n->units[next.message], "unit %u of %u", next.unit, n->units[next.message]);
		net_expect(n,
			   next.what == SP_REL_UNIT || n->forged ||
				   n->answered > n->polls_before[next.message][next.unit],
			   "unit %u goes again, and no poll after it was answered", next.unit);
		n->polls_before[next.message][next.unit] = n->polls;
		if (n->config.rate)
			net_expect(n, n->sender.left >= n->last_left + n->unit_bits * SP_SEC / n->config.rate,
				   "faster than the rate");
		n->last_left = n->sender.left;
		transmit(n, &e, n->sender.left, false);
	}
}

void net_open(struct net *n)
{
	const size_t bytes = sp_rel_sender_bytes(&n->config);

	n->memory = calloc(1, bytes);
	net_expect(n, bytes && !sp_rel_sender_init(&n->sender, &n->config, n->memory), "sp_rel_sender_init");
}

void net_close_net(struct net *n)
{
	while (n->events)
		free(net_pop(n));
	free(n->heap);
	free(n->memory);
	free(n);
}

void net_run_to(struct net *n, sp_time limit)
{
	uint64_t turns = 0;

	for (net_step(n); n->finished < n->to_start && !n->failed; net_step(n)) {
		sp_time next = sp_rel_deadline(&n->sender);

		collect(n);
		if (n->finished == n->to_start)
			break;
		if (n->events && n->heap[0]->at < next)
			next = n->heap[0]->at;
		net_expect(n, next != SP_NEVER, "nothing will happen any more, %llu of %llu messages are open",
			   (unsigned long long)(n->to_start - n->finished), (unsigned long long)n->to_start);
		net_expect(n, turns++ < 50000000, "no end");
		if (n->failed)
			break;
		if (next > limit) {
			n->now = limit;
			break;
		}
		n->now = next > n->now ? next : n->now;
		while (n->events && n->heap[0]->at <= n->now) {
			struct event *e = net_pop(n);

			net_arrive(n, e);
			free(e);
		}
	}
}

void net_play(struct net *n)
{
	net_run_to(n, SP_NEVER);
}

struct net *net_random_net(uint64_t seed)
{
	struct net *n = calloc(1, sizeof(*n));
	const sp_time delays[] = {SP_US, 50 * SP_US, SP_MS, 12500 * SP_US};

	n->seed = seed;
	sp_random_seed(&n->random, seed, 0);
	n->now = net_below(n, 2) ? 0 : net_below(n, SP_SEC);
	n->delay = delays[net_below(n, 4)];
	n->unit_bits = 8 * (64 + net_below(n, 65536));
	n->ack_room = SP_REL_ACK_LEAST + net_below(n, DATAGRAM - SP_REL_ACK_LEAST + 1);
	n->config = (struct sp_rel_config){.scheme = net_below(n, 2) ? SP_REL_NACK : SP_REL_RTO,
					   .rtt = net_below(n, 2)   ? 2 * n->delay
						  : net_below(n, 2) ? 0
								    : n->delay / 5 + 1,
					   .rate = net_below(n, 4) ? 1000000000ull << net_below(n, 8) : 0,
					   .timeout = 1000 * SP_SEC,
					   .polls = net_below(n, 2) ? 0 : 1 + (uint32_t)net_below(n, 128),
					   .messages = 1u << net_below(n, 7),
					   .units = UNITS,
					   .in_flight = 16u << net_below(n, 8)};
	n->to_start = 1 + net_below(n, 40);
	for (uint64_t k = 0; k < 4096; k++)
		n->units[k] = 1 + (uint32_t)net_below(n, net_below(n, 2) ? 8 : UNITS);
	return n;
}

unsigned net_seeds(unsigned few)
{
	if (getenv("SPINDLE_LONG"))
		return 50 * few;
#ifdef __SANITIZE_ADDRESS__
	return (few + 7) / 8;
#else
	return few;
#endif
}
