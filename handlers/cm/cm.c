/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection management (InfiniBand Architecture Specification, volume 1, chapter 12), for all applications of the NIC:
 * the general services interface, QP 1. wire/cm.h has the messages, wire/rdma.h what applications ask for, docs/rdma.md
 * how it works. This file has parameters, attach and report; state.h lists the others.
 */
#include "end.h"
#include "event.h"
#include "receive.h"
#include "request.h"
#include "table.h"

static const char *const cm_drops[] = {
	[CM_BAD_OPCODE] = "bad-opcode",
	[CM_BAD_LENGTH] = "bad-length",
	[CM_BAD_QKEY] = "bad-qkey",
	[CM_NOT_QP1] = "not-qp1",
	[CM_BAD_PKEY] = "bad-pkey",
	[CM_BAD_MAD] = "bad-mad",
	[CM_OTHER_CLASS] = "other-class",
	[CM_BAD_ATTRIBUTE] = "bad-attribute",
	[CM_BAD_FIELD] = "bad-field",
	[CM_WRONG_PEER] = "wrong-peer",
	[CM_UNKNOWN] = "unknown-id",
	[CM_UNEXPECTED] = "unexpected",
	[CM_FLOOD] = "flood",
	[CM_PEERS] = "too-many-peers",
	[CM_PEER_FULL] = "peer-full",
	[CM_BACKLOG] = "backlog",
	NULL,
};

static const char *const cm_counters[] = {
	[CM_REQS] = "req",
	[CM_REPS] = "rep",
	[CM_RTUS] = "rtu",
	[CM_REJS] = "rej",
	[CM_MRAS] = "mra",
	[CM_DREQS] = "dreq",
	[CM_DREPS] = "drep",
	[CM_SIDR_REQS] = "sidr_req",
	[CM_SIDR_REPS] = "sidr_rep",
	[CM_SENT] = "sent",
	[CM_RETRIES] = "retries",
	[CM_TIMEOUTS] = "timeouts",
	[CM_DUPLICATES] = "duplicates",
	[CM_STALES] = "stale",
	[CM_NO_LISTENER] = "no_listener",
	[CM_ESTABLISHMENTS] = "established",
	[CM_NOT_SENT] = "not_sent",
	[CM_EVENTS_LATE] = "events_late",
	[CM_REFUSED] = "refused_requests",
	NULL,
};

static const struct sp_param cm_params[] = {
	{"ids", SP_UINT, "4096", 16, 1 << 20, "connections, listeners and conversations that end, of all applications"},
	{"ids-per-application", SP_UINT, "2048", 1, 1 << 20, "of them, of one application"},
	{"applications", SP_UINT, "256", 1, 4096, "that use connection management at once"},
	{"peers", SP_UINT, "1024", 1, 4096, "addresses that are spoken with at once"},
	{"peers-per-application", SP_UINT, "768", 1, 4096, "of them, that one application was the first to speak with"},
	{"peer-pending", SP_UINT, "512", 1, 1 << 20,
	 "connections of one peer address that applications have not accepted, or that are not established"},
	{"peer-rate", SP_UINT, "10000", 1, 1000000, "messages a second that are taken from one peer address"},
	{"peer-burst", SP_UINT, "4096", 1, 1 << 20, "... and so many at once"},
	{"retries", SP_UINT, "15", 0, 15, "repetitions of a message that nobody answers"},
	{"retry", SP_TIME, "500ms", SP_MS, 10 * SP_SEC,
	 "until the first repetition; each later one takes twice as long"},
	{"accept", SP_TIME, "120s", SP_MS, 3600 * SP_SEC,
	 "what applications have to answer a request; a peer may ask for as much"},
	{"timewait", SP_TIME, "4s", SP_MS, 600 * SP_SEC, "a connection that has ended is remembered so long at most"},
	{"ports-from", SP_UINT, "1024", 1, 65535, "applications may listen on this port and those above"},
	{"selective", SP_BOOL, "no", 0, 0,
	 "offer selective repeat, in the last 8 bytes of private data that the application leaves"},
	{NULL},
};

