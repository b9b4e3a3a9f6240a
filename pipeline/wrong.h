/* SPDX-License-Identifier: BSD-3-Clause */
/* What a handler did wrong last, in numbers, which cost nothing until they are asked for; reports make words of them.
 */
#ifndef PIPELINE_WRONG_H
#define PIPELINE_WRONG_H

#include "../handlers/wire/host.h"

#include <stdbool.h>
#include <stddef.h>

enum sp_wrong_what {
	SP_WRONG_NOTHING,
	SP_WRONG_VERDICT, /* a: what is none */
	SP_WRONG_ERROR,	  /* SP_ERROR */
	SP_WRONG_REASON,  /* a: drop reason, b: how many there are */
	SP_WRONG_SENT,	  /* SP_SENT, and it had not; or SP_FORWARD, and it had */
	SP_WRONG_DMA,	  /* a: offset, b: bytes, c: the region's bytes; id: its number */
	SP_WRONG_KEPT	  /* a: how many it may keep */
};

/* [worker] */
struct sp_wrong {
	sp_time at;
	uint64_t a, b, c;
	uint32_t id;
	uint16_t what, doing; /* enum sp_wrong_what; in which call: enum sp_doing_what */
};

/* False: nothing. */
bool sp_wrong_say(const struct sp_wrong *wrong, char *text, size_t room);

#endif
