/* SPDX-License-Identifier: BSD-3-Clause */
#include "../value.h"
#include "settings.h"
#include "../nic.h"
#include "../error.h"
#include "../context.h"
#include "../plugin/handler.h"
#include "../process.h"
#include "../tx/pace.h"
#include "../view.h"
#include "../observe/tap.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_cycles.h>

static const char *const generic[] = {"qp",	"filter", "companion", "rate", "message-timeout",
				      "weight", "budget", "overrun",   NULL};

const char *sp_setting(const struct sp_context *c, const char *key)
{
	for (size_t i = 0; i < c->settings; i++)
		if (!strcmp(c->setting[i].key, key))
			return c->setting[i].value;
	return NULL;
}

static bool is_generic(const char *key)
{
	for (unsigned i = 0; generic[i]; i++)
		if (!strcmp(generic[i], key))
			return true;
	return false;
}

/* A bound in the words of a configuration. */
static const char *bound_text(const struct sp_param *param, uint64_t value, char *text, size_t room)
{
	static const struct {
		sp_time unit;
		const char *name;
	} units[] = {{SP_SEC, "s"}, {SP_MS, "ms"}, {SP_US, "us"}, {SP_NS, "ns"}, {1, "ps"}};
	unsigned i = 0;

	while (param->type == SP_TIME && value % units[i].unit)
		i++;
	snprintf(text, room, "%" PRIu64 "%s", param->type == SP_TIME ? value / units[i].unit : value,
		 param->type == SP_TIME ? units[i].name : "");
	return text;
}

static int refuse_choice(const struct sp_param *param, const char *given, struct sp_error *error)
{
	char text[160] = "";

	for (unsigned i = 0; param->choices[i]; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? ", " : "", param->choices[i]);
	return sp_error_set(error, EINVAL, param->name, "%s = %s: not one of %s", param->name, given, text);
}

static int check_value(const struct sp_param *param, const char *text, struct sp_error *error)
{
	char least[32], most[32];

	uint64_t value;
	int r = sp_param_parse(param, text, &value);

	if (r == -ERANGE && param->max)
		return sp_error_set(error, ERANGE, param->name, "%s = %s is out of range (%s to %s)", param->name, text,
				    bound_text(param, param->min, least, sizeof(least)),
				    bound_text(param, param->max, most, sizeof(most)));
	if (r == -ERANGE)
		return sp_error_set(error, ERANGE, param->name, "%s = %s is out of range (at least %s)", param->name,
				    text, bound_text(param, param->min, least, sizeof(least)));
	if (r && param->type == SP_STRING)
		return refuse_choice(param, text, error);
	if (r)
		return sp_error_set(error, EINVAL, param->name, "%s = %s: not %s", param->name, text,
				    param->type == SP_UINT   ? "a number"
				    : param->type == SP_BOOL ? "yes or no"
				    : param->type == SP_TIME ? "a time such as 10us or 5ms"
							     : "a rate such as 2.5G (bit/s)");
	return 0;
}

int sp_settings_check(const struct sp_context *c, struct sp_error *error)
{
	const struct sp_handler *both[2] = {c->handler, c->companion ? c->companion->handler : NULL};

	for (size_t i = 0; i < c->settings; i++) {
		const char *key = c->setting[i].key;
		bool known = is_generic(key);

		for (size_t k = 0; k < i; k++)
			if (!strcmp(c->setting[k].key, key))
				return sp_error_set(error, EINVAL, key, "%s is given twice", key);
		for (unsigned b = 0; b < 2 && both[b]; b++) { /* both may declare it, each with its bounds */
			const struct sp_param *param = sp_handler_param(both[b], key);
			const int r = param ? check_value(param, c->setting[i].value, error) : 0;

			if (r)
				return r;
			known |= param != NULL;
		}
		if (!known)
			return sp_error_set(error, EINVAL, key, "handler %s has no parameter %s", c->handler->name,
					    key);
	}
	for (unsigned b = 0; b < 2 && both[b]; b++)
		for (const struct sp_param *p = both[b]->params; p && p->name; p++)
			if (!p->fallback && !sp_setting(c, p->name))
				return sp_error_set(error, EINVAL, p->name, "handler %s needs %s: %s", both[b]->name,
						    p->name, p->help);
	return 0;
}

int sp_settings_copy(struct sp_context *c, const struct sp_setting *from, size_t count)
{
	c->setting = calloc(count ? count : 1, sizeof(*c->setting));
	if (!c->setting)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		c->setting[i].key = strdup(from[i].key);
		c->setting[i].value = strdup(from[i].value);
		c->settings = i + 1;
		if (!c->setting[i].key || !c->setting[i].value)
			return -ENOMEM;
	}
	return 0;
}

