/* SPDX-License-Identifier: BSD-3-Clause */
/* The texts of topologies, and what makes one too large or senseless. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build.h"

#define MAX_PARTS 8u

struct part {
	uint32_t number[NET_MAX_DIMENSIONS];
	uint32_t count;
};

struct text {
	const char *whole;
	char *why;
	size_t whylen;
	struct part part[MAX_PARTS];
	uint32_t parts;
};

#define REFUSE(t, ...) (snprintf((t)->why, (t)->whylen, __VA_ARGS__), -EINVAL)

/* Numbers from 1 to NET_MAX_HOSTS with a separator between them, and ':' between parts. */
static int numbers(struct text *t, const char *s, char separator)
{
	struct part *p = &t->part[0];

	for (;;) {
		uint64_t n = 0;
		const char *begin = s;

		for (; *s >= '0' && *s <= '9' && n <= NET_MAX_HOSTS; s++)
			n = n * 10 + (uint64_t)(*s - '0');
		if (s == begin)
			return REFUSE(t, "topology '%.80s': a number is missing at '%.20s'", t->whole, begin);
		if (!n || n > NET_MAX_HOSTS)
			return REFUSE(t, "topology '%.80s': %.20s is not from 1 to %u", t->whole, begin, NET_MAX_HOSTS);
		if (p->count == NET_MAX_DIMENSIONS)
			return REFUSE(t, "topology '%.80s': more than %u numbers in a row", t->whole,
				      NET_MAX_DIMENSIONS);
		p->number[p->count++] = (uint32_t)n;
		if (!*s)
			break;
		if (*s == ':') {
			if (++p == &t->part[MAX_PARTS])
				return REFUSE(t, "topology '%.80s': more than %u parts", t->whole, MAX_PARTS);
		} else if (*s != separator) {
			return REFUSE(t, "topology '%.80s': '%.20s' is not understood", t->whole, s);
		}
		s++;
	}
	t->parts = (uint32_t)(p - t->part) + 1;
	return 0;
}

/* The product of a and b, or more than any bound. */
static uint64_t times(uint64_t a, uint64_t b)
{
	return a > UINT32_MAX || b > UINT32_MAX ? UINT64_MAX : a * b;
}

static int check_size(struct text *t, uint64_t switches, uint64_t hosts, uint64_t links, uint64_t ports)
{
	if (hosts > NET_MAX_HOSTS)
		return REFUSE(t, "topology '%.80s': more than %u hosts", t->whole, NET_MAX_HOSTS);
	if (switches > NET_MAX_SWITCHES)
		return REFUSE(t, "topology '%.80s': more than %u switches", t->whole, NET_MAX_SWITCHES);
	if (ports > NET_MAX_PORTS)
		return REFUSE(t, "topology '%.80s': a switch with more than %u ports", t->whole, NET_MAX_PORTS);
	if (links > NET_MAX_LINKS)
		return REFUSE(t, "topology '%.80s': more than %u links", t->whole, NET_MAX_LINKS);
	return 0;
}

static bool single(const struct text *t, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to && i < t->parts; i++)
		if (t->part[i].count != 1)
			return false;
	return true;
}

static int made(struct net_topology *made, struct net_topology **topology)
{
	*topology = made;
	return made ? 0 : -ENOMEM;
}

static int star(struct text *t, struct net_topology **topology)
{
	int err;

	if (t->parts != 1 || !single(t, 0, 1))
		return REFUSE(t, "topology '%.80s': expected star:HOSTS", t->whole);
	err = check_size(t, 1, t->part[0].number[0], 0, t->part[0].number[0]);
	return err ? err : made(net_build_star(t->part[0].number[0]), topology);
}

static int torus(struct text *t, struct net_topology **topology)
{
	const struct part *shape = &t->part[0];
	const uint32_t each = t->parts > 1 ? t->part[1].number[0] : 1;
	uint64_t switches = 1;
	int err;

	if (t->parts > 2 || !single(t, 1, 2))
		return REFUSE(t, "topology '%.80s': expected torus:AxBxC or torus:AxBxC:HOSTS", t->whole);
	for (uint32_t d = 0; d < shape->count; d++)
		switches = times(switches, shape->number[d]);
	err = check_size(t, switches, times(switches, each), times(switches, shape->count), each + 2 * shape->count);
	return err ? err : made(net_build_torus(shape->number, shape->count, each), topology);
}

