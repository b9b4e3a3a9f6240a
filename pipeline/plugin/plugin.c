/* SPDX-License-Identifier: BSD-3-Clause */
#include "plugin.h"
#include "ebpf/ebpf.h"
#include "../error.h"
#include "handler.h"
#include "trust.h"
#include "../nic.h"
#include "../process.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define STUCK (5 * SP_SEC)

/* One load of a plug-in's file. */
struct sp_object {
	struct sp_object *older;
	struct sp_plugin *plugin;
	char *file; /* as it was given */
	char *copy;
	dev_t dev;
	ino_t ino;
	void *object;	      /* dlopen()'s handle */
	struct sp_ebpf *ebpf; /* an eBPF object; then `object` is NULL */
	unsigned number;
};

struct sp_plugin {
	struct sp_plugin *next;
	struct sp_object *newest; /* NULL: unloaded by name while handles remain */
	unsigned loads, named;	  /* named: loads without a handle */
	unsigned serial;	  /* objects so far */
};

/* Held while constructors run; they register handlers, so handler.c needs its own lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sp_plugin *plugins;	 /* under lock */
static _Thread_local const char *within; /* the file whose constructors or destructors run */

/* The same, readable by other threads. */
static struct {
	pthread_mutex_t lock;
	char file[128];
	const char *what; /* NULL: none runs */
	sp_time since;
} busy = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* what: the kind of code of `file` that now starts; NULL: it has ended. */
static void enter_code(const char *file, const char *what)
{
	const size_t len = strlen(file);

	within = what ? file : NULL;
	pthread_mutex_lock(&busy.lock);
	snprintf(busy.file, sizeof(busy.file), "%s%s", len > 100 ? "..." : "", len > 100 ? file + len - 100 : file);
	busy.what = what;
	busy.since = sp_clock();
	pthread_mutex_unlock(&busy.lock);
}

bool sp_plugin_stuck(char *text, size_t room)
{
	pthread_mutex_lock(&busy.lock);
	const sp_time lasted = busy.what ? sp_clock() - busy.since : 0;
	const bool stuck = lasted > STUCK;

	if (stuck)
		snprintf(text, room, "%s of %s have run for %.1f s", busy.what, busy.file, (double)lasted / SP_SEC);
	pthread_mutex_unlock(&busy.lock);
	return stuck;
}

/* A plug-in's constructor that calls exit() must not end the process with success. */
static void exited(void)
{
	if (!within)
		return;
	fflush(stdout);
	fprintf(stderr, "%s: calls exit() when it is loaded or unloaded\n", within);
	_exit(1);
}

/* "FILE: what", with only the end of a long path. Returns -err. */
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

static int open_regular(const char *file, struct stat *st, struct sp_error *error)
{
	char why[160] = "";
	int fd = sp_plugin_trusted(file, st, why, sizeof(why)), r = 0;

	if (fd < 0)
		return refuse(error, file, -fd, "%s", *why && fd != -ENOENT ? why : strerror(-fd));
	if (S_ISDIR(st->st_mode))
		r = refuse(error, file, EISDIR, "is a directory");
	else if (!r && !S_ISREG(st->st_mode))
		r = refuse(error, file, EINVAL, "is no regular file");
	if (!r && sp_plugin_copy_settle(fd, st) == -EAGAIN)
		r = refuse(error, file, EAGAIN, "is being written: is it being built?");
	if (!r && !st->st_size)
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
	for (struct sp_plugin *p = plugins; p; p = p->next) {
		const struct sp_object *o = p->newest;

		if (o && (!strcmp(o->file, file) || (o->dev == st->st_dev && o->ino == st->st_ino)) &&
		    sp_plugin_copy_same(o->copy, fd))
			return p;
	}
	return NULL;
}

/* dlerror()'s text without the copy's name. */
static int refuse_object(const struct sp_object *o, struct sp_error *error)
{
	const char *said = dlerror();
	const size_t len = strlen(o->copy);

	if (!said)
		said = "dlopen fails";
	if (!strncmp(said, o->copy, len) && said[len] == ':')
		said += len + 1 + strspn(said + len + 1, " ");
	return refuse(error, o->file, EINVAL, "%s%s", said,
		      strstr(said, "failed to map segment") ? " (is $TMPDIR, or /tmp, mounted noexec?)" : "");
}

/* Destructors run under the lock: note mode makes calls back into this file fail. */
static void object_close(const struct sp_object *o)
{
	struct sp_noted none = {.count = 0};

	if (o->ebpf) {
		sp_ebpf_close(o->ebpf);
		return;
	}
	sp_handlers_note(&none);
	enter_code(o->file, "destructors");
	dlclose(o->object);
	enter_code(o->file, NULL);
	sp_handlers_note(NULL);
}

