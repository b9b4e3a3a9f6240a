/* SPDX-License-Identifier: BSD-3-Clause */
/* Topologies from a file: any graph of switches, with the distances between all of them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"

#define MAX_LINE	 1024
#define MAX_NAMED_HOSTS	 16384u
#define MAX_NAMED_LINKS	 65536u
#define MAX_CYCLE_CHECKS 200000000ull /* beyond this a graph counts as cyclic */

struct edge {
	uint32_t a, b;
};

struct reader {
	const char *path;
	FILE *file;
	unsigned line;
	char *why;
	size_t whylen;
	char (*switch_name)[NET_NAME], (*host_name)[NET_NAME];
	uint32_t *host_at;
	struct edge *edge;
	uint32_t switches, hosts, edges;
	uint32_t room[3]; /* of the three arrays */
};

#define REFUSE(r, ...) (snprintf((r)->why, (r)->whylen, "%.200s:%u: " __VA_ARGS__), -EINVAL)

/* Room for one more element; NULL: no memory. */
static void *grow(void *array, uint32_t count, uint32_t *room, size_t size)
{
	void *more;

	if (count < *room)
		return array;
	more = realloc(array, (size_t)(*room * 2 + 16) * size);
	if (more)
		*room = *room * 2 + 16;
	return more;
}

static uint32_t find(char (*name)[NET_NAME], uint32_t count, const char *wanted)
{
	for (uint32_t i = 0; i < count; i++)
		if (!strcmp(name[i], wanted))
			return i;
	return NET_NONE;
}

static int check_name(struct reader *r, const char *name)
{
	if (strlen(name) >= NET_NAME)
		return REFUSE(r, "name '%.40s' is longer than %u characters", r->path, r->line, name, NET_NAME - 1);
	return 0;
}

static int add_switch(struct reader *r, const char *name)
{
	void *more;
	int err = check_name(r, name);

	if (err)
		return err;
	if (find(r->switch_name, r->switches, name) != NET_NONE)
		return REFUSE(r, "switch '%s' is there already", r->path, r->line, name);
	if (r->switches == NET_MAX_NAMED)
		return REFUSE(r, "more than %u switches", r->path, r->line, NET_MAX_NAMED);
	more = grow(r->switch_name, r->switches, &r->room[0], NET_NAME);
	if (!more)
		return -ENOMEM;
	r->switch_name = more;
	strcpy(r->switch_name[r->switches++], name);
	return 0;
}

static int named_switch(struct reader *r, const char *name, uint32_t *at)
{
	*at = find(r->switch_name, r->switches, name);
	return *at == NET_NONE ? REFUSE(r, "there is no switch '%.40s' yet", r->path, r->line, name) : 0;
}

static int add_host(struct reader *r, const char *name, const char *at_name)
{
	uint32_t at, room = r->room[1];
	void *more;
	int err = check_name(r, name);

	if (!err)
		err = named_switch(r, at_name, &at);
	if (err)
		return err;
	if (find(r->host_name, r->hosts, name) != NET_NONE)
		return REFUSE(r, "host '%s' is there already", r->path, r->line, name);
	if (r->hosts == MAX_NAMED_HOSTS)
		return REFUSE(r, "more than %u hosts", r->path, r->line, MAX_NAMED_HOSTS);
	more = grow(r->host_name, r->hosts, &room, NET_NAME);
	if (!more)
		return -ENOMEM;
	r->host_name = more;
	more = grow(r->host_at, r->hosts, &r->room[1], sizeof(*r->host_at));
	if (!more)
		return -ENOMEM;
	r->host_at = more;
	r->host_at[r->hosts] = at;
	strcpy(r->host_name[r->hosts++], name);
	return 0;
}

static int add_links(struct reader *r, const char *a_name, const char *b_name, const char *number)
{
	struct edge edge;
	unsigned long n = 1;
	char *end = "";
	void *more;
	int err = named_switch(r, a_name, &edge.a);

	if (!err)
		err = named_switch(r, b_name, &edge.b);
	if (err)
		return err;
	if (edge.a == edge.b)
		return REFUSE(r, "a link from switch '%s' to itself", r->path, r->line, a_name);
	if (number)
		n = strtoul(number, &end, 10);
	if (*end || !n || n > NET_MAX_PORTS || (number && (*number < '0' || *number > '9')))
		return REFUSE(r, "'%.20s' links: expected 1 to %u", r->path, r->line, number, NET_MAX_PORTS);
	for (; n; n--) {
		if (r->edges == MAX_NAMED_LINKS)
			return REFUSE(r, "more than %u links", r->path, r->line, MAX_NAMED_LINKS);
		more = grow(r->edge, r->edges, &r->room[2], sizeof(*r->edge));
		if (!more)
			return -ENOMEM;
		r->edge = more;
		r->edge[r->edges++] = edge;
	}
	return 0;
}

