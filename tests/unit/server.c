/* SPDX-License-Identifier: BSD-3-Clause */
/* The NIC's socket: programs that break the protocol, flood, do not read; and NICs that do. */
#include "../lib/test_server.h"

#define RULE(rule) TEST_BETWEEN(srv_begin, srv_stop, rule)

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include "../../pipeline/host/filter_words.h"
#include "../../host-api/spindle.h"

#include <sys/wait.h>

RULE(invalid_requests_end_the_connection_after_a_reply)
{
	static const struct sp_attach_request good = {SP_ATTACH_MAGIC, SP_ATTACH_VERSION, SP_ATTACH_HELLO};
	uint8_t bytes[sizeof(struct sp_attach_request) + SP_ATTACH_BYTES + 1];
	struct sp_dev *dev;

	CU_ASSERT_EQUAL_FATAL(sp_attach(srv_path, &dev), 0);
	for (unsigned what = 0; what < 17; what++) {
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
			r.op = SP_ATTACH_SEALED + 1;
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
		case 14:
			r.op = SP_ATTACH_SEALED; /* of what? */
			break;
		case 15:
			CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_HELLO, 0, NULL, 0), 0);
			r.op = SP_ATTACH_SEALED; /* twice */
			break;
		case 16: /* something else instead */
			CU_ASSERT_EQUAL(raw_send(fd, SP_ATTACH_HELLO, 0, NULL, 0) || raw_reply(fd), 0);
			r.op = SP_ATTACH_REPORT;
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
	srv_wait_idle();
}

RULE(arguments_that_do_not_fit_are_refused_and_nothing_else_happens)
{
	struct sp_capture_request capture;
	char many[SP_ATTACH_BYTES];
	struct sp_command command = {.context = 12345};

	int fd = raw_connect();
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
	srv_wait_idle();
}

TEST(descriptors_that_come_along_are_not_taken)
{
	struct sp_attach_request r = {SP_ATTACH_MAGIC, SP_ATTACH_VERSION, SP_ATTACH_HELLO};
	union {
		struct cmsghdr head;
		uint8_t bytes[CMSG_SPACE(50 * sizeof(int))];
	} control;
	struct iovec part = {&r, sizeof(r)};
	struct msghdr m = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};

	srv_begin();
	memset(&control, 0, sizeof(control));
	control.head = (struct cmsghdr){CMSG_LEN(50 * sizeof(int)), SOL_SOCKET, SCM_RIGHTS}; /* 50 times stdin */
	unsigned before = srv_entries("/proc/self/fd");
	for (unsigned i = 0; i < 100; i++) {
		int fd = raw_connect();

		CU_ASSERT(sendmsg(fd, &m, 0) > 0);
		const int rc = raw_reply(fd); /* the end of the connection may overtake the words */
		const int then = raw_reply(fd);
		CU_ASSERT((rc == -EPROTO && then == 1) || (rc == 1 && (then == 1 || then == -EPROTO)));
		close(fd);
	}
	WAIT_FOR(srv_entries("/proc/self/fd") == before);
	srv_stop();
}

RULE(who_does_not_read_replies_is_let_go_and_others_are_served)
{
	struct sp_dev *dev;
	struct sp_mr *mr;

	CU_ASSERT_EQUAL_FATAL(sp_attach(srv_path, &dev), 0);
	CU_ASSERT_EQUAL(sp_mr_alloc(dev, 4096, &mr), 0);
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0); /* what went with earlier replies is closed over there */
	srv_wait_freed();
	unsigned before = srv_entries("/proc/self/fd");
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
	WAIT_FOR(srv_entries("/proc/self/fd") == before);
	sp_dev_close(dev);
	srv_wait_idle();
}

