/* SPDX-License-Identifier: BSD-3-Clause */
/* A NIC of two workers that serves a socket, in the test's own process; programs that attach to it; and programs that
 * speak to the socket themselves, right or wrong. */
#ifndef TESTS_SERVED_H
#define TESTS_SERVED_H

#include "../../handlers/wire/capture.h"
#include "../../host-api/attach.h"
#include "../../pipeline/host.h"

#include <dirent.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "pair.h"
#include "../lib/suite.h"

#define PATIENCE (60 * SP_SEC)
#define WAIT_FOR(condition)                                                                                            \
	do {                                                                                                           \
		const sp_time wait_until = sp_clock() + PATIENCE;                                                      \
		while (!(condition) && sp_clock() < wait_until)                                                        \
			usleep(100);                                                                                   \
		CU_ASSERT(condition);                                                                                  \
	} while (0)

static struct pair pair;
static struct sp_nic *nic;
static struct sp_server *server;
static struct sp_server_config config;
static const char path[] = "./nic.sock"; /* paths of sockets must be short: a relative one */
static char directory[32];
static struct sp_attach_link link_[1];

static inline unsigned entries(const char *where)
{
	DIR *d = opendir(where);
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	closedir(d);
	return n;
}

static inline void leave_directory(void)
{
	if (chdir("..") || rmdir(directory))
		printf("# %s stays\n", directory);
}

/* A directory of this program's own, which every user can get to, wherever TMPDIR is; and what start() starts. */
static inline void prepare(void)
{
	config = (struct sp_server_config){.path = path, .group = -1};
	if (directory[0])
		return;
	snprintf(directory, sizeof(directory), "served-%d", (int)getpid());
	if (sp_eal_init(0, NULL, NULL) || (getenv("TMPDIR") && chdir(getenv("TMPDIR"))) || mkdir(directory, 0755) ||
	    chmod(directory, 0755) || chdir(directory) || atexit(leave_directory)) {
		printf("Bail out! no EAL, or no TMPDIR\n");
		exit(1);
	}
}

static inline void start(void)
{
	struct sp_nic_config c = {.name = "under-test", .addresses = 1, .ports = 1, .workers = 2};
	struct sp_error error = {.text = ""};

	memcpy(c.address[0].ip, (uint8_t[16]){[10] = 0xFF, [11] = 0xFF, 192, 0, 2, 1}, 16);
	c.address[0].prefix = 24;
	pair_open(&pair);
	c.port[0] = (struct sp_port_config){.ops = &pair_ops, .ops_arg = &pair.end[0]};
	if (sp_nic_create(&c, &error, &nic) || sp_nic_start(nic) || sp_server_start(nic, &config, &error, &server)) {
		printf("Bail out! %s\n", error.text);
		exit(1);
	}
}

static inline void stop(void)
{
	sp_server_stop(server);
	CU_ASSERT_EQUAL(entries("."), 2); /* socket and lock have gone */
	sp_nic_stop(nic);
	CU_ASSERT_PTR_NULL(nic->device);
	CU_ASSERT_EQUAL(nic->memory_used, 0);
	sp_nic_destroy(nic);
	nic = NULL;
	pair_close(&pair);
}

static inline void begin(void)
{
	prepare();
	start();
}

/* The server has noticed that all have gone. */
static inline void wait_alone(void)
{
	WAIT_FOR(!__atomic_load_n(&nic->device, __ATOMIC_ACQUIRE) &&
		 !atomic_load_explicit(&nic->memory_used, memory_order_acquire));
}

/* ---- a program that is connected, and whose requests are right ---- */

static inline void join(void)
{
	memset(link_, 0, sizeof(link_));
	CU_ASSERT_EQUAL_FATAL(sp_attach_connect(link_, path), 0);
}

static inline struct sp_attach_exchange asked(enum sp_attach_op op, uint64_t arg, const void *data, uint32_t bytes)
{
	struct sp_attach_exchange x = {.op = op, .arg = {arg}, .data = data, .bytes = bytes};

	CU_ASSERT_EQUAL_FATAL(sp_attach_exchange(link_, &x), 0);
	return x;
}

/* ---- a program that speaks for itself ---- */

static inline int raw_try(void)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(to.sun_path, path);
	return fd >= 0 && !connect(fd, (struct sockaddr *)&to, sizeof(to)) ? fd : -1;
}

static inline int raw_connect(void)
{
	int fd = raw_try();

	CU_ASSERT_FATAL(fd >= 0);
	return fd;
}

/* Status of the next reply; 1: the connection has ended. Descriptors that come along are lost. */
static inline int raw_reply(int fd)
{
	static union {
		struct sp_attach_reply head;
		uint8_t bytes[sizeof(struct sp_attach_reply) + SP_ATTACH_BYTES];
	} reply;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	ssize_t n;

	CU_ASSERT_EQUAL_FATAL(poll(&p, 1, 30000), 1);
	n = recv(fd, &reply, sizeof(reply), 0);
	if (n <= 0)
		return 1;
	CU_ASSERT(n >= (ssize_t)sizeof(reply.head) && reply.head.magic == SP_ATTACH_MAGIC &&
		  reply.head.version == SP_ATTACH_VERSION && reply.head.bytes == (size_t)n - sizeof(reply.head));
	return reply.head.status;
}

static inline int raw_send(int fd, uint16_t op, uint64_t arg, const void *data, uint32_t bytes)
{
	uint8_t message[sizeof(struct sp_attach_request) + SP_ATTACH_BYTES];
	struct sp_attach_request r = {SP_ATTACH_MAGIC, SP_ATTACH_VERSION, op, bytes, 0, {arg}};

	memcpy(message, &r, sizeof(r));
	if (bytes)
		memcpy(message + sizeof(r), data, bytes);
	return send(fd, message, sizeof(r) + bytes, MSG_NOSIGNAL) < 0 ? 1 : 0;
}

static inline int raw(int fd, uint16_t op, uint64_t arg, const void *data, uint32_t bytes)
{
	return raw_send(fd, op, arg, data, bytes) ? 1 : raw_reply(fd);
}

#endif