/* The scheduler's settings: weight, budget, overrun. */
static int set_share(struct sp_context *c, struct sp_error *error)
{
	static const char *const overrun[] = {
		[SP_OVERRUN_COUNT] = "count", [SP_OVERRUN_DROP] = "drop", [SP_OVERRUN_DISABLE] = "disable"};
	const char *weight = sp_setting(c, "weight"), *budget = sp_setting(c, "budget"),
		   *then = sp_setting(c, "overrun");
	uint64_t value = 1;

	if (weight && (sp_parse_uint(weight, &value) || !value || value > SP_MAX_WEIGHT))
		return sp_error_set(error, EINVAL, "weight", "weight = %s: not a number from 1 to %d", weight,
				    SP_MAX_WEIGHT);
	c->weight = (uint32_t)value;
	value = 0;
	if (budget && sp_parse_uint(budget, &value)) {
		if (sp_parse_time(budget, &value))
			return sp_error_set(error, EINVAL, "budget",
					    "budget = %s: neither a number of cycles nor a time such as 5us", budget);
		value = (uint64_t)((unsigned __int128)value * rte_get_tsc_hz() / SP_SEC);
	}
	if (budget && !value)
		return sp_error_set(error, EINVAL, "budget", "budget = %s: no call could keep it", budget);
	c->budget.cycles = value;
	for (unsigned i = 0; then && i < sizeof(overrun) / sizeof(*overrun); i++)
		if (!strcmp(then, overrun[i])) {
			c->budget.overrun = (enum sp_overrun)i;
			then = NULL;
		}
	if (then)
		return sp_error_set(error, EINVAL, "overrun", "overrun = %s: not count, drop or disable", then);
	if (sp_setting(c, "overrun") && !budget)
		return sp_error_set(error, EINVAL, "overrun", "overrun is for what is over budget: budget is missing");
	return 0;
}

int sp_settings_generic(struct sp_context *c, struct sp_error *error)
{
	const char *qp = sp_setting(c, "qp"), *rate = sp_setting(c, "rate"), *idle = sp_setting(c, "message-timeout");
	uint64_t value = 0, bits = 0;

	c->qp_any = qp && !strcmp(qp, "any");
	const uint64_t first = c->handler->flags & SP_HANDLER_SERVICE ? 1 : 2;

	if (qp && !c->qp_any && (sp_parse_uint(qp, &value) || value < first || value >= 0xFFFFFF))
		return sp_error_set(error, EINVAL, "qp", "qp = %s: neither a QP number (2 to 0xFFFFFE) nor any", qp);
	c->qp_first = (uint32_t)value;
	if (rate && sp_parse_rate(rate, &bits))
		return sp_error_set(error, EINVAL, "rate", "rate = %s: not a rate such as 2.5G (bit/s)", rate);
	sp_pace_set(c, bits);
	if (idle && (sp_parse_time(idle, &value) || !value))
		return sp_error_set(error, EINVAL, "message-timeout", "message-timeout = %s: not a time such as 5ms",
				    idle);
	c->idle = idle ? value : 0;
	return set_share(c, error);
}

/* ---- handlers' calls ---- */

static const char *param_text(struct sp_ctx *ctx, const char *name, const struct sp_param **param)
{
	struct sp_context *c = sp_view_of(ctx)->context;
	const char *text = sp_setting(c, name);

	*param = sp_handler_param(c->handler, name);
	if (!*param)
		sp_tap_wrong(ctx, "asked for parameter %.40s, which it does not declare", name);
	return text ? text : *param ? (*param)->fallback : NULL;
}

uint64_t sp_param_uint(struct sp_ctx *ctx, const char *name)
{
	const struct sp_param *param;
	const char *text;
	uint64_t value = 0;

	if (!strcmp(name, "qp")) /* the context has it, whatever its handler declares */
		return sp_view_of(ctx)->context->qp_first;
	text = param_text(ctx, name, &param);
	if (param && text)
		sp_param_parse(param, text, &value); /* checked before attach() */
	return value;
}

const char *sp_param_string(struct sp_ctx *ctx, const char *name)
{
	const struct sp_param *param;
	const char *text = param_text(ctx, name, &param);

	return text ? text : "";
}

int sp_fail(struct sp_ctx *ctx, int err, const char *param, const char *format, ...)
{
	struct sp_error *error = sp_view_of(ctx)->context->error;
	va_list ap;

	if (error) {
		snprintf(error->key, sizeof(error->key), "%s", param ? param : "");
		va_start(ap, format);
		vsnprintf(error->text, sizeof(error->text), format, ap);
		va_end(ap);
	}
	return -err;
}
