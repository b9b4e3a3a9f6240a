/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Training with numbers: parameters against the recurrence of train_learn.h, which the test works out for one worker
 * without any schedule; who dies, and a restart from a checkpoint; how long a checkpoint takes; files of checkpoints.
 */
#include <fcntl.h>
#include <unistd.h>

#include "../../testbed/motif/train_learn.h"
#include "../lib/suite.h"

#define RATE	100000000000ull
#define LATENCY SP_US
#define NUMBERS 61u /* no number of workers divides it */
#define SEED	5u
#define STEPS	12u
#define MOST	7u /* workers */

static const struct train_config schemes[] = {
	{.scheme = TRAIN_PS, .segments = 1},
	{.scheme = TRAIN_PS, .segments = 5, .offload = true},
	{.scheme = TRAIN_PS, .segments = 2, .offload = true, .multicast = true},
	{.scheme = TRAIN_PS_SHARDED},
	{.scheme = TRAIN_DECENTRALISED},
	{.scheme = TRAIN_RING},
	{.scheme = TRAIN_RING, .offload = true},
};
#define SCHEMES (sizeof(schemes) / sizeof(*schemes))

static struct train_learned learned;
static struct train_state kept; /* the latest that reached storage */

/* ---- the recurrence, from its formulas alone ---- */
static uint64_t h(uint64_t x)
{
	x += 0x9E3779B97F4A7C15u;
	x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
	x = (x ^ x >> 27) * 0x94D049BB133111EBu;
	return x ^ x >> 31;
}

static int64_t floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

static void expect(const struct train_state *s, uint32_t workers, uint64_t steps)
{
	unsigned wrong = 0;

	for (uint32_t i = 0; i < NUMBERS; i++) {
		int64_t parameter = (int64_t)(h(SEED ^ ~(uint64_t)i) >> 44) - 524288, momentum = 0;

		for (uint64_t k = 0; k < steps; k++) {
			int64_t sum = 0;

			for (uint64_t r = 0; r < workers; r++)
				sum += floor_div(
					parameter - ((int64_t)(h(SEED ^ (k * 4294967296u + r * 1048576 + i)) >> 44) -
						     524288),
					16);
			momentum += sum / workers - floor_div(momentum, 8);
			parameter -= floor_div(momentum, 4);
		}
		wrong += s->parameter[i] != parameter || s->momentum[i] != momentum;
	}
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT_EQUAL(s->steps, steps);
}

/* ---- runs ---- */
static sp_time uneven(void *arg, uint32_t rank, uint8_t cpu, sp_time from, sp_time work)
{
	return from + work + h(from ^ (uint64_t)rank << 48) % (20 * SP_US);
}

static const struct train_world even = {.nic = {{RATE, LATENCY}}};
static const struct train_world shaken = {.nic = {{RATE, LATENCY}}, .stretch = uneven};

static int keep(void *arg, const struct train_state *state)
{
	(void)arg;
	return train_state_copy(&kept, state);
}

static sp_time until = 5 * SP_US; /* how late the others notice a death */

/* Runs it from a state. */
static int run(const struct train_config *c, const struct train_world *world, struct train_state *state)
{
	const struct train_keeper keeper = {.keep = keep, .until = until};
	struct train *t;
	int err;

	CU_ASSERT_EQUAL_FATAL(train_create(c, &t), 0);
	err = train_learn(t, world, &keeper, state, &learned);
	train_destroy(t);
	return err;
}

static struct train_config some(unsigned scheme, uint32_t workers)
{
	struct train_config c = schemes[scheme];

	c.workers = workers;
	c.steps = STEPS;
	c.bytes = 30000;
	c.compute = 3000;
	c.checkpoint_bytes = 60000;
	c.checkpoint_rate = RATE / 2;
	return c;
}

static void begin(struct train_state *s, uint32_t workers)
{
	CU_ASSERT_EQUAL_FATAL(train_state_create(s, workers, NUMBERS, SEED), 0);
}

static void end(struct train_state *s)
{
	train_state_free(s);
	train_state_free(&kept);
}

TEST(parameters_are_those_of_the_recurrence_whatever_the_scheme_and_however_uneven_the_hosts)
{
	for (uint32_t p = 2; p <= MOST; p++)
		for (unsigned i = 0; i < 2 * SCHEMES; i++) {
			struct train_config c = some(i / 2, p);
			struct train_state s;

			begin(&s, p);
			c.checkpoint = i % 3 ? 4 : 0;
			CU_ASSERT_EQUAL(run(&c, i % 2 ? &shaken : &even, &s), 0);
			expect(&s, p, STEPS);
			CU_ASSERT_EQUAL(learned.checkpoints, c.checkpoint ? 3 : 0);
			CU_ASSERT_EQUAL(learned.died, SP_NEVER);
			if (c.checkpoint)
				expect(&kept, p, STEPS);
			train_outcome_free(&learned.outcome);
			end(&s);
		}
}

