/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kv-cache: a key-value store that the NIC answers from, by memcached's text protocol over UDP.
 *
 * A request is one datagram: request id, sequence number 0, number of datagrams 1, reserved (16 bits each, big endian),
 * then `get KEY...`, `set KEY FLAGS EXPTIME LENGTH [noreply]` and its data, `delete KEY [noreply]` or `flush_all`, each
 * line ended by CR LF (memcached's doc/protocol.txt). The answer is one datagram too: values have at most 1024 bytes.
 *
 * behind = no: the NIC is the server and answers everything. behind = yes: it is a cache before one, which gets all but
 * the gets that are answered here (verdict forward). What a request may change there is stored or forgotten here on its
 * way: the server must get all its changes by this NIC and over UDP, and a datagram that is not exactly one request is
 * refused here. After NetCache (Jin et al., SOSP'17); for sPIN, Hoefler et al., SC'17.
 *
 * The table has buckets of four entries; a full one loses what was unused for longest. One worker at a time writes in a
 * bucket; a reader copies, and then looks whether somebody has written meanwhile. Nobody waits: a request that others
 * are in the way of three times is the drop `busy`, and its client asks again, as it must after any loss. EXPTIME is a
 * number of seconds of the NIC's time; there are no dates here.
 */
#include <stdatomic.h>
#include <stdio.h>

#include <spindle-handler.h>

enum { NOT_UDP, SHORT_FRAME, SPLIT, NOT_UNICAST, LOOP, BUSY, NOT_SENT };
static const char *const drops[] = {"not-udp", "short-frame", "split-request", "not-unicast",
				    "loop",    "busy",	      "not-sent",      NULL};
enum { HITS, MISSES, SETS, DELETES, EVICTED, MALFORMED };
static const char *const counters[] = {"hits", "misses", "sets", "deletes", "evicted", "malformed", NULL};

enum { FRAME = 8, UDP = 8, MAX_KEY = 250, MAX_VALUE = 1024, WAYS = 4, TRIES = 3 };
enum {
	MAX_TEXT = 1432 /* with IPv6, 1500 in all */,
	VALUE_LINE = MAX_KEY + 40 /* all of a value but its bytes, and END */
};
enum { MONTH = 60 * 60 * 24 * 30 /* seconds: a longer EXPTIME is a date */ };

/* ---- state ------------------------------------------------------------------------------------------------------ */
struct entry {
	uint64_t hash;	  /* of the key; 0: free */
	uint64_t flushes; /* of the table when this was stored: void when there was one since */
	sp_time expires;
	uint32_t flags;
	uint16_t key_len, value_len;			  /* in one word: always a pair that was stored together */
	uint8_t bytes[(MAX_KEY + MAX_VALUE + 7) / 8 * 8]; /* key, value */
};
enum { HEAD = offsetof(struct entry, bytes) };
static_assert(HEAD % 8 == 0 && sizeof(struct entry) % 8 == 0, "copied by words");

/* Words are written with release and read with acquire: who reads one that was written meanwhile sees the serial moved.
 */
struct bucket {
	_Atomic uint64_t serial; /* odd: somebody writes, the one who made it so */
	_Atomic sp_time used[WAYS];
	_Atomic uint64_t word[WAYS][sizeof(struct entry) / 8];
};

struct kv_cache {
	struct bucket *bucket;
	uint64_t mask, seed[2];
	bool behind;
	_Atomic uint64_t flushes;
};

struct text { /* bytes of a request, or what is left of them */
	const uint8_t *at, *end;
};

struct request {
	struct text key, value;
	uint64_t hash;
	sp_time expires;
	uint32_t flags;
	bool noreply;
};

static int attach(struct sp_ctx *c)
{
	struct kv_cache *s = c->state;
	const uint64_t buckets = sp_param_uint(c, "buckets");

	s->behind = sp_param_uint(c, "behind");
	s->seed[0] = sp_random(c);
	s->seed[1] = sp_random(c) | 1;
	s->mask = buckets - 1;
	if (buckets & s->mask)
		return sp_fail(c, EINVAL, "buckets", "not a power of two");
	s->bucket = sp_alloc(c, buckets * sizeof(*s->bucket));
	if (!s->bucket)
		return sp_fail(c, ENOMEM, "buckets", "no memory for %u entries", (unsigned)buckets * WAYS);
	return 0;
}

/* ---- the table -------------------------------------------------------------------------------------------------- */
static void load(const _Atomic uint64_t *word, struct entry *e, size_t from, size_t to)
{
	for (; from < to; from += 8) {
		const uint64_t w = atomic_load_explicit(&word[from / 8], memory_order_acquire);
		memcpy((uint8_t *)e + from, &w, 8);
	}
}

static void store(_Atomic uint64_t *word, const struct entry *e, size_t to)
{
	for (size_t at = 0; at < to; at += 8) {
		uint64_t w;
		memcpy(&w, (const uint8_t *)e + at, 8);
		atomic_store_explicit(&word[at / 8], w, memory_order_release);
	}
}

static bool live(const struct sp_ctx *c, const struct entry *e)
{
	const struct kv_cache *s = c->state;

	return e->hash && e->expires > c->now && e->flushes == s->flushes;
}

/* The entry of a key and its way in the bucket; WAYS: there is none. Certain only if the serial stays. */
static unsigned find(const struct sp_ctx *c, const struct bucket *b, const struct request *r, struct entry *e)
{
	const size_t key_len = (size_t)(r->key.end - r->key.at);

	for (unsigned way = 0; way < WAYS; way++) {
		load(b->word[way], e, 0, HEAD);
		if (e->hash != r->hash || e->key_len != key_len || !live(c, e))
			continue;
		load(b->word[way], e, HEAD, HEAD + key_len + e->value_len);
		if (!memcmp(e->bytes, r->key.at, key_len))
			return way;
	}
	return WAYS;
}

static struct bucket *bucket_of(const struct sp_ctx *c, const struct request *r)
{
	const struct kv_cache *s = c->state;

	return &s->bucket[r->hash >> 32 & s->mask];
}

/* 1 found, 0 not, -1 others are in the way. */
static int lookup(const struct sp_ctx *c, const struct request *r, struct entry *e)
{
	struct bucket *b = bucket_of(c, r);

	for (unsigned tries = 0; tries < TRIES; tries++) {
		const uint64_t serial = b->serial;
		const unsigned way = find(c, b, r, e);

		if (serial & 1 || b->serial != serial)
			continue;
		if (way < WAYS)
			atomic_store_explicit(&b->used[way], c->now, memory_order_relaxed);
		return way < WAYS;
	}
	return -1;
}

/* A free way of a bucket that is being written, or else the one unused for longest. */
static unsigned make_room(struct sp_ctx *c, const struct bucket *b)
{
	unsigned oldest = 0;
	struct entry e;

	for (unsigned way = 0; way < WAYS; way++) {
		load(b->word[way], &e, 0, HEAD);
		if (!live(c, &e))
			return way;
		if (b->used[way] < b->used[oldest])
			oldest = way;
	}
	c->counters[EVICTED]++;
	return oldest;
}

/* Puts a new value in; with none only takes the old one out. 1: there was one, 0: not, -1: others are in the way. */
static int replace(struct sp_ctx *c, const struct request *r)
{
	const size_t key_len = (size_t)(r->key.end - r->key.at), value_len = (size_t)(r->value.end - r->value.at);
	const struct kv_cache *s = c->state;
	struct bucket *b = bucket_of(c, r);
	uint64_t serial = b->serial;
	struct entry e;
	unsigned way, tries = 0;
	bool found;

	while (serial & 1 || !atomic_compare_exchange_strong(&b->serial, &serial, serial + 1)) {
		if (++tries == TRIES)
			return -1;
		serial = b->serial;
	}
	way = find(c, b, r, &e);
	found = way < WAYS;
	if (r->value.at) {
		way = found ? way : make_room(c, b);
		e = (struct entry){r->hash,	      s->flushes,	   r->expires, r->flags,
				   (uint16_t)key_len, (uint16_t)value_len, {0}};
		memcpy(e.bytes, r->key.at, key_len);
		memcpy(e.bytes + key_len, r->value.at, value_len);
		store(b->word[way], &e, HEAD + key_len + value_len);
		b->used[way] = c->now;
	} else if (found) {
		b->word[way][0] = 0;
	}
	b->serial = serial + 2;
	return found;
}

/* ---- requests --------------------------------------------------------------------------------------------------- */
/* Up to the next byte `until`, which is stepped over; false: there is nothing there. */
static bool take(struct text *t, uint8_t until, struct text *part)
{
	while (until == ' ' && t->at < t->end && *t->at == ' ')
		t->at++;
	part->at = t->at;
	while (t->at < t->end && *t->at != until)
		t->at++;
	part->end = t->at;
	t->at += t->at < t->end;
	return part->at < part->end;
}

static bool is(struct text t, const char *word)
{
	return (size_t)(t.end - t.at) == strlen(word) && !memcmp(t.at, word, strlen(word));
}

static bool take_number(struct text *t, uint64_t max, uint64_t *n)
{
	struct text word;

	if (!take(t, ' ', &word) || word.end - word.at > 10)
		return false;
	for (*n = 0; word.at < word.end; word.at++) {
		if (*word.at < '0' || *word.at > '9')
			return false;
		*n = *n * 10 + *word.at - '0';
	}
	return *n <= max;
}

static bool set_key(const struct kv_cache *s, struct text key, struct request *r)
{
	uint64_t word, hash = s->seed[0];

	if (key.end - key.at > MAX_KEY)
		return false;
	for (const uint8_t *b = key.at; b < key.end; b++)
		if (*b <= ' ' || *b == 127)
			return false;
	/* Multiplied by a secret and folded: without the seeds nobody can fill one bucket. */
	for (const uint8_t *b = key.at; b < key.end; b += 8) {
		word = 0; /* and no key has zero bytes: different ends stay different */
		memcpy(&word, b, key.end - b < 8 ? (size_t)(key.end - b) : 8);
		unsigned __int128 product = (unsigned __int128)(hash ^ word) * s->seed[1];
		hash = s->seed[0] + ((uint64_t)product ^ (uint64_t)(product >> 64));
	}
	r->key = key;
	r->hash = hash ? hash : 1;
	return true;
}

/* FLAGS EXPTIME LENGTH [noreply] and the data; NULL, or what is wrong. */
static const char *take_value(const struct sp_ctx *c, struct text *line, struct text data, struct request *r)
{
	uint64_t flags, seconds, len;
	bool past, good;

	good = take_number(line, UINT32_MAX, &flags);
	while (line->at < line->end && *line->at == ' ')
		line->at++;
	past = line->at < line->end && *line->at == '-'; /* gone at once */
	line->at += past;
	if (!good || !take_number(line, UINT32_MAX, &seconds) || !take_number(line, UINT32_MAX, &len))
		return "CLIENT_ERROR bad command line format\r\n";
	if (seconds > MONTH && !past)
		return "CLIENT_ERROR invalid exptime argument\r\n";
	if ((uint64_t)(data.end - data.at) != len + 2 || memcmp(data.end - 2, "\r\n", 2))
		return "CLIENT_ERROR bad data chunk\r\n";
	r->value = (struct text){data.at, data.end - 2};
	r->flags = (uint32_t)flags;
	r->expires = past ? c->now : seconds ? c->now + seconds * SP_SEC : SP_NEVER;
	return NULL;
}

/* ---- answers ---------------------------------------------------------------------------------------------------- */
static void put16(uint8_t *b, uint32_t n)
{
	b[0] = (uint8_t)(n >> 8);
	b[1] = (uint8_t)n;
}

/* text, as a datagram that answers the request p: new headers, since those of a request may have options. */
static uint32_t answer(struct sp_ctx *c, const struct sp_packet *p, const void *text, size_t len)
{
	const bool v6 = p->flags & SP_PKT_IPV6;
	const uint32_t ip_len = v6 ? 40 : 20, udp_len = UDP + FRAME + (uint32_t)len;
	const uint8_t *from = p->frame + p->l3;
	uint8_t frame[64 + FRAME + MAX_TEXT + 64] = {0}, *ip = frame + p->l3, *udp = ip + ip_len;
	uint8_t pseudo[4] = {[1] = 17};
	uint16_t sum;

	memcpy(frame, p->frame, p->l3); /* with VLAN tags */
	memcpy(frame, p->frame + 6, 6);
	memcpy(frame + 6, p->frame, 6);
	if (v6) {
		ip[0] = 0x60;
		put16(ip + 4, udp_len);
		ip[6] = 17;
		ip[7] = 64;
		memcpy(ip + 8, from + 24, 16);
		memcpy(ip + 24, from + 8, 16);
	} else {
		ip[0] = 0x45;
		put16(ip + 2, ip_len + udp_len);
		ip[6] = 0x40; /* not to be fragmented */
		ip[8] = 64;
		ip[9] = 17;
		memcpy(ip + 12, from + 16, 4);
		memcpy(ip + 16, from + 12, 4);
		sum = sp_checksum(ip, 20, 0);
		memcpy(ip + 10, &sum, 2);
	}
	memcpy(udp, p->frame + p->l4 + 2, 2);
	memcpy(udp + 2, p->frame + p->l4, 2);
	put16(udp + 4, udp_len);
	memcpy(udp + UDP, p->data, FRAME); /* request id, 0, 1, reserved: those of an answer too */
	put16(udp + UDP + 6, 0);
	memcpy(udp + UDP + FRAME, text, len);
	/* The addresses stand before the datagram; the rest of the pseudo-header is carried in. 0 would say: none. */
	put16(pseudo + 2, udp_len);
	sum = sp_checksum(udp - (v6 ? 32 : 8), (v6 ? 32 : 8) + udp_len, (uint16_t)~sp_checksum(pseudo, 4, 0));
	sum = sum ? sum : 0xFFFF;
	memcpy(udp + 6, &sum, 2);
	return sp_send_frame(c, p->port, frame, p->l3 + ip_len + udp_len) ? SP_DROP(NOT_SENT) : SP_DONE;
}

static uint32_t say(struct sp_ctx *c, const struct sp_packet *p, const char *text)
{
	return answer(c, p, text, strlen(text));
}

static uint32_t malformed(struct sp_ctx *c, const struct sp_packet *p, const char *text)
{
	c->counters[MALFORMED]++;
	return say(c, p, text);
}

static uint32_t get(struct sp_ctx *c, const struct sp_packet *p, struct text line)
{
	const struct kv_cache *s = c->state;
	struct request r = {0};
	uint8_t text[MAX_TEXT];
	struct text word;
	uint32_t len = 0;
	struct entry e;
	int found;

	while (take(&line, ' ', &word)) {
		if (!set_key(s, word, &r))
			return malformed(c, p, "CLIENT_ERROR bad key\r\n");
		found = lookup(c, &r, &e);
		if (found < 0)
			return SP_DROP(BUSY);
		c->counters[found ? HITS : MISSES]++;
		if (s->behind && !found)
			return SP_FORWARD; /* whoever has one key has them all */
		if (found && len + VALUE_LINE + e.value_len > MAX_TEXT)
			return s->behind ? SP_FORWARD : say(c, p, "SERVER_ERROR too much for a datagram\r\n");
		if (!found)
			continue;
		len += (uint32_t)snprintf((char *)text + len, VALUE_LINE, "VALUE %.*s %u %u\r\n", e.key_len,
					  (const char *)e.bytes, e.flags, e.value_len);
		memcpy(text + len, e.bytes + e.key_len, e.value_len);
		len += e.value_len;
		memcpy(text + len, "\r\n", 2);
		len += 2;
	}
	if (!r.key.at)
		return malformed(c, p, "ERROR\r\n");
	memcpy(text + len, "END\r\n", 5);
	return answer(c, p, text, len + 5);
}

/* set, delete, and what else may change a key. */
static uint32_t change(struct sp_ctx *c, const struct sp_packet *p, struct text name, struct text line,
		       struct text data)
{
	struct kv_cache *s = c->state;
	const bool set = is(name, "set"), del = is(name, "delete"), flush = is(name, "flush_all");
	const char *text = "ERROR\r\n";
	struct request r = {0};
	struct text word;
	int found = 0;

	if (!flush && !set && !del && !s->behind)
		return malformed(c, p, text);
	if (flush && data.at < data.end)
		return malformed(c, p, "CLIENT_ERROR one request a datagram\r\n");
	if (flush) {
		s->flushes++;
		text = "OK\r\n";
	} else if (take(&line, ' ', &word) && set_key(s, word, &r)) {
		if (set || data.at < data.end) { /* also add, cas and others, which only a server knows */
			text = take_value(c, &line, data, &r);
			if (text)
				return malformed(c, p, text);
			if (!set || r.value.end - r.value.at > MAX_VALUE)
				r.value = (struct text){0}; /* of the server's: not to be kept here */
			text = r.value.at ? "STORED\r\n" : "SERVER_ERROR object too large for cache\r\n";
		}
		found = replace(c, &r);
		if (found < 0)
			return SP_DROP(BUSY);
		c->counters[DELETES] += del;
		c->counters[SETS] += r.value.at != NULL;
		text = !del ? text : found ? "DELETED\r\n" : "NOT_FOUND\r\n";
	} else if (!s->behind || data.at < data.end) {
		return malformed(c, p, text);
	}
	if (s->behind)
		return SP_FORWARD;
	while (take(&line, ' ', &word))
		if (is(word, "noreply"))
			return SP_DONE;
	return say(c, p, text);
}

/* ---- the packet ------------------------------------------------------------------------------------------------- */
/* SP_DONE, or why there can be no answer. Two servers that answer each other's errors would never stop. */
static uint32_t check(const struct sp_packet *p)
{
	const uint8_t *ip = p->frame + p->l3, *udp = p->frame + p->l4;
	const bool v6 = p->flags & SP_PKT_IPV6;

	if ((p->flags & (SP_PKT_UDP | SP_PKT_ROCE)) != SP_PKT_UDP)
		return SP_DROP(NOT_UDP);
	if (p->len < FRAME)
		return SP_DROP(SHORT_FRAME);
	if (memcmp(p->data + 2, "\0\0\0\1", 4))
		return SP_DROP(SPLIT);
	if ((p->frame[0] | p->frame[6]) & 1 || (v6 ? ip[8] == 0xFF || ip[24] == 0xFF : ip[12] >= 224 || ip[16] >= 224))
		return SP_DROP(NOT_UNICAST);
	if (!memcmp(udp, udp + 2, 2) || !(udp[0] | udp[1]))
		return SP_DROP(LOOP);
	return SP_DONE;
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *none, struct sp_packet *p)
{
	const uint32_t verdict = check(p);
	struct text data = {p->data + FRAME, p->data + p->len}, line, name;

	(void)none;
	if (verdict != SP_DONE)
		return verdict;
	take(&data, '\n', &line);
	if (line.end == p->data + p->len) /* no end of line */
		return malformed(c, p, "ERROR\r\n");
	if (line.end > line.at && line.end[-1] == '\r')
		line.end--;
	if (!take(&line, ' ', &name))
		return malformed(c, p, "ERROR\r\n");
	if (!is(name, "get"))
		return change(c, p, name, line, data);
	if (data.at < data.end) /* a second request, which nobody would look at */
		return malformed(c, p, "CLIENT_ERROR one request a datagram\r\n");
	return get(c, p, line);
}

static const struct sp_param params[] = {
	{"buckets", SP_UINT, "256", 1, 1 << 20, "of four keys each; a power of two"},
	{"behind", SP_BOOL, "no", 0, 0, "a server is behind the NIC: it gets what is not answered here"},
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
