/* SPDX-License-Identifier: BSD-3-Clause */
/* Short calls for tests that replace a handler of the NIC under test. */
#ifndef TESTS_LIVE_SAY_H
#define TESTS_LIVE_SAY_H

#include "live_nic.h"

void live_start(const char *kind, uint16_t workers);
uint32_t live_add(const char *name, const char *settings);
void live_say(uint64_t key, uint32_t verdict);
void live_settle(void);
unsigned live_collect(void);
void live_replace(const char *kind);

void live_refused_at(const char *name, const char *file, int rc, const char *words, int line);
#define REFUSED(name, file, rc, words) live_refused_at(name, file, rc, words, __LINE__)

#endif
