/* SPDX-License-Identifier: BSD-3-Clause */
/* The end that is asked: it does what the client's private data says. */
#include "serve.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <string.h>

#include "../../handlers/wire/cm.h"
#include "../interrupt.h"
#include "client.h"
#include "show.h"

struct server {
	struct rdma_ends e;
	struct sp_rdma_cm *listener[2]; /* connections, datagrams */
	uint32_t accepted, gone;
	bool busy;	       /* with a client */
	bool bye, failed;      /* it has said so; bytes were wrong */
	sp_time heard;	       /* at least until then */
	uint64_t size, stamps; /* lat --op write: bytes, and WRITEs that have come */
	bool waits;	       /* --keep: the next client is there, while this one's end is awaited */
	struct sp_rdma_cm_event next;
};

/* ---- what comes ---- */
static struct server *server_of(struct rdma_ends *e)
{
	return (struct server *)(void *)((char *)e - offsetof(struct server, e));
}

static int echo(struct rdma_ends *e, struct rdma_queue *q, const uint8_t *bytes, uint32_t len, uint32_t imm)
{
	const struct rdma_message m = {
		.op = SP_RDMA_WR_SEND_IMM, .len = len, .bytes = q->area, .imm = imm, .signaled = true};

	if (q->posted - q->done >= e->depth) /* echoes of lost messages; the client does not wait for this one */
		return 0;
	if (e->how.flags & RDMA_HELLO_VERIFY)
		memcpy(q->area, bytes, len);
	q->posted++;
	return rdma_ends_post(e, q, &m, 1);
}

static int came(struct rdma_ends *e, struct rdma_queue *q, const uint8_t *bytes, uint32_t len, uint32_t imm)
{
	if (e->how.op != RDMA_SEND)
		return 0;
	q->came++;
	/* Where nothing gets lost, messages of a QP come in their order: one that was another QP's does not fit. */
	if (e->how.flags & RDMA_HELLO_VERIFY &&
	    (!rdma_right(bytes, imm, len) ||
	     (e->how.type == SP_RDMA_RC && e->how.mode == RDMA_BW && imm != (uint32_t)((q->came - 1) & 0x7FFFFFFF))))
		q->bad++;
	return e->how.mode == RDMA_BW ? 0 : echo(e, q, bytes, len, imm);
}

static int sent(struct rdma_ends *e, struct rdma_queue *q, uint32_t number)
{
	(void)e, (void)number;
	q->done++;
	return 0;
}

/* ---- words ---- */
static void start(struct rdma_ends *e, const struct rdma_word *word)
{
	struct server *s = server_of(e);

	s->size = word->size < e->how.size ? word->size : e->how.size;
	s->stamps = 0;
	for (uint32_t i = 0; i < e->queues; i++) {
		e->queue[i].came = e->queue[i].bad = 0;
		if (e->how.op != RDMA_READ)
			memset(e->queue[i].area, 0, e->slots * e->stride);
	}
}

/* Each slot must have the last message that was for it. A QP of UC may have lost packets. */
static uint64_t written(const struct rdma_ends *e, const struct rdma_queue *q, uint64_t count, uint64_t size)
{
	uint64_t bad = 0;

	for (uint64_t m = count > e->slots ? count - e->slots : 0; m < count; m++)
		bad += e->how.type == SP_RDMA_RC ? !rdma_right(q->area + rdma_slot(e, m), m, size)
						 : !rdma_whole(q->area + rdma_slot(e, m), size, e->how.mtu);
	return bad;
}

static void finish(struct rdma_ends *e, const struct rdma_word *word, struct rdma_word *answer)
{
	const bool verify = e->how.flags & RDMA_HELLO_VERIFY && e->how.mode == RDMA_BW;
	struct server *s = server_of(e);
	uint64_t sum;

	for (uint32_t i = 0; i < e->queues; i++) {
		const struct rdma_queue *q = &e->queue[i];

		answer->count += q->came;
		answer->bad += q->bad;
		/* With a duration the queues have sent different numbers: only the first one's is known. */
		if (verify && e->how.op == RDMA_WRITE && !i)
			answer->bad += written(e, q, word->count, s->size);
		if (verify && e->how.op == RDMA_ATOMIC && !i) {
			memcpy(&sum, q->area, sizeof(sum));
			answer->bad += sum != word->count;
		}
	}
	s->failed |= answer->bad > 0;
}

