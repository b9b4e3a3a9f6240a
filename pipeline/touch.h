/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts with news for the host: their doorbells ring at the end of the poll. */
#ifndef PIPELINE_TOUCH_H
#define PIPELINE_TOUCH_H

#include "context.h"
#include "view.h"
#include "worker.h"

/* Marks the context: an event was posted, or the area has changed. */
static inline void sp_touch(struct sp_view *v, enum sp_news news)
{
	if (v->context->door && !(v->touched & news)) {
		if (!v->touched)
			SLIST_INSERT_HEAD(&v->owner->touched, v, touched_next);
		v->touched |= news;
	}
}

#endif
