/* SPDX-License-Identifier: BSD-3-Clause */
/* The handlers' calls for packets: classify, header, payload, completion, miss; and what each verdict means. */
#ifndef PIPELINE_EXEC_CALLS_H
#define PIPELINE_EXEC_CALLS_H

#include "../view.h"

struct sp_packet;

/* Packets of one context, in order of arrival. Those that this version may not run any more, since it has been
 * replaced meanwhile, are put back into their entity's batch. */
void sp_call_packets(struct sp_view *v, struct sp_packet **p, unsigned n);
/* Consecutive packets with one key, of a message of this view. draining: the view's version has been replaced, and
 * opens no messages. Returns how many packets, at the end of p, belong to a newer version. */
unsigned sp_call_message(struct sp_view *v, struct sp_packet *const *p, unsigned n, bool draining);

#endif
