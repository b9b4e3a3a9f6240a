/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA as verbs have it: RC, UC and UD over RoCEv2. wire/rdma.h has what an application shares with it, docs/rdma.md
 * how they work together. This file has parameters, attach, dispatch and report; state.h lists the others.
 */
#include "../stream_copy.h"
#include "ah.h"
#include "answer.h"
#include "cq.h"
#include "create.h"
#include "datagram.h"
#include "export.h"
#include "fetch.h"
#include "modify.h"
#include "flow.h"
#include "qp.h"
#include "peer.h"
#include "request.h"
#include "region.h"
#include "message.h"
#include "respond.h"
#include "rq.h"
#include "slot.h"
#include "tell.h"
#include "wqe.h"

#define RDMA_REPORTED 256u

static const char *const rdma_drops[] = {
	[RDMA_NO_QP] = "no-qp",
	[RDMA_WRONG_STATE] = "wrong-state",
	[RDMA_WRONG_TYPE] = "wrong-type",
	[RDMA_BAD_OPCODE] = "bad-opcode",
	[RDMA_BAD_PKEY] = "bad-pkey",
	[RDMA_BAD_SOURCE] = "bad-source",
	[RDMA_SHORT_HEADER] = "short-header",
	[RDMA_BAD_LENGTH] = "bad-length",
	[RDMA_BAD_ORDER] = "bad-order",
	[RDMA_AHEAD] = "ahead",
	[RDMA_LOST_RESOURCE] = "lost-resource",
	[RDMA_NAKED] = "refused",
	[RDMA_BAD_QKEY] = "bad-qkey",
	[RDMA_NO_RECEIVE] = "no-receive",
	[RDMA_TOO_LONG] = "too-long",
	[RDMA_BAD_KEY] = "bad-key",
	[RDMA_BAD_ENTRY] = "bad-entry",
	[RDMA_STRAY] = "stray",
	[RDMA_BAD_ANSWER] = "bad-answer",
	[RDMA_DROPS] = NULL,
};

static const char *const rdma_counters[] = {
	[RDMA_MESSAGES] = "messages",
	[RDMA_BYTES] = "bytes",
	[RDMA_DUPLICATES] = "duplicates",
	[RDMA_ACKS] = "acks_sent",
	[RDMA_NAK_SEQUENCE] = "naks_sequence",
	[RDMA_NAK_INVALID] = "naks_invalid",
	[RDMA_NAK_ACCESS] = "naks_access",
	[RDMA_NAK_OPERATION] = "naks_operation",
	[RDMA_NAK_RNR] = "naks_rnr",
	[RDMA_READS] = "reads_served",
	[RDMA_READ_PACKETS] = "read_packets",
	[RDMA_READS_HELD] = "reads_held",
	[RDMA_ATOMICS] = "atomics",
	[RDMA_FETCHES] = "fetches",
	[RDMA_FETCHES_FAILED] = "fetches_failed",
	[RDMA_CNPS_SENT] = "cnps_sent",
	[RDMA_CQ_OVERFLOWS] = "cq_overflows",
	[RDMA_EVENTS_OWED] = "events_owed",
	[RDMA_PLACED_AHEAD] = "placed_ahead",
	[RDMA_KEPT_AHEAD] = "kept_ahead",
	[RDMA_SENT] = "packets_sent",
	[RDMA_REPEATED] = "packets_repeated",
	[RDMA_TIMEOUTS] = "timeouts",
	[RDMA_PROBES] = "probes",
	[RDMA_NAKS_RECEIVED] = "naks_received",
	[RDMA_RNRS_RECEIVED] = "rnrs_received",
	[RDMA_CNPS_RECEIVED] = "cnps_received",
	[RDMA_REQUESTS_DONE] = "requests_done",
	[RDMA_REQUESTS_FAILED] = "requests_failed",
	[RDMA_COUNTERS] = NULL,
};

