/* SPDX-License-Identifier: BSD-3-Clause */
/* Comparison of two packets, field by field, and the differences to ignore. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../pipeline/value.h"
#include "../pipeline/nic.h"
#include "expect_private.h"
#include "fields.h"

#define SHOWN 8 /* bytes shown of a payload, from the first different one */

/* ---- tolerances ---- */
static int field_id(const char *name)
{
	for (int i = 0; sp_field_names[i]; i++)
		if (!strcmp(sp_field_names[i], name))
			return i;
	return -1;
}

static int refuse(struct sp_error *error, const char *word, const char *why, const char *near)
{
	if (error) {
		error->key[0] = '\0';
		snprintf(error->text, sizeof(error->text), "%.60s: %s%s%s%s", *word ? word : "''", why,
			 near ? "; is " : "", near ? near : "", near ? " meant?" : "");
	}
	return -EINVAL;
}

static int take_word(const char *word, struct sp_tolerance *t, struct sp_error *error)
{
	const char *known[FIELD_IDS + 3];
	const char **more;
	sp_time time;
	int id;

	if (!strcmp(word, "psn-start")) {
		t->psn_start = true;
	} else if (!strcmp(word, "time")) {
		t->time = SP_NEVER;
	} else if (!strncmp(word, "time=", 5)) {
		if (sp_parse_time(word + 5, &time))
			return refuse(error, word, "is no time (20ns, 10us, 1.5ms)", NULL);
		t->time = time;
	} else if ((id = field_id(word)) >= 0) {
		more = realloc((void *)(uintptr_t)t->field, (t->fields + 1) * sizeof(*more));
		if (!more)
			return -ENOMEM;
		more[t->fields++] = sp_field_names[id];
		t->field = more;
	} else {
		memcpy(known, sp_field_names, FIELD_IDS * sizeof(*known));
		known[FIELD_IDS] = "time";
		known[FIELD_IDS + 1] = "psn-start";
		known[FIELD_IDS + 2] = NULL;
		return refuse(error, word, "neither time, time=T, psn-start nor the name of a field",
			      sp_nearest(word, known));
	}
	return 0;
}

int sp_tolerance_parse(const char *text, struct sp_tolerance *t, struct sp_error *error)
{
	const struct sp_tolerance before = *t;
	char *copy = strdup(text), *rest = copy, *word;
	int err = copy ? 0 : -ENOMEM;

	while (!err && (word = strsep(&rest, ",")))
		err = take_word(word, t, error);
	free(copy);
	if (err == -ENOMEM && error)
		snprintf(error->text, sizeof(error->text), "%s", strerror(ENOMEM));
	if (err) { /* the list may have been moved: its content is the same */
		t->time = before.time;
		t->psn_start = before.psn_start;
		t->fields = before.fields;
	}
	return err;
}

void sp_tolerance_free(struct sp_tolerance *t)
{
	free((void *)(uintptr_t)t->field);
	*t = (struct sp_tolerance){.time = 0};
}

static bool begins(const char *name, const char *with)
{
	return !strncmp(name, with, strlen(with));
}

/* Whether field `id` is covered by checksum `sum`. */
static bool covers(unsigned sum, unsigned id)
{
	const char *name = sp_field_names[id];
	const bool pseudo4 = id == F_IP_SRC || id == F_IP_DST || id == F_IP_PROTO || id == F_IP_LEN;
	const bool pseudo6 = id == F_IP6_SRC || id == F_IP6_DST || id == F_IP6_NXT || id == F_IP6_PLEN;

	switch (sum) {
	case F_IP_CHECKSUM:
		return begins(name, "ip.") && id != sum;
	case F_UDP_CHECKSUM:
		return pseudo4 || pseudo6 || id == F_PAYLOAD || begins(name, "infiniband.") ||
		       (begins(name, "udp.") && id != sum);
	case F_TCP_CHECKSUM:
		return pseudo4 || pseudo6 || id == F_PAYLOAD || (begins(name, "tcp.") && id != sum);
	case F_ICMP_CHECKSUM:
		return id == F_PAYLOAD || (begins(name, "icmp.") && id != sum);
	case F_ICMP6_CHECKSUM:
		return pseudo6 || id == F_PAYLOAD || (begins(name, "icmpv6.") && id != sum);
	case F_ICRC: /* fields that routers change count as ones (IBTA annex A17.3.3) */
		return id == F_PAYLOAD || (begins(name, "infiniband.") && id != sum && id != F_IB_RESERVED) ||
		       (begins(name, "udp.") && id != F_UDP_CHECKSUM) ||
		       (begins(name, "ip.") && id != F_IP_DSFIELD && id != F_IP_TTL && id != F_IP_CHECKSUM) ||
		       (begins(name, "ipv6.") && id != F_IP6_TCLASS && id != F_IP6_FLOW && id != F_IP6_HLIM);
	default:
		return false;
	}
}