static int cm_configure(struct sp_ctx *c, uint64_t *area)
{
	struct cm *s = cm_of(c);

	(void)area;
	s->ids = (uint32_t)sp_param_uint(c, "ids");
	s->ids_per_app = (uint32_t)sp_param_uint(c, "ids-per-application");
	s->apps = (uint32_t)sp_param_uint(c, "applications");
	s->peers = (uint32_t)sp_param_uint(c, "peers");
	s->peers_per_app = (uint32_t)sp_param_uint(c, "peers-per-application");
	s->peer_pending = (uint32_t)sp_param_uint(c, "peer-pending");
	s->peer_gap = SP_SEC / sp_param_uint(c, "peer-rate");
	s->peer_burst = (uint32_t)sp_param_uint(c, "peer-burst");
	s->retries = (uint32_t)sp_param_uint(c, "retries");
	s->retry = sp_param_uint(c, "retry");
	s->accept = sp_param_uint(c, "accept");
	s->timewait = sp_param_uint(c, "timewait");
	s->ports_from = (uint32_t)sp_param_uint(c, "ports-from");
	s->selective = sp_param_uint(c, "selective");
	s->peer_idle = SP_SEC;
	return 0;
}

static int cm_attach(struct sp_ctx *c)
{
	const int rc = sp_qp_claim(c, 1);

	return rc ? rc : cm_table_attach(c);
}

static void cm_detach(struct sp_ctx *c)
{
	struct cm *s = cm_of(c);

	for (uint32_t i = 0; i < s->ids; i++)
		if (s->id[i].state != CM_FREE)
			cm_id_free(c, &s->id[i]);
	cm_peers_sweep(c, 0);
}

static uint64_t cm_classify(struct sp_ctx *c, struct sp_packet *p)
{
	(void)c;
	(void)p;
	return SP_NO_MESSAGE;
}

static uint32_t cm_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	(void)m;
	return cm_receive(c, p);
}

static void cm_timer(struct sp_ctx *c, struct sp_timer *timer)
{
	struct cm *s = cm_of(c);

	if (timer != &s->tick) {
		cm_expire(c, &s->id[timer->cookie]);
		return;
	}
	const bool owed = cm_events_owed(c);

	cm_peers_sweep(c, s->peer_idle);
	if (owed || s->peer_count)
		sp_timer_arm(c, timer, c->now + (owed ? SP_MS : s->peer_idle));
}

static void cm_report(struct sp_ctx *c, struct sp_report *r)
{
	static const char *const names[CM_STATES] = {
		NULL,	     "idle",	  "listen",   "req_sent", "req_rcvd",  "rep_sent",  "rep_rcvd",	 "established",
		"dreq_sent", "dreq_rcvd", "timewait", "refusal",  "sidr_sent", "sidr_rcvd", "sidr_done", "closed",
	};
	const struct cm *s = cm_of(c);
	uint64_t now[CM_STATES] = {0};

	for (uint32_t i = 0; i < s->ids; i++)
		now[s->id[i].state]++;
	sp_report_uint(r, "ids", s->used);
	sp_report_uint(r, "without_application", s->orphan_count);
	sp_report_uint(r, "peers", s->peer_count);
	sp_report_open(r, "states", false);
	for (unsigned i = CM_IDLE; i < CM_STATES; i++)
		if (now[i])
			sp_report_uint(r, names[i], now[i]);
	sp_report_close(r);
	sp_report_open(r, "listeners", true);
	for (uint32_t i = 0, shown = 0; i < s->ids && shown < 64; i++)
		if (s->id[i].state == CM_LISTEN) {
			sp_report_open(r, NULL, false);
			sp_report_uint(r, "port", s->id[i].own_port);
			sp_report_uint(r, "application", s->id[i].app->context);
			sp_report_uint(r, "waiting", s->id[i].waiting);
			sp_report_uint(r, "backlog", s->id[i].backlog);
			sp_report_close(r);
			shown++;
		}
	sp_report_close(r);
}

static const struct sp_handler cm_handler = {
	SP_HANDLER_HEAD,
	.name = "cm",
	.doc = "connection management of InfiniBand and RoCE for all applications: REQ, REP, RTU, DREQ, SIDR",
	.params = cm_params,
	.drops = cm_drops,
	.counters = cm_counters,
	.ctx_size = sizeof(struct cm),
	.messages = SP_MESSAGES_NONE,
	.flags = SP_HANDLER_HOME | SP_HANDLER_SERVICE,
	.configure = cm_configure,
	.attach = cm_attach,
	.detach = cm_detach,
	.classify = cm_classify,
	.payload = cm_payload,
	.timer = cm_timer,
	.report = cm_report,
	.control = cm_control,
};
SP_HANDLER(cm_handler)
