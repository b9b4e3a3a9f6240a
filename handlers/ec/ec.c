/* SPDX-License-Identifier: BSD-3-Clause */
/* Erasure coding in the NIC, a companion of sdr: makes and sends the parity of messages, and repairs lost chunks in
 * place (arXiv 2505.05366, section 4). wire/ec.h has the layout and what the host program says. This file has
 * parameters, packets and report. find.c finds what can be repaired, decode.c repairs it, encode.c makes parity; job,
 * plan, code, matrix and kernel do the arithmetic. */
#include "decode.h"
#include "encode.h"
#include "find.h"

static_assert((int)SP_EC_CODE_MDS == (int)SP_EC_MDS && (int)SP_EC_CODE_XOR == (int)SP_EC_XOR, "the same codes");

static const char *const ec_counters[] = {
	[SP_EC_REPAIRED_CHUNKS] = "repaired_chunks", [SP_EC_DECODED] = "submessages_decoded",
	[SP_EC_FAILED] = "submessages_failed",	     [SP_EC_DECODED_BYTES] = "decoded_bytes",
	[SP_EC_DECODE_SLICES] = "decode_slices",     [SP_EC_MISMATCHES] = "mismatches",
	[SP_EC_ENCODED] = "submessages_encoded",     [SP_EC_ENCODED_BYTES] = "encoded_bytes",
	[SP_EC_ENCODE_SLICES] = "encode_slices",     [EC_PARITY_PACKETS] = "parity_packets",
	[EC_LATE_PACKETS] = "late_data_packets",     NULL,
};

static const char *const ec_kinds[] = {"mds", "xor", NULL};

static const struct sp_param ec_params[] = {
	{"code", SP_STRING, "mds", 0, 0, "mds: any m losses of k + m chunks are repaired; xor: one in each of m groups",
	 ec_kinds},
	{"k", SP_UINT, "32", 1, SP_EC_CHUNKS_MAX - 1, "chunks of data in a submessage; k + m is at most 255"},
	{"m", SP_UINT, "8", 1, SP_EC_CHUNKS_MAX - 1, "chunks of parity for as many of data; xor: at most k"},
	{NULL},
};

enum ec_work { EC_DECODE, EC_ENCODE };

/* ---- attach ---- */
static int ec_codes_init(struct sp_ctx *c, struct ec *s, enum sp_ec_kind kind, uint8_t k, uint8_t m)
{
	struct sp_ec_shape shape[SP_EC_CODES_MAX];

	s->codes = sp_ec_codes((enum sp_ec_code_kind)kind, k, m, s->limits.user_bits, shape);
	for (unsigned i = 0; i < s->codes; i++) {
		void *tables = sp_alloc(c, sp_ec_code_bytes(kind, shape[i].k, shape[i].m));

		if (!tables)
			return sp_fail(c, ENOMEM, "k", "no memory for the code");
		if (sp_ec_code_init(&s->code[i], kind, shape[i].k, shape[i].m, tables))
			return -EINVAL;
		s->least = i && s->least < shape[i].k ? s->least : shape[i].k;
	}
	return 0;
}

static int ec_configure(struct sp_ctx *c, struct ec *s)
{
	const char *name = sp_param_string(c, "code");
	const enum sp_ec_kind kind = sp_param_uint(c, "code") ? SP_EC_XOR : SP_EC_MDS;
	const unsigned k = (unsigned)sp_param_uint(c, "k"), m = (unsigned)sp_param_uint(c, "m");
	const size_t bytes = sp_ec_code_bytes(kind, k, m);
	struct sp_ctx *first = NULL;

	s->first = sp_first(c, &first);
	if (!s->first || !s->first->reserve || !s->first->send)
		return sp_fail(c, EINVAL, "companion", "ec goes with a handler that has chunks, such as sdr");
	if (!bytes)
		return sp_fail(c, EINVAL, "m", "there is no code %s of k = %u and m = %u: k + m is at most %u%s", name,
			       k, m, SP_EC_CHUNKS_MAX, kind == SP_EC_XOR ? ", m at most k" : "");
	s->first->limits(first, &s->limits);
	if (s->limits.messages % 2)
		return sp_fail(c, EINVAL, "max-messages", "%u: messages come in pairs, so ec needs an even number",
			       s->limits.messages);
	if (s->limits.rolls)
		return sp_fail(c, EINVAL, "generations", "ec needs 2 or more where credit is implicit");
	s->decoder = sp_alloc(c, c->workers * sizeof(*s->decoder));
	s->totals = sp_alloc(c, c->workers * sizeof(*s->totals));
	if (!s->decoder || !s->totals)
		return sp_fail(c, ENOMEM, "k", "no memory for the code");
	for (unsigned w = 0; w < c->workers; w++) {
		void *own = sp_alloc(c, bytes);

		if (!own)
			return sp_fail(c, ENOMEM, "k", "no memory for the code");
		sp_ec_job_init(&s->decoder[w].job, own);
	}
	return ec_codes_init(c, s, kind, (uint8_t)k, (uint8_t)m);
}

