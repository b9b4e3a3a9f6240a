/* SPDX-License-Identifier: BSD-3-Clause */
#include "stuck.h"

#include "ports.h"

/* ---- a port: what is said goes to a queue, and comes from it in one burst ---- */

struct stuck_queue stuck_queue[WORKERS] = {{.lock = PTHREAD_MUTEX_INITIALIZER}, {.lock = PTHREAD_MUTEX_INITIALIZER}};

static unsigned hear(void *port, uint16_t q, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	unsigned n = 0;

	pthread_mutex_lock(&stuck_queue[q].lock);
	for (; n < max && n < stuck_queue[q].count; n++)
		packet[n] = stuck_queue[q].packet[n];
	stuck_queue[q].count -= n;
	memmove(stuck_queue[q].packet, stuck_queue[q].packet + n, stuck_queue[q].count * sizeof(*packet));
	pthread_mutex_unlock(&stuck_queue[q].lock);
	return n;
}

const struct sp_port_ops stuck_port_ops = {.receive = hear, .transmit = port_swallow, .next = port_never};

/* A packet for each letter of `what`: to the context with that QP, of message `key`. The queue is locked. */
void stuck_put(unsigned q, uint32_t qp, const char *what, uint8_t key)
{
	for (; *what; what++) {
		const uint8_t payload[8] = {(uint8_t)*what, key};
		struct rte_mbuf *m = sp_packet_alloc();
		struct frame f;

		CU_ASSERT_PTR_NOT_NULL_FATAL(m);
		dut_roce(&f, FRAME_IP4, qp, 0, payload, sizeof(payload));
		memcpy(rte_pktmbuf_append(m, (uint16_t)f.len), f.bytes, f.len);
		stuck_queue[q].packet[stuck_queue[q].count++] = m;
	}
}

void stuck_say(unsigned q, uint32_t qp, const char *what, uint8_t key)
{
	pthread_mutex_lock(&stuck_queue[q].lock);
	stuck_put(q, qp, what, key);
	pthread_mutex_unlock(&stuck_queue[q].lock);
}

/* ---- one that does right, and one that is linked in, among the NIC's own code ---- */

static const char *const good_counters[] = {"served", NULL};

static uint32_t good_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	c->counters[0]++;
	return SP_DONE;
}
static const struct sp_handler good = {SP_HANDLER_HEAD, .name = "good", .doc = "counts", .counters = good_counters,
				       .payload = good_payload};
SP_HANDLER(good)

_Atomic bool stuck_stays;

int faulty_stays(void)
{
	return stuck_stays;
}

void faulty_outside(void)
{
	const uint64_t end = rte_rdtsc() + rte_get_tsc_hz() / 100;

	while (rte_rdtsc() < end)
		;
}

_Atomic bool stuck_spin_on;

static uint32_t linked_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	c->counters[0]++;
	while (stuck_spin_on)
		;
	return SP_DONE;
}
static const struct sp_handler linked = {SP_HANDLER_HEAD, .name = "linked", .doc = "spins", .counters = good_counters,
					 .payload = linked_payload};
SP_HANDLER(linked)

/* ---- what has been told ---- */

static pthread_mutex_t stuck_lock = PTHREAD_MUTEX_INITIALIZER;
struct stuck_told stuck_told, stuck_fatal; /* under stuck_lock */

void stuck_on_fault(void *arg, const struct sp_fault *f)
{
	struct stuck_told *t = f->fatal ? &stuck_fatal : &stuck_told;

	CU_ASSERT_PTR_EQUAL(arg, &stuck_told);
	CU_ASSERT_STRING_EQUAL(f->nic, "nic0");
	pthread_mutex_lock(&stuck_lock);
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
	pthread_mutex_unlock(&stuck_lock);
}

unsigned stuck_count_of(const struct stuck_told *t)
{
	pthread_mutex_lock(&stuck_lock);
	const unsigned n = t->count;
	pthread_mutex_unlock(&stuck_lock);
	return n;
}

unsigned stuck_faults(void)
{
	return stuck_count_of(&stuck_told);
}
