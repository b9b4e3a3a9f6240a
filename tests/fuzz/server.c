/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A running NIC and an application that lies to it in every way it has: requests that are none, commands that nobody
 * would write, indexes and entries of the shared queues changed under the workers' eyes. The first byte of an input
 * says which. A second application, which does nothing wrong, must not notice: its memory, its context and its calls
 * are looked at after each input. Nothing may hang, and what the liar had must be gone when its connection is.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rte_mbuf.h>

#include "../../handlers/wire/capture.h"
#include "../../handlers/wire/rdma.h"
#include "../../handlers/wire/roce.h"
#include "../../handlers/wire/sdr.h"
#include "../../host-api/attach.h"
#include "../../pipeline/engine.h"
#include "../../pipeline/exec/rings.h"
#include "../lib/ports.h"
#ifdef FUZZ_STANDALONE
#include "standalone.h"
#endif

#define PROMISE(x)                                                                                                     \
	do {                                                                                                           \
		if (!(x)) {                                                                                            \
			fprintf(stderr, "line %d: %s\n", __LINE__, #x);                                                \
			__builtin_trap();                                                                              \
		}                                                                                                      \
	} while (0)

#define WORKERS 2
#define LIFE	500 /* inputs that one connection lives, if it is not ended before */
#define ROOM	65536

enum { REQUEST = 0, REQUEST_RIGHT, COMMAND, TAMPER };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- the port: nothing comes, everything out is thrown away ---- */
static const struct sp_port_ops port = {port_hear_nothing, port_swallow, port_never};

/* ---- the NIC, and who does nothing wrong ---- */
static struct sp_nic *nic;
static struct sp_server *server;
static struct sp_dev *witness;
static struct sp_mr *own;
static uint32_t own_context, manager; /* manager: the service of connections, the NIC's own */
static uint64_t quiet;		      /* memory of the NIC's in use while the liar is not there */
static char path[64];

static void open_nic(void)
{
	struct sp_nic_config config = {.addresses = 1, .ports = 1, .port[0].ops = &port, .workers = WORKERS};
	struct sp_server_config s = {
		.path = path,
		.group = -1,
		.users = 1,
		.user[0] = {.everyone = true, .limits = {.memory = 8 << 20, .contexts = 8, .qps = 64, .messages = 256}},
	};
	const struct sp_setting setting[] = {{"qp", "0x10000"}};
	const struct sp_setting gsi = {"qp", "1"};
	const struct sp_context_config cm = {"cm", "cm", &gsi, 1};
	struct sp_error error;

	snprintf(path, sizeof(path), "./fuzz-server-%d.sock", (int)getpid());
	PROMISE(!getenv("TMPDIR") || !chdir(getenv("TMPDIR")));
	PROMISE(!sp_eal_init(0, NULL, &error));
	memcpy(config.address[0].ip, (uint8_t[16]){[10] = 0xFF, [11] = 0xFF, 192, 0, 2, 1}, 16);
	config.address[0].prefix = 24;
	PROMISE(!sp_nic_create(&config, &error, &nic) && !sp_nic_start(nic));
	PROMISE(!sp_nic_context_add(nic, &cm, &manager, &error));
	PROMISE(!sp_server_start(nic, &s, &error, &server) && !sp_attach(path, &witness));
	PROMISE(!sp_mr_alloc(witness, ROOM, &own));
	PROMISE(!sp_context_open(witness, "witness", "sdr", setting, 1, &own_context, &error));
	memset(own->addr, 0xA5, ROOM);
	quiet = nic->memory_used;
}

/* ---- who lies ---- */
static struct sp_attach_link liar = {.fd = -1};
static struct sp_attach_queues *queues;
static uint64_t queues_bytes;
static int post = -1; /* eventfd: tells the NIC of what a parked application has posted */
static uint32_t context[8], memory[8], qp[8], key[8], connection[8], contexts, memories, qps, keys, connections,
	tail[WORKERS];
static unsigned age;
static uint64_t done[SP_ATTACH_SEALED + 1]; /* requests that got what they wanted */
static uint64_t verbs_done[SP_RDMA_QP_DESTROY + 1], cm_done[SP_CM_BIND + 1];

static bool ask_memory(struct sp_attach_exchange *x, void **at, uint64_t *bytes)
{
	return !sp_attach_exchange_memory(&liar, x, at, bytes);
}

static void lie_memory(void)
{
	struct sp_attach_exchange x = {.op = SP_ATTACH_MR_ALLOC, .arg = {ROOM}};
	uint64_t bytes;
	void *at;

	if (ask_memory(&x, &at, &bytes)) {
		memory[memories++ % 8] = (uint32_t)x.arg[0];
		munmap(at, bytes);
	}
	sp_attach_release(&x);
}

static void lie_context(const char *text, size_t bytes, uint64_t settings)
{
	struct sp_attach_exchange x = {.op = SP_ATTACH_OPEN, .arg = {settings}, .data = text, .bytes = (uint32_t)bytes};

	uint64_t size;
	void *at;

	PROMISE(ask_memory(&x, &at, &size));
	munmap(at, size);
	context[contexts++ % 8] = (uint32_t)x.arg[0];
	sp_attach_release(&x);
}

#define SDR                                                                                                            \
	"one\0sdr\0qp\0"                                                                                               \
	"0x100\0mtu\0"                                                                                                 \
	"1024\0chunk-bytes\0"                                                                                          \
	"2048\0max-message-bytes\0"                                                                                    \
	"64K\0max-messages\0"                                                                                          \
	"4"
#define RDMA                                                                                                           \
	"verbs\0rdma\0qp\0"                                                                                            \
	"any\0qps\0"                                                                                                   \
	"4\0cqs\0"                                                                                                     \
	"8\0srqs\0"                                                                                                    \
	"8\0pds\0"                                                                                                     \
	"8\0mrs\0"                                                                                                     \
	"16\0ahs\0"                                                                                                    \
	"8"
#define SDR_IMPLICIT                                                                                                   \
	"two\0sdr\0qp\0"                                                                                               \
	"0x200\0mtu\0"                                                                                                 \
	"64\0max-messages\0"                                                                                           \
	"2\0credit\0implicit\0split\0"                                                                                 \
	"2+26+4"

static void connect_liar(void)
{
	struct sp_attach_exchange x = {.op = SP_ATTACH_HELLO};
	void *at;

	PROMISE(!sp_attach_connect(&liar, path) && ask_memory(&x, &at, &queues_bytes));
	queues = at;
	post = x.fd[1];
	x.fd[1] = -1;
	sp_attach_release(&x);
	memset(tail, 0, sizeof(tail));
	contexts = memories = qps = keys = connections = age = 0;
	lie_memory();
	lie_memory(); /* for the verbs: the seeds free the first one */
	lie_context(SDR, sizeof(SDR), 5);
	lie_context(SDR_IMPLICIT, sizeof(SDR_IMPLICIT), 5);
	lie_context("echo\0reflect\0filter\0udp port 7", 31, 1);
	lie_context(RDMA, sizeof(RDMA), 7);
}

/* Those that SP_ATTACH_HANDLER has made are the NIC's own: they stay when the liar goes, which is its user here. */
static void remove_contexts(void)
{
	uint32_t id;

	do {
		id = 0;
		pthread_mutex_lock(&nic->control);
		for (uint32_t i = 0; i < nic->context_next && !id; i++)
			if (nic->context[i] && !nic->context[i]->owner && nic->context[i]->id != manager)
				id = nic->context[i]->id;
		pthread_mutex_unlock(&nic->control);
		PROMISE(!id || !sp_nic_context_remove(nic, id));
	} while (id);
}

static void disconnect_liar(void)
{
	const sp_time until = sp_clock() + 30 * SP_SEC;

	if (liar.fd < 0)
		return;
	close(liar.fd);
	liar.fd = -1;
	close(post);
	munmap(queues, queues_bytes);
	remove_contexts();
	while (atomic_load_explicit(&nic->memory_used, memory_order_acquire) != quiet)
		PROMISE(sp_clock() < until);
}

/* Of the last control request: where it went to the verbs' context, or to the service. 0: it did not. */
static uint64_t verb, cm;

/* The next reply; *fd: the first descriptor that comes with it, or -1. False: the connection is over. */
static bool reply(int *fd)
{
	const struct sp_attach_reply *reply = (const void *)liar.message;
	struct pollfd p = {.fd = liar.fd, .events = POLLIN};
	union {
		struct cmsghdr head;
		uint8_t bytes[CMSG_SPACE(SP_ATTACH_FDS * sizeof(int))];
	} control;
	struct iovec part = {liar.message, sizeof(liar.message)};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control)};
	const struct cmsghdr *c;
	ssize_t n;

	PROMISE(poll(&p, 1, 30000) == 1); /* a reply, or the end */
	n = recvmsg(liar.fd, &message, 0);
	*fd = -1;
	PROMISE(n <= 0 || n >= (ssize_t)sizeof(*reply));
	c = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	for (size_t at = CMSG_LEN(0); c && at < c->cmsg_len; at += sizeof(int)) {
		if (*fd >= 0)
			close(*fd);
		memcpy(fd, (const uint8_t *)c + at, sizeof(*fd));
	}
	if (n > 0 && !reply->status && reply->op <= SP_ATTACH_SEALED)
		done[reply->op]++;
	if (n > 0 && !reply->status && reply->op == SP_ATTACH_CONTROL) {
		verbs_done[verb]++;
		cm_done[cm]++;
		if (verb == SP_RDMA_QP_CREATE && reply->bytes >= sizeof(struct sp_rdma_qp))
			memcpy(&qp[qps++ % 8], reply->data, sizeof(*qp));
		if ((verb == SP_RDMA_MR_REG || verb == SP_RDMA_MW_ALLOC) && reply->bytes >= sizeof(struct sp_rdma_keys))
			memcpy(&key[keys++ % 8], reply->data + offsetof(struct sp_rdma_keys, rkey), sizeof(*key));
		if (cm == SP_CM_CREATE && reply->bytes >= sizeof(struct sp_cm_id))
			memcpy(&connection[connections++ % 8], reply->data, sizeof(*connection));
	}
	return n > 0 && reply->status != -EPROTO;
}

