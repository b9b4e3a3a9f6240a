/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_cm ADDRESS [WHAT]: what librdmacm's manual pages say, and the programs that Debian has do not reach: errors,
 * events in all orders, and ids that end in the middle. Both ends are in this process, on one NIC. WHAT "stays": waits
 * until the NIC ends. Exit 0: as expected; else a line says what is not.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what)	   ((what) ? (void)0 : failed(__LINE__, #what))
#define FAILS(what, error) (errno = 0, CHECK((what) == -1), errno == (error) ? (void)0 : failed(__LINE__, #what))

static struct sockaddr_in nic;
static struct rdma_event_channel *channel;

static void failed(int line, const char *what)
{
	printf("line %d: %s (errno %d, %s)\n", line, what, errno, strerror(errno));
	fflush(stdout);
	_exit(1);
}

static struct sockaddr *at(const char *ip, uint16_t port)
{
	static struct sockaddr_in a;

	a = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
	CHECK(inet_pton(AF_INET, ip, &a.sin_addr) == 1);
	return (struct sockaddr *)&a;
}

static struct sockaddr *at_nic(uint16_t port)
{
	nic.sin_port = htons(port);
	return (struct sockaddr *)&nic;
}

static struct rdma_cm_event *event(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;
	struct pollfd p = {.fd = channel->fd, .events = POLLIN};

	CHECK(poll(&p, 1, 20000) == 1);
	CHECK(!rdma_get_cm_event(channel, &e));
	if (e->event != type)
		printf("%s instead of %s\n", rdma_event_str(e->event), rdma_event_str(type));
	CHECK(e->event == type);
	return e;
}

static struct rdma_cm_id *expect(enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *e = event(type);
	struct rdma_cm_id *id = e->id;

	CHECK(e->status == status);
	CHECK(!rdma_ack_cm_event(e));
	return id;
}

static void silent(void)
{
	struct pollfd p = {.fd = channel->fd, .events = POLLIN};

	CHECK(poll(&p, 1, 50) == 0);
}

static struct rdma_cm_id *make(enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	CHECK(!rdma_create_id(channel, &id, &nic, ps));
	CHECK(id->context == &nic && id->ps == ps && id->channel == channel);
	return id;
}

static struct rdma_cm_id *listening(enum rdma_port_space ps)
{
	struct rdma_cm_id *id = make(ps);

	CHECK(!rdma_bind_addr(id, at_nic(0)));
	CHECK(id->verbs && id->pd && id->port_num == 1 && ntohs(rdma_get_src_port(id)) >= 1024);
	CHECK(!rdma_listen(id, 0));
	return id;
}

static struct rdma_cm_id *resolved(enum rdma_port_space ps, uint16_t port)
{
	struct rdma_cm_id *id = make(ps);

	CHECK(!rdma_resolve_addr(id, NULL, at_nic(port), 1000));
	CHECK(expect(RDMA_CM_EVENT_ADDR_RESOLVED, 0) == id);
	CHECK(id->verbs && rdma_get_src_port(id) && rdma_get_dst_port(id) == htons(port));
	CHECK(!rdma_resolve_route(id, 1000));
	CHECK(expect(RDMA_CM_EVENT_ROUTE_RESOLVED, 0) == id);
	CHECK(id->route.num_paths == 1 && id->route.path_rec);
	return id;
}

/* ---- errors ---- */
static void errors_of_addresses(void)
{
	struct rdma_cm_id *id = make(RDMA_PS_TCP), *two = make(RDMA_PS_TCP), *none;
	struct sockaddr_un {
		sa_family_t family;
		char path[108];
	} unix_domain = {.family = AF_UNIX};
	uint16_t port;
	int yes = 1;

	FAILS(rdma_create_id(channel, &none, NULL, (enum rdma_port_space)7), EINVAL);
	FAILS(rdma_create_id(channel, &none, NULL, RDMA_PS_IPOIB), EOPNOTSUPP);
	FAILS(rdma_bind_addr(id, (struct sockaddr *)&unix_domain), EAFNOSUPPORT);
	FAILS(rdma_bind_addr(id, at("203.0.113.77", 0)), ENODEV);
	FAILS(rdma_bind_addr(id, at_nic(80)), EACCES);
	FAILS(rdma_resolve_route(id, 1000), EINVAL);
	FAILS(rdma_resolve_addr(id, NULL, (struct sockaddr *)&unix_domain, 1000), EINVAL);
	FAILS(rdma_resolve_addr(id, at("203.0.113.77", 0), at_nic(7000), 1000), ENODEV);
	CHECK(!rdma_bind_addr(id, at_nic(0)));
	port = ntohs(rdma_get_src_port(id));
	FAILS(rdma_bind_addr(id, at_nic(0)), EINVAL);
	FAILS(rdma_bind_addr(two, at_nic(port)), EADDRINUSE);
	FAILS(rdma_bind_addr(two, at("0.0.0.0", port)), EADDRINUSE);
	FAILS(rdma_set_option(two, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, 1), EINVAL);
	FAILS(rdma_set_option(two, RDMA_OPTION_ID, 99, &yes, 4), ENOSYS);
	CHECK(!rdma_set_option(two, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)));
	CHECK(!rdma_bind_addr(two, at_nic(port)));
	CHECK(!rdma_listen(id, 5));
	FAILS(rdma_listen(id, 5), EINVAL);
	FAILS(rdma_listen(two, 5), EADDRINUSE);
	FAILS(rdma_connect(id, NULL), EINVAL);
	FAILS(rdma_accept(id, &(struct rdma_conn_param){.qp_num = 7}), EINVAL);
	FAILS(rdma_disconnect(id), EINVAL);
	FAILS(rdma_reject(id, NULL, 0), EINVAL);
	FAILS(rdma_get_request(id, &none), EINVAL);
	FAILS(rdma_notify(id, IBV_EVENT_COMM_EST), EINVAL);
	FAILS(rdma_join_multicast(id, at("239.0.0.1", 0), NULL), EOPNOTSUPP);
	FAILS(rdma_leave_multicast(id, at("239.0.0.1", 0)), EADDRNOTAVAIL);
	FAILS(rdma_ack_cm_event(NULL), EINVAL);
	CHECK(!rdma_destroy_id(id));
	CHECK(!rdma_listen(two, 5)); /* now it is alone */
	CHECK(!rdma_destroy_id(two));
	for (int i = 0; i < 2; i++) { /* neither is a device's: programs look for devices so */
		id = make(RDMA_PS_TCP);
		CHECK(!rdma_bind_addr(id, at(i ? "0.0.0.0" : "127.0.0.1", 0)));
		CHECK(!id->verbs && rdma_get_src_port(id));
		CHECK(!rdma_destroy_id(id));
	}
}

static void errors_of_qps(void)
{
	struct rdma_cm_id *id = make(RDMA_PS_TCP);
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC};
	struct ibv_qp_attr qp = {.qp_state = IBV_QPS_INIT};
	struct ibv_qp_init_attr out;
	int mask;

	FAILS(rdma_create_qp(id, NULL, &attr), EINVAL); /* on no device yet */
	FAILS(rdma_init_qp_attr(id, &qp, &mask), EINVAL);
	CHECK(!rdma_destroy_id(id));
	id = resolved(RDMA_PS_TCP, 7001);
	attr.qp_type = IBV_QPT_XRC_SEND;
	FAILS(rdma_create_qp(id, NULL, &attr), EOPNOTSUPP);
	attr.qp_type = IBV_QPT_RC;
	CHECK(!rdma_create_qp(id, NULL, &attr));
	CHECK(id->qp && id->send_cq && id->recv_cq && id->send_cq_channel && attr.send_cq == id->send_cq);
	FAILS(rdma_create_qp(id, NULL, &attr), EINVAL);
	CHECK(!ibv_query_qp(id->qp, &qp, IBV_QP_STATE, &out) && qp.qp_state == IBV_QPS_INIT);
	qp.qp_state = IBV_QPS_RTR;
	FAILS(rdma_init_qp_attr(id, &qp, &mask), EINVAL); /* of a peer that is not known */
	FAILS(rdma_establish(id), EINVAL);
	FAILS(rdma_connect(id, &(struct rdma_conn_param){.responder_resources = 200}), EINVAL);
	CHECK(!rdma_connect(id, NULL));
	expect(RDMA_CM_EVENT_REJECTED, 8); /* nobody listens there */
	CHECK(!ibv_query_qp(id->qp, &qp, IBV_QP_STATE, &out) && qp.qp_state == IBV_QPS_ERR);
	rdma_destroy_qp(id);
	CHECK(!id->qp && !id->send_cq && !id->recv_cq_channel);
	CHECK(!rdma_destroy_id(id));
}