/* ---- parameters ---- */
static const struct sp_param rdma_params[] = {
	{"qps", SP_UINT, "256", 1, 0xFFFE, "Queue pairs", NULL},
	{"cqs", SP_UINT, "256", 1, 1 << 17, "Completion queues", NULL},
	{"srqs", SP_UINT, "64", 1, 1 << 16, "Shared receive queues", NULL},
	{"pds", SP_UINT, "64", 1, 1 << 16, "Protection domains", NULL},
	{"mrs", SP_UINT, "4K", 8, 1 << 20, "Memory regions; rounded up to a power of two", NULL},
	{"ahs", SP_UINT, "1K", 1, 1 << 16, "Address handles", NULL},
	{"ecn", SP_BOOL, "no", 0, 0, "Send packets as ECN-capable, and answer marked ones by CNPs", NULL},
	{"congestion-control", SP_BOOL, "no", 0, 0, "A CNP slows its QP down (DCQCN)", NULL},
	{"stream-from", SP_UINT, "0", 0, 0,
	 "Payload goes past the caches to memory regions of so many bytes and more; 0: depends on the machine's caches",
	 NULL},
	{"cnp-interval", SP_TIME, "50us", SP_US, SP_SEC, "A QP sends at most one CNP in this time", NULL},
	{"peer-reads", SP_UINT, "4M", 4096, 1ull << 40, "Bytes of READ responses to one address under way, at most",
	 NULL},
	{"fetch-timeout", SP_TIME, "2s", SP_US, 10 * SP_SEC, "For the answer of an agent that serves memory", NULL},
	RDMA_REQUEST_PARAMS,
	{"selective-qps", SP_UINT, "64", 0, 0xFFFE, "QPs that may use selective repeat at once", NULL},
	{"selective-buffers", SP_UINT, "256", 1, 1 << 20,
	 "Packets ahead of missing ones that each worker keeps, if they cannot be placed at once", NULL},
	{NULL, SP_UINT, NULL, 0, 0, NULL, NULL},
};

static int rdma_configure(struct sp_ctx *c, uint64_t *area)
{
	struct rdma *s = rdma_of(c);

	(void)area;
	s->qps = (uint32_t)sp_param_uint(c, "qps");
	s->cqs = (uint32_t)sp_param_uint(c, "cqs");
	s->srqs = (uint32_t)sp_param_uint(c, "srqs");
	s->pds = (uint32_t)sp_param_uint(c, "pds");
	s->ahs = (uint32_t)sp_param_uint(c, "ahs");
	for (s->mrs = 8; s->mrs < sp_param_uint(c, "mrs"); s->mrs *= 2)
		;
	s->key_mask = s->mrs - 1;
	s->blocks = s->mrs / 8;
	s->ecn = sp_param_uint(c, "ecn");
	s->cc = sp_param_uint(c, "congestion-control");
	s->cnp_interval = sp_param_uint(c, "cnp-interval");
	s->stream_region = sp_param_uint(c, "stream-from");
	if (!s->stream_region)
		s->stream_region = sp_stream_from();
	s->fetch_timeout = sp_param_uint(c, "fetch-timeout");
	s->peer_reads = sp_param_uint(c, "peer-reads") / c->workers;
	return 0;
}

static int rdma_tables_attach(struct sp_ctx *c)
{
	struct rdma *s = rdma_of(c);
	struct sp_path **path = sp_alloc(c, (size_t)s->ahs * c->workers * sizeof(*path));

	s->cq = sp_alloc(c, s->cqs * sizeof(*s->cq));
	s->srq = sp_alloc(c, s->srqs * sizeof(*s->srq));
	s->ah = sp_alloc(c, s->ahs * sizeof(*s->ah));
	s->worker = sp_alloc(c, c->workers * sizeof(*s->worker));
	if (!s->cq)
		return sp_fail(c, ENOMEM, "cqs", "no memory for %u completion queues", s->cqs);
	if (!s->srq)
		return sp_fail(c, ENOMEM, "srqs", "no memory for %u shared receive queues", s->srqs);
	if (!s->ah || !path)
		return sp_fail(c, ENOMEM, "ahs", "no memory for %u address handles", s->ahs);
	if (!s->worker)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->ahs; i++)
		s->ah[i].path = path + (size_t)i * c->workers;
	for (uint32_t w = 0; w < c->workers; w++) {
		s->worker[w].chore.on = w + 1;
		s->worker[w].chore.cookie = s->worker[w].owed_timer.cookie = (uint64_t)w << 1 | RDMA_COOKIE_WORKER;
	}
	return 0;
}

