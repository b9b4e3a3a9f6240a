/* SPDX-License-Identifier: BSD-3-Clause */
/* The time between two samples: keys, signals, Ctrl-Z, and NICs that go. */
#ifndef COMMAND_STAT_PAUSE_H
#define COMMAND_STAT_PAUSE_H

#include "view.h"

#define STAT_LINKS 16 /* NICs at once */

struct stat_pause {
	struct stat_view *view;
	struct sp_attach_link *link; /* of each NIC */
	unsigned links;		     /* STAT_LINKS at most */
	void (*redraw)(void *arg);   /* a key has changed the view */
	void *arg;
};

/* From here on SIGINT and the like end pauses. Ignored ones (nohup) stay ignored. */
void stat_pause_signals(void);
bool stat_pause_ended(void); /* a signal has come */
/* True: it is `until`, or a NIC has gone (its link is dead). False: a signal or a key ends the command. */
bool stat_pause(const struct stat_pause *p, sp_time until);

#endif