/* ---- connections without a QP of the id, as middleware makes them ---- */
static struct ibv_cq *cq;

static struct ibv_qp *qp_to(struct rdma_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_init_attr make_qp = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC};
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask;

	if (!cq)
		cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0);
	make_qp.send_cq = make_qp.recv_cq = cq;
	if (!qp)
		qp = ibv_create_qp(id->pd, &make_qp);
	CHECK(qp);
	CHECK(!rdma_init_qp_attr(id, &attr, &mask));
	CHECK(!ibv_modify_qp(qp, &attr, mask));
	return qp;
}

struct pair {
	struct rdma_cm_id *listener, *client, *server;
	struct ibv_qp *client_qp, *server_qp;
};

static void request(struct pair *p, const char *says)
{
	struct rdma_conn_param param = {.private_data = says,
					.private_data_len = (uint8_t)strlen(says),
					.responder_resources = 3,
					.initiator_depth = 2,
					.retry_count = 10, /* of three bits: 7, as with Linux; fio asks for it */
					.rnr_retry_count = 6};
	struct rdma_cm_event *e;

	p->client = resolved(RDMA_PS_TCP, ntohs(rdma_get_src_port(p->listener)));
	p->client_qp = qp_to(p->client, NULL, IBV_QPS_INIT);
	param.qp_num = p->client_qp->qp_num;
	CHECK(!rdma_connect(p->client, &param));
	FAILS(rdma_connect(p->client, &param), EINVAL);
	e = event(RDMA_CM_EVENT_CONNECT_REQUEST);
	p->server = e->id;
	CHECK(e->listen_id == p->listener && e->id != p->listener && e->id->verbs == p->client->verbs && !e->id->qp);
	CHECK(e->id->context == &nic && rdma_get_dst_port(e->id) == rdma_get_src_port(p->client));
	CHECK(rdma_get_src_port(e->id) == rdma_get_src_port(p->listener));
	CHECK(!memcmp(&((struct sockaddr_in *)rdma_get_peer_addr(e->id))->sin_addr, &nic.sin_addr, 4));
	CHECK(e->param.conn.private_data_len == 56 && !memcmp(e->param.conn.private_data, says, strlen(says)));
	CHECK(e->param.conn.responder_resources == 2 &&
	      e->param.conn.initiator_depth == 3); /* ours, by what the peer asks */
	CHECK(e->param.conn.retry_count == 7 && e->param.conn.rnr_retry_count == 6);
	CHECK(e->param.conn.qp_num == p->client_qp->qp_num);
	CHECK(!rdma_ack_cm_event(e));
}