/* Worker and step of all kinds: the first step, the one after a checkpoint, the last; also the one that writes. */
TEST(after_a_death_and_a_restart_from_the_checkpoint_every_bit_is_as_without)
{
	unsigned from_checkpoint = 0;

	for (unsigned i = 0; i < SCHEMES; i++)
		for (uint32_t n = 0; n < 3 * STEPS; n++) {
			const uint32_t p = 2 + n % (MOST - 1);
			struct train_config c = some(i, p);
			struct train_state s;

			begin(&s, p);
			c.checkpoint = 3;
			c.dies = true;
			c.dying = n % p;
			c.dying_step = n / 3;
			CU_ASSERT_EQUAL(run(&c, n % 2 ? &shaken : &even, &s), 0);
			CU_ASSERT_NOT_EQUAL(learned.died, SP_NEVER);
			if (c.dying_step + 1 < STEPS) /* a parameter server can end the step itself */
				CU_ASSERT_EQUAL(learned.outcome.step[c.dying_step + 1], 0);
			CU_ASSERT_EQUAL(s.steps, 0);
			CU_ASSERT(learned.checkpoints <= c.dying_step / 3 + 1);
			train_outcome_free(&learned.outcome);
			if (kept.numbers) {
				/* A parameter server may end the step in which the worker died. */
				CU_ASSERT(kept.steps % 3 == 0 && kept.steps <= c.dying_step + 1);
				expect(&kept, p, kept.steps);
				CU_ASSERT_EQUAL(train_state_copy(&s, &kept), 0);
				from_checkpoint++;
			}
			c.before = (uint32_t)s.steps;
			c.steps = STEPS - c.before;
			c.restore = c.before;
			c.dies = false;
			if (c.steps) {
				CU_ASSERT_EQUAL(run(&c, &even, &s), 0);
				train_outcome_free(&learned.outcome);
			}
			expect(&s, p, STEPS);
			end(&s);
		}
	CU_ASSERT(from_checkpoint > SCHEMES * STEPS);
}

TEST(without_the_checkpoint_a_restart_ends_with_other_bits)
{
	struct train_config c = some(5, 4);
	struct train_state s, other;

	begin(&s, 4);
	begin(&other, 4);
	CU_ASSERT_EQUAL(run(&c, &even, &s), 0);
	train_outcome_free(&learned.outcome);
	c.before = 6;
	c.steps = STEPS - 6;
	other.steps = 6; /* but nothing was learned in them */
	CU_ASSERT_EQUAL(run(&c, &even, &other), 0);
	train_outcome_free(&learned.outcome);
	CU_ASSERT_EQUAL(other.steps, s.steps);
	CU_ASSERT(!train_state_equal(&s, &other));
	CU_ASSERT_NOT_EQUAL(train_state_digest(&s), train_state_digest(&other));
	end(&other);
	end(&s);
}

/* ---- time ---- */
TEST(a_checkpoint_takes_its_bytes_at_its_rate_and_steps_go_on_meanwhile)
{
	const uint64_t bytes = 20 * 65536;

	for (unsigned share = 1; share <= 10; share++) {
		struct train_config c = {.scheme = TRAIN_RING,
					 .workers = 2,
					 .steps = 2,
					 .compute = 2000000,
					 .checkpoint = 1,
					 .checkpoint_bytes = bytes,
					 .checkpoint_rate = RATE * share / 10};
		const sp_time part = 65536 * 8 * 10 / share * 10; /* ps */
		const sp_time turn = (part + SP_NS - 1) / SP_NS * SP_NS;
		struct train_state s;

		begin(&s, 2);
		CU_ASSERT_EQUAL(run(&c, &even, &s), 0);
		/* The last of 20 leaves after 20 turns. */
		CU_ASSERT(learned.checkpoint_time >= 20 * turn + LATENCY + 65536 * 80 - 20 * SP_NS);
		CU_ASSERT(learned.checkpoint_time <= 20 * turn + LATENCY + 65536 * 80 + 20 * SP_NS);
		CU_ASSERT_EQUAL(learned.outcome.step[1], 2 * (2 * SP_MS + 2 * LATENCY));
		CU_ASSERT_EQUAL(learned.outcome.node[2].received[0], 2 * bytes);
		CU_ASSERT_EQUAL(learned.outcome.node[0].sent[0], 2 * bytes);
		train_outcome_free(&learned.outcome);
		end(&s);
	}
}

