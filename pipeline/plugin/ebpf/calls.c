/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls that programs make, and the handler that runs them. The thread, not the program, knows the current call's
 * objects, so a program never holds their addresses. */
#include "ebpf.h"

#include <stdatomic.h>

#ifdef __AVX512BW__
#include <immintrin.h>
#endif

#include <rte_byteorder.h>

#include "../../../handlers/spindle-bpf.h"
#include "../../context.h"
#include "../../nic.h"
#include "../../view.h"

/* A context's state. */
struct bound {
	const struct sp_ebpf_program *program;
	uint64_t param[SP_BPF_PARAMS]; /* read-only after attach() */
	_Atomic uint64_t word[];       /* [shared] relaxed */
};

struct run {
	struct sp_ctx *ctx;
	struct bound *bound;
	struct sp_packet *packet;
	bool wrong; /* a call got an argument out of bounds */
};

/* Of this thread; NULL: none runs. The library is linked, not loaded later, so a fast model will do. */
static _Thread_local struct run *running __attribute__((tls_model("initial-exec")));

/* DPDK's compiler does not keep the stack aligned to 16 bytes where it calls. */
#define CALL static __attribute__((force_align_arg_pointer)) uint64_t

static uint64_t wrong(void)
{
	running->wrong = true;
	return 0;
}

/* Bytes of the frame; NULL: out of bounds. */
static uint8_t *range(uint64_t offset, uint64_t bytes)
{
	const struct sp_packet *p = running->packet;

	return p->buf && offset <= p->frame_len && bytes <= p->frame_len - offset ? p->frame + offset : NULL;
}

/* ---- the frame ---------------------------------------------------------------------------------- */
CALL call_load(uint64_t offset, uint64_t bytes, uint64_t c, uint64_t d, uint64_t e)
{
	const uint8_t *at = range(offset, bytes);
	uint16_t v2;
	uint32_t v4;
	uint64_t v8;

	(void)c, (void)d, (void)e;
	if (!at)
		return wrong();
	switch (bytes) {
	case 1:
		return *at;
	case 2:
		memcpy(&v2, at, 2);
		return rte_be_to_cpu_16(v2);
	case 4:
		memcpy(&v4, at, 4);
		return rte_be_to_cpu_32(v4);
	case 8:
		memcpy(&v8, at, 8);
		return rte_be_to_cpu_64(v8);
	default:
		return wrong();
	}
}

CALL call_store(uint64_t offset, uint64_t bytes, uint64_t value, uint64_t d, uint64_t e)
{
	uint8_t *at = range(offset, bytes);

	(void)d, (void)e;
	if (!at || (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8))
		return wrong();
	value = rte_cpu_to_be_64(value << (64 - 8 * bytes));
	memcpy(at, &value, bytes);
	return 0;
}

CALL call_swap(uint64_t a, uint64_t b, uint64_t bytes, uint64_t d, uint64_t e)
{
	uint8_t *x = range(a, bytes), *y = range(b, bytes), t[64];

	(void)d, (void)e;
	if (!x || !y || bytes > sizeof(t) || (a < b ? b - a : a - b) < bytes)
		return wrong();
	memcpy(t, x, bytes);
	memcpy(x, y, bytes);
	memcpy(y, t, bytes);
	return 0;
}

static uint32_t fold(uint64_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xFFFF) + (sum >> 16);
	return (uint32_t)sum;
}

CALL call_checksum(uint64_t offset, uint64_t bytes, uint64_t sum, uint64_t d, uint64_t e)
{
	const uint8_t *at = range(offset, bytes);

	(void)d, (void)e;
	if (!at)
		return wrong();
	return rte_be_to_cpu_16(sp_checksum(at, bytes, rte_cpu_to_be_16((uint16_t)fold(sum))));
}

