/* SPDX-License-Identifier: BSD-3-Clause */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "words.h"

#define PARTS	   100		 /* names to try */
#define RESERVE	   (64ull << 20) /* bytes of room reserved at once */
#define NOTE_ALIGN 4096		 /* it lies within one page: it is written completely or not at all */
#define NOTE_MAGIC "SPINPART"

struct note { /* aligned, behind the data: the last bytes of the part, in the byte order of this machine */
	char magic[8];
	uint32_t version, zero;
	uint64_t size, stored;
	uint8_t digest[32]; /* SHA-256 of the first `stored` bytes */
	char name[256];
	uint8_t sum[32]; /* SHA-256 of the fields above */
};
#define NOTE_VERSION 1

static int fail(char why[300], const char *what, const char *name, int error)
{
	snprintf(why, 300, "%s%.200s: %s", what, name, strerror(error));
	talk_clean(why);
	return -1;
}

/* Finds directory and name of the file. */
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
	/* Only a regular file may be replaced, not a device. */
	if (!S_ISREG(st.st_mode)) {
		snprintf(why, 300, "%.200s is there and is no regular file", f->name);
		return -1;
	}
	return 0;
}

/* ---- a part that can be resumed ---- */
static uint64_t note_at(uint64_t size)
{
	return (size + NOTE_ALIGN - 1) / NOTE_ALIGN * NOTE_ALIGN;
}

static bool note_sum(const struct note *n, uint8_t sum[32])
{
	unsigned len;

	return EVP_Digest(n, offsetof(struct note, sum), sum, &len, EVP_sha256(), NULL) == 1 && len == 32;
}

int recv_file_note(struct recv_file *f, uint64_t stored, const uint8_t digest[32], char why[300])
{
	struct note n = {.magic = NOTE_MAGIC, .version = NOTE_VERSION, .size = f->size, .stored = stored};
	ssize_t written;

	if (!f->resume)
		return 0;
	memcpy(n.digest, digest, sizeof(n.digest));
	memcpy(n.name, f->name, sizeof(n.name));
	if (!note_sum(&n, n.sum))
		return fail(why, "", f->part, EIO);
	do
		written = pwrite(f->fd, &n, sizeof(n), (off_t)note_at(f->size));
	while (written < 0 && errno == EINTR);
	if (written != (ssize_t)sizeof(n))
		return fail(why, "writing ", f->part, written < 0 ? errno : ENOSPC);
	f->stored = stored;
	return 0;
}

/* Whether it is a part of that file with a valid note. Anybody may have put it there. */
static bool note_read(const struct recv_file *f, const struct stat *st, struct note *n)
{
	uint8_t sum[32];

	return st->st_size >= (off_t)sizeof(*n) &&
	       pread(f->fd, n, sizeof(*n), st->st_size - (off_t)sizeof(*n)) == (ssize_t)sizeof(*n) &&
	       !memcmp(n->magic, NOTE_MAGIC, sizeof(n->magic)) && n->version == NOTE_VERSION && note_sum(n, sum) &&
	       !memcmp(sum, n->sum, sizeof(sum)) && n->size <= INT64_MAX && n->stored <= n->size &&
	       note_at(n->size) == (uint64_t)st->st_size - sizeof(*n) && !strncmp(n->name, f->name, sizeof(n->name));
}

