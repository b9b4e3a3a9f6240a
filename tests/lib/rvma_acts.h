/* SPDX-License-Identifier: BSD-3-Clause */
/* Random actions of applications, and the results that the model gives for them. */
#ifndef TESTS_RVMA_ACTS_H
#define TESTS_RVMA_ACTS_H

#include "rvma_watch.h"

/* ---- what applications do ---- */
int app_call(struct app *x, uint16_t op, const uint64_t arg[6], uint64_t cookie, uint16_t flags,
	     struct sp_event *result);

#define APP_ARGS(...)                                                                                                  \
	(const uint64_t[6])                                                                                            \
	{                                                                                                              \
		__VA_ARGS__                                                                                            \
	}

void app_init_window(struct apps *a, struct app *x);
void app_post(struct apps *a, struct app *x);
void app_operation(struct apps *a, struct app *x, bool get);
void app_free_window(struct apps *a, struct app *x, struct mo_window *w);
/* inc_epoch, close, free, release, rewind, epoch. */
void app_manage(struct apps *a, struct app *x);

#endif
