/* SPDX-License-Identifier: BSD-3-Clause */
/* Made from the public headers by python/declarations.py. Do not edit. */

/* handlers/wire/host.h */
#define SP_NEVER 18446744073709551615
#define SP_NS 1000
#define SP_US 1000000
#define SP_MS 1000000000
#define SP_SEC 1000000000000
#define SP_CMD_REPLY 1
#define SP_CONTROL_BYTES 8192
typedef uint64_t sp_time;
enum sp_command_op {
 SP_CMD_POST = 1,
 SP_CMD_COMPLETE = 2,
 SP_CMD_CLOSE = 3,
 SP_CMD_QUERY = 4,
 SP_CMD_OWN = 0x100,
};
struct sp_command {
 uint16_t op;
 uint16_t flags;
 uint32_t context;
 uint64_t cookie;
 uint64_t arg[6];
};
enum sp_event_type {
 SP_EVENT_RESULT = 1,
 SP_EVENT_CLOSED = 2,
 SP_EVENT_OWN = 0x100,
};
struct sp_event {
 uint32_t context;
 uint16_t type;
 uint16_t op;
 int32_t status;
 uint32_t reserved;
 uint64_t cookie;
 uint64_t arg[5];
};
struct sp_control {
 uint32_t op, context;
 uint32_t qp, in_len;
 const void *in;
 void *out;
 uint32_t out_room, out_len;
};
enum { SP_CONTROL_GONE = 0 , SP_CONTROL_OWN = 1 };


/* host-api/spindle.h */
struct sp_dev;
struct sp_mr {
 struct sp_dev *dev;
 void *addr;
 uint64_t len;
 uint32_t id;
};
struct sp_setting {
 const char *key, *value;
};
struct sp_error {
 char key[40];
 char text[256];
};
int sp_attach(const char *nic, struct sp_dev **dev);
int sp_socket_path(const char *nic,
                                   _Bool
                                        mine, char *path, size_t room);
int sp_mr_alloc(struct sp_dev *dev, uint64_t len, struct sp_mr **mr);
int sp_mr_reg(struct sp_dev *dev, void *addr, uint64_t len, struct sp_mr **mr);
int sp_mr_moved(struct sp_mr *mr, void *addr);
int sp_mr_free(struct sp_mr *mr);
int sp_context_open(struct sp_dev *dev, const char *name, const char *handler, const struct sp_setting *settings,
      size_t count, uint32_t *id, struct sp_error *error);
int sp_context_close(struct sp_dev *dev, uint32_t id);
int sp_context_qp(struct sp_dev *dev, uint32_t id, uint32_t *qpn);
int sp_context_area(struct sp_dev *dev, uint32_t id, void **addr, uint64_t *len);
int sp_dev_address(struct sp_dev *dev, int family, uint8_t ip[16]);
uint32_t sp_dev_payload(struct sp_dev *dev, int family);
int sp_command_post(struct sp_dev *dev, const struct sp_command *command);
int sp_command_call(struct sp_dev *dev, const struct sp_command *command, struct sp_event *result);
int sp_control_call(struct sp_dev *dev, uint32_t id,
                                                    _Bool
                                                         service, uint32_t op, uint32_t qp, const void *data,
      uint32_t bytes, void *answer, uint32_t *answered);
int sp_event_take(struct sp_dev *dev, uint32_t id, struct sp_event *event);
int sp_progress(struct sp_dev *dev, sp_time now);
sp_time sp_next_deadline(struct sp_dev *dev);
sp_time sp_clock(void);
int sp_dev_arm(struct sp_dev *dev);
enum sp_arm { SP_ARM_ANY = 1, SP_ARM_RECEIVE = 2 };
int sp_dev_arm_for(struct sp_dev *dev, enum sp_arm what);
int sp_dev_fd(struct sp_dev *dev);
int sp_dev_wait(struct sp_dev *dev, sp_time timeout);
void sp_dev_close(struct sp_dev *dev);

