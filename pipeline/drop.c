/* SPDX-License-Identifier: BSD-3-Clause */
#include "drop.h"

const char *const sp_drop_names[SP_DROP_COUNT] = {
#define X(id, name) [SP_DROP_##id] = name,
	SP_DROPS(X)
#undef X
};
