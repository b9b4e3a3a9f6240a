/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of system calls, by role. A new part of the process adds what it needs to its role's row, or adds a row.
 *
 * One filter, the sum of all rows, is for all threads: they share memory, so that code which runs in one can make
 * another call for it, and a narrower filter for a thread would only look like a wall. A process of its own is one: a
 * forked child narrows the filter to its row, see calls_program().
 *
 * A call outside of the table raises SIGSYS (SCMP_ACT_TRAP) and is not made: command/run/fault.c names the call,
 * worker, handler and plug-in, and the NIC ends. Neither SCMP_ACT_KILL_PROCESS, which says nothing but a number in the
 * audit log, nor an error that code which has gone wrong would ignore. Who takes SIGSYS away gains nothing: the call
 * fails.
 */
#include "calls.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- the table -------------------------------------------------------------------------------------------------- */
/* Some calls are limited by their arguments, whatever the role: see `limited` below. */
static const struct {
	const char *role, *calls;
} table[] = {
	{"thread", /* libc, in every thread: memory, locks, time, signals, start and end of threads */
	 "brk mmap munmap mremap mprotect madvise membarrier futex futex_waitv futex_wake futex_wait set_robust_list "
	 "get_robust_list rseq set_tid_address arch_prctl clone clone3 exit exit_group restart_syscall prctl getrandom "
	 "sched_yield sched_getaffinity sched_setaffinity sched_getparam sched_getscheduler getcpu get_mempolicy mbind "
	 "set_mempolicy clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time times getrusage "
	 "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend rt_sigtimedwait sigaltstack pause alarm "
	 "setitimer getitimer tgkill kill gettid getpid getppid getpgrp getuid geteuid getgid getegid getresuid "
	 "getresgid "
	 "getgroups capget uname sysinfo prlimit64 getrlimit setrlimit read readv pread64 preadv write writev pwrite64 "
	 "pwritev lseek close poll ppoll"},
	{"file", /* open files are libc's and everybody's: reports, /proc, messages. Which: see landlock in fence.c */
	 "open openat fstat stat lstat newfstatat statx access faccessat faccessat2 readlink readlinkat getdents64 "
	 "getcwd "
	 "statfs fstatfs fcntl dup dup2 dup3 pipe pipe2 fsync fdatasync fadvise64 ioctl umask"},
	{"worker", /* ports: af_packet, tap, virtio-user, vhost, pcap */
	 "sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg getsockopt setsockopt select pselect6"},
	{"port", /* DPDK's threads: interrupts, vhost's messages; ports that connect again, and their end */
	 "socket connect bind listen accept accept4 getsockname getpeername shutdown epoll_create epoll_create1 "
	 "epoll_ctl epoll_wait "
	 "epoll_pwait epoll_pwait2 eventfd2 timerfd_create timerfd_settime timerfd_gettime mlock munlock unlink rmdir"},
	{"server", /* applications: their sockets, shared areas, wake-ups */
	 "socket socketpair bind listen accept accept4 sendmsg recvmsg getsockopt setsockopt chmod fchmod fchmodat "
	 "chown "
	 "lchown fchownat unlink unlinkat memfd_create ftruncate fallocate eventfd2 close_range epoll_create1 "
	 "epoll_ctl "
	 "epoll_wait epoll_pwait"},
	{"notifier", "eventfd2 sendto sendmsg epoll_wait epoll_pwait"},
	{"telemetry", "accept accept4 recvfrom sendto"},
	{"plugin", /* copies of plug-ins in $TMPDIR, under a lock */
	 "mkdir mkdirat unlink unlinkat rmdir flock sendfile copy_file_range"},
	{"check", /* the child that DPDK's eBPF verifier runs in, and its parent */
	 "wait4 waitid close_range dup2"},
	{"child", /* a process that narrows the filter to its own row */
	 "seccomp"},
	{"notify", /* the service manager */
	 "socket sendto"},
	{"reaper", /* a process of its own: it frees shared areas and closes connections, and may be kept waiting in
		      that */
	 "setsid dup3 pipe2 recvmsg sendmsg sendto shutdown poll ppoll fcntl close close_range clone clone3 wait4 "
	 "waitid munmap open "
	 "openat fstat "
	 "newfstatat "
	 "read lseek exit exit_group rt_sigreturn rt_sigprocmask rt_sigaction getpid getppid gettid set_robust_list "
	 "rseq "
	 "prctl futex clock_gettime nanosleep clock_nanosleep write kill restart_syscall tgkill mmap mprotect brk "
	 "madvise"},
};

/* Drivers of real devices (mlx5, vfio), and AF_XDP's. */
static const char devices[] = "ioctl bpf mlock munlock sched_setscheduler";

