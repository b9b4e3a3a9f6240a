/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Three handlers that answer every datagram, and say which load of their file does: `numbers` counts, `sums` takes over
 * with migrate() what the copy before has counted, `sessions` has messages that stay open until a packet ends them.
 * What the build defines makes the next version, or one that is to be refused.
 */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <spindle-handler.h>

#ifndef VERSION
#define VERSION 1
#endif
#ifndef HANDLER_ABI
#define HANDLER_ABI SP_ABI
#endif

enum { DROP_SHORT, DROP_STRANGER, DROP_NOT_SENT };
static const char *const drops[] = {"too-short", "stranger", "not-sent", NULL};
enum { COUNTER_STRANGERS };
static const char *const counters[] = {"strangers", NULL};

/* What a datagram says, and behind it what the answer says. Host byte order: both ends are on one machine. */
struct words {
	uint64_t serial, key, ends; /* ends: the message does */
	uint64_t version, load, count, begun;
};

struct session {
	uint64_t load, packets;
};

struct state {
	uint64_t count, tag;
};

static uint64_t load; /* when it was loaded: no two loads have the same, and the later one has more */

static __attribute__((constructor)) void loaded(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	load = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
#ifdef WAITS
	const char *gate = getenv("LIVE_GATE");

	while (gate && !access(gate, F_OK)) {
		t = (struct timespec){.tv_nsec = 1000000};
		nanosleep(&t, NULL);
	}
#endif
}

static __attribute__((destructor)) void unloaded(void)
{
	load = 0; /* whoever runs this code from here on says so, where nothing worse happens */
}

static int attach(struct sp_ctx *c)
{
	struct state *s = c->state;

	s->tag = sp_param_uint(c, "tag");
	return 0;
}

static int attach_sums(struct sp_ctx *c)
{
#ifdef ATTACH_FAILS
	return sp_fail(c, EINVAL, "", "it was told to fail");
#else
	return attach(c);
#endif
}

static void swap(uint8_t *a, uint8_t *b, size_t len)
{
	uint8_t t[6];

	memcpy(t, a, len);
	memcpy(a, b, len);
	memcpy(b, t, len);
}

/* IPv4: its checksum is the same with the addresses the other way round, and UDP does without. */
static uint32_t answer(struct sp_ctx *c, struct sp_packet *p, struct words *w, uint32_t verdict)
{
	uint8_t *ip = p->frame + p->l3, *udp = p->frame + p->l4;

	w->version = VERSION;
	w->load = load;
	memcpy(p->data, w, sizeof(*w));
	swap(p->frame, p->frame + 6, 6);
	swap(ip + 12, ip + 16, 4);
	swap(udp, udp + 2, 2);
	memset(udp + 6, 0, 2);
	return sp_send_frame(c, p->port, p->frame, p->frame_len) ? SP_DROP(DROP_NOT_SENT) : verdict;
}

static uint32_t count(struct sp_ctx *c, struct sp_message *none, struct sp_packet *p)
{
	struct state *s = c->state;
	struct words w;

	(void)none;
	if (p->len < sizeof(w))
		return SP_DROP(DROP_SHORT);
	memcpy(&w, p->data, sizeof(w));
	w.count = ++s->count;
	w.begun = s->tag;
	return answer(c, p, &w, SP_DONE);
}

static int migrate(struct sp_ctx *to, struct sp_ctx *from, enum sp_migrate when)
{
	struct state *t = to->state;
	const struct state *f = from->state;

#ifdef MIGRATE_FAILS
	return sp_fail(to, EINVAL, "", "it does not know what it finds there");
#endif
	if (when == SP_MIGRATE_SWAP)
		t->count = f->count;
	return 0;
}

#ifndef LACKS
static int attach_sessions(struct sp_ctx *c)
{
	return sp_messages_limit(c, 64, 0);
}

static uint64_t classify(struct sp_ctx *c, struct sp_packet *p)
{
	struct words w;

	(void)c;
	if (p->len < sizeof(w))
		return SP_REJECT(DROP_SHORT);
	memcpy(&w, p->data, sizeof(w));
	return w.key;
}

static uint32_t header(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct session *s = m->state;

	(void)c, (void)p;
	s->load = load;
	return SP_DONE;
}

static uint32_t converse(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct session *s = m->state;
	struct words w;

	if (s->load != load)
		return SP_DROP(DROP_STRANGER);
	memcpy(&w, p->data, sizeof(w));
	w.count = ++s->packets;
	w.begun = s->load;
	return answer(c, p, &w, w.ends ? SP_END : SP_DONE);
}

static void completion(struct sp_ctx *c, struct sp_message *m, enum sp_end why)
{
	const struct session *s = m->state;

	(void)why;
	c->counters[COUNTER_STRANGERS] += s->load != load;
}
#endif

static const struct sp_param params[] = {
	{"tag", SP_UINT, "0", 0, 100, "goes with the answers"},
	{NULL},
};

#define HEAD(name_, doc_)                                                                                              \
	.abi = HANDLER_ABI, .size = sizeof(struct sp_handler), .name = name_, .doc = doc_, .drops = drops,             \
	.counters = counters, .params = params, .ctx_size = sizeof(struct state), .version = VERSION

static const struct sp_handler numbers = {HEAD("numbers", "answers with a number"), .attach = attach, .payload = count};
SP_HANDLER(numbers)

static const struct sp_handler sums = {HEAD("sums", "answers with a number that goes on"), .attach = attach_sums,
				       .payload = count, .migrate = migrate};
SP_HANDLER(sums)

#ifndef LACKS
static const struct sp_handler sessions = {HEAD("sessions", "answers within messages"),
					   .messages = SP_MESSAGES_HASHED,
					   .msg_size = sizeof(struct session),
					   .attach = attach_sessions,
					   .classify = classify,
					   .header = header,
					   .payload = converse,
					   .completion = completion};
SP_HANDLER(sessions)
#endif
