/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef COMMAND_STAT_SERVE_H
#define COMMAND_STAT_SERVE_H

#include <sys/socket.h>

#include "ask.h"

/* An address of --listen. */
struct stat_address {
	const char *text;
	struct sockaddr_storage at;
	socklen_t bytes;
};
/* [ADDR:]PORT, with a numerical ADDR: 127.0.0.1 (the default), [::1], 0.0.0.0. 0 or -EINVAL. */
int stat_serve_parse(const char *text, struct stat_address *address);
/* Serves a current report as OpenMetrics at http://ADDRESS/metrics until a signal comes. The exit status. */
int stat_serve(const struct stat_asked *a, const struct stat_address *address);

#endif
