/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs DPDK's verifier in a child process: its time doubles with every branch that it cannot prune, which must not
 * stall the NIC. The child has one second of CPU time, bounded memory and one descriptor: the pipe for its answer.
 */
#include "ebpf.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rte_log.h>

#include "../../../handlers/spindle-bpf.h"
#include "../../error.h"
#include "../../nic.h"
#include "../../process.h"

#define CPU_SECONDS  1
#define MILLISECONDS 10000
#define MEMORY	     (UINT64_C(256) << 20) /* beside what the process has */

struct answer {
	uint32_t magic;
	int32_t loaded; /* 0: it is; 1: it is refused; -EINVAL, -ENOMEM: it is not compiled rightly */
	char said[160];
};
#define ANSWERED 0x5B1D1E00

struct rte_bpf_prm sp_ebpf_prm(const struct sp_ebpf_program *p)
{
	return (struct rte_bpf_prm){.ins = p->ins,
				    .nb_ins = p->count,
				    .xsym = sp_ebpf_calls,
				    .nb_xsym = sp_ebpf_calls_count,
				    .prog_arg = {.type = RTE_BPF_ARG_PTR, .size = sizeof(struct sp_bpf_packet)}};
}

/* ---- in the child ------------------------------------------------------------------------------- */
static uint64_t memory_now(void)
{
	unsigned long long size, resident, shared, text, lib, data = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (f && fscanf(f, "%llu %llu %llu %llu %llu %llu", &size, &resident, &shared, &text, &lib, &data) != 6)
		data = 0;
	if (f)
		fclose(f);
	return data * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void limit(int what, uint64_t to)
{
	const struct rlimit l = {to, to};

	setrlimit(what, &l);
}

static void confine(int *pipe_end)
{
	const uint64_t memory = memory_now();
	struct sigaction usual = {.sa_handler = SIG_DFL};
	sigset_t none;

	for (int s = 1; s < NSIG; s++)
		sigaction(s, &usual, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (*pipe_end != 0) {
		dup2(*pipe_end, 0);
		*pipe_end = 0;
	}
	close_range(1, ~0u, 0);
	limit(RLIMIT_CPU, CPU_SECONDS);
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_FSIZE, 0);
	limit(RLIMIT_NOFILE, 0);
	if (memory)
		limit(RLIMIT_DATA, memory + MEMORY);
}

static void __attribute__((noreturn)) child(const struct sp_ebpf_program *p, int pipe_end)
{
	const struct rte_bpf_prm prm = sp_ebpf_prm(p);
	struct answer a = {.magic = ANSWERED};
	char *log = NULL;
	size_t len = 0;
	struct rte_bpf_jit jit;
	struct rte_bpf *bpf;
	FILE *said;

	confine(&pipe_end);
	said = open_memstream(&log, &len);
	if (said)
		rte_openlog_stream(said);
	rte_log_set_global_level(RTE_LOG_ERR); /* whatever the user wants to hear of the rest */
	rte_log_set_level_pattern("lib.bpf", RTE_LOG_ERR);
	bpf = rte_bpf_load(&prm);
	a.loaded = bpf ? sp_ebpf_compiled(p, bpf, &jit) : 1;
	if (said)
		fflush(said);
	snprintf(a.said, sizeof(a.said), "%s", log ? log : "");
	a.said[strcspn(a.said, "\n")] = 0;
	_exit(write(pipe_end, &a, sizeof(a)) == (ssize_t)sizeof(a) ? 0 : 1);
}

/* ---- in the parent ------------------------------------------------------------------------------ */
static int64_t milliseconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Until the child has answered, has ended, or its time is over. */
static size_t listen_to(int fd, struct answer *a)
{
	const int64_t end = milliseconds() + MILLISECONDS;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	size_t got = 0;

	for (int64_t left; got < sizeof(*a) && (left = end - milliseconds()) > 0;) {
		ssize_t n = poll(&p, 1, (int)left);

		if (n < 0 && errno != EINTR)
			break;
		if (n <= 0)
			continue;
		n = read(fd, (char *)a + got, sizeof(*a) - got);
		if (!n || (n < 0 && errno != EINTR))
			break;
		got += n > 0 ? (size_t)n : 0;
	}
	return got;
}

/* "evaluate(PROGRAM) error: MESSAGE at pc: NUMBER", and the like. */
static int refused(const struct sp_ebpf_program *p, struct answer *a, struct sp_error *error)
{
	a->said[sizeof(a->said) - 1] = 0;
	return sp_error_set(error, EINVAL, "", "%s: DPDK's verifier refuses it: %s", p->section,
			    *a->said ? a->said : "it does not say why");
}

int sp_ebpf_try(const struct sp_ebpf_program *p, struct sp_error *error)
{
	struct answer a = {0};
	int fd[2], status = 0;
	sigset_t all, before;
	size_t got;
	pid_t pid;

	if (pipe2(fd, O_CLOEXEC))
		return sp_error_set(error, errno, "", "no pipe to a child process: %s", strerror(errno));
	sigfillset(&all); /* no handler of ours runs in the child */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid = fork();
	if (!pid)
		child(p, fd[1]);
	status = errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	close(fd[1]);
	if (pid < 0) {
		close(fd[0]);
		return sp_error_set(error, status, "", "no child process to check it in: %s", strerror(status));
	}
	got = listen_to(fd[0], &a);
	close(fd[0]);
	kill(pid, SIGKILL);
	status = 0;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (got == sizeof(a) && a.magic == ANSWERED)
		return a.loaded == 1 ? refused(p, &a, error)
		       : a.loaded    ? sp_error_set(error, EAGAIN, "",
						    "%s: DPDK's compiler makes jumps of it that go elsewhere: add a "
						       "statement, or leave one out",
						    p->section)
				     : 0;
	if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL && WTERMSIG(status) != SIGXCPU)
		return sp_error_set(error, EINVAL, "", "%s: DPDK's verifier crashes on it (signal %d)", p->section,
				    WTERMSIG(status));
	return sp_error_set(error, ETIMEDOUT, "",
			    "%s: DPDK's verifier needs more than %d s: it has too many branches; each that it cannot "
			    "tell from another doubles its time",
			    p->section, CPU_SECONDS);
}
