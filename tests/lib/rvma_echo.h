/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server's socket and those of its clients, on two NICs with a bad link between them, in virtual time. The server
 * sends everything back. Clients compare what comes back with what they have sent.
 */
#ifndef TESTS_RVMA_ECHO_H
#define TESTS_RVMA_ECHO_H

#include <sys/socket.h>
#include "../../host-api/rvma_socket.h"
#include "../../testbed/link.h"
#include "../../testbed/world.h"
#include "seeds.h"

#define ECHO_SOURCE    (1u << 18)
#define ECHO_CLIENTS   6
#define ECHO_STREAMS   8 /* of a client */
#define ECHO_DATAGRAMS 40
#define U(n)	       ((unsigned long long)(n))

extern uint8_t echo_source[ECHO_SOURCE];

struct call { /* a stream, as its client sees it */
	struct rvma_stream *stream;
	uint64_t source, length, sent, came;
	bool shut, over;
	int error;
};

struct client {
	struct sp_dev *dev;
	struct rvma *rvma;
	struct rvma_socket *socket;
	unsigned calls, datagrams, sent, came;
	struct call call[ECHO_STREAMS];
	uint16_t size[ECHO_DATAGRAMS];
	bool back[ECHO_DATAGRAMS], gone;
};

struct echo {
	uint64_t seed;
	struct sp_random random;
	char text[200]; /* what failed first */
	struct sp_link_direction link[2];
	struct rvma_attr context;
	struct rvma_socket_attr server_attr, client_attr;
	sp_time lazy;	 /* the server does nothing until then */
	bool awake;	 /* it has begun */
	bool silent;	 /* it calls nothing but progress */
	bool one_by_one; /* it reads few bytes at a time */
	bool closing;	 /* hosts do nothing any more */
	bool deaf;	 /* it does not read the first stream that it accepts */
	bool (*done)(void *town);

	struct sp_world *world;
	struct sp_link *under;
	struct sp_nic *nic[2];
	struct sp_dev *dev; /* the server's */
	struct rvma *rvma;
	struct rvma_socket *server;
	struct rvma_socket_address address;
	struct rvma_socket_status status; /* at first */
	unsigned clients, accepted, ended, broken;
	struct client client[ECHO_CLIENTS];
	struct {
		uint8_t bytes[4096];
		int length;
		bool waits;
		struct rvma_socket_address from;
	} datagram;
	uint64_t steps;
};

void __attribute__((format(printf, 3, 4))) echo_expect(struct echo *t, bool right, const char *format, ...);
uint64_t echo_below(struct echo *t, uint64_t bound);

/* ---- the clients ---- */
void call_step(struct echo *t, struct call *c);

void echo_socket(struct echo *t, unsigned e, const struct rvma_attr *context, const struct rvma_socket_attr *attr,
		 struct sp_dev **dev, struct rvma **rvma, struct rvma_socket **socket);
/* The server's context holds one mailbox, and as many buffers as its socket has: there can be no other. */
void echo_open(struct echo *t);
void echo_run(struct echo *t, sp_time time);
/* Everything can be let go of: all that was used is free again. */
void echo_close(struct echo *t);
void echo_prepare(void);

#endif
