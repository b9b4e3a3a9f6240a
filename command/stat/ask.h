/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports of a NIC in another process. */
#ifndef COMMAND_STAT_ASK_H
#define COMMAND_STAT_ASK_H

#include "../../host-api/attach.h"
#include "view.h"

struct stat_asked {
	const char *nic, *context; /* nic NULL: see sp_attach_connect(); context NULL: the whole NIC */
	bool handlers;		   /* also what handlers report about themselves */
};
/* Gets one report over an open connection. 0 or -errno. */
int stat_ask(struct sp_attach_link *link, const struct stat_asked *a, struct stat_sample *sample);
/* -errno of stat_ask(), in words. */
void stat_ask_words(const struct stat_asked *a, int status, char *words, size_t bytes);

#endif