CALL call_checksum_fix(uint64_t offset, uint64_t was, uint64_t is, uint64_t d, uint64_t e)
{
	uint8_t *at = range(offset, 2);
	uint32_t sum;

	(void)d, (void)e;
	if (!at || was > UINT16_MAX || is > UINT16_MAX)
		return wrong();
	sum = fold((uint64_t)(uint16_t) ~(at[0] << 8 | at[1]) + (uint16_t)~was + is);
	at[0] = (uint8_t)(~sum >> 8);
	at[1] = (uint8_t)~sum;
	return 0;
}

CALL call_answer(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e)
{
	(void)a, (void)b, (void)c, (void)d, (void)e;
	if (!running->packet->buf)
		return wrong();
	return !sp_packet_send(running->ctx, running->packet);
}

/* ---- the context -------------------------------------------------------------------------------- */
CALL call_count(uint64_t counter, uint64_t n, uint64_t c, uint64_t d, uint64_t e)
{
	(void)c, (void)d, (void)e;
	if (counter >= running->bound->program->counters)
		return wrong();
	running->ctx->counters[counter] += n;
	return 0;
}

CALL call_param(uint64_t index, uint64_t b, uint64_t c, uint64_t d, uint64_t e)
{
	(void)b, (void)c, (void)d, (void)e;
	return index < running->bound->program->params ? running->bound->param[index] : wrong();
}

static _Atomic uint64_t *word(uint64_t index)
{
	return index < running->bound->program->words ? &running->bound->word[index] : NULL;
}

CALL call_state_get(uint64_t index, uint64_t b, uint64_t c, uint64_t d, uint64_t e)
{
	_Atomic uint64_t *w = word(index);

	(void)b, (void)c, (void)d, (void)e;
	return w ? atomic_load_explicit(w, memory_order_relaxed) : wrong();
}

CALL call_state_set(uint64_t index, uint64_t value, uint64_t c, uint64_t d, uint64_t e)
{
	_Atomic uint64_t *w = word(index);

	(void)c, (void)d, (void)e;
	if (!w)
		return wrong();
	atomic_store_explicit(w, value, memory_order_relaxed);
	return 0;
}

CALL call_state_add(uint64_t index, uint64_t n, uint64_t c, uint64_t d, uint64_t e)
{
	_Atomic uint64_t *w = word(index);
	uint64_t was;

	(void)c, (void)d, (void)e;
	if (!w)
		return wrong();
	if (running->ctx->workers > 1)
		return atomic_fetch_add_explicit(w, n, memory_order_relaxed);
	was = atomic_load_explicit(w, memory_order_relaxed);
	atomic_store_explicit(w, was + n, memory_order_relaxed);
	return was;
}

CALL call_event(uint64_t type, uint64_t a, uint64_t b, uint64_t c, uint64_t e)
{
	const struct sp_event event = {.type = (uint16_t)(SP_EVENT_OWN + type), .arg = {a, b, c}};

	(void)e;
	return type < 256 ? !sp_event_post(running->ctx, &event) : wrong();
}

CALL call_random(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e)
{
	(void)a, (void)b, (void)c, (void)d, (void)e;
	return sp_random(running->ctx);
}

#define NUMBER                                                                                                         \
	{                                                                                                              \
		.type = RTE_BPF_ARG_RAW, .size = 8                                                                     \
	}
#define ENTRY(call, count)                                                                                             \
	{                                                                                                              \
		.name = "sp_bpf_" #call, .type = RTE_BPF_XTYPE_FUNC, .func = {                                         \
			.val = call_##call,                                                                            \
			.nb_args = count,                                                                              \
			.args = {NUMBER, NUMBER, NUMBER, NUMBER, NUMBER},                                              \
			.ret = NUMBER,                                                                                 \
		}                                                                                                      \
	}
const struct rte_bpf_xsym sp_ebpf_calls[] = {
	ENTRY(load, 2),	     ENTRY(store, 3), ENTRY(swap, 3),	ENTRY(checksum, 3),  ENTRY(checksum_fix, 3),
	ENTRY(answer, 0),    ENTRY(count, 2), ENTRY(param, 1),	ENTRY(state_get, 1), ENTRY(state_set, 2),
	ENTRY(state_add, 2), ENTRY(event, 4), ENTRY(random, 0),
};
const unsigned sp_ebpf_calls_count = sizeof(sp_ebpf_calls) / sizeof(*sp_ebpf_calls);

