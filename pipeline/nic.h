/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The NIC as an object, for programs that embed one (`pkg-config spindle`, #include <nic.h>).
 * Threads: create, destroy, start, stop, context_* and report are control calls, one thread at a time. Workers started
 * by sp_nic_start may run meanwhile. Whoever calls sp_nic_poll himself (virtual time, own threads) must not be inside
 * it during a control call.
 */
#ifndef SPINDLE_NIC_H
#define SPINDLE_NIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../host-api/spindle.h"

#define SP_MAX_PORTS	 4
#define SP_MAX_ADDRESSES 8
#define SP_MAX_STATIC	 64

struct sp_nic;
struct sp_report;
struct rte_mbuf;

/* A port that is no ethdev: the testbed's links and captures. Called by the worker that owns the queue. */
struct sp_port_ops {
	/* Packets that have arrived by `now`; the caller owns them. */
	unsigned (*receive)(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now);
	/* Takes the first packets of the array, returns how many; the rest stays the caller's. */
	unsigned (*transmit)(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now);
	/* When receive (or, after a short transmit, transmit) has something new; SP_NEVER. */
	sp_time (*next)(void *port, uint16_t queue, bool transmit_blocked);
};

struct sp_port_config {
	const char *device;	       /* ethdev name (net_pcap0, 0000:01:00.0, ...), or NULL with ops */
	const struct sp_port_ops *ops; /* not owned */
	void *ops_arg;
};

struct sp_address {
	uint8_t ip[16]; /* IPv4 mapped (::ffff:a.b.c.d) */
	uint8_t prefix; /* bits of the IP version's own length: 24, 64 */
};

struct sp_neighbour_config {
	uint8_t ip[16];
	uint8_t mac[6];
};

/* Zero means default for every field. */
struct sp_nic_config {
	char name[32];
	struct sp_address address[SP_MAX_ADDRESSES];
	unsigned addresses;
	uint8_t gateway4[16], gateway6[16]; /* all zero: none */
	uint8_t mac[6];			    /* all zero: the port's, or one from the seed */
	uint32_t mtu;			    /* layer 3, bytes; default 1500 */
	uint16_t workers;		    /* default 1, at most 16 */
	bool icrc_off;
	uint64_t seed;				  /* default 1 */
	struct sp_port_config port[SP_MAX_PORTS]; /* what handlers send by sp_send_roce leaves by the first */
	unsigned ports;
	struct sp_port_config exception; /* none when both members are NULL */
	struct sp_neighbour_config neighbour[SP_MAX_STATIC];
	unsigned neighbours;
	bool any_source;       /* replay: contexts take packets from any source address */
	uint64_t memory_limit; /* bytes of registered memory and context state; default 64 GiB */
	enum { SP_IDLE_SLEEP, SP_IDLE_YIELD, SP_IDLE_SPIN } idle;
};

/* What a context is made of; settings: `qp`, `filter`, `companion`, `rate`, `message-timeout`, and the handler's own.
 */
struct sp_context_config {
	const char *name, *handler;
	const struct sp_setting *setting;
	size_t settings;
};

/* EAL for this process, once: further calls succeed without effect. argv (without program name) may be NULL. Unless it
 * says otherwise: no huge pages, 512 MiB, no PCI device (name one with -a), no telemetry, errors only. */
int sp_eal_init(int argc, char **argv, struct sp_error *error);

int sp_nic_create(const struct sp_nic_config *config, struct sp_error *error, struct sp_nic **nic);
/* Ends workers, contexts and ports. Devices from sp_nic_dev must be closed before. NULL is fine. */
void sp_nic_destroy(struct sp_nic *nic);

int sp_nic_context_add(struct sp_nic *nic, const struct sp_context_config *config, uint32_t *id,
		       struct sp_error *error);
/* -ENOENT. The area of a context that a device has opened stays until that device closes it (sp_context_close). Not
 * while another thread is in a call of that device. */
int sp_nic_context_remove(struct sp_nic *nic, uint32_t id);
int sp_nic_context_find(struct sp_nic *nic, const char *name, uint32_t *id); /* -ENOENT */
uint64_t sp_nic_context_post_bytes(struct sp_nic *nic, uint32_t id);
uint64_t sp_nic_context_counter(struct sp_nic *nic, uint32_t id, const char *name); /* summed over workers; also
				"packets", "bytes" and drop reasons; 0 when unknown */

/* One round of one worker: receive, parse, match, dispatch, timers, work, commands, transmit. Returns how much was
 * done. */
unsigned sp_nic_poll(struct sp_nic *nic, uint16_t worker, sp_time now);
/* When sp_nic_poll has something to do at the latest (timers, pacing, ports with ops); SP_NEVER. */
sp_time sp_nic_next_deadline(struct sp_nic *nic, uint16_t worker);
uint16_t sp_nic_workers(const struct sp_nic *nic);

/* Threads for the workers, one each, in real time (sp_clock). */
int sp_nic_start(struct sp_nic *nic);
void sp_nic_stop(struct sp_nic *nic);

/* The NIC as a device. driven: sp_progress polls all workers (for programs without worker threads). */
int sp_nic_dev(struct sp_nic *nic, bool driven, struct sp_dev **dev);

struct sp_nic_totals {
	uint64_t received, bytes; /* packets, bytes of frames */
	uint64_t taken;		  /* by contexts, or answered by the NIC itself (ARP, ND, ICMP) */
	uint64_t answered;	  /* those of `taken` that the NIC itself answered */
	uint64_t forwarded, dropped;
	uint64_t sent, sent_bytes;
};
/* Counters are plain: exact while no worker runs, about right while one does.
 * received = taken + forwarded + dropped, always (once no worker is inside a poll and no packet is parked). */
void sp_nic_totals(struct sp_nic *nic, struct sp_nic_totals *totals);
uint64_t sp_nic_dropped(struct sp_nic *nic, const char *reason);
/* `packets`, `bytes`, `sent`, `taken`, `answered`, `forwarded`, `drops` {}, `ports` [], `workers` [], `handlers` {},
 * `contexts` {}. The caller polls the workers, or they are stopped for the moment of the call. */
void sp_nic_report(struct sp_nic *nic, struct sp_report *report);

/* A buffer from the process's shared packet pool, for port ops; NULL when empty. */
struct rte_mbuf *sp_packet_alloc(void);

/* Reports into JSON text (caller frees), see pipeline/report.c. */
struct sp_report *sp_report_new(void);
char *sp_report_finish(struct sp_report *report);

/* Handlers known to this process, in alphabetical order; NULL past the last. */
const struct sp_handler *sp_handler_next(const struct sp_handler *after);
const struct sp_handler *sp_handler_find(const char *name);

#endif
