/* SPDX-License-Identifier: BSD-3-Clause */
/* Differences are counted, and the first few are reported. */
#include "expect_private.h"

#include <stdarg.h>
#include <stdio.h>

void sp_differ(struct sp_differences *d, const char *format, ...)
{
	char text[1024];
	va_list ap;

	if (d->count++ >= SP_EXPECT_SAID)
		return;
	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	d->say->say(d->say->arg, text);
}

int sp_expect_fail(struct sp_error *error, int err, const char *file, const char *what)
{
	if (error) {
		error->key[0] = '\0';
		snprintf(error->text, sizeof(error->text), "%.110s: %.140s", file, what);
	}
	return err;
}
