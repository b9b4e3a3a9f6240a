/* SPDX-License-Identifier: BSD-3-Clause */
/* What `spindle run` does about handlers that do not come back: it says so, keeps the packets, and does not wait for
 * them for ever when it is to end. */
#ifndef COMMAND_RUN_FAULT_H
#define COMMAND_RUN_FAULT_H

#include <pthread.h>
#include <stdio.h>

#include "../../pipeline/nic.h"

/* Faults in a pcapng file, which is there from the first one on. The warden's thread writes, one fault after another.
 */
struct run_fault {
	char path[256];
	FILE *file; /* NULL: none yet */
	bool over;  /* it is full, or could not be written */
	unsigned faults;
	uint64_t bytes;
};
/* Sets config->fault. The file: config->fault_capture, or NAME-faults.pcapng beside the socket. */
void run_fault_set(struct run_fault *f, struct sp_nic_config *config, const char *socket);
void run_fault_close(struct run_fault *f);

/* Ends the process where a worker, a handler's detach(), or what a plug-in does when it is loaded or unloaded would
 * keep it for ever. *l must stay: it looks on until the process has ended. */
struct run_leave {
	struct sp_nic *nic;
	void (*abandon)(void *arg);
	void *arg;
	pthread_t thread;
	bool started;
	pthread_mutex_t lock; /* of what follows; the first thread writes */
	bool stopped, ended;  /* `lock` is never destroyed */
};
/* abandon: what is to be done before _exit(). */
void run_leave_start(struct run_leave *l, struct sp_nic *nic, void (*abandon)(void *arg), void *arg);
void run_leave_stopped(struct run_leave *l); /* the workers have ended */
void run_leave_end(struct run_leave *l);     /* and the NIC has gone */

#endif
