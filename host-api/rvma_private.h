/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of the rvma_ calls: rvma.c (contexts, peers), rvma_window.c, rvma_op.c (puts and gets), rvma_wait.c. */
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
	uint32_t slot, number; /* of the operation: the NIC's line says when that one has ended */
	int failed;	       /* -errno: the NIC did not take it */
	struct sp_command command;
	bool busy;
	struct rvma_op *next; /* free */
};

struct rvma_peer {
	struct rvma *rvma;
	struct rvma_peer *next;
	struct rvma_address address;
	uint32_t id, users, ops; /* users: opened and not closed; ops: on their way */
	bool gone;		 /* or had to make room: the NIC has forgotten the id, and is to be asked anew */
};

struct rvma_window {
	struct rvma *rvma;
	struct rvma_window *next, **back; /* back: what points here */
	uint64_t id;
};

struct rvma {
	struct sp_dev *dev;
	uint32_t id, windows, ops, mtu;
	const uint8_t *area; /* the NIC writes it, and is not trusted to: all that is read from it is checked */
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
/* What the NIC has said since the last call; 0 or the context's sticky error. */
int rvma_check(struct rvma *r);
int rvma_call(struct rvma *r, uint16_t op, const uint64_t *arg, unsigned args, struct sp_event *result);
/* Asks the NIC for the peer's id, also after it was gone. */
int rvma_peer_find(struct rvma_peer *peer);
#pragma GCC visibility pop

#endif
