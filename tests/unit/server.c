/* SPDX-License-Identifier: BSD-3-Clause */
/* The NIC's socket: programs that attach, that break the protocol, want too much, flood, go away; and NICs that do. */
#include "../../host-api/attach.h"
#include "../../handlers/wire/capture.h"
#include "../../pipeline/host.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"
#include "suite.h"

#define PATIENCE (30 * SP_SEC)
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
static char path[64];

/* Paths of sockets must be short: relative ones. */
static void prepare(void)
{
	config = (struct sp_server_config){.path = path, .group = -1};
	snprintf(path, sizeof(path), "./server-%d.sock", (int)getpid());
	if (sp_eal_init(0, NULL, NULL) || (getenv("TMPDIR") && chdir(getenv("TMPDIR")))) {
		printf("Bail out! no EAL, or no TMPDIR\n");
		exit(1);
	}
}

static void start(void)
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

static void stop(void)
{
	char lock[80];

	sp_server_stop(server);
	CU_ASSERT_NOT_EQUAL(access(path, F_OK), 0);
	sp_nic_stop(nic);
	CU_ASSERT_PTR_NULL(nic->device);
	CU_ASSERT_EQUAL(nic->memory_used, 0);
	sp_nic_destroy(nic);
	pair_close(&pair);
	snprintf(lock, sizeof(lock), "%s.lock", path);
	unlink(lock);
}

static void begin(void)
{
	prepare();
	start();
}

static unsigned entries(const char *directory)
{
	DIR *d = opendir(directory);
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	closedir(d);
	return n;
}

static unsigned maps(const char *name)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	unsigned n = 0;

	while (f && fgets(line, sizeof(line), f))
		n += strstr(line, name) != NULL;
	fclose(f);
	return n;
}

/* The server has noticed that all have gone. */
static void wait_alone(void)
{
	WAIT_FOR(!__atomic_load_n(&nic->device, __ATOMIC_ACQUIRE) &&
		 !__atomic_load_n(&nic->memory_used, __ATOMIC_ACQUIRE));
}

/* ---- a program that speaks for itself ---- */

static int raw_try(void)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(to.sun_path, path);
	return fd >= 0 && !connect(fd, (struct sockaddr *)&to, sizeof(to)) ? fd : -1;
}

static int raw_connect(void)
{
	int fd = raw_try();

	CU_ASSERT_FATAL(fd >= 0);
	return fd;
}

static union {
	struct sp_attach_reply head;
	uint8_t bytes[sizeof(struct sp_attach_reply) + SP_ATTACH_BYTES];
} reply;

/* Status of the next reply; 1: the connection has ended. Descriptors that come along are lost. */
static int raw_reply(int fd)
{
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

static int raw_send(int fd, uint16_t op, uint64_t arg, const void *data, uint32_t bytes)
{
	uint8_t message[sizeof(struct sp_attach_request) + SP_ATTACH_BYTES];
	struct sp_attach_request r = {SP_ATTACH_MAGIC, SP_ATTACH_VERSION, op, bytes, 0, {arg}};

	memcpy(message, &r, sizeof(r));
	if (bytes)
		memcpy(message + sizeof(r), data, bytes);
	return send(fd, message, sizeof(r) + bytes, MSG_NOSIGNAL) < 0 ? 1 : 0;
}

static int raw(int fd, uint16_t op, uint64_t arg, const void *data, uint32_t bytes)
{
	return raw_send(fd, op, arg, data, bytes) ? 1 : raw_reply(fd);
}

static void requests_that_are_none_end_the_connection_after_a_reply(void)
{
	static const struct sp_attach_request good = {SP_ATTACH_MAGIC, SP_ATTACH_VERSION, SP_ATTACH_HELLO};
	uint8_t bytes[sizeof(struct sp_attach_request) + SP_ATTACH_BYTES + 1];
	struct sp_dev *dev;

	begin();
	CU_ASSERT_EQUAL_FATAL(sp_attach(path, &dev), 0);
	for (unsigned what = 0; what < 14; what++) {
		struct sp_attach_request r = good;
		size_t len = sizeof(r);
		int fd = raw_connect();

		switch (what) {
		case 0:
			len = sizeof(r) / 2; /* half a HELLO */
			break;
		case 1:
			len = 1;
			break;
		case 2:
			r.magic++;
			break;
		case 3:
			r.version++;
			break;
		case 4:
			r.op = 0;
			break;
		case 5:
			r.op = SP_ATTACH_CAPTURE + 1;
			break;
		case 6:
			r.op = UINT16_MAX;
			break;
		case 7:
			r.bytes = 1;
			break;
		case 8:
			len++;
			break;
		case 9:
			r.bytes = SP_ATTACH_BYTES + 1;
			len = sizeof(bytes);
			break;
		case 10:
			r.reserved = 1;
			break;
		case 11:
			r.op = SP_ATTACH_MR_ALLOC; /* without HELLO */
			r.arg[0] = 4096;
			break;
		case 12:
			r.op = SP_ATTACH_CALL;
			break;
		case 13:
			CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_HELLO, 0, NULL, 0), 0); /* once is right */
			break;
		}
		memset(bytes, 0, sizeof(bytes));
		memcpy(bytes, &r, sizeof(r));
		CU_ASSERT_EQUAL(send(fd, bytes, len, 0), (ssize_t)len);
		CU_ASSERT_EQUAL(raw_reply(fd), -EPROTO);
		CU_ASSERT_EQUAL(raw_reply(fd), 1);
		close(fd);
	}
	close(raw_connect()); /* says nothing at all */
	CU_ASSERT_EQUAL(sp_progress(dev, sp_clock()), 0);
	sp_dev_close(dev);
	wait_alone();
	stop();
}

