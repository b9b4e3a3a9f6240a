/* SPDX-License-Identifier: BSD-3-Clause */
/* All of the rdma handler with a stand-in for the NIC: one context, whose QPs talk to each other over a bad link, in
 * virtual time. It tells the model what it sends, what it is handed, and how its QPs are. */
#ifndef TESTS_PROPERTY_RDMA_MODEL_NIC_H
#define TESTS_PROPERTY_RDMA_MODEL_NIC_H

#include "rdma_model.h"

#define NIC_CQ(i)  ((i) * (48u << 10))
#define NIC_SQ(i)  ((256u << 10) + (i) * (16u << 10))
#define NIC_RQ(i)  ((512u << 10) + (i) * (16u << 10))
#define NIC_ARENA  (1u << 20)
#define NIC_MEMORY (NIC_ARENA + RM_ARENA)
#define NIC_QP	   0x1000u /* the first one's number */
#define NIC_CQ_LOG 9u

/* One packet that is lost, or comes late: the next that fits. answer: it is one. */
struct nic_rule {
	bool on, late, answer;
	uint32_t from;
	uint8_t op;    /* 0xFF: any */
	uint32_t psn;  /* RM_ANY: any */
	uint32_t more; /* those behind it, too, each once */
};
#define RM_ANY UINT32_MAX

struct nic {
	uint8_t *memory;
	uint64_t random;
	unsigned loss, repeat, late, foul, again; /* of 1000 packets */
	unsigned busy;				  /* of 1000 times that issue() could run, it does not */
	struct nic_rule rule[2];
	unsigned window, requests;	 /* parameters */
	void (*poll)(void);		 /* after each call of the handler */
	void (*signal)(uint64_t cookie); /* a CQ's event */
};
extern struct nic nic;

uint32_t nic_draw(uint32_t below);
void nic_begin(uint64_t seed);
void nic_end(void);
/* A control request; -errno. */
int nic_control(uint32_t op, uint32_t qp, const void *in, uint32_t in_len, void *out, uint32_t out_room);
void nic_doorbell(uint32_t qp);
void nic_run(uint64_t time);
/* Tells the model and the applications what the handler has done. */
void nic_look(void);
/* Nothing is under way, but what timers bring. */
bool nic_idle(void);
/* Forgets what is on its way to and from a QP. */
void nic_forget(uint32_t qp);

#endif
