/* SPDX-License-Identifier: BSD-3-Clause */
/* The listening socket, and callers that have not sent their first line yet. Their number is bounded, and each has a
 * deadline; a further caller replaces the one that has waited longest. */
#ifndef COMMAND_RECV_DOOR_H
#define COMMAND_RECV_DOOR_H

#include <poll.h>

#include "words.h"

#define DOOR_CALLERS 16

struct door {
	int fd;
	char where[80]; /* address and port */
	bool busy;	/* callers get an error, and are closed */
	struct {
		struct talk *talk;
		sp_time until;
		bool answered;
	} caller[DOOR_CALLERS];
};

/* 0, or -errno and why (a static text, or NULL: strerror() of the errno). */
int door_open(struct door *d, const char *host, const char *port, const char **why);
void door_close(struct door *d);
/* Fills in what to poll for; returns how many. */
nfds_t door_fds(void *door, struct pollfd *fds);
/* Accepts callers and reads their lines. */
void door_step(void *door);
/* Takes the first caller that has sent its first line: its talk and the line; NULL: there is none. */
struct talk *door_take(struct door *d, struct talk_hello *hello);

#endif
