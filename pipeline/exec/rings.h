/* SPDX-License-Identifier: BSD-3-Clause */
/* Applications as the NIC sees them: limits, commands, events, doorbells. */
#ifndef PIPELINE_EXEC_RINGS_H
#define PIPELINE_EXEC_RINGS_H

#include "../../handlers/wire/attach.h"
#include "../context.h"
#include "../limits.h"
#include "../mem/account.h"
#include "../mem/shm.h"
#include "../view.h"
#include "../worker.h"
#include "../../host-api/device.h"

/* Error text for -EMFILE. */
#define SP_NO_DESCRIPTOR "the NIC's process has no file descriptor left (ulimit -n)"

/* How an application and the notifier wake each other. */
struct sp_doorbell {
	struct sp_bell *bell;	  /* shared with the application; set before workers see the doorbell */
	_Atomic uint32_t due;	  /* [shared] on the notifier's stack of doorbells to ring */
	struct sp_doorbell *next; /* next on that stack */
	int fd;			  /* the NIC's end of a socketpair, only written */
	int application;	  /* the application's end; -1: passed to another process */
	int ring; /* eventfd written when posting to a parked queue; -1: embedded. The NIC never reads it. */
};

/* Event queue and area of a context, shared with the host. The context and the devices that opened it hold references:
 * an application may read them after the context has ended. No pointer leads to the context. */
struct sp_event_queue {
	struct sp_nic *nic;
	struct sp_account *account;
	uint32_t id, owner, qp; /* qp: the context's first QP number, 0: none */
	uint16_t home;
	uint32_t holders;	      /* [control] */
	_Atomic bool ended;	      /* [shared] the context is gone */
	struct sp_shm memory;	      /* struct sp_attach_events, then one ring per worker (single writer each) */
	bool lent;		      /* memory is still the server's: the context is not open yet */
	struct sp_mem *area;	      /* area or NULL; removed with the queue */
	struct sp_attach_reader turn; /* application's state, like reader (embedded only) */
	struct sp_ring reader[SP_MAX_WORKERS];
	struct {
		struct sp_ring ring;
	} SP_CACHE_ALIGNED writer[SP_MAX_WORKERS]; /* [worker] one per worker */
};

/* A context used by an application. */
struct sp_opened {
	struct sp_opened *next;
	struct sp_event_queue *events;
	bool foreign; /* a context of the NIC, not opened by the application: no close needed */
};
#define SP_OPENED_LISTS 64 /* hash lists per application; a power of two */

/* Commands of one application for one worker. The worker alone leaves the states ACTIVE (on the worker's list) and
 * WOKEN (on the worker's stack, or about to be). PARKED is on no list, or on that of a worker that sleeps: the thread
 * that changes PARKED to WOKEN by compare-and-swap pushes the queue onto the stack. struct sp_attach_queues tells how
 * the application sees PARKED, and why no command is lost. */
enum { SP_QUEUE_PARKED, SP_QUEUE_ACTIVE, SP_QUEUE_WOKEN };
struct sp_command_queue {
	struct sp_ring writer; /* the application's side (embedded only) */
	uint8_t apart[112];    /* the application writes above while the worker writes below */
	struct sp_ring reader; /* [worker], as the rest but state */
	struct sp_attach_queues *page;
	struct sp_device *device;
	struct sp_worker *worker;
	LIST_ENTRY(sp_command_queue) active;
	struct sp_command_queue *woken; /* the next one on the stack */
	_Atomic uint32_t state;		/* [shared] */
	bool used;			/* used since the last search for idle applications */
	struct sp_share *share;		/* the application's */
	struct sp_allowance *allowance; /* its user's, where a rate is limited; NULL: the normal case */
	uint64_t turn;			/* the poll after the one of its last turn */
	uint8_t apart_too[24];
};

/* An application. pub.ops are the embedded operations; for another process the server calls them, and commands and
 * events use shared memory. */
struct sp_device {
	struct sp_dev pub;
	struct sp_nic *nic;
	uint32_t owner;		    /* 0: in this process; may use the NIC's own contexts */
	struct sp_account *account; /* NULL for owner 0 */
	uint32_t pid, uid;	    /* the other process's */
	bool driven;
	/* made: memory that the server has allocated ahead for a region or area; events: for a context's events, sealed
	 * (NULL: made on the spot). Both are NULL once they are taken. ahead: the server allocates areas; wanted:
	 * bytes that a context asked for then. Server thread only. */
	struct sp_backing *made, *events;
	bool ahead;
	uint64_t wanted;
	bool started;	/* workers look at its queues; device's thread only */
	bool door_open; /* device's thread only; embedded: from the first sp_dev_arm or sp_dev_fd on */
	struct sp_device *next;
	struct sp_opened *opened[SP_OPENED_LISTS]; /* by context id; device's thread only */
	struct sp_shm queues;			   /* per worker: a doorbell page and a command ring */
	struct sp_doorbell door;
	struct sp_command_queue commands[SP_MAX_WORKERS];
};

