/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests of calls that do not come back: a port that is fed while workers run, handlers besides faulty.c, and what
 * config.fault has been called with. */
#ifndef TESTS_UNIT_STUCK_H
#define TESTS_UNIT_STUCK_H

#include <jansson.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "../../pipeline/host.h"
#include "../../pipeline/warden.h"
#include "rig.h"

#define STALL	(100 * SP_MS)
#define PATIENT 30 /* s, for what must come */
#define BAD	16 /* QPs */
#define GOOD	17
#define WORKERS 2

/* ---- a port: what is said goes to a queue, and comes from it in one burst ---- */

static struct {
	pthread_mutex_t lock;
	struct rte_mbuf *packet[256];
	unsigned count;
} queue[WORKERS] = {{.lock = PTHREAD_MUTEX_INITIALIZER}, {.lock = PTHREAD_MUTEX_INITIALIZER}};

static unsigned hear(void *port, uint16_t q, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	unsigned n = 0;

	(void)port, (void)now;
	pthread_mutex_lock(&queue[q].lock);
	for (; n < max && n < queue[q].count; n++)
		packet[n] = queue[q].packet[n];
	queue[q].count -= n;
	memmove(queue[q].packet, queue[q].packet + n, queue[q].count * sizeof(*packet));
	pthread_mutex_unlock(&queue[q].lock);
	return n;
}

static unsigned swallow(void *port, uint16_t q, struct rte_mbuf **packet, unsigned count, sp_time now)
{
	(void)port, (void)q, (void)now;
	rte_pktmbuf_free_bulk(packet, count);
	return count;
}

static sp_time whenever(void *port, uint16_t q, bool blocked)
{
	(void)port, (void)q, (void)blocked;
	return SP_NEVER;
}

static const struct sp_port_ops port_ops = {.receive = hear, .transmit = swallow, .next = whenever};

/* A packet for each letter of `what`: to the context with that QP, of message `key`. The queue is locked. */
static void put(unsigned q, uint32_t qp, const char *what, uint8_t key)
{
	for (; *what; what++) {
		const uint8_t payload[8] = {(uint8_t)*what, key};
		struct rte_mbuf *m = sp_packet_alloc();
		struct frame f;

		CU_ASSERT_PTR_NOT_NULL_FATAL(m);
		rig_roce(&f, FRAME_IP4, qp, 0, payload, sizeof(payload));
		memcpy(rte_pktmbuf_append(m, (uint16_t)f.len), f.bytes, f.len);
		queue[q].packet[queue[q].count++] = m;
	}
}

static void say(unsigned q, uint32_t qp, const char *what, uint8_t key)
{
	pthread_mutex_lock(&queue[q].lock);
	put(q, qp, what, key);
	pthread_mutex_unlock(&queue[q].lock);
}

/* ---- one that does right, and one that is linked in, among the NIC's own code ---- */

static const char *const good_counters[] = {"served", NULL};

static uint32_t good_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	(void)m, (void)p;
	c->counters[0]++;
	return SP_DONE;
}
static const struct sp_handler good = {SP_HANDLER_HEAD, .name = "good", .doc = "counts", .counters = good_counters,
				       .payload = good_payload};
SP_HANDLER(good)

static _Atomic bool stays;

int faulty_stays(void);
int faulty_stays(void)
{
	return stays;
}

/* The plug-in's letter N calls it. */
void faulty_outside(void);
void faulty_outside(void)
{
	const uint64_t end = rte_rdtsc() + rte_get_tsc_hz() / 100;

	while (rte_rdtsc() < end)
		;
}

static _Atomic bool spin_on;

static uint32_t linked_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	(void)m, (void)p;
	c->counters[0]++;
	while (spin_on)
		;
	return SP_DONE;
}
static const struct sp_handler linked = {SP_HANDLER_HEAD, .name = "linked", .doc = "spins", .counters = good_counters,
					 .payload = linked_payload};
SP_HANDLER(linked)

/* ---- what has been told ---- */

struct told {
	unsigned count;
	struct sp_fault fault[8]; /* strings and frames are copies */
	char context[8][40], handler[8][40], function[8][40], file[8][256];
	uint8_t frame[8][256];
};
static pthread_mutex_t told_lock = PTHREAD_MUTEX_INITIALIZER;
static struct told told, told_fatal; /* under told_lock */

static void on_fault(void *arg, const struct sp_fault *f)
{
	struct told *t = f->fatal ? &told_fatal : &told;

	CU_ASSERT_PTR_EQUAL(arg, &told);
	CU_ASSERT_STRING_EQUAL(f->nic, "nic0");
	pthread_mutex_lock(&told_lock);
	if (t->count < 8) {
		const unsigned i = t->count;

		t->fault[i] = *f;
		snprintf(t->context[i], 40, "%s", f->context);
		snprintf(t->handler[i], 40, "%s", f->handler);
		snprintf(t->function[i], 40, "%s", f->function);
		snprintf(t->file[i], 256, "%s", f->file ? f->file : "");
		if (f->frames && f->frame_len[0] <= sizeof(t->frame[i]))
			memcpy(t->frame[i], f->frame[0], f->frame_len[0]);
	}
	t->count++;
	pthread_mutex_unlock(&told_lock);
}

static unsigned count_of(const struct told *t)
{
	pthread_mutex_lock(&told_lock);
	const unsigned n = t->count;
	pthread_mutex_unlock(&told_lock);
	return n;
}

static unsigned faults(void)
{
	return count_of(&told);
}

#endif