static int rdma_attach(struct sp_ctx *c)
{
	struct rdma *s = rdma_of(c);
	int rc = sp_qp_claim(c, s->qps);

	s->first_qp = (uint32_t)sp_param_uint(c, "qp");
	if (!rc)
		rc = rdma_tables_attach(c);
	if (!rc)
		rc = rdma_regions_attach(c);
	if (!rc)
		rc = rdma_qps_attach(c);
	if (!rc)
		rc = rdma_selective_attach(c);
	if (!rc)
		rc = rdma_peers_attach(c);
	return rc ? rc : rdma_request_attach(c);
}

static void rdma_detach(struct sp_ctx *c)
{
	rdma_request_detach(c);
	rdma_qps_detach(c);
	rdma_srqs_detach(c);
	rdma_cqs_detach(c);
	rdma_regions_detach(c);
	if (rdma_of(c)->agent)
		sp_mem_put(c, rdma_of(c)->agent);
}

/* ---- packets ---- */
/* Connected QPs hear their peer only. */
static bool rdma_from_peer(const struct rdma_qp *qp, const struct sp_packet *p)
{
	static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};
	const uint8_t *l3 = p->frame + p->l3;

	if (p->flags & SP_PKT_IPV6)
		return !memcmp(qp->attr.ip, l3 + 8, 16);
	return !memcmp(qp->attr.ip, mapped, sizeof(mapped)) && !memcmp(qp->attr.ip + 12, l3 + 12, 4);
}

/* Congestion experienced: both ECN bits. */
static bool rdma_marked(const struct sp_packet *p)
{
	const uint8_t *l3 = p->frame + p->l3;

	return p->flags & SP_PKT_IPV6 ? (l3[1] & 0x30) == 0x30 : (l3[1] & 3) == 3;
}

static uint32_t rdma_take_connected(struct sp_ctx *c, struct rdma_qp *qp, struct sp_packet *p, uint8_t state)
{
	const bool answer = p->opcode >= SP_RC_READ_RESPONSE_FIRST && p->opcode <= SP_RC_ATOMIC_ACKNOWLEDGE;

	if (!rdma_from_peer(qp, p))
		return SP_DROP(RDMA_BAD_SOURCE);
	if (p->opcode == SP_ROCE_CNP || answer) {
		if (state == SP_RDMA_RTR || (answer && qp->type != SP_RDMA_RC))
			return SP_DROP(state == SP_RDMA_RTR ? RDMA_WRONG_STATE : RDMA_WRONG_TYPE);
		rdma_request_answer(c, qp, p);
		return p->verdict;
	}
	if (SP_ROCE_TRANSPORT(p->opcode) != (qp->type == SP_RDMA_RC ? SP_ROCE_RC : SP_ROCE_UC))
		return SP_DROP(RDMA_WRONG_TYPE);
	if (__builtin_expect(rdma_of(c)->ecn && rdma_marked(p), 0))
		rdma_answer_cnp(c, qp);
	return qp->type == SP_RDMA_RC ? rdma_respond_rc(c, qp, p) : rdma_respond_uc(c, qp, p);
}

static uint32_t rdma_take(struct sp_ctx *c, struct rdma_qp *qp, struct sp_packet *p)
{
	const uint8_t state = rdma_state(qp);

	if (state < SP_RDMA_RTR || state == SP_RDMA_ERR)
		return SP_DROP(__atomic_load_n(&qp->used, __ATOMIC_ACQUIRE) && !qp->dying ? RDMA_WRONG_STATE
											  : RDMA_NO_QP);
	if ((sp_load_be16(rdma_bth(p)->pkey) & 0x7FFF) != (SP_ROCE_PKEY & 0x7FFF))
		return SP_DROP(RDMA_BAD_PKEY);
	if (qp->type != SP_RDMA_UD)
		return rdma_take_connected(c, qp, p, state);
	return SP_ROCE_TRANSPORT(p->opcode) == SP_ROCE_UD ? rdma_respond_ud(c, qp, p) : SP_DROP(RDMA_WRONG_TYPE);
}

/* At the end of what came at once for a QP: one ACK for all of it. READ responses are left to issue(). */
static void rdma_answer_now(struct sp_ctx *c, struct rdma_qp *qp)
{
	unsigned sent = 0;

	if (rdma_answer_due(qp) && rdma_answer_issue(c, qp, 0, &sent) != SP_ISSUE_DONE)
		rdma_qp_start(c, qp);
}