/* ---- a handler ---------------------------------------------------------------------------------- */
static const struct sp_ebpf_program *program_of(struct sp_ctx *c)
{
	return (const void *)((const char *)sp_view_of(c)->context->registered -
			      offsetof(struct sp_ebpf_program, handler));
}

static int attach(struct sp_ctx *c)
{
	struct bound *s = c->state;

	s->program = program_of(c);
	for (unsigned i = 0; i < s->program->params; i++)
		s->param[i] = sp_param_uint(c, s->program->param[i].name);
	return 0;
}

/* IPv4 mapped, as everywhere. */
static void copy_address(uint8_t to[16], const uint8_t *from, bool v6)
{
	if (v6) {
		memcpy(to, from, 16);
		return;
	}
	memset(to, 0, 10);
	memset(to + 10, 0xFF, 2);
	memcpy(to + 12, from, 4);
}

static bool is_ip(const struct sp_packet *p, bool v6)
{
	return p->l3 && p->l3 + (v6 ? 40u : 20u) <= p->frame_len && p->frame[p->l3] >> 4 == (v6 ? 6 : 4);
}

/* Of the frame's bytes from `from` on 64, or as many as there are, and zeroes. */
static void copy_part(uint8_t *to, const struct sp_packet *p, uint32_t from)
{
	const uint32_t n = p->frame_len <= from ? 0 : p->frame_len - from;

#ifdef __AVX512BW__
	const __mmask64 there = n >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << n) - 1;

	_mm512_storeu_si512(to, _mm512_maskz_loadu_epi8(there, p->frame + from));
#else
	if (likely(n >= 64)) {
		memcpy(to, p->frame + from, 64);
	} else {
		memset(to, 0, 64);
		memcpy(to, p->frame + from, n);
	}
#endif
}

/* Bits of sp_ebpf_program.reads. */
#define PART(from, bytes) (((UINT32_C(1) << (bytes) / 8) - 1) << (from) / 8)
#define ADDRESSES	  PART(offsetof(struct sp_bpf_packet, source), 32)
#define HEAD		  PART(offsetof(struct sp_bpf_packet, head), 64)
#define HEAD_MORE	  PART(offsetof(struct sp_bpf_packet, head) + 64, 64)
static_assert(offsetof(struct sp_bpf_packet, source) % 8 == 0 && offsetof(struct sp_bpf_packet, head) % 8 == 0 &&
		      SP_BPF_HEAD == 128,
	      "parts are of whole words");

/* Copies the parts that the program can read. After a send (by the first handler) the bytes belong to another owner. */
static void copy_packet(struct sp_bpf_packet *to, const struct sp_ctx *c, const struct sp_packet *p, uint32_t reads)
{
	const bool v6 = p->flags & SP_PKT_IPV6, udp = p->buf && p->flags & SP_PKT_UDP;
	const uint8_t *ports = p->frame + p->l4, *ip = p->frame + p->l3;

	to->now = c->now;
	to->frame_len = p->frame_len;
	to->len = p->len;
	to->data = (uint32_t)(p->data - p->frame);
	to->flags = p->flags;
	to->l3 = p->l3;
	to->l4 = p->l4;
	to->hash = p->hash;
	to->dest_qp = p->dest_qp;
	to->psn = p->psn;
	to->opcode = p->opcode;
	to->port = p->port;
	to->worker = c->worker;
	to->source_port = udp ? (uint32_t)(ports[0] << 8 | ports[1]) : 0;
	to->destination_port = udp ? (uint32_t)(ports[2] << 8 | ports[3]) : 0;
	if (unlikely(!p->buf)) {
		memset(to->source, 0, sizeof(*to) - offsetof(struct sp_bpf_packet, source));
		return;
	}
	if (reads & ADDRESSES && is_ip(p, v6)) {
		copy_address(to->source, ip + (v6 ? 8 : 12), v6);
		copy_address(to->destination, ip + (v6 ? 24 : 16), v6);
	} else if (reads & ADDRESSES) {
		memset(to->source, 0, 32);
	}
	if (reads & HEAD)
		copy_part(to->head, p, 0);
	if (reads & HEAD_MORE)
		copy_part(to->head + 64, p, 64);
}

