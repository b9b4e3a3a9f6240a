/* SPDX-License-Identifier: BSD-3-Clause */
/* A handler that sends what the test tells it. */
#ifndef TESTS_RIG_SEND_H
#define TESTS_RIG_SEND_H

#include "rig_say.h"

static struct {
	struct sp_path *path[SP_MAX_PATHS + 1];
	unsigned paths;
	int opened; /* result of the last sp_path_open */
	const struct sp_send *send;
	struct sp_send *run; /* CMD_SEND_RUN: this one and those behind it */
	unsigned runs;
	int ran; /* what became of them */
	const void *frame;
	uint32_t frame_len;
	uint16_t qp_index[16];
	unsigned indexes;
} tell;
enum { CMD_SEND = SP_CMD_OWN, CMD_SEND_MEM, CMD_PATH, CMD_UNPATH, CMD_FRAME, CMD_SEND_RUN };

static const struct sp_param sender_params[] = {
	{"peer", SP_STRING, "", .help = "only packets from there"},
	{"qps", SP_UINT, "1", 1, 0, "QPs"},
	{"control", SP_BOOL, "no", .help = "a control QP"},
	{NULL},
};
static uint32_t sender_control;

static int sender_attach(struct sp_ctx *c)
{
	const char *peer = sp_param_string(c, "peer");
	uint8_t ip[16];
	int r = 0;

	memset(&tell, 0, sizeof(tell));
	if (*peer) {
		memcpy(ip, strchr(peer, ':') ? rig_peer6 : rig_peer4, 16);
		r = sp_path_open(c, ip, true, &tell.path[0]);
		tell.paths = 1;
	}
	if (!r && sp_param_uint(c, "qps") > 1)
		r = sp_qp_claim(c, (uint32_t)sp_param_uint(c, "qps"));
	if (!r && sp_param_uint(c, "control"))
		r = sp_qp_control(c, &sender_control);
	return r;
}

static uint32_t sender_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	if (tell.indexes < 16)
		tell.qp_index[tell.indexes++] = p->qp_index;
	return SP_DONE;
}

static int sender_command(struct sp_ctx *c, const struct sp_command *cmd, struct sp_event *result)
{
	struct sp_send s = {0};
	int r;
	if (tell.send)
		s = *tell.send;
	switch (cmd->op) {
	case CMD_SEND:
		return sp_send_roce(c, tell.path[cmd->arg[0]], &s);
	case CMD_SEND_MEM:
		s.mem = sp_mem_get(c, (uint32_t)cmd->arg[1]);
		if (!s.mem)
			return -ENOENT;
		r = sp_send_roce(c, tell.path[cmd->arg[0]], &s);
		sp_mem_put(c, s.mem);
		return r;
	case CMD_PATH: {
		uint8_t ip[16];

		memcpy(ip, &cmd->arg[0], 16);
		r = sp_path_open(c, ip, false, &tell.path[tell.paths]);
		tell.paths += !r;
		return r;
	}
	case CMD_UNPATH:
		sp_path_close(c, tell.path[cmd->arg[0]]);
		return 0;
	case CMD_SEND_RUN: { /* arg[1]: region of those that are not of `bytes`; 0: none */
		const struct sp_mem *mem = cmd->arg[1] ? sp_mem_get(c, (uint32_t)cmd->arg[1]) : NULL;

		if (cmd->arg[1] && !mem)
			return -ENOENT;
		for (unsigned i = 0; i < tell.runs; i++)
			tell.run[i].mem = tell.run[i].bytes ? NULL : mem;
		tell.ran = sp_send_roce_run(c, tell.path[cmd->arg[0]], tell.run, tell.runs);
		if (mem)
			sp_mem_put(c, mem);
		return tell.ran < 0 ? tell.ran : 0;
	}
	case CMD_FRAME:
		return sp_send_frame(c, (uint16_t)cmd->arg[0], tell.frame, tell.frame_len);
	}
	return -EOPNOTSUPP;
}

static const struct sp_handler sender = {SP_HANDLER_HEAD,	  .name = "sender",	     .params = sender_params,
					 .attach = sender_attach, .payload = sender_payload, .command = sender_command};
SP_HANDLER(sender)

static inline int call(uint32_t id, uint16_t op, uint64_t a0, uint64_t a1)
{
	struct sp_command cmd = {.op = op, .context = id, .arg = {a0, a1}};

	return sp_command_call(rig.dev, &cmd, NULL);
}

#endif
