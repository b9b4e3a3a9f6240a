/* SPDX-License-Identifier: BSD-3-Clause */
#include "asked.h"

#include <math.h>
#include <time.h>

const struct sim_scheme sim_schemes[] = {{"sr-rto", SP_MODEL_SR, 3, SDR_SR_RTO, SDR_CODE_NONE, false},
					 {"sr-nack", SP_MODEL_SR, 1, SDR_SR_NACK, SDR_CODE_NONE, false},
					 {"ec-mds", SP_MODEL_EC_MDS, 3, SDR_EC_MDS, SDR_CODE_MDS, false},
					 {"ec-xor", SP_MODEL_EC_XOR, 3, SDR_EC_XOR, SDR_CODE_XOR, false},
					 {"auto", SP_MODEL_EC_MDS, 3, SDR_AUTO, SDR_CODE_MDS, true}};

double sim_chunk_drop(const struct sim *s)
{
	const double n = (double)(s->model.chunk / s->mtu), p = s->model.drop;

	if (!s->packet)
		return p;
	if (s->burst > 0) /* nothing is lost if the first packet is not and no burst begins behind another */
		return -expm1(log1p(-p) + (n - 1) * log1p(-p / (1 - p) / s->burst));
	return sp_model_chunk_drop(p, s->model.chunk / s->mtu);
}

uint64_t sim_message(const struct sim *s)
{
	return s->nodes ? (s->model.message + s->nodes - 1) / s->nodes : s->model.message;
}

double sim_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