static void arguments_that_do_not_fit_are_refused_and_nothing_else_happens(void)
{
	struct sp_capture_request capture;
	char many[SP_ATTACH_BYTES];
	struct sp_command command = {.context = 12345};
	int fd;

	begin();
	fd = raw_connect();
	memset(&capture, 'x', sizeof(capture));
	memset(many, 'x', sizeof(many));
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_HELLO, 0, NULL, 0), 0);
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_MR_ALLOC, 0, NULL, 0), -EINVAL);
	CU_ASSERT(raw(fd, SP_ATTACH_MR_ALLOC, UINT64_MAX, NULL, 0) < 0);
	CU_ASSERT(raw(fd, SP_ATTACH_MR_ALLOC, INT64_MAX, NULL, 0) < 0);
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_MR_FREE, 7, NULL, 0), -ENOENT);
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_OPEN, 0, NULL, 0), -EINVAL);
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_OPEN, 0, "a\0count", 7), -EINVAL);	      /* no NUL at the end */
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_OPEN, 0, "a\0count\0k", 10), -EINVAL);      /* more than is said */
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_OPEN, 1, "a\0count\0qp", 11), -EINVAL);     /* less */
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_OPEN, UINT64_MAX, "a\0count", 8), -EINVAL); /* 2 + 2 * that is 0 */
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_OPEN, SP_ATTACH_SETTINGS + 1, many, sizeof(many)), -EINVAL);
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_OPEN, 0, many, sizeof(many)), -EINVAL);
	many[10000] = many[sizeof(many) - 1] = 0;
	CU_ASSERT(raw(fd, SP_ATTACH_OPEN, 0, many, sizeof(many)) < 0);
	CU_ASSERT(raw(fd, SP_ATTACH_OPEN, 0, "\0count", 7) < 0);
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_CLOSE, 1ull << 32, NULL, 0), -ENOENT);
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_CLOSE, 0, NULL, 0), -ENOENT);
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_CALL, 0, &command, sizeof(command) - 1), -EINVAL);
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_CALL, 0, &command, sizeof(command)), -ENOENT);
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_REPORT, 2, NULL, 0), -EINVAL);
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_REPORT, 0, many, SP_REPORT_NAME), -EINVAL);
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_REPORT, 0, "a\0b", 3), -EINVAL);
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_REPORT, 0, "a", 1), -ENOENT);
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_CAPTURE, 0, &capture, sizeof(capture)), -EINVAL);
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_CAPTURE, 0, &capture, 4), -EINVAL);
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_MR_ALLOC, 4096, NULL, 0), 0); /* still there */
	close(fd);
	wait_alone();
	stop();
}

static void descriptors_that_come_along_are_not_taken(void)
{
	struct sp_attach_request r = {SP_ATTACH_MAGIC, SP_ATTACH_VERSION, SP_ATTACH_HELLO};
	union {
		struct cmsghdr head;
		uint8_t bytes[CMSG_SPACE(50 * sizeof(int))];
	} control;
	struct iovec part = {&r, sizeof(r)};
	struct msghdr m = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	unsigned before;

	begin();
	memset(&control, 0, sizeof(control));
	control.head = (struct cmsghdr){CMSG_LEN(50 * sizeof(int)), SOL_SOCKET, SCM_RIGHTS}; /* 50 times stdin */
	before = entries("/proc/self/fd");
	for (unsigned i = 0; i < 100; i++) {
		int fd = raw_connect();

		CU_ASSERT(sendmsg(fd, &m, 0) > 0);
		CU_ASSERT_EQUAL(raw_reply(fd), -EPROTO);
		CU_ASSERT_EQUAL(raw_reply(fd), 1);
		close(fd);
	}
	CU_ASSERT_EQUAL(entries("/proc/self/fd"), before);
	stop();
}

static void who_does_not_read_replies_is_let_go_and_others_are_served(void)
{
	struct sp_dev *dev;
	struct sp_mr *mr;
	unsigned before;

	begin();
	CU_ASSERT_EQUAL_FATAL(sp_attach(path, &dev), 0);
	CU_ASSERT_EQUAL(sp_mr_alloc(dev, 4096, &mr), 0);
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0); /* what went with earlier replies is closed over there */
	before = entries("/proc/self/fd");
	for (unsigned i = 0; i < 20; i++) {
		int fd = raw_connect(), ended = 0;

		CU_ASSERT_EQUAL(raw_send(fd, SP_ATTACH_HELLO, 0, NULL, 0), 0);
		for (unsigned k = 0; k < 1000000 && !ended; k++)
			ended = raw_send(fd, SP_ATTACH_REPORT, 0, NULL, 0);
		CU_ASSERT(ended);
		CU_ASSERT_EQUAL(sp_mr_alloc(dev, 4096, &mr), 0);
		CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
		close(fd);
	}
	WAIT_FOR(entries("/proc/self/fd") == before);
	sp_dev_close(dev);
	wait_alone();
	stop();
}

