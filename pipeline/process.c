/* SPDX-License-Identifier: BSD-3-Clause */
#include "process.h"
#include "error.h"
#include "limits.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_log.h>
#include <rte_mempool.h>

#include "../handlers/isa/isa.h"

#define MAX_ARGS     64
#define CACHE	     256
#define MEMORY	     512u /* MiB that EAL gets, */
#define PACKETS_A_MB 96u  /* ... and one more for so many packet buffers beyond SP_PACKET_POOL */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool ready;
static pid_t owner; /* the process that started EAL */
static struct rte_mempool *pool, *pieces;
static uint32_t packets = SP_PACKET_POOL;
static bool port_taken[RTE_MAX_ETHPORTS];

static int asked; /* count of EAL arguments from the caller */
static char *arguments[MAX_ARGS];

/* ---- DPDK's log: to stderr, or held back for an error text ---- */

static struct {
	pthread_mutex_t lock;
	unsigned holders;
	bool verbose;
	char line[128]; /* the first line: the driver's cause; later lines only say that a call failed */
} held = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Never closed: a driver's thread may write at any time. */
static ssize_t log_write(void *cookie, const char *text, size_t len)
{
	(void)cookie;
	pthread_mutex_lock(&held.lock);
	if (held.holders && !held.verbose) {
		size_t n = len;

		while (n && (text[n - 1] == '\n' || text[n - 1] == '.'))
			n--;
		if (n && !held.line[0])
			snprintf(held.line, sizeof(held.line), "%.*s", (int)RTE_MIN(n, sizeof(held.line) - 1), text);
	} else if (fwrite(text, 1, len, stderr) != len) {
		len = 0;
	}
	pthread_mutex_unlock(&held.lock);
	return (ssize_t)len;
}

static void log_open(bool verbose)
{
	static const cookie_io_functions_t io = {.write = log_write};
	FILE *f = fopencookie(NULL, "w", io);

	held.verbose = verbose;
	if (!f)
		return;
	setvbuf(f, NULL, _IOLBF, 1024);
	if (rte_openlog_stream(f))
		fclose(f);
}

void sp_process_log_hold(void)
{
	pthread_mutex_lock(&held.lock);
	if (!held.holders++)
		held.line[0] = 0;
	pthread_mutex_unlock(&held.lock);
}

void sp_process_log_release(char *said, size_t room)
{
	pthread_mutex_lock(&held.lock);
	held.holders--;
	if (said)
		snprintf(said, room, "%s", held.line);
	pthread_mutex_unlock(&held.lock);
}

void sp_process_log_peers(bool on)
{
	if (!held.verbose)
		rte_log_set_level_pattern("pmd.net.virtio.driver", on ? RTE_LOG_ERR : RTE_LOG_CRIT);
}

int sp_process_arguments(char ***argv)
{
	*argv = arguments;
	return asked;
}

/* ---- EAL ---- */

/* True if the caller's arguments choose EAL's memory. */
static bool names_memory(int argc, char **argv)
{
	static const char *const options[] = {
		"--no-huge",	 "-m",		 "--socket-mem",	  "--in-memory", "--huge-dir",
		"--huge-unlink", "--legacy-mem", "--single-file-segments"};

	for (int i = 0; i < argc; i++)
		for (size_t k = 0; k < RTE_DIM(options); k++)
			if (!strncmp(argv[i], options[k], strlen(options[k])))
				return true;
	return false;
}

static bool has(int argc, char **argv, const char *option)
{
	for (int i = 0; i < argc; i++)
		if (!strncmp(argv[i], option, strlen(option)))
			return true;
	return false;
}

/* "0@(0,1,...)": one lcore that floats over this process's CPUs, so that EAL pins no thread. */
static void floating_lcore(char *text, size_t room)
{
	cpu_set_t set;
	size_t at = (size_t)snprintf(text, room, "--lcores=0@(");
	bool first = true;

	if (sched_getaffinity(0, sizeof(set), &set))
		CPU_ZERO(&set);
	for (int i = 0; i < CPU_SETSIZE && at + 16 < room; i++)
		if (CPU_ISSET(i, &set)) {
			at += (size_t)snprintf(text + at, room - at, first ? "%d" : ",%d", i);
			first = false;
		}
	snprintf(text + at, room - at, first ? "0)" : ")");
}

/* Closes ports, as drivers leave vhost sockets behind, over which the next process would stumble. rte_eal_cleanup()
 * would also end ports that a NIC's workers may still poll. */
