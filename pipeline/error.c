/* SPDX-License-Identifier: BSD-3-Clause */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>

#include "nic.h"

int sp_error_set(struct sp_error *error, int err, const char *key, const char *format, ...)
{
	va_list ap;

	if (error) {
		snprintf(error->key, sizeof(error->key), "%s", key);
		va_start(ap, format);
		vsnprintf(error->text, sizeof(error->text), format, ap);
		va_end(ap);
	}
	return -err;
}
