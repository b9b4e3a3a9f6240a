/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RVMA, puts that come in bursts: the same packets, all that can be wrong with them included, come twice: in bursts,
 * where those that are as most are are placed together, and to a watched NIC, where each goes the long way. After
 * each burst all that a host can see, and all that is counted, is the same.
 */
#define MTU 1024u
#include "../lib/rvma_nic.h"

#include <zlib.h>

#define WINDOWS 10u
#define USED	65536u /* bytes of memory that buffers lie in */
#define SCRIPTS 60u
#define BURSTS	40u

static const struct sp_tracer nobody;
static uint64_t seed;

static uint32_t random32(void)
{
	seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
	return (uint32_t)(seed >> 16);
}

static bool one_in(uint32_t n)
{
	return random32() % n == 0;
}

static struct {
	uint64_t id, mailbox, key, flags;
} win[WINDOWS];
static unsigned notes;

static void open_windows(void)
{
	static const uint64_t flags[] = {0,
					 SP_RVMA_OPS,
					 SP_RVMA_MANAGED,
					 SP_RVMA_MANAGED | SP_RVMA_OPS | SP_RVMA_FORGET,
					 SP_RVMA_REGION,
					 SP_RVMA_SILENT};
	bool caught = false;

	for (unsigned i = 0; i < WINDOWS; i++) {
		win[i].mailbox = 100 + i;
		win[i].key = random32();
		win[i].flags = flags[random32() % 6];
		if (!caught && !(win[i].flags & SP_RVMA_REGION) && one_in(8)) {
			win[i].flags |= SP_RVMA_CATCH_ALL;
			caught = true;
		}
		win[i].id =
			rw_window(win[i].mailbox, win[i].key,
				  win[i].flags & SP_RVMA_OPS ? random32() % 8 : random32() % 4 * 1000, win[i].flags);
		if (one_in(4))
			CU_ASSERT_EQUAL(rw_command(SP_RVMA_CMD_LIMIT, win[i].id, 0, 0, 700), 0); /* bytes of a put */
		if (one_in(6)) {
			const struct sp_command limit = {.op = SP_RVMA_CMD_LIMIT,
							 .context = rw_context,
							 .arg = {win[i].id, 0, 0, 0, 100 * 1000 * 1000}};

			CU_ASSERT_EQUAL(sp_command_call(dut.dev, &limit, NULL), 0);
		}
	}
}

/* What an application does between two bursts. */
static void host(void)
{
	for (unsigned n = random32() % 8; n; n--) {
		const unsigned i = random32() % WINDOWS;
		const uint64_t at = random32() % (USED / 4096) * 4096 + (one_in(3) ? random32() % 100 : 0);

		rw_post_with(win[i].id, at, 1 + random32() % 3900, notes++ % NOTES,
			     one_in(4) ? 1 + random32() % 20 : 0);
	}
	if (one_in(4))
		rw_command(SP_RVMA_CMD_INC_EPOCH, win[random32() % WINDOWS].id, 0, 0, 0);
	if (one_in(20))
		rw_command(SP_RVMA_CMD_CLOSE, win[random32() % WINDOWS].id, 0, 0, 0);
}

/* Most to the mailbox of the one before; some again; some that are wrong in one way or another. */
static void network(void)
{
	static struct transfer before[64];
	static unsigned sent;
	static unsigned to;

	if (!rw_next_transfer)
		sent = to = 0;
	for (unsigned n = 1 + random32() % 40; n; n--) {
		struct transfer t = {.fill = (uint8_t)random32()};

		if (one_in(12) && sent) {
			rw_packet(&before[random32() % (sent < 64 ? sent : 64)], 0);
			continue;
		}
		if (one_in(3))
			to = random32() % WINDOWS;
		t.mailbox = one_in(20) ? 7 : win[to].mailbox;
		t.key = win[to].key ^ one_in(20);
		t.length = one_in(20) ? 0 : one_in(3) ? 500 + random32() % 525 : 1 + random32() % 100;
		t.length = one_in(20) ? rw_mtu + 1 + random32() % rw_mtu : t.length;
		t.offset = one_in(2) ? APPEND : random32() % (one_in(10) ? 5000 : 2000);
		t.offset = win[to].flags & SP_RVMA_MANAGED && !one_in(20) ? APPEND : t.offset;
		t.flags = one_in(10) ? SP_RVMA_FENCE : 0;
		rw_start(&t);
		rw_next_transfer += one_in(50) ? 1 + random32() % 80 : 0; /* some never come */
		if (!one_in(10))
			rw_packet(&t, one_in(30) ? 1 : 0);
		if (t.length > rw_mtu && !one_in(4))
			rw_packet(&t, 1);
		before[sent++ % 64] = t;
	}
	if (one_in(3)) {
		const uint8_t shorter[40] = {[20] = 1};

		rw_raw(0xC0, shorter, random32() % sizeof(shorter));
	}
	if (one_in(3))
		rw_get(win[random32() % WINDOWS].mailbox, 0, 0, 1, 0);
}

