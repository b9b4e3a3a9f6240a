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
struct sp_handler;
struct rte_mbuf;

/* A port that is no ethdev: the testbed's links and captures. Called by the worker that owns the queue. */
struct sp_port_ops {
	/* Packets that have arrived by `now`; the caller owns them. */
	unsigned (*receive)(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now);
	/* Takes the first packets of the array, returns how many; the rest stays the caller's. */
	unsigned (*transmit)(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now);
	/* When receive (or, after a short transmit, transmit) has something new; SP_NEVER. */
	sp_time (*next)(void *port, uint16_t queue, bool transmit_blocked);
	/* transmit() can do with packets in several pieces, of which some are memory of the application's: it reads
	 * them before it frees them, and not after sp_nic_destroy. */
	bool external;
};

struct sp_port_config {
	const char *device;	       /* as in nic.ini: KIND:TARGET[,arguments] or an ethdev's name; NULL with ops */
	const struct sp_port_ops *ops; /* not owned */
	void *ops_arg;
};

struct sp_address {
	uint8_t ip[16]; /* IPv4 mapped (::ffff:a.b.c.d) */
	uint8_t prefix; /* bits of the IP version's own length: 24, 64; 0: the address alone */
	uint8_t port;	/* index in sp_nic_config.port */
};

/* A worker is stuck in a handler's call, or the call has crashed. */
#define SP_FAULT_STACK 32
struct sp_fault {
	const char *nic, *context, *handler;
	const char *file;     /* the plug-in's; NULL: the handler is linked in */
	const char *function; /* "payload", "timer", ... */
	uint16_t worker;
	sp_time since;		     /* how long it has been in the call; 0: it has crashed */
	bool runs;		     /* it uses its processor; else it waits, for a lock or in a system call */
	bool fatal;		     /* it has been there for 4 times `stall`: the worker is lost */
	const void *at;		     /* instruction; NULL: not known */
	void *stack[SP_FAULT_STACK]; /* as by backtrace(3), with the signal's own frames first */
	unsigned depth;
	const uint8_t *frame[32]; /* packets of the call, the current one first; none: it is no call for packets */
	uint32_t frame_len[32];
	unsigned frames;
};

/* For a signal handler, on the thread that it has interrupted: is that a worker, in a handler's call? Then *fault says
 * which one, with pointers that hold while the handler of the signal runs; without since, runs and stack. ucontext: the
 * third argument of such a handler. Async-signal-safe. */
bool sp_fault_here(const void *ucontext, struct sp_fault *fault);

struct sp_neighbour_config {
	uint8_t ip[16];
	uint8_t mac[6];
};

/*
 * A NIC with several ports is a multi-homed host. Every port has its own MAC; every address belongs to one port. A
 * packet goes out by the port of the address whose prefix is the longest that holds its destination, else by that of
 * the gateway; ARP and neighbour discovery are asked, answered and believed port by port, for the port's own addresses.
 * What comes in may be for any of the NIC's addresses, whichever port it came by (the weak host model, RFC
 * 1122 3.3.4.2, as Linux by default). Packets to one of its own addresses the NIC hands to itself; no port sees them.
 * sp_nic_create refuses (-EINVAL, key "ip" or "gateway"): an address on a port that does not exist; an address, or a
 * prefix of equal length other than a link-local one, on two ports; a gateway that is on no prefix.
 *
 * Zero means default for every field.
 */
struct sp_nic_config {
	char name[32];
	struct sp_address address[SP_MAX_ADDRESSES];
	unsigned addresses;
	uint8_t gateway4[16], gateway6[16]; /* all zero: none */
	uint8_t gateway6_port;		    /* where a link-local gateway6 is; any other is where its prefix is */
	uint8_t mac[6];	  /* port 0's; all zero: the device's, or one from the seed, as for the other ports */
	uint32_t mtu;	  /* layer 3, bytes; default 1500 */
	uint16_t workers; /* default 1, at most 16 */
	bool icrc_off;
	/* Sweeps over links that are payload-less, too (testbed/link.h): no ICRC is computed or checked; more than 1088
	 * bytes at once are not copied into a packet, nor by sp_dma_write into memory that applications have
	 * registered. All else is exact. */
	bool payload_less;
	/* Virtual time that a slice of deferred work takes of what the worker has for such (ps; 0: none): the next one
	 * begins so much later. */
	sp_time slice_time;
	uint64_t seed;	 /* default 1 */
	uint64_t secret; /* keys sp_hash; 0: made from the seed, so that runs repeat */
	struct sp_port_config port[SP_MAX_PORTS];
	unsigned ports;
	struct sp_port_config exception; /* none when both members are NULL; what comes from it leaves by port 0, or by
					    the port that the station was last heard by to which it goes */
	struct sp_neighbour_config neighbour[SP_MAX_STATIC];
	unsigned neighbours;
	bool any_source;       /* replay: contexts take packets from any source address */
	uint64_t memory_limit; /* bytes of registered memory and context state; default half of the memory of the
				  machine, or of what the process's control group may use */
	enum { SP_IDLE_SLEEP, SP_IDLE_YIELD, SP_IDLE_SPIN } idle;
	/* Calls of handlers are measured by the TSC while the NIC's workers run (sp_nic_start), and by this where it is
	 * given, which makes it possible in virtual time: a count that never goes back. */
	uint64_t (*cycles)(void *arg);
	void *cycles_arg;
	sp_time stall; /* a worker that has not come back from a handler for so long has stopped; default 1 s */
	/* Called on a thread of the NIC's own when a worker has been in a handler's call for `stall`, and once more,
	 * with fault->fatal set, after 4 times that. *fault is valid during the call. The NIC itself neither ends the
	 * process nor the call: that worker's packets wait. A program that wants an end calls _exit() or abort(). */
	void (*fault)(void *arg, const struct sp_fault *fault);
	void *fault_arg;
	const char *fault_capture; /* a file for such packets, for whoever sets `fault`: the NIC itself writes none */
};

