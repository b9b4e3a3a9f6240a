/* SPDX-License-Identifier: BSD-3-Clause */
/* The NIC under test with a handler that sends what the test says. */
#ifndef TESTS_SENDER_H
#define TESTS_SENDER_H

#include "probe_nic.h"

extern struct sender_job {
	struct sp_path *path[SP_MAX_PATHS + 1];
	unsigned paths;
	int opened; /* result of the last sp_path_open */
	const struct sp_send *send;
	struct sp_send *run; /* CMD_SEND_RUN: this one and those behind it */
	unsigned runs;
	int ran; /* what became of them */
	const void *frame;
	uint32_t frame_len;
	uint16_t qp_index[16];
	unsigned indexes;
} sender_job;

enum { CMD_SEND = SP_CMD_OWN, CMD_SEND_MEM, CMD_PATH, CMD_UNPATH, CMD_FRAME, CMD_SEND_RUN };
extern uint32_t sender_control;
int sender_call(uint32_t id, uint16_t op, uint64_t a0, uint64_t a1);

/* The NIC with a context of this handler: it knows the neighbours, or none. */
uint32_t sends_to(const char *settings);
uint32_t sends_in(uint16_t vlan, const char *settings);
uint32_t sends_to_strangers(const char *settings);
unsigned be16(const uint8_t *b);

#endif
