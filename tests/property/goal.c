/* SPDX-License-Identifier: BSD-3-Clause */
/* Random schedules: LogGOPS as fast as it is gives what the rules give when they are followed to the letter, event by
 * event and list by list; and no text, however mangled, does harm. */
#include "../lib/suite.h"

#include "../../testbed/goal/loggops.h"
#include "../../testbed/goal/text.h"
#include "../../testbed/random.h"

#define RANKS 6u
#define OPS   64u /* of a rank, at most */
#define NICS  3u
#define MANY  4096u /* events at once */

/* ---- the rules to the letter ---- */
struct event {
	uint64_t time, age;
	uint32_t rank, op; /* of a message: its sender's */
	bool message;
};

struct wait {
	uint32_t src, tag, rank, op;
	uint64_t there; /* of a message: when all of it is */
};

struct reference {
	const struct goal *g;
	const struct goal_loggops *p;
	uint64_t next_o[RANKS], next_send[RANKS][NICS], next_recv[RANKS][NICS], age;
	struct event event[MANY];
	unsigned events;
	struct wait posted[RANKS][OPS], kept[RANKS][RANKS * OPS];
	unsigned posts[RANKS], keeps[RANKS];
	int waits[RANKS][OPS];
	uint64_t ready[RANKS][OPS], last[RANKS];
	uint32_t fresh[RANKS][OPS];
	unsigned freshes[RANKS];
	unsigned done;
};

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void release(struct reference *f, uint32_t rank, uint32_t op, bool start, uint64_t t)
{
	uint32_t n;
	const uint32_t *s = goal_successors(f->g, rank, op, &n);

	f->done += !start;
	for (uint32_t i = 0; i < n; i++)
		if (!!(s[i] & GOAL_STARTED) == start) {
			const uint32_t next = s[i] & ~GOAL_STARTED;

			f->ready[rank][next] = most(f->ready[rank][next], t);
			if (!--f->waits[rank][next])
				f->fresh[rank][f->freshes[rank]++] = next;
		}
}

/* What has become ready, by rank, by type, in its order. */
static void issue(struct reference *f)
{
	for (uint32_t r = 0; r < goal_ranks(f->g); r++) {
		for (int type = GOAL_SEND; type <= GOAL_CALC; type++)
			for (unsigned i = 0; i < f->freshes[r]; i++) {
				const struct goal_op *op = goal_op(f->g, r, f->fresh[r][i]);
				uint64_t t = f->next_o[r];

				if (op->type == GOAL_SEND)
					t = most(t, f->next_send[r][op->nic]);
				if (f->p->full_duplex)
					t = most(t, f->ready[r][f->fresh[r][i]]);
				if (op->type != type)
					continue;
				CU_ASSERT_FATAL(f->events < MANY);
				f->event[f->events++] = (struct event){t, f->age++, r, f->fresh[r][i], false};
			}
		f->freshes[r] = 0;
	}
}

static bool fits(const struct wait *w, uint32_t src, uint32_t tag)
{
	return (src == GOAL_ANY || w->src == GOAL_ANY || w->src == src) &&
	       (tag == GOAL_ANY || w->tag == GOAL_ANY || w->tag == tag);
}

static bool match(struct wait *list, unsigned *n, uint32_t src, uint32_t tag, struct wait *found)
{
	for (unsigned i = 0; i < *n; i++)
		if (fits(&list[i], src, tag)) {
			*found = list[i];
			memmove(&list[i], &list[i + 1], (*n - i - 1) * sizeof(*list));
			--*n;
			return true;
		}
	return false;
}

static void rendezvous(struct reference *f, uint32_t src, uint32_t i, uint64_t t)
{
	const struct goal_op *op = goal_op(f->g, src, i);

	if (op->size <= f->p->S)
		return;
	release(f, src, i, false, t);
	f->next_o[src] = most(f->next_o[src], t);
	f->next_send[src][op->nic] = most(f->next_send[src][op->nic], t);
}

static const struct goal_hop *hop(const struct reference *f, uint32_t a, uint32_t b)
{
	const uint32_t n = f->p->nodes_per_switch;

	return &f->p->hop[n ? a / n != b / n : 0];
}