/* Runs the constructors; `noted` collects the handlers that they register. */
static int object_dlopen(struct sp_object *o, struct sp_noted *noted, struct sp_error *error)
{
	const char *wrong = sp_plugin_copy_wrong(o->copy);

	if (wrong)
		return refuse(error, o->file, EINVAL, "%s", wrong);
	sp_handlers_note(noted);
	enter_code(o->file, "constructors");
	o->object = dlopen(o->copy, RTLD_NOW | RTLD_LOCAL);
	enter_code(o->file, NULL);
	sp_handlers_note(NULL);
	return o->object ? 0 : refuse_object(o, error);
}

/* o->copy exists. */
static int object_open(struct sp_object *o, bool instead, struct sp_error *error)
{
	struct sp_noted noted = {.count = 0};
	struct sp_error why = {.key = ""};
	int r;

	if (sp_ebpf_is(o->copy)) {
		r = sp_ebpf_open(o->copy, &o->ebpf, &noted, &why);
		if (r)
			refuse(error, o->file, -r, "%s", why.text);
	} else {
		r = object_dlopen(o, &noted, error);
	}
	if (r)
		return r;
	r = sp_handlers_add(&noted, o, o->plugin, instead, o->file, &why);
	if (r) {
		refuse(error, o->file, -r, "%s", why.text);
		object_close(o);
	}
	return r;
}

static void object_free(struct sp_object *o)
{
	sp_plugin_copy_remove(o->copy);
	free(o->file);
	free(o);
}

/* Makes an object from the open file fd. instead: it replaces p's current object and may use the same names. */
static int object_make(struct sp_plugin *p, int fd, const struct stat *st, const char *file, bool instead,
		       struct sp_object **made, struct sp_error *error)
{
	static bool exits_seen; /* atexit() cannot be undone: register once */
	struct sp_object *o = exits_seen || !atexit(exited) ? calloc(1, sizeof(*o)) : NULL;
	const char *why, *slash = strrchr(file, '/');
	int r;

	exits_seen |= o != NULL;
	if (!o)
		return refuse(error, file, ENOMEM, "out of memory");
	*o = (struct sp_object){
		.plugin = p, .file = strdup(file), .dev = st->st_dev, .ino = st->st_ino, .number = p->serial + 1};
	if (!o->file) {
		r = refuse(error, file, ENOMEM, "out of memory");
		goto fail;
	}
	r = sp_plugin_copy_make(fd, st, slash ? slash + 1 : file, &o->copy, &why);
	if (r == -EAGAIN)
		refuse(error, file, EAGAIN, "changes while it is read: is it being built?");
	else if (r)
		refuse(error, file, -r, "%s: %s", why, strerror(-r));
	if (!r)
		r = object_open(o, instead, error);
	if (r)
		goto fail;
	p->serial++;
	*made = o;
	return 0;
fail:
	object_free(o);
	return r;
}

static int load(const char *file, struct sp_plugin **plugin, struct sp_error *error)
{
	struct sp_plugin *p;
	struct stat st;
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
	p = calloc(1, sizeof(*p));
	r = p ? object_make(p, fd, &st, file, false, &p->newest, error) : refuse(error, file, ENOMEM, "out of memory");
	close(fd);
	if (r) {
		free(p);
		return r;
	}
	p->loads = 1;
	p->next = plugins;
	plugins = p;
	*plugin = p;
	return 0;
}

static const char *shut; /* why nothing is loaded any more; set once, before other threads load */

void sp_plugins_shut(const char *why)
{
	shut = why;
}

static int enter(const char *file, struct sp_error *error)
{
	if (error)
		*error = (struct sp_error){.key = ""};
	if (!file || !*file)
		return sp_error_set(error, ENOENT, "plugin", "no plug-in's file is named");
	if (shut)
		return refuse(error, file, EPERM, "%s", shut);
	if (sp_handlers_noting()) /* called from a constructor or destructor: this thread holds the lock */
		return refuse(error, file, EDEADLK, "a plug-in that is being loaded or unloaded cannot load another");
	pthread_mutex_lock(&lock);
	return 0;
}

int sp_plugin_load(const char *file, struct sp_plugin **plugin, struct sp_error *error)
{
	*plugin = NULL;
	int r = enter(file, error);
	if (r)
		return r;
	r = load(file, plugin, error);
	pthread_mutex_unlock(&lock);
	return r;
}

int sp_plugin_load_named(const char *file, struct sp_error *error)
{
	struct sp_plugin *p;
	int r = enter(file, error);

	if (r)
		return r;
	r = load(file, &p, error);
	if (!r)
		p->named++;
	pthread_mutex_unlock(&lock);
	return r;
}

/* ---- going ---- */