static int ec_attach(struct sp_ctx *c)
{
	struct ec *s = c->state;
	const int rc = ec_configure(c, s);
	uint64_t *words;
	void *tables;

	if (rc)
		return rc;

	const uint32_t pairs = s->limits.messages / 2;
	const uint64_t chunks = sp_ec_units(s->limits.bytes, s->limits.chunk_bytes);

	s->wanted_words = sp_ec_units(sp_ec_units(chunks, s->least), 64);
	words = sp_alloc(c, pairs * 2 * s->wanted_words * 8);
	s->pair = sp_alloc(c, pairs * sizeof(*s->pair));
	s->order = sp_alloc(c, pairs * sizeof(*s->order));
	tables = sp_alloc(c, sp_ec_code_bytes(s->code->kind, s->code->k, s->code->m));
	if (!words || !s->pair || !s->order || !tables)
		return sp_fail(c, ENOMEM, "max-messages", "no memory for the erasure codes of %u messages", pairs);
	for (uint32_t i = 0; i < pairs; i++) {
		s->pair[i].wanted = words + i * 2 * s->wanted_words;
		s->pair[i].taken = s->pair[i].wanted + s->wanted_words;
	}
	for (unsigned w = 0; w < c->workers; w++) {
		s->decoder[w].work.cookie = EC_DECODE;
		s->decoder[w].queue = sp_alloc(c, pairs * sizeof(uint32_t));
		if (!s->decoder[w].queue)
			return sp_fail(c, ENOMEM, "max-messages", "no memory for %u messages", pairs);
	}
	s->encode.cookie = EC_ENCODE;
	sp_ec_job_init(&s->job, tables);
	return 0;
}

static void ec_detach(struct sp_ctx *c)
{
	ec_decode_detach(c);
	ec_encode_detach(c);
}

/* ---- packets ---- */
/* All packets of the run have been placed before, so one look at each full chunk is enough. */
static uint32_t ec_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *const *packet, unsigned n)
{
	const struct ec *s = c->state;
	const uint32_t slot = (uint32_t)m->key;
	const struct ec_pair *pair = &s->pair[slot / 2];
	const bool used = !(slot & 1) && __atomic_load_n(&pair->used, __ATOMIC_RELAXED);
	uint64_t news[EC_NEWS], before = UINT64_MAX;
	unsigned count = 0;
	struct sp_ctx *first;

	sp_first(c, &first);
	if (slot & 1)
		c->counters[EC_PARITY_PACKETS] += n;
	for (unsigned i = 0; i < n; i++) {
		const uint64_t chunk = s->first->chunk(first, packet[i]);

		if (used && s->first->reserved(first, m->key, chunk) & 1)
			c->counters[EC_LATE_PACKETS]++;
		/* A packet that fixes the length changes which chunks its submessage has. */
		if (!(packet[i]->flags & SP_PKT_SE) &&
		    (chunk == before || !(s->first->present(first, m->key, chunk) & 1))) {
			before = chunk;
			continue;
		}
		before = chunk;
		news[count++] = chunk;
		if (count == EC_NEWS) {
			ec_look(c, m->key, news, count);
			count = 0;
		}
	}
	if (count || __atomic_load_n(&pair->look, __ATOMIC_RELAXED))
		ec_look(c, m->key, news, count);
	return SP_DONE;
}

/* A pair ends with its data message; its parity message may end before or after. Submessages that are still wanted do
 * no harm: a later look finds nothing to do. */
static void ec_completion(struct sp_ctx *c, struct sp_message *m, enum sp_end end)
{
	struct ec *s = c->state;
	struct ec_pair *pair = &s->pair[(uint32_t)m->key / 2];

	if (m->key & 1)
		return;
	if (end != SP_END_DETACH)
		ec_count(c, SP_EC_FAILED, ec_lacking(c, m->key));
	__atomic_store_n(&pair->used, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&pair->look, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&pair->mismatch, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&pair->code, 0, __ATOMIC_RELAXED);
}

/* ---- commands, work, report ---- */
static int ec_command(struct sp_ctx *c, const struct sp_command *command, struct sp_event *result)
{
	const struct ec *s = c->state;

	switch (command->op) {
	case SP_EC_CMD_PARITY:
		return ec_parity(c, command);
	case SP_CMD_QUERY:
		if (command->arg[0] >= SP_EC_TOTALS)
			return -EINVAL;
		result->arg[0] = 0;
		for (unsigned w = 0; w < c->workers; w++)
			result->arg[0] += __atomic_load_n(&s->totals[w].total[command->arg[0]], __ATOMIC_RELAXED);
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

static bool ec_work(struct sp_ctx *c, struct sp_work *work)
{
	struct ec *s = c->state;

	return work->cookie == EC_ENCODE ? ec_encode(c) : ec_decode(c, &s->decoder[c->worker]);
}

static void ec_report(struct sp_ctx *c, struct sp_report *r)
{
	const struct ec *s = c->state;

	sp_report_string(r, "code", s->code->kind == SP_EC_XOR ? "xor" : "mds");
	sp_report_uint(r, "k", s->code->k);
	sp_report_uint(r, "m", s->code->m);
	sp_report_uint(r, "encoding", s->orders);
}

static const struct sp_handler ec_handler = {
	SP_HANDLER_HEAD,
	.name = "ec",
	.doc = "erasure coding for sdr: parity for messages that are sent, and repair in place of lost chunks",
	.params = ec_params,
	.counters = ec_counters,
	.ctx_size = sizeof(struct ec),
	.messages = SP_MESSAGES_NONE,
	.attach = ec_attach,
	.detach = ec_detach,
	.payload_burst = ec_payload,
	.completion = ec_completion,
	.command = ec_command,
	.work = ec_work,
	.report = ec_report,
};
SP_HANDLER(ec_handler)
