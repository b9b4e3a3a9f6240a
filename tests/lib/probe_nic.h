/* SPDX-License-Identifier: BSD-3-Clause */
/* The NIC under test with handlers "hashed" and "hashed-burst" (probes) and "plain", and short calls for most
 * rules. */
#ifndef TESTS_PROBE_NIC_H
#define TESTS_PROBE_NIC_H

#include "probe.h"

void probe_start(void);
void probe_stop(void);
void probe_say(uint32_t qp, struct probe_words w);
void probe_say_udp(uint16_t port);

#endif