static uint32_t rdma_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *const *packet, unsigned n)
{
	struct rdma *s = rdma_of(c);
	struct rdma_qp *latest = NULL;
	uint32_t all = 0;

	(void)m;
	for (unsigned i = 0; i < n; i++) {
		struct sp_packet *p = packet[i];
		struct rdma_qp *qp = p->flags & SP_PKT_ROCE && p->qp_index < s->qps ? &s->qp[p->qp_index] : NULL;

		if (latest && latest != qp)
			rdma_answer_now(c, latest);
		latest = qp;
		p->verdict = qp ? rdma_take(c, qp, p) : SP_DROP(RDMA_NO_QP);
		all |= p->verdict;
	}
	if (latest)
		rdma_answer_now(c, latest);
	return all;
}

/* ---- commands, control, issue, timer ---- */
static int rdma_command(struct sp_ctx *c, const struct sp_command *command, struct sp_event *result)
{
	struct rdma_qp *qp;

	(void)result;
	if (command->op != SP_RDMA_CMD_DOORBELL && command->op != SP_RDMA_CMD_FETCHED)
		return -EOPNOTSUPP;
	qp = command->arg[0] <= SP_ROCE_QP_MASK ? rdma_qp_find(c, (uint32_t)command->arg[0]) : NULL;
	if (!qp)
		return -ENOENT;
	/* Its number says whose it is: a command on another worker is not looked at further. */
	if (qp->issue.on != c->worker + 1u)
		return -EXDEV;
	if (command->op == SP_RDMA_CMD_FETCHED)
		return rdma_fetch_answer(c, qp, command);
	if (rdma_state(qp) == SP_RDMA_RESET)
		return 0;
	if (rdma_state(qp) == SP_RDMA_ERR)
		rdma_qp_start(c, qp);
	rdma_doorbell(c, qp);
	return 0;
}

static int rdma_query(struct sp_ctx *c, struct sp_control *x)
{
	const struct rdma *s = rdma_of(c);
	const struct sp_rdma_limits limits = {.qps = s->qps,
					      .cqs = s->cqs,
					      .srqs = s->srqs,
					      .pds = s->pds,
					      .mrs = s->mrs,
					      .ahs = s->ahs,
					      .wrs = 1u << SP_RDMA_QUEUE_LOG,
					      .sges = SP_RDMA_SGES,
					      .cqes = 1u << SP_RDMA_CQ_LOG,
					      .inlined = SP_RDMA_INLINE,
					      .reads = SP_RDMA_READS,
					      .segments = SP_RDMA_SEGMENTS};

	if (x->in_len || !rdma_out(x, sizeof(limits)))
		return -EINVAL;
	memcpy(x->out, &limits, sizeof(limits));
	x->out_len = sizeof(limits);
	return 0;
}

static int rdma_control_qp(struct sp_ctx *c, struct sp_control *x)
{
	struct rdma_qp *qp = rdma_qp_find(c, x->qp);

	if (x->op == SP_RDMA_QP_DESTROY)
		return rdma_qp_destroy(c, x);
	if (!qp)
		return -ENOENT;
	return x->op == SP_RDMA_QP_MODIFY ? rdma_qp_modify(c, qp, x) : rdma_qp_query(c, qp, x);
}

static int rdma_control(struct sp_ctx *c, struct sp_control *x)
{
	static int (*const home[])(struct sp_ctx *, struct sp_control *) = {
		[SP_RDMA_QUERY] = rdma_query,
		[SP_RDMA_PD_CREATE] = rdma_pd_create,
		[SP_RDMA_PD_DESTROY] = rdma_pd_destroy,
		[SP_RDMA_MR_REG] = rdma_mr_register,
		[SP_RDMA_MR_DEREG] = rdma_mr_deregister,
		[SP_RDMA_MW_ALLOC] = rdma_mw_allocate,
		[SP_RDMA_MW_DEALLOC] = rdma_mw_deallocate,
		[SP_RDMA_CQ_CREATE] = rdma_cq_create,
		[SP_RDMA_CQ_DESTROY] = rdma_cq_destroy,
		[SP_RDMA_SRQ_CREATE] = rdma_srq_create,
		[SP_RDMA_SRQ_LIMIT] = rdma_srq_limit,
		[SP_RDMA_SRQ_DESTROY] = rdma_srq_destroy,
		[SP_RDMA_AH_CREATE] = rdma_ah_create,
		[SP_RDMA_AH_DESTROY] = rdma_ah_destroy,
		[SP_RDMA_AGENT] = rdma_agent_set,
		[SP_RDMA_QP_CREATE] = rdma_qp_create,
	};

	if (x->op >= SP_RDMA_QP_MODIFY && x->op <= SP_RDMA_QP_DESTROY)
		return x->qp ? rdma_control_qp(c, x) : -EINVAL;
	if (x->op >= sizeof(home) / sizeof(*home) || !home[x->op])
		return -EOPNOTSUPP;
	return x->qp ? -EINVAL : home[x->op](c, x);
}