int sp_expect_rules(struct sp_expect_rules *rules, const struct sp_tolerance *t, struct sp_error *error)
{
	*rules = (struct sp_expect_rules){.tolerance = t, .start = t->start, .started = t->start != 0};
	for (size_t i = 0; i < t->fields; i++) {
		const int id = field_id(t->field[i]);

		if (id < 0)
			return refuse(error, t->field[i], "not the name of a field",
				      sp_nearest(t->field[i], sp_field_names));
		rules->tolerated[id] = true;
	}
	for (unsigned id = 0; id < FIELD_IDS; id++) {
		if (!rules->tolerated[id] && !(t->psn_start && id == F_BTH_PSN))
			continue;
		rules->any = true;
		rules->ignored[id] = true;
		for (unsigned sum = 0; sum < FIELD_IDS; sum++)
			if (covers(sum, id))
				rules->ignored[sum] = true;
	}
	return 0;
}

/* ---- hashes ---- */
static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
	return hash ^ hash >> 29;
}

static uint64_t mix_bytes(uint64_t hash, const uint8_t *bytes, uint32_t len)
{
	uint64_t word;

	hash = mix(hash, len);
	for (; len >= 8; bytes += 8, len -= 8) {
		memcpy(&word, bytes, 8);
		hash = mix(hash, word);
	}
	word = 0;
	memcpy(&word, bytes, len);
	return mix(hash, word);
}

static uint64_t mix_field(uint64_t hash, const struct sp_field *f, const uint8_t *frame)
{
	hash = mix(hash, f->id);
	return f->bits ? mix(hash, sp_field_value(f, frame)) : mix_bytes(hash, frame + f->at, f->len);
}

uint64_t sp_expect_same(const struct sp_expect_rules *rules, const struct sp_expect_packet *p)
{
	struct sp_field field[SP_FIELDS];
	uint64_t hash = mix(1, (uint64_t)p->psn);
	unsigned n;

	if (!rules->any)
		return mix_bytes(hash, p->bytes, p->len);
	n = sp_fields(p->bytes, p->len, field);
	for (unsigned i = 0; i < n; i++)
		if (!rules->ignored[field[i].id])
			hash = mix_field(hash, &field[i], p->bytes);
	return hash;
}

uint64_t sp_expect_flow(struct sp_expect_packet *p)
{
	struct sp_field field[SP_FIELDS];
	uint64_t hash = 1;
	unsigned n;

	if (p->has_flow)
		return p->flow;
	n = sp_fields(p->bytes, p->len, field);
	for (unsigned i = 0; i < n; i++)
		switch (field[i].id) {
		case F_ETH_DST:
		case F_ETH_SRC:
		case F_ETH_TYPE:
		case F_VLAN_ID:
		case F_ARP_OPCODE:
		case F_IP_SRC:
		case F_IP_DST:
		case F_IP_PROTO:
		case F_IP6_SRC:
		case F_IP6_DST:
		case F_IP6_NXT:
		case F_UDP_SRCPORT:
		case F_UDP_DSTPORT:
		case F_TCP_SRCPORT:
		case F_TCP_DSTPORT:
		case F_BTH_DESTQP:
			hash = mix_field(hash, &field[i], p->bytes);
			break;
		default:
			break;
		}
	p->flow = hash;
	p->has_flow = true;
	return hash;
}

/* ---- which fields differ ---- */
struct difference {
	const struct sp_field *expected, *found; /* NULL: there is none */
};

struct list {
	struct difference at[2 * SP_FIELDS];
	unsigned count;
};

static void add(struct list *l, const struct sp_field *expected, const struct sp_field *found)
{
	l->at[l->count++] = (struct difference){expected, found};
}

