/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds errors in a handler's table that compilers accept, and that otherwise show up much later: in a packet, a
 * configuration or a report. */
#include "../error.h"
#include "handler.h"
#include "../limits.h"
#include "../nic.h"
#include "../process.h"

#include <stdarg.h>
#include <stdio.h>

#define HANDLER_NAME  31		  /* bytes; fits all places that store names */
#define NAME	      39		  /* of parameters, counters, drop reasons; as struct sp_error */
#define CTX_BYTES     (UINT64_C(1) << 30) /* larger objects need sp_alloc() */
#define MSG_BYTES     (UINT64_C(1) << 20)
#define MAX_PARAMS    256 /* as many as a section of nic.ini has keys */
#define LETTERS	      "abcdefghijklmnopqrstuvwxyz"
#define NAME_ALPHABET LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

static int __attribute__((format(printf, 3, 4)))
wrong(const struct sp_handler *h, struct sp_error *error, const char *format, ...)
{
	char what[160];
	va_list list;

	va_start(list, format);
	vsnprintf(what, sizeof(what), format, list);
	va_end(list);
	return sp_error_set(error, EINVAL, "handler", "handler %.*s %s", HANDLER_NAME + 9, h->name, what);
}

static bool is_handler_name(const char *name)
{
	return *name && strchr(LETTERS, *name) && strlen(name) <= HANDLER_NAME &&
	       strspn(name, LETTERS "0123456789-") == strlen(name);
}

static int check_functions(const struct sp_handler *h, struct sp_error *error)
{
	const bool per_packet = h->payload || h->payload_burst;

	if ((unsigned)h->messages > SP_MESSAGES_SLOTS)
		return wrong(h, error, "names an unknown kind of messages, %u", (unsigned)h->messages);
	if (h->messages != SP_MESSAGES_NONE && !h->classify)
		return wrong(h, error, "has messages but no classify()");
	if (h->classify_burst && !h->classify)
		return wrong(h, error, "has classify_burst() but no classify()");
	if (h->miss && h->messages != SP_MESSAGES_SLOTS)
		return wrong(h, error, "has miss(), which is for SP_MESSAGES_SLOTS alone");
	/* Without classify() the handler may be a companion, which works on the first handler's messages. */
	if (h->messages == SP_MESSAGES_NONE && h->classify && (h->header || h->completion || h->msg_size))
		return wrong(h, error, "has %s but no messages: .messages says where they come from",
			     h->header	     ? "header()"
			     : h->completion ? "completion()"
					     : "msg_size");
	if (h->messages == SP_MESSAGES_HASHED && !h->header && !per_packet && !h->completion)
		return wrong(h, error, "has messages but none of header(), payload() and completion()");
	if (!h->classify && !h->header && !per_packet && !h->completion && !h->command &&
	    !(h->attach && (h->timer || h->work || h->issue)))
		return wrong(h, error, "has no function that takes packets or commands");
	return 0;
}

static int check_sizes(const struct sp_handler *h, struct sp_error *error)
{
	const uint32_t unknown =
		h->flags & ~(uint32_t)(SP_HANDLER_HOME | SP_HANDLER_HOSTED | SP_HANDLER_FLOWS | SP_HANDLER_SERVICE);

	if (unknown)
		return wrong(h, error, "has unknown flags, 0x%x", unknown);
	if (h->flags & SP_HANDLER_FLOWS && h->flags & SP_HANDLER_HOME)
		return wrong(h, error, "wants its packets on one worker and on their flows' workers");
	if (h->flags & SP_HANDLER_FLOWS && h->messages != SP_MESSAGES_NONE)
		return wrong(h, error, "has flows and messages: the pipeline keeps no messages of flows");
	if (h->flags & SP_HANDLER_SERVICE && !h->control)
		return wrong(h, error, "is a service but has no control()");
	if (h->service && h->flags & SP_HANDLER_SERVICE)
		return wrong(h, error, "is a service and wants one");
	if (h->ctx_size > CTX_BYTES)
		return wrong(h, error, "wants a context state of %zu bytes; more than %llu are for sp_alloc()",
			     h->ctx_size, (unsigned long long)CTX_BYTES);
	if (h->msg_size > MSG_BYTES)
		return wrong(h, error, "wants a message state of %zu bytes; at most %llu are possible", h->msg_size,
			     (unsigned long long)MSG_BYTES);
	return 0;
}

