/* SPDX-License-Identifier: BSD-3-Clause */
#include "state.h"

#include <stdarg.h>
#include <stdio.h>

bool replay_expects_packets(const struct replay *r)
{
	for (unsigned i = 0; i < SP_MAX_PORTS; i++)
		if (r->expect_port[i])
			return true;
	return r->expect_file != NULL;
}

void replay_complain(struct replay *r, const char *format, ...)
{
	va_list ap;

	fflush(stdout); /* the report comes before the message, also when both go to one place */
	fputs("spindle replay: ", stderr);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	r->status = 1;
}