static void leave(void)
{
	uint16_t port;

	if (getpid() != owner) /* a forked child exits */
		return;
	signal(SIGPIPE, SIG_IGN); /* virtio-user writes to a vhost that may be gone */
	RTE_ETH_FOREACH_DEV(port)
	{
		if (!port_taken[port])
			rte_eth_dev_close(port);
	}
}

/* EAL leaves a directory per process, empty once telemetry's exit handler has removed its sockets. */
static void leave_directory(void)
{
	if (getpid() == owner)
		rmdir(rte_eal_get_runtime_dir());
}

/* EAL puts its files into $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR or, without either, the common /tmp/dpdk, which belongs
 * to its first user. Such users get a directory of their own; path is "" if EAL's choice works. */
static int runtime_directory(char *path, size_t room, struct sp_error *error)
{
	const char *xdg = getenv("XDG_RUNTIME_DIR");
	struct stat st;

	*path = 0;
	if (getuid() == 0 || getenv("RUNTIME_DIRECTORY"))
		return 0;
	/* after su and sudo it may be another user's */
	if (xdg && !stat(xdg, &st) && S_ISDIR(st.st_mode) && st.st_uid == getuid() && !access(xdg, W_OK | X_OK))
		return 0;
	snprintf(path, room, "/tmp/spindle-%u", (unsigned)getuid());
	if (mkdir(path, 0700) && errno != EEXIST)
		return sp_error_set(error, errno, "", "%s cannot be made: %s", path, strerror(errno));
	if (lstat(path, &st) || !S_ISDIR(st.st_mode) || st.st_uid != getuid() || (st.st_mode & 077))
		return sp_error_set(error, EPERM, "",
				    "%s is not a directory of this user's alone (0700); DPDK's files would not be safe "
				    "there: remove it, or set XDG_RUNTIME_DIR",
				    path);
	return 0;
}

static int keep_arguments(int argc, char **argv)
{
	for (; asked < argc; asked++) {
		arguments[asked] = strdup(argv[asked]);
		if (!arguments[asked])
			return -ENOMEM;
	}
	return 0;
}

static int init(int argc, char **argv, struct sp_error *error)
{
	char directory[64];
	char prefix[64], lcores[4096], memory[16];
	char *args[MAX_ARGS];
	int n = 0, r;

	if (argc > MAX_ARGS - 10)
		return sp_error_set(error, E2BIG, "", "more than %d EAL arguments", MAX_ARGS - 10);
	args[n++] = (char *)"spindle";
	snprintf(prefix, sizeof(prefix), "--file-prefix=spindle-%d", (int)getpid());
	if (!has(argc, argv, "--file-prefix"))
		args[n++] = prefix;
	if (!names_memory(argc, argv)) {
		args[n++] = (char *)"--no-huge";
		args[n++] = (char *)"--no-shconf";
		args[n++] = (char *)"-m";
		snprintf(memory, sizeof(memory), "%u", MEMORY + (packets - SP_PACKET_POOL) / PACKETS_A_MB);
		args[n++] = memory;
	}
	/* PCI devices only by name: probing all would touch devices that the machine itself uses. */
	if (!has(argc, argv, "-a") && !has(argc, argv, "--allow") && !has(argc, argv, "-b") &&
	    !has(argc, argv, "--block") && !has(argc, argv, "--no-pci"))
		args[n++] = (char *)"--no-pci";
	if (!has(argc, argv, "--log-level"))
		args[n++] = (char *)"--log-level=error";
	if (!has(argc, argv, "-l") && !has(argc, argv, "--lcores") && !has(argc, argv, "-c")) {
		floating_lcore(lcores, sizeof(lcores));
		args[n++] = lcores;
	}
	if (!has(argc, argv, "--telemetry") && !has(argc, argv, "--no-telemetry"))
		args[n++] = (char *)"--no-telemetry";
	for (int i = 0; i < argc; i++)
		args[n++] = argv[i];
	args[n] = NULL;
	atexit(leave_directory); /* registered before EAL's handlers, so that it runs after them */
	r = runtime_directory(directory, sizeof(directory), error);
	if (r)
		return r;
	if (keep_arguments(argc, argv))
		return sp_error_set(error, ENOMEM, "", "no memory");
	log_open(has(argc, argv, "--log-level"));
	if (*directory)
		setenv("RUNTIME_DIRECTORY", directory, 1);
	r = rte_eal_init(n, args);
	if (*directory)
		unsetenv("RUNTIME_DIRECTORY");
	if (r < 0)
		return sp_error_set(error, rte_errno ? rte_errno : EINVAL, "",
				    "DPDK's EAL does not start: %s (its own messages say more)%s",
				    rte_strerror(rte_errno),
				    names_memory(argc, argv) && !has(argc, argv, "--no-huge")
					    ? "; it was to use huge pages: where there are none, give it --no-huge too"
					    : "");
	pool = rte_pktmbuf_pool_create("spindle", packets, CACHE, 0, RTE_PKTMBUF_HEADROOM + SP_PACKET_ROOM,
				       SOCKET_ID_ANY);
	pieces = rte_pktmbuf_pool_create("spindle-pieces", SP_PIECES, CACHE, SP_PIECE_PRIVATE,
					 RTE_PKTMBUF_HEADROOM + SP_PIECE_ROOM, SOCKET_ID_ANY);
	if (!pool || !pieces)
		return sp_error_set(error, ENOMEM, "", "no memory for %u packet buffers: give EAL more with -m",
				    packets);
	owner = getpid();
	atexit(leave);
	ready = true;
	return 0;
}

