/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RVMA, remote virtual memory access (Grant et al.): a put names a mailbox, and the receiver owns the memory.
 * wire/rvma.h has the packets and what the host program sees. This file has parameters, attach and report; state.h
 * lists the others.
 */
#include "../stream_copy.h"
#include "answer.h"
#include "bucket.h"
#include "hello.h"
#include "issue.h"
#include "op.h"
#include "place.h"
#include "send.h"
#include "session.h"
#include "window.h"

#include <stdlib.h>

static const char *const rv_drops[] = {
	[RV_BAD_OPCODE] = "bad-opcode",	  [RV_SHORT_HEADER] = "short-header",
	[RV_BAD_VERSION] = "bad-version", [RV_BAD_TOKEN] = "bad-token",
	[RV_WRONG_PEER] = "wrong-peer",	  [RV_BAD_LENGTH] = "bad-length",
	[RV_DUPLICATE] = "duplicate",	  [RV_REFUSED] = "refused",
	[RV_BEYOND] = "beyond",		  [RV_FENCED] = "fenced",
	[RV_CROWDED] = "crowded",	  [RV_NO_SESSION] = "no-session",
	[RV_BAD_CONTROL] = "bad-control", NULL,
};

static const char *const rv_counters[] = {
	[RV_PUTS] = "puts",
	[RV_BYTES] = "placed_bytes",
	[RV_PACKETS] = "placed_packets",
	[RV_EPOCHS] = "epochs",
	[RV_DUPLICATES] = "duplicates",
	[RV_BAD_KEYS] = "bad_keys",
	[RV_REFUSALS] = "refusals",
	[RV_NACKS_SENT] = "nacks_sent",
	[RV_NACKS_SUPPRESSED] = "nacks_suppressed",
	[RV_CAUGHT] = "caught",
	[RV_SPILLS] = "spilled_counters",
	[RV_GETS_SERVED] = "gets_served",
	[RV_PUTS_SENT] = "puts_sent",
	[RV_GETS_DONE] = "gets_done",
	[RV_OPS_FAILED] = "operations_failed",
	[RV_PACKETS_SENT] = "packets_sent",
	[RV_RETRANSMITS] = "retransmits",
	[RV_SESSIONS] = "sessions",
	[RV_RESTARTS] = "peer_restarts",
	NULL,
};

static const char *const rv_sessions[] = {"control", "implicit", NULL};
static const char *const rv_epochs[] = {"bytes", "ops", NULL};
static const char *const rv_modes[] = {"steered", "managed", "region", NULL};

static const struct sp_param rv_params[] = {
	{"mtu", SP_UINT, "1024", SP_RVMA_MTU_MIN, SP_RVMA_MTU_MAX, "payload bytes of a packet"},
	{"windows", SP_UINT, "1024", 1, SP_RVMA_WINDOWS_MAX, "mailboxes"},
	{"buffers", SP_UINT, "4096", 1, SP_RVMA_BUFFERS_MAX, "posted, or completed and not released, of all windows"},
	{"counters", SP_UINT, "1024", 1, SP_RVMA_WINDOWS_MAX,
	 "counters on the NIC, one per window with a buffer; further windows are counted in host memory"},
	{"peers", SP_UINT, "64", 1, SP_RVMA_PEERS_MAX, "sessions"},
	{"ops", SP_UINT, "1024", 1, 1 << 20, "puts and gets of the host at once"},
	{"transfers", SP_UINT, "1024", 1, 1 << 20, "transfers of several packets that arrive at once"},
	{"window", SP_UINT, "256", 1, 1 << 16,
	 "blocks of 64 packets that a peer may send ahead of what is missing; a power of two"},
	{"timeout", SP_TIME, "5s", 1, 3600 * SP_SEC,
	 "time without a packet after which a transfer or a peer is given up; in all, a transfer may take twice "
	 "that, and once more per 1024 packets"},
	{"ack-delay", SP_TIME, "5us", 1, SP_SEC, "how long an acknowledgement may wait for others"},
	{"nack-rate", SP_UINT, "10000", 1, 1000000000, "NACKs a second at most"},
	{"stream-from", SP_UINT, "0", 0, 0,
	 "memory regions of this many bytes or more get large packets past the caches; 0: by the caches' sizes"},
	{"session", SP_STRING, "control", 0, 0,
	 "control: begins with HELLO and WELCOME; implicit: all packets are of one session (for captures)",
	 rv_sessions},
	{"mailbox", SP_STRING, "none", 0, 0, "makes a window for buffers that a replay posts: a number, or none"},
	{"key", SP_UINT, "0", 0, 0, "of that window: what puts and gets must carry"},
	{"threshold", SP_UINT, "0", 0, 0, "... when a buffer is complete; 0: never"},
	{"epoch", SP_STRING, "bytes", 0, 0, "... what the threshold counts: bytes, or ops", rv_epochs},
	{"mode", SP_STRING, "steered", 0, 0,
	 "... steered: puts name an offset; managed: each put follows the last one; region: steered, never complete",
	 rv_modes},
	{"catch-all", SP_BOOL, "no", 0, 0, "... also takes puts to mailboxes that do not exist or have no buffer"},
	{"readable", SP_BOOL, "no", 0, 0, "... gets may read completed buffers"},
	{"post-bytes", SP_UINT, "65536", 1, 1ull << 40, "... of a buffer that a replay posts"},
	{NULL},
};

