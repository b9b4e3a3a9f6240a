/* SPDX-License-Identifier: BSD-3-Clause */
#include "../value.h"
#include "handler.h"
#include "../nic.h"
#include "../error.h"
#include "../limits.h"
#include "../process.h"

#include <pthread.h>

#define MAX_HANDLERS 256
#define MAX_MISFITS  8 /* linked-in handlers of another ABI or size, kept for the error text */

/* Several handlers may share a name: the one that lookups find, its coming replacement, and replaced ones still in
 * use. */
enum standing { FOUND, COMING, REPLACED };
struct known {
	const struct sp_handler *handler;
	const struct sp_object *object; /* its plug-in's object, and file; NULL: linked in */
	const struct sp_plugin *plugin;
	const char *file;
	unsigned users; /* references */
	enum standing standing;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct known known[MAX_HANDLERS]; /* by name; under lock */
static unsigned count;
static const struct sp_handler *misfit[MAX_MISFITS]; /* under lock */
static unsigned misfits;
static _Thread_local struct sp_noted *noting;

/* ---- under lock ---- */

/* Index of the first handler of that name, or where to insert it. */
static unsigned place(const char *name)
{
	unsigned at = 0;

	while (at < count && strcmp(known[at].handler->name, name) < 0)
		at++;
	return at;
}

static struct known *look_up(const char *name)
{
	for (unsigned at = place(name); at < count && !strcmp(known[at].handler->name, name); at++)
		if (known[at].standing == FOUND)
			return &known[at];
	return NULL;
}

static struct known *entry(const struct sp_handler *h)
{
	for (unsigned i = 0; i < count; i++)
		if (known[i].handler == h)
			return &known[i];
	return NULL;
}

static void insert(const struct sp_handler *h, const struct sp_object *object, const struct sp_plugin *plugin,
		   enum standing standing, const char *file)
{
	const unsigned at = place(h->name);

	memmove(&known[at + 1], &known[at], (count - at) * sizeof(*known));
	known[at] =
		(struct known){.handler = h, .object = object, .plugin = plugin, .file = file, .standing = standing};
	count++;
}

/* ---- registration ---- */

/* Runs before main() or inside dlopen(), where it cannot report an error. A plug-in's handlers are noted and checked
 * later. A linked-in handler that does not fit is left out, and refused when someone asks for its name. */
void sp_handler_register(const struct sp_handler *h)
{
	if (noting) {
		if (noting->count < SP_NOTED)
			noting->handler[noting->count] = h;
		noting->count++;
		return;
	}
	if (!h || h->size < offsetof(struct sp_handler, doc) || !h->name)
		return;
	pthread_mutex_lock(&lock);
	if (h->abi != SP_ABI || h->size != sizeof(*h)) {
		if (misfits < MAX_MISFITS)
			misfit[misfits++] = h;
	} else if (count < MAX_HANDLERS && !look_up(h->name)) {
		insert(h, NULL, NULL, FOUND, NULL);
	}
	pthread_mutex_unlock(&lock);
}

void sp_handlers_note(struct sp_noted *noted)
{
	noting = noted;
}

bool sp_handlers_noting(void)
{
	return noting;
}

/* abi, size and name come first in every ABI; the rest of the table is readable only in ours. */
static int check_version(const struct sp_handler *h, struct sp_error *error)
{
	const char *name = h && h->size >= offsetof(struct sp_handler, doc) && h->name ? h->name : "(without a name)";

	if (!h)
		return sp_error_set(error, EINVAL, "", "registers a handler that is NULL");
	if (!h->abi && !h->size)
		return sp_error_set(error, EINVAL, "", "a handler's table does not begin with SP_HANDLER_HEAD");
	if (h->abi != SP_ABI)
		return sp_error_set(error, EINVAL, "", "handler %.40s was built for ABI %u, this NIC has %u", name,
				    h->abi, SP_ABI);
	if (h->size != sizeof(*h))
		return sp_error_set(error, EINVAL, "",
				    "handler %.40s has a struct sp_handler of %u bytes, here it has %zu: build it with "
				    "this version's spindle-handler.h",
				    name, h->size, sizeof(*h));
	return sp_handler_check(h, error);
}

int sp_handler_missing(const char *name, const char *key, struct sp_error *error)
{
	const struct sp_handler *h = NULL;
	struct sp_error why = {.key = ""};

	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < misfits && !h; i++)
		if (!strcmp(misfit[i]->name, name))
			h = misfit[i];
	pthread_mutex_unlock(&lock);
	if (!h)
		return sp_error_set(error, ENOENT, key, "there is no handler %s (spindle handler list)", name);
	check_version(h, &why);
	return sp_error_set(error, EINVAL, key, "%s", why.text);
}

