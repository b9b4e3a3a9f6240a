/* SPDX-License-Identifier: BSD-3-Clause */
/* The NIC under test with an rdma context. The test is the application, with queues in one region, and the peer, which
 * writes its packets byte by byte. */
#ifndef TESTS_RDMA_NIC_H
#define TESTS_RDMA_NIC_H

#include "../../handlers/rdma/state.h"
#include "dut.h"

#define RN_MEMORY (2u << 20)
#define RN_CQ	  0u
#define RN_SRQ	  (64u << 10)
#define RN_SQS	  (128u << 10)
#define RN_RQS	  (256u << 10)
#define RN_DATA	  (1u << 20) /* to the end: the application's data */
#define RN_MTU	  256u
#define RN_PEER	  0x777u	    /* the peer's QP */
#define RN_VA	  0x700000000000ull /* where the application sees RN_DATA */
#define RN_PSN	  0xFFFFF0u	    /* the first that the NIC expects: it soon wraps */

extern uint32_t rn_context, rn_pd, rn_cq, rn_mem, rn_key, rn_qpn, rn_worker;
extern uint32_t rn_cq_log;		  /* of the next NIC */
extern uint32_t rn_mtu;			  /* of the next connection */
extern const struct sp_port_ops *rn_port; /* of the next NIC; NULL: what is sent is kept for rn_answered() */
extern uint8_t *rn_memory;
extern sp_time rn_now;

/* A context, a PD, a CQ (armed: with events), a region of all data with all rights. */
void rn_begin(const char *settings);
extern uint16_t rn_workers; /* of the next NIC */
void rn_abandon(void);	    /* the context ends with all that it has */
void rn_stop(void);	    /* all objects can be destroyed, and nothing is held */
int rn_control(uint32_t op, uint32_t qp, const void *in, uint32_t in_len, void *out, uint32_t out_len);
uint32_t rn_id(uint32_t op, const void *in, uint32_t in_len); /* of what was made */
int rn_end(uint32_t op, uint32_t id);
int rn_register(uint64_t va, uint64_t at, uint64_t len, uint32_t pd, uint32_t access, struct sp_rdma_keys *);
/* A QP; rn_qpn is its number from then on. srq 0: its own receive queue of 16 entries. */
void rn_qp(uint32_t type, uint32_t srq);
extern uint32_t rn_type;
extern bool rn_selective; /* QPs get selective repeat */
int rn_modify(const struct sp_rdma_qp_attr *);
int rn_state(uint32_t state);
void rn_to(uint32_t state);	  /* RESET to INIT, RTR, RTS as far as that */
void rn_connect(uint32_t type);	  /* rn_qp() and rn_to(RTS) */
extern const uint8_t *rn_ip;	  /* of the peer, IPv4 mapped */
extern uint8_t rn_class, rn_hops; /* traffic class and hop limit of the next QPs */
struct sp_rdma_qp_attr rn_attr(void);
int rn_destroy(void);
struct rdma_qp *rn_state_of(void);

/* ---- the application ---- */
/* Posts a receive entry of one SGE in the data, at `at`. */
void rn_receive(uint64_t wr_id, uint64_t at, uint32_t len);
void rn_receive_sges(uint64_t wr_id, const struct sp_rdma_sge *, uint32_t sges);
void rn_srq_receive(uint64_t wr_id, uint64_t at, uint32_t len);
/* Posts an entry of the send queue, and rings its doorbell. */
void rn_post_wqe(const struct sp_rdma_wqe *, const struct sp_rdma_sge *, uint32_t sges);
/* A SEND of data, not signaled, and its doorbell. */
void rn_post_send(uint64_t wr_id, uint64_t at, uint32_t len);
void rn_doorbell(void);
void rn_restart(void); /* after RESET: both queues are posted to from entry 0 on */
/* Posts an entry of the send queue, with one SGE or none, and rings the doorbell. */
void rn_request(const struct sp_rdma_wqe *, const struct sp_rdma_sge *);
/* The next completion; NULL: there is none. */
const struct sp_rdma_cqe *rn_completion(void);
bool rn_completed(uint64_t wr_id, uint8_t status, uint8_t op, uint32_t len);
bool rn_event(uint16_t type, uint64_t what); /* the next event is this one; ASYNC: arg[0] */
bool rn_no_event(void);

/* ---- the peer ---- */
struct rn_answer {
	uint8_t opcode, syndrome;
	uint32_t qp, psn, msn, len;
	const uint8_t *payload; /* behind the AETH, if it has one */
};
/* Settings of the next packet, which rn_packet() sets back. */
extern bool rn_ack, rn_solicited, rn_six, rn_marked_ce;
extern uint8_t rn_pads;
extern uint16_t rn_pkey;
extern const uint8_t *rn_source; /* IPv4, 4 bytes */
void rn_feed(uint8_t opcode, uint32_t psn, const void *ext, uint32_t ext_len, const void *payload, uint32_t len);
void rn_go(void);
/* Both. */
void rn_packet(uint8_t opcode, uint32_t psn, const void *ext, uint32_t ext_len, const void *payload, uint32_t len);
void rn_write(uint8_t opcode, uint32_t psn, uint64_t va, uint32_t rkey, uint32_t dma_len, uint32_t len);
void rn_reth(uint8_t *to, uint64_t va, uint32_t rkey, uint32_t len);
void rn_atomic(uint8_t opcode, uint32_t psn, uint64_t va, uint32_t rkey, uint64_t swap_add, uint64_t compare);
/* The next packet that the NIC has sent; false: there is none. */
bool rn_answered(struct rn_answer *);
bool rn_acked(uint8_t syndrome, uint32_t psn); /* the next one is an ACK or NAK like this */
bool rn_silent(void);
uint8_t rn_byte(uint32_t i);				  /* of all payloads that the peer sends */
bool rn_filled(uint64_t at, uint32_t from, uint32_t len); /* data there are rn_byte(from...) */
bool rn_untouched(uint64_t at, uint32_t len);
struct sp_mr *rn_region(void); /* of all memory */
/* Takes a copy of all memory. Then: nothing but [at, at + len) of the data and what the NIC writes into queues (owners
 * of receive entries, completions) has changed since. */
void rn_watch(void);
bool rn_only(uint64_t at, uint64_t len);
/* RESET, empty queues, and to RTS again; answers and completions of before are forgotten. */
void rn_anew(void);
uint64_t rn_count(const char *counter);
uint64_t rn_dropped(const char *reason);

#endif