static void idle_connections_keep_nobody_out(void)
{
	int fd[200];
	struct sp_dev *dev;

	begin();
	for (unsigned i = 0; i < 200; i++)
		fd[i] = raw_connect();
	CU_ASSERT_EQUAL(sp_attach(path, &dev), 0);
	CU_ASSERT_EQUAL(raw_reply(fd[0]), 1); /* the oldest made room */
	CU_ASSERT_EQUAL(raw(fd[199], SP_ATTACH_REPORT, 0, NULL, 0), 0);
	for (unsigned i = 0; i < 200; i++)
		close(fd[i]);
	CU_ASSERT_EQUAL(sp_progress(dev, sp_clock()), 0);
	sp_dev_close(dev);
	wait_alone();
	stop();
}

static const struct sp_setting one_qp[] = {{"qp", "0x100"}, {"mtu", "1024"}};

static void a_thousand_attaches_leave_nothing(void)
{
	unsigned fds;

	begin();
	fds = entries("/proc/self/fd");
	for (unsigned i = 0; i < 1000; i++) {
		struct sp_event result;
		struct sp_command query = {.op = SP_CMD_QUERY};
		struct sp_dev *dev;
		struct sp_mr *mr;
		uint64_t len;
		uint32_t id;
		void *area;

		CU_ASSERT_EQUAL_FATAL(sp_attach(path, &dev), 0);
		CU_ASSERT_EQUAL(sp_mr_alloc(dev, 10000, &mr), 0);
		memset(mr->addr, 1, mr->len);
		CU_ASSERT_EQUAL(sp_context_open(dev, "c", "sdr", one_qp, 2, &id, NULL), 0);
		CU_ASSERT_EQUAL(sp_context_area(dev, id, &area, &len), 0);
		CU_ASSERT_PTR_NOT_NULL(area);
		query.context = id;
		sp_command_call(dev, &query, &result);
		CU_ASSERT_EQUAL(sp_event_take(dev, id, &result), 0);
		if (i % 3 == 1)
			CU_ASSERT_EQUAL(sp_context_close(dev, id), 0);
		if (i % 2)
			CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
		sp_dev_close(dev);
		wait_alone();
	}
	WAIT_FOR(entries("/proc/self/fd") == fds);
	CU_ASSERT_EQUAL(maps("memfd:spindle"), 0);
	stop();
}

static void limits_are_per_application_and_say_what_is_reached(void)
{
	struct sp_attach_exchange x = {.op = SP_ATTACH_MR_ALLOC, .arg = {2u << 20}};
	struct sp_attach_link *link = calloc(1, sizeof(*link));
	struct sp_dev *dev[2];
	struct sp_mr *mr[2];
	struct sp_error error = {.text = ""};
	uint32_t id;

	prepare();
	config.users = 1;
	config.user[0] = (struct sp_user_limits){
		.everyone = true, .limits = {.memory = 1 << 20, .contexts = 2, .qps = 100, .messages = 4}};
	start();
	CU_ASSERT_EQUAL_FATAL(sp_attach(path, &dev[0]), 0);
	CU_ASSERT_EQUAL_FATAL(sp_attach(path, &dev[1]), 0);
	CU_ASSERT_EQUAL(sp_mr_alloc(dev[0], 2u << 20, &mr[0]), -EDQUOT);
	CU_ASSERT_EQUAL(sp_mr_alloc(dev[0], 512 << 10, &mr[0]), 0);
	CU_ASSERT_EQUAL(sp_mr_alloc(dev[0], 512 << 10, &mr[1]), -EDQUOT);
	CU_ASSERT_EQUAL(sp_mr_alloc(dev[1], 512 << 10, &mr[1]), 0); /* the neighbour has its own */
	CU_ASSERT_EQUAL(sp_mr_free(mr[0]), 0);
	CU_ASSERT_EQUAL(sp_mr_alloc(dev[0], 512 << 10, &mr[0]), 0);
	CU_ASSERT_EQUAL(sp_mr_free(mr[0]), 0);
	CU_ASSERT_EQUAL(sp_context_open(dev[0], "a", "count", NULL, 0, &id, &error), -EDQUOT); /* its flows */
	CU_ASSERT_NOT_EQUAL(error.text[0], 0);
	for (unsigned i = 0; i < 3; i++) {
		const char *name = (const char *[]){"a", "b", "c"}[i];

		CU_ASSERT_EQUAL(
			sp_context_open(dev[0], name, "reflect", &(struct sp_setting){"filter", "udp"}, 1, &id, &error),
			i < 2 ? 0 : -EDQUOT);
	}
	CU_ASSERT_NOT_EQUAL(error.text[0], 0);
	CU_ASSERT_EQUAL(sp_context_open(dev[1], "c", "reflect", &(struct sp_setting){"filter", "udp"}, 1, &id, &error),
			0);

	/* The words for memory are in the reply. */
	CU_ASSERT_EQUAL(sp_attach_connect(link, path), 0);
	CU_ASSERT_EQUAL(sp_attach_exchange(link, &(struct sp_attach_exchange){.op = SP_ATTACH_HELLO}), 0);
	x.error = &error;
	CU_ASSERT_EQUAL(sp_attach_exchange(link, &x), -EDQUOT);
	CU_ASSERT_STRING_EQUAL(error.key, "memory");
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "1048576"));
	close(link->fd);
	free(link);
	sp_dev_close(dev[0]);
	sp_dev_close(dev[1]);
	wait_alone();
	stop();
}

