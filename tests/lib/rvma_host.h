/* SPDX-License-Identifier: BSD-3-Clause */
/* An application of rvma without a NIC: its contexts, memory and peers. */
#ifndef TESTS_RVMA_HOST_H
#define TESTS_RVMA_HOST_H

#include <sys/socket.h>
#include "../../handlers/wire/rvma.h"
#include "../../host-api/device.h"
#include "../../host-api/rvma.h"
#include "suite.h"

#define CONTEXT 7u
#define WINDOWS 8u
#define OPS	4u
#define PAYLOAD 2000u
#define TAKEN	0x10002u /* a QP number that another context has */

extern struct fake {
	struct sp_dev dev; /* first */
	bool has4, has6, gone, closed;
	unsigned opens;
	uint32_t qp; /* that is given for `any` */
	bool no_qp;
	uint32_t given;
	char set[1024], name[32], error_key[40];
	_Alignas(64) uint8_t area[4096];
	uint64_t area_len;
	int call_status;
	struct sp_event result;	   /* of calls */
	struct sp_command last[4]; /* [0] the latest */
	struct sp_event event[128];
	unsigned events;
	uint64_t from, to; /* epochs that are held, and the one behind them */
	bool full;
} host_f;

extern struct rvma *host_r;
extern struct sp_mr host_mr, host_notes;
extern const struct rvma_address host_far_away;
int address(struct sp_dev *d, int family, uint8_t ip[16]);
extern struct rvma_attr host_usual;
void host_fresh(void);
void host_open(void);
void host_shut(void);
void host_event(uint16_t op, int status, uint64_t cookie);
void host_line(uint32_t slot, uint64_t number, uint64_t status);

#endif
