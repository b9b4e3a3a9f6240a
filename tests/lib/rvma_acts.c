/* SPDX-License-Identifier: BSD-3-Clause */
#include "rvma_acts.h"

int app_call(struct app *x, uint16_t op, const uint64_t arg[6], uint64_t cookie, uint16_t flags,
	     struct sp_event *result)
{
	struct sp_command c = {.op = op, .flags = flags, .context = x->id, .cookie = cookie};

	memcpy(c.arg, arg, sizeof(c.arg));
	return sp_command_call(x->dev, &c, result);
}

/* One of those, preferably of those that `good` likes. */
static struct mo_window *app_window(struct apps *a, unsigned c, bool closed_too,
				    bool (*good)(const struct mo_window *w))
{
	struct mo_window *found = NULL;
	unsigned n = 0, liked = 0;

	for (struct mo_window *w = a->mo.context[c].windows; w; w = w->next) {
		if (w->gone || w->freeing || (w->closed && !closed_too) || (liked && !good(w)))
			continue;
		if (good && good(w) && !liked++)
			n = 0;
		if (!app_below(a, ++n))
			found = w;
	}
	return found;
}

static bool app_takes(const struct mo_window *w)
{
	return w->posteds;
}

static bool app_wants(const struct mo_window *w)
{
	return w->posteds < 3 && !w->closed;
}

static bool app_keeps(const struct mo_window *w)
{
	return mo_completes(w) > 2;
}

static bool app_tells(const struct mo_window *w)
{
	return w->flags & MO_READABLE && mo_completes(w);
}

void app_init_window(struct apps *a, struct app *x)
{
	const uint64_t mailbox = app_mailboxes[app_below(a, APP_KINDS)], key = app_keys[app_below(a, 4)];
	uint64_t flags = app_below(a, 2) * MO_OPS | app_below(a, 2) * MO_MANAGED | app_below(a, 2) * MO_READABLE |
			 (app_below(a, 6) ? 0 : MO_FORGET) | (app_below(a, 5) ? 0 : MO_CATCH_ALL) |
			 (a->silent && !app_below(a, 3) ? MO_SILENT : 0);
	const uint64_t threshold = flags & MO_OPS    ? app_below(a, 6)
				   : app_below(a, 3) ? 1 + app_below(a, 6000)
						     : app_below(a, 2);
	struct sp_event result;

	if (flags & MO_FORGET)
		flags &= ~(uint64_t)MO_READABLE;
	if (!app_below(a, 12))
		flags = MO_REGION;
	bool taken =
		mo_window_find(&a->mo, x->c, mailbox) || (flags & MO_CATCH_ALL && mo_window_catch_all(&a->mo, x->c));
	int rc = app_call(x, SP_RVMA_CMD_WINDOW, APP_ARGS(mailbox, key, threshold, flags), 0, 0, &result);
	APP_CHECK(a, rc == (taken ? -EEXIST : 0), "window for mailbox %llx: %d, should be %d", U(mailbox), rc,
		  taken ? -EEXIST : 0);
	if (rc)
		return;
	struct mo_window *w = mo_window_add(&a->mo, x->c, result.arg[0], mailbox, key, threshold, flags);
	APP_CHECK(a, w->id, "a window with id 0");
	if (app_below(a, 5))
		return;
	w->limit_buffers = app_below(a, 3) ? 0 : 1 + app_below(a, 4);
	w->limit_bytes = app_below(a, 3) ? 0 : app_below(a, 30000);
	w->limit_put = app_below(a, 3) ? 0 : 1 + app_below(a, 4000);
	rc = app_call(x, SP_RVMA_CMD_LIMIT, APP_ARGS(w->id, w->limit_buffers, w->limit_bytes, w->limit_put, 0), 0, 0,
		      &result);
	APP_CHECK(a, !rc, "limits: %d", rc);
}