static void regions_are_limited_and_given_back(void)
{
	static struct sp_mr *mr[SP_REGIONS + 1];
	struct sp_dev *dev[2];
	unsigned n = 0, fds;

	begin();
	CU_ASSERT_EQUAL_FATAL(sp_attach(path, &dev[0]), 0);
	CU_ASSERT_EQUAL_FATAL(sp_attach(path, &dev[1]), 0);
	CU_ASSERT_EQUAL(sp_mr_alloc(dev[1], 1, &mr[0]), 0);
	CU_ASSERT_EQUAL(sp_mr_free(mr[0]), 0);
	fds = entries("/proc/self/fd");
	while (n <= SP_REGIONS && !sp_mr_alloc(dev[0], 1, &mr[n]))
		n++;
	CU_ASSERT_EQUAL(n, SP_REGIONS);
	CU_ASSERT_EQUAL(sp_mr_alloc(dev[0], 1, &mr[n]), -EDQUOT);
	CU_ASSERT_EQUAL(entries("/proc/self/fd"), fds); /* a region costs neither side a descriptor */
	CU_ASSERT_EQUAL(sp_mr_alloc(dev[1], 1, &mr[n]), 0);
	CU_ASSERT_EQUAL(sp_mr_free(mr[7]), 0);
	CU_ASSERT_EQUAL(sp_mr_alloc(dev[0], 1, &mr[7]), 0);
	sp_dev_close(dev[0]);
	sp_dev_close(dev[1]);
	wait_alone();
	stop();
}

static void only_so_many_applications_fit_and_observers_beside_them(void)
{
	struct sp_dev *dev[3];
	int fd;

	prepare();
	config.applications = 2;
	start();
	CU_ASSERT_EQUAL(sp_attach(path, &dev[0]), 0);
	CU_ASSERT_EQUAL(sp_attach(path, &dev[1]), 0);
	CU_ASSERT_EQUAL(sp_attach(path, &dev[2]), -EUSERS);
	fd = raw_connect();
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_REPORT, 0, NULL, 0), 0);
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_HELLO, 0, NULL, 0), -EUSERS);
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_REPORT, 0, NULL, 0), 0);
	close(fd);
	sp_dev_close(dev[0]);
	WAIT_FOR(__atomic_load_n(&nic->device, __ATOMIC_ACQUIRE) && !nic->device->next);
	CU_ASSERT_EQUAL(sp_attach(path, &dev[2]), 0);
	sp_dev_close(dev[2]);
	sp_dev_close(dev[1]);
	wait_alone();
	stop();
}

static void who_leaves_has_nothing_there_and_asks_nothing_more(void)
{
	struct sp_dev *dev, *embedded;
	struct sp_mr *mr;
	uint32_t id;

	begin();
	CU_ASSERT_EQUAL_FATAL(sp_attach(path, &dev), 0);
	CU_ASSERT_EQUAL(sp_mr_alloc(dev, 4096, &mr), 0);
	CU_ASSERT_EQUAL(sp_context_open(dev, "c", "sdr", one_qp, 2, &id, NULL), 0);
	sp_attach_leave(dev);
	CU_ASSERT_EQUAL(sp_context_close(dev, id), -ENODEV);
	CU_ASSERT_EQUAL(sp_mr_free(mr), -ENODEV);
	wait_alone();
	sp_dev_close(dev);
	CU_ASSERT_EQUAL_FATAL(sp_nic_dev(nic, false, &embedded), 0);
	sp_attach_leave(embedded); /* is not attached */
	CU_ASSERT_EQUAL(sp_mr_alloc(embedded, 4096, &mr), 0);
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	sp_dev_close(embedded);
	stop();
}

/* Programs of that user that find a place, which they keep. */
static unsigned places_for(uid_t uid)
{
	unsigned n = 0;
	int fd;

	if (seteuid(uid))
		return 99;
	while ((fd = raw_try()) >= 0 && !raw(fd, SP_ATTACH_HELLO, 0, NULL, 0))
		n++;
	return seteuid(0) ? 99 : n; /* one connection more is no application */
}

static void no_user_takes_the_places_of_others(void)
{
	for (unsigned what = 0; what < 2; what++) {
		int status = -1;
		pid_t pid;

		prepare();
		config.mode = 0666;
		config.applications = 16;
		if (what) {
			config.users = 1;
			config.user[0] = (struct sp_user_limits){.everyone = true, .applications = 3};
		}
		start();
		if (getuid()) {
			printf("# not root: other users are not tried\n");
			stop();
			return;
		}
		pid = fork();
		if (!pid) {
			const unsigned one = places_for(65534), two = places_for(65533), root = places_for(0);

			/* 4 of 16 are root's. */
			_exit(what ? one != 3 || two != 3 || root != 3 : one != 8 || two != 4 || root != 4);
		}
		waitpid(pid, &status, 0);
		CU_ASSERT_EQUAL(status, 0);
		wait_alone();
		stop();
	}
}

