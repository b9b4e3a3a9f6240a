/* SPDX-License-Identifier: BSD-3-Clause */
#include "fence.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <mntent.h>
#include <pwd.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../pipeline/plugin/plugin.h"
#include "../../pipeline/process.h"
#include "../output.h"
#include "calls.h"
#include "landlock.h"

#define fail(...) command_fail("run", __VA_ARGS__)
#define ENTRY	  65536 /* bytes of a user's entry */

/* ---- who the process will be ---- */

static void add_group(struct privileges *p, gid_t group)
{
	for (unsigned i = 0; i < p->group_count; i++)
		if (p->groups[i] == group)
			return;
	if (p->group_count < PRIVILEGES_GROUPS)
		p->groups[p->group_count++] = group;
}

static int become(struct fence *f, const char *file)
{
	struct privileges *p = &f->wanted;
	struct passwd user, *found = NULL;
	char *entry = malloc(ENTRY);
	int groups = PRIVILEGES_GROUPS - 1;

	if (!entry)
		return fail("out of memory");
	getpwuid_r((uid_t)f->config.user, &user, entry, ENTRY, &found);
	p->become = p->regroup = true;
	p->user = (uid_t)f->config.user;
	p->group = f->config.group >= 0 ? (gid_t)f->config.group : found ? found->pw_gid : 0;
	if (found && getgrouplist(found->pw_name, p->group, p->groups, &groups) >= 0)
		p->group_count = (unsigned)groups;
	free(entry);
	if (!found && f->config.group < 0)
		return fail("%s: user = %s: no entry says which group this user has: add group = GROUP", file,
			    f->config.user_name);
	return 0;
}

/* One's own groups, for setgroups(). */
static void keep_groups(struct privileges *p)
{
	const int n = getgroups(PRIVILEGES_GROUPS - 1, p->groups);

	p->group_count = n > 0 ? (unsigned)n : 0;
}

int fence_user(struct fence *f, const char *file, const struct sp_server_config *server)
{
	const struct sp_run_config *c = &f->config;
	const bool root = geteuid() == 0;

	f->wanted.ruleset = -1;
	f->off |= c->no_sandbox;
	if (!root && ((c->user >= 0 && c->user != geteuid()) || (c->group >= 0 && c->group != getegid())))
		return fail("%s: user and group in [nic]: only root can become another user", file);
	if (root && c->user > 0) {
		const int status = become(f, file);

		if (status)
			return status;
	} else if (root && c->group >= 0) {
		f->wanted.become = f->wanted.regroup = true;
		f->wanted.user = 0;
		f->wanted.group = (gid_t)c->group;
	} else {
		keep_groups(&f->wanted);
	}
	/* The socket gets its group without CAP_CHOWN from an owner who is in that group. */
	const unsigned had = f->wanted.group_count;
	if (root && server->group >= 0 && server->group != (f->wanted.become ? f->wanted.group : getegid()))
		add_group(&f->wanted, (gid_t)server->group);
	f->wanted.regroup |= f->wanted.group_count != had;
	return 0;
}

static bool changes_user(const struct fence *f)
{
	return f->wanted.become && f->wanted.user != geteuid();
}

/* ---- the socket's directory ---- */

