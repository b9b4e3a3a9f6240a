/* SPDX-License-Identifier: BSD-3-Clause */
#include "plugin.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define PREFIX	     "spindle-plugins-"
#define NAME_BYTES   100 /* bytes of the file's name that the copy's name keeps */
#define PIECE	     65536
#define SETTLED	     20 /* ms without a change */
#define SETTLE_TRIES 25

static char directory[PATH_MAX]; /* "": there is none */
static int directory_fd = -1;	 /* holds a shared lock, which keeps other processes from removing the directory */
static pid_t owner;		 /* the process that made it; a forked child must not remove it */
static unsigned copies, serial;

/* ---- the directory ------------------------------------------------------------------------------ */
/* Removes the directory and its files. */
static void sweep(int parent, int fd, const char *name)
{
	DIR *dir = fdopendir(dup(fd));

	for (struct dirent *e; dir && (e = readdir(dir));)
		if (*e->d_name != '.')
			unlinkat(fd, e->d_name, 0);
	if (dir)
		closedir(dir);
	unlinkat(parent, name, AT_REMOVEDIR);
}

/* Removes directories of killed processes. The lock shows if the owner lives; its pid may have been reused, or belong
 * to another pid namespace. */
static void sweep_leftovers(const char *tmp)
{
	DIR *dir = opendir(tmp);
	struct stat st;

	for (struct dirent *e; dir && (e = readdir(dir));) {
		if (strncmp(e->d_name, PREFIX, sizeof(PREFIX) - 1))
			continue;
		int fd = openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (!fstat(fd, &st) && st.st_uid == geteuid() && (st.st_mode & 07777) == 0700 &&
		    !flock(fd, LOCK_EX | LOCK_NB))
			sweep(dirfd(dir), fd, e->d_name);
		close(fd);
	}
	if (dir)
		closedir(dir);
}

static void leave(void)
{
	if (*directory && owner == getpid())
		sweep(AT_FDCWD, directory_fd, directory);
}

/* Another process may take the directory for a leftover before the lock is held, and remove it: then try again. */
static int make_locked(const char *tmp)
{
	struct stat st;

	for (unsigned tries = 0; tries < 10; tries++) {
		if (snprintf(directory, sizeof(directory), "%s/" PREFIX "%d-XXXXXX", tmp, (int)getpid()) >=
		    (int)sizeof(directory))
			return -ENAMETOOLONG;
		if (!mkdtemp(directory))
			return -errno;
		int fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0 && !flock(fd, LOCK_SH | LOCK_NB) && !fstat(fd, &st) && st.st_nlink) {
			directory_fd = fd;
			return 0;
		}
		if (fd >= 0)
			close(fd);
		rmdir(directory);
	}
	return -EBUSY;
}

static int directory_make(void)
{
	static bool registered;
	const char *from = secure_getenv("TMPDIR");
	char *tmp;
	int r;

	if (*directory && owner == getpid())
		return 0;
	if (directory_fd >= 0) /* the parent process's */
		close(directory_fd);
	directory_fd = -1;
	*directory = 0;
	copies = 0;
	if (!registered && atexit(leave))
		return -ENOMEM;
	registered = true;
	tmp = realpath(from && *from ? from : "/tmp", NULL);
	if (!tmp)
		return -errno;
	sweep_leftovers(tmp);
	r = make_locked(tmp);
	if (r)
		*directory = 0;
	owner = getpid();
	free(tmp);
	return r;
}

static void directory_end(void)
{
	sweep(AT_FDCWD, directory_fd, directory);
	close(directory_fd);
	directory_fd = -1;
	*directory = 0;
}

