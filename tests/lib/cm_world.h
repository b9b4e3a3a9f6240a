/* SPDX-License-Identifier: BSD-3-Clause */
/* Stand-ins for NICs that run the handler cm, in virtual time, with a bad network between them. Frames to addresses
 * that no NIC has are kept for the test. */
#ifndef TESTS_CM_WORLD_H
#define TESTS_CM_WORLD_H

#include "../../handlers/cm/state.h"
#include "suite.h"

#define CM_NICS	  2
#define CM_FRAMES 8192
#define CM_OWNED  0xF00000u /* QPs from here on: CM_OWNED + n is application n's only */
#define CM_FRAME  (14 + 20 + 8 + 12 + 8 + 256)

struct cm_frame {
	sp_time at;
	bool used;
	uint8_t bytes[CM_FRAME];
};

struct cm_nic {
	struct sp_ctx c; /* first */
	uint8_t ip[16];
	uint64_t counters[64], drops[64], taken, posted;
	uint32_t last_psn, paths;
	struct sp_timer *timer; /* those that are armed */
	void *alloc[32];
	unsigned allocs;
	int room, post_room; /* packets, events that find room; -1: all */
};

struct cm_world {
	struct cm_nic nic[CM_NICS];
	struct cm_frame frame[CM_FRAMES];
	unsigned frames;	  /* those behind are not used */
	struct cm_frame kept[64]; /* to strangers, the latest */
	unsigned kept_count;
	sp_time now, delay, jitter;
	uint32_t loss, twice; /* of 1000 */
	uint64_t random;
	bool selective[2]; /* applications offer selective repeat: those who ask, those who are asked */
};

extern struct cm_world cm_world;
extern const struct sp_handler *cm_world_handler;

/* settings: name, value, ..., NULL. */
void cm_world_open(uint64_t seed, const char *const *settings);
void cm_world_close(void);
uint32_t cm_world_end(void); /* the same, outside of rules: paths that are still open */
void cm_world_run(sp_time until);
uint32_t cm_world_draw(uint32_t below);
/* One frame to a NIC: the verdict. It need not come from a NIC. */
uint32_t cm_world_give(unsigned nic, const uint8_t *frame);
/* A frame as a peer's general services interface makes it. */
void cm_world_frame(uint8_t *frame, const uint8_t from[16], const uint8_t to[16], const struct sp_cm_mad *m);
const struct sp_cm_mad *cm_world_kept(unsigned back); /* 0: the latest */
int cm_ask(unsigned nic, uint32_t app, uint32_t op, const void *in, uint32_t len, void *out, uint32_t room);

/* Shorter ways to ask. Results are ids or ports, or -errno. */
int64_t cm_new(unsigned nic, uint32_t app, uint32_t kind);
int cm_listen_on(unsigned nic, uint32_t app, uint32_t id, uint16_t port, uint32_t backlog);
int cm_connect_to(unsigned nic, uint32_t app, uint32_t id, const uint8_t to[16], uint16_t port, uint32_t qp);
int cm_with(unsigned nic, uint32_t app, uint32_t op, uint32_t id); /* DESTROY, READY, DISCONNECT, ESTABLISHED */
int cm_answer_with(unsigned nic, uint32_t app, uint32_t op, uint32_t id, uint32_t qp); /* ACCEPT, REJECT */
struct cm_told {
	struct sp_cm_event e;
	uint8_t private_data[SP_RDMA_PRIVATE];
};
bool cm_next(unsigned nic, uint32_t app, struct cm_told *t); /* SP_CM_TAKE */
struct cm_id *cm_of_id(unsigned nic, uint32_t id);
uint32_t cm_used(unsigned nic);

#endif
