/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kv-cache: a key-value cache that answers from the NIC, with memcached's text protocol over UDP. After NetCache (Jin
 * et al., SOSP'17); for sPIN, Hoefler et al., SC'17.
 *
 * A request is one datagram: request id, sequence number 0, number of datagrams 1, reserved (16 bits each, big endian),
 * then `get KEY`, `set KEY FLAGS EXPTIME LENGTH` and its data, or `delete KEY`, each line ended by CR LF (memcached's
 * doc/protocol.txt). Anything else goes the normal way: a server there may know it. Answers go to the source that the
 * request names: the context's filter should say who may ask.
 *
 * Each key has one place in the table, which it may share with others: the one stored last stays. Keys are compared by
 * hashes of 63 bits; equal ones are left to chance, which nobody outside can help. EXPTIME is a number of seconds of
 * the NIC's time; there are no dates here.
 */
#include <stdatomic.h>
#include <stdio.h>

#include <spindle-handler.h>

enum { BUSY, NOT_SENT };
static const char *const drops[] = {"busy", "not-sent", NULL};
enum { HITS, MISSES, SETS, EVICTED };
static const char *const counters[] = {"hits", "misses", "sets", "evicted", NULL};

enum { UDP = 8, FRAME = 8, MAX_KEY = 250, MAX_VALUE = 1024, MAX_LINE = MAX_KEY + 64 };
enum { MONTH = 60 * 60 * 24 * 30 /* seconds: a longer EXPTIME would be a date */ };

struct entry {
	atomic_flag locked;
	uint64_t hash;	 /* of the key. This and all below: under the lock */
	sp_time expires; /* 0: the entry is empty */
	uint32_t flags, len;
	uint8_t value[MAX_VALUE];
};

struct kv_cache {
	struct entry *entry;
	uint64_t mask;
};

struct request {
	enum { GET, SET, DELETE } what;
	char key[MAX_KEY + 2]; /* one more than allowed, so that an excess shows */
	unsigned long flags, len;
	long seconds;
	const uint8_t *value;
};

static int attach(struct sp_ctx *c)
{
	struct kv_cache *s = c->state;
	const uint64_t entries = sp_param_uint(c, "entries");

	s->mask = entries - 1;
	if (entries & s->mask)
		return sp_fail(c, EINVAL, "entries", "not a power of two");
	s->entry = sp_alloc(c, entries * sizeof(*s->entry));
	return s->entry ? 0 : sp_fail(c, ENOMEM, "entries", "no memory for %u entries", (unsigned)entries);
}

/* False: not exactly one known request. sscanf() gets a copy of the line, which ends in 0. */
static bool parse(const struct sp_packet *p, struct request *r)
{
	const uint8_t *text = p->data + FRAME, *end = p->data + p->len, *eol;
	char line[MAX_LINE], name[8] = "";
	int key_end = 0, value_end = 0, words, len;

	if (!(p->flags & SP_PKT_UDP) || p->len < FRAME || memcmp(p->data + 2, "\0\0\0\1", 4))
		return false;
	eol = memchr(text, '\n', (size_t)(end - text));
	if (!eol || eol == text || eol[-1] != '\r' || eol - text > MAX_LINE)
		return false;
	len = (int)(eol - 1 - text);
	memcpy(line, text, (size_t)len);
	line[len] = 0;
	words = sscanf(line, "%7s %251s%n %lu %ld %lu%n", name, r->key, &key_end, &r->flags, &r->seconds, &r->len,
		       &value_end);
	if (words < 2 || strlen(r->key) > MAX_KEY)
		return false;
	r->what = !strcmp(name, "get") ? GET : !strcmp(name, "set") ? SET : DELETE;
	r->value = eol + 1;
	if (r->what == SET)
		return words == 5 && value_end == len && r->flags <= UINT32_MAX && r->seconds <= MONTH &&
		       r->len <= MAX_VALUE && (size_t)(end - r->value) == r->len + 2 && !memcmp(end - 2, "\r\n", 2);
	return key_end == len && r->value == end && (r->what == GET || !strcmp(name, "delete"));
}

static void put16(uint8_t *b, uint32_t n)
{
	b[0] = (uint8_t)(n >> 8);
	b[1] = (uint8_t)n;
}

