/* SPDX-License-Identifier: BSD-3-Clause */
/* Made from the public headers by python/declarations.py. Do not edit. */

/* handlers/wire/rdma.h */
#define SP_RDMA_SGES 16
#define SP_RDMA_INLINE 256
#define SP_RDMA_QUEUE_LOG 15
#define SP_RDMA_CQ_LOG 22
#define SP_RDMA_READS 16
#define SP_RDMA_MSG 2147483648
#define SP_RDMA_GRH 40
#define SP_RDMA_SEGMENTS 64
#define SP_RDMA_PRIVATE 224
#define SP_RDMA_AGENT_LOG_MIN 12
#define SP_RDMA_AGENT_LOG_MAX 20
#define SP_RDMA_FETCHED 4294967295
enum sp_rdma_qp_type { SP_RDMA_RC = 2, SP_RDMA_UC = 3, SP_RDMA_UD = 4 };
enum sp_rdma_qp_state { SP_RDMA_RESET, SP_RDMA_INIT, SP_RDMA_RTR, SP_RDMA_RTS, SP_RDMA_SQD, SP_RDMA_SQE, SP_RDMA_ERR };
enum sp_rdma_access {
        SP_RDMA_LOCAL_WRITE = 1,
        SP_RDMA_REMOTE_WRITE = 2,
        SP_RDMA_REMOTE_READ = 4,
        SP_RDMA_REMOTE_ATOMIC = 8,
        SP_RDMA_MW_BIND = 16,
};
enum sp_rdma_wr_op {
       SP_RDMA_WR_WRITE,
       SP_RDMA_WR_WRITE_IMM,
       SP_RDMA_WR_SEND,
       SP_RDMA_WR_SEND_IMM,
       SP_RDMA_WR_READ,
       SP_RDMA_WR_CAS,
       SP_RDMA_WR_FETCH_ADD,
       SP_RDMA_WR_LOCAL_INV = 7,
       SP_RDMA_WR_BIND_MW = 8,
       SP_RDMA_WR_SEND_INV = 9,
};
enum { SP_RDMA_FENCE = 1, SP_RDMA_SIGNALED = 2, SP_RDMA_SOLICITED = 4, SP_RDMA_INLINED = 8 };
struct sp_rdma_sge {
 uint64_t addr;
 uint32_t len, lkey;
};
struct sp_rdma_wqe {
 uint32_t owner;
 uint8_t op, flags, sges, reserved;
 uint64_t wr_id;
 uint32_t imm, length;
 uint64_t remote;
 uint32_t rkey, ah;
 uint64_t compare_add, swap;
 uint32_t remote_qp, qkey;
};

struct sp_rdma_rqe {
 uint32_t owner, sges;
 uint64_t wr_id;
};

struct sp_rdma_queue {
 uint32_t tail, rung;
 uint8_t pad[56];
};

enum {
 SP_RDMA_CMD_DOORBELL = SP_CMD_OWN,
 SP_RDMA_CMD_FETCHED,
};
enum sp_rdma_status {
        SP_RDMA_OK,
        SP_RDMA_LOC_LEN_ERR,
        SP_RDMA_LOC_QP_OP_ERR,
        SP_RDMA_LOC_PROT_ERR = 4,
        SP_RDMA_FLUSHED = 5,
        SP_RDMA_MW_BIND_ERR = 6,
        SP_RDMA_BAD_RESP_ERR = 7,
        SP_RDMA_LOC_ACCESS_ERR = 8,
        SP_RDMA_REM_INV_REQ_ERR = 9,
        SP_RDMA_REM_ACCESS_ERR = 10,
        SP_RDMA_REM_OP_ERR = 11,
        SP_RDMA_RETRY_EXC_ERR = 12,
        SP_RDMA_RNR_RETRY_EXC_ERR = 13,
        SP_RDMA_FATAL_ERR = 19,
};
enum sp_rdma_wc_op {
       SP_RDMA_WC_SEND,
       SP_RDMA_WC_WRITE,
       SP_RDMA_WC_READ,
       SP_RDMA_WC_CAS,
       SP_RDMA_WC_FETCH_ADD,
       SP_RDMA_WC_BIND_MW = 5,
       SP_RDMA_WC_LOCAL_INV = 6,
       SP_RDMA_WC_RECV = 128,
       SP_RDMA_WC_RECV_WRITE_IMM = 129,
};
enum { SP_RDMA_WC_GRH = 1, SP_RDMA_WC_IMM = 2, SP_RDMA_WC_INV = 8, SP_RDMA_WC_IPV4 = 0x80 };
struct sp_rdma_cqe {
 uint64_t wr_id;
 uint32_t len, imm;
 uint32_t qp, src_qp;
 uint32_t entries;
 uint8_t status, op, flags, vendor;
 uint64_t reserved[3];
 uint32_t reserved2;
 uint32_t phase;
};


