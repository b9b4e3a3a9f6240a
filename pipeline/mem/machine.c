/* SPDX-License-Identifier: BSD-3-Clause */
#include "machine.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A missing file, "max" or other text: no limit. */
static uint64_t limit_in(const char *path)
{
	FILE *f = fopen(path, "re");
	uint64_t bytes;

	if (!f)
		return UINT64_MAX;
	if (fscanf(f, "%" SCNu64, &bytes) != 1 || !bytes)
		bytes = UINT64_MAX;
	fclose(f);
	return bytes;
}

/* The lowest limit of a group and its parents. In a container the path may be the host's and missing here: then the
 * walk up ends at the container's own group. */
static uint64_t limit_of(const char *mount, char *group, const char *file)
{
	uint64_t least = UINT64_MAX;

	for (;;) {
		char path[PATH_MAX];
		char *last = strrchr(group, '/');
		uint64_t bytes = UINT64_MAX;

		if (snprintf(path, sizeof(path), "%s%s/%s", mount, group, file) < (int)sizeof(path))
			bytes = limit_in(path);
		least = bytes < least ? bytes : least;
		if (!*group)
			return least;
		*(last ? last : group) = 0;
	}
}

/* A line is NUMBER:CONTROLLERS:/GROUP; version 2 (one tree) names no controllers. */
static uint64_t limit_by(const char *root, char *line)
{
	char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
	char mount[PATH_MAX];
	const char *file;

	if (!group)
		return UINT64_MAX;
	*group++ = 0;
	names++;
	group[strcspn(group, "\n")] = 0;
	if (!*names) {
		snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup", root);
		file = "memory.max";
	} else if (!strcmp(names, "memory")) {
		snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup/memory", root);
		file = "memory.limit_in_bytes";
	} else {
		return UINT64_MAX;
	}
	return limit_of(mount, group, file);
}

uint64_t sp_machine_group_limit(const char *root)
{
	uint64_t least = UINT64_MAX;
	char path[PATH_MAX], line[PATH_MAX];
	FILE *f;

	snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		const uint64_t bytes = limit_by(root, line);

		least = bytes < least ? bytes : least;
	}
	if (f)
		fclose(f);
	return least;
}

uint64_t sp_machine_memory(void)
{
	const uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	const uint64_t group = sp_machine_group_limit("");

	return group < all ? group : all;
}
