/* SPDX-License-Identifier: BSD-3-Clause */
/* The findings of `spindle doctor`. */
#ifndef COMMAND_DOCTOR_FINDING_H
#define COMMAND_DOCTOR_FINDING_H

#include <stdbool.h>

struct sp_report;

enum finding { FINE, ATTENTION /* works, but less well or not for everything */, PROBLEM /* will not work */ };

struct doctor {
	const char *config_file; /* the file of -c, or NULL */
	int eal_argc;		 /* the arguments behind "--" */
	char **eal_argv;
	bool json, eal_runs;
	struct sp_report *report; /* NULL: findings are printed */
	unsigned count[3];	  /* by enum finding */
};

/* Reports one finding. advice: what to do about it; NULL if it is fine. */
void doctor_say(struct doctor *d, enum finding finding, const char *item, const char *advice, const char *format, ...)
	__attribute__((format(printf, 5, 6)));
/* The first line of a small file, without its newline; "" if there is none. */
const char *doctor_file(char *line, int room, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
