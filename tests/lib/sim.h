/* SPDX-License-Identifier: BSD-3-Clause */
/* One run of a seed in virtual time: two NICs, 10.7.0.1 and .2 (fd00:7::1 and ::2), and a bad link between them. */
#ifndef TESTS_SIM_H
#define TESTS_SIM_H

#include "../../testbed/link.h"
#include "../../testbed/world.h"
#include "seeds.h"

#define SIM_FIELDS                                                                                                     \
	uint64_t seed, steps;                                                                                          \
	struct sp_random random;                                                                                       \
	char text[200];			  /* what failed first */                                                      \
	struct sp_link_direction link[2]; /* from each NIC; to be set before sim_open() */                             \
	struct sp_world *world;                                                                                        \
	struct sp_link *under;                                                                                         \
	struct sp_nic *nic[2];
struct sim {
	SIM_FIELDS
};
/* Fields of a struct that is a run: x->text is x->sim.text. */
#define SIM_MEMBERS                                                                                                    \
	union {                                                                                                        \
		struct sim sim;                                                                                        \
		struct {                                                                                               \
			SIM_FIELDS                                                                                     \
		};                                                                                                     \
	};
#define U(n) ((unsigned long long)(n))

enum sim_ip { SIM_IP4 = 1, SIM_IP6 = 2 };

/* What went wrong first is kept, with the time. */
void __attribute__((format(printf, 3, 4))) sim_expect(struct sim *s, bool right, const char *format, ...);
uint64_t sim_below(struct sim *s, uint64_t bound);
void sim_ip(bool six, unsigned nic, uint8_t ip[16]);
/* `size` bytes of a run, begun anew: zeros but for the seed. */
void sim_begin(struct sim *s, size_t size, const struct seeds *seeds);
/* The link, whose direction and seed are the run's, and the world. */
void sim_open(struct sim *s, struct sp_link_config link);
void sim_nic(struct sim *s, unsigned e, uint32_t mtu, uint16_t workers, enum sim_ip ips);
void sim_close(struct sim *s);

#endif
