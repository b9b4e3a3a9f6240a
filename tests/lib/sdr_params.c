/* SPDX-License-Identifier: BSD-3-Clause */
#include "sdr_params.h"

uint8_t pair_source[PAIR_SOURCE];

const struct pair_split pair_splits[] = {
	{"10+18+4", 10, 18, 4}, {"10+18+4", 10, 18, 4}, {"8+22+2", 8, 22, 2},	{"12+20+0", 12, 20, 0},
	{"6+10+16", 6, 10, 16}, {"4+20+8", 4, 20, 8},	{"15+16+1", 15, 16, 1}, {"0+28+4", 0, 28, 4},
	{"24+4+4", 24, 4, 4},	{"31+1+0", 31, 1, 0},	{"28+0+4", 28, 0, 4},	{"0+32+0", 0, 32, 0},
};

struct pair;

struct conn;

void __attribute__((format(printf, 2, 3))) pair_fail(struct pair *r, const char *format, ...)
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

uint64_t pair_below(struct pair *r, uint64_t n)
{
	return n ? (uint64_t)(((unsigned __int128)sp_random_next(&r->random) * n) >> 64) : 0;
}

bool pair_chance(struct pair *r, double p)
{
	return sp_random_chance(&r->random, p);
}

uint64_t pair_log(struct pair *r, uint64_t n)
{
	unsigned bits = 64 - (unsigned)__builtin_clzll(n);
	uint64_t v = 1 + pair_below(r, 1ull << pair_below(r, bits + 1));

	return v > n ? n : v;
}

bool pair_bit_get(const uint64_t *words, uint64_t i)
{
	return words[i / 64] >> (i % 64) & 1;
}

void pair_bit_set(uint64_t *words, uint64_t i)
{
	words[i / 64] |= 1ull << (i % 64);
}

uint64_t pair_units(uint64_t bytes, uint64_t unit)
{
	return bytes ? (bytes + unit - 1) / unit : 1;
}

void pair_random_params(struct pair *r)
{
	static const uint32_t mtus[] = {64, 64, 65, 100, 128, 131, 256, 333, 512, 1000, 1024, 1024, 1400, 4096};
	static const uint64_t bandwidths[] = {0, 1000000000, 10000000000, 100000000000, 400000000000};
	struct pair_params *p = &r->p;
	sp_time serial = 0;

	memset(p, 0, sizeof(*p));
	p->split = pair_splits[pair_below(r, sizeof(pair_splits) / sizeof(*pair_splits))];
	p->mtu = mtus[pair_below(r, sizeof(mtus) / sizeof(*mtus))];
	uint64_t packets = pair_log(r, p->split.offset < 9 ? 1ull << p->split.offset : 512);
	if (packets * p->mtu > PAIR_MESSAGE)
		packets = PAIR_MESSAGE / p->mtu;
	p->max_bytes = (packets - 1) * p->mtu + 1 + pair_below(r, p->mtu);
	p->chunk = (uint32_t)(pair_chance(r, 0.3) ? 1 : pair_log(r, 150)) * p->mtu;
	p->slots = (uint32_t)pair_log(r, p->split.id < 5 ? 1u << p->split.id : 24);
	p->generations = 1 + (uint32_t)pair_below(r, 4);
	p->channels = 1 + (uint32_t)pair_below(r, 4);
	p->segments = (uint32_t)pair_log(r, 64);
	p->workers[0] = 1 + (uint16_t)pair_below(r, 2);
	p->workers[1] = 1 + (uint16_t)pair_below(r, 2);
	p->spread = pair_chance(r, 0.7);
	p->ipv6 = pair_chance(r, 0.5);
	p->fixed_qpn = pair_chance(r, 0.5);
	p->trusting = p->generations > 1 && pair_chance(r, 0.5);
	p->conns = 1;
	p->budget = 500;
	p->slow = 0.2;
	if (pair_chance(r, 0.2))
		p->budget = 3000;
	uint64_t bandwidth = bandwidths[pair_below(r, 5)];
	for (int e = 0; e < 2; e++) {
		struct sp_link_direction *d = &p->link[e];

		d->bandwidth = bandwidth;
		d->delay = pair_below(r, 1ull << (20 + pair_below(r, 14))); /* up to 8.6 ms */
		d->queue = (uint32_t)pair_log(r, 256);
		d->reorder_delay = 1 + pair_below(r, 1ull << (20 + pair_below(r, 12)));
	}
	if (bandwidth)
		serial = (p->mtu + 140ull) * 8 * SP_SEC / bandwidth;
	for (int e = 0; e < 2; e++) {
		const struct sp_link_direction *d = &p->link[e];
		const sp_time t = d->delay + d->reorder_delay + (d->queue + 2) * serial + SP_US;

		p->network = t > p->network ? t : p->network;
	}
	p->life = p->network + SP_US + pair_below(r, 2 * p->network);
	p->cts_interval = SP_US + pair_below(r, 3 * p->network);
	p->messages = (uint64_t)p->slots * p->generations * (1 + pair_below(r, 3)) + 1 + pair_below(r, p->slots + 3);
	if (p->messages > 160)
		p->messages = 160;
	p->stream = pair_chance(r, 0.7) ? 0.5 : 0;
	p->mismatched = 0.3;
}

void pair_bad_network(struct pair *r, bool loss)
{
	for (int e = 0; e < 2; e++) {
		struct sp_link_direction *d = &r->p.link[e];

		d->loss = loss && pair_chance(r, 0.85) ? (double)pair_below(r, 51) / 100 : 0;
		d->duplicate = pair_chance(r, 0.7) ? (double)pair_below(r, 60) / 100 : 0;
		d->reorder = pair_chance(r, 0.7) ? (double)pair_below(r, 60) / 100 : 0;
	}
}