int sp_eal_init(int argc, char **argv, struct sp_error *error)
{
	static bool tried;
	char why[256];
	int r = sp_isa_check(why, sizeof(why));

	if (r)
		return sp_error_set(error, -r, "", "%s", why);
	pthread_mutex_lock(&lock);
	if (!ready) {
		if (tried)
			r = sp_error_set(error, EALREADY, "",
					 "DPDK's EAL failed before in this process, and can only be started once");
		else
			r = init(argc, argv, error);
		tried = true;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

/* ---- processes that the NIC forks ---- */

static const struct sock_fprog *child_filter; /* set before there are any */

void sp_process_packets(uint32_t count)
{
	pthread_mutex_lock(&lock);
	if (!ready && count > packets)
		packets = count;
	pthread_mutex_unlock(&lock);
}

void sp_process_child_filter(const struct sock_fprog *program)
{
	child_filter = program;
}

int sp_process_child_confine(void)
{
	if (!child_filter)
		return 0;
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, child_filter) ? -errno : 0;
}

/* ---- what all NICs share ---- */

struct rte_mempool *sp_process_pool(void)
{
	return pool;
}

struct rte_mempool *sp_process_pieces(void)
{
	return pieces;
}

struct rte_mbuf *sp_packet_alloc(void)
{
	return pool ? rte_pktmbuf_alloc(pool) : NULL;
}

int sp_process_port_take(uint16_t ethdev)
{
	int r = -EBUSY;

	pthread_mutex_lock(&lock);
	if (!port_taken[ethdev]) {
		port_taken[ethdev] = true;
		r = 0;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

void sp_process_port_release(uint16_t ethdev)
{
	pthread_mutex_lock(&lock);
	port_taken[ethdev] = false;
	pthread_mutex_unlock(&lock);
}

/* 2048 bytes hold a frame of 1500 and spread over the cache's sets; larger frames get their own room. */
static uint32_t port_room(uint32_t room)
{
	return RTE_ALIGN(RTE_MAX(room, 2048u), 64u);
}

uint32_t sp_process_port_buffer(uint32_t room)
{
	return rte_mempool_calc_obj_size(sizeof(struct rte_mbuf) + RTE_PKTMBUF_HEADROOM + port_room(room), 0, NULL);
}

uint32_t sp_process_port_buffers(uint32_t room, uint32_t count)
{
	count += 4 * CACHE;
	/* 2^n - 1 fits the pool's ring best; for large buffers memory matters more */
	return port_room(room) <= SP_JUMBO_ROOM ? rte_align32pow2(count) - 1 : count;
}

struct rte_mempool *sp_process_port_pool(uint16_t ethdev, uint32_t room, uint32_t count, uint32_t least)
{
	char name[RTE_MEMPOOL_NAMESIZE];
	struct rte_mempool *p;

	count = sp_process_port_buffers(room, count);
	room = port_room(room);
	/* Never freed: buffers of a pool that has become too small may still be in use. */
	pthread_mutex_lock(&lock);
	for (unsigned i = 0;; i++) {
		snprintf(name, sizeof(name), i ? "sp-%u-%u-%u-%u" : "sp-%u-%u-%u", ethdev, room, count, i);
		p = rte_mempool_lookup(name);
		if (!p || rte_mempool_avail_count(p) >= least)
			break;
	}
	if (!p)
		p = rte_pktmbuf_pool_create(name, count, CACHE, 0, (uint16_t)(RTE_PKTMBUF_HEADROOM + room),
					    SOCKET_ID_ANY);
	pthread_mutex_unlock(&lock);
	return p;
}
