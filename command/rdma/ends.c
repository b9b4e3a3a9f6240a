/* SPDX-License-Identifier: BSD-3-Clause */
#include "ends.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "../nic_error.h"

#define MEMORY (64u << 20) /* for each of the areas of all queues */
#define GRH    64	   /* in front of the bytes of a receive: 40 are used, by UD */
#define WORD   64

enum kind { SENT = 1, CAME, WORD_SENT };
#define WR_ID(kind, q, n) ((uint64_t)(kind) << 56 | (uint64_t)(q)->index << 32 | (uint32_t)(n))

int rdma_fail(const struct rdma_asked *a, const char *format, ...)
{
	va_list args;

	fflush(stdout); /* keeps the lines of both streams in order */
	fprintf(stderr, "spindle rdma %s: ", a->verb);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return -1;
}

int rdma_fail_nic(const struct rdma_asked *a, const char *what, int rc)
{
	if (rc == -ENODEV || rc == -ECONNABORTED)
		return rdma_fail(a, rc == -ENODEV ? "the NIC has gone" : "the NIC has died");
	return rdma_fail(a, "%s: %s", what, strerror(-rc));
}

/* ---- the pattern ---- */
uint8_t rdma_byte(uint64_t message, uint64_t at)
{
	return (uint8_t)(message * 131 + at * 7 + (at >> 8) + 1);
}

void rdma_fill(uint8_t *bytes, uint64_t message, uint64_t len)
{
	for (uint64_t i = 0; i < len; i++)
		bytes[i] = rdma_byte(message, i);
}

bool rdma_right(const uint8_t *bytes, uint64_t message, uint64_t len)
{
	for (uint64_t i = 0; i < len; i++)
		if (bytes[i] != rdma_byte(message, i))
			return false;
	return true;
}

bool rdma_whole(const uint8_t *bytes, uint64_t len, uint32_t mtu)
{
	for (uint64_t i = 0; i < len; i++) {
		const uint64_t first = i - i % mtu;
		/* Messages differ by a constant. */
		const uint8_t message = (uint8_t)(bytes[first] - rdma_byte(0, first));

		if ((uint8_t)(bytes[i] - rdma_byte(0, i)) == message)
			continue;
		for (uint64_t k = first; k < len && k < first + mtu; k++)
			if (bytes[k])
				return false;
	}
	return true;
}

uint64_t rdma_slot(const struct rdma_ends *e, uint64_t message)
{
	return message % e->slots * e->stride;
}

/* ---- opening ---- */
int rdma_ends_attach(struct rdma_ends *e, const struct rdma_asked *a)
{
	const struct sp_rdma_attr attr = {.qps = a->client ? (uint32_t)a->queues : RDMA_QUEUES_MOST};
	struct sp_error error = {.text = ""};
	char text[300];
	int rc;

	memset(e, 0, sizeof(*e));
	e->asked = a;
	rc = sp_attach(a->nic, &e->dev);
	if (rc) {
		e->dev = NULL;
		command_nic_error(a->nic, rc, text, sizeof(text));
		return rdma_fail(a, "%s", text);
	}
	rc = sp_rdma_open(e->dev, &attr, &e->rdma, &error);
	if (rc && *error.text)
		return rdma_fail(a, "%s%s%s", error.key, *error.key ? ": " : "", error.text);
	return rc ? rdma_fail_nic(a, "context", rc) : 0;
}

static void sizes(struct rdma_ends *e)
{
	const uint64_t room = MEMORY / e->queues;

	e->stride = ((uint64_t)e->how.size + 63) / 64 * 64 + GRH;
	e->depth = e->how.depth;
	e->slots = room / e->stride < e->depth ? (uint32_t)(room / e->stride) : e->depth;
	e->slots = e->slots ? e->slots : 1;
	if (e->how.flags & RDMA_HELLO_VERIFY && e->depth > e->slots)
		e->depth = e->slots; /* bytes must stay until they have been looked at */
	/* Words need receives, too. Only SEND needs them for data. */
	e->recvs = e->how.op == RDMA_SEND ? 2 * e->depth : 16;
	e->recvs = e->recvs < 16 ? 16 : e->recvs;
	e->recv_slots = e->how.flags & RDMA_HELLO_VERIFY || e->recvs <= 16 ? e->recvs : 2 * e->slots;
}

