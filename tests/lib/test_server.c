/* SPDX-License-Identifier: BSD-3-Clause */
#include "test_server.h"

#include <sys/mman.h>

#include "../../pipeline/mem/freeing.h"

struct cable srv_cable;

struct sp_nic *srv_nic;

struct sp_server *srv_server;

struct sp_server_config srv_config;

const char srv_path[] = "./nic.sock"; /* paths of sockets must be short: a relative one */

static char directory[32];

struct sp_attach_link srv_link[1];

int raw_fd = -1;

unsigned srv_entries(const char *where)
{
	DIR *d = opendir(where);
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	closedir(d);
	return n;
}

static void leave_directory(void)
{
	if (chdir("..") || rmdir(directory))
		printf("# %s stays\n", directory);
}

void srv_prepare(void)
{
	srv_config = (struct sp_server_config){.path = srv_path, .group = -1};
	if (directory[0])
		return;
	snprintf(directory, sizeof(directory), "served-%d", (int)getpid());
	if (sp_eal_init(0, NULL, NULL) || (getenv("TMPDIR") && chdir(getenv("TMPDIR"))) || mkdir(directory, 0755) ||
	    chmod(directory, 0755) || chdir(directory) || atexit(leave_directory)) {
		printf("Bail out! no EAL, or no TMPDIR\n");
		exit(1);
	}
}

void srv_start(void)
{
	struct sp_nic_config c = {.name = "under-test", .addresses = 1, .ports = 1, .workers = 2};
	struct sp_error error = {.text = ""};

	memcpy(c.address[0].ip, (uint8_t[16]){[10] = 0xFF, [11] = 0xFF, 192, 0, 2, 1}, 16);
	c.address[0].prefix = 24;
	cable_open(&srv_cable);
	c.port[0] = (struct sp_port_config){.ops = &cable_ops, .ops_arg = &srv_cable.end[0]};
	if (sp_nic_create(&c, &error, &srv_nic) || sp_nic_start(srv_nic) ||
	    sp_server_start(srv_nic, &srv_config, &error, &srv_server)) {
		printf("Bail out! %s\n", error.text);
		exit(1);
	}
}

void srv_stop(void)
{
	srv_let_go(NULL);
	sp_server_stop(srv_server);
	CU_ASSERT_EQUAL(srv_entries("."), 2); /* socket and lock have gone */
	sp_nic_stop(srv_nic);
	CU_ASSERT_PTR_NULL(srv_nic->device);
	CU_ASSERT_EQUAL(srv_nic->memory_used, 0);
	sp_nic_destroy(srv_nic);
	srv_nic = NULL;
	cable_close(&srv_cable);
}

void srv_begin(void)
{
	srv_prepare();
	srv_start();
}

void srv_wait_idle(void)
{
	srv_let_go(NULL);
	WAIT_FOR(!__atomic_load_n(&srv_nic->device, __ATOMIC_ACQUIRE) &&
		 !atomic_load_explicit(&srv_nic->memory_used, memory_order_acquire));
}

void srv_wait_freed(void)
{
	uint64_t held;

	WAIT_FOR(!sp_freeing_bytes(srv_nic, NULL, &held));
}

void srv_join(void)
{
	memset(srv_link, 0, sizeof(srv_link));
	CU_ASSERT_EQUAL_FATAL(sp_attach_connect(srv_link, srv_path), 0);
}

void *srv_memory;
uint64_t srv_memory_bytes;

static struct {
	void *at;
	uint64_t bytes;
} srv_mapped[1024];

void srv_let_go(void *at)
{
	for (unsigned i = 0; i < sizeof(srv_mapped) / sizeof(*srv_mapped); i++)
		if (srv_mapped[i].at && (!at || srv_mapped[i].at == at)) {
			munmap(srv_mapped[i].at, srv_mapped[i].bytes);
			srv_mapped[i].at = NULL;
		}
	if (!at && raw_fd >= 0) {
		close(raw_fd);
		raw_fd = -1;
	}
}