/* Another handler that has the name, or is about to get it. */
static const struct known *taken_by(const char *name, const struct sp_plugin *plugin, bool instead)
{
	for (unsigned at = place(name); at < count && !strcmp(known[at].handler->name, name); at++)
		if (known[at].standing != REPLACED && !(instead && known[at].plugin == plugin))
			return &known[at];
	return NULL;
}

static int check_name(const char *name, const struct sp_plugin *plugin, bool instead, const char *file,
		      struct sp_error *error)
{
	const struct known *other = taken_by(name, plugin, instead);
	const size_t len = other && other->file ? strlen(other->file) : 0;

	if (!other)
		return 0;
	if (!other->file)
		return sp_error_set(error, EINVAL, "", "handler %s: the name is taken by the one that is built in",
				    name);
	if (!strcmp(other->file, file))
		return sp_error_set(error, EINVAL, "",
				    "handler %s: the name is taken by the one loaded from this file before it changed",
				    name);
	return sp_error_set(error, EINVAL, "", "handler %s: the name is taken by the one from %s%s", name,
			    len > 80 ? "..." : "", len > 80 ? other->file + len - 80 : other->file);
}

int sp_handlers_add(const struct sp_noted *noted, struct sp_object *object, const struct sp_plugin *plugin,
		    bool instead, const char *file, struct sp_error *error)
{
	int r = 0;

	if (!noted->count)
		return sp_error_set(error, EINVAL, "", "registers no handler: SP_HANDLER(...) is missing");
	if (noted->count > SP_NOTED)
		return sp_error_set(error, EINVAL, "", "registers %u handlers; one file has at most %d", noted->count,
				    SP_NOTED);
	for (unsigned i = 0; i < noted->count && !r; i++) {
		r = check_version(noted->handler[i], error);
		for (unsigned k = 0; k < i && !r; k++)
			if (!strcmp(noted->handler[i]->name, noted->handler[k]->name))
				r = sp_error_set(error, EINVAL, "", "registers two handlers %s",
						 noted->handler[i]->name);
	}
	if (r)
		return r;
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < noted->count && !r; i++)
		r = check_name(noted->handler[i]->name, plugin, instead, file, error);
	if (!r && noted->count > MAX_HANDLERS - count)
		r = sp_error_set(error, ENOSPC, "", "there are %u handlers already, and at most %d", count,
				 MAX_HANDLERS);
	for (unsigned i = 0; i < noted->count && !r; i++)
		insert(noted->handler[i], object, plugin, instead ? COMING : FOUND, file);
	pthread_mutex_unlock(&lock);
	return r;
}

void sp_handlers_switch(const struct sp_object *from, const struct sp_object *to)
{
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < count; i++)
		if (known[i].object == to)
			known[i].standing = FOUND;
		else if (known[i].object == from)
			known[i].standing = REPLACED;
	pthread_mutex_unlock(&lock);
}

