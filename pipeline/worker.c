/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker.h"
#include "engine.h"
#include "rx/match.h"

uint64_t sp_worker_random(struct sp_worker *w)
{
	return sp_generator_next(&w->random);
}

int sp_workers_secret(struct sp_nic *nic)
{
	int r = sp_generator_secret(&nic->qps->random);

	for (uint16_t i = 0; !r && i < nic->workers; i++)
		r = sp_generator_secret(&nic->worker[i]->random);
	return r;
}
