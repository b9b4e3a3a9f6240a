/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic.ini by way of inih. inih hands over keys without their line, sections only once they have a key, silently cuts
 * lines at its buffer and takes an indented line for more of the value above; so it reads through line_next(), which
 * counts the lines, keeps the sections, refuses what would be cut and takes the indentation away.
 */
#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "limits.h"

#define CONFIG_BYTES	(8u << 20) /* of one file */
#define CONFIG_LINES	100000	   /* of one file */
#define CONFIG_SECTIONS (SP_MAX_CONTEXTS + 1)
#define CONFIG_KEYS	256 /* of one section: keys are looked for one by one */
#define CONFIG_NAME	39  /* bytes of a context's name */

struct reader {
	struct sp_config *config;
	const char *text, *end;
	unsigned line;	 /* the line that inih has now */
	unsigned failed; /* line of the error, 0 = none */
	int result;
	struct sp_error *error;
};

/* "FILE:LINE: what", always -EINVAL. Of a long path the end is what tells. */
static int fail_list(const char *file, unsigned line, const char *key, struct sp_error *error, const char *format,
		     va_list list)
{
	size_t len = strlen(file);

	if (!error)
		return -EINVAL;
	snprintf(error->key, sizeof(error->key), "%s", key);
	int used = snprintf(error->text, sizeof(error->text), "%s%s:%u: ", len > 96 ? "..." : "",
			    len > 96 ? file + len - 96 : file, line);
	vsnprintf(error->text + used, sizeof(error->text) - (size_t)used, format, list);
	return -EINVAL;
}

static int __attribute__((format(printf, 5, 6)))
fail(const char *file, unsigned line, const char *key, struct sp_error *error, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	int result = fail_list(file, line, key, error, format, list);
	va_end(list);
	return result;
}

static int __attribute__((format(printf, 2, 3))) line_fail(struct reader *r, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	r->result = fail_list(r->config->file, r->line, "", r->error, format, list);
	va_end(list);
	r->failed = r->line;
	return r->result;
}

static int out_of_memory(struct reader *r)
{
	line_fail(r, "out of memory");
	return r->result = -ENOMEM;
}