struct sp_rdma_cq_head {
 uint32_t consumer, armed;
 uint8_t pad[56];
};

enum { SP_RDMA_ARM_NONE, SP_RDMA_ARM_ANY, SP_RDMA_ARM_SOLICITED };
enum sp_rdma_event {
       SP_RDMA_EVENT_CQ = SP_EVENT_OWN,
       SP_RDMA_EVENT_ASYNC,
       SP_RDMA_EVENT_CM,
       SP_RDMA_EVENT_FETCH,
};
enum sp_rdma_async {
       SP_RDMA_ASYNC_CQ_ERR,
       SP_RDMA_ASYNC_QP_FATAL,
       SP_RDMA_ASYNC_QP_REQ_ERR,
       SP_RDMA_ASYNC_QP_ACCESS_ERR,
       SP_RDMA_ASYNC_COMM_EST,
       SP_RDMA_ASYNC_SQ_DRAINED,
       SP_RDMA_ASYNC_SRQ_ERR = 14,
       SP_RDMA_ASYNC_SRQ_LIMIT = 15,
       SP_RDMA_ASYNC_QP_LAST_WQE = 16,
};
enum sp_rdma_fetch {
 SP_RDMA_FETCH_READ = 1,
 SP_RDMA_FETCH_CAS,
 SP_RDMA_FETCH_ADD,
 SP_RDMA_FETCH_WRITE,
};
struct sp_rdma_agent {
 uint64_t offset;
 uint32_t mem, log;
};

