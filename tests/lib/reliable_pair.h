/* SPDX-License-Identifier: BSD-3-Clause */
/* Two NICs with a bad link between them. Connections send and receive reliable messages both ways, in virtual
 * time. NICs and deadlines alone wake the hosts. One seed is one run. */
#ifndef TESTS_RELIABLE_PAIR_H
#define TESTS_RELIABLE_PAIR_H

#include <sys/socket.h>
#include "reliable_hosts.h"
#include "seeds.h"

/* One end of a connection. qpn 0: any. */
void rel_end_open(struct rel *p, struct conn *c, unsigned e, uint32_t qpn);
/* All that it held is free again. */
void rel_end_close(struct rel *p, struct conn *c, unsigned e);
void rel_conn_connect(struct rel *p, struct conn *c, unsigned e);
void rel_conn_open(struct rel *p, struct conn *c);
void rel_open(struct rel *p);
/* Until all is over. */
void rel_run(struct rel *p);
/* Everything can be let go of: all that was used is free again. */
void rel_close(struct rel *p);
/* Runs one(p) for `count` seeds. */
void rel_over_seeds(const char *rule, unsigned count, void (*one)(struct rel *p));
/* Both directions lose, repeat, damage and overtake. */
void rel_bad_link(struct rel *p);
/* The status of all connections, summed. */
void rel_counters(struct rel *p, struct sdr_reliable_status *all);
void rel_pass(struct rel *p, sp_time time);
/* Sends and receives that are over hold no memory, though the QPs live on. */
void rel_memory_is_released(struct rel *p, unsigned e);

#endif