/* ---- attach ---- */
static int rv_configure(struct sp_ctx *c, uint64_t *area)
{
	struct rv *s = rv_of(c);

	s->mtu = (uint32_t)sp_param_uint(c, "mtu");
	s->windows = (uint32_t)sp_param_uint(c, "windows");
	s->buffers = (uint32_t)sp_param_uint(c, "buffers");
	s->counters = (uint32_t)sp_param_uint(c, "counters");
	s->counters = s->counters < s->windows ? s->counters : s->windows;
	s->peers = (uint32_t)sp_param_uint(c, "peers");
	s->ops = (uint32_t)sp_param_uint(c, "ops");
	s->transfers = (uint32_t)sp_param_uint(c, "transfers");
	s->transfers_per_peer = (s->transfers + 1) / 2; /* one peer must not use up all transfers */
	s->blocks = (uint32_t)sp_param_uint(c, "window");
	s->nack_rate = sp_param_uint(c, "nack-rate");
	s->stream_region = sp_param_uint(c, "stream-from");
	if (!s->stream_region)
		s->stream_region = sp_stream_from();
	s->implicit = sp_param_uint(c, "session") == 1;
	s->timeout = sp_param_uint(c, "timeout");
	s->ack_delay = sp_param_uint(c, "ack-delay");
	if (s->blocks & (s->blocks - 1))
		return sp_fail(c, EINVAL, "window", "%u is not a power of two", s->blocks);
	if (s->implicit)
		s->transfers_per_peer = s->transfers;
	s->layout = sp_rvma_layout(s->windows, s->ops);
	*area = s->layout.bytes;
	return 0;
}

/* Makes the window that the configuration asks for. */
static int rv_configure_window(struct sp_ctx *c, struct rv *s)
{
	static const uint64_t modes[] = {0, SP_RVMA_MANAGED, SP_RVMA_REGION}; /* as rv_modes */
	const char *mailbox = sp_param_string(c, "mailbox");
	struct sp_command command = {.op = SP_RVMA_CMD_WINDOW};
	struct sp_event result = {0};
	char *end;
	int rc;

	if (!strcmp(mailbox, "none"))
		return 0;
	errno = 0;
	command.arg[0] = strtoull(mailbox, &end, 0);
	if (*mailbox < '0' || *mailbox > '9' || *end || errno)
		return sp_fail(c, EINVAL, "mailbox", "\"%s\" is neither a 64-bit number nor none", mailbox);
	command.arg[1] = sp_param_uint(c, "key");
	command.arg[2] = sp_param_uint(c, "threshold");
	command.arg[3] = (sp_param_uint(c, "epoch") ? SP_RVMA_OPS : 0) | modes[sp_param_uint(c, "mode")] |
			 (sp_param_uint(c, "catch-all") ? SP_RVMA_CATCH_ALL : 0) |
			 (sp_param_uint(c, "readable") ? SP_RVMA_READABLE : 0);
	rc = rv_window_command(c, &command, &result);
	if (rc)
		return sp_fail(c, -rc, "mode", "a region counts nothing and catches nothing");
	s->configured = (uint32_t)result.arg[0];
	c->post_bytes = sp_param_uint(c, "post-bytes");
	return 0;
}

static int rv_area(struct sp_ctx *c, struct rv *s)
{
	s->area = sp_host_area(c);

	const struct sp_rvma_area header = {.magic = SP_RVMA_AREA_MAGIC,
					    .version = SP_RVMA_AREA_VERSION,
					    .windows = s->windows,
					    .ops = s->ops,
					    .peers = s->peers,
					    .qp = s->qp,
					    .window = s->layout.window,
					    .op = s->layout.op,
					    .spill = s->layout.spill,
					    .bytes = s->layout.bytes,
					    .mtu = s->mtu};

	return sp_dma_write(c, s->area, 0, &header, sizeof(header));
}