RULE(idle_connections_keep_nobody_out)
{
	int fd[200];
	struct sp_dev *dev;

	for (unsigned i = 0; i < 200; i++)
		fd[i] = raw_connect();
	CU_ASSERT_EQUAL(sp_attach(srv_path, &dev), 0);
	CU_ASSERT_EQUAL(raw_reply(fd[0]), 1); /* the oldest made room */
	CU_ASSERT_EQUAL(raw(fd[199], SP_ATTACH_REPORT, 0, NULL, 0), 0);
	for (unsigned i = 0; i < 200; i++)
		close(fd[i]);
	CU_ASSERT_EQUAL(sp_progress(dev, sp_clock()), 0);
	sp_dev_close(dev);
	srv_wait_idle();
}

TEST(a_nic_that_speaks_garbage_is_none)
{
	static const char *const what[] = {"nothing", "short",		 "magic",     "version",  "op",
					   "length",  "no data",	 "no queues", "unsealed", "too small",
					   "workers", "positive status", "right"};
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	const unsigned before = srv_entries("/proc/self/fd");

	srv_prepare();
	strcpy(at.sun_path, srv_path);
	CU_ASSERT_FATAL(!bind(listener, (struct sockaddr *)&at, sizeof(at)) && !listen(listener, 1));
	for (unsigned i = 0; i < sizeof(what) / sizeof(*what); i++) {
		pid_t pid = fork();
		struct sp_dev *dev;

		if (!pid) { /* the NIC */
			struct {
				struct sp_attach_reply head;
				struct sp_attach_welcome welcome;
			} r = {{SP_ATTACH_MAGIC, SP_ATTACH_VERSION, SP_ATTACH_HELLO, .arg = {sp_attach_stride(1)}},
			       {.workers = 1}};
			union {
				struct cmsghdr head;
				uint8_t bytes[CMSG_SPACE(3 * sizeof(int))];
			} control = {.head = {CMSG_LEN(3 * sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
			int memory = memfd_create("fake", MFD_ALLOW_SEALING), fd = accept(listener, NULL, NULL);
			struct iovec part = {&r, sizeof(r)};
			struct msghdr m = {.msg_iov = &part,
					   .msg_iovlen = 1,
					   .msg_control = &control,
					   .msg_controllen = sizeof(control)};
			const struct sp_attach_queues queues = {SP_ATTACH_MAGIC, 1, 1, 0};
			uint8_t request[100];
			int ends[2];

			if (pipe(ends) || ftruncate(memory, (off_t)r.head.arg[0] - (i == 9)) ||
			    pwrite(memory, &queues, sizeof(queues), 0) != sizeof(queues) ||
			    recv(fd, request, sizeof(request), 0) < 48)
				_exit(1);
			/* The memory. A NIC that has sealed it already cannot have it mapped for writing. */
			if (i == 8)
				fcntl(memory, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
			control.head.cmsg_len = CMSG_LEN(sizeof(int));
			m.msg_controllen = CMSG_SPACE(sizeof(int));
			memcpy(CMSG_DATA(&control.head), &memory, sizeof(int));
			part.iov_len = sizeof(r.head);
			sendmsg(fd, &m, 0);
			if (recv(fd, request, sizeof(request), 0) < 48)
				_exit(1);
			/* Then the rest. */
			control.head.cmsg_len = CMSG_LEN(2 * sizeof(int));
			m.msg_controllen = CMSG_SPACE(2 * sizeof(int));
			memcpy(CMSG_DATA(&control.head), ends, sizeof(ends));
			r.head.op = SP_ATTACH_SEALED;
			r.head.bytes = sizeof(r.welcome);
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
		int rc = sp_attach(srv_path, &dev);
		waitpid(pid, NULL, 0);
		if (!rc)
			sp_dev_close(dev);
		if (rc != (i == 12 ? 0 : i == 8 ? -EPERM : i ? -EPROTO : -ECONNABORTED))
			printf("# %s: %d\n", what[i], rc);
		CU_ASSERT_EQUAL(rc, i == 12 ? 0 : i == 8 ? -EPERM : i ? -EPROTO : -ECONNABORTED);
	}
	CU_ASSERT_EQUAL(srv_entries("/proc/self/fd"), before);
	close(listener);
	unlink(srv_path);
}

/* What may not be possible with a descriptor of memory that the NIC uses. */
static void is_shut(int fd)
{
	char path[64];
	int again;

	CU_ASSERT(ftruncate(fd, 0) && ftruncate(fd, 1 << 30) && pwrite(fd, "", 1, 0) != 1);
	CU_ASSERT(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) && fallocate(fd, 0, 0, 1 << 30));
	CU_ASSERT_PTR_EQUAL(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	CU_ASSERT(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) < 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR | O_CLOEXEC); /* root may */
	if (again >= 0) {
		CU_ASSERT_PTR_EQUAL(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0), MAP_FAILED);
		CU_ASSERT(ftruncate(again, 0) && pwrite(again, "", 1, 0) != 1);
		CU_ASSERT(fallocate(again, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
		close(again);
	}
}

RULE(sealed_memory_can_be_neither_resized_nor_punched_nor_written_by_calls)
{
	static const struct {
		uint16_t op;
		uint64_t arg;
		const char *data;
		uint32_t bytes;
	} step[] = {{SP_ATTACH_HELLO},
		    {SP_ATTACH_MR_ALLOC, 8192},
		    {SP_ATTACH_OPEN, 1, "c\0sdr\0qp\0000x100", 15},
		    {SP_ATTACH_CAPTURE}};
	const struct sp_capture_request capture = {0};
	const int fd = raw_connect();

	for (unsigned i = 0; i < 4; i++) {
		const bool captures = step[i].op == SP_ATTACH_CAPTURE;
		uint8_t *at;
		int memory;

		CU_ASSERT_EQUAL_FATAL(raw_send(fd, step[i].op, step[i].arg, captures ? (void *)&capture : step[i].data,
					       captures ? sizeof(capture) : step[i].bytes) ||
					      raw_reply(fd),
				      0);
		memory = dup(raw_fd);
		at = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
		CU_ASSERT_PTR_NOT_EQUAL_FATAL(at, MAP_FAILED);
		CU_ASSERT_EQUAL(raw_sealed(fd, SP_ATTACH_SEALS), 0);
		is_shut(memory);
		CU_ASSERT(madvise(at, 4096, MADV_REMOVE) < 0);
		at[4096] = 1;			    /* the program's mapping stays as it was */
		if (step[i].op == SP_ATTACH_OPEN) { /* the area came with the last reply */
			is_shut(raw_fd);
			CU_ASSERT_PTR_EQUAL(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, raw_fd, 0),
					    MAP_FAILED);
		}
		munmap(at, 8192);
		close(memory);
	}
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_REPORT, 0, NULL, 0), 0);
	is_shut(raw_fd);
	close(fd);
	srv_wait_idle();
}

/* Seals that are missing, too many, or of a file that is no longer what it was: the memory is not used. */
RULE(memory_that_is_not_sealed_as_it_must_be_is_not_used)
{
	static const int one[] = {F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE};
	struct sp_command query = {.context = 0};

	for (unsigned i = 0; i < 7; i++) {
		const uint64_t used = srv_nic->memory_used;
		const int fd = raw_connect();

		CU_ASSERT_EQUAL_FATAL(raw_send(fd, SP_ATTACH_HELLO, 0, NULL, 0) || raw_reply(fd), 0);
		CU_ASSERT(i != 5 || !ftruncate(raw_fd, 4096));
		CU_ASSERT(i != 6 || !ftruncate(raw_fd, 1 << 24));
		CU_ASSERT_EQUAL(raw_sealed(fd, i < 4	? SP_ATTACH_SEALS & ~one[i]
					       : i == 4 ? 0
							: SP_ATTACH_SEALS),
				-EACCES);
		/* It is as before: no HELLO has been. */
		srv_let_go(NULL);
		WAIT_FOR(srv_nic->memory_used == used);
		CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_REPORT, 0, NULL, 0), 0);
		CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_HELLO, 0, NULL, 0), 0);
		CU_ASSERT_EQUAL(raw_send(fd, SP_ATTACH_MR_ALLOC, 5 << 20, NULL, 0) || raw_reply(fd), 0);
		CU_ASSERT_EQUAL(raw_sealed(fd, F_SEAL_SEAL), -EACCES);
		CU_ASSERT_EQUAL(raw_send(fd, SP_ATTACH_OPEN, 1, "c\0sdr\0qp\0000x100", 15) || raw_reply(fd), 0);
		CU_ASSERT_EQUAL(raw_sealed(fd, F_SEAL_SEAL), -EACCES);
		CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_CALL, 0, &query, sizeof(query)), -ENOENT);
		CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_MR_ALLOC, 4096, NULL, 0), 0);
		close(fd);
		srv_wait_idle();
	}
}