/* ---- what is limited by arguments ------------------------------------------------------------------------------- */

#define NAMESPACES                                                                                                     \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)
#define W_AND_X	   (PROT_WRITE | PROT_EXEC)
#define SET_VMA	   0x53564D41 /* PR_SET_VMA: names of anonymous memory */
#define IOCTL_KIND 0xFF00u

/* Allowed with either of these arguments only: mask and value of argument a, and of another one. */
static const struct limit {
	const char *call;
	struct scmp_arg_cmp arg[2];
	unsigned args;
} limited[] = {
	/* threads and processes, but no namespaces */
	{"clone", {{0, SCMP_CMP_MASKED_EQ, NAMESPACES, 0}}, 1},
	/* no connection leaves the machine; routing sockets are asked for interfaces' counters */
	{"socket", {{0, SCMP_CMP_EQ, AF_UNIX}}, 1},
	{"socket", {{0, SCMP_CMP_EQ, AF_NETLINK}, {2, SCMP_CMP_EQ, 0 /* NETLINK_ROUTE */}}, 2},
	{"socketpair", {{0, SCMP_CMP_EQ, AF_UNIX}}, 1},
	/* no mapping is writable and executable at once */
	{"mmap", {{2, SCMP_CMP_MASKED_EQ, W_AND_X, 0}}, 1},
	{"mmap", {{2, SCMP_CMP_MASKED_EQ, W_AND_X, PROT_WRITE}}, 1},
	{"mmap", {{2, SCMP_CMP_MASKED_EQ, W_AND_X, PROT_EXEC}}, 1},
	{"mprotect", {{2, SCMP_CMP_MASKED_EQ, W_AND_X, 0}}, 1},
	{"mprotect", {{2, SCMP_CMP_MASKED_EQ, W_AND_X, PROT_WRITE}}, 1},
	{"mprotect", {{2, SCMP_CMP_MASKED_EQ, W_AND_X, PROT_EXEC}}, 1},
	/* this process's own limits */
	{"prlimit64", {{0, SCMP_CMP_EQ, 0}}, 1},
	{"seccomp", {{0, SCMP_CMP_EQ, SECCOMP_SET_MODE_FILTER}}, 1},
	{"prctl", {{0, SCMP_CMP_EQ, PR_SET_NAME}}, 1},
	{"prctl", {{0, SCMP_CMP_EQ, PR_GET_NAME}}, 1},
	{"prctl", {{0, SCMP_CMP_EQ, PR_SET_PDEATHSIG}}, 1},
	{"prctl", {{0, SCMP_CMP_EQ, PR_SET_NO_NEW_PRIVS}}, 1},
	{"prctl", {{0, SCMP_CMP_EQ, PR_SET_TIMERSLACK}}, 1},
	{"prctl", {{0, SCMP_CMP_EQ, SET_VMA}}, 1},
	/* interfaces and sockets (0x89), vhost (0xAF), tap, whether something is a terminal: none that types into one
	 */
	{"ioctl", {{1, SCMP_CMP_MASKED_EQ, IOCTL_KIND, 0x8900}}, 1},
	{"ioctl", {{1, SCMP_CMP_MASKED_EQ, IOCTL_KIND, 0xAF00}}, 1},
	{"ioctl", {{1, SCMP_CMP_MASKED_EQ, 0xC000FF00u, 0x40005400u}}, 1},
	{"ioctl", {{1, SCMP_CMP_MASKED_EQ, 0xC000FF00u, 0x80005400u}}, 1},
	{"ioctl", {{1, SCMP_CMP_EQ, 0x5401 /* TCGETS */}}, 1},
	{"ioctl", {{1, SCMP_CMP_EQ, 0x5413 /* TIOCGWINSZ */}}, 1},
	{"ioctl", {{1, SCMP_CMP_EQ, 0x541B /* FIONREAD */}}, 1},
	{"ioctl", {{1, SCMP_CMP_EQ, 0x5411 /* SIOCOUTQ, TIOCOUTQ */}}, 1},
	{"ioctl", {{1, SCMP_CMP_EQ, 0x5421 /* FIONBIO */}}, 1},
	{"ioctl", {{1, SCMP_CMP_EQ, 0x5451 /* FIOCLEX */}}, 1},
};

/* ---- making the filter ------------------------------------------------------------------------------------------ */

#define CALLS 1024
static char *names[CALLS]; /* by number; made before the filter, as signal handlers must not allocate */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
const bool calls_unfiltered_build = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
const bool calls_unfiltered_build = true;
#else
const bool calls_unfiltered_build = false;
#endif
#else
const bool calls_unfiltered_build = false;
#endif

