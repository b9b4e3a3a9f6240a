/* SPDX-License-Identifier: BSD-3-Clause */
#include "xdp.h"
#include "../error.h"
#include "../limits.h"
#include "../process.h"
#include "kernel.h"
#include "netlink.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/if_xdp.h>
#include <linux/virtio_net.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <rte_common.h>
#include <rte_mempool.h>

#define RELEASE		200000 /* us, in which the kernel gives a queue back: it does so some time after close() */
#define DRIVERS_PROGRAM "xsk_def_prog" /* what libxdp puts on the interface */

/* ---- the driver's libraries ---- */

static int say_nothing(int level, const char *format, va_list list)
{
	(void)level;
	(void)format;
	(void)list;
	return 0;
}

static void prepare(void)
{
	static const struct {
		const char *library, *function;
	} talks[] = {{"libxdp.so.1", "libxdp_set_print"}, {"libbpf.so.1", "libbpf_set_print"}};

	/* libxdp's dispatcher would pin programs in a file system, where they stay when the NIC is killed. */
	setenv("LIBXDP_SKIP_DISPATCHER", "1", 0);
	for (unsigned i = 0; i < RTE_DIM(talks); i++) {
		void *library = dlopen(talks[i].library, RTLD_LAZY | RTLD_NOLOAD); /* the driver has loaded it */
		void *(*set)(int (*)(int, const char *, va_list)) = NULL;

		if (library)
			*(void **)&set = dlsym(library, talks[i].function);
		if (set)
			set(say_nothing);
	}
}

/* ---- the driver's sockets ---- */

/* Those of other devices are among them, also beyond what one device has. */
#define OPEN (8 * SP_MAX_WORKERS)
static struct sp_xdp_socket others[OPEN];
static unsigned others_count;
static struct timespec closed; /* when the last was */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

static bool is_xdp(int fd, uint64_t *inode)
{
	int domain = 0;
	socklen_t n = sizeof(domain);
	struct stat st;

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) || domain != AF_XDP || fstat(fd, &st))
		return false;
	*inode = st.st_ino;
	return true;
}

static unsigned open_sockets(struct sp_xdp_socket *s, unsigned room_for)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	for (struct dirent *e; dir && (e = readdir(dir)) && n < room_for;)
		if (*e->d_name != '.' && is_xdp(atoi(e->d_name), &s[n].inode))
			s[n++].fd = atoi(e->d_name);
	if (dir)
		closedir(dir);
	return n;
}

void sp_xdp_begin(void)
{
	struct timespec now;

	pthread_mutex_lock(&making);
	prepare();
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (closed.tv_sec && (now.tv_sec - closed.tv_sec) * 1000000 + (now.tv_nsec - closed.tv_nsec) / 1000 < RELEASE)
		usleep(RELEASE);
	others_count = open_sockets(others, OPEN);
}

void sp_xdp_end(struct sp_xdp_sockets *made)
{
	struct sp_xdp_socket now[OPEN];
	const unsigned n = open_sockets(now, OPEN);

	made->count = 0;
	for (unsigned i = 0; i < n && made->count < SP_MAX_WORKERS; i++) {
		unsigned k = 0;

		while (k < others_count && others[k].inode != now[i].inode)
			k++;
		if (k == others_count)
			made->of[made->count++] = now[i];
	}
	pthread_mutex_unlock(&making);
}

void sp_xdp_close(const struct sp_xdp_sockets *made)
{
	uint64_t inode;

	for (unsigned i = 0; i < made->count; i++)
		if (is_xdp(made->of[i].fd, &inode) && inode == made->of[i].inode)
			close(made->of[i].fd);
	pthread_mutex_lock(&making);
	clock_gettime(CLOCK_MONOTONIC, &closed);
	pthread_mutex_unlock(&making);
}

/* ---- sizes ---- */

static uint32_t room(uint32_t mtu)
{
	return SP_PORT_FRAME(mtu) + SP_XDP_HEADROOM + (uint32_t)sizeof(struct virtio_net_hdr_mrg_rxbuf);
}

uint32_t sp_xdp_largest_mtu(void)
{
	const uint32_t page = (uint32_t)sysconf(_SC_PAGESIZE);
	uint32_t mtu = 9500 /* as nic.ini's */;

	while (mtu > 1 && sp_process_port_buffer(room(mtu)) > page)
		mtu--;
	return mtu;
}

