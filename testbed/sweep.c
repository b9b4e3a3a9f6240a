/* SPDX-License-Identifier: BSD-3-Clause */
#include "sweep.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "quantile.h"
#include "allreduce.h"

#define PROCESSES 256
#define BATCHES	  16u	/* at least, if there are enough samples, for up to as many processors */
#define BATCH	  64u	/* samples at most */
#define LOOK	  50000 /* us between looks at the processes */
#define PATIENCE  40	/* looks before a process that is to stop, but is in the middle of a message, is killed */

/* Memory that the processes share. Job 0 is the sample without losses, job i + 1 is batch i. */
struct board {
	uint32_t next; /* next job; by atomic addition */
	uint32_t done; /* samples done; by atomic addition */
	int error;     /* the first error, by compare-and-swap; the text belongs to it */
	struct sp_error text;
	double lossless;
	struct sp_transfer_counters *count; /* of each batch */
	double *time;			    /* of each sample, seconds */
};

static uint32_t batch_of(uint32_t samples)
{
	const uint32_t batch = (samples + BATCHES - 1) / BATCHES;

	return batch < BATCH ? batch : BATCH;
}

/* Removes all impairments. */
static void make_lossless(struct sp_transfer_config *c)
{
	c->chunk_drop = 0;
	for (unsigned e = 0; e < 2; e++)
		c->link[e] = (struct sp_link_direction){
			.bandwidth = c->link[e].bandwidth, .delay = c->link[e].delay, .queue = c->link[e].queue};
}

/* ---- a process ---- */
static int fail(struct board *b, int rc, const struct sp_error *error)
{
	int none = 0;

	if (__atomic_compare_exchange_n(&b->error, &none, rc, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		b->text = *error;
	return rc;
}

/* What is measured: a message, or an allreduce. */
struct job {
	struct sp_transfer *transfer;
	struct sp_allreduce *ring; /* NULL: messages */
};

static int job_make(struct job *j, const struct sp_transfer_config *config, uint32_t nodes, struct sp_error *error)
{
	*j = (struct job){NULL};
	if (nodes)
		return sp_allreduce_create(&(struct sp_allreduce_config){*config, nodes}, error, &j->ring);
	return sp_transfer_create(config, error, &j->transfer);
}

static int job_do(struct job *j, sp_time *took)
{
	return j->ring ? sp_allreduce_run(j->ring, took) : sp_transfer_send(j->transfer, took);
}

static void job_count(struct job *j, struct sp_transfer_counters *count)
{
	if (j->ring)
		sp_allreduce_count(j->ring, count);
	else
		sp_transfer_count(j->transfer, count);
}

static void job_end(struct job *j)
{
	sp_allreduce_destroy(j->ring);
	sp_transfer_destroy(j->transfer);
}

static int batch_run(const struct sp_sweep *s, struct board *b, const struct sp_transfer_config *config,
		     uint32_t samples, double *time, struct sp_transfer_counters *count)
{
	struct sp_error error = {.key = ""};
	struct sp_transfer_counters before = {0};
	sp_time took = 0;
	struct job job;
	int rc = job_make(&job, config, s->nodes, &error);

	if (rc)
		return fail(b, rc, &error);
	for (uint32_t i = 0; i < s->warm_up && !rc && !__atomic_load_n(&b->error, __ATOMIC_RELAXED); i++)
		rc = job_do(&job, &took);
	if (s->warm_up)
		job_count(&job, &before);
	for (uint32_t i = 0; i < samples && !rc && !__atomic_load_n(&b->error, __ATOMIC_RELAXED); i++) {
		rc = job_do(&job, &took);
		time[i] = (double)took / (double)SP_SEC;
		__atomic_fetch_add(&b->done, 1, __ATOMIC_RELAXED);
	}
	if (rc) {
		snprintf(error.text, sizeof(error.text),
			 rc == -EBADMSG ? "the received bytes differ from those sent" : "%s", strerror(-rc));
		fail(b, rc, &error);
	}
	job_count(&job, count);
	sp_transfer_add(count, &before, -1);
	job_end(&job);
	return rc;
}

static int work(const struct sp_sweep *s, struct board *b)
{
	const uint32_t batch = batch_of(s->samples), jobs = (s->samples + batch - 1) / batch + 1;
	struct sp_error error = {.key = ""};
	int rc = sp_eal_init(0, NULL, &error);

	if (rc)
		return fail(b, rc, &error);
	for (uint32_t job; !rc && (job = __atomic_fetch_add(&b->next, 1, __ATOMIC_RELAXED)) < jobs;) {
		struct sp_transfer_config config = s->transfer;
		struct sp_transfer_counters ignored;
		struct sp_random x;
		const uint32_t first = (job - 1) * batch;

		sp_random_seed(&x, s->transfer.seed, job);
		config.seed = sp_random_next(&x) >> 2;
		if (job) {
			rc = batch_run(s, b, &config, s->samples - first < batch ? s->samples - first : batch,
				       b->time + first, &b->count[job - 1]);
			continue;
		}
		make_lossless(&config);
		rc = batch_run(s, b, &config, 1, &b->lossless, &ignored);
		__atomic_fetch_sub(&b->done, 1, __ATOMIC_RELAXED);
	}
	return rc;
}

/* ---- all of them ---- */
static uint32_t processors(void)
{
	cpu_set_t set;
	int n = sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);

	return n < 1 ? 1 : n < PROCESSES ? (uint32_t)n : PROCESSES;
}

static pid_t start(const struct sp_sweep *s, struct board *b)
{
	const pid_t parent = getpid(), pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGINT, SIG_IGN); /* from the terminal: the parent decides */
	signal(SIGTERM, SIG_DFL);
	signal(SIGHUP, SIG_IGN);
	if (getppid() == parent)
		work(s, b);
	exit(0); /* also ends EAL */
}