/* Whose application it is, and what it and all of the user's may have; limits and user may be NULL. */
struct sp_device_user {
	uint32_t uid;
	bool trusted; /* root or the NIC's own user */
	const struct sp_limits *limits;
	const struct sp_user_limits *user;
};
/* Creates an application of `who`, in two steps for the server, which makes the memory of the queues in between. NULL:
 * embedded, without limits. Others take the NIC's next owner number, and share memory. -ENOMEM, -EDQUOT (too low for
 * the queues), -EMFILE. After begin, sp_dev_close() undoes it. */
int sp_device_create_for(struct sp_nic *nic, const struct sp_device_user *who, struct sp_device **device);
int sp_device_begin(struct sp_nic *nic, const struct sp_device_user *who, struct sp_device **device);
/* The same for the NIC's own user, or embedded; limits may be NULL. */
int sp_device_create(struct sp_nic *nic, bool attached, const struct sp_limits *limits, struct sp_device **device);
size_t sp_device_queues_bytes(const struct sp_nic *nic);
/* Writes the heads of the queues, before another process can see them. */
void sp_device_queues_init(const struct sp_nic *nic, void *queues);
int sp_device_start(struct sp_device *d, struct sp_shm *queues); /* takes queues, charged and initialised */
/* Ends some of the application's contexts, in some milliseconds. False: it has none any more. */
bool sp_device_less(struct sp_device *d);
/* Shared memory of events and area, with descriptors (attached applications only), of a context that the device opened;
 * or NULL. The server sends and closes the descriptors (sp_shm_close). */
struct sp_shm *sp_device_events(struct sp_device *d, uint32_t context);
struct sp_shm *sp_device_area(struct sp_device *d, uint32_t context); /* NULL also without an area */
struct sp_shm *sp_device_region(struct sp_device *d, uint32_t id);    /* region of sp_mr_alloc */
int sp_device_home(struct sp_device *d, uint32_t context);	      /* worker; -ENOENT */

/* ---- events and commands ---- */
int sp_events_create(struct sp_context *c); /* -ENOMEM, -EMFILE, -EDQUOT */
size_t sp_events_bytes(const struct sp_nic *nic);
/* Writes the head of a queue's memory, before another process can see it. */
void sp_events_init(const struct sp_nic *nic, void *events);
/* The context ends: marks the events closed and drops the reference; the application may still read them. */
void sp_events_destroy(struct sp_context *c);
void sp_events_hold(struct sp_event_queue *q);
void sp_events_release(struct sp_event_queue *q);
/* Where it runs; -EINVAL: SP_CMD_ON names no worker, or the handler has no flows. */
int sp_command_worker(const struct sp_context *c, const struct sp_command *command);
/* Runs a command on its worker, after earlier ones; returns its status. */
int sp_command_run(struct sp_context *c, const struct sp_command *command, struct sp_event *result);
unsigned sp_commands_run(struct sp_worker *w);
bool sp_commands_waiting(struct sp_worker *w);
/* Any thread: a parked queue becomes active with the worker's next poll. A system call only if the worker sleeps. */
void sp_commands_wake(struct sp_command_queue *q);
/* [worker] Before it sleeps: all applications are parked, so a command wakes it. False: too many are active. */
bool sp_commands_doze(struct sp_worker *w);
/* [worker] After that: they are active again. */
void sp_commands_rouse(struct sp_worker *w);
/* On the queue's worker, after the last wake: the worker forgets the queue. */
void sp_commands_forget(struct sp_worker *w, void *queue);

/* ---- doorbells: notifier.c ---- */
int sp_notifier_create(struct sp_nic *nic); /* the thread starts with the first doorbell */
void sp_notifier_destroy(struct sp_nic *nic);
/* Creates the descriptors; door->bell is set already. attached: also the eventfd for posting to a parked queue.
 * -EMFILE, -ENOMEM, -EAGAIN. */
int sp_doorbell_open(struct sp_nic *nic, struct sp_doorbell *door, bool attached);
void sp_doorbell_given(struct sp_doorbell *door);		     /* another process now has the application's end */
void sp_doorbell_mute(struct sp_nic *nic, struct sp_doorbell *door); /* the notifier no longer wakes its queues */
void sp_doorbell_close(struct sp_nic *nic, struct sp_doorbell *door); /* after no worker can ring it */
/* At the end of a poll: rings for the contexts touched in it (w->touched). A system call only to wake a sleeping
 * notifier. */
void sp_doorbells_ring(struct sp_worker *w);
void sp_doorbell_ring(struct sp_nic *nic, struct sp_doorbell *door); /* from a control call */
/* Forgets a view that is about to be freed; no worker is in a poll. */
void sp_touch_forget(struct sp_worker *w, const struct sp_context *c);

#endif
