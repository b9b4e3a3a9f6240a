/* SPDX-License-Identifier: BSD-3-Clause */
/* What a run of the SDR properties consists of, and the random parameters that a seed stands for. */
#ifndef TESTS_PROPERTY_PARAMS_H
#define TESTS_PROPERTY_PARAMS_H

#include <errno.h>
#include <stdarg.h>
#include <sys/socket.h>

#include "../../host-api/sdr.h"
#include "../../testbed/link.h"
#include "../../testbed/world.h"
#include "../lib/suite.h"
#include "tap.h"
#include "wire.h"

#define RIG_SOURCE   (1u << 20) /* bytes that messages are cut from */
#define RIG_MESSAGE  65536u	/* most that a message has here */
#define RIG_GUARD    96u	/* bytes on both sides of a buffer that nobody may touch */
#define RIG_CONNS    8
#define RIG_PIECES   12
#define RIG_PSN_ROOM 32768u
#define RIG_KEPT     96

static uint8_t rig_source[RIG_SOURCE];

/* ---- parameters ----------------------------------------------------------------------------------------------------
 */
struct rig_split {
	const char *text;
	uint8_t id, offset, user;
};

static const struct rig_split rig_splits[] = {
	{"10+18+4", 10, 18, 4}, {"10+18+4", 10, 18, 4}, {"8+22+2", 8, 22, 2},	{"12+20+0", 12, 20, 0},
	{"6+10+16", 6, 10, 16}, {"4+20+8", 4, 20, 8},	{"15+16+1", 15, 16, 1}, {"0+28+4", 0, 28, 4},
	{"24+4+4", 24, 4, 4},	{"31+1+0", 31, 1, 0},	{"28+0+4", 28, 0, 4},	{"0+32+0", 0, 32, 0},
};

struct rig_params {
	uint32_t mtu, chunk, slots, generations, channels, segments;
	uint64_t max_bytes;
	struct rig_split split;
	uint16_t workers[2];
	bool ipv6, resolve; /* resolve: by ARP or ND; else static neighbours */
	struct sp_link_direction link[2];
	sp_time network; /* longest time that a frame may be under way */
	sp_time cts_interval, life;
	uint64_t rate;
	sp_time tick;	   /* how often the host programs act at least; 0: by the network's time */
	uint64_t messages; /* per flow */
	bool spread, both, fixed_qpn;
	bool trusting; /* receives are posted without regard to what the sender has done with earlier messages */
	unsigned conns;
	double early, stream, mismatched, inject; /* probabilities */
	bool lossless;	 /* link and taps lose no data: all that is not ended early completes */
	unsigned budget; /* packets, about, per flow */
	double cts_loss; /* of clear-to-send, at the tap, beyond the link's own */
	double slow;	 /* how often posting and sending hesitate */
	double junk;	 /* of damaged copies, per packet */
};

struct rig;
struct conn;

struct out { /* a message on its way */
	struct sdr_send *handle;
	uint64_t length, source;
	uint32_t immediate;
	uint64_t due, left; /* packets handed over, packets seen to leave */
	bool started, released;
	sp_time gone; /* when all had left */
	unsigned pieces, next;
	struct {
		uint64_t at, len;
	} piece[RIG_PIECES];
	bool stream, ended;
};

enum in_state { IN_NONE, IN_POSTED, IN_ASKED, IN_DONE };

struct in { /* a receive */
	enum in_state state;
	struct sdr_recv *handle;
	uint64_t posted, length; /* length: as fixed by a packet */
	bool fixed, early, was_complete;
	sp_time deadline, ended;
	uint64_t *arrived, *window; /* packets: before the buffer was asked back, while it was */
	uint64_t packets, duplicates;
	uint32_t mask;
	struct buffer *buffer;
};

struct buffer {
	uint8_t *base, *at; /* at: where the receive begins */
	uint8_t fill;
	bool used;
	uint64_t turn;
};

