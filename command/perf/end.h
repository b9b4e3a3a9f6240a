/* SPDX-License-Identifier: BSD-3-Clause */
/* One end of a connection that spindle perf measures: messages of one size, over SDR, RVMA or RDMA. */
#ifndef COMMAND_PERF_END_H
#define COMMAND_PERF_END_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "../../host-api/spindle.h"

#define PERF_SIZE_MOST	(1u << 24) /* bytes of a message */
#define PERF_DEPTH_MOST 64u	   /* messages in flight */
#define PERF_CONNECT	(20 * SP_SEC)

struct perf_end {
	struct sp_dev *dev;
	uint32_t size, depth; /* of messages; how many are in flight at most */
	bool server;
	uint64_t posted, sent, received; /* messages; sent: the peer has it */
	const char *what;		 /* that has failed */
	void *own;			 /* of the op */
};

/* Calls return 0 or -errno; after an error `what` says what has failed. */
struct perf_op {
	const char *name;
	int (*open)(struct perf_end *e, json_t *info);		/* info: gets what the peer must know */
	int (*connect)(struct perf_end *e, const json_t *info); /* the peer's; it is not trusted */
	int (*post)(struct perf_end *e);			/* one message; -EAGAIN: not now */
	int (*progress)(struct perf_end *e);			/* updates sent and received; never waits */
	void (*close)(struct perf_end *e);			/* also after an open that has failed */
};
extern const struct perf_op perf_sdr, perf_rvma, perf_rdma;

static inline int perf_failed(struct perf_end *e, const char *what, int rc)
{
	e->what = rc ? what : e->what;
	return rc;
}

#endif