static int word(struct rdma_ends *e, struct rdma_queue *q, const struct rdma_word *w, uint32_t imm)
{
	struct server *s = server_of(e);

	if (w->number != q->last_word) {
		q->last_word = w->number;
		q->answer = (struct rdma_word){.number = w->number, .size = w->size};
		if (imm == RDMA_START)
			start(e, w);
		else if (imm == RDMA_END)
			finish(e, w, &q->answer);
		else
			s->bye = true;
	}
	return rdma_ends_say(e, q, &q->answer, imm);
}

/* lat --op write: a WRITE is answered with one as soon as its last byte is there. */
static int stamps(struct server *s)
{
	struct rdma_ends *e = &s->e;
	struct rdma_queue *q = &e->queue[0];
	struct rdma_message m;

	if (e->how.mode != RDMA_LAT || e->how.op != RDMA_WRITE || !s->size || !q->connected)
		return 0;
	if (__atomic_load_n(&q->area[s->size - 1], __ATOMIC_ACQUIRE) != 1 + s->stamps % 255)
		return 0;
	m = (struct rdma_message){.op = SP_RDMA_WR_WRITE,
				  .len = (uint32_t)s->size,
				  .bytes = q->area,
				  .remote = q->va + e->slots * e->stride,
				  .signaled = true};
	s->stamps++;
	q->posted++;
	return rdma_ends_post(e, q, &m, 1);
}

/* ---- connections ---- */
static bool sane(const struct rdma_asked *a, const struct rdma_hello *h, bool datagram)
{
	return h->magic == RDMA_MAGIC && h->mode == a->mode && h->op <= RDMA_ATOMIC && h->size &&
	       h->size <= RDMA_SIZE_MOST && h->depth && h->depth <= RDMA_DEPTH_MOST && h->queues &&
	       h->queues <= RDMA_QUEUES_MOST && h->index < h->queues && h->mtu >= 256 &&
	       (h->op != RDMA_ATOMIC || h->size == 8) &&
	       (h->type == SP_RDMA_UD
			? datagram && h->op == RDMA_SEND
			: !datagram && (h->type == SP_RDMA_RC || (h->type == SP_RDMA_UC && h->op <= RDMA_WRITE)));
}

static int reject(struct sp_rdma_cm *cm)
{
	struct sp_cm_param param;

	memset(&param, 0, sizeof(param));
	param.reason = SP_CM_CONSUMER;
	sp_rdma_cm_reject(cm, &param, NULL);
	sp_rdma_cm_destroy(cm);
	return 0;
}

static int accept_queue(struct server *s, struct rdma_queue *q, const struct sp_rdma_cm_event *event,
			const struct rdma_hello *h)
{
	struct rdma_ends *e = &s->e;
	const struct rdma_reply reply = {RDMA_MAGIC, (e->fetched ? e->fetched : e->mr)->rkey, (uintptr_t)q->area};
	struct sp_rdma_ah ah = {.hop_limit = 64};
	int rc = 0;

	q->cm = event->cm;
	sp_rdma_cm_set_user(q->cm, q);
	q->rkey = h->rkey;
	q->va = h->va;
	if (h->type == SP_RDMA_UD) {
		memcpy(ah.ip, event->peer, sizeof(ah.ip));
		rc = sp_rdma_ah_create(e->pd, &ah, &q->ah);
		q->remote_qp = h->qp;
		q->qkey = 0x80000000; /* our own */
	}
	e->link.private_data = &reply;
	e->link.private_len = sizeof(reply);
	e->link.selective = true; /* the client asks for it, or not */
	rc = rc ? rc : sp_rdma_accept(event, q->qp, &e->link);
	if (rc)
		return rdma_fail_nic(e->asked, "accepting", rc);
	q->connected = true;
	s->accepted++;
	return 0;
}

static int request(struct server *s, const struct sp_rdma_cm_event *event)
{
	struct rdma_ends *e = &s->e;
	struct rdma_hello h;

	if (event->private_len < sizeof(h))
		return reject(event->cm);
	memcpy(&h, event->private_data, sizeof(h));
	if (!sane(e->asked, &h, event->listener == s->listener[1]))
		return reject(event->cm);
	if (s->busy && h.session != e->how.session && s->bye && e->asked->keep && !s->waits) {
		s->waits = true;
		s->next = *event;
		return 0;
	}
	if (s->busy && (h.session != e->how.session || h.index >= e->queues))
		return reject(event->cm);
	if (!s->busy) {
		s->busy = true;
		e->how = h;
		if (rdma_ends_open(e)) {
			reject(event->cm);
			return -1;
		}
	}
	s->heard = sp_clock();
	return e->queue[h.index].cm ? reject(event->cm) : accept_queue(s, &e->queue[h.index], event, &h);
}

