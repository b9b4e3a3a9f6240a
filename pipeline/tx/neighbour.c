/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The neighbour table: a fixed array, probed linearly from the address's hash, lock-free.
 *
 * An entry's word holds MAC, state and generation. The key is written only between the two stores that claim and
 * publish a generation. So if a reader finds the same generation before and after it reads the key, key and MAC belong
 * together. Times are hints: a late store into a reused entry makes it look younger, but never wrong; a late claim is
 * of another generation. Two workers may insert one address at once; both then see both copies and keep one.
 */
#include "../engine.h"
#include "../limits.h"
#include "neighbour.h"
#include "../ports/port.h"
#include "transmit.h"
#include "../worker.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <rte_ip.h>

_Static_assert((SP_NEIGHBOURS & (SP_NEIGHBOURS - 1)) == 0, "probing wraps with a mask");
_Static_assert(SP_NEIGHBOURS >= 2 * SP_MAX_STATIC, "static entries leave room for others");

#define PROBE_WINDOW 16 /* entries per step of the search for a place */

/* word: bits 0-47 MAC, 48-50 state, 51-63 generation */
#define MAC_MASK	((1ull << 48) - 1)
#define STATE_SHIFT	48
#define STATE_MASK	(7ull << STATE_SHIFT)
#define GENERATION_ONE	(1ull << 51)
#define GENERATION_MASK (~0ull << 51)
enum state { FREE, CLAIMING, INCOMPLETE, KNOWN, STATIC };

struct entry {
	_Atomic uint64_t word;
	_Atomic uint64_t key[3]; /* address and port; stable within a generation */
	_Atomic sp_time confirmed;
	_Atomic sp_time used;  /* latest find, in steps of USED_STEP; 0: never */
	_Atomic sp_time asked; /* latest request; the two lowest bits count unanswered requests */
	/* Another host claims the address. See verify(). */
	_Atomic uint64_t claim;	 /* its MAC, and the generation that it claims; 0: none */
	_Atomic sp_time probed;	 /* latest request to the MAC; the two lowest bits count unanswered ones; 0: none */
	_Atomic sp_time watched; /* until then the MAC is asked regularly */
} SP_CACHE_ALIGNED;

#define ASKED_TRIES 3ull
#define USED_STEP   (100 * SP_MS) /* one store per step, not per packet: keeps the cache line shared */

struct sp_neighbours {
	const struct sp_routes *routes; /* read-only, like the seed */
	uint64_t seed;
	_Atomic unsigned furthest;	   /* [shared] largest distance of an entry from its hash; only grows */
	_Atomic sp_time deadline;	   /* [shared] of sp_neighbours_tick */
	struct entry entry[SP_NEIGHBOURS]; /* [shared] */
};

static bool is_host_mac(const uint8_t mac[6])
{
	static const uint8_t none[6];
	return !(mac[0] & 1) && memcmp(mac, none, 6);
}

/* ---- entries ---- */

static enum state state_of(uint64_t word)
{
	return (enum state)((word & STATE_MASK) >> STATE_SHIFT);
}

static uint64_t word_of(uint64_t generation, enum state state, const uint8_t mac[6])
{
	uint64_t bytes = 0;
	if (mac)
		memcpy(&bytes, mac, 6);
	return (generation & GENERATION_MASK) | (uint64_t)state << STATE_SHIFT | (bytes & MAC_MASK);
}

struct key {
	uint64_t word[3];
	unsigned hash;
};

static struct key key_of(const struct sp_neighbours *n, uint16_t port, const uint8_t ip[16])
{
	struct key k = {.word[2] = port};
	memcpy(k.word, ip, 16);
	/* Folds the product's halves, since neighbours differ in their addresses' last bits only. */
	__uint128_t h =
		(__uint128_t)(k.word[0] ^ n->seed ^ 0x9E3779B97F4A7C15ull) * (k.word[1] ^ 0xD6E8FEB86659FD93ull);
	uint64_t folded = (uint64_t)h ^ (uint64_t)(h >> 64);
	k.hash = (unsigned)(folded ^ folded >> 32) + port;
	return k;
}

