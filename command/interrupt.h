/* SPDX-License-Identifier: BSD-3-Clause */
/* SIGINT, SIGTERM and SIGHUP: for commands that stop in order, and for those that end at once. */
#ifndef COMMAND_INTERRUPT_H
#define COMMAND_INTERRUPT_H

#include <stdbool.h>

/* Starts a thread that waits for these signals; they interrupt no other thread. Must be called before other threads
 * start. The first signal lets interrupt_wait() return. The second calls abandon(arg) in that thread, if abandon is not
 * NULL, and ends the process as if the signal had not been handled. SIGPIPE is ignored; so is SIGHUP if it was before
 * (nohup). 0 or -errno. */
int interrupt_start(void (*abandon)(void *arg), void *arg);
/* Sleeps until the first signal has come. */
void interrupt_wait(void);
/* The same without a thread, for commands that fork: the first signal sets interrupt_came(), the second ends the
 * process. 0 or -errno. */
int interrupt_note(void);
bool interrupt_came(void); /* for polling; do not combine with interrupt_wait() */

/* For commands that a signal may end at any point: a signal also removes the directory that EAL has made for this
 * process. Ignored signals stay ignored. */
void interrupt_clean(void);

#endif
