/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the files of devices are. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device.h"

#define FILES_MOST 256 /* of one folder; further ones are not looked at */

#ifndef SP_DEVICES_DIR
#define SP_DEVICES_DIR "../share/spindle/devices"
#endif

/* The folders of this program: as it was built, and as it was installed. false: there is no such place. */
static bool folder(unsigned which, char path[PATH_MAX])
{
	static const char *const places[] = {"devices", SP_DEVICES_DIR};
	const char *given = secure_getenv("SPINDLE_DEVICES");
	char self[PATH_MAX / 2], *slash;
	ssize_t len;

	if (given && *given) { /* in place of all others */
		snprintf(path, PATH_MAX, "%s", given);
		return which == 0;
	}
	if (which >= sizeof(places) / sizeof(*places))
		return false;
	len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[len > 0 ? len : 0] = 0;
	slash = strrchr(self, '/');
	if (slash)
		*slash = 0;
	if (*places[which] == '/')
		snprintf(path, PATH_MAX, "%s", places[which]);
	else
		snprintf(path, PATH_MAX, "%s/%s", self, places[which]);
	return true;
}

static bool is_ini(const char *name)
{
	const size_t len = strlen(name);

	return len > 4 && len < NAME_MAX && !strcmp(name + len - 4, ".ini");
}

static int order(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int each_in(const char *path, int (*fn)(void *arg, const char *path), void *arg, bool *any)
{
	char *name[FILES_MOST], file[PATH_MAX + NAME_MAX];
	struct dirent *entry;
	size_t n = 0;
	int err = 0;
	DIR *d = opendir(path);

	if (!d)
		return 0;
	while (n < FILES_MOST && (entry = readdir(d)))
		if (is_ini(entry->d_name) && (name[n] = strdup(entry->d_name)))
			n++;
	closedir(d);
	if (n)
		qsort(name, n, sizeof(*name), order);
	for (size_t i = 0; i < n; i++) {
		snprintf(file, sizeof(file), "%s/%s", path, name[i]);
		if (!err)
			err = fn(arg, file);
		free(name[i]);
	}
	*any = n > 0;
	return err;
}

int sp_device_each(int (*fn)(void *arg, const char *path), void *arg)
{
	char path[PATH_MAX];
	bool any = false;
	int err = 0;

	for (unsigned i = 0; !any && folder(i, path); i++)
		err = each_in(path, fn, arg, &any);
	return err;
}

struct looking {
	const char *name;
	char path[PATH_MAX + NAME_MAX];
	char list[160];
};

static int look(void *arg, const char *path)
{
	struct looking *l = arg;
	const char *base = strrchr(path, '/') + 1;
	const size_t len = strlen(base) - 4, used = strlen(l->list);

	if (strlen(l->name) == len && !memcmp(l->name, base, len)) {
		snprintf(l->path, sizeof(l->path), "%s", path);
		return 1;
	}
	if (used + len + 3 < sizeof(l->list))
		snprintf(l->list + used, sizeof(l->list) - used, "%s%.*s", used ? ", " : "", (int)len, base);
	return 0;
}

int sp_device_find(const char *name, struct sp_device *device, struct sp_error *error)
{
	struct looking l = {.name = name};

	if (strchr(name, '/') || is_ini(name))
		return sp_device_read(name, device, error);
	if (sp_device_each(look, &l))
		return sp_device_read(l.path, device, error);
	*error = (struct sp_error){.key = "device"};
	if (*l.list)
		snprintf(error->text, sizeof(error->text),
			 "there is no device %.40s; there are %s, or the path of a file", name, l.list);
	else
		snprintf(error->text, sizeof(error->text),
			 "there is no device %.40s: no folder of devices was found (SPINDLE_DEVICES names one)", name);
	return -ENOENT;
}