static struct entry *entry_at(struct sp_neighbours *n, const struct key *k, unsigned distance)
{
	return &n->entry[(k->hash + distance) & (SP_NEIGHBOURS - 1)];
}

/* True if the entry holds that address; then *word goes with it. */
static bool holds(struct entry *e, const struct key *k, uint64_t *word)
{
	for (unsigned i = 0; i < 4; i++) { /* give up on an entry that is reused faster than this */
		uint64_t before = atomic_load(&e->word);
		if (state_of(before) < INCOMPLETE)
			return false;
		/* Acquire: a reader of the next generation's key also sees its claim. */
		bool same = true;
		for (unsigned j = 0; j < 3; j++)
			same &= atomic_load_explicit(&e->key[j], memory_order_acquire) == k->word[j];
		uint64_t after = atomic_load_explicit(&e->word, memory_order_acquire);
		if ((before ^ after) & GENERATION_MASK)
			continue;
		*word = after;
		return same && state_of(after) >= INCOMPLETE;
	}
	return false;
}

/* Searches from *distance on; *distance becomes the entry's. */
static struct entry *lookup(struct sp_neighbours *n, const struct key *k, unsigned *distance, uint64_t *word)
{
	unsigned furthest = atomic_load(&n->furthest);
	for (; *distance <= furthest; ++*distance) {
		struct entry *e = entry_at(n, k, *distance);
		if (holds(e, k, word))
			return e;
	}
	return NULL;
}

static void wake(struct sp_neighbours *n, sp_time at)
{
	sp_time old = atomic_load_explicit(&n->deadline, memory_order_relaxed);
	while (at < old && !atomic_compare_exchange_weak_explicit(&n->deadline, &old, at, memory_order_relaxed,
								  memory_order_relaxed))
		;
}

/* Eviction order: lower values are evicted first. */
enum victim { VICTIM_FREE, VICTIM_UNUSED, VICTIM_IDLE, VICTIM_ASKED, VICTIM_ACTIVE, VICTIM_NEVER };

static enum victim victim_of(struct entry *e, uint64_t word, sp_time now, sp_time *since)
{
	sp_time asked = atomic_load_explicit(&e->asked, memory_order_relaxed);
	sp_time used = atomic_load_explicit(&e->used, memory_order_relaxed);
	*since = used ? used : atomic_load_explicit(&e->confirmed, memory_order_relaxed);
	switch (state_of(word)) {
	case FREE:
		return VICTIM_FREE;
	case INCOMPLETE:
		*since = asked;
		return (asked & ASKED_TRIES) == SP_NEIGHBOUR_TRIES && now >= asked + SP_NEIGHBOUR_RETRY ? VICTIM_UNUSED
													: VICTIM_ASKED;
	case KNOWN:
		if (!used)
			return VICTIM_UNUSED;
		return now >= used + SP_NEIGHBOUR_ACTIVE ? VICTIM_IDLE : VICTIM_ACTIVE;
	default:
		return VICTIM_NEVER;
	}
}

/* Claims a free entry, or evicts one of at most the order `worst`. */
static struct entry *claim(struct sp_neighbours *n, const struct key *k, sp_time now, enum victim worst, uint64_t *word)
{
	for (unsigned attempt = 0; attempt < 8; attempt++) {
		enum victim best = VICTIM_NEVER;
		sp_time best_since = 0;
		uint64_t best_word = 0;
		unsigned best_distance = 0;
		for (unsigned d = 0; d < SP_NEIGHBOURS; d++) {
			struct entry *e = entry_at(n, k, d);
			uint64_t w = atomic_load_explicit(&e->word, memory_order_acquire);
			sp_time since;
			if (d % PROBE_WINDOW == 0 && best <= VICTIM_UNUSED)
				break;
			enum victim v = victim_of(e, w, now, &since);
			if (v > best || (v == best && since >= best_since))
				continue;
			best = v, best_since = since, best_word = w, best_distance = d;
			if (v == VICTIM_FREE)
				break;
		}
		if (best > worst || best == VICTIM_NEVER)
			return NULL;
		struct entry *e = entry_at(n, k, best_distance);
		*word = word_of(best_word + GENERATION_ONE, CLAIMING, NULL);
		if (!atomic_compare_exchange_strong(&e->word, &best_word, *word))
			continue;
		unsigned furthest = atomic_load(&n->furthest);
		while (best_distance > furthest &&
		       !atomic_compare_exchange_weak(&n->furthest, &furthest, best_distance))
			;
		return e;
	}
	return NULL;
}

