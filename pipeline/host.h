/* SPDX-License-Identifier: BSD-3-Clause */
/* Applications as the NIC sees them: what they may have, their commands, events to them, waking them up. */
#ifndef PIPELINE_HOST_H
#define PIPELINE_HOST_H

#include "../handlers/wire/attach.h"
#include "exec_context.h"
#include "limits.h"
#include "account.h"
#include "shared.h"
#include "view.h"
#include "worker.h"
#include "../host-api/device.h"

/* The words for -EMFILE. */
#define SP_NO_DESCRIPTOR "the NIC's process has no file descriptor left (ulimit -n)"

/* How an application and the notifier wake each other. */
struct sp_doorbell {
	struct sp_bell *bell;	  /* shared with the application; set before workers see the doorbell */
	_Atomic uint32_t due;	  /* [shared] it is on the notifier's stack of doorbells to ring */
	struct sp_doorbell *next; /* there */
	int fd;			  /* the NIC's end of a socketpair: it only sends */
	int application;	  /* the application's end; -1: another process has it */
	int ring; /* eventfd that a parked application writes to; -1: embedded. The NIC never reads it. */
};

/* What a context and the host share: events, and the area. Held by the context and by the devices that have opened it:
 * an application may look at them after the NIC has ended the context. Nothing here leads to the context. */
struct sp_event_queue {
	struct sp_nic *nic;
	struct sp_account *account;
	uint32_t id, owner, qp; /* qp: the context's first QP number, 0: none */
	uint16_t home;
	uint32_t holders;	      /* [control] */
	_Atomic bool ended;	      /* [shared] the context is gone */
	struct sp_shared memory;      /* struct sp_attach_events, then a ring per worker, so that each has one writer */
	struct sp_mem *area;	      /* or NULL; removed with the queue */
	struct sp_attach_reader turn; /* the application's own, like reader (embedded only) */
	struct sp_ring reader[SP_MAX_WORKERS];
	struct {
		struct sp_ring ring;
	} SP_CACHE_ALIGNED writer[SP_MAX_WORKERS]; /* [worker] each its own */
};

/* A context that an application works with. */
struct sp_opened {
	struct sp_opened *next;
	struct sp_event_queue *events;
	bool foreign; /* one of the NIC's own, not opened by the application: it need not be closed */
};
#define SP_OPENED_LISTS 64 /* of an application; a power of two */

/*
 * Commands of one application for one worker. state:
 *   ACTIVE  on the worker's list; the worker alone leaves this state
 *   PARKED  on no list; whoever changes it to WOKEN by compare-and-swap puts it on the worker's stack
 *   WOKEN   on the worker's stack, or about to be; the worker alone leaves this state
 * How the application knows that it is parked, and why no command is missed: struct sp_attach_queues.
 */
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
	bool used;			/* there was a command since the last look for quiet applications */
	uint8_t apart_too[48];
};

/* An application. Its operations (pub.ops) are the embedded ones; for one in another process the server calls them on
 * its behalf, and commands and events go through memory that is shared. */
struct sp_device {
	struct sp_dev pub;
	struct sp_nic *nic;
	uint32_t owner;		    /* 0: in this process, trusted with the NIC's own contexts */
	struct sp_account *account; /* NULL for owner 0 */
	uint32_t pid, uid;	    /* of the other process */
	bool driven;
	/* Memory that the server has made already, for a region or an area of that size; and, where it would rather do
	 * so than wait for an area, that it would, and what a context turned out to want. The server's thread alone. */
	struct sp_backing *made;
	bool ahead;
	uint64_t wanted;
	bool door_open; /* its own thread alone; embedded: from the first sp_dev_arm or sp_dev_fd on */
	struct sp_device *next;
	struct sp_opened *opened[SP_OPENED_LISTS]; /* by context id; its own thread alone */
	struct sp_shared queues;		   /* a doorbell page per worker, with its ring of commands */
	struct sp_doorbell door;
	struct sp_command_queue commands[SP_MAX_WORKERS];
};

/* Not attached: embedded, limits ignored. Otherwise the NIC's next owner number is taken, and memory is shared; limits
 * may be NULL. -ENOMEM, -EDQUOT (not even the queues), -EMFILE. */
int sp_device_create(struct sp_nic *nic, bool attached, const struct sp_limits *limits, struct sp_device **device);
/* A context of its own that it has opened: its events' memory and its area, with descriptors (of attached
 * applications); NULL. The server passes the descriptors on and closes them (sp_shared_close). */
struct sp_shared *sp_device_events(struct sp_device *d, uint32_t context);
struct sp_shared *sp_device_area(struct sp_device *d, uint32_t context); /* NULL also when there is none */
struct sp_shared *sp_device_region(struct sp_device *d, uint32_t id);	 /* of sp_mr_alloc */
int sp_device_home(struct sp_device *d, uint32_t context);		 /* worker; -ENOENT */

/* ---- events and commands ---- */
int sp_events_create(struct sp_context *c); /* -ENOMEM, -EMFILE, -EDQUOT */
/* The context is going: marks them closed, and lets go of them; the application may still read them. */
void sp_events_destroy(struct sp_context *c);
void sp_events_hold(struct sp_event_queue *q);
void sp_events_release(struct sp_event_queue *q);
/* Runs a command on the context's home worker, after those that were posted before; returns the result's status. */
int sp_command_run(struct sp_context *c, const struct sp_command *command, struct sp_event *result);
unsigned sp_commands_run(struct sp_worker *w);
bool sp_commands_waiting(const struct sp_worker *w);
/* Any thread: a parked queue becomes active with the worker's next poll. No system call. */
void sp_commands_wake(struct sp_command_queue *q);
/* On the queue's worker: it forgets the queue. Nobody wakes the queue any more. */
void sp_commands_forget(struct sp_worker *w, void *queue);

/* ---- waking up: notifier.c ---- */
int sp_notifier_create(struct sp_nic *nic); /* its thread starts with the first doorbell */
void sp_notifier_destroy(struct sp_nic *nic);
/* Makes its descriptors; door->bell is there already. attached: also the one by which a parked application tells the
 * NIC that it has posted. -EMFILE, -ENOMEM, -EAGAIN. */
int sp_doorbell_open(struct sp_nic *nic, struct sp_doorbell *door, bool attached);
void sp_doorbell_given(struct sp_doorbell *door);		     /* another process has the application's end now */
void sp_doorbell_mute(struct sp_nic *nic, struct sp_doorbell *door); /* the notifier wakes its queues no more */
void sp_doorbell_close(struct sp_nic *nic, struct sp_doorbell *door); /* no worker can touch it any more */
/* At the end of a poll: rings for the contexts that were touched in it (w->touched). No system call, except to wake the
 * notifier when it sleeps and somebody is to be woken. */
void sp_doorbells_ring(struct sp_worker *w);
void sp_doorbell_ring(struct sp_nic *nic, struct sp_doorbell *door); /* by a control call */
/* No worker is in a poll: a view that goes away. */
void sp_touch_forget(struct sp_worker *w, const struct sp_context *c);

#endif