static bool equal(const struct sp_field *a, const uint8_t *x, const struct sp_field *b, const uint8_t *y)
{
	if (a->len != b->len)
		return false;
	return a->bits ? sp_field_value(a, x) == sp_field_value(b, y) : !memcmp(x + a->at, y + b->at, a->len);
}

/* Frames of equal length: fields by place, taken from the expected frame. So if only a field differs that decides what
 * follows it (a type, a protocol), it is the only difference. */
static void by_place(const struct sp_expect_packet *e, const struct sp_expect_packet *f, const struct sp_field *field,
		     unsigned n, struct list *l)
{
	for (unsigned i = 0; i < n; i++)
		if (!equal(&field[i], e->bytes, &field[i], f->bytes))
			add(l, &field[i], &field[i]);
}

static unsigned position(const struct sp_field *field, unsigned from, unsigned n, unsigned id)
{
	while (from < n && field[from].id != id)
		from++;
	return from;
}

/* Fields by name, in order. Reports fields that only one frame has, too. */
static void by_name(const struct sp_expect_packet *e, const struct sp_expect_packet *f, const struct sp_field *x,
		    unsigned n, const struct sp_field *y, unsigned m, struct list *l)
{
	unsigned i = 0, k = 0;

	while (i < n && k < m) {
		unsigned in_y, in_x;

		if (x[i].id == y[k].id) {
			if (!equal(&x[i], e->bytes, &y[k], f->bytes))
				add(l, &x[i], &y[k]);
			i++;
			k++;
			continue;
		}
		/* The same bytes, only parsed differently: the reason was reported before. */
		if (e->len - x[i].at == f->len - y[k].at &&
		    !memcmp(e->bytes + x[i].at, f->bytes + y[k].at, e->len - x[i].at))
			return;
		in_y = position(y, k, m, x[i].id);
		in_x = position(x, i, n, y[k].id);
		if (in_y < m && (in_x == n || in_y - k <= in_x - i)) {
			while (k < in_y)
				add(l, NULL, &y[k++]);
		} else if (in_x < n) {
			while (i < in_x)
				add(l, &x[i++], NULL);
		} else {
			add(l, &x[i++], NULL);
			add(l, NULL, &y[k++]);
		}
	}
	while (i < n)
		add(l, &x[i++], NULL);
	while (k < m)
		add(l, NULL, &y[k++]);
}

/* Removes ignored differences, and those of checksums that follow from them. */
static void forgive(const struct sp_expect_rules *rules, const struct sp_expect_packet *e,
		    const struct sp_expect_packet *f, struct list *l)
{
	bool differs[FIELD_IDS] = {false}; /* it differs and may, so a checksum may differ, too */
	unsigned kept = 0;

	for (unsigned i = 0; i < l->count; i++) {
		const unsigned id = (l->at[i].expected ? l->at[i].expected : l->at[i].found)->id;

		differs[id] |= rules->tolerated[id] || (id == F_BTH_PSN && rules->tolerance->psn_start);
	}
	for (unsigned i = 0; i < l->count; i++) {
		const unsigned id = (l->at[i].expected ? l->at[i].expected : l->at[i].found)->id;
		bool drop = rules->tolerated[id] || (differs[id] && e->psn == f->psn);

		for (unsigned k = 0; k < FIELD_IDS && !drop; k++)
			drop = differs[k] && covers(id, k);
		if (!drop)
			l->at[kept++] = l->at[i];
	}
	l->count = kept;
}

/* ---- words ---- */
static void hex(const uint8_t *bytes, uint32_t len, char *text)
{
	for (uint32_t i = 0; i < len && i < SHOWN; i++)
		text += sprintf(text, "%02x", bytes[i]);
	strcpy(text, len > SHOWN ? "..." : "");
}

