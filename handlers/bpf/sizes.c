/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sizes: histograms of packet lengths and of the gaps between packets, in powers of two. The same as sizes.bpf.c, in C,
 * to compare. `forward` sends the packets on the normal way, so that it can stand before anything.
 *
 * Words of state: 0 to 15, packets of up to 2^n - 1 bytes; 16 + n, gaps since the packet before of up to 2^n - 1
 * nanoseconds; 64, time of the latest packet (ps + 1; 0: none). The report shows those that are not 0, and the host
 * reads one by SP_CMD_QUERY.
 */
#include <spindle-handler.h>

enum { LENGTHS = 0, GAPS = 16, LATEST = 64, WORDS };

struct sizes {
	uint64_t forward;
	uint64_t word[WORDS]; /* of all workers; atomic where there are several */
};

static int attach(struct sp_ctx *c)
{
	struct sizes *s = c->state;

	s->forward = sp_param_uint(c, "forward");
	return 0;
}

static unsigned bits(uint64_t v)
{
	return v ? 64 - (unsigned)__builtin_clzll(v) : 0;
}

static void add(const struct sp_ctx *c, uint64_t *word)
{
	if (c->workers == 1)
		++*word;
	else
		__atomic_fetch_add(word, 1, __ATOMIC_RELAXED);
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *none, struct sp_packet *p)
{
	struct sizes *s = c->state;
	const uint64_t before = __atomic_load_n(&s->word[LATEST], __ATOMIC_RELAXED);
	unsigned at = bits(p->frame_len);

	(void)none;
	add(c, &s->word[LENGTHS + (at < 15 ? at : 15)]);
	if (before && c->now + 1 >= before) {
		at = bits((c->now + 1 - before) / 1000);
		add(c, &s->word[GAPS + (at < 47 ? at : 47)]);
	}
	__atomic_store_n(&s->word[LATEST], c->now + 1, __ATOMIC_RELAXED);
	return s->forward ? SP_FORWARD : SP_DONE;
}

static int command(struct sp_ctx *c, const struct sp_command *command, struct sp_event *result)
{
	const struct sizes *s = c->state;

	if (command->op != SP_CMD_QUERY)
		return -EOPNOTSUPP;
	if (command->arg[0] >= WORDS)
		return -ERANGE;
	result->arg[0] = __atomic_load_n(&s->word[command->arg[0]], __ATOMIC_RELAXED);
	return 0;
}

static void report(struct sp_ctx *c, struct sp_report *to)
{
	const struct sizes *s = c->state;

	sp_report_open(to, "state", true);
	for (unsigned i = 0; i < WORDS; i++) {
		const uint64_t value = __atomic_load_n(&s->word[i], __ATOMIC_RELAXED);

		if (!value)
			continue;
		sp_report_open(to, NULL, false);
		sp_report_uint(to, "word", i);
		sp_report_uint(to, "value", value);
		sp_report_close(to);
	}
	sp_report_close(to);
}

static const struct sp_param params[] = {
	{"forward", SP_UINT, "0", 0, 1, "1: packets go on the normal way"},
	{NULL},
};

static const struct sp_handler sizes = {
	SP_HANDLER_HEAD,
	.name = "sizes",
	.doc = "histograms of packets' lengths and of the gaps between them",
	.params = params,
	.ctx_size = sizeof(struct sizes),
	.attach = attach,
	.payload = payload,
	.command = command,
	.report = report,
};
SP_HANDLER(sizes)