static int hyperx(struct text *t, struct net_topology **topology)
{
	const struct part *shape = &t->part[0];
	const uint32_t each = t->parts > 1 ? t->part[1].number[0] : 1, width = t->parts > 2 ? t->part[2].number[0] : 1;
	uint64_t switches = 1, ports = 0;
	int err;

	if (t->parts > 3 || !single(t, 1, 3))
		return REFUSE(t, "topology '%.80s': expected hyperx:AxBxC or hyperx:AxBxC:HOSTS:WIDTH", t->whole);
	for (uint32_t d = 0; d < shape->count; d++) {
		switches = times(switches, shape->number[d]);
		ports += times(shape->number[d] - 1, width);
	}
	err = check_size(t, switches, times(switches, each), times(switches, ports) / 2, ports + each);
	return err ? err : made(net_build_hyperx(shape->number, shape->count, each, width), topology);
}

static int fattree(struct text *t, struct net_topology **topology)
{
	uint32_t down[NET_MAX_LEVELS], up[NET_MAX_LEVELS];
	uint64_t hosts = 1, group = 1, switches = 0, links = 0, ports = 0;
	int err;

	for (uint32_t l = 0; l < t->parts; l++) {
		const bool top = l + 1 == t->parts;

		if (t->part[l].count != (top ? 1 : 2))
			return REFUSE(t, "topology '%.80s': expected fattree:DOWN,UP:...:DOWN, level %u has %u numbers",
				      t->whole, l + 1, t->part[l].count);
		down[l] = t->part[l].number[0];
		up[l] = top ? 0 : t->part[l].number[1];
		hosts = times(hosts, down[l]);
		ports = ports > (uint64_t)down[l] + up[l] ? ports : (uint64_t)down[l] + up[l];
	}
	err = check_size(t, 0, hosts, 0, ports);
	if (err)
		return err;
	for (uint32_t l = 0, span = 1; l < t->parts; l++) {
		uint64_t here;

		span *= down[l];
		here = times(hosts / span, group);
		switches = here > NET_MAX_SWITCHES ? here : switches + here;
		links += times(here, up[l]);
		err = check_size(t, switches, 0, links, 0);
		if (err)
			return err;
		group = times(group, up[l]);
	}
	return made(net_build_fattree(down, up, t->parts), topology);
}

static int dragonfly(struct text *t, struct net_topology **topology)
{
	uint32_t value[4];
	uint64_t switches, ports;
	int err;

	if (t->parts != 4 || !single(t, 0, 4))
		return REFUSE(t, "topology '%.80s': expected dragonfly:HOSTS:SWITCHES:LINKS:GROUPS", t->whole);
	for (int i = 0; i < 4; i++)
		value[i] = t->part[i].number[0];
	switches = times(value[1], value[3]);
	ports = value[0] + value[1] - 1 + (times(value[3] - 1, value[2]) + value[1] - 1) / value[1];
	err = check_size(t, switches, times(switches, value[0]),
			 times(times(value[3], value[3] - 1) / 2, value[2]) + times(switches, value[1] - 1) / 2, ports);
	return err ? err : made(net_build_dragonfly(value[0], value[1], value[2], value[3]), topology);
}

int net_topology_parse(const char *text, struct net_topology **topology, char *why, size_t whylen)
{
	static const struct {
		const char *name;
		char separator;
		int (*make)(struct text *t, struct net_topology **topology);
	} kind[] = {{"star", ':', star},
		    {"torus", 'x', torus},
		    {"fattree", ',', fattree},
		    {"dragonfly", ':', dragonfly},
		    {"hyperx", 'x', hyperx}};
	struct text t = {.whole = text, .why = why, .whylen = whylen};
	const size_t word = strcspn(text, ":");

	if (!strncmp(text, "file:", 5))
		return net_topology_read(text + 5, topology, why, whylen);
	if (strchr(text, '/'))
		return net_topology_read(text, topology, why, whylen);
	for (unsigned k = 0; k < sizeof(kind) / sizeof(kind[0]); k++)
		if (strlen(kind[k].name) == word && !strncmp(kind[k].name, text, word)) {
			int err = numbers(&t, text[word] ? text + word + 1 : text + word, kind[k].separator);

			err = err ? err : kind[k].make(&t, topology);
			if (err == -ENOMEM)
				snprintf(why, whylen, "topology '%.80s': out of memory", text);
			return err;
		}
	return REFUSE(&t, "topology '%.80s': expected star, torus, fattree, dragonfly, hyperx or file, then ':'", text);
}
