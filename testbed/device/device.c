/* SPDX-License-Identifier: BSD-3-Clause */
#include "device.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>

#include "../../pipeline/config/config.h"
#include "../../pipeline/value.h"
#include "cores.h"

#define CLOCK_MOST 1e12
#define BYTES_MOST 65536
#define CALL_MOST  1000.0 /* s */

struct target {
	struct sp_device *device;
	struct sp_device_check *check; /* NULL: [device] */
	const struct sp_config *config;
	const struct sp_config_key *key;
	struct sp_error *error;
};

static int __attribute__((format(printf, 2, 3))) refuse(const struct target *t, const char *format, ...)
{
	char what[160];
	va_list list;

	va_start(list, format);
	vsnprintf(what, sizeof(what), format, list);
	va_end(list);
	return sp_config_fail(t->config, t->key->line, t->key->name, t->error, "%s: %s", t->key->name, what);
}

/* ---- values ---- */

static int take_text(const struct target *t, char *to, size_t room)
{
	if (strlen(t->key->value) >= room)
		return refuse(t, "more than %zu bytes", room - 1);
	strcpy(to, t->key->value);
	return 0;
}

static int take_number(const struct target *t, uint64_t least, uint64_t most, uint64_t *to)
{
	if (sp_parse_uint(t->key->value, to) || *to < least || *to > most)
		return refuse(t, "'%.40s' is no number from %llu to %llu", t->key->value, (unsigned long long)least,
			      (unsigned long long)most);
	return 0;
}

static int take_u32(const struct target *t, uint64_t least, uint64_t most, uint32_t *to)
{
	uint64_t n;
	int err = take_number(t, least, most, &n);

	if (!err)
		*to = (uint32_t)n;
	return err;
}

static int take_time(const struct target *t, sp_time *to)
{
	if (sp_parse_time(t->key->value, to) || *to > SP_SEC)
		return refuse(t, "'%.40s' is no time up to 1s (26ns, 1.5us)", t->key->value);
	return 0;
}

static int take_rate(const struct target *t, uint64_t *to)
{
	if (sp_parse_rate(t->key->value, to) || !*to || *to > 1000000000000000ull)
		return refuse(t, "'%.40s' is no rate in bit/s, 1 to 1000T (400G)", t->key->value);
	return 0;
}

/* A positive number up to `most`. */
static int take_real(const struct target *t, double most, double *to)
{
	char *end;
	double x;

	x = strtod(t->key->value, &end);
	if (!strchr("0123456789.", *t->key->value) || end == t->key->value || *end || !isfinite(x) || x <= 0 ||
	    x > most)
		return refuse(t, "'%.40s' is no number above 0 and up to %g", t->key->value, most);
	*to = x;
	return 0;
}

/* "1.8GHz" or "host". */
static int take_clock(const struct target *t, double *to)
{
	const size_t len = strlen(t->key->value);
	char number[32] = "";
	uint64_t hz = 0;

	if (!strcmp(t->key->value, "host")) {
		*to = 0;
		return 0;
	}
	if (len > 2 && len < sizeof(number) && !strcmp(t->key->value + len - 2, "Hz"))
		snprintf(number, sizeof(number), "%.*s", (int)len - 2, t->key->value);
	if (sp_parse_rate(number, &hz) || !hz || (double)hz > CLOCK_MOST)
		return refuse(t, "'%.40s' is no clock (1.8GHz, 40MHz), nor host", t->key->value);
	*to = (double)hz;
	return 0;
}

static int take_word(const struct target *t, const char *no, const char *yes, bool *to)
{
	*to = !strcmp(t->key->value, yes);
	return *to || !strcmp(t->key->value, no) ? 0
						 : refuse(t, "'%.40s' is neither %s nor %s", t->key->value, no, yes);
}

/* ---- [device] ---- */

static int set_about(const struct target *t)
{
	return take_text(t, t->device->about, sizeof(t->device->about));
}

static int set_cores(const struct target *t)
{
	t->device->cores = 0;
	return !strcmp(t->key->value, "workers") ? 0 : take_u32(t, 1, SP_CORES_MOST, &t->device->cores);
}

static int set_clock(const struct target *t)
{
	return take_clock(t, &t->device->clock);
}

static int set_host_cycles(const struct target *t)
{
	return take_real(t, 1000, &t->device->host_cycles);
}

static int set_placement(const struct target *t)
{
	return take_word(t, "any", "worker", &t->device->by_worker);
}

static int set_matching(const struct target *t)
{
	return take_word(t, "device", "core", &t->device->core_matches);
}

static int set_arrive(const struct target *t)
{
	return take_time(t, &t->device->arrive);
}

static int set_arrive_rate(const struct target *t)
{
	return take_rate(t, &t->device->arrive_rate);
}

static int set_depart(const struct target *t)
{
	return take_time(t, &t->device->depart);
}

static int set_depart_rate(const struct target *t)
{
	return take_rate(t, &t->device->depart_rate);
}