/* Areas that the NIC has not made: an agent, the library, serves them. */
static int own_areas(struct rdma_ends *e, uint64_t area)
{
	const struct sp_rdma_range range = {.len = area * e->queues};
	int rc = sp_rdma_agent_start(e->rdma, NULL, NULL);

	if (rc && rc != -EBUSY) /* an earlier client's */
		return rdma_fail_nic(e->asked, "agent", rc);
	e->own = aligned_alloc(64, range.len);
	if (!e->own)
		return rdma_fail(e->asked, "no memory");
	memset(e->own, 0, range.len);
	rc = sp_rdma_mr_reg_ranges(
		e->pd, (uintptr_t)e->own, &range, 1,
		SP_RDMA_LOCAL_WRITE | SP_RDMA_REMOTE_WRITE | SP_RDMA_REMOTE_READ | SP_RDMA_REMOTE_ATOMIC, &e->fetched);
	return rc ? rdma_fail_nic(e->asked, "memory region", rc) : 0;
}

/* Memory of a queue: receives; slots for messages, one more for the answers to WRITEs; words. */
static int memory(struct rdma_ends *e)
{
	const uint64_t recv = e->recv_slots * (e->how.op == RDMA_SEND ? e->stride : GRH + WORD),
		       area = (e->slots + 1ull) * e->stride, all = recv + area + 2 * WORD;
	int rc = sp_mr_alloc(e->dev, all * e->queues, &e->memory);

	if (rc)
		return rdma_fail_nic(e->asked, "memory", rc);
	rc = sp_rdma_mr_reg(e->pd, e->memory, 0, e->memory->len,
			    SP_RDMA_LOCAL_WRITE | SP_RDMA_REMOTE_WRITE | SP_RDMA_REMOTE_READ | SP_RDMA_REMOTE_ATOMIC,
			    &e->mr);
	if (rc)
		return rdma_fail_nic(e->asked, "memory region", rc);
	if (e->asked->agent && own_areas(e, area))
		return -1;
	for (uint32_t i = 0; i < e->queues; i++) {
		e->queue[i].recv = (uint8_t *)e->memory->addr + i * all;
		e->queue[i].area = e->own ? e->own + i * area : e->queue[i].recv + recv;
		e->queue[i].word = e->queue[i].recv + recv + area;
		for (uint32_t s = 0; e->how.flags & RDMA_HELLO_VERIFY && e->how.op == RDMA_READ && s < e->slots; s++)
			rdma_fill(e->queue[i].area + s * e->stride, s, e->how.size);
	}
	return 0;
}

static uint64_t recv_bytes(const struct rdma_ends *e)
{
	return e->how.op == RDMA_SEND ? e->stride : GRH + WORD;
}

static uint8_t *recv_at(const struct rdma_ends *e, const struct rdma_queue *q, uint32_t number)
{
	return q->recv + number % e->recv_slots * recv_bytes(e);
}

/* A datagram has its 40 bytes in front; so that it begins at a multiple of 64, they begin at 24. */
static int receive(struct rdma_ends *e, const struct rdma_queue *q, uint32_t number)
{
	const unsigned front = e->how.type == SP_RDMA_UD ? GRH - SP_RDMA_GRH : GRH;
	const struct sp_rdma_sge sge = {(uintptr_t)recv_at(e, q, number) + front, (uint32_t)recv_bytes(e) - front,
					e->mr->lkey};
	const struct sp_rdma_recv_wr wr = {.wr_id = WR_ID(CAME, q, number), .sge = &sge, .sges = 1};

	const sp_time until = sp_clock() + 2 * SP_SEC;
	int rc;

	if (!e->srq)
		return sp_rdma_post_recv(q->qp, &wr, NULL);
	/* Another worker of the NIC may still copy what was in the entry before. */
	while ((rc = sp_rdma_post_srq_recv(e->srq, &wr, NULL)) == -EAGAIN && sp_clock() < until)
		sched_yield();
	return rc;
}