/* Of several copies of an address, keeps the first known one, else the first. */
static void only_one(struct sp_neighbours *n, const struct key *k)
{
	uint64_t word, keep_word = 0;
	unsigned distance = 0;
	struct entry *keep = NULL, *e;
	for (; (e = lookup(n, k, &distance, &word)); distance++) {
		struct entry *drop = e;
		uint64_t drop_word = word;
		if (!keep || (state_of(keep_word) < KNOWN && state_of(word) >= KNOWN)) {
			drop = keep, drop_word = keep_word;
			keep = e, keep_word = word;
		}
		if (drop && state_of(drop_word) != STATIC)
			atomic_compare_exchange_strong(&drop->word, &drop_word, word_of(drop_word, FREE, NULL));
	}
}

static int insert(struct sp_neighbours *n, uint16_t port, const uint8_t ip[16], enum state state, const uint8_t mac[6],
		  sp_time now, enum victim worst)
{
	struct key k = key_of(n, port, ip);
	uint64_t word;
	struct entry *e = claim(n, &k, now, worst, &word);
	if (!e)
		return -ENOSPC;
	for (unsigned i = 0; i < 3; i++)
		atomic_store_explicit(&e->key[i], k.word[i], memory_order_release);
	atomic_store_explicit(&e->confirmed, state == INCOMPLETE ? 0 : now, memory_order_relaxed);
	atomic_store_explicit(&e->used, 0, memory_order_relaxed);
	atomic_store_explicit(&e->asked, 0, memory_order_relaxed);
	atomic_store_explicit(&e->claim, 0, memory_order_relaxed);
	atomic_store_explicit(&e->probed, 0, memory_order_relaxed);
	atomic_store_explicit(&e->watched, 0, memory_order_relaxed);
	/* Sequentially consistent, here and in lookup(): of two concurrent inserters at least one sees both copies. */
	atomic_store(&e->word, word_of(word, state, mac));
	only_one(n, &k);
	if (state != STATIC)
		wake(n, now + (state == KNOWN ? SP_NEIGHBOUR_REACHABLE : SP_NEIGHBOUR_RETRY));
	return 0;
}

int sp_neighbours_create(const struct sp_nic_config *config, const struct sp_routes *routes, struct sp_neighbours **out)
{
	if (config->neighbours > SP_MAX_STATIC)
		return -EINVAL;
	struct sp_neighbours *n = aligned_alloc(64, sizeof(*n));
	if (!n)
		return -ENOMEM;
	memset(n, 0, sizeof(*n));
	n->seed = config->secret ? config->secret : config->seed;
	n->routes = routes;
	atomic_store(&n->deadline, SP_NEVER);
	for (unsigned i = 0; i < config->neighbours; i++) {
		const struct sp_neighbour_config *s = &config->neighbour[i];
		uint16_t port = sp_route_port(routes, s->ip);
		struct key k = key_of(n, port, s->ip);
		uint64_t word;
		if (lookup(n, &k, &(unsigned){0}, &word)) /* already there: two MACs for one address */
			goto invalid;
		if (!is_host_mac(s->mac) || insert(n, port, s->ip, STATIC, s->mac, 0, VICTIM_FREE))
			goto invalid;
	}
	*out = n;
	return 0;
invalid:
	free(n);
	return -EINVAL;
}

