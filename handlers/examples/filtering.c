/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * filtering: passes on the packets whose key is in a table and drops the others as `filtered`, after PsPIN's filtering
 * (Di Girolamo et al., ISCA'21).
 *
 * The key is the 32-bit word, big endian, behind the UDP header and the 12 bytes of SLMP's header. Keys are given by
 * the parameter `keys`, and come and go by command. With to = host the UDP payload goes into a ring of slots in memory
 * that the host shares (struct slot, then the bytes); the host says how far it has read (FILTERING_READ), and a packet
 * that finds no free slot is dropped as `ring-full`: the NIC does not wait, and does not overwrite what is unread. With
 * to = exception the packet goes the normal way, as if no handler had seen it.
 *
 * Each packet is judged alone: what is lost is lost, what comes twice is passed on twice, with the SLMP header in front
 * by which the host can tell.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include <spindle-handler.h>

enum { NOT_UDP, SHORT_HEADER, NO_KEY, FILTERED, RING_FULL, TOO_LONG };
static const char *const drops[] = {"not-udp", "short-header", "no-key", "filtered", "ring-full", "too-long", NULL};
enum { PASSED };
static const char *const counters[] = {"passed", NULL};

enum { SLMP = 12 };
/* arg[0]: key, key, or serial number of the last slot read. */
enum { FILTERING_ADD = SP_CMD_OWN, FILTERING_REMOVE, FILTERING_READ };

struct slot { /* what the host reads, in its own byte order; packet n, from 1, lies in slot (n - 1) % slots */
	uint64_t serial; /* n, written last */
	uint32_t bytes, reserved;
};

/* Entries of the table: the key in the lower half. One that was removed keeps its place, or searches would end there;
 * so `table` is how many different keys there may ever be. */
#define PRESENT (1ull << 32)
#define REMOVED (2ull << 32)

struct filtering {
	const struct sp_mem *area; /* NULL: to the exception port */
	uint32_t slots, slot_bytes, mask;
	_Atomic uint64_t *entry;	/* mask + 1, at least half of them 0; the home worker alone writes */
	uint32_t used, limit;		/* entries that are not 0 */
	_Atomic uint64_t written, read; /* slots given out; slots that the host is done with */
};

/* The entry of a key, or the empty one where it would be. */
static _Atomic uint64_t *find(const struct filtering *s, uint32_t key)
{
	uint32_t at = (key * 2654435769u) ^ key >> 15; /* Knuth: neighbours go far apart */

	for (;; at++) { /* ends: there are empty ones */
		const uint64_t e = s->entry[at & s->mask];
		if (!e || (uint32_t)e == key)
			return &s->entry[at & s->mask];
	}
}

static int add(struct filtering *s, uint32_t key)
{
	_Atomic uint64_t *e = find(s, key);

	if (!*e && s->used++ == s->limit) {
		s->used--;
		return -ENOSPC;
	}
	*e = PRESENT | key;
	return 0;
}

static int attach(struct sp_ctx *c)
{
	struct filtering *s = c->state;
	const char *to = sp_param_string(c, "to"), *text = sp_param_string(c, "keys");
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
	if (!strcmp(to, "exception"))
		return 0;
	if (strcmp(to, "host"))
		return sp_fail(c, EINVAL, "to", "%s: neither host nor exception", to);
	s->slots = (uint32_t)sp_param_uint(c, "slots");
	s->slot_bytes = (uint32_t)sp_param_uint(c, "slot-bytes");
	if (s->slot_bytes % 8)
		return sp_fail(c, EINVAL, "slot-bytes", "%u is not a multiple of 8", s->slot_bytes);
	s->area = sp_host_area(c, (uint64_t)s->slots * s->slot_bytes);
	return s->area ? 0 : sp_fail(c, ENOMEM, "slots", "no memory for %u slots", s->slots);
}

static uint32_t get32(const uint8_t *b)
{
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* Slots are given out one by one, also to several workers; each is then its packet's until the host has read it. */
static uint32_t place(struct sp_ctx *c, const struct sp_packet *p)
{
	struct filtering *s = c->state;
	uint64_t n = s->written, at;

	if (p->len > s->slot_bytes - sizeof(struct slot))
		return SP_DROP(TOO_LONG);
	do {
		if ((int64_t)(n - s->read) >= (int64_t)s->slots) /* negative: n is old, and the exchange fails */
			return SP_DROP(RING_FULL);
	} while (!atomic_compare_exchange_weak(&s->written, &n, n + 1));
	at = n % s->slots * s->slot_bytes;
	const struct slot head = {.bytes = p->len};
	sp_dma_write(c, s->area, at + sizeof(head.serial), &head.bytes, sizeof(head) - sizeof(head.serial));
	sp_dma_write(c, s->area, at + sizeof(head), p->data, p->len);
	sp_dma_store64(c, s->area, at, n + 1);
	return SP_DONE;
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *none, struct sp_packet *p)
{
	struct filtering *s = c->state;
	uint32_t verdict;

	(void)none;
	if (!(p->flags & SP_PKT_UDP))
		return SP_DROP(NOT_UDP);
	if (p->len < SLMP)
		return SP_DROP(SHORT_HEADER);
	if (p->len < SLMP + 4)
		return SP_DROP(NO_KEY);
	if (!(*find(s, get32(p->data + SLMP)) & PRESENT))
		return SP_DROP(FILTERED);
	verdict = s->area ? place(c, p) : SP_FORWARD;
	c->counters[PASSED] += verdict == SP_DONE || verdict == SP_FORWARD;
	return verdict;
}

static int command(struct sp_ctx *c, const struct sp_command *command, struct sp_event *result)
{
	struct filtering *s = c->state;
	const uint64_t arg = command->arg[0];
	_Atomic uint64_t *e;

	(void)result;
	switch (command->op) {
	case FILTERING_ADD:
		return arg > UINT32_MAX ? -EINVAL : add(s, (uint32_t)arg);
	case FILTERING_REMOVE:
		e = arg > UINT32_MAX ? NULL : find(s, (uint32_t)arg);
		if (!e || !(*e & PRESENT))
			return -ENOENT;
		*e = REMOVED | (uint32_t)arg;
		return 0;
	case FILTERING_READ: /* never backwards, never beyond what there is */
		if (arg < s->read || arg > s->written)
			return -EINVAL;
		s->read = arg;
		return 0;
	}
	return -EOPNOTSUPP;
}

static const struct sp_param params[] = {
	{"keys", SP_STRING, "", 0, 0, "keys to begin with: 32-bit numbers with commas between"},
	{"table", SP_UINT, "1024", 1, 1 << 20, "different keys that there may ever be in the table"},
	{"to", SP_STRING, "host", 0, 0, "host: into the ring in host memory; exception: the normal way"},
	{"slots", SP_UINT, "64", 1, 65536, "packets that the ring holds"},
	{"slot-bytes", SP_UINT, "2K", 32, 65536, "bytes of a slot, of which 16 are its header; a multiple of 8"},
	{NULL},
};

static const struct sp_handler filtering = {
	SP_HANDLER_HEAD,
	.name = "filtering",
	.doc = "passes on packets whose key is in a table, drops the others",
	.params = params,
	.drops = drops,
	.counters = counters,
	.ctx_size = sizeof(struct filtering),
	.attach = attach,
	.payload = payload,
	.command = command,
};
SP_HANDLER(filtering)