/* What a context is made of; settings: `qp`, `filter`, `companion`, `rate`, `message-timeout`, `weight`, `budget`,
 * `overrun`, and the handler's own. */
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
/* -ENOENT; -ETIMEDOUT: a worker has stopped in a handler's call, and the context stays (adding one says so, too).
 * Events and area of a context that a device has opened stay until that device closes it (sp_context_close);
 * its calls say -ECONNRESET from now on, and it is woken if it sleeps. */
int sp_nic_context_remove(struct sp_nic *nic, uint32_t id);
int sp_nic_context_find(struct sp_nic *nic, const char *name, uint32_t *id); /* -ENOENT */
uint64_t sp_nic_context_post_bytes(struct sp_nic *nic, uint32_t id);
uint64_t sp_nic_context_counter(struct sp_nic *nic, uint32_t id, const char *name); /* summed over workers; also
				"packets", "bytes" and drop reasons; of the companion
				where the first handler has none of that name; 0 when unknown */

/* One round of one worker: receive, parse, match, dispatch, timers, work, commands, transmit. Returns how much was
 * done. */
unsigned sp_nic_poll(struct sp_nic *nic, uint16_t worker, sp_time now);
/* When sp_nic_poll has something to do at the latest (timers, pacing, ports with ops); SP_NEVER. */
sp_time sp_nic_next_deadline(struct sp_nic *nic, uint16_t worker);
uint16_t sp_nic_workers(const struct sp_nic *nic);

/* Threads for the workers, one each, in real time (sp_clock). -EALREADY; -EBUSY: handlers are watched (watch.h). */
int sp_nic_start(struct sp_nic *nic);
void sp_nic_stop(struct sp_nic *nic); /* applications and servers must be gone; waits for calls that do not come back */
/* Has a worker stopped in a handler's call? Then text says which worker, in which function, handler and context. Any
 * thread, at any time between the start and the end of sp_nic_destroy. */
bool sp_nic_stopped(struct sp_nic *nic, char *text, size_t room);

/* The NIC as a device. driven: sp_progress polls all workers (for programs without worker threads). */
int sp_nic_dev(struct sp_nic *nic, bool driven, struct sp_dev **dev);

struct sp_nic_totals {
	uint64_t received, bytes; /* packets, bytes of frames; from ports, and from the NIC itself */
	uint64_t taken;		  /* by contexts, or answered by the NIC itself (ARP, ND, ICMP) */
	uint64_t answered;	  /* those of `taken` that the NIC itself answered */
	uint64_t forwarded, dropped;
	uint64_t parked; /* not ended yet: they wait for a header handler on another worker, or for their context's turn
			  */
	uint64_t sent, sent_bytes;
};
/* Counters and reports are control calls. Each worker copies its own counters between two polls, one worker after the
 * other; the copy takes some microseconds of the worker, the call some tens of microseconds per worker. So:
 * received = taken + forwarded + dropped + parked, always, also while workers run. */
void sp_nic_totals(struct sp_nic *nic, struct sp_nic_totals *totals);
/* By name, wherever it was; contexts that have gone included. 0 too when there is no memory. */
uint64_t sp_nic_dropped(struct sp_nic *nic, const char *reason);
/* Everything; sp_nic_totals(3) says what. Handlers report on the workers (and allocate there): a running NIC's packets
 * wait for them. */
void sp_nic_report(struct sp_nic *nic, struct sp_report *report);
/* The same as JSON text, which the caller frees. handlers: also what handlers say of their own state; without, workers
 * do nothing but copy. context: only those of this name, which is NAME or NAME@PID for those of applications; NULL or
 * "": the whole NIC. -ENOENT: there is no such context. -ENOMEM. */
int sp_nic_report_text(struct sp_nic *nic, bool handlers, const char *context, char **json);

/* DPDK's telemetry (dpdk-telemetry.py) speaks for one NIC of a process: the commands /spindle/... say what its report
 * says. EAL must have been started with --telemetry. -EBUSY: another NIC of this process is served. */