static int queue_open(struct rdma_ends *e, struct rdma_queue *q)
{
	const struct sp_rdma_qp_init init = {.type = (enum sp_rdma_qp_type)e->how.type,
					     .send_cq = e->cq,
					     .recv_cq = e->cq,
					     .srq = e->srq,
					     .send_wr = e->depth + 8,
					     .recv_wr = e->recvs,
					     .user = q};
	int rc = sp_rdma_qp_create(e->pd, &init, &q->qp);

	if (rc)
		return rdma_fail_nic(e->asked, "QP", rc);
	rc = sp_rdma_prepare(q->qp, &e->link);
	for (uint32_t i = 0; !rc && !e->srq && i < e->recvs; i++)
		rc = receive(e, q, i);
	return rc ? rdma_fail_nic(e->asked, "QP", rc) : 0;
}

/* A queue that all QPs take their receives from: as many as they would have had, if it may be so long. */
static int shared(struct rdma_ends *e)
{
	struct sp_rdma_srq_attr attr = {.sges = 1};
	struct sp_rdma_limits limits;
	int rc = sp_rdma_query(e->rdma, &limits);

	if (rc)
		return rdma_fail_nic(e->asked, "shared receive queue", rc);
	if (e->recvs > limits.wrs / e->queues)
		e->recvs = limits.wrs / e->queues;
	attr.entries = e->queues * e->recvs;
	rc = sp_rdma_srq_create(e->pd, &attr, &e->srq);
	for (uint32_t i = 0; !rc && i < attr.entries; i++)
		rc = receive(e, &e->queue[i % e->queues], i / e->queues);
	return rc ? rdma_fail_nic(e->asked, "shared receive queue", rc) : 0;
}

static int order(const void *left, const void *right)
{
	const struct rdma_number *a = left, *b = right;

	return a->qp < b->qp ? -1 : a->qp > b->qp;
}

static void note_numbers(struct rdma_ends *e)
{
	for (uint32_t i = 0; i < e->queues; i++)
		e->number[i] = (struct rdma_number){sp_rdma_qp_number(e->queue[i].qp), i};
	qsort(e->number, e->queues, sizeof(*e->number), order);
}

static struct rdma_queue *queue_of(const struct rdma_ends *e, uint32_t qp)
{
	const struct rdma_number key = {.qp = qp}, *n = bsearch(&key, e->number, e->queues, sizeof(key), order);

	return n ? &e->queue[n->index] : NULL;
}

int rdma_ends_open(struct rdma_ends *e)
{
	int rc;

	e->queues = e->how.queues;
	sizes(e);
	e->queue = calloc(e->queues, sizeof(*e->queue));
	e->number = calloc(e->queues, sizeof(*e->number));
	if (!e->queue || !e->number)
		return rdma_fail(e->asked, "no memory");
	for (uint32_t i = 0; i < e->queues; i++)
		e->queue[i].index = i;
	rc = sp_rdma_pd_alloc(e->rdma, &e->pd);
	if (rc)
		return rdma_fail_nic(e->asked, "protection domain", rc);
	rc = sp_rdma_cq_create(e->rdma, e->queues * (e->depth + 8 + e->recvs), true, NULL, &e->cq);
	if (rc)
		return rdma_fail_nic(e->asked, "completion queue", rc);
	rc = memory(e);
	if (!rc && e->asked->use_srq)
		rc = shared(e);
	for (uint32_t i = 0; !rc && i < e->queues; i++)
		rc = queue_open(e, &e->queue[i]);
	if (!rc)
		note_numbers(e);
	return rc;
}

/* -EAGAIN: ports still have frames; they are given two seconds. */
#define END(e, call)                                                                                                   \
	do {                                                                                                           \
		for (sp_time until = sp_clock() + 2 * SP_SEC; (call) == -EAGAIN && sp_clock() < until; sched_yield())  \
			sp_progress((e)->dev, sp_clock());                                                             \
	} while (0)

