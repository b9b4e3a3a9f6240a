/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests to a NIC in another process and its replies (wire/attach.h): for sp_attach, and for the command, which asks
 * for reports and captures. One thread at a time. */
#ifndef HOST_API_ATTACH_H
#define HOST_API_ATTACH_H

#include "../handlers/wire/attach.h"
#include "device.h"

struct sp_attach_link {
	int fd;	  /* the socket, -1: none */
	int dead; /* 0; or what all calls return now: -ENODEV, -ECONNABORTED (the NIC has died) */
	uint64_t message[(sizeof(struct sp_attach_reply) + SP_ATTACH_BYTES) / 8 + 1]; /* the last reply */
};

/* One request and its reply. */
struct sp_attach_exchange {
	enum sp_attach_op op;
	uint64_t arg[4]; /* in: of the request; out: of the reply */
	const void *data;
	uint32_t bytes;
	struct sp_error *error;		     /* where words of the NIC's go; may be NULL */
	const struct sp_attach_reply *reply; /* out: as it came, until the next one; NULL: none */
	int fd[SP_ATTACH_FDS];		     /* out: its descriptors; what is missing is -1 */
};

/* nic: as for sp_attach. -ENOENT, -ECONNREFUSED, -EACCES, -EINVAL, -ENAMETOOLONG ... On failure link->fd is -1. */
int sp_attach_connect(struct sp_attach_link *link, const char *nic);
/* The reply's status, or: -ENODEV, the NIC has said goodbye, or there was no reply for 30 s; -ECONNABORTED, the
 * connection has ended without a goodbye: the NIC has died; -EPROTO, the reply makes no sense. Each ends the
 * connection. Descriptors come only with success; close them by sp_attach_release. */
int sp_attach_exchange(struct sp_attach_link *link, struct sp_attach_exchange *x);
void sp_attach_release(struct sp_attach_exchange *x);
/* Looks whether the NIC is still there, without waiting: link->dead. */
void sp_attach_look(struct sp_attach_link *link);
/* Ends the connection, and with it all that the program has there, without waiting for the NIC: calls say -ENODEV from
 * now on. Of a device that is not attached: nothing. */
void sp_attach_leave(struct sp_dev *dev);
/* Maps what the NIC shares, after a look at whether all of it is there and stays. -EPROTO. */
int sp_attach_map(int fd, uint64_t bytes, bool writable, void **at);

#endif