/* kind: "counter", "parameter", ... for the error text. */
static int check_word(const struct sp_handler *h, const char *kind, const char *name, struct sp_error *error)
{
	if (!*name || strspn(name, NAME_ALPHABET) != strlen(name))
		return wrong(h, error, "has a %s '%.40s': a name is made of letters, digits, and - _ .", kind, name);
	if (strlen(name) > NAME)
		return wrong(h, error, "has a %s '%.40s...': a name has at most %d bytes", kind, name, NAME);
	return 0;
}

static int check_names(const struct sp_handler *h, const char *kind, const char *const *names, unsigned max,
		       struct sp_error *error)
{
	int r = 0;

	for (unsigned i = 0; names && names[i] && !r; i++) {
		if (i == max)
			return wrong(h, error, "declares more than %u %ss", max, kind);
		r = check_word(h, kind, names[i], error);
		for (unsigned k = 0; k < i && !r; k++)
			if (!strcmp(names[i], names[k]))
				r = wrong(h, error, "declares the %s '%s' twice", kind, names[i]);
	}
	return r;
}

static int check_param(const struct sp_handler *h, const struct sp_param *p, struct sp_error *error)
{
	static const char *const generic[] = {"handler", "qp", "filter", "companion", "rate", "message-timeout"};
	uint64_t value;
	int r = check_word(h, "parameter", p->name, error);

	for (unsigned i = 0; i < sizeof(generic) / sizeof(*generic) && !r; i++)
		if (!strcmp(p->name, generic[i]))
			r = wrong(h, error, "has a parameter '%s', which is a key of every context", p->name);
	if (!r && (unsigned)p->type > SP_RATE)
		r = wrong(h, error, "has a parameter '%s' of an unknown type, %u", p->name, (unsigned)p->type);
	if (!r && p->choices && p->type != SP_STRING)
		r = wrong(h, error, "has a parameter '%s' with choices, which is not SP_STRING", p->name);
	if (!r && p->max && p->min > p->max)
		r = wrong(h, error, "has a parameter '%s' from %llu up to %llu", p->name, (unsigned long long)p->min,
			  (unsigned long long)p->max);
	if (r || !p->fallback)
		return r;
	r = sp_param_parse(p, p->fallback, &value);
	if (r == -ERANGE)
		return wrong(h, error, "has a parameter '%s' whose default '%.40s' is out of its range", p->name,
			     p->fallback);
	return r ? wrong(h, error, "has a parameter '%s' whose default '%.40s' is no %s", p->name, p->fallback,
			 p->type == SP_UINT	? "number"
			 : p->type == SP_BOOL	? "yes or no"
			 : p->type == SP_TIME	? "time"
			 : p->type == SP_STRING ? "choice of its"
						: "rate")
		 : 0;
}

static int check_params(const struct sp_handler *h, struct sp_error *error)
{
	int r = 0;

	for (unsigned i = 0; h->params && h->params[i].name && !r; i++) {
		if (i == MAX_PARAMS)
			return wrong(h, error, "declares more than %d parameters", MAX_PARAMS);
		r = check_param(h, &h->params[i], error);
		for (unsigned k = 0; k < i && !r; k++)
			if (!strcmp(h->params[i].name, h->params[k].name))
				r = wrong(h, error, "declares the parameter '%s' twice", h->params[i].name);
	}
	return r;
}

int sp_handler_check(const struct sp_handler *h, struct sp_error *error)
{
	int r = 0;

	if (!h->name || !*h->name)
		return sp_error_set(error, EINVAL, "handler", "a handler has no name");
	if (!is_handler_name(h->name))
		return wrong(h, error,
			     "is no name for a handler: a letter, then at most %d letters, digits and -, all small",
			     HANDLER_NAME - 1);
	r = check_functions(h, error);
	if (!r)
		r = check_sizes(h, error);
	if (!r)
		r = check_params(h, error);
	if (!r)
		r = check_names(h, "drop reason", h->drops, SP_MAX_DROPS, error);
	if (!r)
		r = check_names(h, "counter", h->counters, SP_MAX_COUNTERS, error);
	return r;
}
