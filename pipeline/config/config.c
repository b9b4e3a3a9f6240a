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

#include "../value.h"
#include "config_private.h"
#include "../limits.h"

#define CONFIG_BYTES	(8u << 20) /* of one file */
#define CONFIG_LINES	100000	   /* of one file */
#define CONFIG_SECTIONS (1 + SP_MAX_CONTEXTS + SP_MAX_USERS)
#define CONFIG_NAME	39 /* bytes of a context's name */
#define CONFIG_KINDS	8  /* of sections, in a message */

static const struct sp_config_kind nic_kinds[] = {{"nic", false}, {"context", true}, {"limits", true}, {NULL}};

struct reader {
	struct sp_config *config;
	const struct sp_config_kind *kinds;
	const char *text, *end;
	unsigned line;	 /* the line that inih has now */
	unsigned failed; /* line of the error, 0 = none */
	int result;
	struct sp_error *error;
};

/* Shows only the end of a long path. */
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

int sp_config_fail(const struct sp_config *config, unsigned line, const char *key, struct sp_error *error,
		   const char *format, ...)
{
	va_list list;

	va_start(list, format);
	int result = fail_list(config->file, line, key, error, format, list);
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

/* ---- sections and lines ------------------------------------------------------------------------- */
/* kind and name; name "" where there is none. Both are cut out of text. */
static int section_unknown(struct reader *r, const char *kind)
{
	const char *names[CONFIG_KINDS + 1] = {NULL}, *near;
	char all[160] = "";
	size_t used = 0, n = 0;

	for (const struct sp_config_kind *k = r->kinds; k->name && n < CONFIG_KINDS && used < sizeof(all); k++) {
		used += (size_t)snprintf(all + used, sizeof(all) - used, "%s[%s%s]",
					 !n	     ? ""
					 : k[1].name ? ", "
						     : " and ",
					 k->name, k->named ? " NAME" : "");
		names[n++] = k->name;
	}
	near = sp_nearest(kind, names);
	return line_fail(r, "unknown section [%.40s]%s%s%s; there are %s", kind, near ? ", is [" : "", near ? near : "",
			 near ? "] meant?" : "", all);
}

static int section_add(struct reader *r, const char *kind, const char *name)
{
	struct sp_config *c = r->config;
	const struct sp_config_kind *known = r->kinds;

	while (known->name && strcmp(known->name, kind))
		known++;
	if (!known->name)
		return section_unknown(r, kind);
	if (!known->named && *name)
		return line_fail(r, "[%s] has no name", kind);
	if (known->named && !*name)
		return line_fail(r, "[%s NAME] needs a name", kind);
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
		if (!sp_config_blank(*s))
			return line_fail(r, "something stands behind ']'");
	while (close > text && sp_config_blank(close[-1]))
		close--;
	*close = 0;
	while (sp_config_blank(*kind))
		kind++;
	name = kind + strcspn(kind, " \t");
	if (*name)
		*name++ = 0;
	while (sp_config_blank(*name))
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
	while (line < end && sp_config_blank(*line))
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
	       (!strcmp(key, "ip") || !strcmp(key, "gateway") || !strcmp(key, "port") || !strcmp(key, "neighbour") ||
		!strcmp(key, "plugin") || !strcmp(key, "plugin-directory"));
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

int sp_config_parse_kinds(const char *name, const char *text, size_t len, const struct sp_config_kind *kinds,
			  struct sp_config **config, struct sp_error *error)
{
	struct sp_config *c = calloc(1, sizeof(*c));
	struct reader r = {.config = c, .kinds = kinds, .text = text, .end = text + len, .error = error};

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

int sp_config_parse(const char *name, const char *text, size_t len, struct sp_config **config, struct sp_error *error)
{
	return sp_config_parse_kinds(name, text, len, nic_kinds, config, error);
}

int sp_config_read(const char *file, struct sp_config **config, struct sp_error *error)
{
	return sp_config_read_kinds(file, nic_kinds, config, error);
}

int sp_config_read_kinds(const char *file, const struct sp_config_kind *kinds, struct sp_config **config,
			 struct sp_error *error)
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
		result = sp_config_parse_kinds(file, text, len, kinds, config, error);
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
	sp_config_unload(config);
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

/* ---- for those who give keys their meaning ------------------------------------------------------ */
int sp_config_refuse(struct sp_config_target *t, const char *format, ...)
{
	char what[160];
	va_list list;

	va_start(list, format);
	vsnprintf(what, sizeof(what), format, list);
	va_end(list);
	return sp_config_fail(t->config, t->key->line, t->key->name, t->error, "%s: %s", t->key->name, what);
}

int sp_config_number(struct sp_config_target *t, uint64_t min, uint64_t max, uint64_t *value)
{
	const char *text = t->key->value;
	int error = sp_parse_uint(text, value);

	if (error == -EINVAL)
		return sp_config_refuse(t, "'%.40s' is no number (12, 0x1F, 64K)", text);
	if (error || *value < min || *value > max)
		return sp_config_refuse(t, "'%.40s' is out of range: %llu to %llu", text, (unsigned long long)min,
					(unsigned long long)max);
	return 0;
}

int sp_config_unknown(struct sp_config_target *t, const char *section, const char *const *known)
{
	const char *near = sp_nearest(t->key->name, known);

	return sp_config_fail(t->config, t->key->line, t->key->name, t->error, "[%s] has no key %.40s%s%s%s", section,
			      t->key->name, near ? "; is " : "", near ? near : "", near ? " meant?" : "");
}
