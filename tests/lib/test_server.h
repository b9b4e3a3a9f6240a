/* SPDX-License-Identifier: BSD-3-Clause */
/* A NIC of two workers that serves a socket in the process of the test, programs that attach to it, and raw
 * requests, right or wrong. */
#ifndef TESTS_TEST_SERVER_H
#define TESTS_TEST_SERVER_H

#include "../../handlers/wire/capture.h"
#include "../../host-api/attach.h"
#include "../../pipeline/engine.h"
#include "../../pipeline/exec/rings.h"
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include "cable.h"
#include "suite.h"

#define PATIENCE (60 * SP_SEC)
#define WAIT_FOR(condition)                                                                                            \
	do {                                                                                                           \
		const sp_time wait_until = sp_clock() + PATIENCE;                                                      \
		while (!(condition) && sp_clock() < wait_until)                                                        \
			usleep(100);                                                                                   \
		CU_ASSERT(condition);                                                                                  \
	} while (0)

extern struct cable srv_cable;
extern struct sp_nic *srv_nic;
extern struct sp_server *srv_server;
extern struct sp_server_config srv_config;
extern const char srv_path[]; /* paths of sockets must be short: a relative one */
extern struct sp_attach_link srv_link[1];
unsigned srv_entries(const char *where);
/* A directory of this program's own, which every user can get to, wherever TMPDIR is; and what start() starts. */
void srv_prepare(void);
void srv_start(void);
void srv_stop(void);
void srv_begin(void);
/* The server has noticed that all have gone. */
void srv_wait_idle(void);
/* What has been given back is gone. */
void srv_wait_freed(void);

/* ---- a program that is connected, and whose requests are right ---- */

void srv_join(void);
/* The last memory that a request brought, mapped. */
extern void *srv_memory;
extern uint64_t srv_memory_bytes;
bool srv_makes_memory(uint16_t op);
void srv_let_go(void *at); /* unmaps it; NULL: all that requests have brought */
/* The request, and SEALED after it where memory is made for it. */
int srv_ask(struct sp_attach_link *link, struct sp_attach_exchange *x);
struct sp_attach_exchange srv_asked(enum sp_attach_op op, uint64_t arg, const void *data, uint32_t bytes);

/* ---- a program that speaks for itself ---- */

int raw_try(void);
int raw_connect(void);
/* Status of the next reply; 1: the connection has ended. */
extern int raw_fd;		   /* the first descriptor of the last reply that brought any */
int raw_sealed(int fd, int seals); /* seals it (0: does not), and says so */
int raw_reply(int fd);
int raw_send(int fd, uint16_t op, uint64_t arg, const void *data, uint32_t bytes);
int raw(int fd, uint16_t op, uint64_t arg, const void *data, uint32_t bytes);

#endif