/* Opens f->part if it can be resumed and nobody is writing it. */
static bool adopt(struct recv_file *f)
{
	struct stat st, there;
	struct note n;

	f->fd = openat(f->dir, f->part, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (f->fd < 0)
		return false;
	/* The process that had the lock may have renamed it: then this is another file. */
	if (!flock(f->fd, LOCK_EX | LOCK_NB) && !fstat(f->fd, &st) && S_ISREG(st.st_mode) && st.st_nlink == 1 &&
	    st.st_uid == geteuid() && !fstatat(f->dir, f->part, &there, AT_SYMLINK_NOFOLLOW) &&
	    there.st_ino == st.st_ino && there.st_dev == st.st_dev && note_read(f, &st, &n)) {
		f->stored = n.stored;
		f->stale = n.size != f->size; /* the sender's file has changed since then */
		f->kept = f->stale ? 0 : n.stored;
		memcpy(f->digest, n.digest, sizeof(f->digest));
		return true;
	}
	close(f->fd);
	f->fd = -1;
	return false;
}

static int make(struct recv_file *f, char why[300])
{
	for (unsigned i = 0; i < PARTS; i++) {
		const int n = i ? snprintf(f->part, sizeof(f->part), "%s.part%u", f->name, i)
				: snprintf(f->part, sizeof(f->part), "%s.part", f->name);

		if (n >= (int)sizeof(f->part))
			return fail(why, "", f->name, ENAMETOOLONG);
		if (f->resume && adopt(f))
			return 0;
		f->fd = openat(f->dir, f->part, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
		if (f->fd >= 0) {
			/* Without a note nobody resumes it; but a process that inspects it may hold the lock. */
			if (!f->resume || !flock(f->fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK)
				return 0;
			unlinkat(f->dir, f->part, 0);
			close(f->fd);
			f->fd = -1;
			errno = EEXIST;
			continue;
		}
		if (errno != EEXIST)
			break;
	}
	return fail(why, "", f->part, errno);
}

/* A full disk is an error at the beginning. But a sender only says how much will come: it must not take the disk with a
 * word, so room is reserved as data comes, see recv_file_reach(). */
static int has_room(const struct recv_file *f, char why[300])
{
	struct statvfs v;

	if (fstatvfs(f->fd, &v) || !v.f_blocks) /* file systems that do not say report a full disk later */
		return 0;
	return f->size > (uint64_t)v.f_bavail * v.f_frsize ? fail(why, "writing ", f->name, ENOSPC) : 0;
}

int recv_file_reach(struct recv_file *f, uint64_t end)
{
	while (f->reserved < end) {
		const uint64_t left = f->size - f->reserved, more = left < RESERVE ? left : RESERVE;
		const int rc = fallocate(f->fd, FALLOC_FL_KEEP_SIZE, (off_t)f->reserved, (off_t)more);

		if (rc && errno == EINTR)
			continue;
		if (rc && errno != EOPNOTSUPP && errno != ENOSYS)
			return -errno;
		f->reserved += more;
	}
	return 0;
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

int recv_file_restart(struct recv_file *f, char why[300])
{
	static const uint8_t nothing[32];

	f->kept = f->stored = 0;
	f->stale = false;
	f->reserved = 0;
	if (ftruncate(f->fd, 0))
		return fail(why, "writing ", f->part, errno);
	return has_room(f, why) ? -1 : recv_file_note(f, 0, nothing, why);
}

int recv_file_open(struct recv_file *f, const char *target, const char *name, uint64_t size, bool resume, char why[300])
{
	*f = (struct recv_file){.dir = -1, .fd = -1, .resume = resume, .size = size};
	if (place(f, target, name, why) || vacant(f, why) || make(f, why)) {
		f->fd = -1;
		recv_file_drop(f);
		return -1;
	}
	if (f->stored || f->stale || !recv_file_restart(f, why))
		return 0;
	recv_file_drop(f);
	return -1;
}

int recv_file_keep(struct recv_file *f, char why[300])
{
	int rc = f->resume ? ftruncate(f->fd, (off_t)f->size) : 0; /* removes the note */

	rc = close(f->fd) ? -1 : rc;
	f->fd = -1;
	if (!rc && f->replace)
		rc = renameat(f->dir, f->part, f->dir, f->name);
	else if (!rc) {
		/* Keeps an existing file of that name. File systems without RENAME_NOREPLACE: link() does the same. */
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

uint64_t recv_file_part(struct recv_file *f)
{
	const uint64_t kept = f->resume ? f->stored : 0;

	if (kept) {
		close(f->fd);
		f->fd = -1;
	}
	recv_file_drop(f);
	return kept;
}

void recv_file_forget(struct recv_file *f)
{
	f->stored = 0;
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