void sp_neighbours_destroy(struct sp_neighbours *n)
{
	free(n);
}

int sp_neighbour_find(struct sp_neighbours *n, uint16_t port, const uint8_t next_hop[16], sp_time now, uint8_t mac[6])
{
	struct key k = key_of(n, port, next_hop);
	uint64_t word;
	unsigned distance = 0;
	struct entry *e;
	/* Skip an unknown copy: another may be known, until only_one() has run. */
	for (; (e = lookup(n, &k, &distance, &word)); distance++) {
		if (state_of(word) < KNOWN)
			continue;
		sp_time used = atomic_load_explicit(&e->used, memory_order_relaxed);
		if (!used || now > used + USED_STEP)
			atomic_store_explicit(&e->used, now | 1, memory_order_relaxed);
		memcpy(mac, &word, 6);
		return 0;
	}
	return -EAGAIN;
}

static bool is_claimed(struct entry *e, uint64_t word, uint64_t *claim)
{
	*claim = atomic_load_explicit(&e->claim, memory_order_relaxed);
	return *claim && !((*claim ^ word) & GENERATION_MASK);
}

/* Another host than the known one says that it has the address. Anybody can say so: the known one is asked first. */
static void claims(struct sp_neighbours *n, struct entry *e, uint64_t word, const uint8_t mac[6], sp_time now)
{
	sp_time probed = atomic_load_explicit(&e->probed, memory_order_relaxed) & ~ASKED_TRIES;
	uint64_t claim;
	if (is_claimed(e, word, &claim)) /* one at a time */
		return;
	atomic_store_explicit(&e->probed, probed, memory_order_relaxed);
	atomic_store_explicit(&e->watched, now + SP_NEIGHBOUR_WATCHED, memory_order_relaxed);
	atomic_store_explicit(&e->claim, word_of(word, KNOWN, mac), memory_order_relaxed);
	wake(n, probed && now < probed + SP_NEIGHBOUR_PROBE ? probed + SP_NEIGHBOUR_PROBE : now);
}

static void update(struct sp_neighbours *n, uint16_t port, const uint8_t ip[16], const uint8_t mac[6], sp_time now,
		   bool override, bool *exists)
{
	struct key k = key_of(n, port, ip);
	uint64_t word;
	unsigned distance = 0;
	struct entry *e;
	for (*exists = false; (e = lookup(n, &k, &distance, &word)); distance++) {
		uint64_t known = word_of(word, KNOWN, mac);
		*exists = true;
		if (state_of(word) == STATIC)
			continue;
		if (state_of(word) == KNOWN && word != known) {
			if (override)
				claims(n, e, word, mac, now);
			continue;
		}
		bool wanted = state_of(word) == INCOMPLETE;
		if (word != known && !atomic_compare_exchange_strong(&e->word, &word, known))
			continue; /* another worker has updated or evicted it */
		if (wanted)	  /* the requester is about to use it: protect it from eviction */
			atomic_store_explicit(&e->used, now | 1, memory_order_relaxed);
		atomic_store_explicit(&e->confirmed, now, memory_order_relaxed);
		atomic_store_explicit(&e->asked, 0, memory_order_relaxed);
		if (atomic_load_explicit(&e->watched, memory_order_relaxed)) { /* it answers: whoever else claims it */
			atomic_store_explicit(&e->claim, 0, memory_order_relaxed);
			atomic_fetch_and_explicit(&e->probed, ~ASKED_TRIES, memory_order_relaxed);
		}
	}
}

void sp_neighbour_learn(struct sp_neighbours *n, uint16_t port, const uint8_t ip[16], const uint8_t mac[6], sp_time now,
			bool create)
{
	bool exists;
	if (!is_host_mac(mac) || !sp_route_is_host(n->routes, ip))
		return;
	update(n, port, ip, mac, now, true, &exists);
	if (!exists && create && sp_route_source(n->routes, port, ip))
		insert(n, port, ip, KNOWN, mac, now, VICTIM_IDLE);
}