/* Each queue locks all of the port's buffers. */
static uint64_t locked_bytes(const struct sp_vdev_wants *w)
{
	const uint32_t bytes = room(w->mtu);
	const uint32_t count = sp_process_port_buffers(bytes, w->queues * (2 * SP_XDP_DESCRIPTORS + SP_BACKLOG));

	return (uint64_t)w->queues * count * sp_process_port_buffer(bytes);
}

/* ---- checks ---- */

static const char *value_of(const struct sp_vdev_spec *spec, const char *key)
{
	const size_t len = strlen(key);

	for (const char *s = spec->devargs; *s; s += strcspn(s, ","), s += *s == ',')
		if (!strncmp(s, key, len) && s[len] == '=')
			return s + len + 1;
	return NULL;
}

static bool has(const struct sp_vdev_spec *spec, const char *key)
{
	return value_of(spec, key) != NULL;
}

static uint32_t first_queue(const struct sp_vdev_spec *spec)
{
	const char *value = value_of(spec, "start_queue");

	return value ? (uint32_t)strtoul(value, NULL, 10) : 0;
}

bool sp_xdp_takes_all(const struct sp_vdev_spec *spec)
{
	return !has(spec, "start_queue") && !has(spec, "xdp_prog");
}

static int check_queues(const struct sp_vdev_spec *spec, uint16_t workers, struct sp_error *error)
{
	const unsigned queues = sp_kernel_queues(spec->target);

	if (workers > queues)
		return sp_error_set(error, ENOTSUP, "workers",
				    "af_xdp:%s: the interface has %u queue%s, and %u workers need as many",
				    spec->target, queues, queues == 1 ? "" : "s", workers);
	/* Who says which queue it begins with has told the device what comes by which. */
	if (workers < queues && !has(spec, "start_queue"))
		return sp_error_set(error, ENOTSUP, "workers",
				    "af_xdp:%s: the interface has %u queues for %u worker%s, and what comes by the "
				    "others would be the kernel's: sudo ethtool -L %s combined %u",
				    spec->target, queues, workers, workers == 1 ? "" : "s", spec->target, workers);
	return 0;
}

/* The program's name, if the kernel tells it to us: "" otherwise. */
static void name_program(uint32_t id, char name[BPF_OBJ_NAME_LEN])
{
	struct bpf_prog_info info = {0};
	union bpf_attr a = {.prog_id = id};
	const int fd = (int)syscall(SYS_bpf, BPF_PROG_GET_FD_BY_ID, &a, sizeof(a));

	*name = 0;
	if (fd < 0)
		return;
	memset(&a, 0, sizeof(a));
	a.info.bpf_fd = (uint32_t)fd;
	a.info.info_len = sizeof(info);
	a.info.info = (uintptr_t)&info;
	if (!syscall(SYS_bpf, BPF_OBJ_GET_INFO_BY_FD, &a, sizeof(a)))
		memcpy(name, info.name, BPF_OBJ_NAME_LEN - 1);
	name[BPF_OBJ_NAME_LEN - 1] = 0;
	close(fd);
}

/* Is the queue another socket's? Asked before the driver does: failing, it would take away the other's program. */
static bool queue_taken(unsigned interface, uint32_t queue)
{
	const int s = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0), slots = 64;
	const size_t bytes = 2 * (size_t)sysconf(_SC_PAGESIZE);
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct xdp_umem_reg umem = {.addr = (uintptr_t)memory, .len = bytes, .chunk_size = 2048};
	const struct sockaddr_xdp at = {
		.sxdp_family = AF_XDP, .sxdp_flags = XDP_ZEROCOPY, .sxdp_ifindex = interface, .sxdp_queue_id = queue};
	bool taken = false, bound = false;

	if (s >= 0 && memory != MAP_FAILED && !setsockopt(s, SOL_XDP, XDP_UMEM_REG, &umem, sizeof(umem)) &&
	    !setsockopt(s, SOL_XDP, XDP_UMEM_FILL_RING, &slots, sizeof(slots)) &&
	    !setsockopt(s, SOL_XDP, XDP_UMEM_COMPLETION_RING, &slots, sizeof(slots)) &&
	    !setsockopt(s, SOL_XDP, XDP_RX_RING, &slots, sizeof(slots))) {
		bound = !bind(s, (const struct sockaddr *)&at, sizeof(at));
		taken = !bound && errno == EBUSY;
	}
	if (s >= 0)
		close(s);
	if (bound)
		usleep(RELEASE);
	if (memory != MAP_FAILED)
		munmap(memory, bytes);
	return taken;
}

