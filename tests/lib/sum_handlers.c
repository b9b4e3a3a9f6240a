/* SPDX-License-Identifier: BSD-3-Clause */
#include "sum_handlers.h"

#include "../../handlers/spindle-handler.h"

enum { HEAD = 14 + 20 + 8, SLMP = 12, FRAME = HEAD + SLMP + SUM_SEGMENT, ANSWER = 1 };
enum { MALFORMED, OLD, REPEATED, UNHEARD };
static const char *const drops[] = {"malformed", "old", "repeated", "unheard", NULL};

struct sum_worker sum_worker[SUM_WORKERS];
uint64_t sum_answers_again;

static uint32_t get32(const uint8_t *b)
{
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static void put32(uint8_t *b, uint32_t v)
{
	for (int i = 3; i >= 0; i--, v >>= 8)
		b[i] = (uint8_t)v;
}

static void write_slmp(uint8_t *to, uint32_t flags, uint32_t rank, uint32_t round, uint32_t segment,
		       const uint32_t *words)
{
	put32(to, flags << 16 | rank);
	put32(to + 4, round);
	put32(to + 8, segment * SUM_SEGMENT);
	for (unsigned i = 0; i < SUM_SEGMENT / 4; i++)
		put32(to + SLMP + 4 * i, words[i]);
}

/* Whether it is one of these packets; its fields. */
static bool read_slmp(const struct sp_packet *p, bool answer, uint32_t *rank, uint32_t *round, uint32_t *segment)
{
	if (p->len != SLMP + SUM_SEGMENT || p->frame_len != FRAME)
		return false;
	*rank = get32(p->data) & 0xFFFF;
	*round = get32(p->data + 4);
	*segment = get32(p->data + 8) / SUM_SEGMENT;
	return get32(p->data) >> 16 == answer && *rank < SUM_WORKERS && *round < SUM_ROUNDS && *segment < SUM_SEGMENTS;
}

/* ---- the server ---- */
struct server {
	struct {
		uint32_t round; /* plus 1 */
		uint32_t seen;	/* a bit per worker */
		uint32_t sum[SUM_SEGMENT / 4];
	} slot[2][SUM_SEGMENTS]; /* who sends round n + 2 has all of n + 1, so all have n */
	uint8_t head[SUM_WORKERS][HEAD];
};

/* If there is no room now, the worker asks again. */
static void answer(struct sp_ctx *c, uint32_t rank, uint32_t round, uint32_t segment)
{
	struct server *s = c->state;
	uint8_t frame[FRAME];

	memcpy(frame, s->head[rank], HEAD);
	write_slmp(frame + HEAD, ANSWER, rank, round, segment, s->slot[round % 2][segment].sum);
	sp_send_frame(c, 0, frame, FRAME);
}

/* The head of what goes back: all addresses swapped, which leaves the checksum as it is. */
static void remember(struct server *s, uint32_t rank, const struct sp_packet *p)
{
	uint8_t *h = s->head[rank];

	memcpy(h, p->frame, HEAD);
	memcpy(h, p->frame + 6, 6);
	memcpy(h + 6, p->frame, 6);
	memcpy(h + 26, p->frame + 30, 4);
	memcpy(h + 30, p->frame + 26, 4);
	memcpy(h + 34, p->frame + 36, 2);
	memcpy(h + 36, p->frame + 34, 2);
}

static uint32_t server_payload(struct sp_ctx *c, struct sp_message *message, struct sp_packet *p)
{
	const uint32_t all = (1u << SUM_WORKERS) - 1;
	struct server *s = c->state;
	uint32_t rank, round, segment;

	(void)message;
	if (!read_slmp(p, false, &rank, &round, &segment))
		return SP_DROP(MALFORMED);
	typeof(s->slot[0][0]) *slot = &s->slot[round % 2][segment];

	remember(s, rank, p);
	if (slot->round > round + 1)
		return SP_DROP(OLD);
	if (slot->round < round + 1) {
		memset(slot, 0, sizeof(*slot));
		slot->round = round + 1;
	}
	if (slot->seen & 1u << rank) {
		if (slot->seen != all)
			return SP_DROP(REPEATED);
		answer(c, rank, round, segment);
		sum_answers_again++;
		return SP_DONE;
	}
	slot->seen |= 1u << rank;
	for (unsigned i = 0; i < SUM_SEGMENT / 4; i++)
		slot->sum[i] += get32(p->data + SLMP + 4 * i);
	for (uint32_t w = 0; slot->seen == all && w < SUM_WORKERS; w++)
		answer(c, w, round, segment);
	return SP_DONE;
}

static const struct sp_handler sum_server = {
	SP_HANDLER_HEAD,	   .name = "sum-server", .drops = drops, .ctx_size = sizeof(struct server),
	.payload = server_payload,
};
SP_HANDLER(sum_server)

/* ---- a worker ---- */
struct worker {
	struct sum_worker *w;
	struct sp_timer timer;
	uint32_t rank, round, begun; /* begun: segments of the round that were sent */
	uint32_t have;		     /* a bit per segment */
	sp_time sent[SUM_SEGMENTS];
};

static void send_segment(struct sp_ctx *c, uint32_t segment)
{
	struct worker *s = c->state;
	const struct sum_worker *w = s->w;
	const uint8_t ip[20] = {0x45, 0, (FRAME - 14) >> 8, (FRAME - 14) & 0xFF, [8] = 64, 17};
	uint8_t frame[FRAME] = {0}, *udp = frame + 34;
	uint16_t sum;

	memcpy(frame, w->server_mac, 6);
	memcpy(frame + 6, w->mac, 6);
	frame[12] = 8;
	memcpy(frame + 14, ip, 20);
	memcpy(frame + 26, w->ip, 4);
	memcpy(frame + 30, w->server_ip, 4);
	sum = sp_checksum(frame + 14, 20, 0);
	memcpy(frame + 24, &sum, 2);
	put32(udp, (SUM_PORT + 1) << 16 | SUM_PORT);
	put32(udp + 4, (uint32_t)(FRAME - 34) << 16);
	write_slmp(frame + HEAD, 0, s->rank, s->round, segment,
		   (const uint32_t *)w->gradient[s->round] + segment * SUM_SEGMENT / 4);
	sp_send_frame(c, 0, frame, FRAME);
	s->sent[segment] = c->now;
}

/* As many as the window lets; then the time at which the first is late. */
static void go_on(struct sp_ctx *c)
{
	struct worker *s = c->state;
	sp_time first = SP_NEVER;

	while (s->begun < SUM_SEGMENTS && (int)s->begun - __builtin_popcount(s->have) < SUM_WINDOW)
		send_segment(c, s->begun++);
	for (uint32_t i = 0; i < s->begun; i++)
		if (!(s->have >> i & 1) && s->sent[i] < first)
			first = s->sent[i];
	if (first != SP_NEVER)
		sp_timer_arm(c, &s->timer, first + SUM_TIMEOUT);
}

static void worker_timer(struct sp_ctx *c, struct sp_timer *timer)
{
	struct worker *s = c->state;

	(void)timer;
	for (uint32_t i = 0; i < s->begun; i++)
		if (!(s->have >> i & 1) && s->sent[i] + SUM_TIMEOUT <= c->now) {
			send_segment(c, i);
			s->w->again++;
		}
	if (!s->w->done)
		go_on(c);
}

static uint32_t worker_payload(struct sp_ctx *c, struct sp_message *message, struct sp_packet *p)
{
	struct worker *s = c->state;
	uint32_t rank, round, segment;

	(void)message;
	if (!read_slmp(p, true, &rank, &round, &segment) || rank != s->rank)
		return SP_DROP(MALFORMED);
	if (++s->w->heard && s->w->deaf && s->w->heard % s->w->deaf == 0)
		return SP_DROP(UNHEARD);
	if (s->w->done || round != s->round)
		return SP_DROP(OLD);
	if (s->have >> segment & 1)
		return SP_DROP(REPEATED);
	s->have |= 1u << segment;
	for (unsigned i = 0; i < SUM_SEGMENT / 4; i++)
		s->w->sum[round][segment * SUM_SEGMENT / 4 + i] = (int32_t)get32(p->data + SLMP + 4 * i);
	if (s->have == (1u << SUM_SEGMENTS) - 1) {
		s->have = s->begun = 0;
		s->w->done = ++s->round == SUM_ROUNDS;
	}
	if (!s->w->done)
		go_on(c);
	return SP_DONE;
}

static int worker_attach(struct sp_ctx *c)
{
	struct worker *s = c->state;

	s->rank = (uint32_t)sp_param_uint(c, "rank");
	s->w = &sum_worker[s->rank];
	return sp_timer_arm(c, &s->timer, c->now + SP_US);
}

static const struct sp_param worker_params[] = {
	{"rank", SP_UINT, NULL, 0, SUM_WORKERS - 1, "which worker"},
	{NULL},
};

static const struct sp_handler sum_of_worker = {
	SP_HANDLER_HEAD,
	.name = "sum-worker",
	.params = worker_params,
	.drops = drops,
	.ctx_size = sizeof(struct worker),
	.attach = worker_attach,
	.timer = worker_timer,
	.payload = worker_payload,
};
SP_HANDLER(sum_of_worker)