static void connected(struct pair *p)
{
	struct rdma_conn_param param = {
		.private_data = "yes", .private_data_len = 3, .responder_resources = 2, .initiator_depth = 3};
	struct rdma_cm_event *e;

	request(p, "hello");
	FAILS(rdma_accept(p->server, NULL), EINVAL); /* with which QP? */
	p->server_qp = qp_to(p->server, NULL, IBV_QPS_INIT);
	qp_to(p->server, p->server_qp, IBV_QPS_RTR);
	qp_to(p->server, p->server_qp, IBV_QPS_RTS);
	param.qp_num = p->server_qp->qp_num;
	CHECK(!rdma_accept(p->server, &param));
	e = event(RDMA_CM_EVENT_CONNECT_RESPONSE);
	CHECK(e->id == p->client && e->param.conn.private_data_len == 196 &&
	      !memcmp(e->param.conn.private_data, "yes", 4));
	CHECK(e->param.conn.qp_num == p->server_qp->qp_num);
	CHECK(!rdma_ack_cm_event(e));
	qp_to(p->client, p->client_qp, IBV_QPS_RTR);
	qp_to(p->client, p->client_qp, IBV_QPS_RTS);
	CHECK(!rdma_establish(p->client));
	CHECK(expect(RDMA_CM_EVENT_ESTABLISHED, 0) == p->server);
	FAILS(rdma_establish(p->client), EINVAL);
}

static void end(struct pair *p)
{
	CHECK(!rdma_destroy_id(p->client));
	if (p->server)
		CHECK(!rdma_destroy_id(p->server));
	CHECK(!ibv_destroy_qp(p->client_qp));
	if (p->server_qp)
		CHECK(!ibv_destroy_qp(p->server_qp));
	p->server_qp = NULL;
	silent();
}

