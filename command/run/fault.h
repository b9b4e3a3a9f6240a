/* SPDX-License-Identifier: BSD-3-Clause */
/* Handlers that crash or hang in `spindle run`: it prints a message, records the packets and ends the NIC. A stop does
 * not wait for such handlers for ever. */
#ifndef COMMAND_RUN_FAULT_H
#define COMMAND_RUN_FAULT_H

#include <pthread.h>
#include <signal.h>
#include <stdio.h>

#include "../../pipeline/nic.h"

#define RUN_FAULT   3 /* exit status: a handler has ended the NIC */
#define RUN_CRASHES 6 /* signals */

/* Records packets of faults in a pcapng file, which the first fault creates. The watchdog's thread writes, one fault
 * after another, or a thread that has crashed. */
struct run_fault {
	char path[256];
	int file;  /* -1: none yet */
	bool over; /* the file is full, or could not be written */
	unsigned faults;
	uint64_t bytes;
	void (*abandon)(void *arg);
	void *arg;
	struct sigaction before[RUN_CRASHES];
};
/* Sets config->fault, and handles the signals of crashes. The file is config->fault_capture, or NAME-faults.pcapng
 * beside the socket. abandon: called before the process ends at once; async-signal-safe. */
void run_fault_set(struct run_fault *f, struct sp_nic_config *config, const char *socket, void (*abandon)(void *arg),
		   void *arg);
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