static int rv_attach(struct sp_ctx *c)
{
	struct rv *s = rv_of(c);
	int rc = sp_qp_claim(c, 1);

	s->qp = (uint32_t)sp_param_uint(c, "qp");
	if (!rc)
		rc = rv_area(c, s);
	if (!rc)
		rc = sp_messages_limit(c, s->transfers, s->timeout);
	if (!rc)
		rc = rv_windows_attach(c);
	if (!rc)
		rc = rv_sessions_attach(c);
	if (!rc)
		rc = rv_ops_attach(c);
	return rc ? rc : rv_configure_window(c, s);
}

static void rv_detach(struct sp_ctx *c)
{
	rv_ops_detach(c);
	rv_sessions_detach(c);
	rv_windows_detach(c);
}

static void rv_timer(struct sp_ctx *c, struct sp_timer *timer)
{
	struct rv_session *x = &rv_of(c)->session[timer->cookie / 2];

	if (timer->cookie & 1)
		rv_send_ack(c, x, NULL);
	else if (x->hello_began)
		rv_hello_timer(c, x);
	else
		rv_send_more(c, x);
}

/* ---- commands ---- */
static int rv_command(struct sp_ctx *c, const struct sp_command *command, struct sp_event *result)
{
	switch (command->op) {
	case SP_RVMA_CMD_PEER:
		return rv_peer(c, command, result);
	case SP_RVMA_CMD_PUT:
	case SP_RVMA_CMD_GET:
		return rv_post(c, command);
	case SP_CMD_POST:
	case SP_RVMA_CMD_WINDOW ... SP_RVMA_CMD_REWIND:
		return rv_window_command(c, command, result);
	default:
		return -EOPNOTSUPP;
	}
}

/* ---- report ---- */
static void rv_report(struct sp_ctx *c, struct sp_report *r)
{
	static const char *const names[] = {
		[SP_RVMA_NO_MAILBOX] = "no_mailbox",	 [SP_RVMA_NO_BUFFER] = "no_buffer",
		[SP_RVMA_BAD_KEY] = "bad_key",		 [SP_RVMA_CLOSED] = "closed",
		[SP_RVMA_TOO_LARGE] = "too_large",	 [SP_RVMA_BAD_RANGE] = "bad_range",
		[SP_RVMA_WRONG_MODE] = "wrong_mode",	 [SP_RVMA_RATE] = "rate",
		[SP_RVMA_NOT_COMPLETE] = "not_complete", [SP_RVMA_NOT_READABLE] = "not_readable",
		[SP_RVMA_NO_ROOM] = "no_room",		 [SP_RVMA_REWOUND] = "rewound",
		[SP_RVMA_GIVEN_UP] = "given_up",
	};
	const struct rv *s = rv_of(c);

	rv_windows_report(c, r);
	sp_report_open(r, "refused", false);
	for (unsigned i = SP_RVMA_NO_MAILBOX; i < sizeof(names) / sizeof(*names); i++)
		if (s->refused[i])
			sp_report_uint(r, names[i], s->refused[i]);
	sp_report_close(r);
	sp_report_open(r, "sessions", true);
	rv_sessions_report(c, r);
	sp_report_close(r);
}

static const struct sp_handler rv_handler = {
	SP_HANDLER_HEAD,
	.name = "rvma",
	.doc = "RVMA: puts to mailboxes; the receiver's buffers are filled one after the other and handed over by "
	       "threshold",
	.params = rv_params,
	.drops = rv_drops,
	.counters = rv_counters,
	.ctx_size = sizeof(struct rv),
	.msg_size = sizeof(struct rv_transfer),
	.messages = SP_MESSAGES_HASHED,
	.flags = SP_HANDLER_HOME | SP_HANDLER_HOSTED,
	.configure = rv_configure,
	.attach = rv_attach,
	.detach = rv_detach,
	.classify = rv_classify,
	.classify_burst = rv_classify_burst,
	.header = rv_header,
	.payload_burst = rv_payload,
	.completion = rv_completion,
	.command = rv_command,
	.issue = rv_issue,
	.work = rv_bucket_work,
	.timer = rv_timer,
	.report = rv_report,
};
SP_HANDLER(rv_handler)