static void every_call_says_so_when_the_nic_has_gone(void)
{
	struct sp_command command = {.op = SP_CMD_QUERY};
	struct sp_dev *dev, *again;
	struct sp_event event;
	struct sp_mr *mr, *other;
	uint64_t len;
	uint32_t id;
	uint8_t ip[16];
	void *area;
	unsigned tried = 0;
	int rc;

	for (unsigned what = 0; what < 3; what++) { /* what is called first */
		begin();
		CU_ASSERT_EQUAL_FATAL(sp_attach(path, &dev), 0);
		CU_ASSERT_EQUAL(sp_mr_alloc(dev, 4096, &mr), 0);
		CU_ASSERT_EQUAL_FATAL(sp_context_open(dev, "c", "sdr", one_qp, 2, &id, NULL), 0);
		CU_ASSERT_EQUAL(sp_dev_arm(dev), 0);
		CU_ASSERT_EQUAL(sp_dev_wait(dev, 0), -ETIMEDOUT);
		command.context = id;
		stop();
		memset(mr->addr, 2, mr->len); /* still there */
		if (what == 0) {
			rc = sp_dev_wait(dev, SP_NEVER); /* wakes, and does not hang */
			CU_ASSERT(rc == 0 || rc == -ENODEV);
			CU_ASSERT_EQUAL(sp_dev_arm(dev), -ENODEV);
		} else if (what == 1) { /* a program that does nothing but look for events or closed contexts */
			while ((rc = sp_event_take(dev, id, &event)) == 0 && tried++ < 1000000)
				;
			CU_ASSERT(rc == -ENODEV || rc == -ECONNRESET); /* the context went first */
		}
		CU_ASSERT_EQUAL(sp_command_call(dev, &command, &event), -ENODEV);
		CU_ASSERT_EQUAL(sp_command_post(dev, &command), -ENODEV);
		CU_ASSERT_EQUAL(sp_event_take(dev, id, &event), -ENODEV);
		CU_ASSERT_EQUAL(sp_progress(dev, sp_clock()), -ENODEV);
		CU_ASSERT_EQUAL(sp_dev_arm(dev), -ENODEV);
		CU_ASSERT_EQUAL(sp_dev_wait(dev, SP_NEVER), -ENODEV);
		CU_ASSERT_EQUAL(sp_dev_address(dev, AF_INET, ip), -ENODEV);
		CU_ASSERT_EQUAL(sp_context_area(dev, id, &area, &len), -ENODEV);
		CU_ASSERT_EQUAL(sp_mr_alloc(dev, 1, &other), -ENODEV);
		CU_ASSERT_EQUAL(sp_context_open(dev, "d", "sdr", one_qp, 2, &id, NULL), -ENODEV);
		CU_ASSERT_EQUAL(sp_mr_free(mr), -ENODEV);
		CU_ASSERT_EQUAL(sp_context_close(dev, id), -ENODEV);
		CU_ASSERT_EQUAL(sp_attach(path, &again), -ENOENT);
		begin();
		CU_ASSERT_EQUAL(sp_attach(path, &again), 0); /* the NIC is back */
		CU_ASSERT_EQUAL(sp_progress(dev, sp_clock()), -ENODEV);
		sp_dev_close(again);
		sp_dev_close(dev);
		wait_alone();
		CU_ASSERT_EQUAL(maps("memfd:spindle"), 0);
		stop();
	}
}

static void an_application_that_dies_takes_its_contexts_with_it_and_nothing_else(void)
{
	struct sp_dev *dev;
	uint32_t id, mine;
	int ready[2], status;
	char byte;

	begin();
	CU_ASSERT_EQUAL_FATAL(sp_attach(path, &dev), 0);
	CU_ASSERT_EQUAL(sp_context_open(dev, "mine", "reflect", &(struct sp_setting){"filter", "udp"}, 1, &mine, NULL),
			0);
	for (unsigned i = 0; i < 20; i++) {
		CU_ASSERT_EQUAL_FATAL(pipe(ready), 0);
		pid_t pid = fork();

		if (!pid) {
			struct sp_dev *own;
			struct sp_mr *mr;

			if (sp_attach(path, &own) || sp_mr_alloc(own, 1 << 20, &mr) ||
			    sp_context_open(own, "theirs", "sdr", one_qp, 2, &id, NULL))
				_exit(1);
			for (unsigned k = 0; k < 8; k++) {
				struct sp_command post = {
					.op = SP_CMD_POST, .context = id, .cookie = k, .arg = {mr->id, 0, 1000}};

				sp_command_post(own, &post);
			}
			if (write(ready[1], "", 1) == 1)
				pause();
			_exit(1);
		}
		close(ready[1]);
		CU_ASSERT_EQUAL(read(ready[0], &byte, 1), 1);
		CU_ASSERT_EQUAL(sp_nic_context_find(nic, "theirs", &id), 0);
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		close(ready[0]);
		WAIT_FOR(sp_nic_context_find(nic, "theirs", &id) == -ENOENT);
	}
	CU_ASSERT_EQUAL(sp_nic_context_find(nic, "mine", &id), 0);
	CU_ASSERT_EQUAL(sp_context_close(dev, mine), 0);
	sp_dev_close(dev);
	wait_alone();
	stop();
}