enum sp_rdma_control {
 SP_RDMA_QUERY = 1,
 SP_RDMA_PD_CREATE,
 SP_RDMA_PD_DESTROY,
 SP_RDMA_MR_REG,
 SP_RDMA_MR_DEREG,
 SP_RDMA_CQ_CREATE,
 SP_RDMA_CQ_DESTROY,
 SP_RDMA_SRQ_CREATE,
 SP_RDMA_SRQ_LIMIT,
 SP_RDMA_SRQ_DESTROY,
 SP_RDMA_AH_CREATE,
 SP_RDMA_AH_DESTROY,
 SP_RDMA_AGENT,
 SP_RDMA_MW_ALLOC,
 SP_RDMA_MW_DEALLOC,
 SP_RDMA_QP_CREATE,
 SP_RDMA_QP_MODIFY,
 SP_RDMA_QP_QUERY,
 SP_RDMA_QP_DESTROY,
};
struct sp_rdma_id {
 uint32_t id;
};
struct sp_rdma_limits {
 uint32_t qps, cqs, srqs, pds, mrs, ahs;
 uint32_t wrs, sges, cqes, inlined, reads, segments;
};
struct sp_rdma_segment {
 uint64_t len, offset;
 uint32_t mem, reserved;
};
struct sp_rdma_mr_reg {
 uint64_t va, len;
 uint32_t pd, access, segments, reserved;
 struct sp_rdma_segment segment[];
};
struct sp_rdma_keys {
 uint32_t lkey, rkey;
};
enum sp_rdma_mw_type { SP_RDMA_MW_1 = 1, SP_RDMA_MW_2 = 2 };
struct sp_rdma_mw_alloc {
 uint32_t pd, type;
};
struct sp_rdma_cq_create {
 uint64_t cookie, offset;
 uint32_t mem, log, channel, reserved;
};
struct sp_rdma_srq_create {
 uint64_t cookie, offset;
 uint32_t mem, log, pd, sges, limit, reserved;
};
struct sp_rdma_srq_limit {
 uint32_t id, limit;
};
struct sp_rdma_ah {
 uint8_t ip[16];
 uint32_t pd;
 uint16_t udp_source;
 uint8_t traffic_class, hop_limit;
};
struct sp_rdma_qp_create {
 uint64_t cookie, sq, rq;
 uint32_t mem, type, pd, send_cq, recv_cq, srq;
 uint32_t sq_log, rq_log, send_sges, recv_sges, inlined, all_signaled;
};
struct sp_rdma_qp {
 uint32_t qp, worker;
};
enum sp_rdma_qp_mask {
 SP_RDMA_QP_STATE = 1 << 0,
 SP_RDMA_QP_SQD_NOTIFY = 1 << 2,
 SP_RDMA_QP_ACCESS = 1 << 3,
 SP_RDMA_QP_PKEY = 1 << 4,
 SP_RDMA_QP_PORT = 1 << 5,
 SP_RDMA_QP_QKEY = 1 << 6,
 SP_RDMA_QP_AV = 1 << 7,
 SP_RDMA_QP_PATH_MTU = 1 << 8,
 SP_RDMA_QP_TIMEOUT = 1 << 9,
 SP_RDMA_QP_RETRY_CNT = 1 << 10,
 SP_RDMA_QP_RNR_RETRY = 1 << 11,
 SP_RDMA_QP_RQ_PSN = 1 << 12,
 SP_RDMA_QP_MAX_RD = 1 << 13,
 SP_RDMA_QP_MIN_RNR = 1 << 15,
 SP_RDMA_QP_SQ_PSN = 1 << 16,
 SP_RDMA_QP_MAX_DEST_RD = 1 << 17,
 SP_RDMA_QP_DEST_QP = 1 << 20,
 SP_RDMA_QP_RATE = 1 << 25,
 SP_RDMA_QP_SELECTIVE = 1 << 28,
};
struct sp_rdma_qp_attr {
 uint32_t mask, state, access, qkey;
 uint8_t ip[16];
 uint32_t dest_qp, rq_psn, sq_psn;
 uint32_t path_mtu;
 uint16_t udp_source;
 uint8_t traffic_class, hop_limit;
 uint8_t max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, timeout;
 uint8_t retry_cnt, rnr_retry, selective, draining;
 uint32_t rate;
 uint8_t sqd_notify, reserved[3];
 uint32_t retries, naks_sent, naks_received, rnrs_sent, rnrs_received;
};
enum sp_cm_control {
 SP_CM_CREATE = 1,
 SP_CM_DESTROY,
 SP_CM_LISTEN,
 SP_CM_CONNECT,
 SP_CM_ACCEPT,
 SP_CM_REJECT,
 SP_CM_READY,
 SP_CM_DISCONNECT,
 SP_CM_TAKE,
 SP_CM_ESTABLISHED,
 SP_CM_BIND,
};
enum sp_cm_kind { SP_CM_CONNECTED , SP_CM_DATAGRAM };
struct sp_cm_create {
 uint64_t cookie;
 uint32_t kind, port_space;
};
struct sp_cm_id {
 uint32_t id;
};
struct sp_cm_listen {
 uint32_t id, backlog;
 uint8_t ip[16];
 uint16_t port;
 uint16_t shared;
};
struct sp_cm_param {
 uint32_t id, qp, psn, qkey;
 uint8_t to[16], from[16];
 uint16_t to_port, from_port;
 uint8_t type;
 uint8_t responder_resources, initiator_depth, retry_count, rnr_retry_count, srq, path_mtu_code, timeout;
 uint16_t reason;
 uint16_t private_len;
 uint8_t selective, reserved[3];
 uint8_t private_data[];
};
enum sp_cm_event_type {
   SP_CM_EVENT_REQUEST = 4,
   SP_CM_EVENT_RESPONSE = 5,
   SP_CM_EVENT_ERROR = 6,
   SP_CM_EVENT_UNREACHABLE = 7,
   SP_CM_EVENT_REJECTED = 8,
   SP_CM_EVENT_ESTABLISHED = 9,
   SP_CM_EVENT_DISCONNECTED = 10,
   SP_CM_EVENT_TIMEWAIT = 15,
};
struct sp_cm_event {
 uint64_t cookie;
 uint32_t id, type;
 int32_t status;
 uint32_t qp, psn, qkey;
 uint8_t peer[16], own[16];
 uint16_t peer_port, own_port;
 uint8_t qp_type, responder_resources, initiator_depth, retry_count, rnr_retry_count, srq, path_mtu_code,
  timeout;
 uint16_t private_len;
 uint8_t selective, reserved;
 uint8_t private_data[];
};