/* host-api/sdr.h */
#define SDR_EC_CODES 15
#define SDR_QP_INFO_MAGIC 1364345939
#define SDR_QP_INFO_VERSION 2
#define SDR_CONTROL_BYTES 1024
struct sdr_context;
struct sdr_qp;
struct sdr_send;
struct sdr_recv;
struct sdr_context_attr {
 uint32_t channels;
};
int sdr_context_create(struct sp_dev *dev, const struct sdr_context_attr *attr, struct sdr_context **context);
int sdr_context_destroy(struct sdr_context *context);
enum sdr_code { SDR_CODE_NONE, SDR_CODE_MDS, SDR_CODE_XOR };
struct sdr_ec {
 enum sdr_code code;
 uint32_t k, m;
};
struct sdr_qp_attr {
 uint32_t mtu;
 uint32_t chunk_bytes;
 uint64_t max_message_bytes;
 uint32_t max_messages;
 uint32_t generations;
 const char *split;
 uint32_t rkey;
 uint32_t qpn;
 uint64_t rate_bps;
 uint32_t segments;
 uint32_t control_slots;
_Bool
     no_send, no_recv;
 struct sdr_ec ec;
_Bool
     implicit_credit;
 uint64_t nonce;
 sp_time cts_interval;
 sp_time max_packet_life;
 int family;
 const char *name;
};
int sdr_qp_create(struct sdr_context *context, const struct sdr_qp_attr *attr, struct sdr_qp **qp,
    struct sp_error *error);
int sdr_qp_destroy(struct sdr_qp *qp);
struct sdr_qp_info {
 uint32_t magic, version;
 uint8_t ip[16];
 uint32_t qpn, control_qpn;
 uint64_t nonce;
 uint32_t rkey, mtu, chunk_bytes, max_messages, generations, channels;
 uint64_t max_message_bytes;
 uint8_t split[3];
 uint8_t ec_code, ec_k, ec_m;
 uint8_t reserved[50];
};
int sdr_qp_info_get(struct sdr_qp *qp, struct sdr_qp_info *info);
int sdr_qp_connect(struct sdr_qp *qp, const struct sdr_qp_info *peer);
const char *sdr_qp_mismatch(const struct sdr_qp *qp, const struct sdr_qp_info *peer);
int sdr_qp_disconnect(struct sdr_qp *qp);
struct sdr_qp_status {
 uint32_t id;
_Bool
     connected;
_Bool
     peer_seen;
_Bool
     peer_restarted;
_Bool
     closed;
 uint64_t may_send;
 uint64_t granted;
 uint64_t completed;
 uint64_t repaired;
 uint64_t repaired_runs;
 uint64_t queued;
 int error;
 uint32_t control_bytes;
 uint64_t control_lost;
};
int sdr_qp_status(struct sdr_qp *qp, struct sdr_qp_status *status);
int sdr_mr_alloc(struct sdr_context *context, uint64_t len, struct sp_mr **mr);
int sdr_mr_reg(struct sdr_context *context, void *addr, uint64_t len, struct sp_mr **mr);
int sdr_mr_dereg(struct sp_mr *mr);
int sdr_send_post(struct sdr_qp *qp, struct sp_mr *mr, uint64_t offset, uint64_t len, uint32_t immediate,
    struct sdr_send **send);
int sdr_send_stream_start(struct sdr_qp *qp, uint64_t length, uint32_t immediate, struct sdr_send **send);
int sdr_send_stream_continue(struct sdr_send *send, struct sp_mr *mr, uint64_t offset, uint64_t len, uint64_t at);
int sdr_send_stream_end(struct sdr_send *send);
int sdr_send_poll(struct sdr_send *send);
uint64_t sdr_send_message(const struct sdr_send *send);
uint64_t sdr_ec_parity_bytes(const struct sdr_qp *qp, uint64_t len);
unsigned sdr_ec_codes(const struct sdr_qp *qp, struct sdr_ec codes[15]);
int sdr_send_parity(struct sdr_qp *qp, struct sp_mr *mr, uint64_t offset, uint64_t len, struct sp_mr *scratch,
      uint64_t scratch_offset, struct sdr_send **send);
int sdr_send_parity_of(struct sdr_qp *qp, unsigned which, struct sp_mr *mr, uint64_t offset, uint64_t len,
         struct sp_mr *scratch, uint64_t scratch_offset, struct sdr_send **send);
int sdr_recv_post(struct sdr_qp *qp, struct sp_mr *mr, uint64_t offset, uint64_t len, struct sdr_recv **recv);
int sdr_recv_bitmap_get(struct sdr_recv *recv, const uint64_t **bitmap, uint64_t *chunks);

