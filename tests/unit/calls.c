/* SPDX-License-Identifier: BSD-3-Clause */
/* The filters of system calls of spindle run: what each of its processes needs passes, and what none needs does not. */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../command/run/calls.h"
#include "../../pipeline/process.h"
#include "../lib/suite.h"

/* ---- children ----------------------------------------------------------------------------------- */
/* In a child: returns 0, or the number of the line where something is wrong. */
#define MUST(what)                                                                                                     \
	do {                                                                                                           \
		if (!(what))                                                                                           \
			return __LINE__;                                                                               \
	} while (0)

/* The wait status of a child that runs this. */
static int in_child(int (*run)(void *arg), void *arg)
{
	int status = -1;
	const pid_t pid = fork();

	if (!pid) {
		const int line = run(arg);

		if (line)
			fprintf(stderr, "# line %d: %s\n", line, strerror(errno));
		_exit(line != 0);
	}
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	return status;
}

static bool supported(void)
{
	if (calls_supported() || calls_unfiltered_build)
		printf("# no filters here\n");
	return !calls_supported() && !calls_unfiltered_build;
}

static void with_descriptor(int socket, int fd)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec io = {&byte, 1};
	struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	*c = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	(void)!sendmsg(socket, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static int descriptor(int socket)
{
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec io = {&byte, 1};
	struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	int fd = -1;

	if (recvmsg(socket, &m, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&m))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

/* ---- the whole process -------------------------------------------------------------------------- */

static int serve(void *arg)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	char path[64];
	int pair[2], fd, listener, client, epoll;

	(void)arg;
	MUST(!calls_filter(&(struct calls_wanted){0}));
	MUST(!strcmp(calls_name(SYS_execve), "execve"));
	fd = memfd_create("area", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	MUST(fd >= 0 && !ftruncate(fd, 1 << 20) && !fallocate(fd, 0, 0, 1 << 20));
	uint8_t *base = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	MUST(base != MAP_FAILED);
	MUST(!madvise(base, 1 << 20, 23 /* MADV_POPULATE_WRITE */) || errno == EINVAL);
	MUST(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | 0x10 /* F_SEAL_FUTURE_WRITE */));
	MUST(fcntl(fd, F_GET_SEALS) >= 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	const int again = open(path, O_RDONLY | O_CLOEXEC);
	MUST(again >= 0 && !close(again));
	MUST(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	with_descriptor(pair[0], fd);
	const int handed = descriptor(pair[1]);
	MUST(handed >= 0 && fcntl(handed, F_SETLEASE, F_UNLCK) <= 0);
	MUST(eventfd(0, EFD_CLOEXEC) >= 0);
	epoll = epoll_create1(EPOLL_CLOEXEC);
	MUST(epoll >= 0 && !epoll_ctl(epoll, EPOLL_CTL_ADD, pair[0], &(struct epoll_event){.events = EPOLLIN}));
	MUST(epoll_wait(epoll, &(struct epoll_event){0}, 1, 0) >= 0);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	MUST(listener >= 0 && !bind(listener, (struct sockaddr *)&at, sizeof(sa_family_t)) && !listen(listener, 1));
	socklen_t len = sizeof(at);
	MUST(!getsockname(listener, (struct sockaddr *)&at, &len));
	client = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	MUST(!connect(client, (struct sockaddr *)&at, len) && accept4(listener, NULL, NULL, SOCK_CLOEXEC) >= 0);
	MUST(getrandom(path, sizeof(path), 0) == sizeof(path) && !munmap(base, 1 << 20));
	MUST(socket(AF_INET, SOCK_DGRAM, 0) < 0 && errno == EACCES); /* as for a name in a filter */
	return 0;
}

TEST(what_the_server_needs_passes)
{
	if (supported())
		CU_ASSERT_EQUAL(in_child(serve, NULL), 0);
}

static int call(void *arg)
{
	MUST(!calls_filter(&(struct calls_wanted){0}));
	syscall(*(const long *)arg, 0, 0, 0, 0, 0, 0);
	return __LINE__;
}

TEST(what_no_thread_needs_raises_sigsys)
{
	static const long calls[] = {SYS_execve,
				     SYS_execveat,
				     SYS_ptrace,
				     SYS_setuid,
				     SYS_setresuid,
				     SYS_mount,
				     SYS_unshare,
				     SYS_setns,
				     SYS_bpf,
				     SYS_keyctl,
				     SYS_init_module,
				     SYS_process_vm_readv,
				     SYS_process_vm_writev,
				     SYS_perf_event_open,
				     SYS_userfaultfd,
				     SYS_io_uring_setup,
				     SYS_personality,
				     SYS_chroot,
				     SYS_swapon,
				     SYS_reboot,
				     SYS_open_by_handle_at,
				     SYS_kexec_load,
				     SYS_pivot_root,
				     SYS_shmget};

	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls) && supported(); i++) {
		const int status = in_child(call, (void *)(uintptr_t)&calls[i]);

		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
			printf("# call %ld\n", calls[i]);
		CU_ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
	}
}

static int write_and_run(void *arg)
{
	const bool strict = *(const bool *)arg;
	void *at;

	MUST(!calls_filter(&(struct calls_wanted){.no_code = strict}));
	at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(strict ? at == MAP_FAILED && errno == EACCES : at != MAP_FAILED);
	at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(at != MAP_FAILED);
	MUST(strict ? mprotect(at, 4096, PROT_READ | PROT_EXEC) && errno == EACCES
		    : !mprotect(at, 4096, PROT_READ | PROT_EXEC));
	MUST(!mprotect(at, 4096, PROT_READ));
	if (strict) /* an error as well */
		MUST(mprotect(at, 4096, PROT_READ | PROT_WRITE | PROT_EXEC) && errno == EACCES);
	else
		mprotect(at, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
	return strict ? 0 : __LINE__;
}

TEST(memory_is_never_writable_and_executable_at_once)
{
	bool strict = true;

	if (!supported())
		return;
	CU_ASSERT_EQUAL(in_child(write_and_run, &strict), 0);
	strict = false;
	const int status = in_child(write_and_run, &strict);
	CU_ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
}

/* ---- the reaper --------------------------------------------------------------------------------- */

static int confine(void)
{
	static struct sock_fprog program;

	MUST(!sp_process_child_confine()); /* no effect without a filter, as in a program that embeds a NIC */
	MUST(!calls_program("reaper", &program));
	MUST(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !calls_filter(&(struct calls_wanted){0}));
	sp_process_child_filter(&program);
	MUST(!sp_process_child_confine());
	return 0;
}

static int reap(void *arg)
{
	int pair[2], status, line;
	char maps[64];

	(void)arg;
	MUST(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	const int fd = memfd_create("area", MFD_CLOEXEC);
	void *at = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	line = confine();
	if (line)
		return line;
	with_descriptor(pair[0], fd);
	MUST(poll(&(struct pollfd){.fd = pair[1], .events = POLLIN}, 1, 1000) == 1 && descriptor(pair[1]) >= 0);
	MUST(fcntl(fd, F_SETLEASE, F_WRLCK) <= 0 && !munmap(at, 4096));
	const pid_t pid = fork();
	if (!pid)
		_exit(7);
	MUST(pid > 0 && waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7);
	const int own = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	MUST(own >= 0 && read(own, maps, sizeof(maps)) > 0 && !close(own));
	MUST(!close_range(3, ~0u, 0));
	return 0;
}

static int ask_for_more(void *arg)
{
	const int line = confine();

	(void)arg;
	if (!line)
		(void)!memfd_create("more", 0); /* the server's, not the reaper's */
	return __LINE__;
}

TEST(a_reaper_has_what_it_needs_and_no_more)
{
	if (!supported())
		return;
	CU_ASSERT_EQUAL(in_child(reap, NULL), 0);
	const int status = in_child(ask_for_more, NULL);
	CU_ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
}

int main(void)
{
	return suite_run();
}
