/* SPDX-License-Identifier: BSD-3-Clause */
#include "probe_nic.h"

PROBE(hashed, "hashed", SP_MESSAGES_HASHED, NULL, NULL)
PROBE(hashed_burst, "hashed-burst", SP_MESSAGES_HASHED, NULL, probe_burst)

static const struct sp_handler plain = {SP_HANDLER_HEAD,	.name = "plain",
					.drops = probe_drops,	.attach = probe_attach_none,
					.detach = probe_detach, .payload = probe_payload};
SP_HANDLER(plain)

void probe_start(void)
{
	probe_log_clear();
	dut_start(&dut, 1);
}

void probe_stop(void)
{
	dut_check_totals(&dut);
	dut_stop(&dut);
	probe_log_clear();
}

void probe_say(uint32_t qp, struct probe_words w)
{
	probe_feed(&dut, qp, &w);
}

void probe_say_udp(uint16_t port)
{
	struct probe_words w = {.magic = PROBE_MAGIC, .key = 1};
	struct frame f;

	dut_udp(&f, port, &w, sizeof(w));
	dut_feed(&dut, &f);
}