static uint32_t verdict_of(struct run *r, uint64_t returned)
{
	if (likely(!r->wrong))
		return returned <= UINT32_MAX ? (uint32_t)returned : SP_ERROR;
	if (r->packet->buf)
		return SP_DROP(r->bound->program->drops);
	sp_view_of(r->ctx)->errors++; /* sent, and then wrong: it cannot be dropped any more */
	return SP_SENT;
}

static uint32_t payload_burst(struct sp_ctx *c, struct sp_message *none, struct sp_packet *const *packet, unsigned n)
{
	struct bound *s = c->state;
	const struct sp_ebpf_program *program = s->program;
	struct run run = {.ctx = c, .bound = s};
	struct sp_bpf_packet copy;
	uint32_t all = 0;

	(void)none;
	running = &run;
	for (unsigned i = 0; i < n; i++) {
		uint64_t returned;

		copy_packet(&copy, c, packet[i], program->reads);
		run.packet = packet[i];
		run.wrong = false;
		returned = likely(program->jit.func) ? program->jit.func(&copy) : rte_bpf_exec(program->bpf, &copy);
		packet[i]->verdict = verdict_of(&run, returned);
		all |= packet[i]->verdict;
	}
	running = NULL;
	return all;
}

/* A word of state, for the host. */
static int command(struct sp_ctx *c, const struct sp_command *command, struct sp_event *result)
{
	struct bound *s = c->state;

	if (command->op != SP_CMD_QUERY)
		return -EOPNOTSUPP;
	if (command->arg[0] >= s->program->words)
		return -ERANGE;
	result->arg[0] = atomic_load_explicit(&s->word[command->arg[0]], memory_order_relaxed);
	return 0;
}

enum { SHOWN = 256 };

static void report(struct sp_ctx *c, struct sp_report *to)
{
	struct bound *s = c->state;
	unsigned shown = 0;

	sp_report_uint(to, "instructions", s->program->count);
	sp_report_bool(to, "compiled", s->program->jit.func != NULL);
	sp_report_open(to, "state", true);
	for (uint32_t i = 0; i < s->program->words && shown < SHOWN; i++) {
		const uint64_t value = atomic_load_explicit(&s->word[i], memory_order_relaxed);

		if (!value)
			continue;
		sp_report_open(to, NULL, false);
		sp_report_uint(to, "word", i);
		sp_report_uint(to, "value", value);
		sp_report_close(to);
		shown++;
	}
	sp_report_close(to);
}

/* A new program with as many words inherits them; their meaning is its author's matter. The old handler of this name
 * may be of another kind. */
static int migrate(struct sp_ctx *to, struct sp_ctx *from, enum sp_migrate when)
{
	const struct sp_handler *before = sp_view_of(from)->context->registered;
	struct bound *new = to->state;
	const struct bound *old = from->state;

	if (when == SP_MIGRATE_SWAP && before->payload_burst == payload_burst &&
	    old->program->words == new->program->words)
		memcpy((void *)new->word, (const void *)old->word, new->program->words * sizeof(*new->word));
	return 0;
}

void sp_ebpf_table(struct sp_ebpf_program *p)
{
	p->drop[p->drops] = "bad-access";
	p->handler = (struct sp_handler){
		SP_HANDLER_HEAD,
		.name = p->name,
		.doc = p->doc,
		.params = p->param,
		.drops = p->drop,
		.counters = p->counter,
		.ctx_size = sizeof(struct bound) + p->words * sizeof(uint64_t),
		.version = p->words,
		.attach = attach,
		.payload_burst = payload_burst,
		.command = command,
		.report = report,
		.migrate = migrate,
	};
}
