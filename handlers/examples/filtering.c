/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * filtering: forwards packets whose key is in a table and drops the others, after PsPIN's filtering (Di Girolamo et
 * al., ISCA'21).
 *
 * The key is the big-endian 32-bit word after the UDP header and SLMP's header of 12 bytes. The parameter `keys` lists
 * keys, and commands of the host add and remove them. Forwarded packets go the normal way, as without a handler. Each
 * packet is judged alone: lost packets stay lost, and repeated ones pass twice.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include <spindle-handler.h>

enum { MALFORMED, FILTERED };
static const char *const drops[] = {"malformed", "filtered", NULL};

enum { SLMP = 12 };
enum { FILTERING_ADD = SP_CMD_OWN, FILTERING_REMOVE }; /* arg[0]: key */

/* Entries of the table: the key in the lower half. A removed key keeps its entry, or searches would end there. So
 * `table` is how many different keys there may ever be. */
#define PRESENT (1ull << 32)
#define REMOVED (2ull << 32)

struct filtering {
	_Atomic uint64_t *entry;    /* mask + 1, at least half of them 0; the home worker writes, all read */
	uint32_t mask, used, limit; /* used: entries that are not 0 */
};

/* The entry of a key, or the empty one where it would be. */
static _Atomic uint64_t *find(const struct filtering *s, uint32_t key)
{
	uint32_t at = (key * 2654435769u) ^ key >> 15; /* Knuth: neighbours go far apart */

	for (;; at++) { /* ends, as there are empty entries */
		const uint64_t e = s->entry[at & s->mask];
		if (!e || (uint32_t)e == key)
			return &s->entry[at & s->mask];
	}
}

static int add(struct filtering *s, uint32_t key)
{
	_Atomic uint64_t *e = find(s, key);

	if (!*e && s->used == s->limit)
		return -ENOSPC;
	s->used += !*e;
	*e = PRESENT | key;
	return 0;
}

static int attach(struct sp_ctx *c)
{
	struct filtering *s = c->state;
	const char *text = sp_param_string(c, "keys");
	char *end;

	s->limit = (uint32_t)sp_param_uint(c, "table");
	for (s->mask = 1; s->mask + 1 < 2 * s->limit; s->mask = 2 * s->mask + 1)
		;
	s->entry = sp_alloc(c, (s->mask + 1ull) * sizeof(*s->entry));
	if (!s->entry)
		return sp_fail(c, ENOMEM, "table", "no memory for %u keys", s->limit);
	for (; *text; text = end + strspn(end, ", ")) {
		const unsigned long long key = strtoull(text, &end, 0);
		if (end == text || *text == '-' || key > UINT32_MAX || !strchr(", ", *end))
			return sp_fail(c, EINVAL, "keys", "\"%s\" does not begin with a 32-bit number", text);
		if (add(s, (uint32_t)key))
			return sp_fail(c, EINVAL, "keys", "more than `table` holds, %u", s->limit);
	}
	return 0;
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *none, struct sp_packet *p)
{
	const uint8_t *key = p->data + SLMP;

	(void)none;
	if (!(p->flags & SP_PKT_UDP) || p->len < SLMP + 4)
		return SP_DROP(MALFORMED);
	if (!(*find(c->state, (uint32_t)key[0] << 24 | (uint32_t)key[1] << 16 | (uint32_t)key[2] << 8 | key[3]) &
	      PRESENT))
		return SP_DROP(FILTERED);
	return SP_FORWARD;
}

/* Commands of the host are checked like packets. */
static int command(struct sp_ctx *c, const struct sp_command *command, struct sp_event *result)
{
	struct filtering *s = c->state;
	const uint32_t key = (uint32_t)command->arg[0];
	_Atomic uint64_t *e;

	(void)result;
	if (command->arg[0] != key)
		return -EINVAL;
	if (command->op == FILTERING_ADD)
		return add(s, key);
	if (command->op != FILTERING_REMOVE)
		return -EOPNOTSUPP;
	e = find(s, key);
	if (!(*e & PRESENT))
		return -ENOENT;
	*e = REMOVED | key;
	return 0;
}

static const struct sp_param params[] = {
	{"keys", SP_STRING, "", 0, 0, "keys to begin with: 32-bit numbers with commas between"},
	{"table", SP_UINT, "1024", 1, 1 << 20, "different keys that there may ever be in the table"},
	{NULL},
};

static const struct sp_handler filtering = {
	SP_HANDLER_HEAD,  .name = "filtering", .doc = "passes on packets whose key is in a table, drops the others",
	.params = params, .drops = drops,      .ctx_size = sizeof(struct filtering),
	.attach = attach, .payload = payload,  .command = command,
};
SP_HANDLER(filtering)
