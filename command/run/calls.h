/* SPDX-License-Identifier: BSD-3-Clause */
/* The system calls that the process of `spindle run` may make once it is ready: the table is in calls.c. */
#ifndef COMMAND_RUN_CALLS_H
#define COMMAND_RUN_CALLS_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>

/* True if there is no filter in this build: the sanitizers' libraries make calls of their own. */
extern const bool calls_unfiltered_build;
/* 0: the kernel can filter calls; -errno. */
int calls_supported(void);

struct calls_wanted {
	bool no_code; /* no memory becomes executable any more: live-handlers = no */
	bool devices; /* drivers of real devices run: they speak to the kernel by ioctl() */
};

/* From here on, in all threads, calls that no role needs raise SIGSYS; what must not be writable and executable at once
 * is refused. 0, or -errno: then no thread is filtered. */
int calls_filter(const struct calls_wanted *wanted);
/* A narrower filter, for a process of one role alone, to install after fork(); the caller frees program->filter. */
int calls_program(const char *role, struct sock_fprog *program);

/* The name of a call, for messages; async-signal-safe after calls_filter(). NULL: unknown. */
const char *calls_name(int number);

#endif