static int give_directory(const struct fence *f, const char *path)
{
	struct stat st;
	int fd, r = 0;

	if (mkdir(path, 0755) && errno != EEXIST)
		return fail("%s: %s", path, strerror(errno));
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		r = fail("%s: %s", path, strerror(errno));
	else if (st.st_uid && st.st_uid != f->wanted.user)
		r = fail("%s belongs to user %u, neither to root nor to the NIC's user", path, (unsigned)st.st_uid);
	else if (st.st_mode & (S_IWGRP | S_IWOTH))
		r = fail("others may write to %s: chmod go-w", path);
	else if (fchown(fd, f->wanted.user, f->wanted.group) || fchmod(fd, 0755)) /* whatever the umask */
		r = fail("%s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return r;
}

int fence_socket(struct fence *f, const char *nic, bool named, char *path, size_t room)
{
	char directory[PATH_MAX], *slash;

	if (!changes_user(f))
		return 0;
	snprintf(directory, sizeof(directory), "%s", path);
	slash = strrchr(directory, '/');
	if (!slash)
		return 0;
	*slash = 0;
	if (named || secure_getenv("SPINDLE_SOCKETS")) {
		struct stat st;

		if (stat(directory, &st))
			return fail("%s: %s", directory, strerror(errno));
		if (st.st_uid != f->wanted.user)
			return fail("%s belongs to user %u: user = %s could not remove the socket in it (chown it, or "
				    "leave out socket)",
				    directory, (unsigned)st.st_uid, f->config.user_name);
		return 0;
	}
	/* Root's directory has one for each NIC that is another user's: programs look there as well. */
	if (mkdir(directory, 0755) && errno != EEXIST)
		return fail("%s: %s", directory, strerror(errno));
	snprintf(slash, sizeof(directory) - (size_t)(slash - directory), "/%s", nic);
	if ((size_t)snprintf(path, room, "%s/%s.sock", directory, nic) >= room)
		return fail("%s: %s", directory, strerror(ENAMETOOLONG));
	return give_directory(f, directory);
}

int fence_as_user(const struct fence *f, int (*take)(void *arg), void *arg)
{
	const gid_t group = getegid();
	int r;

	if (!changes_user(f))
		return take(arg);
	if (setegid(f->wanted.group) || seteuid(f->wanted.user))
		return fail("user = %s: %s", f->config.user_name, strerror(errno));
	r = take(arg);
	if (seteuid(0) || setegid(group))
		return fail("root is gone: %s", strerror(errno));
	return r;
}

/* ---- what ports need ---- */

/* What drivers need once their device is open. All in DPDK 22.11; what is not here is a real device's driver. */
static const struct {
	const char *name;
	uint64_t keep;
} drivers[] = {
	{"net_af_packet", 0},	/* sockets and their rings are open; promiscuous mode is the socket's */
	{"net_tap", 0},		/* the interface goes with its descriptor */
	{"net_virtio_user", 0}, /* a Unix socket; connecting again is one's own right */
	{"net_virtio", 0},
	{"net_vhost", 0},
	{"net_ring", 0},
	{"net_pcap", 0} /* also on an interface */,
	{"net_null", 0},
	/* The program on the interface is taken away at the end. */
	{"net_af_xdp", UINT64_C(1) << CAP_NET_RAW | UINT64_C(1) << CAP_NET_ADMIN},
};

static void look_at_ports(struct fence *f)
{
	struct rte_eth_dev_info info;
	uint16_t port;
	size_t i;

	RTE_ETH_FOREACH_DEV(port)
	{
		if (rte_eth_dev_info_get(port, &info) || !info.driver_name)
			continue;
		for (i = 0; i < RTE_DIM(drivers) && strcmp(drivers[i].name, info.driver_name); i++)
			;
		f->devices |= i == RTE_DIM(drivers) || drivers[i].keep;
		/* mlx5 asks for it when it makes queues and flows, which it does at run time, too */
		f->wanted.keep |= i == RTE_DIM(drivers) ? UINT64_C(1) << CAP_NET_RAW : drivers[i].keep;
	}
	/* Regions are mapped for such devices as they come: without CAP_IPC_LOCK the limit must not be in the way. */
	if (f->devices)
		setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY});
}

/* ---- files ---- */

struct rules {
	int fd, failed; /* failed: -errno of the first */
};

static void allow(struct rules *r, const char *path, enum landlock_access access)
{
	const int result = *path ? landlock_allow(r->fd, path, access) : 0;

	if (!r->failed)
		r->failed = result;
}

/* The directory that the file is in. */
static void allow_around(struct rules *r, const char *path, size_t len, enum landlock_access access)
{
	char directory[PATH_MAX], *slash;

	snprintf(directory, sizeof(directory), "%.*s", (int)len, path);
	slash = strrchr(directory, '/');
	if (slash)
		slash[slash == directory] = 0;
	allow(r, slash ? directory : ".", access);
}

/* Sockets and captures of ports, which drivers make and remove: each path in the words of a device. */
static void allow_device(struct rules *r, const char *words)
{
	for (const char *s = words; s && *s; s += *s ? strcspn(s, ",") : 0) {
		const char *value = s + strcspn(s, ":=,");

		s += *s == ',';
		if (*value && *value != ',')
			value++;
		const size_t len = strcspn(value, ",");
		if (memchr(value, '/', len) || !strncmp(words, "vhost:", 6) || !strncmp(words, "virtio-user:", 12))
			allow_around(r, value, len, LANDLOCK_WRITE);
		s += strcspn(s, ",");
	}
}

static void allow_memory(struct rules *r)
{
	FILE *f = setmntent("/proc/self/mounts", "re");

	for (struct mntent *m; f && (m = getmntent(f));)
		if (!strcmp(m->mnt_type, "hugetlbfs")) /* EAL's memory grows there */
			allow(r, m->mnt_dir, LANDLOCK_WRITE);
	if (f)
		endmntent(f);
}

/* A plug-in is read where the configuration names one, and where plugin-directory says. */
static void allow_plugins(struct rules *r, const struct fence *f, const struct sp_config *config)
{
	char path[PATH_MAX], real[PATH_MAX];

	for (size_t i = 0; i < config->sections; i++)
		for (size_t k = 0; !strcmp(config->section[i].kind, "nic") && k < config->section[i].keys; k++) {
			const struct sp_config_key *key = &config->section[i].key[k];

			if (strcmp(key->name, "plugin") || sp_config_beside(config, key->value, path, sizeof(path)))
				continue;
			allow_around(r, path, strlen(path), LANDLOCK_READ);
			if (realpath(path, real)) /* behind symbolic links */
				allow_around(r, real, strlen(real), LANDLOCK_READ);
		}
	for (unsigned i = 0; i < f->config.directories; i++)
		allow(r, f->config.directory[i], LANDLOCK_READ);
}