static int read_line(struct reader *r, char *line)
{
	char *word[5] = {NULL}, *rest = NULL;
	unsigned words = 0;
	int err = 0;

	line[strcspn(line, "#\r\n")] = '\0';
	for (const char *c = line; *c; c++)
		if (*c != '\t' && (*c < ' ' || *c > '~'))
			return REFUSE(r, "a character is no ASCII text", r->path, r->line);
	for (char *w = strtok_r(line, " \t", &rest); w; w = strtok_r(NULL, " \t", &rest)) {
		if (words && !strcmp(word[0], "switch"))
			err = add_switch(r, w);
		else if (words < 5)
			word[words] = w;
		if (err)
			return err;
		words++;
	}
	if (!words)
		return 0;
	if (!strcmp(word[0], "switch"))
		return words > 1 ? 0 : REFUSE(r, "expected: switch NAME ...", r->path, r->line);
	if (!strcmp(word[0], "host"))
		return words == 3 ? add_host(r, word[1], word[2])
				  : REFUSE(r, "expected: host NAME SWITCH", r->path, r->line);
	if (!strcmp(word[0], "link"))
		return words == 3 || words == 4 ? add_links(r, word[1], word[2], word[3])
						: REFUSE(r, "expected: link SWITCH SWITCH [N]", r->path, r->line);
	return REFUSE(r, "'%.20s' is not understood: expected switch, host or link", r->path, r->line, word[0]);
}

static int read_lines(struct reader *r)
{
	char line[MAX_LINE];
	int err = 0;

	while (!err && fgets(line, sizeof(line), r->file)) {
		r->line++;
		if (strlen(line) == sizeof(line) - 1 && line[sizeof(line) - 2] != '\n')
			return REFUSE(r, "a line is longer than %u characters", r->path, r->line, MAX_LINE - 2);
		if (!strchr(line, '\n') && !feof(r->file))
			return REFUSE(r, "a byte is 0", r->path, r->line);
		err = read_line(r, line);
	}
	if (!err && ferror(r->file))
		return REFUSE(r, "it cannot be read", r->path, r->line);
	if (!err && !r->hosts)
		return REFUSE(r, "there is no host", r->path, r->line);
	return err;
}

/* Ports of a switch: its hosts in the order of the file, then its links. */
static int make_graph(struct reader *r, struct net_topology *t)
{
	uint32_t *used = calloc(r->switches + 1, sizeof(*used));
	uint32_t s, most = 0;

	if (!used)
		return -ENOMEM;
	for (uint32_t h = 0; h < r->hosts; h++)
		used[r->host_at[h]]++;
	for (uint32_t e = 0; e < r->edges; e++) {
		used[r->edge[e].a]++;
		used[r->edge[e].b]++;
	}
	for (s = 0; s < r->switches; s++) {
		t->first[s + 1] = t->first[s] + used[s];
		most = used[s] > used[most] ? s : most;
	}
	if (used[most] > NET_MAX_PORTS) {
		free(used);
		return REFUSE(r, "switch '%s' has more than %u ports", r->path, r->line, r->switch_name[most],
			      NET_MAX_PORTS);
	}
	t->peer = malloc((net_ports(t) + 1) * sizeof(*t->peer));
	t->at = malloc((net_ports(t) + 1) * sizeof(*t->at));
	for (s = 0; t->peer && t->at && s < r->switches; s++)
		for (uint32_t p = t->first[s]; p < t->first[s + 1]; p++)
			t->at[p] = s;
	memset(used, 0, r->switches * sizeof(*used));
	for (uint32_t h = 0; t->peer && t->at && h < r->hosts; h++)
		net_graph_host(t, r->host_at[h], used[r->host_at[h]]++, h);
	for (uint32_t e = 0; t->peer && t->at && e < r->edges; e++) {
		const struct edge *edge = &r->edge[e];

		net_graph_link(t, edge->a, used[edge->a], edge->b, used[edge->b]);
		used[edge->a]++;
		used[edge->b]++;
	}
	free(used);
	return t->peer && t->at ? 0 : -ENOMEM;
}

