/* SPDX-License-Identifier: BSD-3-Clause */
/* The files that a replay reads and writes. */
#ifndef COMMAND_REPLAY_FILES_H
#define COMMAND_REPLAY_FILES_H

#include "state.h"

/* An output would empty an input before it is read, or two outputs are one file: prints a message. */
bool replay_outputs_collide(struct replay *r);
/* Opens the capture and the recording; queues: receive queues that the capture feeds. 0, or -errno after a message. */
int replay_files_open(struct replay *r, uint16_t queues);
int replay_trace_open(struct replay *r);   /* if --trace is given; 0, or -errno after a message */
void replay_trace_close(struct replay *r); /* before the report is printed */

#endif