void sp_neighbour_confirm(struct sp_neighbours *n, uint16_t port, const uint8_t ip[16], const uint8_t mac[6],
			  sp_time now)
{
	bool exists;
	if (is_host_mac(mac) && sp_route_is_host(n->routes, ip))
		update(n, port, ip, mac, now, false, &exists);
}

/* ---- requests ---- */

static void put16(uint8_t *to, unsigned value)
{
	to[0] = (uint8_t)(value >> 8);
	to[1] = (uint8_t)value;
}

/* RFC 826, broadcast unless it is for one host. Padded to 60 bytes, since some virtual ports do not pad. */
static uint32_t arp_request(uint8_t f[60], const uint8_t mac[6], const uint8_t source[16], const uint8_t target[16],
			    const uint8_t *to)
{
	static const uint8_t head[] = {0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1}; /* ethertype to operation */
	memset(f, 0, 60);
	memset(f, 0xFF, 6);
	if (to)
		memcpy(f, to, 6);
	memcpy(f + 6, mac, 6);
	memcpy(f + 12, head, sizeof(head));
	memcpy(f + 22, mac, 6);
	memcpy(f + 28, source + 12, 4);
	memcpy(f + 38, target + 12, 4);
	return 60;
}

/* RFC 4861, 4.3, to the solicited-node multicast address (RFC 4291, 2.7.1), unless it is for one host. */
static uint32_t neighbour_solicitation(uint8_t f[86], const uint8_t mac[6], const uint8_t source[16],
				       const uint8_t target[16], const uint8_t *to)
{
	static const uint8_t node[13] = {0xFF, 0x02, [11] = 1, [12] = 0xFF};
	uint8_t *ip = f + 14, *icmp = ip + 40;
	uint16_t checksum;
	uint32_t sum;
	memset(f, 0, 86);
	f[0] = f[1] = 0x33;
	f[2] = 0xFF;
	memcpy(f + 3, target + 13, 3);
	memcpy(f + 6, mac, 6);
	put16(f + 12, 0x86DD);
	ip[0] = 0x60;
	put16(ip + 4, 32);
	ip[6] = 58;
	ip[7] = 255;
	memcpy(ip + 8, source, 16);
	memcpy(ip + 24, node, 13);
	memcpy(ip + 37, target + 13, 3);
	if (to) {
		memcpy(f, to, 6);
		memcpy(ip + 24, target, 16);
	}
	icmp[0] = 135;
	memcpy(icmp + 8, target, 16);
	icmp[24] = 1; /* source link-layer address */
	icmp[25] = 1;
	memcpy(icmp + 26, mac, 6);
	/* Includes the pseudo header: the addresses precede the message; add length and protocol. */
	sum = __rte_raw_cksum((const uint8_t[]){0, 32, 0, 58}, 4, 0);
	checksum = (uint16_t)~__rte_raw_cksum_reduce(__rte_raw_cksum(ip + 8, 32 + 32, sum));
	memcpy(icmp + 2, &checksum, 2);
	return 86;
}

/* to: the host that is asked; NULL: all of the link. */
static void send_request(struct sp_worker *w, uint16_t port, const uint8_t ip[16], const uint8_t *to)
{
	const uint8_t *source = sp_route_source(w->nic->neighbours->routes, port, ip), *mac = w->nic->port[port].mac;
	uint8_t room[86 + 4], *frame = room + 4;
	uint32_t len;
	if (!source)
		return;
	len = sp_ip_is_ipv4(ip) ? arp_request(frame, mac, source, ip, to)
				: neighbour_solicitation(frame, mac, source, ip, to);
	if (w->nic->vlan) {
		memmove(room, frame, 12);
		frame = room;
		len += 4;
		put16(frame + 12, 0x8100);
		put16(frame + 14, w->nic->vlan);
	}
	sp_transmit_frame(w, port, frame, len);
}