static int measure(struct reader *r, struct net_topology *t)
{
	uint32_t *queue = malloc(t->switches * sizeof(*queue));

	t->distance = malloc((size_t)t->switches * t->switches * sizeof(*t->distance));
	if (!queue || !t->distance) {
		free(queue);
		return -ENOMEM;
	}
	for (uint32_t s = 0; s < t->switches; s++)
		net_graph_measure(t, s, t->distance + (size_t)s * t->switches, queue);
	free(queue);
	for (uint32_t h = 1; h < t->hosts; h++)
		if (net_distance(t, r->host_at[0], r->host_at[h]) == NET_FAR)
			return REFUSE(r, "no links lead from host '%s' to host '%s'", r->path, r->line, r->host_name[0],
				      r->host_name[h]);
	return 0;
}

/* Is there a shortest way to a host that uses port p and, in the next switch, port q? */
static bool follows(const struct net_topology *t, uint32_t p, uint32_t q)
{
	const uint32_t from = t->at[p], by = t->at[q], to = t->at[t->peer[q]];

	for (uint32_t d = 0; d < t->switches; d++)
		if (net_has_host(t, d) && net_distance(t, from, d) == net_distance(t, by, d) + 1 &&
		    net_distance(t, by, d) == net_distance(t, to, d) + 1)
			return true;
	return false;
}

static bool is_link(const struct net_topology *t, uint32_t p)
{
	return t->peer[p] != NET_NONE && !net_is_host(t->peer[p]);
}

/* Is there a cycle of links each of which waits for the next? Links are taken away that nobody waits for, until none
 * is. */
static int find_cycle(struct net_topology *t)
{
	const uint32_t ports = net_ports(t);
	uint32_t *waiting = calloc(ports + 1, sizeof(*waiting)), *ready = malloc((ports + 1) * sizeof(*ready));
	uint32_t count = 0, left = 0;
	uint64_t work = 0;

	for (uint32_t p = 0; p < ports; p++)
		if (is_link(t, p))
			work += (uint64_t)(t->first[t->at[t->peer[p]] + 1] - t->first[t->at[t->peer[p]]]) * t->switches;
	t->cyclic = work > MAX_CYCLE_CHECKS;
	if (!waiting || !ready || t->cyclic)
		goto out;
	for (uint32_t p = 0; p < ports; p++)
		if (is_link(t, p)) {
			const uint32_t s = t->at[t->peer[p]];

			left++;
			for (uint32_t q = t->first[s]; q < t->first[s + 1]; q++)
				waiting[q] += is_link(t, q) && follows(t, p, q);
		}
	for (uint32_t p = 0; p < ports; p++)
		if (is_link(t, p) && !waiting[p])
			ready[count++] = p;
	while (count) {
		const uint32_t p = ready[--count], s = t->at[t->peer[p]];

		left--;
		for (uint32_t q = t->first[s]; q < t->first[s + 1]; q++)
			if (is_link(t, q) && follows(t, p, q) && !--waiting[q])
				ready[count++] = q;
	}
	t->cyclic = left > 0;
out:
	free(waiting);
	free(ready);
	return waiting && ready ? 0 : -ENOMEM;
}

static int finish(struct reader *r, struct net_topology **topology)
{
	struct net_topology *t = net_graph_create(NET_GRAPH, r->switches, r->hosts);
	int err = t ? make_graph(r, t) : -ENOMEM;

	if (!err)
		err = measure(r, t);
	if (!err)
		err = find_cycle(t);
	if (err) {
		net_topology_destroy(t);
		return err;
	}
	t->host_name = r->host_name;
	r->host_name = NULL;
	*topology = t;
	return 0;
}

int net_topology_read(const char *path, struct net_topology **topology, char *why, size_t whylen)
{
	struct reader r = {.path = path, .why = why, .whylen = whylen};
	int err;

	r.file = fopen(path, "r");
	if (!r.file) {
		err = -errno;
		snprintf(why, whylen, "%.200s: %s", path, strerror(-err));
		return err;
	}
	err = read_lines(&r);
	if (!err)
		err = finish(&r, topology);
	if (err == -ENOMEM)
		snprintf(why, whylen, "%.200s: out of memory", path);
	fclose(r.file);
	free(r.switch_name);
	free(r.host_name);
	free(r.host_at);
	free(r.edge);
	return err;
}
