/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RVMA under every seed: random windows, thresholds, puts, gets, orders, losses, duplicates, closes, rewinds, deaths.
 * rvma_watch.h says what is compared with the model in rvma_model.h, which sees the packets as the NICs receive them.
 */
#include "../lib/rvma_apps.h"

#include "../lib/seeds.h"

static struct {
	uint64_t runs, did, got, packets, placed, duplicates, stale, epochs, wholes, acks, nacks, restarts, fenced,
		over_change, lost, refused[MO_STATUSES], ended[MO_STATUSES];
} sum;

static void summed(const struct apps *a)
{
	sum.runs++;
	sum.did += a->did;
	sum.got += a->got;
	sum.packets += a->mo.packets;
	sum.placed += a->mo.placed;
	sum.duplicates += a->mo.duplicates;
	sum.stale += a->mo.stale;
	sum.epochs += a->mo.epochs;
	sum.wholes += a->mo.wholes;
	sum.acks += a->mo.acks;
	sum.nacks += a->mo.nacks;
	sum.restarts += a->mo.restarts;
	sum.fenced += a->mo.fenced;
	sum.over_change += a->mo.over_change;
	sum.lost += a->mo.lost;
	for (unsigned i = 0; i < MO_STATUSES; i++) {
		sum.refused[i] += a->mo.count[i];
		sum.ended[i] += a->statuses[i];
	}
}

/* Runs one(a) for `count` seeds. */
static void over_seeds(const char *rule, unsigned count, void (*one)(struct apps *a))
{
	static struct apps a;
	struct seeds s = seeds_begin(rule, count);

	seeds_fill(app_source, APP_SOURCE, 20221122, 0);
	memset(&sum, 0, sizeof(sum));
	while (seeds_next(&s)) {
		memset(&a, 0, sizeof(a));
		a.seed = s.seed;
		sp_random_seed(&a.random, a.seed, 0);
		apps_random(&a);
		apps_open(&a);
		if (!a.mo.text[0])
			one(&a);
		apps_close(&a);
		APP_CHECK(&a, seeds_whole(&s), "packet buffers are lost");
		summed(&a);
		seeds_told(&s, a.mo.text);
		mo_free(&a.mo);
	}
	printf("# %s: %llu runs, %llu operations and commands; packets: %llu came, %llu placed, %llu repeated, %llu of "
	       "old sessions, %llu fenced; %llu transfers whole, %llu gets read back, %llu epochs, %llu with puts open "
	       "across the change, %llu puts lost; %llu ACKs, %llu NACKs looked at, %llu restarts\n",
	       rule, U(sum.runs), U(sum.did), U(sum.packets), U(sum.placed), U(sum.duplicates), U(sum.stale),
	       U(sum.fenced), U(sum.wholes), U(sum.got), U(sum.epochs), U(sum.over_change), U(sum.lost), U(sum.acks),
	       U(sum.nacks), U(sum.restarts));
	printf("# transfers by what became of them");
	for (unsigned i = 0; i < MO_STATUSES; i++)
		if (sum.refused[i] || sum.ended[i])
			printf(", %u: %llu (told: %llu)", i, U(sum.refused[i]), U(sum.ended[i]));
	printf("\n");
	CU_ASSERT_EQUAL(s.bad, 0);
}

#define RUNS   150
#define DEATHS 40

/* ---- the rules ---- */
static void mixed(struct apps *a)
{
	apps_run(a, 200);
}

TEST(the_model_predicts_every_epoch_buffer_notification_and_refusal)
{
	over_seeds(__func__, RUNS, mixed);
	if (sum.runs < RUNS)
		return;
	/* all of it was met, or the rule has shown nothing; with few seeds chance decides */
	for (unsigned i = MO_DELIVERED; i <= MO_REWOUND; i++)
		if (i != MO_RATE && i != MO_NO_ROOM) {
			CU_ASSERT(sum.ended[i] > 0);
			if (!sum.ended[i])
				printf("# status %u was never met\n", i);
		}
	CU_ASSERT(sum.over_change && sum.fenced && sum.duplicates && sum.got);
}

static void deaths(struct apps *a)
{
	for (unsigned i = 0; i < 3 && !a->mo.text[0]; i++) {
		const unsigned c = (unsigned)app_below(a, a->mo.contexts);

		apps_run_to_death(a, 60, c, app_below(a, 2));
		if (!a->mo.text[0])
			app_open(a, &a->app[c]);
	}
	if (!a->mo.text[0])
		apps_run(a, 60);
}

TEST(windows_outlive_who_puts_into_them_and_nobody_writes_to_what_the_dead_had_posted)
{
	over_seeds(__func__, DEATHS, deaths);
	if (sum.runs >= DEATHS)
		CU_ASSERT(sum.restarts && sum.lost && sum.ended[MO_PEER_GONE]);
}
