/* SPDX-License-Identifier: BSD-3-Clause */
#include "view.h"
#include "worker.h"

void sp_wrong_note(struct sp_view *v, enum sp_wrong_what what, uint64_t a, uint64_t b, uint64_t c, uint32_t id)
{
	v->wrong = (struct sp_wrong){.at = v->owner->now,
				     .a = a,
				     .b = b,
				     .c = c,
				     .id = id,
				     .what = (uint16_t)what,
				     .doing = (uint16_t)__atomic_load_n(&v->owner->doing.what, __ATOMIC_RELAXED)};
}
