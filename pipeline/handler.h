/* SPDX-License-Identifier: BSD-3-Clause */
/* Handlers that this process knows. */
#ifndef PIPELINE_HANDLER_H
#define PIPELINE_HANDLER_H

#include "../handlers/spindle-handler.h"

/* The declaration of a parameter; NULL. */
const struct sp_param *sp_handler_param(const struct sp_handler *h, const char *name);
/* A value as the declaration wants it; 0 and *value, or -EINVAL, -ERANGE. */
int sp_param_parse(const struct sp_param *param, const char *text, uint64_t *value);
unsigned sp_names_count(const char *const *names);

#endif
