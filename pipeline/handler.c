/* SPDX-License-Identifier: BSD-3-Clause */
#include "handler.h"
#include "config.h"
#include "limits.h"

#include <pthread.h>

#define MAX_HANDLERS 256

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct sp_handler *known[MAX_HANDLERS]; /* by name; under lock */
static unsigned count;

/* Registration runs before main() or inside dlopen(), where nobody can be told: what does not fit is left out, and is
 * then refused by name when somebody asks for it. */
void sp_handler_register(const struct sp_handler *h)
{
	unsigned at;

	if (!h || h->abi != SP_ABI || h->size != sizeof(*h) || !h->name)
		return;
	pthread_mutex_lock(&lock);
	for (at = 0; at < count && strcmp(known[at]->name, h->name) < 0; at++)
		;
	if (count < MAX_HANDLERS && (at == count || strcmp(known[at]->name, h->name))) {
		memmove(&known[at + 1], &known[at], (count - at) * sizeof(*known));
		known[at] = h;
		count++;
	}
	pthread_mutex_unlock(&lock);
}

const struct sp_handler *sp_handler_next(const struct sp_handler *after)
{
	const struct sp_handler *h = NULL;
	unsigned at = 0;

	pthread_mutex_lock(&lock);
	while (after && at < count && strcmp(known[at]->name, after->name) <= 0)
		at++;
	if (at < count)
		h = known[at];
	pthread_mutex_unlock(&lock);
	return h;
}

const struct sp_handler *sp_handler_find(const char *name)
{
	const struct sp_handler *h = NULL;

	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < count && !h; i++)
		if (!strcmp(known[i]->name, name))
			h = known[i];
	pthread_mutex_unlock(&lock);
	return h;
}

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
		return 0;
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
