/* SPDX-License-Identifier: BSD-3-Clause */
/* An echo server and its clients on rvma sockets: two NICs, a bad link, virtual time. Clients compare what comes
 * back with what they sent. */
#ifndef TESTS_RVMA_ECHO_H
#define TESTS_RVMA_ECHO_H

#include <sys/socket.h>
#include "../../host-api/rvma_socket.h"
#include "sim.h"

#define ECHO_SOURCE    (1u << 18)
#define ECHO_CLIENTS   6
#define ECHO_STREAMS   8 /* of a client */
#define ECHO_DATAGRAMS 40

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
	SIM_MEMBERS
	struct rvma_attr context;
	struct rvma_socket_attr server_attr, client_attr;
	sp_time lazy;	 /* the server does nothing until then */
	bool awake;	 /* it has begun */
	bool silent;	 /* it calls nothing but progress */
	bool one_by_one; /* it reads few bytes at a time */
	bool closing;	 /* hosts do nothing any more */
	bool deaf;	 /* it does not read the first stream that it accepts */
	bool worn;	 /* the links lose, repeat or reorder */
	bool leaving;	 /* a client goes as soon as it has all that is to come back */
	bool (*done)(void *echo);
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
};

#define echo_expect(t, ...) sim_expect(&(t)->sim, __VA_ARGS__)
#define echo_below(t, n)    sim_below(&(t)->sim, n)

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