static void app_release(struct apps *a, struct app *x, struct mo_window *w, uint64_t epoch)
{
	const struct mo_buffer *b = mo_completed(w, epoch);
	struct sp_event result;
	const int rc = app_call(x, SP_RVMA_CMD_RELEASE, APP_ARGS(w->id, epoch), 0, 0, &result);

	APP_CHECK(a, rc == (b ? 0 : -ENODATA) || (b && rc == -EAGAIN), "release of epoch %llu: %d, should be %d",
		  U(epoch), rc, b ? 0 : -ENODATA);
	if (!b)
		return;
	/* those before one that a get may be reading have gone */
	const uint64_t held = app_window_status(x, w->id).held;

	while (w->helds && w->held[0]->epoch <= epoch && (!rc || mo_completes(w) > held))
		mo_hold_drop(&a->mo, w, 0, 1);
	APP_CHECK(a, !rc || (w->helds && w->held[0]->epoch <= epoch && w->held[0]->read),
		  "release: %d, as if a get was reading, and none ever has", rc);
}

void app_post(struct apps *a, struct app *x)
{
	struct mo_window *w = app_window(a, x->c, !app_below(a, 20), app_below(a, 4) ? app_wants : NULL);
	unsigned slot = (unsigned)app_below(a, APP_SLOTS), n;
	struct sp_event result;
	struct mo_buffer *b;
	int rc, should = 0;

	for (n = 0; n < APP_SLOTS && x->slot[slot]; n++)
		slot = (slot + 1) % APP_SLOTS;
	if (n == APP_SLOTS) { /* all are posted or kept */
		struct mo_window *full = app_window(a, x->c, true, app_keeps);

		if (full && mo_completes(full))
			app_release(a, x, full, full->held[0]->epoch + app_below(a, mo_completes(full)));
		return;
	}
	if (!w || n == APP_SLOTS || w->posteds == MO_BUFFERS || w->helds > MO_HELD - 2 * MO_BUFFERS)
		return;
	b = calloc(1, sizeof(*b));
	b->length = app_below(a, 4) ? 1 + app_below(a, APP_ROOM - 2 * APP_GUARD - 64) : 1 + app_below(a, 600);
	b->at = APP_SLOT(slot) + APP_GUARD + app_below(a, 64);
	b->line = app_below(a, 8) ? slot * 64 : MO_NOWHERE;
	b->address = (uint64_t)(uintptr_t)(x->memory + b->at);
	b->threshold = app_below(a, 3)	   ? 0
		       : w->flags & MO_OPS ? 1 + app_below(a, 5)
					   : 1 + app_below(a, b->length + b->length / 8);
	b->mailbox = w->mailbox;
	b->owner = &x->slot[slot];
	if (w->closed)
		should = -ESHUTDOWN;
	else if ((w->flags & MO_REGION && w->posteds) || (w->limit_buffers && w->posteds >= w->limit_buffers) ||
		 (w->limit_bytes && mo_posted_bytes(w) + b->length > w->limit_bytes))
		should = -EDQUOT;
	if (!should) { /* it is the application's: new bytes, and the notification is cleared */
		memset(x->memory + APP_SLOT(slot), (int)(x->order + slot), APP_ROOM);
		memset(x->memory + slot * 64, 0, 64);
		memcpy(a->mo.context[x->c].memory + APP_SLOT(slot), x->memory + APP_SLOT(slot), APP_ROOM);
		memset(a->mo.context[x->c].memory + slot * 64, 0, 64);
	}
	rc = app_call(x, SP_CMD_POST,
		      APP_ARGS(x->mr->id | (b->line == MO_NOWHERE ? 0 : (uint64_t)x->mr->id << 32), b->at, b->length,
			       b->line == MO_NOWHERE ? 0 : b->line, b->threshold, w->id),
		      b->address, 0, &result);
	APP_CHECK(a, rc == should,
		  "posting %llu bytes to a window of %u buffers and %llu bytes, limits %llu, %llu: %d, should be %d",
		  U(b->length), w->posteds, U(mo_posted_bytes(w)), U(w->limit_buffers), U(w->limit_bytes), rc, should);
	if (rc) {
		free(b);
		return;
	}
	x->slot[slot] = 1;
	w->posted[w->posteds++] = b;
}

