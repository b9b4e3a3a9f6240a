/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors of rsockets, what happens to their connections, and how threads wait. Nothing happens by itself: a thread
 * that waits, or calls, takes the events and the completions, and rings for the other threads that sleep on this
 * socket. Each thread has an eventfd for that.
 */
#include "cm_rsocket.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define RESOLVE_MS 2000

/* ---- the table ---- */
static struct {
	pthread_mutex_t mutex;
	struct shim_rs **socket; /* by descriptor */
	int room;
} table = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void fork_prepare(void)
{
	pthread_mutex_lock(&table.mutex);
}

static void fork_done(void)
{
	pthread_mutex_unlock(&table.mutex);
}

/* ---- bells ---- */
static pthread_key_t bell_key;
static _Thread_local struct {
	int fd;
	unsigned generation;
	bool made;
} bell;

static void close_bell(void *fd)
{
	close((int)(intptr_t)fd - 1);
	bell.made = false;
}

__attribute__((constructor)) static void begin(void)
{
	pthread_atfork(fork_prepare, fork_done, fork_done);
	pthread_key_create(&bell_key, close_bell);
}

int shim_rs_bell(void)
{
	eventfd_t rung;

	if (bell.made && bell.generation == shim_cm.generation) {
		eventfd_read(bell.fd, &rung);
		return bell.fd;
	}
	if (bell.made)
		close(bell.fd); /* the parent's, too */
	bell.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	bell.made = bell.fd >= 0;
	bell.generation = shim_cm.generation;
	pthread_setspecific(bell_key, bell.made ? (void *)(intptr_t)(bell.fd + 1) : NULL);
	return bell.fd;
}

void shim_rs_watch(struct shim_rs *rs, struct shim_rs_watch *w, int fd)
{
	w->bell = fd;
	w->next = rs->watches;
	w->back = &rs->watches;
	if (w->next)
		w->next->back = &w->next;
	rs->watches = w;
}

void shim_rs_unwatch(struct shim_rs_watch *w)
{
	*w->back = w->next;
	if (w->next)
		w->next->back = w->back;
}

void shim_rs_ring(struct shim_rs *rs)
{
	for (struct shim_rs_watch *w = rs->watches; w; w = w->next)
		eventfd_write(w->bell, 1);
}

/* ---- sockets ---- */
struct shim_rs *shim_rs_new(int family, struct rdma_event_channel *channel, struct rdma_cm_id *id)
{
	struct shim_rs *rs = calloc(1, sizeof(*rs));

	if (!rs)
		return NULL;
	rs->fd = channel->fd;
	rs->generation = shim_cm.generation;
	rs->users = 1;
	rs->family = family;
	rs->channel = channel;
	rs->id = id;
	pthread_mutex_init(&rs->lock, NULL);
	pthread_mutex_init(&rs->sending, NULL);
	pthread_mutex_init(&rs->receiving, NULL);
	rs->last_request = &rs->requests;
	/* Linux' defaults. */
	rs->send_entries = rs->recv_entries = 384;
	rs->inlined = 64;
	rs->send_size = rs->recv_size = 1 << 17;
	rs->keep_idle = 7200;
	rs->keep_interval = 75;
	rs->keep_count = 9;
	return rs;
}

static void drop_requests(struct shim_rs *rs)
{
	while (rs->requests) {
		struct shim_rs_request *r = rs->requests;

		rs->requests = r->next;
		rdma_destroy_id(r->event->id); /* which rejects */
		rdma_ack_cm_event(r->event);
		free(r);
	}
}

/* Of what a parent has made, a child only closes the descriptor. */
static void free_socket(struct shim_rs *rs)
{
	if (rs->generation == shim_cm.generation) {
		drop_requests(rs);
		shim_rs_teardown(rs);
		rdma_destroy_id(rs->id);
	}
	rdma_destroy_event_channel(rs->channel);
	pthread_mutex_destroy(&rs->lock);
	pthread_mutex_destroy(&rs->sending);
	pthread_mutex_destroy(&rs->receiving);
	free(rs);
}

int shim_rs_insert(struct shim_rs *rs)
{
	int rc = 0;

	/* Events are taken when there are some. */
	if (fcntl(rs->fd, F_SETFL, O_NONBLOCK))
		return -1;
	pthread_mutex_lock(&table.mutex);
	if (rs->fd >= table.room) {
		const int room = rs->fd + 64;
		struct shim_rs **more = realloc(table.socket, (size_t)room * sizeof(struct shim_rs *));

		if (more) {
			memset(more + table.room, 0, (size_t)(room - table.room) * sizeof(struct shim_rs *));
			table.socket = more;
			table.room = room;
		} else {
			rc = shim_cm_fail(ENOMEM);
		}
	}
	if (!rc)
		table.socket[rs->fd] = rs;
	pthread_mutex_unlock(&table.mutex);
	return rc;
}

struct shim_rs *shim_rs_find(int fd)
{
	struct shim_rs *rs;

	pthread_mutex_lock(&table.mutex);
	rs = fd >= 0 && fd < table.room ? table.socket[fd] : NULL;
	if (rs)
		rs->users++;
	pthread_mutex_unlock(&table.mutex);
	return rs;
}

struct shim_rs *shim_rs_of(int fd)
{
	struct shim_rs *rs = shim_rs_find(fd);

	if (rs && rs->generation == shim_cm.generation)
		return rs;
	errno = rs ? ENODEV : EBADF;
	if (rs)
		shim_rs_put_back(rs);
	return NULL;
}

