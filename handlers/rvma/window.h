/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows: the commands of the host on mailboxes. */
#ifndef HANDLERS_RVMA_WINDOW_H
#define HANDLERS_RVMA_WINDOW_H

#include "state.h"

#pragma GCC visibility push(hidden)
int rv_windows_attach(struct sp_ctx *c);
void rv_windows_detach(struct sp_ctx *c);
/* WINDOW, LIMIT, POST, INC_EPOCH, CLOSE, FREE, EPOCH, RELEASE, REWIND. */
int rv_window_command(struct sp_ctx *c, const struct sp_command *command, struct sp_event *result);
void rv_windows_report(struct sp_ctx *c, struct sp_report *r);
#pragma GCC visibility pop

#endif