/* A ring that waits for nothing but the link: while a checkpoint is on its way, it has what the share leaves. */
TEST(training_is_delayed_by_the_share_that_checkpoints_have_of_the_link)
{
	const uint64_t n = 64 << 20;

	for (unsigned share = 1; share <= 4; share++) {
		struct train_config c = {.scheme = TRAIN_RING,
					 .workers = 64, /* messages of 1 MiB */
					 .steps = 6,
					 .bytes = n,
					 .checkpoint_bytes = 4ull << 30,
					 .checkpoint_rate = RATE * share / 10};
		struct train_state s;
		sp_time alone;

		begin(&s, 64);
		CU_ASSERT_EQUAL(run(&c, &even, &s), 0);
		alone = learned.outcome.step[5];
		train_outcome_free(&learned.outcome);
		end(&s);
		begin(&s, 64);
		c.checkpoint = 1; /* the first is on its way until the end */
		c.steps = 1;
		CU_ASSERT_EQUAL(run(&c, &even, &s), 0);
		CU_ASSERT_EQUAL(learned.outcome.step[0], alone / 6);
		train_outcome_free(&learned.outcome);
		end(&s);
		begin(&s, 64);
		c.checkpoint = 3;
		c.steps = 5;
		CU_ASSERT_EQUAL(run(&c, &even, &s), 0);
		/* Steps 3 and 4 are beside it. */
		CU_ASSERT(learned.outcome.step[4] - learned.outcome.step[2] > alone / 3);
		CU_ASSERT((double)(learned.outcome.step[4] - learned.outcome.step[2]) <
			  (double)alone / 3 / (1 - share / 10.0) * 1.01);
		train_outcome_free(&learned.outcome);
		end(&s);
	}
}

TEST(a_restart_takes_one_checkpoint_for_each_worker_over_storages_link)
{
	struct train_config c = {.scheme = TRAIN_RING,
				 .workers = 4,
				 .steps = 1,
				 .before = 3,
				 .compute = 1000,
				 .restore = true,
				 .checkpoint_bytes = 1000000};
	struct train_state s;

	begin(&s, 4);
	s.steps = 3;
	CU_ASSERT_EQUAL(run(&c, &even, &s), 0);
	CU_ASSERT_EQUAL(learned.outcome.all.end, LATENCY + 4 * 1000000 * 80 + SP_US + 6 * LATENCY);
	train_outcome_free(&learned.outcome);
	end(&s);
}

TEST(who_writes_and_dies_leaves_the_checkpoint_before)
{
	/* A step takes 3 us of computation and 2 us of messages; a checkpoint 100 us, for which the fourth step waits:
	 * worker 0 dies with the second on its way. */
	struct train_config c = {.scheme = TRAIN_RING,
				 .workers = 2,
				 .steps = 20,
				 .compute = 3000,
				 .checkpoint = 2,
				 .checkpoint_bytes = 1000,
				 .checkpoint_rate = 80000000,
				 .dies = true,
				 .dying = 0,
				 .dying_step = 5};
	struct train_state s;

	begin(&s, 2);
	CU_ASSERT_EQUAL(run(&c, &even, &s), 0);
	CU_ASSERT_EQUAL(learned.checkpoints, 1);
	CU_ASSERT_EQUAL(kept.steps, 2);
	train_outcome_free(&learned.outcome);
	end(&s);
	/* If another one dies it goes on, but is not waited for. */
	begin(&s, 2);
	c.dying = 1;
	CU_ASSERT_EQUAL(run(&c, &even, &s), 0);
	CU_ASSERT_EQUAL(learned.checkpoints, 1);
	train_outcome_free(&learned.outcome);
	end(&s);
	/* However late it is noticed, of who is dead nothing more comes; of others it does. */
	until = SP_MS;
	for (c.dying = 0; c.dying < 2; c.dying++) {
		begin(&s, 2);
		CU_ASSERT_EQUAL(run(&c, &even, &s), 0);
		CU_ASSERT_EQUAL(learned.checkpoints, 1 + c.dying);
		CU_ASSERT_EQUAL(kept.steps, 2 + 2 * c.dying);
		train_outcome_free(&learned.outcome);
		end(&s);
	}
	until = 5 * SP_US;
}

/* ---- files ---- */
static char path[] = "/tmp/spindle-train-XXXXXX";

