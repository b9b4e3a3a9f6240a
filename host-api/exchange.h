/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests to a NIC in another process, and replies (wire/attach.h). One thread at a time. */
#ifndef HOST_API_EXCHANGE_H
#define HOST_API_EXCHANGE_H

#include "../handlers/wire/attach.h"
#include "spindle.h"

struct sp_attach_link {
	int fd;	  /* the socket, -1: none */
	int dead; /* 0; or what every call returns now: -ENODEV, -ECONNABORTED (the NIC has died) */
	uint64_t message[(sizeof(struct sp_attach_reply) + SP_ATTACH_BYTES) / 8 + 1]; /* the last reply */
};

/* One request and its reply. */
struct sp_attach_exchange {
	enum sp_attach_op op;
	uint64_t arg[4]; /* in: of the request; out: of the reply */
	const void *data;
	uint32_t bytes;
	struct sp_error *error;		     /* for the NIC's error text; may be NULL */
	const struct sp_attach_reply *reply; /* out: the reply, valid until the next exchange; NULL: none */
	int fd[SP_ATTACH_FDS];		     /* out: its descriptors; -1: none */
};

/* nic: as for sp_attach. -ENOENT, -ECONNREFUSED, -EACCES, -EINVAL, -ENAMETOOLONG ... On failure link->fd is -1. */
int sp_attach_connect(struct sp_attach_link *link, const char *nic);
/* Returns the status of the reply. -ENODEV: the NIC has said goodbye, or there was no reply for 30 s. -ECONNABORTED:
 * the connection has ended without a goodbye, so the NIC has died. -EPROTO: the reply is invalid. Each of these ends
 * the connection. Descriptors come only with success; close them with sp_attach_release. */
int sp_attach_exchange(struct sp_attach_link *link, struct sp_attach_exchange *x);
void sp_attach_release(struct sp_attach_exchange *x);
/* Checks without waiting whether the NIC is still there, and sets link->dead. */
void sp_attach_look(struct sp_attach_link *link);
/* A request for which the NIC makes memory that the program writes to: maps and seals it in between, and ends with the
 * reply of SP_ATTACH_SEALED in x. On failure nothing is mapped. */
int sp_attach_exchange_memory(struct sp_attach_link *link, struct sp_attach_exchange *x, void **at, uint64_t *bytes);
/* Maps memory for reading. -EPROTO: it is too short or not sealed. */
int sp_attach_map(int fd, uint64_t bytes, void **at);

#endif
