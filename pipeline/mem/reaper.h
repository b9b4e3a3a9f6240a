/* SPDX-License-Identifier: BSD-3-Clause */
/* The reaper: a process that closes what other processes may still have open. Closing a descriptor can take as long as
 * whoever made it likes (a lingering socket), and the kernel closes it on the thread that drops the last reference. A
 * thread of the NIC would not do: a process whose thread hangs in the kernel cannot be killed. So the NIC hands such
 * descriptors over, and closes its own copy, which is never the last.
 *
 * The reaper shares no memory and no descriptors with the NIC, and holds none of its ports, locks or sockets. It ends
 * with the NIC. */
#ifndef PIPELINE_MEM_REAPER_H
#define PIPELINE_MEM_REAPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum sp_reaped {
	SP_REAP_FILE,	    /* a memfd opened by the NIC: kept until no other process has it open, then closed */
	SP_REAP_CONNECTION, /* dropped by a child of the reaper, which may take long */
};

enum sp_reap_state {
	SP_REAP_HELD, /* for more than a fifth of a second already */
	SP_REAP_DONE,
};

struct sp_reaper {
	int socket; /* -1: none */
	pid_t pid;
};

/* Starts the process. Before any application has attached, so that it inherits none of their memory. -errno */
int sp_reaper_start(struct sp_reaper *r);
/* The NIC ends: so does the reaper, and all that it keeps is closed. */
void sp_reaper_stop(struct sp_reaper *r);
/* Hands fd over and closes it here. uid: whose it may be. Never waits. -EAGAIN: not now; -EPIPE: the reaper is gone. In
 * both cases fd is still open. */
int sp_reaper_give(struct sp_reaper *r, enum sp_reaped what, uint64_t id, uint32_t uid, int fd);
/* The next report. Never waits. 0; -EAGAIN: none; -EPIPE: the reaper is gone. */
int sp_reaper_take(struct sp_reaper *r, uint64_t *id, enum sp_reap_state *state);

#endif