static void change(long at, uint8_t by)
{
	uint8_t byte;
	int f = open(path, O_RDWR);

	CU_ASSERT_FATAL(f >= 0);
	CU_ASSERT_EQUAL(pread(f, &byte, 1, at), 1);
	byte ^= by;
	CU_ASSERT_EQUAL(pwrite(f, &byte, 1, at), 1);
	close(f);
}

static void refused(const struct train_state *like, const char *words)
{
	struct train_state s = {0};
	char why[256] = "", expected[256];

	snprintf(expected, sizeof(expected), "%s %s", path, words);
	CU_ASSERT_EQUAL(train_checkpoint_read(&s, like, path, why, sizeof(why)), -EINVAL);
	CU_ASSERT_STRING_EQUAL(why, expected);
	CU_ASSERT_PTR_NULL(s.parameter);
}

TEST(a_file_gives_back_what_was_written_and_no_byte_of_it_may_be_another)
{
	const long bytes = 32 + 8 * NUMBERS + 8;
	struct train_state s, read = {0}, like;
	struct train_config c = some(5, 3);
	char why[256];

	begin(&s, 3);
	CU_ASSERT_EQUAL(run(&c, &even, &s), 0);
	train_outcome_free(&learned.outcome);
	close(mkstemp(path));
	CU_ASSERT_EQUAL(train_checkpoint_write(&s, path), 0);
	CU_ASSERT_EQUAL(train_checkpoint_read(&read, &s, path, why, sizeof(why)), 0);
	CU_ASSERT(train_state_equal(&read, &s));
	train_state_free(&read);
	for (long at = 0; at < bytes; at++) {
		change(at, (uint8_t)(1 << at % 8));
		refused(&s, at < 8		 ? "is no checkpoint of sim train"
			    : at < 12 || at > 15 ? "is damaged: its checksum is wrong"
						 : "is damaged: it has not as many bytes as its head says");
		change(at, (uint8_t)(1 << at % 8));
	}
	like = s;
	like.workers = 4;
	refused(&like, "is of another number of workers");
	like = s;
	like.numbers++;
	refused(&like, "is of another number of parameters");
	like = s;
	like.seed++;
	refused(&like, "is of another seed");
	for (long n = bytes - 1; n >= 0; n--) {
		CU_ASSERT_EQUAL(truncate(path, n), 0);
		refused(&s, n < 8    ? "is no checkpoint of sim train"
			    : n < 32 ? "is damaged: it ends within its head"
				     : "is damaged: it has not as many bytes as its head says");
	}
	CU_ASSERT_EQUAL(train_checkpoint_write(&s, path), 0);
	CU_ASSERT_EQUAL(truncate(path, bytes + 1), 0);
	refused(&s, "is damaged: it has not as many bytes as its head says");
	unlink(path);
	CU_ASSERT_EQUAL(train_checkpoint_read(&read, &s, path, why, sizeof(why)), -ENOENT);
	CU_ASSERT_EQUAL(train_checkpoint_write(&s, "/dev/null"), -EEXIST);
	CU_ASSERT_EQUAL(train_checkpoint_write(&s, "/nowhere/at/all"), -ENOENT);
	end(&s);
}

TEST(what_cannot_be_is_refused)
{
	const struct train_config good = some(5, 2);
	struct train_config bad[] = {good, good, good, good, good};
	struct train_config c = good;
	struct train_state s;
	struct train *t;

	bad[0].dies = true;
	bad[0].dying = 2;
	bad[1].dies = true;
	bad[1].dying_step = STEPS;
	bad[2].checkpoint = 1;
	bad[2].checkpoint_rate = 0;
	bad[3].restore = true;
	bad[3].checkpoint_bytes = TRAIN_BYTES_MAX + 1;
	bad[4].scheme = TRAIN_BARRIER;
	bad[4].checkpoint = 1;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CU_ASSERT_EQUAL(train_create(&bad[i], &t), -EINVAL);
	CU_ASSERT_EQUAL(train_state_create(&s, 2, 0, 1), -EINVAL);
	CU_ASSERT_EQUAL(train_state_create(&s, 2, TRAIN_NUMBERS_MAX + 1, 1), -EINVAL);
	begin(&s, 2);
	c.before = 1; /* the state has none */
	CU_ASSERT_EQUAL(run(&c, &even, &s), -EINVAL);
	c = good;
	c.workers = 3;
	CU_ASSERT_EQUAL(run(&c, &even, &s), -EINVAL);
	c = good;
	c.scheme = TRAIN_REDUCE_SCATTER;
	CU_ASSERT_EQUAL(run(&c, &even, &s), -EINVAL);
	end(&s);
}