static int set_dma_latency(const struct target *t)
{
	return take_time(t, &t->device->dma_latency);
}

static int set_dma_rate(const struct target *t)
{
	return take_rate(t, &t->device->dma_rate);
}

static int set_line_rate(const struct target *t)
{
	return take_rate(t, &t->device->line_rate);
}

static int set_overhead(const struct target *t)
{
	return take_u32(t, 0, 1000, &t->device->overhead);
}

static int set_interval(const struct target *t)
{
	return take_time(t, &t->device->interval);
}

static int set_buffer(const struct target *t)
{
	return take_number(t, 1, 1ull << 40, &t->device->buffer);
}

/* ---- [check NAME] ---- */

static int set_check_about(const struct target *t)
{
	return take_text(t, t->check->about, sizeof(t->check->about));
}

static int set_source(const struct target *t)
{
	return take_text(t, t->check->source, sizeof(t->check->source));
}

static int set_cost(const struct target *t)
{
	char why[120];

	return sp_cost_parse(t->key->value, &t->check->cost, why) ? refuse(t, "%s", why) : 0;
}

static int set_cold_cost(const struct target *t)
{
	char why[120];

	return sp_cost_parse(t->key->value, &t->check->cold_cost, why) ? refuse(t, "%s", why) : 0;
}

static int set_cold(const struct target *t)
{
	return take_u32(t, 1, 1000000, &t->check->cold);
}

static int set_fitted(const struct target *t)
{
	if (strcmp(t->key->value, "yes") && strcmp(t->key->value, "no"))
		return refuse(t, "'%.40s' is neither yes nor no", t->key->value);
	t->check->fitted = t->key->value[0] == 'y';
	return 0;
}

static int set_bytes(const struct target *t)
{
	return take_u32(t, 1, BYTES_MOST, &t->check->bytes);
}

static int set_rate(const struct target *t)
{
	return take_rate(t, &t->check->rate);
}

static int set_packets(const struct target *t)
{
	return take_u32(t, 1, 1000000, &t->check->packets);
}

static int set_word_every(const struct target *t)
{
	return take_u32(t, 1, 1000000, &t->check->word_every);
}

static int set_check_cores(const struct target *t)
{
	return take_u32(t, 1, SP_CORES_MOST, &t->check->cores);
}

static int take_value(const struct target *t, enum sp_device_quantity quantity, double value)
{
	if (t->check->quantity != SP_CHECK_COUNT)
		return refuse(t, "a check has one result to compare with, and this is its second");
	if (!(value > 0))
		return refuse(t, "'%.40s' is not above 0", t->key->value);
	t->check->quantity = quantity;
	t->check->value = value;
	return 0;
}

static int set_latency(const struct target *t)
{
	sp_time time = 0;
	int err = take_time(t, &time);

	return err ? err : take_value(t, SP_CHECK_LATENCY, (double)time / (double)SP_SEC);
}

static int set_pps(const struct target *t)
{
	uint64_t n = 0;
	int err = take_rate(t, &n);

	return err ? err : take_value(t, SP_CHECK_PPS, (double)n);
}

static int set_cores_needed(const struct target *t)
{
	uint64_t n = 0;
	int err = take_number(t, 1, SP_CORES_MOST, &n);

	return err ? err : take_value(t, SP_CHECK_CORES, (double)n);
}

static int set_budget(const struct target *t)
{
	double x = 0;
	int err = take_real(t, 1e9, &x);

	return err ? err : take_value(t, SP_CHECK_BUDGET, x);
}

/* ---- the file ---- */

struct key {
	const char *name;
	int (*set)(const struct target *t);
};

static const struct key device_keys[] = {
	{"about", set_about},
	{"cores", set_cores},
	{"clock", set_clock},
	{"host-cycles", set_host_cycles},
	{"placement", set_placement},
	{"matching", set_matching},
	{"arrive", set_arrive},
	{"arrive-rate", set_arrive_rate},
	{"depart", set_depart},
	{"depart-rate", set_depart_rate},
	{"dma-latency", set_dma_latency},
	{"dma-rate", set_dma_rate},
	{"line-rate", set_line_rate},
	{"packet-overhead", set_overhead},
	{"packet-interval", set_interval},
	{"buffer", set_buffer},
	{NULL},
};

static const struct key check_keys[] = {
	{"about", set_check_about},
	{"source", set_source},
	{"fitted", set_fitted},
	{"cost", set_cost},
	{"cold", set_cold},
	{"cold-cost", set_cold_cost},
	{"bytes", set_bytes},
	{"rate", set_rate},
	{"packets", set_packets},
	{"word-every", set_word_every},
	{"cores", set_check_cores},
	{"latency", set_latency},
	{"packets-per-second", set_pps},
	{"cores-needed", set_cores_needed},
	{"budget", set_budget},
	{NULL},
};

