/* SPDX-License-Identifier: BSD-3-Clause */
/* Where senders call: the listening socket, and callers that have not said yet what they want. A few at a time, each
 * with a deadline; a caller too many takes the place of the one that has waited longest. */
#ifndef COMMAND_RECV_DOOR_H
#define COMMAND_RECV_DOOR_H

#include <poll.h>

#include "words.h"

#define DOOR_CALLERS 16

struct door {
	int fd;
	char where[80]; /* address and port */
	bool busy;	/* callers are told so, and go */
	struct {
		struct talk *talk;
		sp_time until;
		bool answered;
	} caller[DOOR_CALLERS];
};

/* 0, or -errno with why (static text, or NULL: that errno's). */
int door_open(struct door *d, const char *host, const char *port, const char **why);
void door_close(struct door *d);
/* What to poll for; how many. */
nfds_t door_fds(void *door, struct pollfd *fds);
/* Lets callers in and listens to them. */
void door_step(void *door);
/* Takes the first caller that has said what it wants: its talk and the hello; NULL: none has. */
struct talk *door_take(struct door *d, struct talk_hello *hello);

#endif
