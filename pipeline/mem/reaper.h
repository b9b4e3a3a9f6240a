/* SPDX-License-Identifier: BSD-3-Clause */
/* The reaper: a process that closes what other processes may still have open. Closing a descriptor can take as long as
 * whoever made it likes (a lingering socket, a file of a FUSE of the application's own), and the kernel closes it on
 * the thread that drops the last reference. A thread of the NIC would not do: a process whose thread hangs in the
 * kernel cannot be killed. So the NIC's own close is never the last.
 *
 * That holds for each end of the NIC, too. Descriptors that a program has sent lie in the connection until somebody
 * reads them, and go with it. So the reaper has a copy of the listening socket and of each connection from the
 * beginning. When the NIC ends, the reaper shuts them down, so that programs learn of it, and drops them, each in a
 * child.
 *
 * The reaper shares no memory with the NIC and nothing else that the NIC has open, and holds none of its ports or
 * locks. */
#ifndef PIPELINE_MEM_REAPER_H
#define PIPELINE_MEM_REAPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum sp_reaped {
	SP_REAP_FILE,	 /* a memfd opened by the NIC: kept until no other process has it open, then closed */
	SP_REAP_SOCKET,	 /* kept until RELEASE, or until the NIC ends */
	SP_REAP_RELEASE, /* the socket of that id is dropped, by a child of the reaper: it may take long. No descriptor
			  */
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
/* Hands a copy of fd over. uid: whose it may be. Never waits. -EAGAIN: not now; -EPIPE: the reaper is gone. */
int sp_reaper_give(struct sp_reaper *r, enum sp_reaped what, uint64_t id, uint32_t uid, int fd);
bool sp_reaper_ready(const struct sp_reaper *r); /* can something be handed over now? */
bool sp_reaper_lives(const struct sp_reaper *r);
/* The next report. Never waits. 0; -EAGAIN: none; -EPIPE: the reaper is gone. */
int sp_reaper_take(struct sp_reaper *r, uint64_t *id, enum sp_reap_state *state);

#endif
