/* SPDX-License-Identifier: BSD-3-Clause */
#include "last_error.h"
#include "meter.h"

#include <inttypes.h>
#include <stdio.h>

bool sp_last_error_text(const struct sp_last_error *w, char *text, size_t room)
{
	const char *in = sp_doing_name(w->doing);

	switch ((enum sp_last_error_kind)w->what) {
	case SP_LAST_ERROR_NOTHING:
		return false;
	case SP_LAST_ERROR_VERDICT:
		snprintf(text, room, "%s() returned %" PRIu64 ", which is no verdict", in, w->a);
		return true;
	case SP_LAST_ERROR_ERROR:
		snprintf(text, room, "%s() returned SP_ERROR", in);
		return true;
	case SP_LAST_ERROR_REASON:
		snprintf(text, room, "%s() dropped for reason %" PRIu64 ", and declares %" PRIu64, in, w->a, w->b);
		return true;
	case SP_LAST_ERROR_SENT:
		snprintf(text, room,
			 "%s() said of a packet that it had sent it, or forwarded it, and the other is true", in);
		return true;
	case SP_LAST_ERROR_DMA:
		snprintf(text, room,
			 "%s() wanted %" PRIu64 " bytes at %" PRIu64 " of region %" PRIu32 ", which has %" PRIu64, in,
			 w->b, w->a, w->id, w->c);
		return true;
	case SP_LAST_ERROR_HELD:
		snprintf(text, room, "%s() wanted to keep more than %" PRIu64 " packets", in, w->a);
		return true;
	}
	return false;
}