struct sight {
	uint32_t memory, notes, windows, counters, drops, refused, blocks;
};

static uint32_t sum_of(const void *bytes, size_t len)
{
	return (uint32_t)crc32(0, bytes, (unsigned)len);
}

static struct sight look(void)
{
	const struct rv *s = rw_state();
	const struct sp_view *v = sp_context_by_id(dut.nic, rw_context)->view[0];
	struct sp_rvma_notification copy[NOTES];
	const struct rv_session *x = &s->session[0];
	const uint64_t session[] = {x->base, x->end, sum_of(x->block, s->blocks * sizeof(*x->block))};

	memcpy(copy, rw_note, sizeof(copy));
	for (unsigned i = 0; i < NOTES; i++)
		copy[i].address -= copy[i].address ? (uintptr_t)rw_memory - 1 : 0;
	return (struct sight){.memory = sum_of(rw_memory, USED),
			      .notes = sum_of(copy, sizeof(copy)),
			      .windows = sum_of(rw_line(0), WINDOWS * sizeof(struct sp_rvma_window_status)),
			      .counters = sum_of(v->pub.counters, (RV_RESTARTS + 1) * sizeof(uint64_t)),
			      .drops = sum_of(v->drops, sizeof(v->drops)),
			      .refused = sum_of(s->refused, sizeof(s->refused)),
			      .blocks = sum_of(session, sizeof(session))};
}

static void play(unsigned script, bool alone, struct sight *sight, uint64_t *puts)
{
	seed = 0x9E3779B97F4A7C15ull * (script + 1);
	rw_watcher = alone ? &nobody : NULL;
	rw_fed_only = true;
	notes = 0;
	/* Few of the counters are on the NIC; large packets go past the caches, or not. */
	rw_begin_with(script % 2 ? "window=1024;windows=16;counters=6;stream-from=1"
				 : "window=1024;windows=16;counters=8");
	open_windows();
	for (unsigned i = 0; i < BURSTS; i++) {
		host();
		network();
		rw_now += one_in(2) ? 100 * SP_US : SP_US;
		dut_settle(&dut, rw_now);
		sight[i] = look();
	}
	CU_ASSERT_EQUAL(alone, sp_context_by_id(dut.nic, rw_context)->view[0]->pub.watch != 0);
	*puts = dut_counter(&dut, rw_context, "puts");
	rw_stop();
	rw_watcher = NULL;
}

TEST(in_bursts_puts_do_what_they_do_one_by_one)
{
	static const char *const names[] = {"memory",  "notes",	 "status of windows", "counters", "drops",
					    "refused", "session"};
	uint64_t all = 0;
	unsigned wrong = 0;

	rw_mtu = MTU;
	for (unsigned script = 0; script < SCRIPTS && wrong < 5; script++) {
		struct sight together[BURSTS], alone[BURSTS];
		uint64_t puts[2];

		play(script, false, together, &puts[0]);
		play(script, true, alone, &puts[1]);
		for (unsigned i = 0; i < BURSTS; i++) {
			const uint32_t *a = (const uint32_t *)&together[i], *b = (const uint32_t *)&alone[i];

			if (!memcmp(a, b, sizeof(*together)))
				continue;
			for (unsigned k = 0; k < sizeof(*together) / sizeof(*a); k++)
				if (a[k] != b[k])
					printf("# script %u, burst %u: %s\n", script, i, names[k]);
			wrong++;
			break;
		}
		CU_ASSERT_EQUAL(puts[0], puts[1]);
		all += puts[0];
	}
	printf("# %u puts\n", (unsigned)all);
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT(all > SCRIPTS * BURSTS * 4);
}