/* Sends a request if the last one is old enough; only one of several workers sends it. */
static void ask(struct sp_worker *w, struct entry *e, enum state state, uint16_t port, const uint8_t ip[16],
		sp_time now)
{
	struct sp_neighbours *n = w->nic->neighbours;
	sp_time asked = atomic_load_explicit(&e->asked, memory_order_relaxed), gap = SP_NEIGHBOUR_RETRY;
	uint64_t tries = asked & ASKED_TRIES;
	if (tries == SP_NEIGHBOUR_TRIES) /* a stale entry is still usable: retry, but rarely */
		gap = state == INCOMPLETE ? SP_NEIGHBOUR_RETRY + SP_NEIGHBOUR_FAILED : SP_NEIGHBOUR_REACHABLE;
	if (tries && now < (asked & ~ASKED_TRIES) + gap)
		return;
	if (tries < SP_NEIGHBOUR_TRIES)
		tries++;
	else if (state == INCOMPLETE)
		tries = 1;
	if (!sp_route_source(n->routes, port, ip) ||
	    !atomic_compare_exchange_strong_explicit(&e->asked, &asked, (now & ~ASKED_TRIES) | tries,
						     memory_order_relaxed, memory_order_relaxed))
		return;
	wake(n, now + SP_NEIGHBOUR_RETRY);
	send_request(w, port, ip, NULL);
}

static bool is_stale(struct entry *e, sp_time now)
{
	return now >= atomic_load_explicit(&e->confirmed, memory_order_relaxed) + SP_NEIGHBOUR_REACHABLE;
}

void sp_neighbour_request(struct sp_worker *w, uint16_t port, const uint8_t next_hop[16])
{
	struct sp_neighbours *n = w->nic->neighbours;
	if (!sp_route_is_host(n->routes, next_hop) || !sp_route_source(n->routes, port, next_hop))
		return;
	struct key k = key_of(n, port, next_hop);
	uint64_t word;
	unsigned distance = 0;
	struct entry *e = lookup(n, &k, &distance, &word);
	if (!e) {
		if (insert(n, port, next_hop, INCOMPLETE, NULL, w->now, VICTIM_ACTIVE))
			return;
		distance = 0;
		e = lookup(n, &k, &distance, &word);
	}
	if (e && (state_of(word) == INCOMPLETE || (state_of(word) == KNOWN && is_stale(e, w->now))))
		ask(w, e, state_of(word), port, next_hop, w->now);
}

/* ---- time ---- */

/* A known entry that another host claims. The MAC is asked, three times; the claim is believed when it stays silent.
 * For some time after that it goes on being asked while it is in use: if it is silent then, the whole link is asked,
 * since a host that has lied to us may have gone. Returns when to call this again. */
static sp_time verify(struct sp_worker *w, struct entry *e, uint64_t word, uint16_t port, const uint8_t ip[16],
		      sp_time now)
{
	uint64_t claim, next;
	const bool claimed = is_claimed(e, word, &claim);
	sp_time watched = atomic_load_explicit(&e->watched, memory_order_relaxed);
	sp_time used = atomic_load_explicit(&e->used, memory_order_relaxed);
	sp_time probed = atomic_load_explicit(&e->probed, memory_order_relaxed), at = probed & ~ASKED_TRIES;
	if (!claimed && (now >= watched || now >= used + SP_NEIGHBOUR_ACTIVE))
		return SP_NEVER;
	if (probed && now < at + SP_NEIGHBOUR_PROBE)
		return at + SP_NEIGHBOUR_PROBE;
	if ((probed & ASKED_TRIES) < SP_NEIGHBOUR_TRIES) {
		/* An answer in between counts more. */
		if (atomic_compare_exchange_strong_explicit(&e->probed, &probed,
							    (now & ~ASKED_TRIES) | ((probed & ASKED_TRIES) + 1),
							    memory_order_relaxed, memory_order_relaxed))
			send_request(w, port, ip, (const uint8_t *)&word);
		return now + SP_NEIGHBOUR_PROBE;
	}
	next = claimed ? word_of(word, KNOWN, (const uint8_t *)&claim) : word_of(word, INCOMPLETE, NULL);
	if (!atomic_compare_exchange_strong(&e->word, &word, next))
		return now + SP_NEIGHBOUR_PROBE;
	atomic_store_explicit(&e->claim, 0, memory_order_relaxed);
	atomic_store_explicit(&e->probed, 0, memory_order_relaxed);
	atomic_store_explicit(&e->asked, 0, memory_order_relaxed);
	if (claimed)
		atomic_store_explicit(&e->confirmed, now, memory_order_relaxed);
	else
		ask(w, e, INCOMPLETE, port, ip, now);
	return now + SP_NEIGHBOUR_PROBE;
}