/* Holes made before the seals are filled again: later the NIC would fault, and could find no memory. */
RULE(holes_from_before_the_seals_are_filled)
{
	const int fd = raw_connect();
	struct stat st;

	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_HELLO, 0, NULL, 0), 0);
	CU_ASSERT_EQUAL_FATAL(raw_send(fd, SP_ATTACH_MR_ALLOC, 9 << 20, NULL, 0) || raw_reply(fd), 0);
	const int memory = dup(raw_fd);
	CU_ASSERT_EQUAL(fallocate(memory, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 9 << 20), 0);
	CU_ASSERT(!fstat(memory, &st) && !st.st_blocks);
	CU_ASSERT_EQUAL(raw_sealed(fd, SP_ATTACH_SEALS), 0);
	CU_ASSERT(!fstat(memory, &st) && st.st_blocks == (9 << 20) / 512);
	close(memory);
	close(fd);
	srv_wait_idle();
}

RULE(connections_wait_while_there_are_no_descriptors)
{
	struct rlimit before;
	struct sockaddr_un to = {.sun_family = AF_UNIX};

	strcpy(to.sun_path, srv_path);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	int next = dup(fd);
	close(next);
	getrlimit(RLIMIT_NOFILE, &before);
	struct rlimit none = before;
	none.rlim_cur = (rlim_t)next;
	setrlimit(RLIMIT_NOFILE, &none);
	CU_ASSERT_EQUAL(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	CU_ASSERT_EQUAL(raw_send(fd, SP_ATTACH_REPORT, 0, NULL, 0), 0);
	usleep(150000); /* it is looked at again now and then */
	setrlimit(RLIMIT_NOFILE, &before);
	CU_ASSERT_EQUAL(raw_reply(fd), 0);
	close(fd);
}

/* What would keep the server busy or waiting. */
TEST(filters_of_programs_that_are_not_trusted_have_no_names_and_few_numbers)
{
	static const char *const good[] = {"udp port 4791",
					   "ether host 02:00:00:00:00:01 and not (vlan 5)",
					   "ip6 net 2001:db8::/32 or host 10.0.0.1",
					   "tcp[tcpflags] & (tcp-syn|tcp-ack) != 0",
					   "ether[12:2] = 0x88B5",
					   "portrange 10-20",
					   ""};
	static const char *const names[] = {
		"host example.invalid", "port http",	     "host beef", "host be3f", "net a-b",
		"host a1.b2.c3",	"udp and src nobody"};
	char many[2000] = "port 1";
	struct sp_error error;

	for (unsigned i = 0; i < sizeof(good) / sizeof(*good); i++)
		CU_ASSERT_EQUAL(sp_filter_words(good[i], &error), 0);
	for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++) {
		CU_ASSERT_EQUAL(sp_filter_words(names[i], &error), -EPERM);
		CU_ASSERT_STRING_EQUAL(error.key, "filter");
	}
	for (unsigned i = 2; i <= 32; i++)
		snprintf(many + strlen(many), sizeof(many) - strlen(many), " or %u", i);
	CU_ASSERT_EQUAL(sp_filter_words(many, &error), 0);
	strcat(many, " or 33");
	CU_ASSERT_EQUAL(sp_filter_words(many, &error), -E2BIG);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "33 numbers"));
	memset(many, '(', 257);
	many[257] = 0;
	CU_ASSERT_EQUAL(sp_filter_words(many, &error), -E2BIG);
}

TEST(paths_follow_from_name_user_and_environment)
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
