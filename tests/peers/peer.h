/* SPDX-License-Identifier: BSD-3-Clause */
/* What the ends that stand opposite Linux's example programs have in common. Whatever goes wrong ends the program: one
 * line on stderr, exit status 1. */
#ifndef PEER_H
#define PEER_H

#include "../../host-api/rdma.h"

#include <stdnoreturn.h>

#define PEER_AREA  (4u << 20) /* bytes of memory, registered with all rights */
#define PEER_LIMIT (60 * SP_SEC)
#define PEER_TCP   0x0106
#define PEER_UDP   0x0111
#define PEER_QKEY  0x01234567u /* Linux's for datagrams */
#define PEER_ACK   18	       /* an acknowledgement's timeout, 1.1 s: an emulated machine stops for shorter */

struct peer {
	struct sp_dev *dev;
	struct sp_rdma *rdma;
	struct sp_rdma_pd *pd;
	struct sp_mr *memory;
	struct sp_rdma_mr *mr;
	uint8_t *area;
	uint64_t bytes;	  /* what has been moved, for the last line */
	uint32_t retries; /* of QPs that have been closed: timeouts and NAKs after which it sent again */
};

/* A QP with a completion queue of its own. */
struct peer_end {
	struct peer *peer;
	struct sp_rdma_cm *cm;
	struct sp_rdma_cq *cq;
	struct sp_rdma_pair *qp;
	struct sp_rdma_cm_event event; /* the request or the reply */
	unsigned sent, came;	       /* completions of either kind that nobody has waited for */
	struct sp_rdma_wc last;	       /* of what came */
};

noreturn void peer_fail(const char *what, int rc);
void peer_check(const char *what, int rc);
void peer_address(const char *text, uint8_t ip[16]);

void peer_end_open(struct peer *p, struct peer_end *e, enum sp_rdma_qp_type type, unsigned depth);
void peer_end_close(struct peer_end *e);
void peer_receive(struct peer_end *e, uint64_t at, uint32_t len);
/* wr's scatter list is `len` bytes of the area from `at` on. */
void peer_send(struct peer_end *e, struct sp_rdma_send_wr wr, uint64_t at, uint32_t len);
/* Waits for a completion of either kind. False: there is none until then. */
bool peer_complete(struct peer_end *e, sp_time end);
void peer_wait_sent(struct peer_end *e);
void peer_wait_came(struct peer_end *e);

struct sp_rdma_cm *peer_listen(struct peer *p, enum sp_cm_kind kind, uint16_t port); /* says "listening PORT" */
/* The listener's next request. */
void peer_request(struct peer *p, struct sp_rdma_cm_event *request);
void peer_accept(struct peer_end *e, const struct sp_rdma_cm_event *request);
void peer_connect(struct peer_end *e, enum sp_cm_kind kind, const char *address, uint16_t port);
void peer_disconnected(struct peer *p); /* waits for one connection's end */

void peer_rping_server(struct peer *p, char **words);
void peer_rping_client(struct peer *p, char **words);
void peer_cm_server(struct peer *p, char **words);
void peer_cm_client(struct peer *p, char **words);
void peer_ud_server(struct peer *p, char **words);
void peer_ud_client(struct peer *p, char **words);
void peer_pingpong(struct peer *p, char **words);
void peer_lossy_pingpong(struct peer *p, char **words);
void peer_answer(struct peer *p, char **words);

#endif