struct kept { /* a packet that came, to come again */
	unsigned end;
	uint32_t len;
	uint8_t frame[WIRE_FRAME_MAX];
};

struct flow { /* messages of one end to the other */
	struct conn *conn;
	unsigned from;
	uint64_t messages;
	struct out *out;
	struct in *in;
	uint64_t next_send, first_send; /* first_send: oldest not released */
	uint64_t next_post, first_recv;
	uint64_t credit; /* largest clear-to-send that reached the sender */
	struct {
		uint32_t key; /* QP index, PSN; + 1 */
		uint64_t k;
	} * psn;
	uint32_t psn_first[4096], psn_count[4096];
	struct buffer *buffer;
	unsigned buffers;
	uint64_t turn;
	uint8_t *arena, *scratch;
	uint64_t buffer_bytes;
	struct sp_mr *arena_mr, *scratch_mr;
	/* what became of the frames that reached the receiver's NIC: sure, and either of two ways */
	uint64_t delivered, placed, placed_maybe, duplicates, duplicates_maybe, late, beyond, beyond_maybe, cts_seen,
		completed;
	uint64_t injected, injected_late;
};

struct conn {
	struct rig *rig;
	bool alive, connected[2];
	struct sdr_context *context[2];
	struct sdr_qp *qp[2];
	struct sdr_qp_info info[2];
	uint32_t id[2];
	sp_time connect_at[2];
	struct flow flow[2]; /* [e]: from end e */
};

struct rig {
	uint64_t seed;
	struct sp_random random;
	struct rig_params p;
	struct sp_link *link;
	struct sp_world *world;
	struct tap tap[2];
	struct sp_nic *nic[2];
	struct sp_dev *dev[2];
	struct wire_address address[2];
	struct conn *conn[RIG_CONNS];
	unsigned conns;
	sp_time wake, tick, limit;
	uint64_t steps;
	bool failed;
	char text[400];
	struct kept *kept;
	unsigned kept_count, kept_next;
	unsigned injections;
	void (*act)(struct rig *, sp_time now); /* of the test's own, in every step */
	bool (*lose)(struct rig *, unsigned end, const struct wire_packet *, sp_time now);
	void *mark; /* the test's */
};

static inline void __attribute__((format(printf, 2, 3))) rig_fail(struct rig *r, const char *format, ...)
{
	va_list args;

	if (r->failed)
		return;
	r->failed = true;
	int n = snprintf(r->text, sizeof(r->text),
			 "at %.3f us: ", r->world ? (double)sp_world_now(r->world) / 1e6 : 0.0);

	va_start(args, format);
	vsnprintf(r->text + n, sizeof(r->text) - (size_t)n, format, args);
	va_end(args);
}
#define RIG_CHECK(r, condition, ...)                                                                                   \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			rig_fail(r, __VA_ARGS__);                                                                      \
	} while (0)
#define U(x) ((unsigned long long)(x))

static inline uint64_t rig_below(struct rig *r, uint64_t n)
{
	return n ? (uint64_t)(((unsigned __int128)sp_random_next(&r->random) * n) >> 64) : 0;
}

static inline bool rig_chance(struct rig *r, double p)
{
	return sp_random_chance(&r->random, p);
}

/* 1 to n, small numbers as likely as large ones */
static inline uint64_t rig_log(struct rig *r, uint64_t n)
{
	unsigned bits = 64 - (unsigned)__builtin_clzll(n);
	uint64_t v = 1 + rig_below(r, 1ull << rig_below(r, bits + 1));

	return v > n ? n : v;
}

static inline bool bit_get(const uint64_t *words, uint64_t i)
{
	return words[i / 64] >> (i % 64) & 1;
}

static inline void bit_set(uint64_t *words, uint64_t i)
{
	words[i / 64] |= 1ull << (i % 64);
}

static inline uint64_t rig_units(uint64_t bytes, uint64_t unit)
{
	return bytes ? (bytes + unit - 1) / unit : 1;
}