int calls_supported(void)
{
	const uint32_t action = SECCOMP_RET_TRAP;

	return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) ? -errno : 0;
}

/* A call that this machine does not have, or the library does not know yet, needs no rule. */
static int number_of(const char *call)
{
	const int number = seccomp_syscall_resolve_name(call);

	return number >= 0 ? number : -1;
}

static int allow_limited(scmp_filter_ctx filter, const char *call, int number, bool no_code, bool *found)
{
	int r = 0;

	for (size_t i = 0; i < sizeof(limited) / sizeof(*limited) && !r; i++) {
		const struct limit *l = &limited[i];

		if (strcmp(l->call, call))
			continue;
		*found = true;
		if (no_code && l->arg[0].arg == 2 && l->arg[0].datum_b == PROT_EXEC)
			continue;
		r = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, number, l->args, l->arg);
	}
	return r;
}

static int allow(scmp_filter_ctx filter, const char *call, const struct calls_wanted *w)
{
	const int number = number_of(call);
	bool found = false;
	int r = 0;

	if (number < 0)
		return 0;
	if (!strcmp(call, "clone3")) /* its flags are in memory, where no filter sees them: libc then calls clone() */
		return seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), number, 0);
	if (!(w->devices && !strcmp(call, "ioctl")))
		r = allow_limited(filter, call, number, w->no_code, &found);
	if (!r && !found)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0);
	return r == -EEXIST ? 0 : r;
}

static int allow_all(scmp_filter_ctx filter, const char *calls, const struct calls_wanted *w)
{
	char *list = strdup(calls), *rest = NULL;
	int r = list ? 0 : -ENOMEM;

	for (char *call = list ? strtok_r(list, " ", &rest) : NULL; call && !r; call = strtok_r(NULL, " ", &rest))
		r = allow(filter, call, w);
	free(list);
	return r;
}

/* role: NULL: all of them */
static int make(const char *role, const struct calls_wanted *w, scmp_filter_ctx *out)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_TRAP);
	const struct scmp_arg_cmp code = {2, SCMP_CMP_MASKED_EQ, PROT_EXEC, PROT_EXEC};
	int r = filter ? seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) : -ENOMEM;

	for (size_t i = 0; i < sizeof(table) / sizeof(*table) && !r; i++)
		if (!role || !strcmp(table[i].role, role))
			r = allow_all(filter, table[i].calls, w);
	if (!r && w->devices)
		r = allow_all(filter, devices, w);
	/* libpcap asks for the names of hosts in filters: there are none for it, which is no reason to end the NIC. */
	for (int family = AF_INET; !r && family; family = family == AF_INET ? AF_INET6 : 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EACCES), number_of("socket"), 2,
				     SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)family),
				     SCMP_A1(SCMP_CMP_MASKED_EQ, 0xF, SOCK_DGRAM));
	/* A library that wants code must do without: dlopen() and JITs say what failed. */
	if (!r && w->no_code)
		r = seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EACCES), number_of("mmap"), 1, &code);
	if (!r && w->no_code)
		r = seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EACCES), number_of("mprotect"), 1, &code);
	if (!r)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a binary tree, not a list */
	if (!r)
		*out = filter;
	else if (filter)
		seccomp_release(filter);
	return r;
}

int calls_filter(const struct calls_wanted *wanted)
{
	scmp_filter_ctx filter;
	int r = make(NULL, wanted, &filter);

	if (r)
		return r;
	for (int i = 0; i < CALLS; i++)
		if (!names[i])
			names[i] = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, i);
	r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	if (!r)
		r = seccomp_load(filter);
	seccomp_release(filter);
	return r;
}

int calls_program(const char *role, struct sock_fprog *program)
{
	scmp_filter_ctx filter;
	struct stat st;
	int r = make(role, &(struct calls_wanted){0}, &filter), fd = -1;

	if (r)
		return r;
	*program = (struct sock_fprog){0};
	fd = memfd_create("spindle-calls", MFD_CLOEXEC);
	r = fd < 0 ? -errno : seccomp_export_bpf(filter, fd);
	if (!r && (fstat(fd, &st) || st.st_size <= 0))
		r = -EIO;
	if (!r)
		program->filter = malloc((size_t)st.st_size);
	if (!r && (!program->filter || pread(fd, program->filter, (size_t)st.st_size, 0) != st.st_size))
		r = -ENOMEM;
	if (!r)
		program->len = (unsigned short)((size_t)st.st_size / sizeof(*program->filter));
	if (fd >= 0)
		close(fd);
	seccomp_release(filter);
	return r;
}

const char *calls_name(int number)
{
	return number >= 0 && number < CALLS ? names[number] : NULL;
}
