/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The NIC as an object, for programs that embed one (`pkg-config spindle`, #include <nic.h>). Threads: create, destroy,
 * start, stop, context_* and report are control calls: make them from one thread at a time. Workers started by
 * sp_nic_start may run meanwhile. A program that calls sp_nic_poll itself (virtual time, own threads) must not be
 * inside sp_nic_poll during a control call.
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
struct sp_handler;
struct rte_mbuf;

/* A port without an ethdev: a link or a capture of the testbed. The worker that owns the queue makes the calls. */
struct sp_port_ops {
	/* Returns the packets that have arrived by `now`; the caller owns them. */
	unsigned (*receive)(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now);
	/* Takes packets from the front of the array and returns how many; the caller keeps the rest. */
	unsigned (*transmit)(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now);
	/* When to call receive again, or transmit after a short one; SP_NEVER: unknown. */
	sp_time (*next)(void *port, uint16_t queue, bool transmit_blocked);
	/* transmit() accepts multi-segment packets with external buffers in application memory (zero copy). It reads
	 * them before it frees them, and never after sp_nic_destroy. */
	bool external;
	/* A descriptor that is readable from the moment on at which something comes for the queue, until receive() has
	 * taken it; edges are enough. A worker with nothing to do sleeps until then. -1, or no function: it looks every
	 * 250 us. The same at each call; the port closes it after the NIC is gone. */
	int (*descriptor)(void *port, uint16_t queue);
};

struct sp_port_config {
	const char *device;	       /* an ethdev's name or, as in nic.ini, KIND:TARGET[,arguments]; NULL with ops */
	const struct sp_port_ops *ops; /* not owned */
	void *ops_arg;
};

struct sp_address {
	uint8_t ip[16]; /* IPv4 mapped (::ffff:a.b.c.d) */
	uint8_t prefix; /* bits of an IPv4 or IPv6 address (24, 64); 0: the address alone */
	uint8_t port;	/* index in sp_nic_config.port */
};

/* A worker that is stuck in a handler call, or a handler call that has crashed. */
#define SP_FAULT_STACK 32
struct sp_fault {
	const char *nic, *context, *handler;
	const char *file;     /* the plug-in's; NULL: the handler is linked in */
	const char *function; /* "payload", "timer", ... */
	uint16_t worker;
	sp_time since;	/* time spent in the call so far; 0: the call has crashed */
	bool runs;	/* the worker's thread uses its CPU; false: it waits, for a lock or in a system call */
	bool fatal;	/* the call has lasted 4 times `stall`: the worker is lost */
	const void *at; /* address of the current instruction; NULL: not known */
	void *stack[SP_FAULT_STACK]; /* as backtrace(3) returns it: the signal's own frames come first */
	unsigned depth;
	const uint8_t *frame[32]; /* the call's packets, the current one first; none if the call is not for packets */
	uint32_t frame_len[32];
	unsigned frames;
};

/* For a signal handler. Tells if the interrupted thread is a worker inside a handler call, and then describes the call
 * in *fault (all but since, runs and stack). The pointers in *fault are valid until the signal handler returns.
 * ucontext is the signal handler's third argument. Async-signal-safe. */
bool sp_fault_here(const void *ucontext, struct sp_fault *fault);

struct sp_neighbour_config {
	uint8_t ip[16];
	uint8_t mac[6];
};

/*
 * A NIC with several ports is a multi-homed host. Each port has its own MAC, and each address belongs to one port. The
 * route is the longest prefix that holds the destination, else the gateway; the packet leaves by that address's port.
 * ARP and neighbour discovery work per port, for the port's own addresses. A received packet may be for any of the
 * NIC's addresses, on any port (the weak host model, RFC 1122 3.3.4.2, Linux's default). Packets to the NIC's own
 * addresses stay inside the NIC; no port sees them. sp_nic_create returns -EINVAL (key "ip" or "gateway") for an
 * address on a port that does not exist; an address, or a prefix of equal length (unless link-local), on two ports; a
 * gateway on no prefix.
 *
 * Zero means default for every field.
 */
struct sp_nic_config {
	char name[32];
	struct sp_address address[SP_MAX_ADDRESSES];
	unsigned addresses;
	uint8_t gateway4[16], gateway6[16]; /* all zero: none */
	uint8_t gateway6_port; /* port of a link-local gateway6; another gateway's port follows from its prefix */
	uint8_t mac[6];	       /* of port 0; zero: the device's, else made from the seed, as for the other ports */
	uint32_t mtu;	       /* layer 3, bytes; default 1500 */
	uint16_t vlan;	  /* 1 to 4094: the NIC is in that VLAN, and in no other; 0: it is where frames have no tag */
	uint16_t workers; /* default 1, at most 16 */
	bool icrc_off;
	/* For sweeps over payload-less links (testbed/link.h). The NIC neither computes nor checks ICRCs, and copies at
	 * most 1088 bytes at once, into packets and by sp_dma_write into registered memory. All else is exact. */
	bool payload_less;
	/* Virtual time (ps) that one slice of deferred work costs the worker: the next one starts this much later; or
	 * 0. */
	sp_time slice_time;
	/* Of all random numbers, so that runs repeat. 0: 1 in virtual time, and sp_nic_start() changes over to numbers
	 * from getrandom(2). */
	uint64_t seed;
	/* What a stranger must not guess comes from getrandom(2) from the start, whatever the seed: QP numbers, PSNs,
	 * tokens, nonces, UDP source ports, sp_hash's key and all else that handlers draw. The seed then only makes MAC
	 * addresses. For a NIC on a real network. */
	bool unpredictable;
	uint64_t secret; /* key of sp_hash; 0: made like the other random numbers */
	struct sp_port_config port[SP_MAX_PORTS];
	unsigned ports;
	struct sp_port_config exception; /* none when both members are NULL. Its packets leave by the port where the
					    destination MAC was last seen, else by port 0 */
	bool exception_address;		 /* the exception port, a TAP, gets the MAC and the addresses of port 0 */
	const char *exception_netns;	 /* the TAP is made in this network namespace, a name or a path; NULL: in the
					    process's own */
	struct sp_neighbour_config neighbour[SP_MAX_STATIC];
	unsigned neighbours;
	bool any_source;       /* replay: contexts take packets from any source address */
	uint64_t memory_limit; /* bytes of registered memory and context state; default: half of the machine's memory or
				  of the cgroup's limit */
	enum { SP_IDLE_SLEEP, SP_IDLE_YIELD, SP_IDLE_SPIN } idle;
	/* Clock for the cost of handler calls, a count that never goes back. NULL: the TSC, and only while the NIC's
	 * own workers run (sp_nic_start). Set it to measure in virtual time. */
	uint64_t (*cycles)(void *arg);
	void *cycles_arg;
	sp_time stall; /* a worker counts as stopped after this time in one handler call; default 1 s */
	/* Called on the watchdog's thread when a worker has been in one handler call for `stall`, and again, with
	 * fault->fatal set, after 4 times `stall`. *fault is valid during the call. The NIC ends neither the process
	 * nor the handler call; the worker's packets wait. A program that wants to end calls _exit() or abort(). */
	void (*fault)(void *arg, const struct sp_fault *fault);
	void *fault_arg;
	const char *fault_capture; /* file for a fault's packets; only the `fault` callback uses it */
};

/* Description of a context. Its settings are `qp`, `filter`, `companion`, `rate`, `message-timeout`, `weight`,
 * `budget`, `overrun`, and the handler's own parameters. */
struct sp_context_config {
	const char *name, *handler;
	const struct sp_setting *setting;
	size_t settings;
};

/* Starts EAL for this process; later calls return 0 and do nothing. argv (without program name) may be NULL. Defaults
 * that argv may override: no huge pages, 512 MiB, no PCI devices (name one with -a), no telemetry, log errors only. */
int sp_eal_init(int argc, char **argv, struct sp_error *error);

int sp_nic_create(const struct sp_nic_config *config, struct sp_error *error, struct sp_nic **nic);
/* Ends workers, contexts and ports. Close the devices from sp_nic_dev first. NULL is fine. */
void sp_nic_destroy(struct sp_nic *nic);

int sp_nic_context_add(struct sp_nic *nic, const struct sp_context_config *config, uint32_t *id,
		       struct sp_error *error);
/* -ENOENT. -ETIMEDOUT: a worker has stopped in a handler call, and the context stays (sp_nic_context_add returns it,
 * too). If a device has opened the context, its events and area stay until the device calls sp_context_close; the
 * device's other calls return -ECONNRESET from now on, and a sleeping device is woken. */
int sp_nic_context_remove(struct sp_nic *nic, uint32_t id);
int sp_nic_context_find(struct sp_nic *nic, const char *name, uint32_t *id); /* -ENOENT */
/* Largest buffer of SP_CMD_POST that the context takes, bytes; 0: none, or no such context. */
uint64_t sp_nic_context_post_bytes(struct sp_nic *nic, uint32_t id);
uint64_t sp_nic_context_counter(struct sp_nic *nic, uint32_t id,
				const char *name); /* sum over the workers; also "packets", "bytes" and drop reasons.
						      Then asks the companion; 0: unknown */

/* One round of one worker: receive, parse, match, dispatch, timers, work, commands, transmit. Returns a count of the
 * work done; 0: idle. */
unsigned sp_nic_poll(struct sp_nic *nic, uint16_t worker, sp_time now);
/* The latest time at which sp_nic_poll must be called again (timers, pacing, ports with ops); SP_NEVER. */
sp_time sp_nic_next_deadline(struct sp_nic *nic, uint16_t worker);
uint16_t sp_nic_workers(const struct sp_nic *nic);

/* Starts one thread per worker, in real time (sp_clock). -EALREADY; -EBUSY: handlers are traced. */
int sp_nic_start(struct sp_nic *nic);
void sp_nic_stop(struct sp_nic *nic); /* end applications and servers first; waits for handler calls */
/* True if a worker has stopped in a handler call; text then names the worker, function, handler and context. Any
 * thread, until sp_nic_destroy returns. */
bool sp_nic_stopped(struct sp_nic *nic, char *text, size_t room);

/* Opens the NIC as a device. driven: sp_progress polls all workers (for programs without worker threads). */
int sp_nic_dev(struct sp_nic *nic, bool driven, struct sp_dev **dev);

struct sp_nic_totals {
	uint64_t received, bytes; /* packets, and bytes of their frames; from ports and from the NIC itself */
	uint64_t taken;		  /* by contexts, or answered by the NIC itself (ARP, ND, ICMP) */
	uint64_t answered;	  /* those of `taken` that the NIC itself answered */
	uint64_t forwarded, dropped;
	uint64_t parked; /* not ended yet: they wait for a header handler on another worker, or for their context's turn
			  */
	uint64_t sent, sent_bytes;
};
/* Counters and reports are control calls. Each worker copies its own counters between two polls, one worker after the
 * other. This costs each worker some microseconds, and the caller some tens of microseconds per worker. In each copy
 * received = taken + forwarded + dropped + parked, also while workers run. */
void sp_nic_totals(struct sp_nic *nic, struct sp_nic_totals *totals);
/* Drops by this reason, in the NIC and in all contexts, removed ones included; also 0 when there is no memory. */
uint64_t sp_nic_dropped(struct sp_nic *nic, const char *reason);
/* The full report, see sp_nic_totals(3). Handlers add their part on the workers, and allocate there: meanwhile the
 * packets of a running NIC wait. */
void sp_nic_report(struct sp_nic *nic, struct sp_report *report);
/* The same as JSON text, which the caller frees. handlers: include what handlers report of their own state; without it
 * workers only copy counters. context: only contexts of this name, NAME or for applications NAME@PID; NULL or "": the
 * whole NIC. -ENOENT: no such context. -ENOMEM. */
int sp_nic_report_text(struct sp_nic *nic, bool handlers, const char *context, char **json);

/* Serves the report of one NIC of the process through DPDK's telemetry, as commands /spindle/... (dpdk-telemetry.py).
 * Start EAL with --telemetry. -EBUSY: another NIC of this process is served. */
int sp_telemetry_serve(struct sp_nic *nic);
/* Call it before sp_nic_destroy. Waits for an answer in progress. Does nothing for a NIC that is not served. */
void sp_telemetry_end(struct sp_nic *nic);

/* ---- applications in other processes (sp_attach) --------------------------------------------------------------------
 */
/* What one application may have at once. Zero means default for every field. */
struct sp_limits {
	uint64_t memory;   /* bytes of regions, areas and context state; default 1 GiB */
	uint32_t contexts; /* default 256 */
	uint32_t qps;	   /* QP numbers; default 16384 */
	uint32_t messages; /* open at once, over all its contexts; default 65536 */
};

/* Limits for one user's programs. The first entry that matches the user counts. */
struct sp_user_limits {
	bool everyone;
	uint32_t uid;
	struct sp_limits limits;
	uint32_t applications; /* at once; 0: half of the server's, or all for root and the NIC's own user */
	bool refused;	       /* may not attach at all */
	/* Of all its applications together; 0: no limit, or weight 1. */
	uint32_t weight;	 /* of the user's share of a busy worker, 1 to 1000 */
	uint32_t worker_time;	 /* percent of one worker's time */
	uint64_t packets, bytes; /* a second that its contexts receive, and as many that they send */
	bool filters; /* may open filters, which can take other applications' packets; root and the NIC's own user
			 always may */
};

#define SP_MAX_USERS 64
/* A request of an application that the NIC did not grant: too much, not allowed, or not of the protocol. */
struct sp_refusal {
	uint32_t uid, pid;
	const char *request; /* "attach", "memory", ...; "" if it could not be read */
	int status;	     /* -errno */
	const char *key, *text;
	uint64_t others; /* refusals since the last call that were not told */
};
struct sp_server_config {
	const char *path;      /* of the socket */
	bool claimed;	       /* the caller already holds the lock PATH.lock; otherwise the server takes it */
	uint32_t mode;	       /* of the socket; 0: 0600 */
	int64_t group;	       /* of the socket; -1: leave it unchanged */
	uint32_t applications; /* at once; default 64. Some stay free for others, see sp_user_may() */
	struct sp_user_limits user[SP_MAX_USERS];
	unsigned users;
	/* Called by the server's thread, which must not be kept waiting, for at most one refusal a second. May be NULL.
	 */
	void (*refused)(void *arg, const struct sp_refusal *refusal);
	void *refused_arg;
};
struct sp_server;
/* Starts a thread that serves applications. The NIC's workers must run (-EINVAL otherwise). -EADDRINUSE: another NIC
 * uses the path. Replaces the socket that a dead NIC has left. */
int sp_server_start(struct sp_nic *nic, const struct sp_server_config *config, struct sp_error *error,
		    struct sp_server **server);
/* Ends all applications: their contexts and memory go, their calls return -ENODEV. Call it before sp_nic_stop. NULL is
 * fine. */
void sp_server_stop(struct sp_server *server);

/* Allocates from the process's packet pool, for port ops; NULL: the pool is empty. */
struct rte_mbuf *sp_packet_alloc(void);

/* A report becomes JSON text, which the caller frees; see pipeline/report.c. */
struct sp_report *sp_report_new(void);
char *sp_report_finish(struct sp_report *report);

/*
 * Loads handlers from a shared object into the process, beside the handlers linked in. The NIC loads a copy of the
 * file, so the file may be replaced meanwhile. Loading the same unchanged file again only counts. The plug-in's
 * constructors run with this process's rights: it is trusted code. -EINVAL and error: the file is no shared object,
 * needs symbols that this program lacks, registers no handler, or registers a handler with another ABI version or size,
 * a taken name or an invalid table (missing functions, names, bounds). Nothing of a refused file stays. -errno: the
 * file cannot be read, or the copy not be written (to $TMPDIR or /tmp). Threads: any; plug-ins have their own lock. A
 * handler pointer without a context that holds it becomes invalid when another thread unloads the plug-in.
 */
struct sp_plugin;
int sp_plugin_load(const char *file, struct sp_plugin **plugin, struct sp_error *error);
/* -EBUSY: a context uses one of its handlers. NULL is fine. */
int sp_plugin_unload(struct sp_plugin *plugin);
/* The handler's file, as given to sp_plugin_load; NULL: linked in. */
const char *sp_handler_file(const struct sp_handler *handler);

/*
 * Handlers of a running NIC. These are control calls; error says in words who holds what, and why a call is refused.
 * Plug-in files are copied and checked as by sp_plugin_load.
 *
 * reload: file NULL means the plug-in's own file, as it is now. Each context of this NIC that uses the plug-in
 * continues with the new version of its handler; it keeps its settings, QPs, filter, area and event queue. All contexts
 * change or none: if the new version is refused (ABI, checks, attach(), migrate()), the old version continues and
 * nothing is lost. Messages, timers, issues and work end on the version that began them. An old version is removed once
 * it has drained, or, if force is not 0, at most `force` later (its messages then end with SP_END_DETACH). json: what
 * each version of each context has run and still holds; the caller frees it. -ENOENT, -EBUSY (SP_MAX_VERSIONS in
 * flight), -EINVAL ...
 */
int sp_nic_handler_load(struct sp_nic *nic, const char *file, char **json, struct sp_error *error);
int sp_nic_handler_reload(struct sp_nic *nic, const char *name, const char *file, sp_time force, char **json,
			  struct sp_error *error);
/* name: of a handler, or the plug-in's file. -EBUSY: in use; error names the users. */
int sp_nic_handler_unload(struct sp_nic *nic, const char *name, struct sp_error *error);
/* Removes drained versions. The watchdog of a started NIC calls this; in virtual time the program that polls may.
 * Returns the number of versions still draining. */
unsigned sp_nic_handler_collect(struct sp_nic *nic);
/* JSON text, which the caller frees: plug-ins, their handlers, contexts and versions, and what each still holds. */
int sp_nic_handler_text(struct sp_nic *nic, char **json);

/* The process's handlers in alphabetical order; NULL past the last. */
const struct sp_handler *sp_handler_next(const struct sp_handler *after);
const struct sp_handler *sp_handler_find(const char *name);

#endif
