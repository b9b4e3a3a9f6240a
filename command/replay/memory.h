/* SPDX-License-Identifier: BSD-3-Clause */
/* Host memory of a replay: receives posted before it, and areas that contexts share with the host. */
#ifndef COMMAND_REPLAY_MEMORY_H
#define COMMAND_REPLAY_MEMORY_H

#include "state.h"

int replay_buffer_open(struct replay *r, struct replay_buffer *b); /* 0, or -errno after a message */
void replay_buffer_dump(struct replay *r, const struct replay_buffer *b);
void replay_buffers_free(struct replay *r); /* after the NIC, which may write to them until it is destroyed */

#endif
