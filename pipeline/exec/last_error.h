/* SPDX-License-Identifier: BSD-3-Clause */
/* What a handler did wrong last, in numbers, which cost nothing until they are asked for; reports make words of them.
 */
#ifndef PIPELINE_EXEC_LAST_ERROR_H
#define PIPELINE_EXEC_LAST_ERROR_H

#include "../../handlers/wire/host.h"

#include <stdbool.h>
#include <stddef.h>

enum sp_last_error_kind {
	SP_LAST_ERROR_NOTHING,
	SP_LAST_ERROR_VERDICT, /* a: what is none */
	SP_LAST_ERROR_ERROR,   /* SP_ERROR */
	SP_LAST_ERROR_REASON,  /* a: drop reason, b: how many there are */
	SP_LAST_ERROR_SENT,    /* SP_SENT, and it had not; or SP_FORWARD, and it had */
	SP_LAST_ERROR_DMA,     /* a: offset, b: bytes, c: the region's bytes; id: its number */
	SP_LAST_ERROR_HELD     /* a: how many it may keep */
};

/* [worker] */
struct sp_last_error {
	sp_time at;
	uint64_t a, b, c;
	uint32_t id;
	uint16_t what, doing; /* enum sp_last_error_kind; in which call: enum sp_doing_what */
};

/* False: nothing. */
bool sp_last_error_text(const struct sp_last_error *last_error, char *text, size_t room);

#endif
