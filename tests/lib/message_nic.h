/* SPDX-License-Identifier: BSD-3-Clause */
/* A NIC with probes whose messages are in a hash table or in slots. */
#ifndef TESTS_MESSAGE_NIC_H
#define TESTS_MESSAGE_NIC_H

#include "probe.h"

#define QP 0x40

uint32_t message_begin(const char *handler, const char *settings);
void message_stop(void);
void message_say(struct probe_words w);
struct probe_call *message_last(void);

#endif
