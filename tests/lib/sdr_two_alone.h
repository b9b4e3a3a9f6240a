/* SPDX-License-Identifier: BSD-3-Clause */
/* Two sdr handlers, each with a stand-in for its NIC. The test carries packets from one to the other. */
#ifndef TESTS_SDR_TWO_ALONE_H
#define TESTS_SDR_TWO_ALONE_H

#include "sdr_alone.h"

extern struct fake_nic alone_peer;
extern const char *const alone_control4[];
void alone_pair(uint64_t buffer);
void alone_unpair(void);
uint32_t alone_deliver(struct fake_nic *to, const struct fake_sent *s);
void alone_deliver_all(struct fake_nic *from, struct fake_nic *to);

#endif
