/* SPDX-License-Identifier: BSD-3-Clause */
/* Compares applications on two NICs with the model: every byte of memory, the status of all windows, and the end
 * of every put and get. Taps show the model the packets. */
#ifndef TESTS_RVMA_WATCH_H
#define TESTS_RVMA_WATCH_H

#include <sys/socket.h>
#include <rte_mempool.h>
#include "../../handlers/wire/rvma.h"
#include "../../testbed/link.h"
#include "../../testbed/world.h"
#include "rvma_model.h"
#include "tap.h"

#define APP_SLOTS   40
#define APP_ROOM    12288 /* of a slot; the buffer is inside, not at its edges */
#define APP_GUARD   128
#define APP_OPS	    24 /* at once */
#define APP_SLOT(i) (APP_SLOTS * 64 + (uint64_t)(i)*APP_ROOM)
#define APP_LAND(i) (APP_SLOT(APP_SLOTS) + (uint64_t)(i)*APP_ROOM)
#define APP_BYTES   (APP_LAND(APP_OPS))
#define APP_SOURCE  (1u << 18)
#define APP_KINDS   7 /* of mailboxes */

struct op { /* a put or get */
	bool used, get, fence, dead;
	unsigned to, life; /* of the peer, when it was asked for */
	uint64_t number, order, source, length, mailbox, key, at;
	unsigned back;
	struct mo_session *session; /* once its first packet was seen: in this one, */
	uint64_t transfer;	    /* that number */
	bool bound;
};

struct app {
	struct apps *apps;
	unsigned c, nic, life;
	bool open;
	struct sp_dev *dev;
	uint32_t id, peer[MO_CONTEXTS]; /* + 1 */
	unsigned orphans[MO_CONTEXTS];	/* operations to that peer that had ended before anything of them was seen */
	struct sp_mr *mr, *source;
	uint8_t *memory;
	const uint8_t *area;
	int slot[APP_SLOTS];
	struct op op[APP_OPS];
	uint64_t order;
	sp_time wake;
};

struct apps {
	struct mo mo;
	struct app app[MO_CONTEXTS];
	struct sp_random random;
	uint64_t seed, steps;
	bool quiet;		/* nothing new is begun, and what is known of memory is not exact */
	bool dead[MO_CONTEXTS]; /* says nothing any more, not even goodbye */
	double loss;
	sp_time timeout, pause;
	uint64_t limit; /* operations and commands to be done */
	uint64_t did, asked[16], statuses[MO_STATUSES], got;
	struct sp_link_direction link[2];
	unsigned burst;
	bool ipv6, silent;
	struct sp_link *under;
	struct sp_world *world;
	struct sp_nic *nic[2];
	struct tap tap[2];
	struct tap_end {
		struct apps *apps;
		unsigned e;
	} end[2];
};

extern uint8_t app_source[APP_SOURCE];
extern const uint64_t app_keys[];
extern const uint64_t app_mailboxes[APP_KINDS];

#define APP_CHECK(a, x, ...) MO_CHECK(&(a)->mo, x, __VA_ARGS__)

uint64_t app_below(struct apps *a, uint64_t bound);
bool chance(struct apps *a, double p);
bool app_seen(void *arg, bool in, const uint8_t *frame, uint32_t len, uint64_t tag, sp_time now);
extern const struct sp_port_ops app_ops;

/* ---- what must hold ---- */
const struct sp_rvma_area *app_area(const struct app *x);

struct sp_rvma_window_status app_window_status(const struct app *x, uint64_t id);
void app_check_windows(struct apps *a, struct app *x);
void app_check_memory(struct apps *a, struct app *x, bool all);
void app_check_ops(struct apps *a, struct app *x);

#endif
