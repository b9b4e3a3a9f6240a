/* SPDX-License-Identifier: BSD-3-Clause */
#include "canary.h"

#include <stdint.h>
#include <string.h>

static const uint8_t canary[SP_CANARY_STATE] = {[0 ... SP_CANARY_STATE - 1] = 0xD5};

void sp_canary_put(void *at, size_t bytes)
{
	memcpy(at, canary, bytes);
}

bool sp_canary_lives(const void *at, size_t bytes)
{
	return !memcmp(at, canary, bytes);
}
