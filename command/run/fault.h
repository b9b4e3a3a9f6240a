/* SPDX-License-Identifier: BSD-3-Clause */
/* Handlers that hang in `spindle run`: it prints a message, records the packets, and limits how long it waits at its
 * end. */
#ifndef COMMAND_RUN_FAULT_H
#define COMMAND_RUN_FAULT_H

#include <pthread.h>
#include <stdio.h>

#include "../../pipeline/nic.h"

/* Records faults in a pcapng file, which the first fault creates. Only the warden's thread writes. */
struct run_fault {
	char path[256];
	FILE *file; /* NULL: none yet */
	bool over;  /* the file is full, or could not be written */
	unsigned faults;
	uint64_t bytes;
};
/* Sets config->fault. The file is config->fault_capture, or NAME-faults.pcapng beside the socket. */
void run_fault_set(struct run_fault *f, struct sp_nic_config *config, const char *socket);
void run_fault_close(struct run_fault *f);

/* Ends the process if a worker, a handler's detach(), or a constructor or destructor of a plug-in would hang it for
 * ever. *l must exist until the process has ended. */
struct run_leave {
	struct sp_nic *nic;
	void (*abandon)(void *arg);
	void *arg;
	pthread_t thread;
	bool started;
	pthread_mutex_t lock; /* protects what follows; the first thread writes */
	bool stopped, ended;  /* `lock` is never destroyed */
};
/* abandon: called before _exit(). */
void run_leave_start(struct run_leave *l, struct sp_nic *nic, void (*abandon)(void *arg), void *arg);
void run_leave_stopped(struct run_leave *l); /* the workers have ended */
void run_leave_end(struct run_leave *l);     /* and the NIC has been destroyed */

#endif