static void one_path_belongs_to_one_nic_and_what_a_dead_one_left_is_taken(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct sp_server *second = NULL;
	struct sp_error error;
	struct sp_dev *dev;
	char pid[24];
	int fd;

	/* A socket that nobody listens at. */
	prepare();
	fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	strcpy(at.sun_path, path);
	CU_ASSERT_EQUAL(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	close(fd);
	CU_ASSERT_EQUAL(sp_attach(path, &dev), -ECONNREFUSED);
	start();
	CU_ASSERT_EQUAL(sp_attach(path, &dev), 0);
	sp_dev_close(dev);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	CU_ASSERT_EQUAL(sp_server_start(nic, &config, &error, &second), -EADDRINUSE);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, pid));
	CU_ASSERT_EQUAL(sp_attach(path, &dev), 0); /* the first is unharmed */
	sp_dev_close(dev);
	wait_alone();
	stop();

	/* A file is nobody's socket. */
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	close(fd);
	pair_open(&pair);
	struct sp_nic_config c = {.ports = 1};

	c.port[0] = (struct sp_port_config){.ops = &pair_ops, .ops_arg = &pair.end[0]};
	CU_ASSERT_EQUAL_FATAL(sp_nic_create(&c, &error, &nic), 0);
	CU_ASSERT_EQUAL(sp_server_start(nic, &config, &error, &second), -EINVAL); /* no workers */
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(nic), 0);
	CU_ASSERT_EQUAL(sp_server_start(nic, &config, &error, &second), -EEXIST);
	CU_ASSERT_EQUAL(access(path, F_OK), 0);
	CU_ASSERT_EQUAL(sp_attach(path, &dev), -ECONNREFUSED);
	unlink(path);
	CU_ASSERT_EQUAL_FATAL(sp_server_start(nic, &config, &error, &server), 0);
	stop();
}

/* In a process of user 65534. */
static int as_nobody(int (*run)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(setgid(65534) || setuid(65534) ? 99 : run() & 0x7F);
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int try_attach(void)
{
	struct sp_dev *dev;
	int rc = sp_attach(path, &dev);

	if (!rc)
		sp_dev_close(dev);
	return -rc;
}

static int try_capture(void)
{
	struct sp_capture_request request = {.flags = 0};
	int fd = raw_try(); /* not an assertion: this is another process */

	return fd < 0 ? EBADF : -raw(fd, SP_ATTACH_CAPTURE, 0, &request, sizeof(request));
}

static int try_handlers(void)
{
	int fd = raw_try();

	return fd < 0 || raw(fd, SP_ATTACH_REPORT, SP_REPORT_ALL, NULL, 0)
		       ? EBADF
		       : -raw(fd, SP_ATTACH_REPORT, SP_REPORT_HANDLERS, NULL, 0);
}

static void users_may_what_mode_and_limits_say(void)
{
	struct sp_capture_request request = {.flags = 0};
	struct stat st;
	char directory[64];
	int fd;

	prepare();
	/* Others can get there, whatever TMPDIR is: the path is relative. */
	snprintf(directory, sizeof(directory), "./server-%d", (int)getpid());
	CU_ASSERT_FATAL(!mkdir(directory, 0755) && !chmod(directory, 0755) && !chdir(directory));
	config.users = 2;
	config.user[0] = (struct sp_user_limits){.uid = getuid(), .refused = true};
	config.user[1] = (struct sp_user_limits){.everyone = true};
	start();
	CU_ASSERT_EQUAL(stat(path, &st), 0);
	CU_ASSERT_EQUAL(st.st_mode & 0777, 0600);
	CU_ASSERT_EQUAL(try_attach(), EACCES); /* the first that fits counts */
	fd = raw_connect();
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_HELLO, 0, NULL, 0), -EACCES);
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_REPORT, 0, NULL, 0), 0);
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_CAPTURE, 0, &request, sizeof(request)), 0);
	close(fd);
	if (!getuid())
		CU_ASSERT_EQUAL(as_nobody(try_attach), EACCES); /* not by the mode */
	stop();
	config.mode = 0666;
	start();
	if (!getuid()) {
		CU_ASSERT_EQUAL(as_nobody(try_attach), 0);
		CU_ASSERT_EQUAL(as_nobody(try_capture), EPERM);
		CU_ASSERT_EQUAL(as_nobody(try_handlers), EPERM); /* workers would make it: packets would wait */
	} else {
		printf("# not root: other users are not tried\n");
	}
	stop();
	snprintf(directory, sizeof(directory), "../server-%d", (int)getpid());
	CU_ASSERT(!chdir("..") && !rmdir(directory + 1));
}

