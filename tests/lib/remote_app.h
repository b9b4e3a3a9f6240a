/* SPDX-License-Identifier: BSD-3-Clause */
/* An application in another process, as the NIC holds it, and a handler that asks for what its settings say. The
 * test plays the application. */
#ifndef TESTS_REMOTE_APP_H
#define TESTS_REMOTE_APP_H

#include "../../pipeline/exec/rings.h"
#include "../../pipeline/mem/memory.h"
#include "dut.h"

/* ---- a handler that wants what it is told to want ---- */

enum { CMD_NOTE = SP_CMD_OWN, CMD_EVENTS, CMD_STORE, CMD_OR, CMD_ADD, CMD_WRITE, CMD_PEEK, CMD_PROGRESS };

struct remote_state {
	const struct sp_mem *area;
	uint64_t commands, unsteady;
	uint64_t last; /* arg[0] of the last command */
};

/* ---- helpers ---- */

struct sp_device *remote_attach(uint64_t memory, uint32_t contexts, uint32_t qps, uint32_t messages);
extern struct sp_error remote_error;
/* settings: "qp=5;area=100" */
int remote_try_open(struct sp_device *d, const char *settings, uint32_t *id);
uint32_t remote_opened(struct sp_device *d, const char *settings);
struct remote_state *remote_state_of(uint32_t id);
int remote_call(struct sp_device *d, uint32_t id, uint16_t op, uint64_t arg);

#endif