static void connections(void)
{
	struct pair p = {.listener = listening(RDMA_PS_TCP)};
	struct rdma_cm_event *e;

	connected(&p);
	CHECK(!rdma_disconnect(p.client));
	CHECK(expect(RDMA_CM_EVENT_DISCONNECTED, 0) == p.server);
	CHECK(!rdma_disconnect(p.server));
	CHECK(expect(RDMA_CM_EVENT_DISCONNECTED, 0) == p.client);
	expect(RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	expect(RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	CHECK(!rdma_disconnect(p.server)); /* nothing is left to do */
	end(&p);

	connected(&p); /* both disconnect at once, and end before they hear of it */
	CHECK(!rdma_disconnect(p.client));
	CHECK(!rdma_disconnect(p.server));
	end(&p);

	request(&p, "no?");
	CHECK(!rdma_reject(p.server, "no!", 3));
	e = event(RDMA_CM_EVENT_REJECTED);
	CHECK(e->id == p.client && e->status == 28 && e->param.conn.private_data_len == 148);
	CHECK(!memcmp(e->param.conn.private_data, "no!", 4) && !rdma_ack_cm_event(e));
	end(&p);

	request(&p, "anybody?"); /* an id that ends rejects */
	CHECK(!rdma_destroy_id(p.server));
	p.server = NULL;
	CHECK(expect(RDMA_CM_EVENT_REJECTED, 28) == p.client);
	end(&p);

	p.client =
		resolved(RDMA_PS_TCP, ntohs(rdma_get_src_port(p.listener))); /* a listener that ends with a request */
	p.client_qp = qp_to(p.client, NULL, IBV_QPS_INIT);
	CHECK(!rdma_connect(p.client, &(struct rdma_conn_param){.qp_num = p.client_qp->qp_num}));
	CHECK(poll(&(struct pollfd){.fd = channel->fd, .events = POLLIN}, 1, 20000) == 1);
	CHECK(!rdma_destroy_id(p.listener));
	CHECK(expect(RDMA_CM_EVENT_REJECTED, 28) == p.client);
	end(&p);
}

/* ---- acknowledging, waiting, moving ---- */
static void *destroys(void *id)
{
	CHECK(!rdma_destroy_id(id));
	return NULL;
}

static void acknowledgements(void)
{
	struct rdma_cm_id *id = make(RDMA_PS_TCP);
	struct timespec soon;
	struct rdma_cm_event *e;
	pthread_t thread;

	CHECK(!rdma_resolve_addr(id, NULL, at_nic(7002), 1000));
	e = event(RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!pthread_create(&thread, NULL, destroys, id));
	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_nsec += 100000000;
	soon.tv_sec += soon.tv_nsec / 1000000000;
	soon.tv_nsec %= 1000000000;
	CHECK(pthread_timedjoin_np(thread, NULL, &soon) == ETIMEDOUT);
	CHECK(!rdma_ack_cm_event(e));
	CHECK(!pthread_join(thread, NULL));
	id = make(RDMA_PS_TCP);
	CHECK(!rdma_resolve_addr(id, NULL, at_nic(7002), 1000));
	CHECK(!rdma_destroy_id(id)); /* nobody gets its event */
	silent();
}

static void *takes(void *unused)
{
	(void)unused;
	expect(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	return NULL;
}

static void *waits(void *unused)
{
	struct rdma_cm_event *e;

	(void)unused;
	rdma_get_cm_event(channel, &e); /* until it is cancelled */
	return NULL;
}

static void channels(void)
{
	struct rdma_event_channel *other = rdma_create_event_channel();
	struct rdma_cm_id *id = make(RDMA_PS_TCP);
	struct rdma_cm_event *e;
	pthread_t thread[4];
	void *result;

	CHECK(!fcntl(channel->fd, F_SETFL, O_NONBLOCK));
	FAILS(rdma_get_cm_event(channel, &e), EAGAIN);
	CHECK(!rdma_resolve_addr(id, NULL, at_nic(7003), 1000));
	CHECK(!rdma_migrate_id(id, other)); /* its event comes along */
	FAILS(rdma_get_cm_event(channel, &e), EAGAIN);
	CHECK(!fcntl(channel->fd, F_SETFL, 0));
	CHECK(!rdma_get_cm_event(other, &e) && e->id == id && e->event == RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_ack_cm_event(e));
	CHECK(!rdma_migrate_id(id, NULL) && id->channel != other); /* synchronous */
	FAILS(rdma_migrate_id(id, NULL), EINVAL);
	CHECK(!rdma_resolve_route(id, 1000) && id->event && id->event->event == RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK(!rdma_migrate_id(id, channel) && !id->event);
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(other);
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(&thread[i], NULL, takes, NULL));
	for (int i = 0; i < 4; i++) {
		id = make(RDMA_PS_TCP);
		CHECK(!rdma_resolve_addr(id, NULL, at_nic(7003), 1000));
	}
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_join(thread[i], NULL));
	CHECK(!pthread_create(&thread[0], NULL, waits, NULL));
	usleep(10000);
	CHECK(!pthread_cancel(thread[0]) && !pthread_join(thread[0], &result) && result == PTHREAD_CANCELED);
	silent();
}

/* ---- datagrams ---- */
static void datagrams(void)
{
	struct rdma_cm_id *listener = listening(RDMA_PS_UDP), *client, *server;
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_UD};
	struct rdma_conn_param param = {.private_data = "ask", .private_data_len = 3};
	struct rdma_conn_param told = {.private_data = "told", .private_data_len = 4};
	struct rdma_cm_event *e;
	struct ibv_qp_attr state;
	struct ibv_qp_init_attr out;

	for (int round = 0; round < 3; round++) { /* accepted, rejected, nobody there */
		client = resolved(RDMA_PS_UDP, round == 2 ? 7004 : ntohs(rdma_get_src_port(listener)));
		attr.send_cq = attr.recv_cq = NULL;
		CHECK(!rdma_create_qp(client, NULL, &attr));
		CHECK(!ibv_query_qp(client->qp, &state, IBV_QP_STATE | IBV_QP_QKEY, &out));
		CHECK(state.qp_state == IBV_QPS_RTS && state.qkey == RDMA_UDP_QKEY);
		CHECK(!rdma_connect(client, &param));
		if (round < 2) {
			e = event(RDMA_CM_EVENT_CONNECT_REQUEST);
			server = e->id;
			CHECK(e->param.ud.private_data_len == 180 && !memcmp(e->param.ud.private_data, "ask", 4));
			CHECK(!rdma_ack_cm_event(e));
			attr.send_cq = attr.recv_cq = NULL;
			CHECK(!rdma_create_qp(server, NULL, &attr));
			CHECK(round ? !rdma_reject(server, "told", 4) : !rdma_accept(server, &told));
			e = event(round ? RDMA_CM_EVENT_UNREACHABLE : RDMA_CM_EVENT_ESTABLISHED);
			CHECK(e->id == client && e->status == (round ? 2 : 0));
			CHECK(e->param.ud.private_data_len == 136 && !memcmp(e->param.ud.private_data, "told", 5));
			if (!round)
				CHECK(e->param.ud.qp_num == server->qp->qp_num && e->param.ud.qkey == RDMA_UDP_QKEY &&
				      e->param.ud.ah_attr.is_global && e->param.ud.ah_attr.port_num == 1);
			CHECK(!rdma_ack_cm_event(e));
			rdma_destroy_qp(server);
			CHECK(!rdma_destroy_id(server));
		} else {
			expect(RDMA_CM_EVENT_UNREACHABLE, 1);
		}
		FAILS(rdma_disconnect(client), EINVAL);
		rdma_destroy_qp(client);
		CHECK(!rdma_destroy_id(client));
	}
	CHECK(!rdma_destroy_id(listener));
	silent();
}

/* ---- endpoints: synchronous ---- */
static char port_text[8];

static void *serves(void *listener)
{
	struct rdma_cm_id *id;
	struct ibv_wc wc;
	char word[16] = "";
	struct ibv_mr *mr;

	CHECK(!rdma_get_request(listener, &id) && id->qp && id->event);
	mr = rdma_reg_msgs(id, word, sizeof(word));
	CHECK(mr && !rdma_post_recv(id, NULL, word, sizeof(word), mr));
	CHECK(!rdma_accept(id, NULL));
	CHECK(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS && !strcmp(word, "word"));
	CHECK(!rdma_disconnect(id));
	CHECK(!rdma_dereg_mr(mr));
	rdma_destroy_ep(id);
	return NULL;
}

static void endpoints(const char *ip)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = RAI_PASSIVE}, *res;
	struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 4,
						.max_recv_wr = 4,
						.max_send_sge = 1,
						.max_recv_sge = 1,
						.max_inline_data = 16},
					.sq_sig_all = 1};
	struct rdma_cm_id *listener, *id;
	struct ibv_wc wc;
	pthread_t thread;

	FAILS(rdma_getaddrinfo(NULL, NULL, NULL, &res), EINVAL);
	CHECK(rdma_getaddrinfo("no.such.host.invalid", NULL, &hints, &res) > -20);
	CHECK(!rdma_getaddrinfo(ip, "0", &hints, &res) && res->ai_src_len && !res->ai_dst_len &&
	      res->ai_qp_type == IBV_QPT_RC);
	CHECK(!rdma_create_ep(&listener, res, NULL, &attr) && !rdma_listen(listener, 0));
	rdma_freeaddrinfo(res);
	FAILS(rdma_migrate_id(listener, NULL), EINVAL);
	snprintf(port_text, sizeof(port_text), "%u", ntohs(rdma_get_src_port(listener)));
	CHECK(!pthread_create(&thread, NULL, serves, listener));
	hints = (struct rdma_addrinfo){
		.ai_port_space = RDMA_PS_TCP, .ai_dst_addr = at_nic(7005), .ai_dst_len = sizeof(nic)};
	CHECK(!rdma_getaddrinfo(NULL, NULL, &hints, &res) && res->ai_dst_len == sizeof(nic));
	CHECK(!memcmp(res->ai_dst_addr, hints.ai_dst_addr, sizeof(nic)) && res->ai_dst_addr != hints.ai_dst_addr);
	rdma_freeaddrinfo(res);
	hints = (struct rdma_addrinfo){.ai_port_space = RDMA_PS_TCP};
	CHECK(!rdma_getaddrinfo(ip, port_text, &hints, &res) && res->ai_dst_len && res->ai_family == AF_INET);
	CHECK(!rdma_create_ep(&id, res, NULL, &attr) && id->qp && id->route.num_paths == 1);
	CHECK(!rdma_connect(id, NULL) && id->event && id->event->event == RDMA_CM_EVENT_ESTABLISHED);
	CHECK(!rdma_post_send(id, NULL, "word", 5, NULL, IBV_SEND_INLINE));
	CHECK(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(!rdma_disconnect(id));
	rdma_destroy_ep(id);
	CHECK(!pthread_join(thread, NULL));
	attr.send_cq = attr.recv_cq = NULL; /* they were the id's */
	CHECK(!rdma_create_ep(&id, res, NULL, &attr));
	rdma_destroy_ep(listener);
	FAILS(rdma_connect(id, NULL), ECONNREFUSED);
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(res);
}