/* True: it was done; false: e->time is when to try again. */
static bool attempt(struct reference *f, struct event *e)
{
	const struct goal_op *op = goal_op(f->g, e->rank, e->op);
	const struct goal_loggops *p = f->p;
	const uint64_t t = e->time, rest = op->size - 1;
	const uint32_t r = e->rank;
	struct wait w;

	if (e->message) {
		const uint32_t to = op->peer;
		const struct goal_hop *h = hop(f, r, to);
		const uint64_t there = t + p->o + most(rest * p->O, rest * h->G);

		e->time = most(f->next_o[to], f->next_recv[to][op->nic]);
		if (e->time > t)
			return false;
		f->next_o[to] = p->full_duplex ? t + p->o + rest * p->O : there;
		f->last[to] = most(f->last[to], there);
		f->next_recv[to][op->nic] = t + h->g + rest * h->G;
		if (match(f->posted[to], &f->posts[to], r, op->tag, &w)) {
			rendezvous(f, r, e->op, t);
			release(f, to, w.op, false, there);
		} else {
			f->kept[to][f->keeps[to]++] = (struct wait){r, op->tag, r, e->op, there};
		}
	} else if (op->type == GOAL_CALC) {
		e->time = f->next_o[r];
		if (e->time > t)
			return false;
		f->next_o[r] = t + op->size * 1000;
		release(f, r, e->op, true, t);
		release(f, r, e->op, false, f->next_o[r]);
	} else if (op->type == GOAL_SEND) {
		const struct goal_hop *h = hop(f, r, op->peer);

		e->time = most(f->next_o[r], f->next_send[r][op->nic]);
		if (e->time > t)
			return false;
		release(f, r, e->op, true, t);
		f->next_o[r] = t + p->o + rest * p->O;
		f->next_send[r][op->nic] = t + h->g + rest * h->G;
		CU_ASSERT_FATAL(f->events < MANY);
		f->event[f->events++] = (struct event){t + p->o + h->L * (op->size > p->S && p->handshake ? 3 : 1),
						       f->age++, r, e->op, true};
		if (op->size <= p->S)
			release(f, r, e->op, false, f->next_o[r]);
	} else {
		release(f, r, e->op, true, t);
		if (match(f->kept[r], &f->keeps[r], op->peer, op->tag, &w)) {
			rendezvous(f, w.rank, w.op, t);
			release(f, r, e->op, false, most(t, p->full_duplex ? w.there : 0));
		} else {
			f->posted[r][f->posts[r]++] = (struct wait){op->peer, op->tag, r, e->op, 0};
		}
	}
	return true;
}

static void follow(struct reference *f, const struct goal *g, const struct goal_loggops *p)
{
	*f = (struct reference){.g = g, .p = p};
	for (uint32_t r = 0; r < goal_ranks(g); r++) {
		uint32_t waits[OPS];

		goal_waits(g, r, waits);
		for (uint32_t i = 0; i < goal_ops(g, r); i++) {
			f->waits[r][i] = (int)waits[i];
			if (!waits[i])
				f->fresh[r][f->freshes[r]++] = i;
		}
	}
	issue(f);
	while (f->events) {
		unsigned first = 0;
		struct event e;

		for (unsigned i = 1; i < f->events; i++)
			if (f->event[i].time < f->event[first].time ||
			    (f->event[i].time == f->event[first].time && f->event[i].age < f->event[first].age))
				first = i;
		e = f->event[first];
		f->event[first] = f->event[--f->events];
		if (attempt(f, &e))
			issue(f);
		else
			f->event[f->events++] = e;
	}
}

/* ---- random schedules ---- */
static uint32_t below(struct sp_random *r, uint32_t n)
{
	return (uint32_t)(sp_random_next(r) % n);
}

static void add(struct goal *g, uint32_t rank, struct goal_op op, struct sp_random *r)
{
	uint32_t i;

	CU_ASSERT_EQUAL_FATAL(goal_add(g, rank, &op, &i), 0);
	for (uint32_t n = below(r, 3); n && i; n--)
		(below(r, 4) ? goal_requires : goal_irequires)(g, rank, i, below(r, i));
}

/* Messages with a receive each, some of any source or tag, and calcs between them; most end. */
static struct goal *random_goal(struct sp_random *r, bool any)
{
	const uint32_t ranks = 2 + below(r, RANKS - 1), messages = 1 + below(r, 40), nics = 1 + below(r, NICS);
	struct goal *g;

	CU_ASSERT_EQUAL_FATAL(goal_create(ranks, &g), 0);
	for (uint32_t m = 0; m < messages; m++) {
		const uint32_t from = below(r, ranks), to = below(r, ranks);
		const uint64_t size = below(r, 2) ? 1 : 1 + below(r, 3000);
		struct goal_op op = {.size = size, .peer = to, .tag = below(r, 3), .type = GOAL_SEND};

		op.nic = (uint8_t)below(r, nics);
		if (goal_ops(g, from) + 2 >= OPS || goal_ops(g, to) + 2 >= OPS)
			break;
		add(g, from, op, r);
		op.type = GOAL_RECV;
		op.peer = any && !below(r, 5) ? GOAL_ANY : from;
		op.tag = any && !below(r, 5) ? GOAL_ANY : op.tag;
		add(g, to, op, r);
		if (!below(r, 3))
			add(g, from, (struct goal_op){.size = below(r, 4) * 1000ull, .type = GOAL_CALC}, r);
	}
	CU_ASSERT_EQUAL_FATAL(goal_finish(g), 0);
	return g;
}

/* Round numbers, so that much happens at the same time. */
static struct goal_loggops random_loggops(struct sp_random *r)
{
	struct goal_loggops p = {
		.o = below(r, 4) * 500000ull, .O = below(r, 2) * 1000ull, .S = below(r, 2) ? 1000 : 65535};

	for (unsigned i = 0; i < 2; i++)
		p.hop[i] = (struct goal_hop){
			.L = below(r, 4) * 1000000ull, .g = below(r, 4) * 500000ull, .G = below(r, 3) * 1000ull};
	p.nodes_per_switch = below(r, 4);
	p.handshake = below(r, 2);
	p.full_duplex = !below(r, 3);
	return p;
}

