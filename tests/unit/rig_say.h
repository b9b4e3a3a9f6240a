/* SPDX-License-Identifier: BSD-3-Clause */
/* The rig of one test program, probes by name, and short words for what most tests of packets do. */
#ifndef TESTS_RIG_SAY_H
#define TESTS_RIG_SAY_H

#include "rig.h"

RIG_PROBE(hashed, "hashed", SP_MESSAGES_HASHED, NULL, NULL)
RIG_PROBE(hashed_burst, "hashed-burst", SP_MESSAGES_HASHED, NULL, rig_burst)
static const struct sp_handler plain = {SP_HANDLER_HEAD,	   .name = "plain",	 .drops = rig_drops,
					.attach = rig_attach_none, .detach = rig_detach, .payload = rig_payload};
SP_HANDLER(plain)

static struct rig rig;

static inline void start(void)
{
	rig_log_clear();
	rig_start(&rig, 1);
}

static inline void end(void)
{
	rig_check_totals(&rig);
	rig_stop(&rig);
	rig_log_clear();
}

static inline void say(uint32_t qp, struct rig_words w)
{
	rig_say(&rig, qp, &w);
}

static inline uint64_t dropped(const char *reason)
{
	return sp_nic_dropped(rig.nic, reason);
}

static inline void say_udp(uint16_t port)
{
	struct rig_words w = {.magic = RIG_MAGIC, .key = 1};
	struct frame f;

	rig_udp(&f, port, &w, sizeof(w));
	rig_feed(&rig, &f);
}

#endif
