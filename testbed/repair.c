/* SPDX-License-Identifier: BSD-3-Clause */
#include "repair.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../handlers/ec/job.h"

#define MEMORY (256ull << 20) /* bytes: more than caches hold */
#define LONG   (SP_SEC / 10)

/* Of this thread alone: time of others on the same core does not count. */
static sp_time work_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (sp_time)t.tv_sec * SP_SEC + (sp_time)t.tv_nsec * 1000;
}

static uint64_t measure(struct sp_ec_job *job, const struct sp_ec_code *code, uint8_t *bytes, uint32_t chunk)
{
	const unsigned all = code->k + code->m;
	const uint64_t places = MEMORY / chunk / all ? MEMORY / chunk / all : 1;
	const sp_time begin = work_time();
	uint8_t *at[SP_EC_CHUNKS];
	uint64_t missing[SP_EC_WORDS] = {1}, done = 0, steps = 0, left = 0, took = 0;
	bool more = true;
	sp_time now;

	do {
		const struct sp_ec_submessage sub = {.data = code->k, .bytes = chunk, .last = chunk, .chunk = at};

		for (unsigned i = 0; i < all; i++)
			at[i] = bytes + (done % places * all + i) * chunk;
		if (sp_ec_decode_start(job, code, &sub, missing))
			return 0;
		do { /* as many submessages per slice as the handler takes */
			if (more || took > left) {
				steps++;
				left = SP_EC_SLICE;
			}
			more = sp_ec_job_step(job, left);
			took = sp_ec_job_spent(job) + SP_EC_ONE;
			left -= took < left ? took : left;
		} while (more);
		done++;
		now = work_time();
	} while (now - begin < LONG);
	return (uint64_t)((double)steps * SP_EC_SLICE * 8 / ((double)(now - begin) / (double)SP_SEC));
}

uint64_t sp_repair_rate(const struct sdr_ec *ec, uint32_t chunk)
{
	const enum sp_ec_kind kind = ec->code == SDR_CODE_XOR ? SP_EC_XOR : SP_EC_MDS;
	const size_t room = sp_ec_code_bytes(kind, ec->k, ec->m), one = (size_t)(ec->k + ec->m) * chunk;
	const size_t all = one > MEMORY ? one : MEMORY;
	struct sp_ec_job *job = malloc(sizeof(*job));
	void *tables = room ? aligned_alloc(64, (room + 63) & ~63ull) : NULL;
	void *own = room ? aligned_alloc(64, (room + 63) & ~63ull) : NULL;
	uint8_t *bytes = aligned_alloc(64, (all + 63) & ~63ull);
	struct sp_ec_code code;
	uint64_t rate = 0;

	if (job && tables && own && bytes && !sp_ec_code_init(&code, kind, ec->k, ec->m, tables)) {
		memset(bytes, 1, all);
		sp_ec_job_init(job, own);
		rate = measure(job, &code, bytes, chunk);
	}
	free(bytes);
	free(own);
	free(tables);
	free(job);
	return rate;
}