static void reap(struct board *b, pid_t *pid, uint32_t n, uint32_t *alive)
{
	for (uint32_t i = 0; i < n; i++) {
		struct sp_error error = {.key = ""};
		int status;

		if (pid[i] <= 0 || waitpid(pid[i], &status, WNOHANG) != pid[i])
			continue;
		if (!WIFEXITED(status) || WEXITSTATUS(status)) {
			snprintf(error.text, sizeof(error.text), "a process of the simulation has died (%s %d)",
				 WIFSIGNALED(status) ? "signal" : "status",
				 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
			fail(b, -ECHILD, &error);
		}
		pid[i] = 0;
		--*alive;
	}
}

/* Waits until all processes have ended. */
static void watch(const struct sp_sweep *s, struct board *b, pid_t *pid, uint32_t n)
{
	uint32_t alive = 0;
	unsigned patience = 0;

	for (uint32_t i = 0; i < n; i++)
		alive += pid[i] > 0;
	while (alive) {
		const struct sp_error none = {.key = ""};

		usleep(LOOK);
		reap(b, pid, n, &alive);
		if (s->progress && s->progress(s->arg, __atomic_load_n(&b->done, __ATOMIC_RELAXED)))
			fail(b, -ECANCELED, &none);
		if (__atomic_load_n(&b->error, __ATOMIC_RELAXED) && ++patience == PATIENCE)
			for (uint32_t i = 0; i < n; i++)
				if (pid[i] > 0)
					kill(pid[i], SIGKILL);
	}
}

static void conclude(struct board *b, uint32_t samples, struct sp_sweep_outcome *o)
{
	const uint32_t batch = batch_of(samples);
	double squares = 0;

	*o = (struct sp_sweep_outcome){.lossless = b->lossless};
	for (uint32_t i = 0; i * batch < samples; i++)
		sp_transfer_add(&o->count, &b->count[i], 1);
	for (uint32_t i = 0; i < samples; i++)
		o->mean += b->time[i] / samples;
	for (uint32_t i = 0; i < samples; i++)
		squares += (b->time[i] - o->mean) * (b->time[i] - o->mean);
	o->deviation = samples > 1 ? sqrt(squares / (samples - 1)) : 0;
	o->p50 = sp_quantile(b->time, samples, 500);
	o->p99 = sp_quantile(b->time, samples, 990);
	o->p999 = sp_quantile(b->time, samples, 999);
}

int sp_sweep_run(const struct sp_sweep *s, struct sp_sweep_outcome *outcome, struct sp_error *error)
{
	const uint32_t n = s->processes && s->processes < PROCESSES ? s->processes : processors();
	const size_t counts = s->samples * sizeof(struct sp_transfer_counters), times = s->samples * sizeof(double);
	pid_t pid[PROCESSES] = {0};
	struct board *b;
	int rc;

	*error = (struct sp_error){.key = ""};
	if (!s->samples || s->samples > SP_SWEEP_SAMPLES_MAX)
		return -EINVAL;
	b = mmap(NULL, sizeof(*b) + counts + times, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (b == MAP_FAILED)
		return -ENOMEM;
	b->count = (struct sp_transfer_counters *)(b + 1);
	b->time = (double *)(b->count + s->samples);
	fflush(NULL); /* so that buffered output is not printed twice */
	for (uint32_t i = 0; i < n; i++) {
		pid[i] = start(s, b);
		if (pid[i] < 0)
			fail(b, -errno, error);
	}
	watch(s, b, pid, n);
	rc = b->error;
	if (rc)
		*error = b->text;
	else {
		if (s->times)
			memcpy(s->times, b->time, times);
		conclude(b, s->samples, outcome);
	}
	munmap(b, sizeof(*b) + counts + times);
	return rc;
}