static int rdma_issue(struct sp_ctx *c, struct sp_issue *issue, unsigned budget)
{
	if ((issue->cookie & 1) == RDMA_COOKIE_QP)
		return rdma_qp_issue(c, &rdma_of(c)->qp[issue->cookie >> 1], budget);
	rdma_ah_chore(c);
	return SP_ISSUE_DONE;
}

static void rdma_timer(struct sp_ctx *c, struct sp_timer *timer)
{
	if ((timer->cookie & 1) == RDMA_COOKIE_QP)
		rdma_qp_timer_fired(c, &rdma_of(c)->qp[timer->cookie >> 1]);
	else
		rdma_tell_again(c);
}

/* ---- report ---- */
static const char *const rdma_states[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
#define RDMA_STATES (sizeof(rdma_states) / sizeof(*rdma_states))

/* Of other workers' QPs: a number may be a moment old. */
static void rdma_report_qp(const struct rdma_qp *qp, struct sp_report *r)
{
	static const char *const types[] = {[SP_RDMA_RC] = "RC", [SP_RDMA_UC] = "UC", [SP_RDMA_UD] = "UD"};

	sp_report_open(r, NULL, false);
	sp_report_uint(r, "qp", qp->number);
	sp_report_string(r, "type", types[qp->type]);
	sp_report_string(r, "state", rdma_states[rdma_state(qp)]);
	sp_report_uint(r, "worker", qp->issue.on - 1);
	sp_report_uint(r, "peer_qp", qp->attr.dest_qp);
	sp_report_uint(r, "retries", qp->attr.retries);
	sp_report_uint(r, "naks_sent", qp->attr.naks_sent);
	sp_report_uint(r, "naks_received", qp->attr.naks_received);
	sp_report_uint(r, "rnrs_sent", qp->attr.rnrs_sent);
	sp_report_uint(r, "rnrs_received", qp->attr.rnrs_received);
	sp_report_close(r);
}

static void rdma_report(struct sp_ctx *c, struct sp_report *r)
{
	const struct rdma *s = rdma_of(c);
	uint32_t used = 0, in[RDMA_STATES] = {0};

	sp_report_open(r, "qps", true);
	for (uint32_t i = 0; i < s->qps; i++) {
		if (!__atomic_load_n(&s->qp[i].used, __ATOMIC_ACQUIRE))
			continue;
		in[rdma_state(&s->qp[i])]++;
		if (used++ < RDMA_REPORTED)
			rdma_report_qp(&s->qp[i], r);
	}
	sp_report_close(r);
	sp_report_uint(r, "qps_used", used);
	sp_report_open(r, "qps_in", false);
	for (unsigned i = 0; i < RDMA_STATES; i++)
		sp_report_uint(r, rdma_states[i], in[i]);
	sp_report_close(r);
}

static const struct sp_handler rdma_handler = {
	SP_HANDLER_HEAD,
	.name = "rdma",
	.doc = "RDMA as verbs have it: SEND, WRITE, READ and ATOMIC over RC, UC and UD",
	.params = rdma_params,
	.drops = rdma_drops,
	.counters = rdma_counters,
	.ctx_size = sizeof(struct rdma),
	.messages = SP_MESSAGES_NONE,
	.flags = SP_HANDLER_FLOWS | SP_HANDLER_HOSTED,
	.configure = rdma_configure,
	.attach = rdma_attach,
	.detach = rdma_detach,
	.payload_burst = rdma_payload,
	.command = rdma_command,
	.issue = rdma_issue,
	.timer = rdma_timer,
	.report = rdma_report,
	.exports = &rdma_exports,
	.control = rdma_control,
	.service = "cm",
};
SP_HANDLER(rdma_handler)