/* Makes the answer: the request's headers, reversed, and the text. */
static uint32_t answer(struct sp_ctx *c, const struct sp_packet *p, const void *text, uint32_t len)
{
	const bool v6 = p->flags & SP_PKT_IPV6;
	const uint32_t address = v6 ? 16 : 4, source = v6 ? 8 : 12, udp_len = UDP + FRAME + len;
	uint8_t frame[UINT8_MAX + UDP + FRAME + MAX_LINE + MAX_VALUE], *ip = frame + p->l3, *udp = frame + p->l4;
	uint8_t pseudo[4] = {[1] = 17};
	uint16_t sum;

	memcpy(frame, p->frame, p->l4 + UDP + FRAME); /* with VLAN tags, and the request's id */
	memcpy(frame, p->frame + 6, 6);
	memcpy(frame + 6, p->frame, 6);
	memcpy(ip + source, p->frame + p->l3 + source + address, address);
	memcpy(ip + source + address, p->frame + p->l3 + source, address);
	memcpy(udp, p->frame + p->l4 + 2, 2);
	memcpy(udp + 2, p->frame + p->l4, 2);
	put16(udp + UDP + 6, 0); /* reserved */
	memcpy(udp + UDP + FRAME, text, len);

	ip[v6 ? 7 : 8] = 64; /* hops */
	put16(ip + (v6 ? 4 : 2), v6 ? udp_len : 20 + udp_len);
	if (!v6) {
		put16(ip + 10, 0);
		sum = sp_checksum(ip, 20, 0);
		memcpy(ip + 10, &sum, 2);
	}
	/* The addresses are before the datagram; the rest of the pseudo-header is carried in. 0 would mean: none. */
	put16(udp + 4, udp_len);
	put16(udp + 6, 0);
	put16(pseudo + 2, udp_len);
	sum = sp_checksum(udp - 2 * address, 2 * address + udp_len, (uint16_t)~sp_checksum(pseudo, 4, 0));
	sum = sum ? sum : 0xFFFF;
	memcpy(udp + 6, &sum, 2);
	return sp_send_frame(c, p->port, frame, p->l4 + udp_len) ? SP_DROP(NOT_SENT) : SP_DONE;
}

/* Under the entry's lock: does what the request asks. Returns the length of the answer. */
static uint32_t serve(struct sp_ctx *c, struct entry *e, uint64_t hash, const struct request *r, char *text)
{
	const bool live = e->expires > c->now, found = live && e->hash == hash;
	int len = 0;

	switch (r->what) {
	case GET:
		c->counters[found ? HITS : MISSES]++;
		if (found) {
			len = sprintf(text, "VALUE %s %u %u\r\n", r->key, e->flags, e->len);
			memcpy(text + len, e->value, e->len);
			len += (int)e->len;
		}
		return (uint32_t)(len + sprintf(text + len, found ? "\r\nEND\r\n" : "END\r\n"));
	case SET:
		c->counters[SETS]++;
		c->counters[EVICTED] += live && !found;
		e->hash = hash;
		e->expires = r->seconds > 0 ? c->now + (sp_time)r->seconds * SP_SEC : r->seconds ? 0 : SP_NEVER;
		e->flags = (uint32_t)r->flags;
		e->len = (uint32_t)r->len;
		memcpy(e->value, r->value, r->len);
		return (uint32_t)sprintf(text, "STORED\r\n");
	case DELETE:
		if (found)
			e->expires = 0;
	}
	return (uint32_t)sprintf(text, found ? "DELETED\r\n" : "NOT_FOUND\r\n");
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *none, struct sp_packet *p)
{
	struct kv_cache *s = c->state;
	const uint8_t *ip = p->frame + p->l3;
	const bool v6 = p->flags & SP_PKT_IPV6;
	char text[MAX_LINE + MAX_VALUE];
	struct request r;
	struct entry *e;
	uint64_t hash;
	uint32_t len;

	(void)none;
	/* With options in the IP header, the answer would need others. Groups neither ask nor answer. */
	if (!parse(p, &r) || p->l4 - p->l3 != (v6 ? 40 : 20) || (p->frame[0] | p->frame[6]) & 1 ||
	    (v6 ? ip[8] == 0xFF || ip[24] == 0xFF : ip[12] >= 224 || ip[16] >= 224))
		return SP_FORWARD;
	hash = sp_hash(c, r.key, strlen(r.key));
	e = &s->entry[hash & s->mask];
	/* Another worker has the lock, for some hundred nanoseconds. The packet waits shortly at most: the client asks
	 * again. */
	for (unsigned tries = 0; atomic_flag_test_and_set(&e->locked); tries++)
		if (tries == 1000)
			return SP_DROP(BUSY);
	len = serve(c, e, hash, &r, text);
	atomic_flag_clear(&e->locked);
	return answer(c, p, text, len);
}

static const struct sp_param params[] = {
	{"entries", SP_UINT, "4096", 1, 1 << 20, "keys that there is room for; a power of two"},
	{NULL},
};

static const struct sp_handler kv_cache = {
	SP_HANDLER_HEAD,
	.name = "kv-cache",
	.doc = "answers memcached's get, set and delete over UDP",
	.params = params,
	.drops = drops,
	.counters = counters,
	.ctx_size = sizeof(struct kv_cache),
	.attach = attach,
	.payload = payload,
};
SP_HANDLER(kv_cache)
