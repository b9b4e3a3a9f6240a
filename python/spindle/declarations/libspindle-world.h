/* SPDX-License-Identifier: BSD-3-Clause */
/* Made from the public headers by python/declarations.py. Do not edit. */

/* testbed/random.h */
struct sp_random {
 uint64_t s[4];
};





/* testbed/impairment.h */
#define SP_LINK_OVERHEAD 24
#define SP_LINK_MIN_FRAME 60
#define SP_LINK_MAX_BANDWIDTH 1000000000000000
#define SP_LINK_MAX_QUEUE 1048576
struct sp_link_direction {
 uint64_t bandwidth;
 sp_time delay;
 sp_time jitter;
 double loss;
 double burst_begin;
 double burst_end;
 double burst_loss;
 double duplicate;
 double reorder;
 sp_time reorder_delay;
 double corrupt;
 uint32_t queue;
};
int sp_link_check(const struct sp_link_direction *direction);
int sp_link_burst(struct sp_link_direction *direction, double length, double loss);
sp_time sp_link_distance(double km);
struct sp_impairment {
 struct sp_link_direction config;
 struct sp_random random;
 struct sp_random more;
 sp_time busy;
 sp_time in_turn;
 uint64_t remainder;
_Bool
     bad;
};
struct sp_fate {
 sp_time left;
 sp_time in_turn;
 unsigned copies;
_Bool
     repeated;
 struct sp_copy {
  sp_time arrival;
 _Bool
      reordered;
 _Bool
      corrupted;
  uint32_t bit;
 } copy[2];
};
void sp_impairment_init(struct sp_impairment *impairment, const struct sp_link_direction *config, uint64_t seed,
   unsigned direction);
void sp_impairment_change(struct sp_impairment *impairment, const struct sp_link_direction *config);
void sp_impair(struct sp_impairment *impairment, uint32_t len, sp_time now, struct sp_fate *fate);

/* testbed/link.h */
#define SP_LINK_HEAD 128
#define SP_LINK_WHOLE 1280
#define SP_LINK_MEMORY 2147483648
struct sp_link_config {
 struct sp_link_direction direction[2];
 uint16_t queues[2];
 uint64_t seed;
 uint64_t memory;
_Bool
     payload_less;
 uint32_t head;
_Bool
     (*lose[2])(void *arg, const uint8_t *frame, uint32_t len);
 void *lose_arg[2];
};
struct sp_link_counters {
 uint64_t offered;
 uint64_t lost, duplicated, reordered;
 uint64_t corrupted;
 uint64_t delivered;
 uint64_t bytes;
 uint64_t oversized;
 uint64_t held;
 uint64_t waited;
};
struct sp_link;
int sp_link_create(const struct sp_link_config *config, struct sp_link **link);
void sp_link_destroy(struct sp_link *link);
extern struct sp_port_ops sp_link_ops;
void *sp_link_port(struct sp_link *link, unsigned end);
int sp_link_change(struct sp_link *link, unsigned direction, const struct sp_link_direction *config);
void sp_link_count(const struct sp_link *link, unsigned direction, struct sp_link_counters *counters);
uint64_t sp_link_in_flight(const struct sp_link *link, unsigned direction);

/* testbed/world.h */
#define SP_WORLD_IDLE_POLLS 1000000
#define SP_WORLD_BUSY_POLLS 1000000000
struct sp_world_host {
 void (*step)(void *arg, sp_time now);
 sp_time (*next)(void *arg);
 void *arg;
};
struct sp_world;
int sp_world_create(struct sp_world **world);
void sp_world_destroy(struct sp_world *world);
int sp_world_add_nic(struct sp_world *world, struct sp_nic *nic);
int sp_world_add_host(struct sp_world *world, const struct sp_world_host *host);
void sp_world_set_grain(struct sp_world *world, sp_time grain);
sp_time sp_world_now(const struct sp_world *world);
sp_time sp_world_next(struct sp_world *world);
int sp_world_run(struct sp_world *world, sp_time until,
                                                       _Bool
                                                            (*done)(void *arg), void *arg);
