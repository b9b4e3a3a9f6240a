/* SPDX-License-Identifier: BSD-3-Clause */
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../output.h"

#define CLASS  "sys/class/infiniband"
#define UVERBS CLASS "_verbs/uverbs0"
#define TEXT   4096 /* bytes of a file at most */

/* A tree in the making: the first error ends it. */
struct tree {
	int fd;		 /* its root */
	char device[96]; /* CLASS/NAME */
	int error;	 /* -errno, of: */
	char what[256];
};

static void wrong(struct tree *t, const char *path)
{
	if (t->error)
		return;
	t->error = -errno;
	snprintf(t->what, sizeof(t->what), "%s", path);
}

/* All directories above path. */
static void make_above(struct tree *t, const char *path)
{
	char part[256];

	for (const char *slash = strchr(path, '/'); slash && !t->error; slash = strchr(slash + 1, '/')) {
		snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		if (mkdirat(t->fd, part, 0755) && errno != EEXIST)
			wrong(t, part);
	}
}

static void beside(char *to, size_t room, const char *path)
{
	snprintf(to, room, "%s.%d", path, (int)getpid());
}

/* Whether the file has this text already: then it is left alone. */
static bool has(const struct tree *t, const char *path, const char *text)
{
	char old[TEXT];
	const int fd = openat(t->fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	const ssize_t got = fd < 0 ? -1 : read(fd, old, sizeof(old));

	if (fd >= 0)
		close(fd);
	return got >= 0 && (size_t)got == strlen(text) && !memcmp(old, text, (size_t)got);
}

static void file(struct tree *t, const char *path, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void file(struct tree *t, const char *path, const char *format, ...)
{
	char text[TEXT], made[300];
	va_list arguments;
	int len, fd;

	va_start(arguments, format);
	len = vsnprintf(text, sizeof(text) - 1, format, arguments);
	va_end(arguments);
	strcpy(text + len, "\n");
	make_above(t, path);
	if (t->error || has(t, path, text))
		return;
	beside(made, sizeof(made), path);
	fd = openat(t->fd, made, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) || renameat(t->fd, made, t->fd, path))
		wrong(t, path);
	if (fd >= 0)
		close(fd);
}

/* `to` NULL: there is to be none. */
static void leads(struct tree *t, const char *path, const char *to)
{
	char old[PATH_MAX], made[300];
	const ssize_t len = readlinkat(t->fd, path, old, sizeof(old));

	if (!to) {
		if (unlinkat(t->fd, path, 0) && errno != ENOENT)
			wrong(t, path);
		return;
	}
	make_above(t, path);
	if (t->error || (len >= 0 && (size_t)len == strlen(to) && !memcmp(old, to, (size_t)len)))
		return;
	beside(made, sizeof(made), path);
	if (symlinkat(to, t->fd, made) || renameat(t->fd, made, t->fd, path))
		wrong(t, path);
}

/* The path of a file of the device. */
static const char *at(const struct tree *t, char path[200], const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static const char *at(const struct tree *t, char path[200], const char *format, ...)
{
	va_list arguments;
	const int len = snprintf(path, 200, "%s/", t->device);

	va_start(arguments, format);
	vsnprintf(path + len, 200 - (size_t)len, format, arguments);
	va_end(arguments);
	return path;
}

/* ---- what is in it ---- */

/* A bit for each processor, as the kernel writes masks: words of 32 bits, the highest first. */
static void processors(char *text, size_t room, long count)
{
	size_t len = 0;

	for (long word = (count - 1) / 32; word >= 0 && len + 16 < room; word--) {
		const long bits = count - 32 * word < 32 ? count - 32 * word : 32;

		len += (size_t)snprintf(text + len, room - len, "%08x%s", (unsigned)((1ull << bits) - 1),
					word ? "," : "");
	}
}

/* The device that the class entries lead to. There is none, so all processors are as near to it. */
static void make_device(struct tree *t, const char *name)
{
	const long count = sysconf(_SC_NPROCESSORS_CONF);
	char path[200], mask[1024];

	processors(mask, sizeof(mask), count > 0 ? count : 1);
	file(t, at(t, path, "device/numa_node"), "-1");
	file(t, at(t, path, "device/local_cpus"), "%s", mask);
	file(t, at(t, path, "device/local_cpulist"), "0-%ld", count > 0 ? count - 1 : 0);
	file(t, at(t, path, "device/vendor"), "0x0000");
	file(t, at(t, path, "device/device"), "0x0000");
	file(t, at(t, path, "device/uevent"), "DRIVER=spindle");
	file(t, at(t, path, "device/infiniband/%s/name", name), "%s", name);
	file(t, at(t, path, "device/infiniband_verbs/uverbs0/ibdev"), "%s", name);
}

static void make_numbers(struct tree *t, const char *name, const uint8_t guid[8])
{
	char path[200], text[32];

	snprintf(text, sizeof(text), "%02x%02x:%02x%02x:%02x%02x:%02x%02x", guid[0], guid[1], guid[2], guid[3], guid[4],
		 guid[5], guid[6], guid[7]);
	file(t, at(t, path, "node_guid"), "%s", text);
	file(t, at(t, path, "sys_image_guid"), "%s", text);
	file(t, at(t, path, "node_type"), "1: CA");
	file(t, at(t, path, "node_desc"), "%s", name);
	file(t, at(t, path, "fw_ver"), "%s", SP_VERSION);
	file(t, at(t, path, "hca_type"), "Spindle");
	file(t, at(t, path, "hw_rev"), "0x1");
	file(t, at(t, path, "board_id"), "Spindle");
}

static void make_port(struct tree *t)
{
	static const struct {
		const char *name, *text;
	} files[] = {
		{"state", "4: ACTIVE"},
		{"phys_state", "5: LinkUp"},
		{"link_layer", "Ethernet"},
		{"rate", "100 Gb/sec (4X EDR)"},
		{"lid", "0x0"},
		{"lid_mask_count", "0"},
		{"sm_lid", "0x0"},
		{"sm_sl", "0"},
		{"cap_mask", "0x04010000"},
		{"pkeys/0", "0xffff"},
		{"has_smi", "0"},
		{"counters/link_downed", "0"},
	};
	char path[200];

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		file(t, at(t, path, "ports/1/%s", files[i].name), "%s", files[i].text);
}

/* The interface that has this address as well; NULL: none. */
static const char *interface_of(const struct ifaddrs *list, const uint8_t gid[16], bool four)
{
	for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
		const struct sockaddr *a = i->ifa_addr;

		if (a && four && a->sa_family == AF_INET &&
		    !memcmp(&((const struct sockaddr_in *)(const void *)a)->sin_addr, gid + 12, 4))
			return i->ifa_name;
		if (a && !four && a->sa_family == AF_INET6 &&
		    !memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, gid, 16))
			return i->ifa_name;
	}
	return NULL;
}