static void a_nic_that_speaks_garbage_is_none(void)
{
	static const char *const what[] = {"nothing", "short",		 "magic",     "version",  "op",
					   "length",  "no data",	 "no queues", "unsealed", "too small",
					   "workers", "positive status", "right"};
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	const unsigned before = entries("/proc/self/fd");

	prepare();
	strcpy(at.sun_path, path);
	CU_ASSERT_FATAL(!bind(listener, (struct sockaddr *)&at, sizeof(at)) && !listen(listener, 1));
	for (unsigned i = 0; i < sizeof(what) / sizeof(*what); i++) {
		pid_t pid = fork();
		struct sp_dev *dev;
		int rc;

		if (!pid) { /* the NIC */
			struct {
				struct sp_attach_reply head;
				struct sp_attach_welcome welcome;
			} r = {{SP_ATTACH_MAGIC, SP_ATTACH_VERSION, SP_ATTACH_HELLO, 0, sizeof(r.welcome)},
			       {.queues_bytes = sizeof(struct sp_attach_queues) + SP_RING_BYTES(1), .workers = 1}};
			union {
				struct cmsghdr head;
				uint8_t bytes[CMSG_SPACE(2 * sizeof(int))];
			} control = {.head = {CMSG_LEN(2 * sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
			int memory = memfd_create("fake", MFD_ALLOW_SEALING), fd = accept(listener, NULL, NULL);
			struct iovec part = {&r, sizeof(r)};
			struct msghdr m = {.msg_iov = &part,
					   .msg_iovlen = 1,
					   .msg_control = &control,
					   .msg_controllen = sizeof(control)};
			const struct sp_attach_queues queues = {SP_ATTACH_MAGIC, 1, 1, 0};
			uint8_t request[100];
			int ends[2];

			if (pipe(ends) || ftruncate(memory, (off_t)r.welcome.queues_bytes - (i == 9)) ||
			    pwrite(memory, &queues, sizeof(queues), 0) != sizeof(queues) ||
			    recv(fd, request, sizeof(request), 0) < 48)
				_exit(1);
			memcpy(CMSG_DATA(&control.head), (int[2]){memory, ends[0]}, 2 * sizeof(int));
			if (i != 8)
				fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK);
			part.iov_len = i == 1 ? 10 : sizeof(r);
			r.head.magic += i == 2;
			r.head.version += i == 3;
			r.head.op += i == 4;
			r.head.bytes += i == 5;
			if (i == 6) {
				r.head.bytes = 0;
				part.iov_len = sizeof(r.head);
			}
			if (i == 7)
				m.msg_control = NULL, m.msg_controllen = 0;
			r.welcome.workers = i == 10 ? UINT32_MAX : 1;
			r.head.status = i == 11 ? 1 : 0;
			if (i)
				sendmsg(fd, &m, 0);
			_exit(0);
		}
		rc = sp_attach(path, &dev);
		waitpid(pid, NULL, 0);
		if (!rc)
			sp_dev_close(dev);
		if (rc != (i == 12 ? 0 : i ? -EPROTO : -ENODEV))
			printf("# %s: %d\n", what[i], rc);
		CU_ASSERT_EQUAL(rc, i == 12 ? 0 : i ? -EPROTO : -ENODEV);
	}
	CU_ASSERT_EQUAL(entries("/proc/self/fd"), before);
	close(listener);
	unlink(path);
}

static void shared_memory_can_be_neither_resized_nor_areas_written(void)
{
	struct sp_attach_link *link = calloc(1, sizeof(*link));
	struct sp_attach_exchange x = {.op = SP_ATTACH_HELLO};

	begin();
	CU_ASSERT_EQUAL_FATAL(sp_attach_connect(link, path), 0);
	CU_ASSERT_EQUAL_FATAL(sp_attach_exchange(link, &x), 0);
	CU_ASSERT_NOT_EQUAL(ftruncate(x.fd[0], 0), 0);
	CU_ASSERT_NOT_EQUAL(ftruncate(x.fd[0], 1 << 30), 0);
	CU_ASSERT_NOT_EQUAL(write(x.fd[1], "", 1), 1); /* the pipe is read from */
	sp_attach_release(&x);
	x = (struct sp_attach_exchange){.op = SP_ATTACH_MR_ALLOC, .arg = {4096}};
	CU_ASSERT_EQUAL_FATAL(sp_attach_exchange(link, &x), 0);
	CU_ASSERT_NOT_EQUAL(ftruncate(x.fd[0], 0), 0);
	sp_attach_release(&x);
	x = (struct sp_attach_exchange){.op = SP_ATTACH_OPEN,
					.arg = {1},
					.data = "c\0sdr\0qp\0"
						"0x100",
					.bytes = 15};
	CU_ASSERT_EQUAL_FATAL(sp_attach_exchange(link, &x), 0);
	CU_ASSERT_NOT_EQUAL(ftruncate(x.fd[0], 0), 0);
	CU_ASSERT_NOT_EQUAL(ftruncate(x.fd[1], 0), 0);
	CU_ASSERT_PTR_EQUAL(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, x.fd[1], 0), MAP_FAILED);
	CU_ASSERT_NOT_EQUAL(pwrite(x.fd[1], "", 1, 0), 1);
	CU_ASSERT_NOT_EQUAL(fallocate(x.fd[1], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
	sp_attach_release(&x);
	x = (struct sp_attach_exchange){.op = SP_ATTACH_REPORT};
	CU_ASSERT_EQUAL_FATAL(sp_attach_exchange(link, &x), 0);
	CU_ASSERT_NOT_EQUAL(pwrite(x.fd[0], "", 1, 0), 1);
	sp_attach_release(&x);
	close(link->fd);
	free(link);
	wait_alone();
	stop();
}

static void a_sleeper_wakes_for_an_event_and_for_nothing_of_others(void)
{
	struct sp_command query = {.op = SP_CMD_QUERY, .flags = SP_CMD_REPLY, .cookie = 9};
	struct sp_dev *dev, *other;
	struct sp_event event;
	uint32_t id;
	unsigned got = 0;

	begin();
	CU_ASSERT_EQUAL_FATAL(sp_attach(path, &dev), 0);
	CU_ASSERT_EQUAL_FATAL(sp_attach(path, &other), 0);
	CU_ASSERT_EQUAL_FATAL(sp_context_open(dev, "c", "sdr", one_qp, 2, &id, NULL), 0);
	query.context = id;
	CU_ASSERT_EQUAL(sp_dev_arm(other), 0);
	for (unsigned i = 0; i < 1000; i++) {
		CU_ASSERT_EQUAL(sp_dev_arm(dev), 0);
		CU_ASSERT_EQUAL(sp_command_post(dev, &query), 0);
		CU_ASSERT_EQUAL(sp_dev_wait(dev, PATIENCE), 0);
		while (sp_event_take(dev, id, &event) == 1)
			got += event.cookie == 9;
		while (got <= i) { /* woken for nothing, which may be */
			CU_ASSERT_EQUAL_FATAL(sp_dev_arm(dev), 0);
			if (sp_event_take(dev, id, &event) == 1)
				got += event.cookie == 9;
			else
				CU_ASSERT_EQUAL_FATAL(sp_dev_wait(dev, PATIENCE), 0);
		}
	}
	CU_ASSERT_EQUAL(got, 1000);
	CU_ASSERT_EQUAL(sp_dev_wait(other, 0), -ETIMEDOUT);
	sp_dev_close(other);
	sp_dev_close(dev);
	wait_alone();
	stop();
}

static void connections_wait_while_there_are_no_descriptors(void)
{
	struct rlimit before, none;
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd, next;

	begin();
	strcpy(to.sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	next = dup(fd);
	close(next);
	getrlimit(RLIMIT_NOFILE, &before);
	none = before;
	none.rlim_cur = (rlim_t)next;
	setrlimit(RLIMIT_NOFILE, &none);
	CU_ASSERT_EQUAL(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	CU_ASSERT_EQUAL(raw_send(fd, SP_ATTACH_REPORT, 0, NULL, 0), 0);
	usleep(150000); /* it is looked at again now and then */
	setrlimit(RLIMIT_NOFILE, &before);
	CU_ASSERT_EQUAL(raw_reply(fd), 0);
	close(fd);
	stop();
}

static void paths_follow_from_name_user_and_environment(void)
{
	char p[200], expected[200], small[10];
	static const char *const wrong[] = {"", "a/b", "a b", "\xC3\xA4", "12345678901234567890123456789012"};

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		CU_ASSERT_EQUAL(sp_socket_path(wrong[i], true, p, sizeof(p)), -EINVAL);
	CU_ASSERT_EQUAL(sp_socket_path(NULL, true, p, sizeof(p)), -EINVAL);
	setenv("SPINDLE_SOCKETS", "/some/where", 1);
	CU_ASSERT_EQUAL(sp_socket_path("nic-1.x_Y", true, p, sizeof(p)), 0);
	CU_ASSERT_STRING_EQUAL(p, "/some/where/nic-1.x_Y.sock");
	CU_ASSERT_EQUAL(sp_socket_path("nic", true, small, sizeof(small)), -ENAMETOOLONG);
	memset(expected, 'd', 110);
	expected[0] = '/';
	expected[110] = 0;
	setenv("SPINDLE_SOCKETS", expected, 1);
	CU_ASSERT_EQUAL(sp_socket_path("nic", true, p, sizeof(p)), -ENAMETOOLONG); /* no socket can have it */
	unsetenv("SPINDLE_SOCKETS");
	setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
	CU_ASSERT_EQUAL(sp_socket_path("nic", true, p, sizeof(p)), 0);
	CU_ASSERT_STRING_EQUAL(p, geteuid() ? "/run/user/7/spindle/nic.sock" : "/run/spindle/nic.sock");
	unsetenv("XDG_RUNTIME_DIR");
	CU_ASSERT_EQUAL(sp_socket_path("nic", true, p, sizeof(p)), 0);
	snprintf(expected, sizeof(expected), "/tmp/spindle-%u/nic.sock", geteuid());
	CU_ASSERT_STRING_EQUAL(p, geteuid() ? expected : "/run/spindle/nic.sock");
}

SUITE("server", TEST(requests_that_are_none_end_the_connection_after_a_reply),
      TEST(arguments_that_do_not_fit_are_refused_and_nothing_else_happens),
      TEST(descriptors_that_come_along_are_not_taken), TEST(who_does_not_read_replies_is_let_go_and_others_are_served),
      TEST(idle_connections_keep_nobody_out), TEST(a_thousand_attaches_leave_nothing),
      TEST(limits_are_per_application_and_say_what_is_reached), TEST(regions_are_limited_and_given_back),
      TEST(only_so_many_applications_fit_and_observers_beside_them), TEST(no_user_takes_the_places_of_others),
      TEST(who_leaves_has_nothing_there_and_asks_nothing_more), TEST(every_call_says_so_when_the_nic_has_gone),
      TEST(an_application_that_dies_takes_its_contexts_with_it_and_nothing_else),
      TEST(one_path_belongs_to_one_nic_and_what_a_dead_one_left_is_taken), TEST(users_may_what_mode_and_limits_say),
      TEST(a_nic_that_speaks_garbage_is_none), TEST(shared_memory_can_be_neither_resized_nor_areas_written),
      TEST(a_sleeper_wakes_for_an_event_and_for_nothing_of_others),
      TEST(connections_wait_while_there_are_no_descriptors), TEST(paths_follow_from_name_user_and_environment))