/* Memory has come: it is sealed, nearly always as it must be, unless the next request is to come instead. */
static bool seal(int fd, uint64_t how)
{
	const struct sp_attach_request sealed = {SP_ATTACH_MAGIC, SP_ATTACH_VERSION, SP_ATTACH_SEALED};
	int more;
	bool lives;

	if (how % 16 == 15)
		return true;
	if (how % 16 == 14)
		PROMISE(!ftruncate(fd, 4096) && !fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
	PROMISE(!fcntl(fd, F_ADD_SEALS, how % 16 == 13 ? F_SEAL_SHRINK : SP_ATTACH_SEALS));
	if (send(liar.fd, &sealed, sizeof(sealed), MSG_NOSIGNAL) < 0)
		return false;
	lives = reply(&more);
	if (more >= 0)
		close(more);
	return lives;
}

/* A control request gets a context, for most the verbs', a QP that there may be, and memory that there may be. */
static void right_control(struct sp_attach_request *r)
{
	static const uint8_t at[SP_RDMA_QP_DESTROY + 1] = {
		[SP_RDMA_MR_REG] = offsetof(struct sp_rdma_mr_reg, segment) + offsetof(struct sp_rdma_segment, mem),
		[SP_RDMA_CQ_CREATE] = offsetof(struct sp_rdma_cq_create, mem),
		[SP_RDMA_SRQ_CREATE] = offsetof(struct sp_rdma_srq_create, mem),
		[SP_RDMA_AGENT] = offsetof(struct sp_rdma_agent, mem),
		[SP_RDMA_QP_CREATE] = offsetof(struct sp_rdma_qp_create, mem),
	};
	const bool service = r->arg[0] >> 32 & 1;

	r->arg[0] = context[r->arg[0] % 8] | (uint64_t)service << 32;
	r->arg[1] %= SP_RDMA_QP_DESTROY + 2;
	verb = !service && (uint32_t)r->arg[0] == context[3] && r->arg[1] <= SP_RDMA_QP_DESTROY ? r->arg[1] : 0;
	cm = service && r->arg[1] <= SP_CM_BIND ? r->arg[1] : 0;
	if (service && r->arg[1] > SP_CM_CREATE && r->bytes >= 4 && r->data[0] < 8)
		memcpy(r->data, &connection[r->data[0]], 4);
	if (r->arg[2] & 1)
		r->arg[2] = qp[r->arg[2] / 2 % 8];
	if (at[verb] && r->bytes >= at[verb] + 4u && r->data[at[verb]] < 8)
		memcpy(r->data + at[verb], &memory[r->data[at[verb]]], 4);
	if ((verb == SP_RDMA_MR_DEREG || verb == SP_RDMA_MW_DEALLOC) && r->bytes >= 4 && r->data[0] < 8)
		memcpy(r->data, &key[r->data[0]], 4);
}

/* As it stands, or with a head that the NIC takes for right. False: the connection is over. */
static bool request(const uint8_t *data, size_t size, bool right)
{
	static uint8_t bytes[sizeof(struct sp_attach_request) + SP_ATTACH_BYTES + 100];
	const struct sp_attach_reply *answer = (const void *)liar.message;
	struct sp_attach_request *r = (void *)bytes;
	unsigned again = 1000;
	bool lives = true;
	int fd;

	verb = cm = 0;
	memset(bytes, 0, sizeof(*r));
	memcpy(bytes, data, size);
	if (right) {
		size = size > sizeof(*r) ? size : sizeof(*r);
		r->magic = SP_ATTACH_MAGIC;
		r->version = SP_ATTACH_VERSION;
		r->op = (uint16_t)(r->op % (SP_ATTACH_SEALED + 1));
		r->reserved = 0;
		r->bytes = (uint32_t)(size - sizeof(*r));
		if (r->op == SP_ATTACH_MR_FREE && r->arg[1] & 1)
			r->arg[0] = memory[r->arg[0] % 8];
		if (r->op == SP_ATTACH_CLOSE && r->arg[1] & 1)
			r->arg[0] = context[r->arg[0] % 8];
		if (r->op == SP_ATTACH_CALL && r->bytes >= 8 && r->data[2] & 1)
			memcpy(r->data + 4, &context[r->data[4] % 8], 4);
		if (r->op == SP_ATTACH_CONTROL)
			right_control(r);
	}
	do { /* -EAGAIN: workers or ports still use it */
		if (!size || send(liar.fd, bytes, size, MSG_NOSIGNAL) < 0)
			return size == 0;
		if (!reply(&fd))
			return false;
	} while (verb && answer->status == -EAGAIN && again-- && !usleep(1000));
	if (fd >= 0 && !answer->status &&
	    (answer->op <= SP_ATTACH_MR_ALLOC || answer->op == SP_ATTACH_OPEN || answer->op == SP_ATTACH_CAPTURE))
		lives = seal(fd, r->arg[3]);
	if (fd >= 0)
		close(fd);
	return lives;
}

static void command(const uint8_t *data, size_t size)
{
	struct sp_command c = {0};
	unsigned w = size ? data[0] % WORKERS : 0;

	memcpy(&c, data, size < sizeof(c) ? size : sizeof(c));
	if (c.flags & 0x100)
		c.context = context[c.context % 8];
	if (c.flags & 0x200)
		c.arg[0] = memory[c.arg[0] % 8];
	if (c.flags & 0x400)
		w = (c.context & 0xFFFF) % WORKERS; /* the home of the context */
	if (c.flags & 0x800) {			    /* a doorbell */
		c.arg[0] = qp[c.arg[0] % 8];
		c.flags = (uint16_t)((c.flags & 0xFF) | SP_CMD_ON(w));
	}
	struct sp_ring_shared *ring = sp_attach_commands(sp_attach_page(queues, SP_COMMANDS, w));
	memcpy(&ring->entry[tail[w] % SP_COMMANDS], &c, sizeof(c));
	__atomic_store_n(&ring->tail, ++tail[w], __ATOMIC_RELEASE);
	if (__atomic_exchange_n(&sp_attach_page(queues, SP_COMMANDS, w)->parked, 0, __ATOMIC_ACQ_REL))
		eventfd_write(post, 1);
}

/* Four bytes of offset, then what is written there; offsets lean towards heads. */
static void tamper(const uint8_t *data, size_t size)
{
	uint32_t at = 0;

	memcpy(&at, data, size < 4 ? size : 4);
	if (at & 0x80000000)
		at &= 0xFF;
	else if (at & 0x40000000)
		at = (uint32_t)(sizeof(*queues) + (at & 0xFF) + (at >> 8 & 1) * sp_attach_stride(SP_COMMANDS));
	for (size_t i = 4; i < size; i++)
		((volatile uint8_t *)queues)[(at + i - 4) % queues_bytes] = data[i];
}

static void check(void)
{
	struct sp_event event;

	PROMISE(sp_event_take(witness, own_context, &event) == 0);
	PROMISE(!sp_progress(witness, sp_clock()));
	for (unsigned i = 0; i < ROOM; i++)
		PROMISE(((uint8_t *)own->addr)[i] == 0xA5);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static unsigned inputs;
	bool lives = true;

	if (!nic)
		open_nic();
	if (!size || size > 4096)
		return 0;
	if (liar.fd < 0)
		connect_liar();
	switch (data[0] & 3) {
	case REQUEST:
	case REQUEST_RIGHT:
		lives = request(data + 1, size - 1, (data[0] & 3) == REQUEST_RIGHT);
		break;
	case COMMAND:
		command(data + 1, size - 1);
		break;
	case TAMPER:
		tamper(data + 1, size - 1);
		break;
	}
	if (!lives || ++age == LIFE)
		disconnect_liar();
	if (++inputs % 16 == 0)
		check();
	return 0;
}

#ifdef FUZZ_STANDALONE
#define SEEDS 64
static uint8_t seed[SEEDS][2048];
static size_t seed_len[SEEDS];
static size_t seeds;

static void seed_request(uint16_t op, uint64_t arg0, uint64_t arg1, const void *data, size_t bytes)
{
	const struct sp_attach_request r = {SP_ATTACH_MAGIC, SP_ATTACH_VERSION, op, (uint32_t)bytes, 0, {arg0, arg1}};

	seed[seeds][0] = REQUEST_RIGHT;
	memcpy(seed[seeds] + 1, &r, sizeof(r));
	if (bytes)
		memcpy(seed[seeds] + 1 + sizeof(r), data, bytes);
	seed_len[seeds++] = 1 + sizeof(r) + bytes;
}

static void seed_command(uint16_t op, uint32_t which, uint64_t cookie, uint64_t a1, uint64_t a2, uint64_t a3)
{
	const struct sp_command c = {op, 0x701, which, cookie, {0, a1, a2, a3}};

	seed[seeds][0] = COMMAND;
	memcpy(seed[seeds] + 1, &c, sizeof(c));
	seed_len[seeds++] = 1 + sizeof(c);
}

static void seed_control(uint64_t op, bool of_qp, bool service, const void *data, size_t bytes)
{
	const uint64_t arg[2] = {of_qp, 256};
	uint8_t *request = seed[seeds] + 1; /* not aligned */

	seed_request(SP_ATTACH_CONTROL, 3 | (uint64_t)service << 32, op, data, bytes);
	memcpy(request + offsetof(struct sp_attach_request, arg[2]), arg, sizeof(arg));
}

/* The life of a queue pair, and of what it needs. */
static void seed_verbs(void)
{
	const struct {
		struct sp_rdma_mr_reg r;
		struct sp_rdma_segment s;
	} mr = {.r = {.va = 0x10000, .len = 4096, .pd = 1, .access = 15, .segments = 1},
		.s = {.len = 4096, .offset = 32768, .mem = 1}};
	const struct sp_rdma_cq_create cq = {.mem = 1, .log = 4, .channel = 1};
	const struct sp_rdma_srq_create srq = {.mem = 1, .offset = 4096, .log = 3, .pd = 1, .sges = 2};
	const struct sp_rdma_srq_limit limit = {1, 2};
	const struct sp_rdma_ah ah = {.ip = {[10] = 0xFF, [11] = 0xFF, 192, 0, 2, 2}, .pd = 1};
	const struct sp_rdma_qp_create create = {.sq = 8192,
						 .rq = 16384,
						 .mem = 1,
						 .type = SP_RDMA_RC,
						 .pd = 1,
						 .send_cq = 1,
						 .recv_cq = 1,
						 .sq_log = 3,
						 .rq_log = 3,
						 .send_sges = 2,
						 .recv_sges = 2};
	struct sp_rdma_qp_attr a = {.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_PKEY | SP_RDMA_QP_PORT | SP_RDMA_QP_ACCESS,
				    .state = SP_RDMA_INIT,
				    .ip = {[10] = 0xFF, [11] = 0xFF, 192, 0, 2, 2},
				    .dest_qp = 0x123,
				    .path_mtu = 1024,
				    .timeout = 14,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .min_rnr_timer = 12};
	const struct sp_rdma_agent agent = {.mem = 1, .log = SP_RDMA_AGENT_LOG_MIN};
	const struct sp_rdma_id one = {1}, first = {0};
	const struct sp_cm_create id = {.port_space = 0x0106};
	const struct sp_cm_listen listen = {.backlog = 4};

	seed_control(SP_RDMA_QUERY, false, false, NULL, 0);
	seed_control(SP_RDMA_PD_CREATE, false, false, NULL, 0);
	seed_control(SP_RDMA_MR_REG, false, false, &mr, sizeof(mr));
	seed_control(SP_RDMA_MW_ALLOC, false, false, &(struct sp_rdma_mw_alloc){1, SP_RDMA_MW_1}, 8);
	seed_control(SP_RDMA_MW_DEALLOC, false, false, &one, sizeof(one));
	seed_control(SP_RDMA_CQ_CREATE, false, false, &cq, sizeof(cq));
	seed_control(SP_RDMA_SRQ_CREATE, false, false, &srq, sizeof(srq));
	seed_control(SP_RDMA_SRQ_LIMIT, false, false, &limit, sizeof(limit));
	seed_control(SP_RDMA_AH_CREATE, false, false, &ah, sizeof(ah));
	seed_control(SP_RDMA_AGENT, false, false, &agent, sizeof(agent));
	seed_control(SP_RDMA_QP_CREATE, false, false, &create, sizeof(create));
	seed_control(SP_RDMA_QP_MODIFY, true, false, &a, sizeof(a));
	a.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_AV | SP_RDMA_QP_PATH_MTU | SP_RDMA_QP_DEST_QP | SP_RDMA_QP_RQ_PSN |
		 SP_RDMA_QP_MAX_DEST_RD | SP_RDMA_QP_MIN_RNR;
	a.state = SP_RDMA_RTR;
	seed_control(SP_RDMA_QP_MODIFY, true, false, &a, sizeof(a));
	a.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_TIMEOUT | SP_RDMA_QP_RETRY_CNT | SP_RDMA_QP_RNR_RETRY |
		 SP_RDMA_QP_SQ_PSN | SP_RDMA_QP_MAX_RD;
	a.state = SP_RDMA_RTS;
	seed_control(SP_RDMA_QP_MODIFY, true, false, &a, sizeof(a));
	seed_control(SP_RDMA_QP_QUERY, true, false, NULL, 0);
	seed_command(SP_RDMA_CMD_DOORBELL, 3, 0, 0, 0, 0);
	seed[seeds - 1][1 + offsetof(struct sp_command, flags) + 1] = 0xD;
	seed_control(SP_RDMA_QP_DESTROY, true, false, NULL, 0);
	seed_control(SP_RDMA_AH_DESTROY, false, false, &one, sizeof(one));
	seed_control(SP_RDMA_SRQ_DESTROY, false, false, &one, sizeof(one));
	seed_control(SP_RDMA_CQ_DESTROY, false, false, &one, sizeof(one));
	seed_control(SP_RDMA_MR_DEREG, false, false, &first, sizeof(first));
	seed_control(SP_CM_CREATE, false, true, &id, sizeof(id));
	seed_control(SP_CM_BIND, false, true, &listen, sizeof(listen));
	seed_control(SP_CM_LISTEN, false, true, &listen, sizeof(listen));
	seed_control(SP_CM_TAKE, false, true, NULL, 0);
	seed_control(SP_CM_DESTROY, false, true, &first, sizeof(first));
	seed_control(SP_RDMA_MR_DEREG, false, false, &first, sizeof(first));
	seed_control(SP_RDMA_PD_DESTROY, false, false, &one, sizeof(one));
}

static void seed_tamper(uint32_t at, uint32_t word)
{
	seed[seeds][0] = TAMPER;
	memcpy(seed[seeds] + 1, &at, 4);
	memcpy(seed[seeds] + 5, &word, 4);
	seed_len[seeds++] = 9;
}

int main(int argc, char **argv)
{
#ifdef __SANITIZE_ADDRESS__
	static char *fewer[] = {NULL, (char *)"10000", NULL};
#else
	static char *fewer[] = {NULL, (char *)"2500", NULL}; /* most of what is to be found here, ASan finds */
#endif
	const struct sp_capture_request capture = {.snaplen = 64, .filter = "udp"};
	struct sp_command connect = {SP_SDR_CMD_CONNECT, 1, 0, 0, {0, 0, 0x100 | 0xF00000ull << 32, 5, 6, 1}};
	struct sp_command query = {SP_CMD_QUERY, 1, 0, 0, {0}};
	const uint8_t *list[SEEDS];

	memcpy(&connect.arg[0], "\0\0\0\0\0\0\0\0\0\0\xFF\xFF\300\0\2\2", 16);
	seed_request(SP_ATTACH_MR_ALLOC, 4096, 0, NULL, 0);
	seed_request(SP_ATTACH_MR_FREE, 0, 1, NULL, 0);
	seed_request(SP_ATTACH_OPEN, 1, 0, "x\0count\0filter\0udp", 19);
	seed_request(SP_ATTACH_OPEN, 1, 0, "y\0sdr\0qp\000768", 13);
	seed_request(SP_ATTACH_OPEN, 5, 0, SDR, sizeof(SDR));
	seed_request(SP_ATTACH_CLOSE, 0, 1, NULL, 0);
	seed_request(SP_ATTACH_CALL, 0, 0, &connect, sizeof(connect));
	seed_request(SP_ATTACH_CALL, 0, 0, &query, sizeof(query));
	seed_request(SP_ATTACH_REPORT, SP_REPORT_HANDLERS, 0, NULL, 0);
	seed_request(SP_ATTACH_REPORT, SP_REPORT_ALL, 0, "one", 3);
	seed_request(SP_ATTACH_CAPTURE, 0, 0, &capture, sizeof(capture));
	seed_request(SP_ATTACH_HANDLER, SP_HANDLER_STATUS, 0, NULL, 0);
	seed_request(SP_ATTACH_HANDLER, SP_HANDLER_ATTACH, 4, "own\0reflect\0filter\0udp port 9", 30);
	seed_request(SP_ATTACH_HANDLER, SP_HANDLER_DETACH, 1, "own", 4);
	seed_request(SP_ATTACH_HANDLER, SP_HANDLER_RELOAD, 2, "reflect\0/dev/null", 18);
	seed_request(SP_ATTACH_HANDLER, SP_HANDLER_UNLOAD, 1, "/dev/null", 10);
	seed_request(SP_ATTACH_HANDLER, SP_HANDLER_LOAD, 1, "/dev/null", 10);
	for (uint64_t k = 0; k < 4; k++)
		seed_command(SP_CMD_POST, k == 3, k == 3 ? 0 : k, 64, 500, 0);
	seed_command(SP_CMD_COMPLETE, 0, 0, 0, 0, 0);
	seed_command(SP_SDR_CMD_SEND, 0, 0, 100, 300, 7);
	seed_command(SP_SDR_CMD_START, 0, 1, 0, 900, 7);
	seed_command(SP_SDR_CMD_CONTINUE, 0, 1, 0, 1024, 0);
	seed_command(SP_SDR_CMD_PACKETS, 0, 0, 0, 0, 0);
	seed_command(SP_SDR_CMD_DATAGRAM, 0, 0, 100, 60, 0);
	seed_command(SP_CMD_CLOSE, 0, 0, 0, 0, 0);
	seed_verbs();
	seed_tamper(0x40000000, 77);	  /* a head */
	seed_tamper(0x40000040, 1 << 20); /* a tail */
	seed_tamper(0x80000040, 1);	  /* the bell */
	seed_tamper(0x80000000, 0);	  /* what the NIC said */
	seed_tamper(4096, UINT32_MAX);	  /* an entry */
	for (size_t i = 0; i < seeds; i++)
		list[i] = seed[i];
	fewer[0] = argv[0];
	int r = fuzz_standalone(argc > 1 ? argc : 2, argc > 1 ? argv : fewer, list, seed_len, seeds);
	if (nic) {
		char lock[80];

		/* The seeds must have come through, or the fuzzer looks at nothing. */
		for (unsigned op = SP_ATTACH_MR_ALLOC; op <= SP_ATTACH_SEALED; op++)
			PROMISE(done[op]);
		for (unsigned op = SP_RDMA_QUERY; op <= SP_RDMA_QP_DESTROY; op++)
			PROMISE(verbs_done[op]);
		PROMISE(cm_done[SP_CM_CREATE] && cm_done[SP_CM_LISTEN] && cm_done[SP_CM_DESTROY]);
		disconnect_liar();
		check();
		sp_dev_close(witness);
		PROMISE(!sp_nic_context_remove(nic, manager));
		sp_server_stop(server);
		sp_nic_stop(nic);
		PROMISE(!nic->memory_used && !nic->device);
		sp_nic_destroy(nic);
		snprintf(lock, sizeof(lock), "%s.lock", path);
		unlink(lock);
	}
	return r;
}
#endif
