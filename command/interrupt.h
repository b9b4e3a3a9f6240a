/* SPDX-License-Identifier: BSD-3-Clause */
/* SIGINT, SIGTERM and SIGHUP: for a command that stops in good order, and for those that just end. */
#ifndef COMMAND_INTERRUPT_H
#define COMMAND_INTERRUPT_H

#include <stdbool.h>

/* From here on these signals interrupt no thread: one of their own waits for them. Before any other thread is there.
 * The first lets interrupt_wait() return; the second calls abandon(arg), if that is not NULL, in the thread for
 * signals, and ends the process as if the signal had not been handled. SIGPIPE is ignored; so is SIGHUP if it was
 * before (nohup). 0 or -errno. */
int interrupt_start(void (*abandon)(void *arg), void *arg);
/* Sleeps until the first signal has come; at once when it has. */
void interrupt_wait(void);
/* The same without a thread, for commands that fork: the first is only noted, for interrupt_came(), the second ends the
 * process. 0 or -errno. */
int interrupt_note(void);
bool interrupt_came(void); /* for those who have something else to do; not beside interrupt_wait() */

/* For commands that a signal may end where they are: the directory that EAL has made for this process goes with them.
 * Signals that are ignored stay so. */
void interrupt_clean(void);

#endif
