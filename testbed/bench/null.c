/* SPDX-License-Identifier: BSD-3-Clause */
#include "null.h"

#include "../../handlers/spindle-handler.h"

static int attach(struct sp_ctx *c)
{
	const uint32_t qps = (uint32_t)sp_param_uint(c, "qps");
	const int r = qps ? sp_qp_claim(c, qps) : 0;

	return r ? sp_fail(c, -r, "qps", "cannot claim %u QP numbers", qps) : 0;
}

static uint32_t payload_burst(struct sp_ctx *c, struct sp_message *none, struct sp_packet *const *p, unsigned n)
{
	(void)c;
	(void)none;
	(void)p;
	(void)n;
	return SP_DONE;
}

static const struct sp_param params[] = {
	{"qps", SP_UINT, "0", 0, 65535, "QP numbers to claim"},
	{NULL},
};

static const struct sp_handler null_handler = {
	SP_HANDLER_HEAD, .name = BENCH_NULL, .doc = "takes packets and does nothing", .params = params,
	.ctx_size = 8,	 .attach = attach,   .payload_burst = payload_burst};

/* Not by SP_HANDLER: only benchmarks need it among the handlers. */
void bench_null_register(void)
{
	static bool known;

	if (!known)
		sp_handler_register(&null_handler);
	known = true;
}
