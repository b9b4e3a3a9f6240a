/* SPDX-License-Identifier: BSD-3-Clause */
#include "plugin.h"
#include "handler.h"
#include "nic.h"
#include "registry.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct sp_plugin {
	struct sp_plugin *next;
	char *file; /* as it was given */
	char *copy;
	dev_t dev;
	ino_t ino;
	void *object; /* dlopen()'s */
	unsigned loads;
};

/* Held while constructors run, which is why handler.c has another. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sp_plugin *plugins;	 /* under lock */
static _Thread_local const char *within; /* the file whose constructors or destructors run */

/* It must not end the process as if all were well. */
static void exited(void)
{
	if (!within)
		return;
	fflush(stdout);
	fprintf(stderr, "%s: calls exit() when it is loaded or unloaded\n", within);
	_exit(1);
}

/* "FILE: what"; of a long path the end is what tells. Always -err. */
static int __attribute__((format(printf, 4, 5)))
refuse(struct sp_error *error, const char *file, int err, const char *format, ...)
{
	const size_t len = strlen(file);
	char what[sizeof(error->text)];
	va_list list;

	va_start(list, format);
	vsnprintf(what, sizeof(what), format, list);
	va_end(list);
	return sp_error_set(error, err, "plugin", "%s%s: %s", len > 64 ? "..." : "", len > 64 ? file + len - 64 : file,
			    what);
}

/* A FIFO or a device would wait, or worse. */
static int open_regular(const char *file, struct stat *st, struct sp_error *error)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return refuse(error, file, errno, "%s", strerror(errno));
	int r = fstat(fd, st) ? refuse(error, file, errno, "%s", strerror(errno)) : 0;
	if (!r && S_ISDIR(st->st_mode))
		r = refuse(error, file, EISDIR, "is a directory");
	else if (!r && !S_ISREG(st->st_mode))
		r = refuse(error, file, EINVAL, "is no regular file");
	else if (!r && !st->st_size)
		r = refuse(error, file, EINVAL, "is empty");
	else if (!r && st->st_size > SP_PLUGIN_BYTES)
		r = refuse(error, file, EFBIG, "has more than %u MiB", SP_PLUGIN_BYTES >> 20);
	if (r) {
		close(fd);
		return r;
	}
	return fd;
}

static struct sp_plugin *loaded(const char *file, const struct stat *st, int fd)
{
	for (struct sp_plugin *p = plugins; p; p = p->next)
		if ((!strcmp(p->file, file) || (p->dev == st->st_dev && p->ino == st->st_ino)) &&
		    sp_plugin_copy_same(p->copy, fd))
			return p;
	return NULL;
}

/* What dlerror() says, without the copy's name, which nobody knows. */
static int refuse_object(const struct sp_plugin *p, struct sp_error *error)
{
	const char *said = dlerror();
	const size_t len = strlen(p->copy);

	if (!said)
		said = "dlopen fails";
	if (!strncmp(said, p->copy, len) && said[len] == ':')
		said += len + 1 + strspn(said + len + 1, " ");
	return refuse(error, p->file, EINVAL, "%s%s", said,
		      strstr(said, "failed to map segment") ? " (is $TMPDIR, or /tmp, mounted noexec?)" : "");
}

/* Destructors run under the lock as constructors do, and must not come back here either. */
static void object_close(const struct sp_plugin *p)
{
	struct sp_noted none = {.count = 0};

	sp_handlers_note(&none);
	within = p->file;
	dlclose(p->object);
	within = NULL;
	sp_handlers_note(NULL);
}

/* p has its copy. */
static int object_open(struct sp_plugin *p, struct sp_error *error)
{
	struct sp_noted noted = {.count = 0};
	struct sp_error why = {.key = ""};
	int r;

	if (!sp_plugin_copy_whole(p->copy))
		return refuse(error, p->file, EINVAL, "is cut off: its headers name bytes behind its end");
	sp_handlers_note(&noted);
	within = p->file;
	p->object = dlopen(p->copy, RTLD_NOW | RTLD_LOCAL);
	within = NULL;
	sp_handlers_note(NULL);
	if (!p->object)
		return refuse_object(p, error);
	r = sp_handlers_add(&noted, p, p->file, &why);
	if (r) {
		refuse(error, p->file, -r, "%s", why.text); /* it may name what goes now */
		object_close(p);
	}
	return r;
}

static int load(const char *file, struct sp_plugin **plugin, struct sp_error *error)
{
	static bool exits_seen; /* what is registered stays so */
	struct sp_plugin *p;
	struct stat st;
	const char *why, *slash = strrchr(file, '/');
	int fd = open_regular(file, &st, error), r;

	if (fd < 0)
		return fd;
	p = loaded(file, &st, fd);
	if (p) {
		p->loads++;
		close(fd);
		*plugin = p;
		return 0;
	}
	p = exits_seen || !atexit(exited) ? calloc(1, sizeof(*p)) : NULL;
	exits_seen |= p != NULL;
	if (p)
		*p = (struct sp_plugin){.file = strdup(file), .dev = st.st_dev, .ino = st.st_ino, .loads = 1};
	if (!p || !p->file) {
		r = refuse(error, file, ENOMEM, "out of memory");
		goto fail;
	}
	r = sp_plugin_copy_make(fd, (size_t)st.st_size, slash ? slash + 1 : file, &p->copy, &why);
	if (r == -EAGAIN)
		refuse(error, file, EAGAIN, "changes while it is read: is it being built?");
	else if (r)
		refuse(error, file, -r, "%s: %s", why, strerror(-r));
	if (!r)
		r = object_open(p, error);
	if (r)
		goto fail;
	close(fd);
	p->next = plugins;
	plugins = p;
	*plugin = p;
	return 0;
fail:
	close(fd);
	if (p) {
		sp_plugin_copy_remove(p->copy);
		free(p->file);
	}
	free(p);
	return r;
}

int sp_plugin_load(const char *file, struct sp_plugin **plugin, struct sp_error *error)
{
	*plugin = NULL;
	if (error)
		*error = (struct sp_error){.key = ""};
	if (!file || !*file)
		return sp_error_set(error, ENOENT, "plugin", "no plug-in's file is named");
	if (sp_handlers_noting()) /* a constructor or a destructor: we are inside ourselves */
		return refuse(error, file, EDEADLK, "a plug-in that is being loaded or unloaded cannot load another");
	pthread_mutex_lock(&lock);
	int r = load(file, plugin, error);
	pthread_mutex_unlock(&lock);
	return r;
}

int sp_plugin_unload(struct sp_plugin *plugin)
{
	int r = 0;

	if (!plugin)
		return 0;
	if (sp_handlers_noting())
		return -EDEADLK;
	pthread_mutex_lock(&lock);
	if (plugin->loads > 1) {
		plugin->loads--;
		goto out;
	}
	r = sp_handlers_remove(plugin);
	if (r)
		goto out;
	for (struct sp_plugin **at = &plugins; *at; at = &(*at)->next)
		if (*at == plugin) {
			*at = plugin->next;
			break;
		}
	object_close(plugin);
	sp_plugin_copy_remove(plugin->copy);
	free(plugin->file);
	free(plugin);
out:
	pthread_mutex_unlock(&lock);
	return r;
}
