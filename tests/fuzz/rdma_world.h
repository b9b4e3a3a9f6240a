/* SPDX-License-Identifier: BSD-3-Clause */
/* What the fuzzer `rdma` plays with: a NIC with two applications, whose memory it watches. */
#ifndef TESTS_FUZZ_RDMA_WORLD_H
#define TESTS_FUZZ_RDMA_WORLD_H

#include "../../handlers/rdma/state.h"
#include "../../handlers/rdma/wqe.h"
#include "../../pipeline/nic.h"
#include "draw.h"

#define PROMISE(x)                                                                                                     \
	do {                                                                                                           \
		if (!(x))                                                                                              \
			__builtin_trap();                                                                              \
	} while (0)

#define QPS    4u /* RC, RC with a shared receive queue, UC, UD */
#define GUARD  4096u
#define DATA   0x10000u /* behind the queues: zones, of which the first half is open, as the zone's region says, */
#define ZONES  8u	/* and the second half closed */
#define ZONE   4096u
#define ROOM   2048u
#define REGION (DATA + ZONES * ZONE)
#define VA     0x700000000000ull /* where the application sees DATA */
#define QKEY   0x11111111u
#define WRS    65536u

struct app {
	bool hostile;
	uint32_t context, pd, other_pd, cq, srq, ah, key[ZONES], window[2];
	uint8_t *memory; /* GUARD, REGION, GUARD */
	struct sp_mr *mr;
	uint32_t taken, srq_tail, zone; /* zone: that the next key and address are of */
	uint64_t wr_id;
	struct {
		uint32_t number, worker, type, sq_tail, rq_tail;
		bool lost; /* destroyed, and not made again yet */
	} qp[QPS];
	uint8_t out[WRS]; /* by wr_id: work requests that may complete: QP + 1, or OUT_SHARED */
};
#define OUT_SHARED 0xFF

extern struct app apps[2];
extern struct sp_nic *nic;
extern const char *const world_counters[]; /* that a run must have met, NULL at the end */
extern uint64_t world_sums[];

void world_begin(void);
void world_end(void);
void world_check(void); /* no byte has changed that nothing opens */
void world_open(struct app *a);
void world_close(struct app *a);
void world_pass(sp_time time);
void world_poll(struct app *a); /* its completions and events */
void world_keep(uint8_t how);	/* whether ports keep frames, and take some */
struct rdma_qp *state_of(struct app *a, unsigned i);
/* A packet to a QP, from its peer; sometimes something is wrong with it. */
void world_packet(struct app *a, unsigned i, uint8_t opcode, uint32_t psn, const uint8_t *ext, uint32_t ext_len,
		  uint32_t payload);
/* A request, which the hostile application may change. */
int world_ask(struct app *a, uint32_t op, uint32_t qp, bool service, const void *in, uint32_t len, void *out,
	      uint32_t room);
void world_state(struct app *a, unsigned i, uint32_t state);
void world_reset(struct app *a, unsigned i); /* and to RTS */
void world_anew(struct app *a, unsigned i);
void world_region_anew(struct app *a, unsigned zone);
void world_window_anew(struct app *a, unsigned which); /* of type which + 1 */
void world_post(struct app *a, unsigned i, struct sp_rdma_wqe *w, const struct sp_rdma_sge *sge);
void world_receive(struct app *a, unsigned i, const struct sp_rdma_sge *sge, uint32_t sges);
void world_ring(struct app *a, unsigned i);

#endif