static void say_bytes(struct sp_differences *d, const char *where, const struct sp_field *a, const uint8_t *x,
		      const struct sp_field *b, const uint8_t *y)
{
	const uint32_t common = a->len < b->len ? a->len : b->len;
	uint32_t first = common, differ = 0;
	char expected[2 * SHOWN + 4], found[2 * SHOWN + 4], lengths[64] = "";

	for (uint32_t i = 0; i < common; i++)
		if (x[a->at + i] != y[b->at + i]) {
			first = first < i ? first : i;
			differ++;
		}
	if (a->len != b->len)
		snprintf(lengths, sizeof(lengths), "expected %u bytes, found %u", a->len, b->len);
	if (!differ) {
		sp_differ(d, "%s%s: %s; the first %u are the same", where, a->name, lengths, common);
		return;
	}
	hex(x + a->at + first, a->len - first, expected);
	hex(y + b->at + first, b->len - first, found);
	sp_differ(d, "%s%s: %s%s%u of %u byte%s differ%s, the first at offset %u: expected %s, found %s", where,
		  a->name, lengths, *lengths ? "; " : "", differ, common, common == 1 ? "" : "s",
		  differ == 1 ? "s" : "", first, expected, found);
}

static void say_difference(struct sp_differences *d, const char *where, const struct difference *x,
			   const struct sp_expect_packet *e, const struct sp_expect_packet *f)
{
	char expected[128], found[128];

	if (x->expected)
		sp_field_text(x->expected, e->bytes, expected, sizeof(expected));
	if (x->found)
		sp_field_text(x->found, f->bytes, found, sizeof(found));
	if (!x->found)
		sp_differ(d, "%s%s: expected %s, found none", where, x->expected->name, expected);
	else if (!x->expected)
		sp_differ(d, "%s%s: expected none, found %s", where, x->found->name, found);
	else if (x->expected->form == SP_FIELD_BYTES)
		say_bytes(d, where, x->expected, e->bytes, x->found, f->bytes);
	else if (x->expected->id == F_BTH_PSN && e->psn >= 0 && f->psn >= 0)
		sp_differ(d, "%s%s: expected %lld after its QP's first, found %lld", where, x->expected->name,
			  (long long)e->psn, (long long)f->psn);
	else
		sp_differ(d, "%s%s: expected %s, found %s", where, x->expected->name, expected, found);
}

static void check_time(const struct sp_expect_rules *rules, const char *where, const struct sp_expect_packet *e,
		       const struct sp_expect_packet *f, struct sp_differences *d)
{
	const __int128 late = f->ns - e->ns, off = (late < 0 ? -late : late) * SP_NS;

	if (rules->tolerance->time == SP_NEVER || off <= (__int128)rules->tolerance->time + rules->coarse)
		return;
	sp_differ(d, "%stime: expected %.9f s, found %.9f s (%.9f s %s)", where, (double)(e->ns - rules->start) / 1e9,
		  (double)(f->ns - rules->start) / 1e9, (double)(late < 0 ? -late : late) / 1e9,
		  late < 0 ? "early" : "late");
}

void sp_expect_pair(const struct sp_expect_rules *rules, const struct sp_expect_packet *expected,
		    const struct sp_expect_packet *found, struct sp_differences *d)
{
	struct sp_field x[SP_FIELDS], y[SP_FIELDS];
	struct list names = {.count = 0}, places = {.count = 0}, *differ = &names;
	char where[96];
	unsigned n, m;

	snprintf(where, sizeof(where), "packet %llu: ", (unsigned long long)expected->number);
	if (expected->number != found->number)
		snprintf(where, sizeof(where),
			 "packet %llu (found as packet %llu): ", (unsigned long long)expected->number,
			 (unsigned long long)found->number);
	check_time(rules, where, expected, found, d);
	if (expected->len == found->len && !memcmp(expected->bytes, found->bytes, found->len) &&
	    expected->psn == found->psn)
		return;
	n = sp_fields(expected->bytes, expected->len, x);
	m = sp_fields(found->bytes, found->len, y);
	by_name(expected, found, x, n, y, m, &names);
	if (expected->len == found->len) {
		by_place(expected, found, x, n, &places);
		/* PSNs may be equal, but not their distances from the QP's first PSN. */
		if (expected->psn != found->psn && expected->psn >= 0 && found->psn >= 0) {
			const unsigned at = position(x, 0, n, F_BTH_PSN);

			if (equal(&x[at], expected->bytes, &x[at], found->bytes))
				add(&places, &x[at], &x[at]);
		}
		if (places.count <= names.count || !names.count)
			differ = &places;
	}
	forgive(rules, expected, found, differ);
	for (unsigned i = 0; i < differ->count; i++)
		say_difference(d, where, &differ->at[i], expected, found);
}