/* Room for one more in an array that grows by doubling; its size is known from its count. */
static void *grow(void *array, size_t count, size_t size)
{
	return count & (count - 1) ? array : realloc(array, (count ? 2 * count : 1) * size);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* ---- sections and lines ------------------------------------------------------------------------- */
/* kind and name; name "" where there is none. Both are cut out of text. */
static int section_add(struct reader *r, const char *kind, const char *name)
{
	static const char *const kinds[] = {"nic", "context", NULL};
	struct sp_config *c = r->config;
	bool is_nic = !strcmp(kind, "nic");

	if (!is_nic && strcmp(kind, "context")) {
		const char *near = sp_nearest(kind, kinds);
		return line_fail(r, "unknown section [%.40s]%s%s%s; there are [nic] and [context NAME]", kind,
				 near ? ", is [" : "", near ? near : "", near ? "] meant?" : "");
	}
	if (is_nic && *name)
		return line_fail(r, "[nic] has no name");
	if (!is_nic && !*name)
		return line_fail(r, "[context NAME] needs a name");
	if (strlen(name) > CONFIG_NAME)
		return line_fail(r, "name of more than %d bytes", CONFIG_NAME);
	for (const char *s = name; *s; s++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-", *s))
			return line_fail(r, "a name is made of letters, digits, and _ . -");
	if (c->sections == CONFIG_SECTIONS)
		return line_fail(r, "more than %d sections", CONFIG_SECTIONS);
	for (size_t i = 0; i < c->sections; i++)
		if (!strcmp(c->section[i].kind, kind) && !strcmp(c->section[i].name, name))
			return line_fail(r, "[%s%s%s] stands in line %u already", kind, *name ? " " : "", name,
					 c->section[i].line);

	struct sp_config_section *section = grow(c->section, c->sections, sizeof(*section));
	if (!section)
		return out_of_memory(r);
	c->section = section;
	section += c->sections;
	*section = (struct sp_config_section){.kind = strdup(kind), .name = strdup(name), .line = r->line};
	c->sections++; /* now sp_config_free() knows of it */
	return section->kind && section->name ? 0 : out_of_memory(r);
}

/* line begins with '['. */
static int section_line(struct reader *r, const char *line)
{
	char text[256], *close, *kind = text, *name;

	snprintf(text, sizeof(text), "%s", line + 1);
	close = strchr(text, ']');
	if (!close)
		return line_fail(r, "']' is missing");
	for (const char *s = close + 1; *s && *s != ';' && *s != '#'; s++)
		if (!is_blank(*s))
			return line_fail(r, "something stands behind ']'");
	while (close > text && is_blank(close[-1]))
		close--;
	*close = 0;
	while (is_blank(*kind))
		kind++;
	name = kind + strcspn(kind, " \t");
	if (*name)
		*name++ = 0;
	while (is_blank(*name))
		name++;
	return section_add(r, kind, name);
}

/* The ini_reader: one line a call, NULL at the end and after an error. */
static char *line_next(char *buffer, int room, void *stream)
{
	struct reader *r = stream;

	if (r->failed || r->text == r->end)
		return NULL;
	const char *newline = memchr(r->text, '\n', (size_t)(r->end - r->text));
	const char *line = r->text, *end = newline ? newline : r->end;
	r->text = newline ? newline + 1 : r->end;
	r->line++;
	if (r->line > CONFIG_LINES)
		return line_fail(r, "more than %d lines", CONFIG_LINES), NULL;
	if (end > line && end[-1] == '\r')
		end--;
	while (line < end && is_blank(*line))
		line++;
	size_t len = (size_t)(end - line);
	if (len + 2 > (size_t)room) /* newline and NUL */
		return line_fail(r, "line of more than %d bytes", room - 2), NULL;
	for (const char *s = line; s < end; s++)
		if (((unsigned char)*s < ' ' && *s != '\t') || *s == 0x7F)
			return line_fail(r, "control character 0x%02x in column %td", (unsigned char)*s, s - line + 1),
			       NULL;
	memcpy(buffer, line, len);
	memcpy(buffer + len, "\n", 2);
	if (*buffer == '[' && section_line(r, buffer))
		return NULL;
	return buffer;
}

/* ---- keys --------------------------------------------------------------------------------------- */
static bool may_repeat(const struct sp_config_section *section, const char *key)
{
	return !strcmp(section->kind, "nic") &&
	       (!strcmp(key, "ip") || !strcmp(key, "gateway") || !strcmp(key, "port") || !strcmp(key, "neighbour"));
}

/* The ini_handler, nonzero on success. What inih says of the section is cut at 49 bytes: ours is the last of config. */
static int key_add(void *user, const char *inih_section, const char *name, const char *value)
{
	struct reader *r = user;
	struct sp_config *c = r->config;

	(void)inih_section;
	if (r->failed)
		return 0;
	if (!c->sections)
		return line_fail(r, "a key before the first section"), 0;
	if (!*name)
		return line_fail(r, "a value without a key"), 0;
	struct sp_config_section *section = &c->section[c->sections - 1];
	if (section->keys == CONFIG_KEYS)
		return line_fail(r, "more than %d keys in one section", CONFIG_KEYS), 0;
	for (size_t i = 0; i < section->keys && !may_repeat(section, name); i++)
		if (!strcmp(section->key[i].name, name))
			return line_fail(r, "%s is given in line %u already", name, section->key[i].line), 0;

	struct sp_config_key *key = grow(section->key, section->keys, sizeof(*key));
	if (!key)
		return out_of_memory(r), 0;
	section->key = key;
	key += section->keys;
	*key = (struct sp_config_key){.name = strdup(name), .value = strdup(value), .line = r->line};
	section->keys++;
	return key->name && key->value ? 1 : (out_of_memory(r), 0);
}

int sp_config_parse(const char *name, const char *text, size_t len, struct sp_config **config, struct sp_error *error)
{
	struct sp_config *c = calloc(1, sizeof(*c));
	struct reader r = {.config = c, .text = text, .end = text + len, .error = error};

	*config = NULL;
	if (error)
		*error = (struct sp_error){.text = "out of memory"};
	if (!c)
		return -ENOMEM;
	c->file = strdup(name);
	if (!c->file) {
		sp_config_free(c);
		return -ENOMEM;
	}
	if (len >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3)) /* byte order mark */
		r.text += 3;
	int result = len ? ini_parse_stream(line_next, &r, key_add, &r) : 0; /* no text: perhaps no pointer either */
	if (result > 0 && (!r.failed || (unsigned)result < r.failed)) {
		r.line = (unsigned)result; /* inih goes on after a line that it does not understand */
		line_fail(&r, "neither [section] nor KEY = VALUE nor a comment");
	} else if (result < 0 && !r.failed) {
		out_of_memory(&r);
	}
	if (r.failed) {
		sp_config_free(c);
		return r.result;
	}
	if (error)
		error->text[0] = 0;
	*config = c;
	return 0;
}

int sp_config_read(const char *file, struct sp_config **config, struct sp_error *error)
{
	char *text = NULL;
	size_t len = 0;
	int result = 0;
	FILE *f = fopen(file, "re");

	*config = NULL;
	if (!f) {
		result = -errno;
		goto out;
	}
	text = malloc(CONFIG_BYTES + 1);
	if (!text) {
		result = -ENOMEM;
		goto out;
	}
	errno = 0; /* not every kind of file says how long it is, so the room is the bound */
	len = fread(text, 1, CONFIG_BYTES + 1, f);
	if (ferror(f))
		result = errno ? -errno : -EIO;
	else if (len > CONFIG_BYTES)
		result = -EFBIG;
out:
	if (f)
		fclose(f);
	if (!result)
		result = sp_config_parse(file, text, len, config, error);
	else if (error) {
		size_t path = strlen(file);
		*error = (struct sp_error){.key = ""};
		snprintf(error->text, sizeof(error->text), "%s%s: %s", path > 160 ? "..." : "",
			 path > 160 ? file + path - 160 : file, strerror(-result));
	}
	free(text);
	return result;
}

void sp_config_free(struct sp_config *config)
{
	if (!config)
		return;
	for (size_t i = 0; i < config->sections; i++) {
		struct sp_config_section *section = &config->section[i];
		for (size_t k = 0; k < section->keys; k++) {
			free(section->key[k].name);
			free(section->key[k].value);
		}
		free(section->key);
		free(section->kind);
		free(section->name);
	}
	free(config->section);
	free(config->file);
	free(config);
}

/* ---- [nic] -------------------------------------------------------------------------------------- */
struct target {
	const struct sp_config *config;
	const struct sp_config_key *key;
	struct sp_nic_config *nic;
	struct sp_error *error;
};

static int __attribute__((format(printf, 2, 3))) refuse(struct target *t, const char *format, ...)
{
	char what[160];
	va_list list;

	va_start(list, format);
	vsnprintf(what, sizeof(what), format, list);
	va_end(list);
	return fail(t->config->file, t->key->line, t->key->name, t->error, "%s: %s", t->key->name, what);
}

static int number(struct target *t, uint64_t min, uint64_t max, uint64_t *value)
{
	const char *text = t->key->value;
	int error = sp_parse_uint(text, value);

	if (error == -EINVAL)
		return refuse(t, "'%.40s' is no number (12, 0x1F, 64K)", text);
	if (error || *value < min || *value > max)
		return refuse(t, "'%.40s' is out of range: %llu to %llu", text, (unsigned long long)min,
			      (unsigned long long)max);
	return 0;
}

static bool is_zero(const uint8_t *bytes, size_t len)
{
	while (len && !bytes[len - 1])
		len--;
	return !len;
}

static bool is_ipv4(const uint8_t ip[16])
{
	return is_zero(ip, 10) && ip[10] == 0xFF && ip[11] == 0xFF;
}

/* An address that one machine can have. */
static int unicast_ip(struct target *t, const char *text, uint8_t ip[16], uint8_t *prefix)
{
	int error = sp_parse_ip(text, ip, prefix);

	if (error == -ERANGE)
		return refuse(t, "'%.60s': the prefix is too long", text);
	if (error)
		return refuse(t, "'%.60s' is no IPv4 or IPv6 address%s", text, prefix ? "" : " (without /prefix)");
	if (is_ipv4(ip) ? is_zero(ip + 12, 4) : is_zero(ip, 16))
		return refuse(t, "'%.60s' is the unspecified address", text);
	if (is_ipv4(ip) && !memcmp(ip + 12, "\xFF\xFF\xFF\xFF", 4))
		return refuse(t, "'%.60s' is the broadcast address", text);
	if (is_ipv4(ip) ? ip[12] >> 4 == 0xE : ip[0] == 0xFF)
		return refuse(t, "'%.60s' is a multicast address", text);
	return 0;
}

static int unicast_mac(struct target *t, const char *text, uint8_t mac[6])
{
	if (sp_parse_mac(text, mac))
		return refuse(t, "'%.40s' is no MAC address (02:00:00:00:00:01)", text);
	if (is_zero(mac, 6))
		return refuse(t, "'%.40s' is all zero", text);
	if (mac[0] & 1)
		return refuse(t, "'%.40s' is a multicast address", text);
	return 0;
}

static int set_ip(struct target *t)
{
	struct sp_nic_config *nic = t->nic;

	for (const char *s = t->key->value;; s++) {
		char text[64];
		while (is_blank(*s))
			s++;
		size_t len = strcspn(s, ","), used = len;
		while (used && is_blank(s[used - 1]))
			used--;
		snprintf(text, sizeof(text), "%.*s", (int)used, s);
		s += len;

		struct sp_address address;
		int error = unicast_ip(t, text, address.ip, &address.prefix);
		if (error)
			return error;
		if (!address.prefix)
			return refuse(t, "'%s': a prefix of 0 bits", text);
		for (unsigned i = 0; i < nic->addresses; i++)
			if (!memcmp(nic->address[i].ip, address.ip, 16))
				return refuse(t, "'%s' is given twice", text);
		if (nic->addresses == SP_MAX_ADDRESSES)
			return refuse(t, "more than %d addresses", SP_MAX_ADDRESSES);
		nic->address[nic->addresses++] = address;
		if (!*s)
			return 0;
	}
}

static int set_gateway(struct target *t)
{
	uint8_t ip[16];
	int error = unicast_ip(t, t->key->value, ip, NULL);

	if (error)
		return error;
	uint8_t *gateway = is_ipv4(ip) ? t->nic->gateway4 : t->nic->gateway6;
	if (!is_zero(gateway, 16))
		return refuse(t, "a second one for %s", is_ipv4(ip) ? "IPv4" : "IPv6");
	memcpy(gateway, ip, 16);
	return 0;
}

static int set_mac(struct target *t)
{
	return unicast_mac(t, t->key->value, t->nic->mac);
}

static int set_mtu(struct target *t)
{
	uint64_t value;
	int error = number(t, 576, 9500, &value);

	t->nic->mtu = error ? 0 : (uint32_t)value;
	return error;
}

static int set_workers(struct target *t)
{
	uint64_t value;
	int error = number(t, 1, SP_MAX_WORKERS, &value);

	t->nic->workers = error ? 0 : (uint16_t)value;
	return error;
}

static int set_seed(struct target *t)
{
	return number(t, 1, UINT64_MAX, &t->nic->seed);
}

static int set_memory_limit(struct target *t)
{
	return number(t, 1, UINT64_MAX, &t->nic->memory_limit);
}

static int set_icrc(struct target *t)
{
	uint64_t on;

	if (sp_parse_bool(t->key->value, &on))
		return refuse(t, "'%.40s' is neither yes nor no", t->key->value);
	t->nic->icrc_off = !on;
	return 0;
}

static int device(struct target *t, struct sp_port_config *port)
{
	const char *name = t->key->value;

	if (!*name || strlen(name) > 63 || strpbrk(name, " \t,"))
		return refuse(t, "'%.40s' is no device name (net_pcap0, 0000:01:00.0)", name);
	for (unsigned i = 0; i < t->nic->ports; i++)
		if (!strcmp(t->nic->port[i].device, name))
			return refuse(t, "%s is a port already", name);
	if (t->nic->exception.device && !strcmp(t->nic->exception.device, name))
		return refuse(t, "%s is the exception port already", name);
	port->device = name;
	return 0;
}

static int set_port(struct target *t)
{
	if (t->nic->ports == SP_MAX_PORTS)
		return refuse(t, "more than %d ports", SP_MAX_PORTS);
	int error = device(t, &t->nic->port[t->nic->ports]);
	t->nic->ports += !error;
	return error;
}

static int set_exception(struct target *t)
{
	return device(t, &t->nic->exception);
}

static int set_neighbour(struct target *t)
{
	struct sp_nic_config *nic = t->nic;
	struct sp_neighbour_config *neighbour = &nic->neighbour[nic->neighbours];
	const char *value = t->key->value, *mac = value + strcspn(value, " \t");
	char ip[64];

	if (nic->neighbours == SP_MAX_STATIC)
		return refuse(t, "more than %d", SP_MAX_STATIC);
	snprintf(ip, sizeof(ip), "%.*s", (int)(mac - value), value);
	while (is_blank(*mac))
		mac++;
	if (!*mac)
		return refuse(t, "two values are needed: IP MAC");
	int error = unicast_ip(t, ip, neighbour->ip, NULL);
	if (!error)
		error = unicast_mac(t, mac, neighbour->mac);
	if (error)
		return error;
	for (unsigned i = 0; i < nic->neighbours; i++)
		if (!memcmp(nic->neighbour[i].ip, neighbour->ip, 16))
			return refuse(t, "'%s' is given twice", ip);
	nic->neighbours++;
	return 0;
}

static int set_name(struct target *t)
{
	const char *name = t->key->value;

	if (!*name || strlen(name) >= sizeof(t->nic->name))
		return refuse(t, "1 to %zu bytes", sizeof(t->nic->name) - 1);
	snprintf(t->nic->name, sizeof(t->nic->name), "%s", name);
	return 0;
}

static int set_idle(struct target *t)
{
	static const char *const words[] = {
		[SP_IDLE_SLEEP] = "sleep", [SP_IDLE_YIELD] = "yield", [SP_IDLE_SPIN] = "spin"};

	for (unsigned i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (!strcmp(t->key->value, words[i])) {
			t->nic->idle = i;
			return 0;
		}
	return refuse(t, "'%.40s' is none of sleep, yield, spin", t->key->value);
}

#define NIC_KEYS(X)                                                                                                    \
	X("ip", set_ip)                                                                                                \
	X("mac", set_mac)                                                                                              \
	X("mtu", set_mtu)                                                                                              \
	X("gateway", set_gateway)                                                                                      \
	X("workers", set_workers)                                                                                      \
	X("seed", set_seed)                                                                                            \
	X("icrc", set_icrc)                                                                                            \
	X("port", set_port)                                                                                            \
	X("exception", set_exception)                                                                                  \
	X("neighbour", set_neighbour)                                                                                  \
	X("name", set_name)                                                                                            \
	X("memory-limit", set_memory_limit)                                                                            \
	X("idle", set_idle)

static int nic_key(struct target *t)
{
#define X(name, set) name,
	static const char *const names[] = {NIC_KEYS(X) NULL};
#undef X
#define X(name, set) set,
	static int (*const setters[])(struct target *) = {NIC_KEYS(X)};
#undef X
	for (unsigned i = 0; names[i]; i++)
		if (!strcmp(names[i], t->key->name))
			return setters[i](t);

	const char *near = sp_nearest(t->key->name, names);
	if (near)
		return fail(t->config->file, t->key->line, t->key->name, t->error,
			    "[nic] has no key %.40s; is %s meant?", t->key->name, near);
	return fail(t->config->file, t->key->line, t->key->name, t->error, "[nic] has no key %.40s", t->key->name);
}

int sp_config_nic(const struct sp_config *config, struct sp_nic_config *nic, struct sp_error *error)
{
	struct target t = {.config = config, .nic = nic, .error = error};

	for (size_t i = 0; i < config->sections; i++) {
		const struct sp_config_section *section = &config->section[i];
		for (size_t k = 0; !strcmp(section->kind, "nic") && k < section->keys; k++) {
			t.key = &section->key[k];
			int result = nic_key(&t);
			if (result)
				return result;
		}
	}
	return 0;
}

/* ---- [context NAME] ----------------------------------------------------------------------------- */
static int context_add(const struct sp_config *config, const struct sp_config_section *section, struct sp_nic *nic,
		       struct sp_error *error)
{
	struct sp_setting setting[CONFIG_KEYS];
	struct sp_context_config context = {.name = section->name, .setting = setting};
	struct sp_error core = {.key = ""};
	unsigned line = section->line;
	uint32_t id;

	for (size_t k = 0; k < section->keys; k++) {
		const struct sp_config_key *key = &section->key[k];
		if (!strcmp(key->name, "handler"))
			context.handler = key->value;
		else
			setting[context.settings++] = (struct sp_setting){.key = key->name, .value = key->value};
	}
	if (!context.handler)
		return fail(config->file, line, "handler", error, "[context %s] has no handler = NAME", section->name);
	int result = sp_nic_context_add(nic, &context, &id, &core);
	if (!result)
		return 0;
	for (size_t k = 0; k < section->keys; k++)
		if (!strcmp(section->key[k].name, core.key))
			line = section->key[k].line;
	const char *text = *core.text ? core.text : strerror(-result);
	if (*core.key && !strstr(text, core.key))
		fail(config->file, line, core.key, error, "[context %s] %s: %s", section->name, core.key, text);
	else
		fail(config->file, line, core.key, error, "[context %s] %s", section->name, text);
	return result;
}

int sp_config_contexts(const struct sp_config *config, struct sp_nic *nic, struct sp_error *error)
{
	for (size_t i = 0; i < config->sections; i++) {
		if (strcmp(config->section[i].kind, "context"))
			continue;
		int result = context_add(config, &config->section[i], nic, error);
		if (result)
			return result;
	}
	return 0;
}
