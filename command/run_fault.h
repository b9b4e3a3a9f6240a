/* SPDX-License-Identifier: BSD-3-Clause */
/* What `spindle run` does about handlers that crash or do not come back: it says so, keeps the packets, and ends the
 * NIC; a stop does not wait for them for ever. */
#ifndef COMMAND_RUN_FAULT_H
#define COMMAND_RUN_FAULT_H

#include <pthread.h>
#include <signal.h>
#include <stdio.h>

#include "../pipeline/nic.h"

#define RUN_FAULT   3 /* exit status: a handler has ended the NIC */
#define RUN_CRASHES 5 /* signals */

/* Packets of faults go to a pcapng file, which is there from the first fault on. The warden's thread writes, one fault
 * after another, or a thread that has crashed. */
struct run_fault {
	char path[256];
	int file;  /* -1: none yet */
	bool over; /* it is full, or could not be written */
	unsigned faults;
	uint64_t bytes;
	void (*abandon)(void *arg);
	void *arg;
	struct sigaction before[RUN_CRASHES];
};
/* Sets config->fault, and handles the signals by which a crash shows. The file: config->fault_capture, or
 * NAME-faults.pcapng beside the socket. abandon: what is to be done before the process ends; async-signal-safe. */
void run_fault_set(struct run_fault *f, struct sp_nic_config *config, const char *socket, void (*abandon)(void *arg),
		   void *arg);
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
