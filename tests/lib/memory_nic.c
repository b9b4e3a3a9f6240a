/* SPDX-License-Identifier: BSD-3-Clause */
#include "memory_nic.h"

static void (*todo)(struct sp_ctx *);
uint64_t memo_seen[4096];

unsigned memo_sees;

static const struct sp_param params[] = {{"area", SP_UINT, "0", .help = "bytes shared with the host"}, {NULL}};

static int configure(struct sp_ctx *c, uint64_t *area)
{
	*area = sp_param_uint(c, "area");
	CU_ASSERT_PTR_NULL(sp_host_area(c)); /* not yet */
	return 0;
}

static int attach(struct sp_ctx *c)
{
	uint64_t bytes = sp_param_uint(c, "area");

	if (!bytes)
		return 0;
	const struct sp_mem *area = sp_host_area(c);
	CU_ASSERT_PTR_NOT_NULL_FATAL(area);
	CU_ASSERT_EQUAL(area->len, bytes);
	return sp_dma_write(c, area, 0, "area", 4);
}

static int command(struct sp_ctx *c, const struct sp_command *cmd, struct sp_event *event)
{
	switch (cmd->op) {
	case CMD_RUN:
		todo(c);
		return 0;
	case CMD_NOTE:
		if (memo_sees < sizeof(memo_seen) / sizeof(*memo_seen))
			memo_seen[memo_sees++] = cmd->arg[0];
		event->arg[0] = cmd->arg[0] * 2;
		return 0;
	case CMD_FAIL:
		event->arg[1] = 77;
		return -EDOM;
	case CMD_EVENTS:
		for (uint64_t i = 0; i < cmd->arg[0]; i++)
			sp_event_post(c, &(struct sp_event){.type = SP_EVENT_OWN, .context = 4711, .cookie = i});
		return 0;
	}
	return -EOPNOTSUPP;
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	sp_event_post(c, &(struct sp_event){.type = SP_EVENT_OWN, .cookie = p->psn});
	return SP_DONE;
}

static const struct sp_handler memo = {SP_HANDLER_HEAD,	 .name = "memo",     .params = params,	.configure = configure,
				       .attach = attach, .payload = payload, .command = command};
SP_HANDLER(memo)

uint32_t memo_id;

void memo_start(uint64_t limit)
{
	dut_prepare(&dut, 1);
	dut.config.memory_limit = limit;
	dut_create(&dut);
	memo_id = dut_context(&dut, "a", "memo", "qp=16");
	memo_sees = 0;
}

void memo_stop(void)
{
	dut_stop(&dut);
}

void memo_inside(void (*fn)(struct sp_ctx *))
{
	struct sp_command cmd = {.op = CMD_RUN, .context = memo_id};

	todo = fn;
	CU_ASSERT_EQUAL(sp_command_call(dut.dev, &cmd, NULL), 0);
}

const struct sp_mem *memo_mem;

static uint32_t want;

static void get(struct sp_ctx *c)
{
	memo_mem = sp_mem_get(c, want);
}

static void put(struct sp_ctx *c)
{
	sp_mem_put(c, memo_mem);
}

const struct sp_mem *memo_get(uint32_t region)
{
	want = region;
	memo_inside(get);
	return memo_mem;
}

void memo_put(const struct sp_mem *m)
{
	memo_mem = m;
	memo_inside(put);
}