int sp_handlers_remove(const struct sp_object *object)
{
	unsigned held = 0;
	bool used = false;

	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < count; i++)
		used |= known[i].object == object && known[i].users;
	for (unsigned i = 0; i < count && !used; i++)
		if (known[i].object != object)
			known[held++] = known[i];
	if (!used)
		count = held;
	pthread_mutex_unlock(&lock);
	return used ? -EBUSY : 0;
}

unsigned sp_handlers_of(const struct sp_object *object, const struct sp_handler **handler, unsigned *n)
{
	unsigned users = 0;

	*n = 0;
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < count; i++)
		if (known[i].object == object) {
			users += known[i].users;
			if (*n < SP_NOTED)
				handler[(*n)++] = known[i].handler;
		}
	pthread_mutex_unlock(&lock);
	return users;
}

/* ---- looking up ---- */

const struct sp_handler *sp_handler_next(const struct sp_handler *after)
{
	const struct sp_handler *h = NULL;
	unsigned at = 0;

	pthread_mutex_lock(&lock);
	while (at < count &&
	       ((after && strcmp(known[at].handler->name, after->name) <= 0) || known[at].standing != FOUND))
		at++;
	if (at < count)
		h = known[at].handler;
	pthread_mutex_unlock(&lock);
	return h;
}

const struct sp_handler *sp_handler_find(const char *name)
{
	pthread_mutex_lock(&lock);
	const struct known *k = look_up(name);
	const struct sp_handler *h = k ? k->handler : NULL;
	pthread_mutex_unlock(&lock);
	return h;
}

const struct sp_handler *sp_handler_take(const char *name)
{
	pthread_mutex_lock(&lock);
	struct known *k = look_up(name);
	const struct sp_handler *h = k ? k->handler : NULL;
	if (k)
		k->users++;
	pthread_mutex_unlock(&lock);
	return h;
}

void sp_handler_hold(const struct sp_handler *h)
{
	pthread_mutex_lock(&lock);
	struct known *k = entry(h);
	if (k)
		k->users++;
	pthread_mutex_unlock(&lock);
}

void sp_handler_put(const struct sp_handler *h)
{
	if (!h)
		return;
	pthread_mutex_lock(&lock);
	struct known *k = entry(h);
	if (k && k->users)
		k->users--;
	pthread_mutex_unlock(&lock);
}

const char *sp_handler_file(const struct sp_handler *h)
{
	pthread_mutex_lock(&lock);
	const struct known *k = entry(h);
	const char *file = k ? k->file : NULL;
	pthread_mutex_unlock(&lock);
	return file;
}

const struct sp_object *sp_handler_object(const struct sp_handler *h)
{
	pthread_mutex_lock(&lock);
	const struct known *k = entry(h);
	const struct sp_object *object = k ? k->object : NULL;
	pthread_mutex_unlock(&lock);
	return object;
}

/* ---- what a handler declares ---- */

const struct sp_param *sp_handler_param(const struct sp_handler *h, const char *name)
{
	for (const struct sp_param *p = h->params; p && p->name; p++)
		if (!strcmp(p->name, name))
			return p;
	return NULL;
}

int sp_param_parse(const struct sp_param *param, const char *text, uint64_t *value)
{
	int r = 0;

	*value = 0;
	switch (param->type) {
	case SP_UINT:
		r = sp_parse_uint(text, value);
		break;
	case SP_BOOL:
		return sp_parse_bool(text, value);
	case SP_STRING:
		for (unsigned i = 0; param->choices && param->choices[i]; i++)
			if (!strcmp(param->choices[i], text)) {
				*value = i;
				return 0;
			}
		return param->choices ? -EINVAL : 0;
	case SP_TIME:
		r = sp_parse_time(text, value);
		break;
	case SP_RATE:
		r = sp_parse_rate(text, value);
		break;
	}
	if (!r && (*value < param->min || (param->max && *value > param->max)))
		r = -ERANGE;
	return r;
}

unsigned sp_names_count(const char *const *names)
{
	unsigned n = 0;

	while (names && names[n])
		n++;
	return n;
}
