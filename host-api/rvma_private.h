/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of the rvma_ calls: rvma.c (contexts, peers). rvma_window.c, rvma_op.c (puts and gets) and rvma_wait.c
 * use it. */
#ifndef HOST_API_RVMA_PRIVATE_H
#define HOST_API_RVMA_PRIVATE_H

#include <errno.h>

#include "../handlers/wire/roce.h"
#include "../handlers/wire/rvma.h"
#include "context.h"
#include "rvma.h"

struct rvma_op {
	struct rvma *rvma;
	struct rvma_peer *peer;
	uint32_t slot, number; /* number of the operation: the NIC's status line has it once the operation has ended */
	int failed;	       /* -errno: the NIC has refused the command */
	struct sp_command command;
	bool busy;
	struct rvma_op *next; /* free */
};

struct rvma_peer {
	struct rvma *rvma;
	struct rvma_peer *next;
	struct rvma_address address;
	uint32_t id, users, ops; /* users: opened and not closed; ops: in flight */
	bool gone;		 /* the NIC has forgotten the id: ask it again */
};

struct rvma_window {
	struct rvma *rvma;
	struct rvma_window *next, **back; /* back: the pointer that points here */
	uint64_t id;
};

struct rvma {
	struct sp_dev *dev;
	uint32_t id, windows, ops, mtu;
	const uint8_t *area; /* the NIC writes it and is not trusted: the library checks all that it reads there */
	struct sp_rvma_layout layout;
	struct rvma_address address;
	int error; /* sticky */
	struct rvma_op *op, *op_free;
	struct rvma_peer *peers;
	struct rvma_window *window;
};

static inline uint64_t rvma_area_read(const struct rvma *r, uint64_t offset)
{
	return __atomic_load_n((const uint64_t *)(const void *)(r->area + offset), __ATOMIC_ACQUIRE);
}

#pragma GCC visibility push(hidden)
/* Handles events of the NIC. Returns 0 or the context's sticky error. */
int rvma_check(struct rvma *r);
int rvma_call(struct rvma *r, uint16_t op, const uint64_t *arg, unsigned args, struct sp_event *result);
/* Asks the NIC for the peer's id. */
int rvma_peer_find(struct rvma_peer *peer);
#pragma GCC visibility pop

#endif