int sdr_recv_packets_get(struct sdr_recv *recv, uint64_t chunk, uint64_t *words, size_t max, uint64_t *packets);
int sdr_recv_imm_get(struct sdr_recv *recv, uint32_t *immediate, uint32_t *mask);
struct sdr_recv_status {
 uint64_t message;
_Bool
     open;
_Bool
     complete;
_Bool
     length_known;
 uint64_t length;
 uint64_t packets;
};
int sdr_recv_status(struct sdr_recv *recv, struct sdr_recv_status *status);
int sdr_recv_test(struct sdr_recv *recv);
int sdr_recv_complete(struct sdr_recv *recv);
int sdr_control_send(struct sdr_qp *qp, const void *bytes, uint32_t len);
int sdr_control_recv(struct sdr_qp *qp, void *bytes, uint32_t room);
int sdr_send_wait(struct sdr_send *send, sp_time timeout);
enum sdr_wait { SDR_WAIT_ALL , SDR_WAIT_ANY };
int sdr_recv_wait(struct sdr_recv *recv, enum sdr_wait what, uint64_t *seen, sp_time timeout);
int sdr_recv_complete_wait(struct sdr_recv *recv, sp_time timeout);

/* host-api/reliable.h */
struct sdr_reliable;
struct sdr_reliable_op;
enum sdr_reliable_scheme { SDR_SR_RTO, SDR_SR_NACK, SDR_EC_MDS, SDR_EC_XOR, SDR_AUTO };
struct sdr_reliable_attr {
 enum sdr_reliable_scheme scheme;
 sp_time rtt;
 uint32_t rto_quarters;
 sp_time reorder;
 sp_time timeout;
 sp_time recv_timeout;
 uint64_t rate_bps;
 uint32_t polls;
 uint32_t in_flight;
 uint64_t coding_rate;
 uint32_t queued_bytes;
};
int sdr_reliable_scheme(const char *name);
int sdr_reliable_open(struct sdr_qp *qp, const struct sdr_reliable_attr *attr, struct sdr_reliable **reliable);
int sdr_reliable_close(struct sdr_reliable *reliable, sp_time quiet);
int sdr_reliable_send(struct sdr_reliable *reliable, struct sp_mr *mr, uint64_t offset, uint64_t len,
        uint32_t immediate, struct sdr_reliable_op **op);
int sdr_reliable_recv(struct sdr_reliable *reliable, struct sp_mr *mr, uint64_t offset, uint64_t len,
        struct sdr_reliable_op **op);
int sdr_reliable_poll(const struct sdr_reliable_op *op);
void sdr_reliable_cancel(struct sdr_reliable_op *op);
int sdr_reliable_op_free(struct sdr_reliable_op *op);
struct sdr_reliable_op_status {
 uint64_t message;
 uint64_t length;
 uint32_t units, done;
 uint32_t immediate, mask;
 const uint64_t *bitmap;
};
void sdr_reliable_op_status(const struct sdr_reliable_op *op, struct sdr_reliable_op_status *status);
int sdr_reliable_progress(struct sdr_reliable *reliable, sp_time now);
sp_time sdr_reliable_deadline(const struct sdr_reliable *reliable);
struct sdr_reliable_status {
 uint64_t units, retransmitted;
 uint64_t spurious;
 uint64_t polls,
  polls_late;
 uint64_t acks, acks_stale;
 uint64_t answers;
 uint64_t refused;
 uint64_t coded;
 uint64_t coded_of[15];
 uint64_t parity;
 uint64_t repaired;
 uint64_t fallbacks;
 uint64_t sent, sent_failed, received, received_failed;
 uint32_t sending, receiving;
 sp_time rtt, rtt_variation, rtt_least;
};
void sdr_reliable_status(const struct sdr_reliable *reliable, struct sdr_reliable_status *status);