/* host-api/rdma.h */
struct sp_rdma;
struct sp_rdma_pd;
struct sp_rdma_cq;
struct sp_rdma_srq;
struct sp_rdma_pair;
struct sp_rdma_target;
struct sp_rdma_cm;
struct sp_rdma_attr {
 uint32_t qps, cqs, srqs, pds, mrs, ahs;
_Bool
     congestion;
 const char *name;
};
int sp_rdma_open(struct sp_dev *dev, const struct sp_rdma_attr *attr, struct sp_rdma **rdma, struct sp_error *error);
int sp_rdma_close(struct sp_rdma *rdma);
int sp_rdma_query(struct sp_rdma *rdma, struct sp_rdma_limits *limits);
int sp_rdma_pd_alloc(struct sp_rdma *rdma, struct sp_rdma_pd **pd);
int sp_rdma_pd_dealloc(struct sp_rdma_pd *pd);
struct sp_rdma *sp_rdma_of(const struct sp_rdma_pd *pd);
struct sp_dev *sp_rdma_dev(const struct sp_rdma *rdma);
struct sp_rdma_mr {
 struct sp_rdma_pd *pd;
 uint64_t va, len;
 uint32_t lkey, rkey;
};
struct sp_rdma_range {
 struct sp_mr *mr;
 uint64_t offset, len;
};
int sp_rdma_mr_reg(struct sp_rdma_pd *pd, struct sp_mr *mr, uint64_t offset, uint64_t len, unsigned access,
     struct sp_rdma_mr **out);
int sp_rdma_mr_reg_ranges(struct sp_rdma_pd *pd, uint64_t va, const struct sp_rdma_range *ranges, unsigned count,
     unsigned access, struct sp_rdma_mr **out);
struct sp_rdma_fetch_op {
 enum sp_rdma_fetch kind;
 uint32_t len;
 uint64_t va;
 void *own;
 void *bytes;
 uint64_t value, compare;
 uint64_t before;
};
typedef int sp_rdma_agent_fn(void *user, struct sp_rdma_fetch_op *op);
int sp_rdma_agent_start(struct sp_rdma *rdma, sp_rdma_agent_fn *serve, void *user);
void sp_rdma_mr_lies_at(struct sp_rdma_mr *mr, void *addr);
int sp_rdma_mr_dereg(struct sp_rdma_mr *mr);
struct sp_rdma_mw {
 struct sp_rdma_pd *pd;
 uint32_t rkey;
};
int sp_rdma_mw_alloc(struct sp_rdma_pd *pd, enum sp_rdma_mw_type type, struct sp_rdma_mw **mw);
int sp_rdma_mw_dealloc(struct sp_rdma_mw *mw);

int sp_rdma_cq_create(struct sp_rdma *rdma, uint32_t entries,
                                                             _Bool
                                                                  channel, void *user, struct sp_rdma_cq **cq);
int sp_rdma_cq_destroy(struct sp_rdma_cq *cq);
struct sp_rdma_wc {
 uint64_t wr_id;
 enum sp_rdma_status status;
 enum sp_rdma_wc_op op;
 uint32_t flags;
 uint32_t len, imm;
 uint32_t qp, src_qp;
 uint32_t done;
 uint8_t vendor;
};
int sp_rdma_poll_cq(struct sp_rdma_cq *cq, struct sp_rdma_wc *wc, int room);
int sp_rdma_cq_arm(struct sp_rdma_cq *cq,
                                         _Bool
                                              solicited);
int sp_rdma_cq_wait(struct sp_rdma_cq *cq, sp_time timeout);
struct sp_rdma_srq_attr {
 uint32_t entries, sges;
 uint32_t limit;
 void *user;
};
int sp_rdma_srq_create(struct sp_rdma_pd *pd, const struct sp_rdma_srq_attr *attr, struct sp_rdma_srq **srq);
int sp_rdma_srq_arm(struct sp_rdma_srq *srq, uint32_t limit);
int sp_rdma_srq_destroy(struct sp_rdma_srq *srq);
int sp_rdma_ah_create(struct sp_rdma_pd *pd, const struct sp_rdma_ah *ah, struct sp_rdma_target **target);
int sp_rdma_ah_destroy(struct sp_rdma_target *target);
struct sp_rdma_qp_init {
 enum sp_rdma_qp_type type;
 struct sp_rdma_cq *send_cq, *recv_cq;
 struct sp_rdma_srq *srq;
 uint32_t send_wr, recv_wr;
 uint32_t send_sges, recv_sges;
 uint32_t inlined;
_Bool
     all_signaled;
 void *user;
};
int sp_rdma_qp_create(struct sp_rdma_pd *pd, const struct sp_rdma_qp_init *init, struct sp_rdma_pair **qp);
int sp_rdma_qp_modify(struct sp_rdma_pair *qp, const struct sp_rdma_qp_attr *attr);
int sp_rdma_qp_query(struct sp_rdma_pair *qp, struct sp_rdma_qp_attr *attr);
int sp_rdma_qp_destroy(struct sp_rdma_pair *qp);
uint32_t sp_rdma_qp_number(const struct sp_rdma_pair *qp);
void *sp_rdma_qp_user(const struct sp_rdma_pair *qp);
struct sp_rdma_send_wr {
 const struct sp_rdma_send_wr *next;
 uint64_t wr_id;
 enum sp_rdma_wr_op op;
 unsigned flags;
 const struct sp_rdma_sge *sge;
 unsigned sges;
 uint32_t imm;
 uint64_t remote;
 uint32_t rkey;
 uint64_t compare_add, swap;
 struct sp_rdma_target *ah;
 uint32_t remote_qp, qkey;
};
struct sp_rdma_recv_wr {
 const struct sp_rdma_recv_wr *next;
 uint64_t wr_id;
 const struct sp_rdma_sge *sge;
 unsigned sges;
};
int sp_rdma_post_send(struct sp_rdma_pair *qp, const struct sp_rdma_send_wr *wr, const struct sp_rdma_send_wr **bad);
int sp_rdma_post_recv(struct sp_rdma_pair *qp, const struct sp_rdma_recv_wr *wr, const struct sp_rdma_recv_wr **bad);
int sp_rdma_post_srq_recv(struct sp_rdma_srq *srq, const struct sp_rdma_recv_wr *wr,
     const struct sp_rdma_recv_wr **bad);