int sp_telemetry_serve(struct sp_nic *nic);
/* Before sp_nic_destroy; waits for an answer that is being made. Without effect for a NIC that is not served. */
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

/* Limits for the programs of one user; the first that fits counts. */
struct sp_user_limits {
	bool everyone;
	uint32_t uid;
	struct sp_limits limits;
	uint32_t
		applications; /* of one user at once; 0: half of the server's, or all for root and the NIC's own user */
	bool refused;	      /* may not attach at all */
	bool filters; /* may open contexts with a filter, which take packets that are others'; root and the NIC's own
			 user always may */
};

#define SP_MAX_USERS 64
struct sp_server_config {
	const char *path;      /* of the socket */
	bool claimed;	       /* the caller holds the lock of PATH.lock already; otherwise the server takes it */
	uint32_t mode;	       /* of the socket; 0: 0600 */
	int64_t group;	       /* of the socket; -1: as it comes */
	uint32_t applications; /* at once; default 64; the last 4 (a quarter of less than 16) are for root and the NIC's
				  own user */
	struct sp_user_limits user[SP_MAX_USERS];
	unsigned users;
};
struct sp_server;
/* Serves them, by a thread of its own, while the NIC's workers run (-EINVAL otherwise). Another NIC at that path:
 * -EADDRINUSE; what a dead one left there is taken away. */
int sp_server_start(struct sp_nic *nic, const struct sp_server_config *config, struct sp_error *error,
		    struct sp_server **server);
/* Lets go of all applications: their contexts and memory end, their calls say -ENODEV. Before sp_nic_stop. NULL is
 * fine. */
void sp_server_stop(struct sp_server *server);

/* A buffer from the process's shared packet pool, for port ops; NULL when empty. */
struct rte_mbuf *sp_packet_alloc(void);

/* Reports into JSON text (caller frees), see pipeline/report.c. */
struct sp_report *sp_report_new(void);
char *sp_report_finish(struct sp_report *report);

/*
 * Handlers from a shared object. They are known to the whole process, as those that are linked in. The file is copied,
 * and the copy is loaded: it may be replaced meanwhile. Loading the same file again, unchanged, counts, and loads
 * nothing. Its constructors run in this process with this process's rights: it is trusted code. -EINVAL and error: it
 * is no shared object, it wants what this program has not, it registers no handler, or one whose ABI version or size is
 * another's, whose name is taken, or whose table cannot be right (functions missing, names, bounds); then nothing of it
 * stays. -errno: the file cannot be read, the copy not be written (into $TMPDIR, or /tmp). Threads: any, with a lock of
 * their own; but what one has found of a plug-in's, without a context that has it, goes when another unloads it.
 */
struct sp_plugin;
int sp_plugin_load(const char *file, struct sp_plugin **plugin, struct sp_error *error);
/* -EBUSY: a context has a handler of its. NULL is fine. */
int sp_plugin_unload(struct sp_plugin *plugin);
/* Where a handler comes from: the file as it was given; NULL: linked in. */
const char *sp_handler_file(const struct sp_handler *handler);

/*
 * Handlers of a running NIC; control calls, in words that name what holds and why it is refused. plug-in files are
 * copied and checked as by sp_plugin_load.
 *
 * reload: file NULL: the one that it came from, as it is now. Every context of this NIC with a handler of that plug-in
 * goes on with the new copy's handler of the same name; settings, QPs, filter, area and event queue stay. All or none:
 * where the new copy is refused (ABI, checks, attach(), migrate()), the old one goes on, and nothing is lost. Messages,
 * timers, issues and work end on the copy that began them, which goes when they have, or, when force is not 0, after
 * that time at the latest (messages end with SP_END_DETACH). json: what each context's copies have run and still hold;
 * the caller frees it. -ENOENT, -EBUSY (SP_MAX_COPIES are in flight), -EINVAL ...
 */
int sp_nic_handler_load(struct sp_nic *nic, const char *file, char **json, struct sp_error *error);
int sp_nic_handler_reload(struct sp_nic *nic, const char *name, const char *file, sp_time force, char **json,
			  struct sp_error *error);
/* name: a handler's, or the plug-in's file. -EBUSY: held, by whom stands in error. */
int sp_nic_handler_unload(struct sp_nic *nic, const char *name, struct sp_error *error);
/* Copies that have nothing in flight any more go. A started NIC's warden does that; in virtual time whoever polls it
 * may. Returns how many are left in flight. */
unsigned sp_nic_handler_collect(struct sp_nic *nic);
/* Plug-ins, their handlers, contexts and copies, and what they hold, as JSON text, which the caller frees. */
int sp_nic_handler_text(struct sp_nic *nic, char **json);

/* Handlers known to this process, in alphabetical order; NULL past the last. */
const struct sp_handler *sp_handler_next(const struct sp_handler *after);
const struct sp_handler *sp_handler_find(const char *name);

#endif