static int make_rules(const struct fence *f, const struct fence_paths *p)
{
	/* Libraries that plug-ins need, what libc asks, and what DPDK looks at; others' /proc is closed by landlock
	 * itself. */
	static const char *const reads[] = {
		"/usr/lib",	  "/usr/lib64",		 "/usr/local/lib", "/lib", "/lib64",	   "/etc/ld.so.cache",
		"/etc/localtime", "/usr/share/zoneinfo", "/proc",	   "/sys", "/dev/urandom", "/dev/random"};
	static const char *const writes[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/vfio", "/dev/infiniband"};
	struct rules r = {.fd = landlock_rules()};
	const char *temporary = secure_getenv("TMPDIR"), *libraries = secure_getenv("LD_LIBRARY_PATH");

	if (r.fd < 0)
		return r.fd;
	for (size_t i = 0; i < RTE_DIM(reads); i++)
		allow(&r, reads[i], LANDLOCK_READ);
	for (size_t i = 0; i < RTE_DIM(writes); i++)
		allow(&r, writes[i], LANDLOCK_WRITE);
	for (const char *s = libraries; s && *s; s += strcspn(s, ":"), s += *s == ':') {
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%.*s", (int)strcspn(s, ":"), s);
		allow(&r, path, LANDLOCK_READ);
	}
	allow_plugins(&r, f, p->config);
	allow(&r, temporary && *temporary ? temporary : "/tmp", LANDLOCK_WRITE); /* copies of plug-ins */
	allow_around(&r, p->socket, strlen(p->socket), LANDLOCK_WRITE);
	allow_around(&r, p->faults, strlen(p->faults), LANDLOCK_WRITE);
	/* EAL's own directory, which is removed from the one above at the end */
	allow_around(&r, rte_eal_get_runtime_dir(), strlen(rte_eal_get_runtime_dir()), LANDLOCK_WRITE);
	allow_memory(&r);
	for (unsigned i = 0; i < p->nic->ports; i++)
		allow_device(&r, p->nic->port[i].device);
	allow_device(&r, p->nic->exception.device);
	for (int i = 0; i < p->eals; i++)
		allow_device(&r, p->eal[i]);
	if (!r.failed)
		return r.fd;
	close(r.fd);
	return r.failed;
}

/* ---- the steps ---- */

static void give_runtime_directory(const struct fence *f)
{
	const int fd = open(rte_eal_get_runtime_dir(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	/* Without it, EAL's sockets would stay there for the next NIC of this name to replace. */
	if (fd >= 0 && fchown(fd, f->wanted.user, f->wanted.group))
		fail("%s: %s", rte_eal_get_runtime_dir(), strerror(errno));
	if (fd >= 0)
		close(fd);
}

int fence_rights(struct fence *f, const struct fence_paths *paths)
{
	char text[256];

	look_at_ports(f);
	if (changes_user(f))
		give_runtime_directory(f);
	if (f->off)
		fail("NO SANDBOX: neither files nor system calls are restricted; this is for debugging alone");
	else if (!calls_unfiltered_build)
		f->wanted.ruleset = make_rules(f, paths);
	if (!f->off && !calls_unfiltered_build && f->wanted.ruleset < 0) {
		fail("this kernel does not restrict files (landlock: %s): system calls alone are",
		     strerror(-f->wanted.ruleset));
		f->wanted.ruleset = -1;
	}
	if (privileges_give_up(&f->wanted, text, sizeof(text)))
		return fail("rights are not given up: %s", text);
	if (f->wanted.ruleset >= 0)
		close(f->wanted.ruleset);
	if (calls_unfiltered_build) /* LeakSanitizer looks at this process's threads with ptrace() at the end */
		prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	return 0;
}

int fence_calls(struct fence *f)
{
	const struct calls_wanted wanted = {.no_code = f->config.no_live_handlers, .devices = f->devices};
	static struct sock_fprog reaper; /* processes that the NIC forks install it: for good */
	int r;

	if (f->config.no_live_handlers)
		sp_plugins_shut("live-handlers = no in [nic]: no handler is loaded after the start");
	if (f->off || calls_unfiltered_build)
		return 0;
	r = calls_supported();
	if (!r)
		r = calls_program("reaper", &reaper);
	if (!r)
		r = calls_filter(&wanted);
	if (!r)
		sp_process_child_filter(&reaper);
	else /* some containers, and kernels without CONFIG_SECCOMP_FILTER */
		fail("this kernel does not filter system calls (seccomp: %s): see spindle doctor", strerror(-r));
	return 0;
}