void shim_rs_put_back(struct shim_rs *rs)
{
	const int error = errno;
	bool last;

	pthread_mutex_lock(&table.mutex);
	last = !--rs->users;
	pthread_mutex_unlock(&table.mutex);
	if (last)
		free_socket(rs);
	errno = error;
}

struct shim_rs *shim_rs_remove(int fd)
{
	struct shim_rs *rs;

	pthread_mutex_lock(&table.mutex);
	rs = fd >= 0 && fd < table.room ? table.socket[fd] : NULL;
	if (rs)
		table.socket[fd] = NULL;
	pthread_mutex_unlock(&table.mutex);
	if (!rs)
		errno = EBADF;
	return rs;
}

int shim_rs_take_error(struct shim_rs *rs)
{
	const int error = rs->error;

	rs->error = 0;
	return error;
}

/* ---- what happens ---- */
static int ask(struct shim_rs *rs)
{
	struct shim_rs_hello hello;
	struct rdma_conn_param param = {.private_data = &hello,
					.private_data_len = sizeof(hello),
					.flow_control = 1,
					.retry_count = 7,
					.rnr_retry_count = 7};

	if (shim_rs_setup(rs))
		return -1;
	shim_rs_hello(rs, &hello);
	return rdma_connect(rs->id, &param);
}

static int established(struct shim_rs *rs, const struct rdma_cm_event *e)
{
	if (rs->state == SHIM_RS_CONNECTING &&
	    shim_rs_learn(rs, e->param.conn.private_data, e->param.conn.private_data_len))
		return -1;
	if (rs->state != SHIM_RS_ENDED)
		rs->state = SHIM_RS_CONNECTED;
	return 0;
}

static int failure(const struct rdma_cm_event *e)
{
	switch (e->event) {
	case RDMA_CM_EVENT_REJECTED:
		return ECONNREFUSED;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return ENODEV;
	case RDMA_CM_EVENT_UNREACHABLE:
		return e->status < 0 ? -e->status : ETIMEDOUT;
	default:
		return e->status < 0 ? -e->status : ECONNRESET;
	}
}

/* True: the event is kept. */
static bool keep_request(struct shim_rs *rs, struct rdma_cm_event *e)
{
	struct shim_rs_request *r = calloc(1, sizeof(*r));

	if (!r) {
		rdma_destroy_id(e->id);
		return false;
	}
	r->event = e;
	*rs->last_request = r;
	rs->last_request = &r->next;
	return true;
}

static bool hear(struct shim_rs *rs, struct rdma_cm_event *e)
{
	int rc = 0;

	switch (e->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		rc = rdma_resolve_route(rs->id, RESOLVE_MS);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		rc = ask(rs);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		rc = established(rs, e);
		break;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return keep_request(rs, e);
	case RDMA_CM_EVENT_DISCONNECTED:
		/* A peer that ends in order has sent a message before. */
		shim_rs_take_completions(rs);
		if (rs->state != SHIM_RS_ENDED)
			shim_rs_end(rs, ECONNRESET);
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		shim_rs_end(rs, failure(e));
	}
	if (rc)
		shim_rs_end(rs, errno);
	return false;
}

/* Without a system call. */
static bool has_event(const struct shim_rs *rs)
{
	bool has;

	pthread_mutex_lock(&shim_cm.mutex);
	has = ((struct shim_cm_channel *)rs->channel)->first != NULL;
	pthread_mutex_unlock(&shim_cm.mutex);
	return has;
}

static bool take_events(struct shim_rs *rs)
{
	struct rdma_cm_event *e;
	bool any = false;

	while (has_event(rs) && !rdma_get_cm_event(rs->channel, &e)) {
		any = true;
		if (!hear(rs, e))
			rdma_ack_cm_event(e);
	}
	return any;
}

bool shim_rs_progress(struct shim_rs *rs)
{
	bool any = take_events(rs);

	any |= shim_rs_take_completions(rs);
	shim_rs_give_credits(rs);
	if (any)
		shim_rs_ring(rs);
	return any;
}

/* ---- waiting ---- */
uint64_t shim_rs_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

bool shim_rs_arm(struct shim_rs *rs)
{
	struct ibv_cq *cq;
	void *context;

	if (rs->cq && rs->armed && !ibv_get_cq_event(rs->completions, &cq, &context)) {
		ibv_ack_cq_events(cq, 1);
		rs->armed = false;
	}
	if (rs->cq && !rs->armed)
		rs->armed = !ibv_req_notify_cq(rs->cq, 0);
	return shim_rs_progress(rs);
}

int shim_rs_wait(struct shim_rs *rs, int timeout_ms)
{
	const uint64_t until = shim_rs_now() + SHIM_RS_SPIN;
	struct pollfd p[3] = {{.fd = rs->fd, .events = POLLIN}, {.events = POLLIN}, {.fd = -1, .events = POLLIN}};
	struct shim_rs_watch watch;
	int rc, error, cancel;

	do {
		if (shim_rs_progress(rs))
			return 0;
	} while (shim_rs_now() < until);
	p[1].fd = shim_rs_bell();
	if (p[1].fd < 0)
		return -1;
	if (shim_rs_arm(rs))
		return 0;
	if (rs->completions)
		p[2].fd = rs->completions->fd;
	shim_rs_watch(rs, &watch, p[1].fd);
	pthread_mutex_unlock(&rs->lock);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* the socket knows of this stack */
	rc = poll(p, 3, timeout_ms);
	error = errno;
	pthread_setcancelstate(cancel, NULL);
	pthread_mutex_lock(&rs->lock);
	shim_rs_unwatch(&watch);
	return rc > 0 ? 0 : shim_cm_fail(rc ? error : ETIMEDOUT);
}