/* One of libxdp's that a killed NIC has left is used, and taken away at the end. */
static int check_program(const struct sp_vdev_spec *spec, const struct sp_vdev_wants *w, struct sp_error *error)
{
	struct sp_kernel_interface i;
	char name[BPF_OBJ_NAME_LEN];
	uint32_t id;

	if (sp_kernel_interface(spec->target, &i) || sp_netlink_xdp(i.index, &id) || !id)
		return 0;
	name_program(id, name);
	for (uint32_t q = first_queue(spec), end = q + w->queues; q < end; q++)
		if (queue_taken(i.index, q))
			return sp_error_set(error, EBUSY, "port", "af_xdp:%s: another process has its queue %u",
					    spec->target, q);
	if (!has(spec, "xdp_prog") && (!*name || !strcmp(name, DRIVERS_PROGRAM)))
		return 0;
	return sp_error_set(error, EBUSY, "port",
			    "af_xdp:%s: the interface has an XDP program (%s): sudo ip link set dev %s xdp off",
			    spec->target, *name ? name : "its name is root's to read", spec->target);
}

static int check_rights(const struct sp_vdev_spec *spec, const struct sp_vdev_wants *w, struct sp_error *error)
{
	const uint64_t bytes = locked_bytes(w);
	struct rlimit limit;
	char names[80], setcap[240];

	/* libxdp finds the maps of its own program by their numbers, which CAP_SYS_ADMIN alone may do. */
	const bool own = has(spec, "xdp_prog"),
		   loads = sp_kernel_capable(CAP_SYS_ADMIN) || (own && sp_kernel_capable(CAP_BPF));

	if (!sp_kernel_capable(CAP_NET_RAW) || !sp_kernel_capable(CAP_NET_ADMIN) || !loads) {
		snprintf(names, sizeof(names), "cap_net_raw,cap_net_admin,%s,cap_ipc_lock",
			 own ? "cap_bpf" : "cap_sys_admin");
		return sp_error_set(error, EPERM, "port",
				    "af_xdp:%s needs CAP_NET_RAW, CAP_NET_ADMIN and %s: run as root, or %s",
				    spec->target, own ? "CAP_BPF" : "CAP_SYS_ADMIN (CAP_BPF with xdp_prog)",
				    sp_kernel_setcap(names, setcap, sizeof(setcap)));
	}
	if (!sp_kernel_capable(CAP_IPC_LOCK) && !getrlimit(RLIMIT_MEMLOCK, &limit) && limit.rlim_cur < bytes)
		return sp_error_set(error, ENOMEM, "port",
				    "af_xdp:%s: %llu KiB of memory may be locked, and its buffers take %llu: ulimit -l "
				    "unlimited (LimitMEMLOCK=infinity), or CAP_IPC_LOCK",
				    spec->target, (unsigned long long)limit.rlim_cur >> 10,
				    (unsigned long long)bytes >> 10);
	return 0;
}

static int check_kernel(const struct sp_vdev_spec *spec, struct sp_error *error)
{
	const int s = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (s < 0)
		return sp_error_set(error, errno, "port", "af_xdp:%s: this kernel has no AF_XDP sockets (%s)",
				    spec->target, strerror(errno));
	close(s);
	return 0;
}

int sp_xdp_check(const struct sp_vdev_spec *spec, const struct sp_vdev_wants *w, struct sp_error *error)
{
	const uint32_t most = sp_xdp_largest_mtu();
	int r;

	if (w->mtu > most)
		return sp_error_set(error, ENOTSUP, "mtu",
				    "port af_xdp:%s: MTU %u is beyond what AF_XDP can do (at most %u: a frame and its "
				    "buffer share one page); af_packet:%s carries more",
				    spec->target, w->mtu, most, spec->target);
	r = sp_vdev_check_interface(spec->target, error);
	if (!r)
		r = check_queues(spec, w->queues, error);
	if (!r)
		r = check_rights(spec, w, error);
	if (!r)
		r = check_kernel(spec, error);
	return r ? r : check_program(spec, w, error);
}