void rdma_ends_close(struct rdma_ends *e)
{
	for (uint32_t i = 0; e->queue && i < e->queues; i++) {
		struct rdma_queue *q = &e->queue[i];

		if (q->cm)
			sp_rdma_cm_destroy(q->cm);
		END(e, sp_rdma_qp_destroy(q->qp));
		END(e, sp_rdma_ah_destroy(q->ah));
	}
	free(e->queue);
	free(e->number);
	END(e, sp_rdma_srq_destroy(e->srq));
	END(e, sp_rdma_mr_dereg(e->mr));
	END(e, sp_rdma_mr_dereg(e->fetched));
	free(e->own);
	END(e, sp_mr_free(e->memory));
	END(e, sp_rdma_cq_destroy(e->cq));
	END(e, sp_rdma_pd_dealloc(e->pd));
	e->queue = NULL;
	e->number = NULL;
	e->srq = NULL;
	e->mr = e->fetched = NULL;
	e->own = NULL;
	e->memory = NULL;
	e->cq = NULL;
	e->pd = NULL;
}

void rdma_ends_detach(struct rdma_ends *e)
{
	rdma_ends_close(e);
	if (e->rdma)
		END(e, sp_rdma_close(e->rdma));
	if (e->dev)
		sp_dev_close(e->dev);
}

/* ---- posting ---- */
int rdma_ends_post(struct rdma_ends *e, struct rdma_queue *q, const struct rdma_message *m, unsigned count)
{
	struct sp_rdma_send_wr wr[RDMA_BATCH];
	struct sp_rdma_sge sge[RDMA_BATCH];
	int rc;

	for (unsigned i = 0; i < count; i++) {
		sge[i] = (struct sp_rdma_sge){(uintptr_t)m[i].bytes, m[i].len, e->mr->lkey};
		wr[i] = (struct sp_rdma_send_wr){.next = i + 1 < count ? &wr[i + 1] : NULL,
						 .wr_id = WR_ID(SENT, q, m[i].number),
						 .op = m[i].op,
						 .flags = m[i].signaled ? SP_RDMA_SIGNALED : 0,
						 .sge = &sge[i],
						 .sges = m[i].len ? 1 : 0,
						 .imm = htonl(m[i].imm),
						 .remote = m[i].remote,
						 .rkey = q->rkey,
						 .compare_add = 1,
						 .ah = q->ah,
						 .remote_qp = q->remote_qp,
						 .qkey = q->qkey};
	}
	rc = sp_rdma_post_send(q->qp, wr, NULL);
	return rc ? rdma_fail_nic(e->asked, "posting", rc) : 0;
}

int rdma_ends_say(struct rdma_ends *e, struct rdma_queue *q, const struct rdma_word *word, uint32_t imm)
{
	const struct sp_rdma_sge sge = {(uintptr_t)q->word, sizeof(*word), e->mr->lkey};
	const struct sp_rdma_send_wr wr = {.wr_id = WR_ID(WORD_SENT, q, 0),
					   .op = SP_RDMA_WR_SEND_IMM,
					   .flags = SP_RDMA_SIGNALED | SP_RDMA_SOLICITED,
					   .sge = &sge,
					   .sges = 1,
					   .imm = htonl(imm),
					   .ah = q->ah,
					   .remote_qp = q->remote_qp,
					   .qkey = q->qkey};
	int rc;

	if (q->word_busy) { /* the one before may have arrived, and its acknowledgement got lost */
		q->next = *word;
		q->next_imm = imm;
		return 0;
	}
	q->next_imm = 0;
	memcpy(q->word, word, sizeof(*word));
	rc = sp_rdma_post_send(q->qp, &wr, NULL);
	q->word_busy = !rc;
	return rc ? rdma_fail_nic(e->asked, "posting", rc) : 0;
}

/* ---- completions ---- */
static int word_sent(struct rdma_ends *e, struct rdma_queue *q)
{
	const struct rdma_word next = q->next;

	q->word_busy = false;
	return q->next_imm ? rdma_ends_say(e, q, &next, q->next_imm) : 0;
}