/* -EBUSY: one of its handlers is in use. */
static int object_end(struct sp_object *o)
{
	int r = sp_handlers_remove(o);

	if (r)
		return r;
	object_close(o);
	object_free(o);
	return 0;
}

static void collect(struct sp_plugin *p)
{
	struct sp_object *next;

	for (struct sp_object **at = p->newest ? &p->newest->older : NULL; at && *at;) {
		next = (*at)->older;
		if (object_end(*at))
			at = &(*at)->older;
		else
			*at = next;
	}
}

/* Unloads all objects of the plug-in. */
static int end(struct sp_plugin *p)
{
	int r = 0;

	if (!p->newest)
		return 0;
	collect(p);
	r = p->newest->older ? -EBUSY : object_end(p->newest);
	if (!r)
		p->newest = NULL;
	return r;
}

static void forget(struct sp_plugin *p)
{
	for (struct sp_plugin **at = &plugins; *at; at = &(*at)->next)
		if (*at == p) {
			*at = p->next;
			break;
		}
	free(p);
}

int sp_plugin_unload(struct sp_plugin *plugin)
{
	int r = 0;

	if (!plugin)
		return 0;
	if (sp_handlers_noting())
		return -EDEADLK;
	pthread_mutex_lock(&lock);
	if (plugin->loads == 1)
		r = end(plugin);
	if (!r && !--plugin->loads)
		forget(plugin);
	pthread_mutex_unlock(&lock);
	return r;
}

int sp_plugin_drop(struct sp_plugin *plugin)
{
	if (sp_handlers_noting())
		return -EDEADLK;
	pthread_mutex_lock(&lock);
	int r = end(plugin);
	if (!r) {
		plugin->loads -= plugin->named; /* other callers' handles stay valid for sp_plugin_unload() */
		plugin->named = 0;
		if (!plugin->loads)
			forget(plugin);
	}
	pthread_mutex_unlock(&lock);
	return r;
}

/* ---- one in the place of another ---- */

int sp_plugin_renew(struct sp_plugin *plugin, const char *file, struct sp_object **object, struct sp_error *error)
{
	struct stat st;
	char *from;
	int fd, r = enter(file ? file : plugin->newest ? plugin->newest->file : NULL, error);

	*object = NULL;
	if (r)
		return r;
	from = strdup(file ? file : plugin->newest->file);
	fd = from ? open_regular(from, &st, error) : refuse(error, "plug-in", ENOMEM, "out of memory");
	r = fd < 0 ? fd : object_make(plugin, fd, &st, from, true, object, error);
	if (fd >= 0)
		close(fd);
	pthread_mutex_unlock(&lock);
	free(from);
	return r;
}

void sp_plugin_replace(struct sp_object *by)
{
	struct sp_plugin *p = by->plugin;

	pthread_mutex_lock(&lock);
	by->older = p->newest;
	p->newest = by;
	sp_handlers_switch(by->older, by);
	pthread_mutex_unlock(&lock);
}

void sp_plugin_discard(struct sp_object *object)
{
	pthread_mutex_lock(&lock);
	object_end(object);
	pthread_mutex_unlock(&lock);
}

void sp_plugins_collect(void)
{
	if (sp_handlers_noting())
		return;
	pthread_mutex_lock(&lock);
	for (struct sp_plugin *p = plugins; p; p = p->next)
		collect(p);
	pthread_mutex_unlock(&lock);
}

/* ---- looking ---- */

const struct sp_plugin *sp_object_plugin(const struct sp_object *object)
{
	return object ? object->plugin : NULL;
}

struct sp_plugin *sp_plugin_find(const char *name)
{
	const struct sp_handler *h = sp_handler_take(name);
	const struct sp_object *o = h ? sp_handler_object(h) : NULL;
	struct sp_plugin *p = o ? o->plugin : NULL;

	if (!h) {
		pthread_mutex_lock(&lock);
		for (p = plugins; p && !(p->newest && !strcmp(p->newest->file, name)); p = p->next)
			;
		pthread_mutex_unlock(&lock);
	}
	sp_handler_put(h);
	return p;
}

void sp_objects_each(void (*fn)(void *arg, const struct sp_object_text *text), void *arg)
{
	const struct sp_handler *handler[SP_NOTED];

	pthread_mutex_lock(&lock);
	for (const struct sp_plugin *p = plugins; p; p = p->next)
		for (const struct sp_object *o = p->newest; o; o = o->older) {
			struct sp_object_text text = {.object = o,
						      .file = o->file,
						      .copy = o->number,
						      .replaced = o != p->newest,
						      .handler = handler};

			text.users = sp_handlers_of(o, handler, &text.handlers);
			fn(arg, &text);
		}
	pthread_mutex_unlock(&lock);
}