static sp_time tick(struct sp_worker *w, struct entry *e, sp_time now)
{
	uint64_t word = atomic_load_explicit(&e->word, memory_order_acquire), after;
	uint64_t key[3];
	for (unsigned i = 0; i < 3; i++)
		key[i] = atomic_load_explicit(&e->key[i], memory_order_acquire);
	uint16_t port = (uint16_t)key[2];
	sp_time confirmed = atomic_load_explicit(&e->confirmed, memory_order_relaxed);
	sp_time used = atomic_load_explicit(&e->used, memory_order_relaxed);
	sp_time asked = atomic_load_explicit(&e->asked, memory_order_relaxed);
	uint8_t ip[16];
	after = atomic_load_explicit(&e->word, memory_order_acquire);
	if (state_of(word) == FREE || state_of(word) == STATIC)
		return SP_NEVER;
	if (state_of(word) == CLAIMING || ((word ^ after) & GENERATION_MASK))
		return now + SP_NEIGHBOUR_RETRY;
	memcpy(ip, key, 16);
	if (state_of(word) == INCOMPLETE) {
		if ((asked & ASKED_TRIES) < SP_NEIGHBOUR_TRIES) {
			ask(w, e, INCOMPLETE, port, ip, now);
			asked = atomic_load_explicit(&e->asked, memory_order_relaxed) & ~ASKED_TRIES;
			return RTE_MAX(now, asked + SP_NEIGHBOUR_RETRY);
		}
		sp_time until = (asked & ~ASKED_TRIES) + SP_NEIGHBOUR_RETRY + SP_NEIGHBOUR_FAILED;
		if (now < until)
			return until;
	} else {
		sp_time check = verify(w, e, word, port, ip, now);
		sp_time stale = confirmed + SP_NEIGHBOUR_REACHABLE,
			until = RTE_MAX(used, confirmed) + SP_NEIGHBOUR_UNUSED;
		if (now < stale)
			return RTE_MIN(stale, check);
		if (now < until) {
			if (used >= stale && used > asked)
				ask(w, e, KNOWN, port, ip, now);
			/* poll, since use is not signalled */
			until = RTE_MIN(now + SP_NEIGHBOUR_RETRY, until);
			return RTE_MIN(until, check);
		}
	}
	atomic_compare_exchange_strong(&e->word, &word, word_of(word, FREE, NULL));
	return SP_NEVER;
}

sp_time sp_neighbours_tick(struct sp_worker *w, sp_time now)
{
	struct sp_neighbours *n = w->nic->neighbours;
	sp_time next = SP_NEVER;
	/* Store first, so that a later wake() by another worker is not overwritten. */
	atomic_store_explicit(&n->deadline, SP_NEVER, memory_order_relaxed);
	for (unsigned i = 0; i < SP_NEIGHBOURS; i++)
		next = RTE_MIN(next, tick(w, &n->entry[i], now));
	wake(n, next);
	return sp_neighbours_deadline(n);
}

sp_time sp_neighbours_deadline(const struct sp_neighbours *n)
{
	return atomic_load_explicit(&n->deadline, memory_order_relaxed);
}