static void make_gids(struct tree *t, const struct shim_identity *id)
{
	char path[200], to[64], text[48];
	struct ifaddrs *list = NULL;
	const char *any = NULL;

	if (getifaddrs(&list))
		list = NULL;
	for (unsigned i = 0; i < SHIM_GIDS; i++) {
		const char *name = interface_of(list, id->gid[i], id->four[i]);
		size_t len = 0;

		for (unsigned k = 0; k < 16; k += 2)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%02x%02x", k ? ":" : "",
						id->gid[i][k], id->gid[i][k + 1]);
		file(t, at(t, path, "ports/1/gids/%u", i), "%s", text);
		file(t, at(t, path, "ports/1/gid_attrs/types/%u", i), "RoCE v2");
		make_above(t, at(t, path, "ports/1/gid_attrs/ndevs/"));
		/* Without an interface the kernel has the file, and reading it fails. */
		if (name)
			file(t, at(t, path, "ports/1/gid_attrs/ndevs/%u", i), "%s", name);
		else
			leads(t, at(t, path, "ports/1/gid_attrs/ndevs/%u", i), NULL);
		any = any ? any : name;
	}
	make_above(t, at(t, path, "device/net/"));
	if (any) {
		snprintf(to, sizeof(to), "/sys/class/net/%s", any);
		leads(t, at(t, path, "device/net/%s", any), to);
	}
	freeifaddrs(list);
}

static void make_classes(struct tree *t, const char *name)
{
	char to[160];

	file(t, CLASS "_verbs/abi_version", "6");
	file(t, UVERBS "/abi_version", "1");
	file(t, UVERBS "/ibdev", "%s", name);
	file(t, UVERBS "/dev", "231:192");
	snprintf(to, sizeof(to), "../../infiniband/%s/device", name);
	leads(t, UVERBS "/device", to);
	/* A character device, which may be opened, is all that programs want to see. */
	leads(t, "dev/infiniband/uverbs0", "/dev/null");
	leads(t, "dev/infiniband/rdma_cm", "/dev/null");
}

/* ---- where it is ---- */

/* One of the user's own, which nobody else may write to. */
static int directory(const char *path)
{
	struct stat st;

	if (mkdir(path, 0700) && errno != EEXIST)
		return command_fail("verbs", "%s: %s", path, strerror(errno));
	if (lstat(path, &st))
		return command_fail("verbs", "%s: %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & (S_IWGRP | S_IWOTH))
		return command_fail("verbs", "%s is not a directory of this user alone", path);
	return 0;
}

/* NICs of one name may have sockets in several directories. */
static int place(const struct verbs_nic *nic, char path[PATH_MAX])
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char base[PATH_MAX / 4];
	uint32_t hash = 0x811C9DC5; /* FNV-1a */

	if (runtime && *runtime == '/' && strlen(runtime) < 200 && !access(runtime, W_OK))
		snprintf(base, sizeof(base), "%s/spindle", runtime);
	else
		snprintf(base, sizeof(base), "/tmp/spindle-%u", (unsigned)geteuid());
	if (directory(base))
		return 1;
	strcat(base, "/verbs");
	if (directory(base))
		return 1;
	for (const char *c = nic->socket; *c; c++)
		hash = (hash ^ (uint8_t)*c) * 0x01000193;
	snprintf(path, PATH_MAX, "%s/%s-%08x", base, nic->name, hash);
	return directory(path);
}

int verbs_tree(const struct verbs_nic *nic, const struct shim_identity *id, char path[PATH_MAX])
{
	struct tree t = {.fd = -1};

	if (place(nic, path))
		return 1;
	snprintf(t.device, sizeof(t.device), CLASS "/%s", nic->name);
	t.fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (t.fd < 0)
		return command_fail("verbs", "%s: %s", path, strerror(errno));
	make_device(&t, nic->name);
	make_numbers(&t, nic->name, id->guid);
	make_port(&t);
	make_gids(&t, id);
	make_classes(&t, nic->name);
	close(t.fd);
	return t.error ? command_fail("verbs", "%s/%s: %s", path, t.what, strerror(-t.error)) : 0;
}