/* host-api/rvma.h */
#define RVMA_BEGIN 18446744073709551615
struct rvma;
struct rvma_window;
struct rvma_peer;
struct rvma_op;
struct rvma_attr {
 uint32_t mtu;
 uint32_t qpn;
 uint32_t windows;
 uint32_t buffers;
 uint32_t counters;
 uint32_t peers;
 uint32_t ops;
 uint64_t rate_bps;
 uint64_t nack_rate;
 sp_time timeout;
 sp_time ack_delay;
 int family;
 const char *name;
};
struct rvma_address {
 uint8_t ip[16];
 uint32_t qpn;
 uint32_t reserved[3];
};
int rvma_open(struct sp_dev *dev, const struct rvma_attr *attr, struct rvma **rvma, struct sp_error *error);
int rvma_close(struct rvma *rvma);
int rvma_address_get(struct rvma *rvma, struct rvma_address *address);
int rvma_peer_open(struct rvma *rvma, const struct rvma_address *address, struct rvma_peer **peer);
int rvma_peer_close(struct rvma_peer *peer);
enum rvma_epoch_type { RVMA_EPOCH_BYTES, RVMA_EPOCH_OPS };
enum rvma_mode {
 RVMA_STEERED,
 RVMA_MANAGED,
 RVMA_REGION,
};
struct rvma_window_attr {
 uint64_t key;
 uint64_t threshold;
 enum rvma_epoch_type type;
 enum rvma_mode mode;
_Bool
     catch_all;
_Bool
     silent;
_Bool
     readable;
_Bool
     forget;
 uint32_t max_buffers;
 uint64_t max_bytes;
 uint64_t max_put;
 uint64_t max_rate;
};
int rvma_init_window(struct rvma *rvma, uint64_t mailbox, const struct rvma_window_attr *attr,
       struct rvma_window **window);
struct rvma_notification {
 void *address;
 uint64_t length;
 uint64_t epoch;
 uint64_t flags;
 uint64_t mailbox;
 uint64_t puts;
 uint64_t reserved[2];
};
enum {
 RVMA_PARTIAL = 1,
 RVMA_LOST = 2,
 RVMA_ENDED = 4,
};
struct rvma_buffer {
 struct sp_mr *mr;
 uint64_t offset, size;
 struct sp_mr *notify_mr;
 uint64_t notify_offset;
 uint64_t threshold;
};
int rvma_post_buffer(struct rvma_window *window, const struct rvma_buffer *buffer);
int rvma_close_win(struct rvma_window *window);
int rvma_free_win(struct rvma_window *window);
int rvma_win_inc_epoch(struct rvma_window *window);
int rvma_win_get_epoch(struct rvma_window *window, uint64_t *epoch);
struct rvma_window_status {
 uint64_t epoch, posted, held;
 uint64_t puts, bytes, refused;
 uint64_t lost;
 uint64_t gone;
_Bool
     closed;
};
int rvma_win_status(struct rvma_window *window, struct rvma_window_status *status);
struct rvma_completed {
 void *address;
 uint64_t length, epoch, flags, mailbox;
};
int rvma_win_get_buf_ptrs(struct rvma_window *window, struct rvma_completed *completed, unsigned count);
int rvma_win_release(struct rvma_window *window, uint64_t epoch);
int rvma_win_rewind(struct rvma_window *window, uint64_t epoch, struct rvma_completed *completed);
enum rvma_wait {
 RVMA_WAIT_POLL,
 RVMA_WAIT_MONITOR,
 RVMA_WAIT_SLEEP,
};
int rvma_wait(struct rvma *rvma, const volatile struct rvma_notification *notification, enum rvma_wait how,
       sp_time timeout);
_Bool
    rvma_wait_monitors(void);
int rvma_put_at(struct rvma_peer *peer, uint64_t mailbox, uint64_t key, struct sp_mr *mr, uint64_t offset,
  uint64_t size, uint64_t at, struct rvma_op **op);
int rvma_put(struct rvma_peer *peer, uint64_t mailbox, uint64_t key, struct sp_mr *mr, uint64_t offset, uint64_t size,
      struct rvma_op **op);
int rvma_put_fenced(struct rvma_peer *peer, uint64_t mailbox, uint64_t key, struct sp_mr *mr, uint64_t offset,
      uint64_t size, struct rvma_op **op);
int rvma_get(struct rvma_peer *peer, uint64_t mailbox, uint64_t key, unsigned back, uint64_t at, struct sp_mr *mr,
      uint64_t offset, uint64_t size, struct rvma_op **op);
int rvma_op_test(struct rvma_op *op);
int rvma_op_wait(struct rvma_op *op, sp_time timeout);
const char *rvma_op_reason(int error);
