/* SPDX-License-Identifier: BSD-3-Clause */
/* What spindle rdma was asked for, what both ends say to each other, and what they share. */
#ifndef COMMAND_RDMA_ENDS_H
#define COMMAND_RDMA_ENDS_H

#include <stdint.h>
#include <stdio.h>

#include "../../host-api/rdma.h"

#define RDMA_SIZE_MOST	 (1u << 30) /* of a message */
#define RDMA_QUEUES_MOST 1024
#define RDMA_DEPTH_MOST	 8192
#define RDMA_PORT	 18515 /* perftest's */

enum rdma_mode { RDMA_BW, RDMA_LAT, RDMA_PING };
enum rdma_op { RDMA_SEND, RDMA_WRITE, RDMA_READ, RDMA_ATOMIC };

struct rdma_asked {
	const char *verb, *nic;
	enum rdma_mode mode;
	bool client, has_from;
	uint8_t to[16], from[16];
	uint64_t op, type; /* type: 0 rc, 1 uc, 2 ud */
	uint64_t size, iterations, duration, interval, port, queues, depth, mtu, qp_timeout, timeout;
	bool all, verify, json, events, keep, selective, agent, use_srq;
};

/* Private data of a request, 48 bytes; the byte order is that of the magic. */
struct rdma_hello {
	uint32_t magic;
	uint8_t mode, op, type, flags; /* type: enum sp_rdma_qp_type */
	uint32_t size, rkey;
	uint16_t depth, queues, index, mtu;
	uint32_t qp, reserved2; /* qp: SIDR does not carry it */
	uint64_t va, session;
};
enum { RDMA_HELLO_VERIFY = 1 };
#define RDMA_MAGIC 0x52505301u
struct rdma_reply { /* ... and of the answer */
	uint32_t magic, rkey;
	uint64_t va;
};
static_assert(sizeof(struct rdma_hello) == 48 && sizeof(struct rdma_reply) == 16, "fits into a REQ");

/* Messages beside the data, with these immediates: the client's, and the server's answer, which repeats it. */
enum { RDMA_BYE = 0xFFFFFFFD, RDMA_START = 0xFFFFFFFE, RDMA_END = 0xFFFFFFFF };
struct rdma_word {
	uint64_t number;      /* counts words; one that comes again is answered again */
	uint64_t count, size; /* messages of this run, bytes of each */
	uint64_t bad;	      /* answer: messages with wrong bytes */
};

struct rdma_queue {
	struct sp_rdma_pair *qp;
	struct sp_rdma_cm *cm;
	struct sp_rdma_target *ah; /* UD */
	uint32_t index;
	uint32_t remote_qp, qkey; /* UD */
	uint32_t rkey;		  /* the peer's region */
	uint64_t va;
	uint8_t *recv, *area, *word; /* our memory: see rdma_ends_open() */
	uint64_t posted, done;	     /* client: requests of this run */
	uint64_t came, bad;	     /* receiver: messages of this run */
	uint64_t last_word;	     /* server: number of the latest word */
	struct rdma_word answer;     /* client: the latest one; server: what it has answered */
	struct rdma_word next;	     /* to be said when the one on its way has been acknowledged, if next_imm */
	uint32_t next_imm;
	bool word_busy, connected, ended;
};

struct rdma_number {
	uint32_t qp, index;
};

struct rdma_ends {
	const struct rdma_asked *asked;
	struct rdma_hello how; /* of the client */
	struct sp_dev *dev;
	struct sp_rdma *rdma;
	struct sp_rdma_pd *pd;
	struct sp_rdma_cq *cq;
	struct sp_mr *memory;
	struct sp_rdma_mr *mr;
	struct sp_rdma_mr *fetched; /* --agent: of `own`, where the areas are; otherwise NULL */
	uint8_t *own;
	struct sp_rdma_srq *srq; /* --use-srq: all QPs take their receives from it; otherwise NULL */
	struct rdma_queue *queue;
	struct rdma_number *number; /* of QPs, in rising order */
	uint32_t queues, depth, recvs, slots, recv_slots;
	uint64_t stride;
	struct sp_rdma_link link;
	/* A message that is no word has come: imm is its immediate, or UINT32_MAX. */
	int (*came)(struct rdma_ends *, struct rdma_queue *, const uint8_t *bytes, uint32_t len, uint32_t imm);
	int (*word)(struct rdma_ends *, struct rdma_queue *, const struct rdma_word *, uint32_t imm);
	int (*sent)(struct rdma_ends *, struct rdma_queue *, uint32_t number);
	unsigned idle;
	bool peer_srq; /* client: as the answer to a request for a connection has said */
};

/* Prints a message; -1. */
int rdma_fail(const struct rdma_asked *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
int rdma_fail_nic(const struct rdma_asked *a, const char *what, int rc); /* for -errno */
/* The NIC and a context on it. All calls: 0 or -1 after a message. */
int rdma_ends_attach(struct rdma_ends *e, const struct rdma_asked *a);
/* Memory and QPs as e->how says, in INIT, with receives posted. */
int rdma_ends_open(struct rdma_ends *e);
void rdma_ends_close(struct rdma_ends *e); /* but context and NIC */
void rdma_ends_detach(struct rdma_ends *e);
/* Sends a word. */
int rdma_ends_say(struct rdma_ends *e, struct rdma_queue *q, const struct rdma_word *word, uint32_t imm);
/* Posts a message of `len` bytes from `bytes` in our region. number: comes back in sent(). */
struct rdma_message {
	enum sp_rdma_wr_op op;
	uint32_t number, len;
	const uint8_t *bytes;
	uint64_t remote;
	uint32_t imm;
	bool signaled;
};
#define RDMA_BATCH 16
int rdma_ends_post(struct rdma_ends *e, struct rdma_queue *q, const struct rdma_message *m, unsigned count);
/* Takes completions and calls came(), word(), sent(). How many, or -1. */
int rdma_ends_poll(struct rdma_ends *e);
/* The same; if there are none, lets others work, or sleeps (--events) for up to 10 ms. */
int rdma_ends_wait(struct rdma_ends *e);

uint8_t rdma_byte(uint64_t message, uint64_t at); /* of the pattern */
void rdma_fill(uint8_t *bytes, uint64_t message, uint64_t len);
bool rdma_right(const uint8_t *bytes, uint64_t message, uint64_t len);
/* Whether each packet is that of some message, or has not come at all: more cannot be said where packets get lost. */
bool rdma_whole(const uint8_t *bytes, uint64_t len, uint32_t mtu);
uint64_t rdma_slot(const struct rdma_ends *e, uint64_t message); /* offset in `area` */

#endif