void app_operation(struct apps *a, struct app *x, bool get)
{
	unsigned slot = (unsigned)app_below(a, APP_OPS), to = (unsigned)app_below(a, a->mo.contexts), n;
	struct sp_event result;
	struct op o = {.used = true, .get = get};
	uint64_t room;
	int rc;

	for (n = 0; n < APP_OPS && x->op[slot].used; n++)
		slot = (slot + 1) % APP_OPS;
	while (a->app[to].nic == x->nic)
		to = (to + 1) % a->mo.contexts;
	if (n == APP_OPS)
		return;
	struct mo_window *w = app_below(a, 20) ? app_window(a, to, !app_below(a, 10),
							    !app_below(a, 8) ? NULL
							    : get	     ? app_tells
									     : app_takes)
					       : NULL;
	o.to = to;
	o.life = a->app[to].life;
	o.number = (x->op[slot].number + 1) & UINT32_MAX;
	o.order = ++x->order;
	o.mailbox = w		      ? w->mailbox
		    : app_below(a, 2) ? app_mailboxes[app_below(a, APP_KINDS)]
				      : sp_random_next(&a->random);
	o.key = w && app_below(a, 25) ? w->key : app_keys[app_below(a, 4)];
	o.length = app_below(a, 3)   ? app_below(a, 1500)
		   : app_below(a, 2) ? app_below(a, APP_ROOM - 2 * APP_GUARD)
				     : app_below(a, 3);
	if (!app_below(a, 4)) {
		const uint64_t mtu = a->mo.context[to].mtu;

		o.length = mtu * (1 + app_below(a, 66)) - 1 + app_below(a, 3);
	}
	o.length = o.length <= APP_ROOM - 2 * APP_GUARD ? o.length : APP_ROOM - 2 * APP_GUARD;
	if (get) {
		struct mo_buffer *b = w && w->helds ? w->held[w->helds - 1] : NULL;

		room = b ? mo_length(w, b) : 0;
		o.back = (unsigned)app_below(a, 4) ? 0 : (unsigned)app_below(a, 3);
		room = room < APP_ROOM - 2 * APP_GUARD ? room : APP_ROOM - 2 * APP_GUARD;
		o.length = app_below(a, 20) && room ? app_below(a, room + 1) : o.length;
		o.at = app_below(a, 20) ? app_below(a, (room > o.length ? room - o.length : 0) + 1)
					: sp_random_next(&a->random);
		rc = app_call(x, SP_RVMA_CMD_GET,
			      APP_ARGS(x->mr->id | (uint64_t)(x->peer[to] - 1) << 32, APP_LAND(slot) + APP_GUARD,
				       o.length, o.mailbox, o.key, o.at),
			      SP_RVMA_OP(slot, o.number), (uint16_t)(o.back << SP_RVMA_CMD_BACK_SHIFT), &result);
	} else {
		room = w && w->posteds ? w->posted[0]->length : 4000;
		if (w && w->flags & MO_MANAGED && w->posteds)
			room -= w->posted[0]->tail;
		if (app_below(a, 8) && o.length > room)
			o.length = app_below(a, 3) ? app_below(a, room + 1) : room;
		o.at = w && w->flags & MO_MANAGED ? RVMA_W_APPEND
		       : !app_below(a, 4)	  ? RVMA_W_APPEND
						  : app_below(a, (room > o.length ? room - o.length : 0) + 1);
		if (!app_below(a, 30))
			o.at = app_below(a, 2) ? sp_random_next(&a->random) : UINT64_MAX - 1 - app_below(a, 100);
		o.fence = !app_below(a, 12);
		o.source = app_below(a, APP_SOURCE - APP_ROOM);
		rc = app_call(x, SP_RVMA_CMD_PUT,
			      APP_ARGS(x->source->id | (uint64_t)(x->peer[to] - 1) << 32, o.source, o.length, o.mailbox,
				       o.key, o.at),
			      SP_RVMA_OP(slot, o.number), o.fence ? SP_RVMA_CMD_FENCE : 0, &result);
	}
	APP_CHECK(a, !rc || rc == -EAGAIN, "%s: %d", get ? "get" : "put", rc);
	if (rc)
		return;
	x->op[slot] = o;
}

