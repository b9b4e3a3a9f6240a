/* SPDX-License-Identifier: BSD-3-Clause */
#include "remote_app.h"

static const struct sp_param params[] = {{"qps", SP_UINT, "0", .help = "QPs to claim"},
					 {"control", SP_BOOL, "no", .help = "a control QP"},
					 {"messages", SP_UINT, "4", .help = "messages at once"},
					 {"area", SP_UINT, "0", .help = "bytes shared with the host"},
					 {"alloc", SP_UINT, "0", .help = "bytes of state"},
					 {"fail", SP_BOOL, "no", .help = "refuse after all"},
					 {NULL}};

static int configure(struct sp_ctx *c, uint64_t *area)
{
	*area = sp_param_uint(c, "area");
	return 0;
}

static int attach(struct sp_ctx *c)
{
	struct remote_state *s = c->state;
	uint64_t alloc = sp_param_uint(c, "alloc");
	uint32_t control;
	int r;

	if (sp_param_uint(c, "qps") && (r = sp_qp_claim(c, (uint32_t)sp_param_uint(c, "qps"))))
		return r;
	if (sp_param_uint(c, "control") && (r = sp_qp_control(c, &control)))
		return r;
	r = sp_messages_limit(c, (uint32_t)sp_param_uint(c, "messages"), 0);
	if (r)
		return r;
	s->area = sp_host_area(c);
	if (alloc && !sp_alloc(c, alloc))
		return sp_fail(c, ENOMEM, "alloc", "no memory");
	return sp_param_uint(c, "fail") ? sp_fail(c, EDOM, "fail", "as told") : 0;
}

static uint64_t classify(struct sp_ctx *c, struct sp_packet *p)
{
	return SP_NO_MESSAGE;
}

static int command(struct sp_ctx *c, const struct sp_command *cmd, struct sp_event *event)
{
	struct remote_state *s = c->state;
	const volatile struct sp_command *again = cmd;
	const uint64_t first = again->arg[0];
	uint64_t old;

	s->commands++;
	s->last = first;
	for (unsigned i = 0; i < 200; i++)
		s->unsteady += again->arg[0] != first || again->context != event->context;
	switch (cmd->op) {
	case CMD_NOTE:
		return 0;
	case CMD_EVENTS:
		for (uint64_t i = 0; i < first && i < 1000; i++)
			sp_event_post(c, &(struct sp_event){.type = SP_EVENT_OWN, .cookie = i});
		return 0;
	case CMD_STORE:
		return sp_dma_store64(c, s->area, 8, first);
	case CMD_OR:
		return sp_dma_or64(c, s->area, 8, first);
	case CMD_PROGRESS:
		return sp_dma_progress64(c, s->area, 8, first);
	case CMD_ADD:
		return sp_dma_add64(c, s->area, 8, first, &old);
	case CMD_WRITE:
	case CMD_PEEK: {
		const struct sp_mem *m = sp_mem_get(c, (uint32_t)first);
		int r;

		if (!m)
			return -ENOENT;
		if (cmd->op == CMD_WRITE)
			r = sp_dma_write(c, m, cmd->arg[1], &cmd->arg[2], 8);
		else
			r = sp_dma_read(c, m, cmd->arg[1], &event->arg[0], 8);
		sp_mem_put(c, m);
		return r;
	}
	}
	return -EOPNOTSUPP;
}

static const struct sp_handler greedy = {SP_HANDLER_HEAD,
					 .name = "greedy",
					 .params = params,
					 .ctx_size = sizeof(struct remote_state),
					 .messages = SP_MESSAGES_HASHED,
					 .configure = configure,
					 .attach = attach,
					 .classify = classify,
					 .command = command};
SP_HANDLER(greedy)

struct sp_device *remote_attach(uint64_t memory, uint32_t contexts, uint32_t qps, uint32_t messages)
{
	const struct sp_limits limits = {memory, contexts, qps, messages};
	struct sp_device *d = NULL;

	CU_ASSERT_EQUAL_FATAL(sp_device_create(dut.nic, true, &limits, &d), 0);
	return d;
}

struct sp_error remote_error;

int remote_try_open(struct sp_device *d, const char *settings, uint32_t *id)
{
	char text[256], *at = text, *one;
	struct sp_setting setting[8];
	size_t n = 0;

	snprintf(text, sizeof(text), "%s", settings);
	while ((one = strsep(&at, ";")) && *one) {
		setting[n].key = strsep(&one, "=");
		setting[n++].value = one;
	}
	return sp_context_open(&d->pub, "c", "greedy", setting, n, id, &remote_error);
}

uint32_t remote_opened(struct sp_device *d, const char *settings)
{
	uint32_t id = 0;
	int r = remote_try_open(d, settings, &id);

	if (r)
		printf("# %s: %d %s\n", settings, r, remote_error.text);
	CU_ASSERT_EQUAL_FATAL(r, 0);
	return id;
}

struct remote_state *remote_state_of(uint32_t id)
{
	return sp_context_by_id(dut.nic, id)->state;
}

int remote_call(struct sp_device *d, uint32_t id, uint16_t op, uint64_t arg)
{
	struct sp_command cmd = {.op = op, .context = id, .arg = {arg}};

	return sp_command_call(&d->pub, &cmd, NULL);
}
