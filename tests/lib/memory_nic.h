/* SPDX-License-Identifier: BSD-3-Clause */
/* A NIC with a handler that runs functions of the test. */
#ifndef TESTS_MEMORY_NIC_H
#define TESTS_MEMORY_NIC_H

#include <sys/socket.h>
#include "../../pipeline/exec/rings.h"
#include "../../pipeline/mem/memory.h"
#include "dut.h"

extern uint64_t memo_seen[4096];
extern unsigned memo_sees;
enum { CMD_RUN = SP_CMD_OWN, CMD_NOTE, CMD_FAIL, CMD_EVENTS, CMD_LIE };
extern uint32_t memo_id;

/* With one worker: what a device has for its commands, a context for its events. */
#define QUEUES sp_attach_stride(SP_COMMANDS)

void memo_start(uint64_t limit);
void memo_stop(void);
void memo_inside(void (*fn)(struct sp_ctx *));
extern const struct sp_mem *memo_mem;
const struct sp_mem *memo_get(uint32_t region);
void memo_put(const struct sp_mem *m);

#define SIZE 100

#endif
