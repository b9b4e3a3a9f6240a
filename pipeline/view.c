/* SPDX-License-Identifier: BSD-3-Clause */
#include "view.h"
#include "worker.h"

void sp_last_error_note(struct sp_view *v, enum sp_last_error_kind what, uint64_t a, uint64_t b, uint64_t c,
			uint32_t id)
{
	v->last_error =
		(struct sp_last_error){.at = v->owner->now,
				       .a = a,
				       .b = b,
				       .c = c,
				       .id = id,
				       .what = (uint16_t)what,
				       .doing = (uint16_t)__atomic_load_n(&v->owner->doing.what, __ATOMIC_RELAXED)};
}
