/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_peer.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "two_nics.h"

struct verbs_side verbs_near, verbs_far;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t server;
static _Atomic bool stop, idle;
static pid_t nics;

void verbs_lock(void)
{
	pthread_mutex_lock(&lock);
}

void verbs_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

void verbs_idle(bool on)
{
	verbs_lock();
	idle = on;
	verbs_unlock();
}

static void *serve(void *arg)
{
	struct sp_rdma_notice notice;

	while (!stop) {
		verbs_lock();
		while (!idle && sp_rdma_notice_take(verbs_near.rdma, &notice) == 1)
			;
		verbs_unlock();
		usleep(50);
	}
	return arg;
}

static void fork_prepare(void)
{
	verbs_lock();
	shim_memory_fork();
}

static void fork_parent(void)
{
	shim_memory_fork_parent();
	verbs_unlock();
}

static void fork_child(void)
{
	shim_memory_fork_child();
	pthread_mutex_init(&lock, NULL);
}

/* ---- the NICs ---- */
static void run_nics(int ready, int end)
{
	char byte = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	two_mode = ATTACHED;
	two_make();
	if (write(ready, &byte, 1) == 1)
		while (read(end, &byte, 1) < 0)
			;
	_exit(0);
}

static void start_nics(void)
{
	int ready[2], end[2];
	char byte;

	if (pipe(ready) || pipe(end))
		exit(1);
	fflush(stdout);
	nics = fork();
	if (!nics) {
		close(end[1]);
		run_nics(ready[1], end[0]);
	}
	close(ready[1]);
	close(end[0]);
	if (nics < 0 || read(ready[0], &byte, 1) != 1) {
		printf("Bail out! no NICs\n");
		exit(1);
	}
	close(ready[0]);
}

static int connect_to(struct sp_rdma_pair *qp, uint8_t host, uint32_t peer)
{
	struct sp_rdma_qp_attr a = {.ip = {[10] = 0xFF, 0xFF, 10, 0, 0, host},
				    .dest_qp = peer,
				    .path_mtu = 1024,
				    .access = VERBS_ALL & ~SP_RDMA_LOCAL_WRITE,
				    .max_rd_atomic = 4,
				    .max_dest_rd_atomic = 4,
				    .min_rnr_timer = 1,
				    .timeout = 20,
				    .retry_cnt = 7,
				    .rnr_retry = 7};
	int rc;

	a.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_PKEY | SP_RDMA_QP_PORT | SP_RDMA_QP_ACCESS;
	a.state = SP_RDMA_INIT;
	rc = sp_rdma_qp_modify(qp, &a);
	a.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_AV | SP_RDMA_QP_PATH_MTU | SP_RDMA_QP_DEST_QP | SP_RDMA_QP_RQ_PSN |
		 SP_RDMA_QP_MAX_DEST_RD | SP_RDMA_QP_MIN_RNR;
	a.state = SP_RDMA_RTR;
	rc = rc ? rc : sp_rdma_qp_modify(qp, &a);
	a.mask = SP_RDMA_QP_STATE | SP_RDMA_QP_SQ_PSN | SP_RDMA_QP_TIMEOUT | SP_RDMA_QP_RETRY_CNT |
		 SP_RDMA_QP_RNR_RETRY | SP_RDMA_QP_MAX_RD;
	a.state = SP_RDMA_RTS;
	return rc ? rc : sp_rdma_qp_modify(qp, &a);
}

static void open_side(struct verbs_side *s, unsigned index)
{
	struct sp_error error = {.text = "no side"};
	struct sp_rdma_qp_init init = {.type = SP_RDMA_RC};
	char path[100];

	snprintf(path, sizeof(path), "./ends-%d-%u.sock", (int)nics, index);
	if (sp_attach(path, &s->dev) || sp_rdma_open(s->dev, NULL, &s->rdma, &error) ||
	    sp_rdma_pd_alloc(s->rdma, &s->pd) || sp_rdma_cq_create(s->rdma, 64, false, NULL, &s->cq) ||
	    sp_mr_alloc(s->dev, VERBS_MOST, &s->memory) ||
	    sp_rdma_mr_reg(s->pd, s->memory, 0, VERBS_MOST, SP_RDMA_LOCAL_WRITE, &s->mr))
		two_bail(&error);
	init.send_cq = init.recv_cq = s->cq;
	if (sp_rdma_qp_create(s->pd, &init, &s->qp))
		two_bail(&error);
}