/* ---- copies ------------------------------------------------------------------------------------- */
static int copy_bytes(int from, int to, size_t size)
{
	char *piece = malloc(PIECE);
	ssize_t n = 0;
	size_t done = 0;
	int r = piece ? 0 : -ENOMEM;

	while (!r && (n = pread(from, piece, PIECE, (off_t)done))) {
		if (n < 0)
			r = errno == EINTR ? 0 : -errno;
		else if ((size_t)n > size - done)
			r = -EAGAIN;
		for (ssize_t used = 0, w; !r && used < n; used += w) {
			w = write(to, piece + used, (size_t)(n - used));
			if (w < 0)
				r = -errno;
		}
		done += n > 0 && !r ? (size_t)n : 0;
	}
	free(piece);
	return r ? r : done < size ? -EAGAIN : 0;
}

/* True if a process has the file open for writing: a read lease fails then. Only the file's owner and root may ask, and
 * not on all file systems; otherwise the time of the last change must do. If the file is opened before the unlock, the
 * kernel signals us: SIGURG is harmless, the default SIGIO would end the process. */
static bool is_written(int fd)
{
	if (fcntl(fd, F_SETSIG, SIGURG) || fcntl(fd, F_SETLEASE, F_RDLCK))
		return errno == EAGAIN;
	fcntl(fd, F_SETLEASE, F_UNLCK);
	return false;
}

/* Milliseconds since the last change; a time in the future counts as long ago. */
static int64_t age_of(const struct stat *st)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	const int64_t age =
		(int64_t)(now.tv_sec - st->st_mtim.tv_sec) * 1000 + (now.tv_nsec - st->st_mtim.tv_nsec) / 1000000;
	return age < 0 ? INT64_MAX : age;
}

/* File times have a resolution of some milliseconds: SETTLED is longer, so that a later change shows. */
int sp_plugin_copy_settle(int fd, struct stat *st)
{
	for (unsigned tries = 0; tries < SETTLE_TRIES; tries++) {
		const struct timespec pause = {.tv_nsec = SETTLED * 1000000};

		if (fstat(fd, st))
			return -errno;
		if (!is_written(fd) && age_of(st) >= SETTLED)
			return 0;
		nanosleep(&pause, NULL);
	}
	return -EAGAIN;
}

static int unchanged(int fd, const struct stat *st)
{
	struct stat now;

	if (fstat(fd, &now))
		return -errno;
	return now.st_size == st->st_size && now.st_mtim.tv_sec == st->st_mtim.tv_sec &&
			       now.st_mtim.tv_nsec == st->st_mtim.tv_nsec
		       ? 0
		       : -EAGAIN;
}

int sp_plugin_copy_make(int fd, const struct stat *st, const char *name, char **copy, const char **why)
{
	char path[PATH_MAX];
	int r = directory_make();

	*copy = NULL;
	*why = "a directory for copies cannot be made in $TMPDIR or /tmp";
	if (r)
		return r;
	*why = "it cannot be copied into $TMPDIR or /tmp";
	r = snprintf(path, sizeof(path), "%s/%u-%.*s", directory, ++serial, NAME_BYTES, name) < (int)sizeof(path)
		    ? 0
		    : -ENAMETOOLONG;
	int to = r ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (!r && to < 0)
		r = -errno;
	if (!r)
		r = copy_bytes(fd, to, (size_t)st->st_size);
	if (!r)
		r = unchanged(fd, st);
	if (to >= 0 && close(to) && !r)
		r = -errno;
	if (!r) {
		*copy = strdup(path);
		r = *copy ? 0 : -ENOMEM;
	}
	if (r && to >= 0)
		unlink(path);
	copies += !r;
	if (!copies)
		directory_end();
	return r;
}

void sp_plugin_copy_remove(char *copy)
{
	const size_t len = strlen(directory);

	/* A forked child leaves the parent's copies alone. */
	if (copy && len && owner == getpid() && !strncmp(copy, directory, len)) {
		unlink(copy);
		if (!--copies)
			directory_end();
	}
	free(copy);
}

