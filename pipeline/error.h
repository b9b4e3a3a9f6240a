/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors in words, for struct sp_error. */
#ifndef PIPELINE_ERROR_H
#define PIPELINE_ERROR_H

struct sp_error;

/* Fills error (may be NULL) and returns -err. */
int sp_error_set(struct sp_error *error, int err, const char *key, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

#endif