static void app_check_completed(struct apps *a, const struct mo_window *w, const struct mo_buffer *b,
				const struct sp_event *r)
{
	APP_CHECK(a,
		  r->arg[0] == b->address && r->arg[1] == mo_length(w, b) && r->arg[2] == b->flags &&
			  r->arg[3] == b->mailbox && r->arg[4] == b->epoch,
		  "completed buffer: address %llx length %llu flags %llx mailbox %llx epoch %llu, should be %llx %llu "
		  "%llx %llx %llu",
		  U(r->arg[0]), U(r->arg[1]), U(r->arg[2]), U(r->arg[3]), U(r->arg[4]), U(b->address),
		  U(mo_length(w, b)), U(b->flags), U(b->mailbox), U(b->epoch));
}

void app_free_window(struct apps *a, struct app *x, struct mo_window *w)
{
	struct sp_event result;
	const int rc = app_call(x, SP_RVMA_CMD_FREE, APP_ARGS(w->id), 0, 0, &result);

	APP_CHECK(a, rc == 0 || rc == -EAGAIN, "free: %d", rc);
	if (!w->freeing)
		mo_window_free(&a->mo, x->c, w);
	if (!rc)
		mo_window_freed(&a->mo, w);
}

/* Can the window go back to the begin of its first epoch? */
static bool mo_begins(const struct mo_window *w)
{
	if (w->flags & MO_REGION || (w->flags & MO_FORGET && w->epoch))
		return false;
	return w->helds ? !w->held[0]->epoch : !w->epoch;
}

void app_manage(struct apps *a, struct app *x)
{
	struct mo_window *w = app_window(a, x->c, true, NULL);
	struct sp_event result;
	struct mo_buffer *b;
	bool begin, may;
	uint64_t epoch;
	int rc;

	if (!w)
		return;
	epoch = w->helds && app_below(a, 4) ? w->held[0]->epoch + app_below(a, w->helds + 1)
		: app_below(a, 2)	    ? app_below(a, w->epoch + 2)
					    : sp_random_next(&a->random);
	switch (app_below(a, 16)) {
	case 0 ... 5:
		rc = app_call(x, SP_RVMA_CMD_INC_EPOCH, APP_ARGS(w->id), 0, 0, &result);
		APP_CHECK(a,
			  rc == (w->flags & MO_REGION ? -EINVAL
				 : w->posteds	      ? 0
						      : -ENODATA),
			  "inc_epoch with %u buffers: %d", w->posteds, rc);
		if (!rc)
			mo_leave(&a->mo, x->c, w, MO_PARTIAL);
		break;
	case 6:
		if (app_below(a, 2))
			break;
		rc = app_call(x, SP_RVMA_CMD_CLOSE, APP_ARGS(w->id), 0, 0, &result);
		APP_CHECK(a, rc == (w->closed ? -ESHUTDOWN : 0), "close: %d", rc);
		if (!w->closed)
			mo_close(&a->mo, x->c, w);
		break;
	case 7:
		if (app_below(a, 2) && !w->closed)
			break;
		app_free_window(a, x, w);
		break;
	case 8 ... 10:
		app_release(a, x, w, epoch);
		break;
	case 11 ... 12:
		begin = !app_below(a, 6);
		b = begin ? NULL : mo_completed(w, epoch);
		may = begin ? mo_begins(w) : b != NULL;
		rc = app_call(x, SP_RVMA_CMD_REWIND, APP_ARGS(w->id, begin ? SP_RVMA_BEGIN : epoch), 0, 0, &result);
		APP_CHECK(a, rc == (may ? 0 : -ENODATA), "rewind to %s %llu of %llu: %d",
			  begin ? "the begin," : "epoch", U(epoch), U(w->epoch), rc);
		if (b && !rc)
			app_check_completed(a, w, b, &result);
		if (begin && !rc)
			APP_CHECK(a, !result.arg[0] && !result.arg[1] && result.arg[4] == SP_RVMA_BEGIN,
				  "rewound to the begin, and there is a buffer");
		if (may && !rc)
			mo_rewind(&a->mo, x->c, w, b);
		break;
	default:
		b = mo_completed(w, epoch);
		rc = app_call(x, SP_RVMA_CMD_EPOCH, APP_ARGS(w->id, epoch), 0, 0, &result);
		APP_CHECK(a, rc == (b ? 0 : -ENODATA), "epoch %llu of %llu: %d, should be %d", U(epoch), U(w->epoch),
			  rc, b ? 0 : -ENODATA);
		if (b && !rc)
			app_check_completed(a, w, b, &result);
	}
}