static int events(struct server *s)
{
	struct sp_rdma_cm_event event;
	int rc;

	while ((rc = sp_rdma_cm_take(s->e.rdma, &event)) == 1) {
		struct rdma_queue *q = event.user;

		if (event.type == SP_CM_EVENT_REQUEST) {
			if (request(s, &event))
				return -1;
			continue;
		}
		if (!q || event.type == SP_CM_EVENT_ESTABLISHED || event.type == SP_CM_EVENT_TIMEWAIT)
			continue;
		/* The client has gone: in order only after its last word. */
		s->gone += !q->ended;
		q->ended = true;
		if (event.type == SP_CM_EVENT_DISCONNECTED)
			sp_rdma_cm_disconnect(q->cm);
		else if (!s->bye)
			return rdma_fail(s->e.asked, "the connection was not made (event %d)", (int)event.type);
	}
	return rc ? rdma_fail_nic(s->e.asked, "events", rc) : 0;
}

/* ---- the server ---- */
static int listen_at(struct server *s)
{
	const struct rdma_asked *a = s->e.asked;
	uint16_t port = (uint16_t)a->port;

	for (int i = 0; i < 2; i++) {
		int rc = sp_rdma_cm_create(s->e.rdma, i ? SP_CM_DATAGRAM : SP_CM_CONNECTED, i ? 0x0111 : 0x0106, NULL,
					   &s->listener[i]);

		rc = rc ? rc : sp_rdma_cm_listen(s->listener[i], a->has_from ? a->from : NULL, &port, 128);
		if (rc)
			return rdma_fail_nic(a, "listening", rc);
	}
	show_listening(a, port);
	return 0;
}

/* Whether the client that is served has ended. An answer to its last word that got lost is repeated as long as the QP
 * is there: a reliable one stays until the peer has acknowledged the answer. */
static bool ended(const struct server *s)
{
	const struct rdma_ends *e = &s->e;
	const sp_time silent = sp_clock() - s->heard;

	if (s->bye && silent > (e->queue[0].word_busy ? RDMA_SILENCE : SP_SEC))
		return true;
	return e->how.type == SP_RDMA_UD ? silent > 3 * RDMA_SILENCE : s->gone == s->accepted;
}

static int client(struct server *s)
{
	struct rdma_ends *e = &s->e;
	int rc = 0;

	for (unsigned round = 0; !rc && !interrupt_came(); round++) {
		const int n =
			e->how.mode == RDMA_LAT && e->how.op == RDMA_WRITE ? rdma_ends_poll(e) : rdma_ends_wait(e);

		rc = n < 0 ? -1 : stamps(s);
		if (n > 0)
			s->heard = sp_clock();
		if (!rc && (round % 64 == 0 || (!n && e->asked->events))) {
			rc = events(s);
			if (!rc && ended(s))
				break;
		}
	}
	if (!rc && !s->bye && !interrupt_came())
		rc = rdma_fail(e->asked, "the client has gone in the middle");
	return rc;
}

static int serve(struct server *s)
{
	struct rdma_ends *e = &s->e;
	int rc = 0;

	if (s->waits) {
		s->waits = false;
		rc = request(s, &s->next);
	}
	while (!rc && !s->busy && !interrupt_came()) {
		struct sp_rdma_cm_event event;

		rc = sp_rdma_cm_wait(e->rdma, &event, 100 * SP_MS);
		if (rc && rc != -ETIMEDOUT)
			return rdma_fail_nic(e->asked, "waiting", rc);
		if (rc)
			rc = 0;
		else if (event.type == SP_CM_EVENT_REQUEST)
			rc = request(s, &event);
	}
	if (!rc && s->busy)
		rc = client(s);
	if (!rc && s->failed)
		rc = rdma_fail(e->asked, "messages had wrong bytes");
	rdma_ends_close(e);
	s->busy = s->bye = s->failed = false;
	s->accepted = s->gone = 0;
	s->size = 0;
	return rc;
}

int rdma_serve(const struct rdma_asked *a)
{
	struct server s;
	int rc;

	memset(&s, 0, sizeof(s));
	rc = rdma_ends_attach(&s.e, a);
	s.e.came = came;
	s.e.sent = sent;
	s.e.word = word;
	rc = rc ? rc : listen_at(&s);
	if (!rc)
		do
			rc = serve(&s);
		while (a->keep && !interrupt_came() && !sp_progress(s.e.dev, sp_clock()));
	rdma_ends_detach(&s.e);
	return rc;
}
