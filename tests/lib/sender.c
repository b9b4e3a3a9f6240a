/* SPDX-License-Identifier: BSD-3-Clause */
#include "sender.h"

struct sender_job sender_job;

static const struct sp_param sender_params[] = {
	{"peer", SP_STRING, "", .help = "only packets from there"},
	{"qps", SP_UINT, "1", 1, 0, "QPs"},
	{"control", SP_BOOL, "no", .help = "a control QP"},
	{NULL},
};

uint32_t sender_control;

static int sender_attach(struct sp_ctx *c)
{
	const char *peer = sp_param_string(c, "peer");
	uint8_t ip[16];
	int r = 0;

	memset(&sender_job, 0, sizeof(sender_job));
	if (*peer) {
		memcpy(ip, strchr(peer, ':') ? dut_peer6 : dut_peer4, 16);
		r = sp_path_open(c, ip, true, &sender_job.path[0]);
		sender_job.paths = 1;
	}
	if (!r && sp_param_uint(c, "qps") > 1)
		r = sp_qp_claim(c, (uint32_t)sp_param_uint(c, "qps"));
	if (!r && sp_param_uint(c, "control"))
		r = sp_qp_control(c, &sender_control);
	return r;
}

static uint32_t sender_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	if (sender_job.indexes < 16)
		sender_job.qp_index[sender_job.indexes++] = p->qp_index;
	return SP_DONE;
}

static int sender_command(struct sp_ctx *c, const struct sp_command *cmd, struct sp_event *result)
{
	struct sp_send s = {0};
	int r;
	if (sender_job.send)
		s = *sender_job.send;
	switch (cmd->op) {
	case CMD_SEND:
		return sp_send_roce(c, sender_job.path[cmd->arg[0]], &s);
	case CMD_SEND_MEM:
		s.mem = sp_mem_get(c, (uint32_t)cmd->arg[1]);
		if (!s.mem)
			return -ENOENT;
		r = sp_send_roce(c, sender_job.path[cmd->arg[0]], &s);
		sp_mem_put(c, s.mem);
		return r;
	case CMD_PATH: {
		uint8_t ip[16];

		memcpy(ip, &cmd->arg[0], 16);
		r = sp_path_open(c, ip, false, &sender_job.path[sender_job.paths]);
		sender_job.paths += !r;
		return r;
	}
	case CMD_UNPATH:
		sp_path_close(c, sender_job.path[cmd->arg[0]]);
		return 0;
	case CMD_SEND_RUN: { /* arg[1]: region of those that are not of `bytes`; 0: none */
		const struct sp_mem *mem = cmd->arg[1] ? sp_mem_get(c, (uint32_t)cmd->arg[1]) : NULL;

		if (cmd->arg[1] && !mem)
			return -ENOENT;
		for (unsigned i = 0; i < sender_job.runs; i++)
			sender_job.run[i].mem = sender_job.run[i].bytes ? NULL : mem;
		sender_job.ran = sp_send_roce_run(c, sender_job.path[cmd->arg[0]], sender_job.run, sender_job.runs);
		if (mem)
			sp_mem_put(c, mem);
		return sender_job.ran < 0 ? sender_job.ran : 0;
	}
	case CMD_FRAME:
		return sp_send_frame(c, (uint16_t)cmd->arg[0], sender_job.frame, sender_job.frame_len);
	}
	return -EOPNOTSUPP;
}

static const struct sp_handler sender = {SP_HANDLER_HEAD,	  .name = "sender",	     .params = sender_params,
					 .attach = sender_attach, .payload = sender_payload, .command = sender_command};
SP_HANDLER(sender)

int sender_call(uint32_t id, uint16_t op, uint64_t a0, uint64_t a1)
{
	struct sp_command cmd = {.op = op, .context = id, .arg = {a0, a1}};

	return sp_command_call(dut.dev, &cmd, NULL);
}

uint32_t sends_to_strangers(const char *settings)
{
	probe_log_clear();
	dut_prepare(&dut, 1);
	dut_create(&dut);
	return dut_context(&dut, "s", "sender", settings);
}

uint32_t sends_to(const char *settings)
{
	return sends_in(0, settings);
}

uint32_t sends_in(uint16_t vlan, const char *settings)
{
	static const struct sp_neighbour_config known[2] = {{DUT_IP4(192, 0, 2, 1), {2, 0, 0, 0, 0, 2}},
							    {DUT_IP6(1), {2, 0, 0, 0, 0, 2}}};

	probe_log_clear();
	dut_prepare(&dut, 1);
	memcpy(dut.config.neighbour, known, sizeof(known));
	dut.config.neighbours = 2;
	dut.config.vlan = vlan;
	dut_create(&dut);
	return dut_context(&dut, "s", "sender", settings);
}

unsigned be16(const uint8_t *b)
{
	return (unsigned)b[0] << 8 | b[1];
}
