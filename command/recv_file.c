/* SPDX-License-Identifier: BSD-3-Clause */
#include "recv_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transfer_talk.h"

#define PARTS 100 /* names tried */

static int fail(char why[300], const char *what, const char *name, int error)
{
	snprintf(why, 300, "%s%.200s: %s", what, name, strerror(error));
	talk_clean(why);
	return -1;
}

/* Where it shall be, and under which name. */
static int place(struct recv_file *f, const char *target, const char *name, char why[300])
{
	const char *slash = target ? strrchr(target, '/') : NULL;
	char folder[4096] = ".";
	struct stat st;

	if (!target || (!stat(target, &st) && S_ISDIR(st.st_mode))) {
		if (!talk_name_fine(name)) {
			snprintf(why, 300, "its name is none that is taken here: no '/', no '.' at the beginning");
			return -1;
		}
		snprintf(f->name, sizeof(f->name), "%s", name);
		snprintf(folder, sizeof(folder), "%s", target ? target : ".");
	} else {
		f->replace = true;
		if (slash &&
		    snprintf(folder, sizeof(folder), "%.*s", (int)(slash - target) + 1, target) >= (int)sizeof(folder))
			return fail(why, "", target, ENAMETOOLONG);
		if (snprintf(f->name, sizeof(f->name), "%s", slash ? slash + 1 : target) >= (int)sizeof(f->name))
			return fail(why, "", target, ENAMETOOLONG);
		if (!*f->name)
			return fail(why, "", target, stat(target, &st) ? errno : ENOTDIR);
	}
	f->dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return f->dir < 0 ? fail(why, "", folder, errno) : 0;
}

static int vacant(const struct recv_file *f, char why[300])
{
	struct stat st;

	if (fstatat(f->dir, f->name, &st, AT_SYMLINK_NOFOLLOW))
		return 0;
	if (!f->replace)
		return fail(why, "", f->name, EEXIST);
	/* What is no file (a device, say) must not be replaced by one. */
	if (!S_ISREG(st.st_mode)) {
		snprintf(why, 300, "%.200s is there and is no regular file", f->name);
		return -1;
	}
	return 0;
}

static int make(struct recv_file *f, char why[300])
{
	for (unsigned i = 0; i < PARTS; i++) {
		const int n = i ? snprintf(f->part, sizeof(f->part), "%s.part%u", f->name, i)
				: snprintf(f->part, sizeof(f->part), "%s.part", f->name);

		if (n >= (int)sizeof(f->part))
			return fail(why, "", f->name, ENAMETOOLONG);
		f->fd = openat(f->dir, f->part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
		if (f->fd >= 0)
			return 0;
		if (errno != EEXIST)
			break;
	}
	return fail(why, "", f->part, errno);
}

/* Room for all of it now, so that a full disk is told at the beginning. */
static int reserve(const struct recv_file *f, uint64_t size, char why[300])
{
	int rc;

	do
		rc = size ? fallocate(f->fd, 0, 0, (off_t)size) : 0;
	while (rc && errno == EINTR);
	if (!rc || errno == EOPNOTSUPP || errno == ENOSYS) /* file systems that cannot tell will in time */
		return 0;
	return fail(why, "writing ", f->name, errno);
}

int recv_file_check(const char *target, char why[300])
{
	struct recv_file f = {.dir = -1, .fd = -1};
	char folder[200];
	int rc = place(&f, target, "name", why);

	if (!rc && f.replace)
		rc = vacant(&f, why);
	snprintf(folder, sizeof(folder), "%.*s", f.replace && target ? (int)(strlen(target) - strlen(f.name)) : 199,
		 target ? target : ".");
	if (!rc && faccessat(f.dir, ".", W_OK | X_OK, AT_EACCESS))
		rc = fail(why, "no file can be made in ", *folder ? folder : ".", errno);
	recv_file_drop(&f);
	return rc;
}

int recv_file_open(struct recv_file *f, const char *target, const char *name, uint64_t size, char why[300])
{
	*f = (struct recv_file){.dir = -1, .fd = -1};
	if (place(f, target, name, why) || vacant(f, why) || make(f, why)) {
		f->fd = -1;
		recv_file_drop(f);
		return -1;
	}
	if (!reserve(f, size, why))
		return 0;
	recv_file_drop(f);
	return -1;
}

int recv_file_keep(struct recv_file *f, char why[300])
{
	int rc = close(f->fd);

	f->fd = -1;
	if (!rc && f->replace)
		rc = renameat(f->dir, f->part, f->dir, f->name);
	else if (!rc) {
		/* Somebody else's of that name stays. Where the file system cannot rename so, links say the same. */
		rc = renameat2(f->dir, f->part, f->dir, f->name, RENAME_NOREPLACE);
		if (rc && (errno == EINVAL || errno == ENOSYS)) {
			rc = linkat(f->dir, f->part, f->dir, f->name, 0);
			if (!rc)
				unlinkat(f->dir, f->part, 0);
		}
	}
	if (rc) {
		fail(why, "", f->name, errno);
		unlinkat(f->dir, f->part, 0);
	}
	close(f->dir);
	f->dir = -1;
	return rc ? -1 : 0;
}

void recv_file_drop(struct recv_file *f)
{
	if (f->fd >= 0) {
		unlinkat(f->dir, f->part, 0);
		close(f->fd);
	}
	if (f->dir >= 0)
		close(f->dir);
	f->fd = f->dir = -1;
}