bool sp_plugin_copy_same(const char *copy, int fd)
{
	char *a = malloc(2 * PIECE);
	int to = open(copy, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	off_t at = 0;
	ssize_t n = 0, m = -1;
	struct stat st;

	if (a && to >= 0 && !fstat(to, &st))
		do {
			n = pread(fd, a, PIECE, at);
			m = pread(to, a + PIECE, PIECE, at);
			at += n;
		} while (n > 0 && n == m && !memcmp(a, a + PIECE, (size_t)n));
	if (to >= 0)
		close(to);
	free(a);
	return n == 0 && m == 0;
}

/* ---- whole? ------------------------------------------------------------------------------------- */
#if __SIZEOF_POINTER__ == 8
typedef Elf64_Ehdr Header;
typedef Elf64_Phdr Segment;
typedef Elf64_Shdr Section;
typedef Elf64_Dyn Dynamic;
#else
typedef Elf32_Ehdr Header;
typedef Elf32_Phdr Segment;
typedef Elf32_Shdr Section;
typedef Elf32_Dyn Dynamic;
#endif

static const char *const cut_off = "is cut off: its headers name bytes behind its end";
static const char *const unwritten = "is not all written: what its headers name is not there";

static bool read_at(int fd, uint64_t at, void *to, size_t len)
{
	return at <= INT64_MAX && pread(fd, to, len, (off_t)at) == (ssize_t)len;
}

static bool ends_behind(uint64_t offset, uint64_t bytes, uint64_t size)
{
	return offset > size || bytes > size - offset;
}

/* dlopen() uses these tables without a check. */
static const char *dynamic_wrong(int fd, const Segment *s)
{
	bool strings = false, symbols = false;
	Dynamic d;

	for (uint64_t at = 0; at + sizeof(d) <= s->p_filesz; at += sizeof(d)) {
		if (!read_at(fd, s->p_offset + at, &d, sizeof(d)))
			return cut_off;
		if (d.d_tag == DT_NULL)
			break;
		strings |= d.d_tag == DT_STRTAB;
		symbols |= d.d_tag == DT_SYMTAB;
	}
	return strings && symbols ? NULL : unwritten;
}

static const char *segments_wrong(int fd, const Header *h, uint64_t size)
{
	const char *wrong = NULL;
	Segment s;

	for (unsigned i = 0; i < h->e_phnum && !wrong; i++) {
		if (ends_behind(h->e_phoff, (i + UINT64_C(1)) * sizeof(s), size) ||
		    !read_at(fd, h->e_phoff + i * sizeof(s), &s, sizeof(s)))
			return cut_off;
		if ((s.p_type == PT_LOAD || s.p_type == PT_DYNAMIC) && ends_behind(s.p_offset, s.p_filesz, size))
			return cut_off;
		if (s.p_type == PT_DYNAMIC)
			wrong = dynamic_wrong(fd, &s);
	}
	return wrong;
}

/* dlopen() ignores section headers, but linkers write them last: if they are there, the file is complete. */
static const char *sections_wrong(int fd, const Header *h, uint64_t size)
{
	Section s;

	for (unsigned i = 1; i < h->e_shnum; i++) {
		if (ends_behind(h->e_shoff, (i + UINT64_C(1)) * sizeof(s), size) ||
		    !read_at(fd, h->e_shoff + i * sizeof(s), &s, sizeof(s)))
			return cut_off;
		if (s.sh_type == SHT_NULL)
			return unwritten;
		if (s.sh_type != SHT_NOBITS && ends_behind(s.sh_offset, s.sh_size, size))
			return cut_off;
	}
	return NULL;
}

const char *sp_plugin_copy_wrong(const char *copy)
{
	int fd = open(copy, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	const char *wrong = NULL;
	struct stat st;
	Header h;

	if (fd >= 0 && !fstat(fd, &st) && read_at(fd, 0, &h, sizeof(h)) && !memcmp(h.e_ident, ELFMAG, SELFMAG) &&
	    h.e_phentsize == sizeof(Segment)) {
		wrong = segments_wrong(fd, &h, (uint64_t)st.st_size);
		if (!wrong && h.e_shentsize == sizeof(Section))
			wrong = sections_wrong(fd, &h, (uint64_t)st.st_size);
	}
	if (fd >= 0)
		close(fd);
	return wrong;
}