enum sp_rdma_notice_kind { SP_RDMA_NOTICE_CQ, SP_RDMA_NOTICE_ASYNC, SP_RDMA_NOTICE_CM };
struct sp_rdma_notice {
 enum sp_rdma_notice_kind kind;
 enum sp_rdma_async async;
 struct sp_rdma_cq *cq;
 struct sp_rdma_srq *srq;
 struct sp_rdma_pair *qp;
 void *user;
};
int sp_rdma_notice_take(struct sp_rdma *rdma, struct sp_rdma_notice *notice);
struct sp_rdma_cm_event {
 struct sp_rdma_cm *cm;
 struct sp_rdma_cm *listener;
 void *user;
 enum sp_cm_event_type type;
 int status;
 uint32_t qp, psn, qkey;
 uint8_t peer[16], own[16];
 uint16_t peer_port, own_port;
 uint8_t qp_type, responder_resources, initiator_depth, retry_count, rnr_retry_count, srq, path_mtu_code,
  timeout;
_Bool
     selective;
 uint16_t private_len;
 uint8_t private_data[224];
};
int sp_rdma_cm_create(struct sp_rdma *rdma, enum sp_cm_kind kind, uint32_t port_space, void *user,
        struct sp_rdma_cm **cm);
int sp_rdma_cm_destroy(struct sp_rdma_cm *cm);
void sp_rdma_cm_set_user(struct sp_rdma_cm *cm, void *user);
int sp_rdma_cm_bind(struct sp_rdma_cm *cm, const uint8_t ip[16], uint16_t *port,
                                                                                _Bool
                                                                                     shared);
int sp_rdma_cm_listen(struct sp_rdma_cm *cm, const uint8_t ip[16], uint16_t *port, uint32_t backlog);
int sp_rdma_cm_connect(struct sp_rdma_cm *cm, const struct sp_cm_param *param, const void *private_data);
int sp_rdma_cm_accept(struct sp_rdma_cm *cm, const struct sp_cm_param *param, const void *private_data);
int sp_rdma_cm_reject(struct sp_rdma_cm *cm, const struct sp_cm_param *param, const void *private_data);
int sp_rdma_cm_ready(struct sp_rdma_cm *cm);
int sp_rdma_cm_established(struct sp_rdma_cm *cm);
int sp_rdma_cm_disconnect(struct sp_rdma_cm *cm);
int sp_rdma_cm_take(struct sp_rdma *rdma, struct sp_rdma_cm_event *event);
int sp_rdma_cm_wait(struct sp_rdma *rdma, struct sp_rdma_cm_event *event, sp_time timeout);
struct sp_rdma_link {
 uint8_t to[16], from[16];
 uint16_t port;
 uint16_t private_len;
 const void *private_data;
 uint32_t path_mtu;
 unsigned access;
 uint32_t qkey;
 uint8_t reads;
 uint8_t timeout;
 uint8_t retry_cnt, rnr_retry, min_rnr_timer;
_Bool
     selective;
};
int sp_rdma_prepare(struct sp_rdma_pair *qp, const struct sp_rdma_link *link);
int sp_rdma_connect(struct sp_rdma_cm *cm, struct sp_rdma_pair *qp, const struct sp_rdma_link *link,
      struct sp_rdma_cm_event *reply, sp_time timeout);
int sp_rdma_accept(const struct sp_rdma_cm_event *request, struct sp_rdma_pair *qp, const struct sp_rdma_link *link);
