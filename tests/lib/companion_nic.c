/* SPDX-License-Identifier: BSD-3-Clause */
#include "companion_nic.h"

unsigned comp_attached, comp_detached;

uint64_t classify(struct sp_ctx *c, struct sp_packet *p)
{
	return 1;
}

static uint64_t first_present(struct sp_ctx *c, uint64_t key, uint64_t chunk)
{
	return *(uint64_t *)c->state == key && chunk == 3;
}

static const struct sp_export exports = {.present = first_present};

static int first_attach(struct sp_ctx *c)
{
	probe_note('a', c, 0, 0);
	*(uint64_t *)c->state = 42;
	return sp_messages_limit(c, 16, 0);
}

static const struct sp_handler comp_first = {SP_HANDLER_HEAD,
					     .name = "first",
					     .drops = probe_drops,
					     .ctx_size = 8,
					     .msg_size = PROBE_STATE,
					     .messages = SP_MESSAGES_HASHED,
					     .attach = first_attach,
					     .detach = probe_detach,
					     .classify = probe_classify,
					     .header = probe_header,
					     .payload = probe_payload,
					     .completion = probe_completion,
					     .command = probe_command,
					     .exports = &exports};

SP_HANDLER(comp_first)

static const struct sp_param second_params[] = {{"second-fails", SP_BOOL, "no", .help = "attach() fails"}, {NULL}};

unsigned comp_exported, comp_bursts;

static int second_attach(struct sp_ctx *c)
{
	struct sp_ctx *one = NULL;
	const struct sp_export *e = sp_first(c, &one);

	probe_note('a', c, 0, 0);
	CU_ASSERT_PTR_NOT_NULL(e);
	CU_ASSERT_PTR_NOT_NULL(one);
	CU_ASSERT(c->state != one->state);
	comp_exported += e && one && e->present(one, 42, 3) && !e->present(one, 42, 2);
	return sp_param_uint(c, "second-fails") ? sp_fail(c, EIO, "second-fails", "as told") : 0;
}

/* Larger state than the first's, so that one that runs into the other shows. */
static uint32_t second_header(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct probe_call *call = probe_note('h', c, m->key, probe_words_of(p).serial);

	for (unsigned i = 0; i < 100; i++)
		call->dirty |= ((uint8_t *)m->state)[i] != 0;
	memset(m->state, 0x5B, 100);
	return SP_DROP(0); /* is not asked */
}

static uint32_t second_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	probe_note('p', c, m->key, probe_words_of(p).serial);
	return SP_DROP(0); /* neither */
}

static void second_completion(struct sp_ctx *c, struct sp_message *m, enum sp_end why)
{
	struct probe_call *call = probe_note('c', c, m->key, why);

	for (unsigned i = 0; i < 100; i++)
		call->dirty |= ((uint8_t *)m->state)[i] != 0x5B;
	sp_event_post(c, &(struct sp_event){.type = SP_EVENT_OWN, .cookie = m->key});
}

/* Knows one command, and is asked for what the first does not know. */
static int second_command(struct sp_ctx *c, const struct sp_command *cmd, struct sp_event *result)
{
	struct sp_ctx *one;

	CU_ASSERT_PTR_NOT_NULL(sp_first(c, &one));
	result->arg[0] = cmd->arg[0] + 1;
	return cmd->op == SP_CMD_OWN + 50 ? 0 : -ENOENT;
}

static uint32_t second_burst(struct sp_ctx *c, struct sp_message *m, struct sp_packet *const *p, unsigned n)
{
	comp_bursts++;
	for (unsigned i = 0; i < n; i++)
		p[i]->verdict = second_payload(c, m, p[i]);
	return SP_DROP(0);
}

#define SECOND(ident, text, one, burst)                                                                                \
	static const struct sp_handler ident = {SP_HANDLER_HEAD,	  .name = text,                                \
						.params = second_params,  .msg_size = 100,                             \
						.attach = second_attach,  .detach = probe_detach,                      \
						.header = second_header,  .payload = one,                              \
						.payload_burst = burst,	  .completion = second_completion,             \
						.command = second_command};                                            \
	SP_HANDLER(ident)

SECOND(second, "second", second_payload, NULL)
SECOND(second_with_burst, "second-burst", NULL, second_burst)

void comp_start(void)
{
	comp_attached = comp_detached = comp_exported = comp_bursts = 0;
	probe_log_clear();
	dut_start(&dut, 1);
}

void comp_stop(void)
{
	dut_stop(&dut);
	probe_log_clear();
}

void comp_send(struct probe_words w)
{
	probe_feed(&dut, QP, &w);
}