/* ---- a child, and a NIC that ends ---- */
static void child(void)
{
	struct rdma_cm_id *id = make(RDMA_PS_TCP), *none;
	struct rdma_cm_event *e;
	int status;
	pid_t pid;

	CHECK(!rdma_resolve_addr(id, NULL, at_nic(7006), 1000));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		FAILS(rdma_get_cm_event(channel, &e), ENODEV);
		FAILS(rdma_resolve_route(id, 1000), ENODEV);
		CHECK(!rdma_destroy_id(id));
		rdma_destroy_event_channel(channel);
		channel = rdma_create_event_channel();
		CHECK(channel); /* a child may begin by itself */
		none = resolved(RDMA_PS_TCP, 7006);
		CHECK(!rdma_destroy_id(none));
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(expect(RDMA_CM_EVENT_ADDR_RESOLVED, 0) == id); /* the parent's goes on */
	CHECK(!rdma_destroy_id(id));
}

static void stays(void)
{
	struct pair p = {.listener = listening(RDMA_PS_TCP)};
	struct rdma_cm_id *ended[3];

	connected(&p);
	puts("ready");
	fflush(stdout);
	for (int i = 0; i < 3; i++)
		ended[i] = expect(RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	CHECK(ended[0] != ended[1] && ended[1] != ended[2] && ended[0] != ended[2]);
	silent();
	for (int i = 0; i < 3; i++)
		CHECK(!rdma_destroy_id(ended[i]));
}

int main(int argc, char **argv)
{
	struct ibv_context **devices;
	int count;

	CHECK(argc >= 2);
	nic.sin_family = AF_INET;
	CHECK(inet_pton(AF_INET, argv[1], &nic.sin_addr) == 1);
	alarm(120);
	devices = rdma_get_devices(&count);
	CHECK(devices && count == 1 && devices[0] && !devices[1]);
	rdma_free_devices(devices);
	channel = rdma_create_event_channel();
	CHECK(channel);
	if (argc > 2) {
		stays();
		return 0;
	}
	errors_of_addresses();
	errors_of_qps();
	connections();
	acknowledgements();
	channels();
	datagrams();
	endpoints(argv[1]);
	child();
	rdma_destroy_event_channel(channel);
	puts("ok");
	return 0;
}
