/* SPDX-License-Identifier: BSD-3-Clause */
/* A NIC with a handler that exports its messages, and a companion handler. */
#ifndef TESTS_COMPANION_NIC_H
#define TESTS_COMPANION_NIC_H

#include "../../handlers/spindle-export.h"
#include "probe.h"

#define QP 16

extern unsigned comp_attached, comp_detached;

/* Says that it has messages and then sets no limit. */
uint64_t classify(struct sp_ctx *c, struct sp_packet *p);

extern unsigned comp_exported, comp_bursts; /* calls of exports; of the companion's payload_burst */

void comp_start(void);
void comp_stop(void);
void comp_send(struct probe_words w);

#endif