bool srv_makes_memory(uint16_t op)
{
	return op == SP_ATTACH_HELLO || op == SP_ATTACH_MR_ALLOC || op == SP_ATTACH_OPEN || op == SP_ATTACH_CAPTURE;
}

int srv_ask(struct sp_attach_link *link, struct sp_attach_exchange *x)
{
	unsigned i = 0;
	int rc;

	if (!srv_makes_memory(x->op))
		return sp_attach_exchange(link, x);
	rc = sp_attach_exchange_memory(link, x, &srv_memory, &srv_memory_bytes);
	while (!rc && i < sizeof(srv_mapped) / sizeof(*srv_mapped) - 1 && srv_mapped[i].at)
		i++;
	if (!rc) {
		srv_mapped[i].at = srv_memory;
		srv_mapped[i].bytes = srv_memory_bytes;
	}
	return rc;
}

struct sp_attach_exchange srv_asked(enum sp_attach_op op, uint64_t arg, const void *data, uint32_t bytes)
{
	struct sp_attach_exchange x = {.op = op, .arg = {arg}, .data = data, .bytes = bytes};

	CU_ASSERT_EQUAL_FATAL(srv_ask(srv_link, &x), 0);
	return x;
}

int raw_try(void)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(to.sun_path, srv_path);
	return fd >= 0 && !connect(fd, (struct sockaddr *)&to, sizeof(to)) ? fd : -1;
}

int raw_connect(void)
{
	int fd = raw_try();

	CU_ASSERT_FATAL(fd >= 0);
	return fd;
}

int raw_reply(int fd)
{
	static union {
		struct sp_attach_reply head;
		uint8_t bytes[sizeof(struct sp_attach_reply) + SP_ATTACH_BYTES];
	} reply;
	union {
		struct cmsghdr head;
		uint8_t bytes[CMSG_SPACE(SP_ATTACH_FDS * sizeof(int))];
	} control;
	struct iovec part = {&reply, sizeof(reply)};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control)};
	struct pollfd p = {.fd = fd, .events = POLLIN};
	const struct cmsghdr *c;

	CU_ASSERT_EQUAL_FATAL(poll(&p, 1, 30000), 1);
	ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
	if (n <= 0)
		return 1;
	c = CMSG_FIRSTHDR(&message);
	for (size_t at = CMSG_LEN(0); c && at < c->cmsg_len; at += sizeof(int)) { /* the first of them stays */
		int one;

		memcpy(&one, (const uint8_t *)c + at, sizeof(one));
		if (at > CMSG_LEN(0)) {
			close(one);
			continue;
		}
		if (raw_fd >= 0)
			close(raw_fd);
		raw_fd = one;
	}
	CU_ASSERT(n >= (ssize_t)sizeof(reply.head) && reply.head.magic == SP_ATTACH_MAGIC &&
		  reply.head.version == SP_ATTACH_VERSION && reply.head.bytes == (size_t)n - sizeof(reply.head));
	return reply.head.status;
}

int raw_send(int fd, uint16_t op, uint64_t arg, const void *data, uint32_t bytes)
{
	uint8_t message[sizeof(struct sp_attach_request) + SP_ATTACH_BYTES];
	struct sp_attach_request r = {SP_ATTACH_MAGIC, SP_ATTACH_VERSION, op, bytes, 0, {arg}};

	memcpy(message, &r, sizeof(r));
	if (bytes)
		memcpy(message + sizeof(r), data, bytes);
	return send(fd, message, sizeof(r) + bytes, MSG_NOSIGNAL) < 0 ? 1 : 0;
}

int raw_sealed(int fd, int seals)
{
	CU_ASSERT(!seals || !fcntl(raw_fd, F_ADD_SEALS, seals));
	return raw_send(fd, SP_ATTACH_SEALED, 0, NULL, 0) ? 1 : raw_reply(fd);
}

int raw(int fd, uint16_t op, uint64_t arg, const void *data, uint32_t bytes)
{
	const int rc = raw_send(fd, op, arg, data, bytes) ? 1 : raw_reply(fd);

	return rc || !srv_makes_memory(op) ? rc : raw_sealed(fd, SP_ATTACH_SEALS);
}