TEST(times_are_those_of_the_rules_to_the_letter)
{
	static struct reference f;
	struct sp_random r;
	unsigned ended = 0, stuck = 0;

	for (uint64_t seed = 0; seed < suite_times(4000); seed++) {
		struct goal_loggops p;
		struct goal_outcome o;
		sp_time ends[RANKS];
		unsigned left = 0;
		struct goal *g;
		int err;

		sp_random_seed(&r, seed, 0);
		g = random_goal(&r, seed % 2);
		p = random_loggops(&r);
		follow(&f, g, &p);
		err = goal_loggops_run(g, &p, ends, &o);
		for (uint32_t i = 0; i < goal_ranks(g); i++)
			left += f.keeps[i];
		if (err == -EDEADLK) {
			stuck++;
			CU_ASSERT_EQUAL(o.undone, goal_ops_all(g) - f.done);
			CU_ASSERT_EQUAL(o.unreceived, left);
			CU_ASSERT(o.undone + o.unreceived > 0);
		} else {
			ended++;
			CU_ASSERT_EQUAL(err, 0);
			CU_ASSERT_EQUAL(f.done, goal_ops_all(g));
			CU_ASSERT_EQUAL(left, 0);
		}
		CU_ASSERT_EQUAL(o.events, f.age);
		for (uint32_t i = 0; i < goal_ranks(g); i++) {
			const uint64_t end = most(f.next_o[i], f.last[i]);

			if (ends[i] != end)
				printf("# seed %llu, rank %u: %llu, not %llu\n", (unsigned long long)seed, i,
				       (unsigned long long)ends[i], (unsigned long long)end);
			CU_ASSERT_EQUAL_FATAL(ends[i], end);
		}
		goal_destroy(g);
	}
	CU_ASSERT(ended > stuck && stuck > 0); /* or this says little */
}

/* ---- text ---- */
static char *written(const struct goal *g, size_t *length)
{
	char *file = NULL;
	FILE *f = open_memstream(&file, length);

	CU_ASSERT_EQUAL_FATAL(goal_write(g, f), 0);
	fclose(f);
	return file;
}

static int read_again(const char *file, size_t length, struct goal **g, char *why, size_t whylen)
{
	FILE *f = fmemopen((void *)(uintptr_t)file, length, "r");
	int err;

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	err = goal_read(f, "g", 1 << 20, g, why, whylen);
	fclose(f);
	return err;
}

TEST(random_schedules_are_read_as_they_were_written)
{
	struct sp_random r;

	for (uint64_t seed = 0; seed < suite_times(400); seed++) {
		size_t length = 0, other = 0;
		struct goal *g, *again;
		char why[200], *file, *second;

		sp_random_seed(&r, seed, 1);
		g = random_goal(&r, true);
		file = written(g, &length);
		CU_ASSERT_EQUAL_FATAL(read_again(file, length, &again, why, sizeof(why)), 0);
		second = written(again, &other);
		CU_ASSERT(length == other && !memcmp(file, second, length));
		free(file);
		free(second);
		goal_destroy(g);
		goal_destroy(again);
	}
}

static void mangle(char *file, size_t length, struct sp_random *r)
{
	static const char *const words[] = {"rank", "requires",	   "-1", "{",	 "}", "/*", "\n",
					    ":",    "99999999999", "l1", "send", "b", "tag"};

	for (uint32_t n = 1 + below(r, 4); n; n--) {
		const size_t at = below(r, (uint32_t)length);
		const char *word = words[below(r, sizeof(words) / sizeof(*words))];

		if (below(r, 2))
			file[at] = (char)below(r, 256);
		else
			memcpy(file + at, word, strlen(word) < length - at ? strlen(word) : length - at);
	}
}

/* Either it is still a schedule, which can be run, or a line within the file is named. */
TEST(mangled_text_does_no_harm_and_its_line_is_named)
{
	struct sp_random r;
	unsigned good = 0, bad = 0;

	for (uint64_t seed = 0; seed < suite_times(4000); seed++) {
		size_t length = 0;
		struct goal *g;
		char why[200] = "", *file;
		unsigned long line = 0, lines = 1;
		struct goal_outcome o;

		sp_random_seed(&r, seed, 2);
		g = random_goal(&r, true);
		file = written(g, &length);
		goal_destroy(g);
		mangle(file, length, &r);
		for (size_t i = 0; i < length; i++)
			lines += file[i] == '\n';
		if (read_again(file, length, &g, why, sizeof(why))) {
			bad++;
			CU_ASSERT(sscanf(why, "g:%lu: ", &line) == 1 && line >= 1 && line <= lines);
		} else {
			const int err = goal_loggops_run(g, &goal_loggops_default, NULL, &o);

			good++;
			CU_ASSERT(!err || err == -EDEADLK || err == -EINVAL || err == -EOVERFLOW);
			goal_destroy(g);
		}
		free(file);
	}
	CU_ASSERT(good > 0 && bad > good);
}
