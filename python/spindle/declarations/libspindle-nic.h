/* SPDX-License-Identifier: BSD-3-Clause */
/* Made from the public headers by python/declarations.py. Do not edit. */

/* pipeline/nic.h */
#define SP_MAX_PORTS 4
#define SP_MAX_ADDRESSES 8
#define SP_MAX_STATIC 64
#define SP_FAULT_STACK 32
#define SP_MAX_USERS 64
struct sp_nic;
struct sp_report;
struct sp_handler;
struct rte_mbuf;
struct sp_port_ops {
 unsigned (*receive)(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now);
 unsigned (*transmit)(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now);
 sp_time (*next)(void *port, uint16_t queue,
                                            _Bool
                                                 transmit_blocked);
_Bool
     external;
 int (*descriptor)(void *port, uint16_t queue);
};
struct sp_port_config {
 const char *device;
 const struct sp_port_ops *ops;
 void *ops_arg;
};
struct sp_address {
 uint8_t ip[16];
 uint8_t prefix;
 uint8_t port;
};
struct sp_fault {
 const char *nic, *context, *handler;
 const char *file;
 const char *function;
 uint16_t worker;
 sp_time since;
_Bool
     runs;
_Bool
     fatal;
 const void *at;
 void *stack[32];
 unsigned depth;
 const uint8_t *frame[32];
 uint32_t frame_len[32];
 unsigned frames;
};
_Bool
    sp_fault_here(const void *ucontext, struct sp_fault *fault);
struct sp_neighbour_config {
 uint8_t ip[16];
 uint8_t mac[6];
};
struct sp_nic_config {
 char name[32];
 struct sp_address address[8];
 unsigned addresses;
 uint8_t gateway4[16], gateway6[16];
 uint8_t gateway6_port;
 uint8_t mac[6];
 uint32_t mtu;
 uint16_t vlan;
 uint16_t workers;
_Bool
     icrc_off;
_Bool
     payload_less;
 sp_time slice_time;
 uint64_t seed;
_Bool
     unpredictable;
 uint64_t secret;
 struct sp_port_config port[4];
 unsigned ports;
 struct sp_port_config exception;
_Bool
     exception_address;
 const char *exception_netns;
 struct sp_neighbour_config neighbour[64];
 unsigned neighbours;
_Bool
     any_source;
 uint64_t memory_limit;
 enum { SP_IDLE_SLEEP, SP_IDLE_YIELD, SP_IDLE_SPIN } idle;
 uint64_t (*cycles)(void *arg);
 void *cycles_arg;
 sp_time stall;
 void (*fault)(void *arg, const struct sp_fault *fault);
 void *fault_arg;
 const char *fault_capture;
};
struct sp_context_config {
 const char *name, *handler;
 const struct sp_setting *setting;
 size_t settings;
};
int sp_eal_init(int argc, char **argv, struct sp_error *error);
int sp_nic_create(const struct sp_nic_config *config, struct sp_error *error, struct sp_nic **nic);
void sp_nic_destroy(struct sp_nic *nic);
int sp_nic_context_add(struct sp_nic *nic, const struct sp_context_config *config, uint32_t *id,
         struct sp_error *error);
int sp_nic_context_remove(struct sp_nic *nic, uint32_t id);
int sp_nic_context_find(struct sp_nic *nic, const char *name, uint32_t *id);
uint64_t sp_nic_context_post_bytes(struct sp_nic *nic, uint32_t id);
uint64_t sp_nic_context_counter(struct sp_nic *nic, uint32_t id,
    const char *name);
unsigned sp_nic_poll(struct sp_nic *nic, uint16_t worker, sp_time now);
sp_time sp_nic_next_deadline(struct sp_nic *nic, uint16_t worker);
uint16_t sp_nic_workers(const struct sp_nic *nic);
int sp_nic_start(struct sp_nic *nic);
void sp_nic_stop(struct sp_nic *nic);
_Bool
    sp_nic_stopped(struct sp_nic *nic, char *text, size_t room);
int sp_nic_dev(struct sp_nic *nic,
                                  _Bool
                                       driven, struct sp_dev **dev);
struct sp_nic_totals {
 uint64_t received, bytes;
 uint64_t taken;
 uint64_t answered;
 uint64_t forwarded, dropped;
 uint64_t parked;
 uint64_t sent, sent_bytes;
};
void sp_nic_totals(struct sp_nic *nic, struct sp_nic_totals *totals);
uint64_t sp_nic_dropped(struct sp_nic *nic, const char *reason);
void sp_nic_report(struct sp_nic *nic, struct sp_report *report);
int sp_nic_report_text(struct sp_nic *nic,
                                          _Bool
                                               handlers, const char *context, char **json);
int sp_telemetry_serve(struct sp_nic *nic);
void sp_telemetry_end(struct sp_nic *nic);
struct sp_limits {
 uint64_t memory;
 uint32_t contexts;
 uint32_t qps;
 uint32_t messages;
};
struct sp_user_limits {
_Bool
     everyone;
 uint32_t uid;
 struct sp_limits limits;
 uint32_t applications;
_Bool
     refused;
 uint32_t weight;
 uint32_t worker_time;
 uint64_t packets, bytes;
_Bool
     filters;
};
struct sp_refusal {
 uint32_t uid, pid;
 const char *request;
 int status;
 const char *key, *text;
 uint64_t others;
};
struct sp_server_config {
 const char *path;
_Bool
     claimed;
 uint32_t mode;
 int64_t group;
 uint32_t applications;
 struct sp_user_limits user[64];
 unsigned users;
 void (*refused)(void *arg, const struct sp_refusal *refusal);
 void *refused_arg;
};
struct sp_server;
int sp_server_start(struct sp_nic *nic, const struct sp_server_config *config, struct sp_error *error,
      struct sp_server **server);
void sp_server_stop(struct sp_server *server);
struct rte_mbuf *sp_packet_alloc(void);
struct sp_report *sp_report_new(void);
char *sp_report_finish(struct sp_report *report);
struct sp_plugin;
int sp_plugin_load(const char *file, struct sp_plugin **plugin, struct sp_error *error);
int sp_plugin_unload(struct sp_plugin *plugin);
const char *sp_handler_file(const struct sp_handler *handler);
int sp_nic_handler_load(struct sp_nic *nic, const char *file, char **json, struct sp_error *error);
int sp_nic_handler_reload(struct sp_nic *nic, const char *name, const char *file, sp_time force, char **json,
     struct sp_error *error);
int sp_nic_handler_unload(struct sp_nic *nic, const char *name, struct sp_error *error);
unsigned sp_nic_handler_collect(struct sp_nic *nic);
int sp_nic_handler_text(struct sp_nic *nic, char **json);
const struct sp_handler *sp_handler_next(const struct sp_handler *after);
const struct sp_handler *sp_handler_find(const char *name);