static const char *status_text(int status)
{
	switch (status) {
	case SP_RDMA_LOC_LEN_ERR:
		return "a message was longer than its receive";
	case SP_RDMA_LOC_PROT_ERR:
	case SP_RDMA_LOC_ACCESS_ERR:
		return "protection error here";
	case SP_RDMA_REM_INV_REQ_ERR:
		return "the peer calls a request invalid";
	case SP_RDMA_REM_ACCESS_ERR:
		return "the peer gives no access";
	case SP_RDMA_REM_OP_ERR:
		return "the peer failed";
	case SP_RDMA_RETRY_EXC_ERR:
		return "the peer does not answer";
	case SP_RDMA_RNR_RETRY_EXC_ERR:
		return "the peer has no receive";
	case SP_RDMA_FLUSHED:
		return "flushed";
	default:
		return "failed";
	}
}

/* room: the queue whose memory the receive was of, which is q's own but for a shared receive queue. */
static int took(struct rdma_ends *e, struct rdma_queue *q, const struct rdma_queue *room, const struct sp_rdma_wc *wc)
{
	const uint32_t number = (uint32_t)wc->wr_id;
	const bool ud = e->how.type == SP_RDMA_UD;
	const uint8_t *bytes = recv_at(e, room, number) + GRH;
	const uint32_t imm = wc->flags & SP_RDMA_WC_IMM ? ntohl(wc->imm) : UINT32_MAX - 3;
	struct rdma_word word;
	uint32_t len = wc->len;
	int rc;

	if (ud) /* the length counts the 40 bytes in front */
		len = len < SP_RDMA_GRH ? 0 : len - SP_RDMA_GRH;
	if (len > recv_bytes(e) - GRH)
		return rdma_fail(e->asked, "the NIC says that more has come than there was room for");
	if (imm >= RDMA_BYE && len == sizeof(word)) {
		memcpy(&word, bytes, sizeof(word));
		rc = e->word(e, q, &word, imm);
	} else {
		rc = e->came(e, q, bytes, len, imm);
	}
	if (rc)
		return rc;
	rc = receive(e, room, number);
	return rc ? rdma_fail_nic(e->asked, "posting", rc) : 0;
}

int rdma_ends_poll(struct rdma_ends *e)
{
	struct sp_rdma_wc wc[32];
	const int n = sp_rdma_poll_cq(e->cq, wc, 32);
	int rc = 0;

	if (n < 0)
		return rdma_fail_nic(e->asked, "completions", n);
	for (int i = 0; i < n && !rc; i++) {
		const uint32_t index = (uint32_t)(wc[i].wr_id >> 32) & 0xFFFF;
		struct rdma_queue *room = index < e->queues ? &e->queue[index] : NULL;
		const unsigned kind = (unsigned)(wc[i].wr_id >> 56);
		struct rdma_queue *q = kind == CAME && e->srq ? queue_of(e, wc[i].qp) : room;

		if (!q || !room)
			return rdma_fail(e->asked, "a completion of nothing");
		if (wc[i].status != SP_RDMA_OK) {
			if (q->ended) /* the peer has gone, as it has said */
				continue;
			return rdma_fail(e->asked, "QP %u: %s (status %d)", wc[i].qp, status_text((int)wc[i].status),
					 (int)wc[i].status);
		}
		if (kind == CAME)
			rc = took(e, q, room, &wc[i]);
		else if (kind == WORD_SENT)
			rc = word_sent(e, q);
		else if (kind == SENT)
			rc = e->sent(e, q, (uint32_t)wc[i].wr_id);
	}
	return rc ? -1 : n;
}

int rdma_ends_wait(struct rdma_ends *e)
{
	const int n = rdma_ends_poll(e);
	int rc;

	if (n) {
		e->idle = 0;
		return n;
	}
	e->idle++;
	if (e->asked->events && e->idle > 16) {
		rc = sp_rdma_cq_wait(e->cq, 10 * SP_MS);
		return rc && rc != -ETIMEDOUT ? rdma_fail_nic(e->asked, "waiting", rc) : 0;
	}
	if (e->idle % 16 == 0)
		sched_yield();
	if (e->idle % 4096 == 0) { /* is the NIC still there? */
		rc = sp_progress(e->dev, sp_clock());
		if (rc)
			return rdma_fail_nic(e->asked, "waiting", rc);
	}
	return 0;
}
