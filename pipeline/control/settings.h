/* SPDX-License-Identifier: BSD-3-Clause */
/* A context's `key = value` settings: generic ones, and its handler's parameters. [control] */
#ifndef PIPELINE_CONTROL_SETTINGS_H
#define PIPELINE_CONTROL_SETTINGS_H

#include <stddef.h>

struct sp_error;
struct sp_context;
struct sp_setting;

/* Own copies into c->setting; -ENOMEM. */
int sp_settings_copy(struct sp_context *c, const struct sp_setting *from, size_t count);
/* Known keys only, each once, and values of the declared type. */
int sp_settings_check(const struct sp_context *c, struct sp_error *error);
/* Takes qp, rate and message-timeout into c. */
int sp_settings_generic(struct sp_context *c, struct sp_error *error);
/* NULL: not given. */
const char *sp_setting(const struct sp_context *c, const char *key);

#endif