static int unknown(const struct target *t, const char *section, const struct key *keys)
{
	const char *names[32] = {NULL}, *near;

	for (size_t i = 0; keys[i].name; i++)
		names[i] = keys[i].name;
	near = sp_nearest(t->key->name, names);
	return sp_config_fail(t->config, t->key->line, t->key->name, t->error, "[%s] has no key %.40s%s%s%s", section,
			      t->key->name, near ? "; is " : "", near ? near : "", near ? " meant?" : "");
}

static int keys_take(struct target *t, const struct sp_config_section *section, const struct key *keys)
{
	int err = 0;

	for (size_t i = 0; i < section->keys && !err; i++) {
		const struct key *k = keys;

		t->key = &section->key[i];
		while (k->name && strcmp(k->name, t->key->name))
			k++;
		err = k->name ? k->set(t) : unknown(t, section->kind, keys);
	}
	return err;
}

static int costs_take(struct target *t, const struct sp_config_section *section)
{
	char why[120];

	for (size_t i = 0; i < section->keys; i++) {
		t->key = &section->key[i];
		if (sp_costs_set(&t->device->costs, t->key->name, t->key->value, why))
			return refuse(t, "%s", why);
	}
	return 0;
}

static int check_take(struct target *t, const struct sp_config_section *section)
{
	struct sp_device *d = t->device;
	struct sp_device_check *c = &d->check[d->checks];
	int err;

	if (d->checks == SP_DEVICE_CHECKS)
		return sp_config_fail(t->config, section->line, section->name, t->error, "more than %d checks",
				      SP_DEVICE_CHECKS);
	*c = (struct sp_device_check){
		.bytes = 1024, .packets = 1000, .quantity = SP_CHECK_COUNT, .line = section->line};
	snprintf(c->name, sizeof(c->name), "%s", section->name);
	t->check = c;
	err = keys_take(t, section, check_keys);
	if (!err && c->quantity == SP_CHECK_COUNT)
		err = sp_config_fail(
			t->config, section->line, section->name, t->error,
			"[check %s] has nothing to compare with: latency, packets-per-second, cores-needed "
			"or budget",
			section->name);
	if (!err && !c->rate && !d->line_rate)
		err = sp_config_fail(t->config, section->line, section->name, t->error,
				     "[check %s] needs a rate: the device has no line-rate", section->name);
	d->checks += !err;
	return err;
}

/* The name of the file without folders and .ini. */
static void name_of(const char *file, char *name, size_t room)
{
	const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
	size_t len = strlen(base);

	if (len > 4 && !strcmp(base + len - 4, ".ini"))
		len -= 4;
	snprintf(name, room, "%.*s", (int)len, base);
}

static const struct sp_config_kind kinds[] = {{"device", false}, {"cost", false}, {"check", true}, {NULL}};

static int take(const struct sp_config *config, struct sp_device *device, struct sp_error *error)
{
	struct target t = {.device = device, .config = config, .error = error};
	bool described = false;
	int err = 0;

	*device = (struct sp_device){.host_cycles = 1};
	name_of(config->file, device->name, sizeof(device->name));
	/* Checks come last: they may need the line rate. */
	for (size_t i = 0; i < config->sections && !err; i++)
		if (!strcmp(config->section[i].kind, "device")) {
			described = true;
			err = keys_take(&t, &config->section[i], device_keys);
		} else if (!strcmp(config->section[i].kind, "cost")) {
			err = costs_take(&t, &config->section[i]);
		}
	for (size_t i = 0; i < config->sections && !err; i++)
		if (!strcmp(config->section[i].kind, "check"))
			err = check_take(&t, &config->section[i]);
	if (!err && !described)
		err = sp_config_fail(config, 1, "device", error, "there is no section [device]");
	return err;
}

int sp_device_read(const char *file, struct sp_device *device, struct sp_error *error)
{
	struct sp_config *config;
	int err = sp_config_read_kinds(file, kinds, &config, error);

	if (err)
		return err;
	err = take(config, device, error);
	sp_config_free(config);
	return err;
}

int sp_device_parse(const char *file, const char *text, size_t len, struct sp_device *device, struct sp_error *error)
{
	struct sp_config *config;
	int err = sp_config_parse_kinds(file, text, len, kinds, &config, error);

	if (err)
		return err;
	err = take(config, device, error);
	sp_config_free(config);
	return err;
}

/* ---- times ---- */

sp_time sp_device_wire_time(const struct sp_device *d, uint64_t bytes)
{
	const double bits = 8.0 * (double)(bytes + d->overhead);
	const sp_time wire = d->line_rate ? (sp_time)llround(bits * (double)SP_SEC / (double)d->line_rate) : 0;

	return wire > d->interval ? wire : d->interval;
}

sp_time sp_device_time(const struct sp_device *d, double cycles)
{
	const double hz = d->clock > 0 ? d->clock : (double)rte_get_tsc_hz();

	return (sp_time)llround(fmin(cycles / hz, CALL_MOST) * (double)SP_SEC);
}
