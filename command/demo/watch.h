/* SPDX-License-Identifier: BSD-3-Clause */
/* A port between the sender's NIC and the link. It records each packet, and whether the link loses it. */
#ifndef COMMAND_DEMO_WATCH_H
#define COMMAND_DEMO_WATCH_H

#include "../../pipeline/ports/port.h"
#include "record.h"

struct demo_watch {
	const struct demo *d;
	struct demo_lane *l;
	const struct sp_port_ops *ops; /* the port behind */
	void *port;
	const struct sp_link *link;
	sp_time begin;
	bool failed; /* no memory for events */
};
extern const struct sp_port_ops demo_watch_ops; /* ops_arg: struct demo_watch * */

/* Records the chunks of message m that the receiver has by this bitmap; NULL: all chunks. */
void demo_watch_chunks(struct demo_watch *w, const struct demo_message *m, const uint64_t *bitmap, sp_time now);

#endif
