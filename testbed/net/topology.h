/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which switches, hosts and links a network has. A topology is built from a short text or read from a file, and does
 * not change afterwards.
 *
 *   star:64                 one switch with 64 hosts
 *   torus:8x8x8             2 to 8 dimensions or one; torus:4x4x4:2 has 2 hosts at each switch
 *   fattree:32,32:32,32:8   from the hosts up, links down and up of a switch of each level; the top has only links down
 *   dragonfly:16:32:32:16   hosts a switch, switches a group, links between two groups, groups; a group is fully meshed
 *   hyperx:8x8x8:16:2       shape, hosts a switch (1 if not given), parallel links (1); each line of switches is meshed
 *   file:PATH, or a text with a '/'   a file, see net_topology_read()
 *
 * A switch's ports are numbered from 0, hosts first (fat tree: links down first, which at the lowest level are hosts).
 *
 * Threads: read-only after it was made; any thread may read it.
 */
#ifndef TESTBED_NET_TOPOLOGY_H
#define TESTBED_NET_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NET_MAX_DIMENSIONS 8u
#define NET_MAX_LEVELS	   8u
#define NET_MAX_HOSTS	   (1u << 20)
#define NET_MAX_SWITCHES   (1u << 18)
#define NET_MAX_LINKS	   (1u << 22) /* between switches */
#define NET_MAX_PORTS	   4096u      /* of a switch */
#define NET_MAX_NAMED	   2048u      /* switches of a file: the paths between all of them are kept */

enum net_kind { NET_STAR, NET_TORUS, NET_FATTREE, NET_DRAGONFLY, NET_HYPERX, NET_GRAPH };

struct net_topology;

/* -EINVAL: why says what is wrong with the text (whylen bytes, always ended by a NUL), for a file as "file:line: ...";
 * -ENOMEM; from a file also the error of opening it. The caller destroys the topology, after the networks that use it.
 */
int net_topology_parse(const char *text, struct net_topology **topology, char *why, size_t whylen);

/*
 * A file of lines; '#' begins a comment; names are words of up to 31 characters:
 *   switch NAME ...
 *   host NAME SWITCH        the first host is number 0, and so on
 *   link SWITCH SWITCH [N]  N parallel links, 1 if not given
 * Refused: names that repeat or were not declared before, hosts out of each other's reach, more than NET_MAX_NAMED
 * switches.
 */
int net_topology_read(const char *path, struct net_topology **topology, char *why, size_t whylen);
void net_topology_destroy(struct net_topology *topology);

enum net_kind net_topology_kind(const struct net_topology *topology);
uint32_t net_topology_hosts(const struct net_topology *topology);
uint32_t net_topology_switches(const struct net_topology *topology);
uint32_t net_topology_links(const struct net_topology *topology); /* between switches, full duplex each */
/* The largest distance between two switches that have hosts, in links. Counted on the graph, not by a formula. */
uint32_t net_topology_diameter(const struct net_topology *topology);
/* How many switches a shortest way between two hosts passes: 1 if both are at the same one. -1: no such host. */
int net_topology_hops(const struct net_topology *topology, uint32_t from, uint32_t to);
/* The number of a host of a file by its name; -1: none. Other topologies name their hosts "0", "1", .... */
int64_t net_topology_host(const struct net_topology *topology, const char *name);

#endif