static inline void rig_random_params(struct rig *r)
{
	static const uint32_t mtus[] = {64, 64, 65, 100, 128, 131, 256, 333, 512, 1000, 1024, 1024, 1400, 4096};
	static const uint64_t bandwidths[] = {0, 1000000000, 10000000000, 100000000000, 400000000000};
	struct rig_params *p = &r->p;
	uint64_t packets, bandwidth;
	sp_time serial = 0;

	memset(p, 0, sizeof(*p));
	p->split = rig_splits[rig_below(r, sizeof(rig_splits) / sizeof(*rig_splits))];
	p->mtu = mtus[rig_below(r, sizeof(mtus) / sizeof(*mtus))];
	packets = rig_log(r, p->split.offset < 9 ? 1ull << p->split.offset : 512);
	if (packets * p->mtu > RIG_MESSAGE)
		packets = RIG_MESSAGE / p->mtu;
	p->max_bytes = (packets - 1) * p->mtu + 1 + rig_below(r, p->mtu);
	p->chunk = (uint32_t)(rig_chance(r, 0.3) ? 1 : rig_log(r, 150)) * p->mtu;
	p->slots = (uint32_t)rig_log(r, p->split.id < 5 ? 1u << p->split.id : 24);
	p->generations = 1 + (uint32_t)rig_below(r, 4);
	p->channels = 1 + (uint32_t)rig_below(r, 4);
	p->segments = (uint32_t)rig_log(r, 64);
	p->workers[0] = 1 + (uint16_t)rig_below(r, 2);
	p->workers[1] = 1 + (uint16_t)rig_below(r, 2);
	p->spread = rig_chance(r, 0.7);
	p->ipv6 = rig_chance(r, 0.5);
	p->fixed_qpn = rig_chance(r, 0.5);
	p->trusting = p->generations > 1 && rig_chance(r, 0.5);
	p->conns = 1;
	p->budget = 500;
	p->slow = 0.2;
	if (rig_chance(r, 0.2))
		p->budget = 3000;
	bandwidth = bandwidths[rig_below(r, 5)];
	for (int e = 0; e < 2; e++) {
		struct sp_link_direction *d = &p->link[e];

		d->bandwidth = bandwidth;
		d->delay = rig_below(r, 1ull << (20 + rig_below(r, 14))); /* up to 8.6 ms */
		d->queue = (uint32_t)rig_log(r, 256);
		d->reorder_delay = 1 + rig_below(r, 1ull << (20 + rig_below(r, 12)));
	}
	if (bandwidth)
		serial = (p->mtu + 140ull) * 8 * SP_SEC / bandwidth;
	for (int e = 0; e < 2; e++) {
		const struct sp_link_direction *d = &p->link[e];
		const sp_time t = d->delay + d->reorder_delay + (d->queue + 2) * serial + SP_US;

		p->network = t > p->network ? t : p->network;
	}
	p->life = p->network + SP_US + rig_below(r, 2 * p->network);
	p->cts_interval = SP_US + rig_below(r, 3 * p->network);
	p->messages = (uint64_t)p->slots * p->generations * (1 + rig_below(r, 3)) + 1 + rig_below(r, p->slots + 3);
	if (p->messages > 160)
		p->messages = 160;
	p->stream = rig_chance(r, 0.7) ? 0.5 : 0;
	p->mismatched = 0.3;
}

/* Loses, repeats, reorders. */
static inline void rig_bad_network(struct rig *r, bool loss)
{
	for (int e = 0; e < 2; e++) {
		struct sp_link_direction *d = &r->p.link[e];

		d->loss = loss && rig_chance(r, 0.85) ? (double)rig_below(r, 51) / 100 : 0;
		d->duplicate = rig_chance(r, 0.7) ? (double)rig_below(r, 60) / 100 : 0;
		d->reorder = rig_chance(r, 0.7) ? (double)rig_below(r, 60) / 100 : 0;
	}
}

#endif