void verbs_open(void)
{
	const struct sp_error error = {.text = "no connection"};
	static bool watched;

	start_nics();
	if (getenv("TMPDIR") && chdir(getenv("TMPDIR")))
		two_bail(&error);
	open_side(&verbs_near, 0);
	open_side(&verbs_far, 1);
	if (connect_to(verbs_near.qp, 2, sp_rdma_qp_number(verbs_far.qp)) ||
	    connect_to(verbs_far.qp, 1, sp_rdma_qp_number(verbs_near.qp)))
		two_bail(&error);
	if (!watched)
		pthread_atfork(fork_prepare, fork_parent, fork_child);
	watched = true;
	stop = idle = false;
	pthread_create(&server, NULL, serve, NULL);
}

void verbs_shut(void)
{
	stop = true;
	pthread_join(server, NULL);
	CU_ASSERT_PTR_NULL(shim_areas);
	shim_memory_close();
	CU_ASSERT(!sp_rdma_close(verbs_near.rdma) && !sp_rdma_close(verbs_far.rdma));
	sp_dev_close(verbs_near.dev);
	sp_dev_close(verbs_far.dev);
	kill(nics, SIGKILL);
	waitpid(nics, NULL, 0);
}

/* ---- the program and the peer ---- */
struct shim_mr verbs_reg(void *addr, size_t len)
{
	struct shim_mr mr = {.mr = NULL};

	verbs_lock();
	CU_ASSERT_EQUAL_FATAL(shim_memory_register(NULL, verbs_near.pd, addr, len, (uintptr_t)addr, VERBS_ALL, &mr), 0);
	verbs_unlock();
	return mr;
}

void verbs_dereg(struct shim_mr *mr)
{
	int rc;

	do {
		verbs_lock();
		rc = shim_memory_deregister(mr);
		verbs_unlock();
	} while (rc == -EAGAIN && !usleep(20));
	CU_ASSERT_EQUAL(rc, 0);
}

static bool ask(const struct shim_mr *mr, uint64_t offset, uint32_t len, enum sp_rdma_wr_op op, uint64_t value)
{
	const struct sp_rdma_sge sge = {(uintptr_t)verbs_far.memory->addr, len, verbs_far.mr->lkey};
	const struct sp_rdma_send_wr wr = {.op = op,
					   .flags = SP_RDMA_SIGNALED,
					   .sge = &sge,
					   .sges = 1,
					   .remote = mr->iova + offset,
					   .rkey = mr->ibv.rkey,
					   .compare_add = value};
	const sp_time until = sp_clock() + PATIENCE;
	struct sp_rdma_wc wc;
	int n = 0;

	CU_ASSERT_EQUAL_FATAL(sp_rdma_post_send(verbs_far.qp, &wr, NULL), 0);
	while (!n && sp_clock() < until) {
		n = sp_rdma_poll_cq(verbs_far.cq, &wc, 1);
		if (!n)
			sched_yield();
	}
	return n == 1 && wc.status == SP_RDMA_OK;
}

bool verbs_write(const struct shim_mr *mr, uint64_t offset, const void *bytes, uint32_t len)
{
	memcpy(verbs_far.memory->addr, bytes, len);
	return ask(mr, offset, len, SP_RDMA_WR_WRITE, 0);
}

bool verbs_read(const struct shim_mr *mr, uint64_t offset, void *bytes, uint32_t len)
{
	const bool fine = ask(mr, offset, len, SP_RDMA_WR_READ, 0);

	memcpy(bytes, verbs_far.memory->addr, len);
	return fine;
}

bool verbs_add(const struct shim_mr *mr, uint64_t offset, uint64_t value, uint64_t *before)
{
	const bool fine = ask(mr, offset, 8, SP_RDMA_WR_FETCH_ADD, value);

	memcpy(before, verbs_far.memory->addr, 8);
	return fine;
}
