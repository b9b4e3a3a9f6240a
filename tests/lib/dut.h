/* SPDX-License-Identifier: BSD-3-Clause */
/* The device under test: one NIC with a port. The test makes the packets that arrive, keeps the packets that
 * leave, and sets the time. */
#ifndef TESTS_DUT_H
#define TESTS_DUT_H

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "../../pipeline/control/context.h"
#include "../../pipeline/engine.h"
#include "../../pipeline/context.h"
#include "../../pipeline/process.h"
#include "../../pipeline/view.h"
#include "../../pipeline/worker.h"
#include "frame.h"
#include "suite.h"

#define DUT_QUEUES 4
#define DUT_US	   SP_US

/* ---- a port ---- */

struct dut_arrival {
	struct rte_mbuf *packet;
	sp_time at;
};

struct dut_sent {
	sp_time at;
	uint16_t queue;
	uint32_t len;
	uint8_t bytes[2048];
};

struct dut_port {
	struct {
		struct dut_arrival *arrival;
		unsigned head, tail, room;
	} rx[DUT_QUEUES];
	struct dut_sent *sent;
	unsigned sents, sent_room, fed;
	sp_time gap;	   /* a packet keeps the wire busy for so long; 0: takes everything at once */
	sp_time busy;	   /* until then */
	bool closed;	   /* takes nothing, and does not say when it will */
	bool forget;	   /* does not keep what is sent */
	uint64_t received; /* handed to the NIC */
};

void dut_need(void **array, unsigned *room, unsigned count, size_t size);
unsigned dut_receive(void *arg, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now);
unsigned dut_transmit(void *arg, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now);
sp_time dut_next(void *arg, uint16_t queue, bool blocked);
extern const struct sp_port_ops dut_ops;
void dut_port_free(struct dut_port *p);
/* Arrivals of a queue are fed in the order of their times. */
void dut_feed_bytes(struct dut_port *p, uint16_t queue, sp_time at, const void *bytes, uint32_t len);

/* ---- a NIC ---- */

#define DUT_IP4(a, b, c, d)                                                                                            \
	{                                                                                                              \
		[10] = 0xFF, [11] = 0xFF, a, b, c, d                                                                   \
	}
#define DUT_IP6(last)                                                                                                  \
	{                                                                                                              \
		0x20, 0x01, 0x0D, 0xB8, [15] = (last)                                                                  \
	}

extern const uint8_t dut_mac[6], dut_peer_mac[6], dut_own4[16], dut_peer4[16], dut_own6[16], dut_peer6[16];

struct dut {
	struct sp_nic_config config;
	struct sp_nic *nic;
	struct sp_dev *dev;
	struct dut_port port, exception;
	unsigned in_use; /* packet buffers at the start */
};

/* EAL arguments: a program that needs devices defines them, with NULL at the end. */
extern char *dut_eal[] __attribute__((weak));
/* The NIC that the frames of frame.h are for. Between the two calls a test may change r->config. */
void dut_prepare(struct dut *r, uint16_t workers);
void dut_create(struct dut *r);
void dut_with_exception(struct dut *r);
void dut_start(struct dut *r, uint16_t workers);
/* Also: no packet buffer has been lost on the way. */
void dut_stop(struct dut *r);
/* settings: "qp=5;filter=udp port 7" */
int dut_try_context(struct dut *r, const char *name, const char *handler, const char *settings, uint32_t *id,
		    struct sp_error *error);
uint32_t dut_context(struct dut *r, const char *name, const char *handler, const char *settings);
unsigned dut_poll(struct dut *r, sp_time now);
/* All that can happen at one time. */
void dut_settle(struct dut *r, sp_time now);
sp_time dut_deadline(struct dut *r);
/* Virtual time from `now` to `until`: polls when the NIC says so and never else. Fails when time stands still. Returns
 * the time reached. */
sp_time dut_run(struct dut *r, sp_time now, sp_time until);
uint64_t dut_counter(struct dut *r, uint32_t id, const char *name);

/* A field of struct sp_view, summed over the workers. */
#define dut_view(r, id, field) sp_context_sum(sp_context_by_id((r)->nic, (id)), offsetof(struct sp_view, field))

uint64_t dut_dropped(const char *reason);
/* Every packet received has ended in exactly one place. */
void dut_check_totals(struct dut *r);

/* ---- frames ---- */

/* Annex A17.3.3 with zlib: eight bytes of ones, then the packet with ones where routers may write. */
uint32_t dut_icrc(const uint8_t *l3, uint32_t len);
void dut_seal(struct frame *f);
void dut_roce(struct frame *f, enum frame_ip ip, uint32_t qp, uint32_t psn, const void *payload, uint32_t len);
void dut_udp(struct frame *f, uint16_t to_port, const void *payload, uint32_t len);
void dut_feed(struct dut *r, const struct frame *f);
/* A generator of the tests' own, so that a seed means the same everywhere. */
uint64_t dut_random(uint64_t *state);
/* The one that most programs need. */
extern struct dut dut;

#endif
