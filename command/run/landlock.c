/* SPDX-License-Identifier: BSD-3-Clause */
#include "landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's numbers, as headers may be older than the kernel that runs: linux/landlock.h. */
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule	    445
#endif
#define VERSION_FLAG 1u
#define PATH_BENEATH 1

#define WRITE_FILE  (UINT64_C(1) << 1)
#define READ_FILE   (UINT64_C(1) << 2)
#define READ_DIR    (UINT64_C(1) << 3)
#define REMOVE_DIR  (UINT64_C(1) << 4)
#define REMOVE_FILE (UINT64_C(1) << 5)
#define MAKE_DIR    (UINT64_C(1) << 7)
#define MAKE_REG    (UINT64_C(1) << 8)
#define MAKE_SOCK   (UINT64_C(1) << 9)
#define ALL_FIRST   ((UINT64_C(1) << 13) - 1) /* of version 1 */
#define REFER	    (UINT64_C(1) << 13)	      /* version 2 */
#define TRUNCATE    (UINT64_C(1) << 14)	      /* version 3 */
#define TCP_BIND    (UINT64_C(1) << 0)	      /* version 4 */
#define TCP_CONNECT (UINT64_C(1) << 1)

struct ruleset {
	uint64_t files, network;
};

struct beneath {
	uint64_t allowed;
	int32_t parent;
} __attribute__((packed));

static uint64_t handled(int version)
{
	return ALL_FIRST | (version >= 2 ? REFER : 0) | (version >= 3 ? TRUNCATE : 0);
}

int landlock_version(void)
{
	const long version = syscall(SYS_landlock_create_ruleset, NULL, 0, VERSION_FLAG);

	return version < 0 ? -errno : (int)version;
}

int landlock_rules(void)
{
	const int version = landlock_version();
	struct ruleset set = {.files = handled(version), .network = TCP_BIND | TCP_CONNECT};

	if (version <= 0)
		return version ? version : -EOPNOTSUPP;
	const long fd = syscall(SYS_landlock_create_ruleset, &set, version >= 4 ? sizeof(set) : sizeof(set.files), 0);
	return fd < 0 ? -errno : (int)fd;
}

int landlock_allow(int rules, const char *path, enum landlock_access access)
{
	struct beneath rule = {.allowed = READ_FILE | READ_DIR, .parent = open(path, O_PATH | O_CLOEXEC)};
	struct stat st;
	int r = 0;

	if (rule.parent < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
	if (access == LANDLOCK_WRITE)
		rule.allowed |= WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SOCK | TRUNCATE;
	if (fstat(rule.parent, &st) || !S_ISDIR(st.st_mode))
		rule.allowed &= WRITE_FILE | READ_FILE | TRUNCATE;
	rule.allowed &= handled(landlock_version());
	if (syscall(SYS_landlock_add_rule, rules, PATH_BENEATH, &rule, 0))
		r = -errno;
	close(rule.parent);
	return r;
}
