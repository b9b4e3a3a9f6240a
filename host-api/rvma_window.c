/* SPDX-License-Identifier: BSD-3-Clause */
/* RVMA for applications: windows and their buffers. */
#include "rvma_private.h"

#include <stdlib.h>

static_assert(sizeof(struct rvma_notification) == sizeof(struct sp_rvma_notification) &&
		      offsetof(struct rvma_notification, puts) == offsetof(struct sp_rvma_notification, puts) &&
		      (int)RVMA_PARTIAL == SP_RVMA_PARTIAL && (int)RVMA_LOST == SP_RVMA_LOST &&
		      (int)RVMA_ENDED == SP_RVMA_ENDED,
	      "the NIC writes it");

/* ---- making and ending ---- */
static int rvma_window_flags(const struct rvma_window_attr *attr, uint64_t *flags)
{
	*flags = (attr->type == RVMA_EPOCH_OPS ? SP_RVMA_OPS : 0) | (attr->mode == RVMA_MANAGED ? SP_RVMA_MANAGED : 0) |
		 (attr->mode == RVMA_REGION ? SP_RVMA_REGION : 0) | (attr->catch_all ? SP_RVMA_CATCH_ALL : 0) |
		 (attr->silent ? SP_RVMA_SILENT : 0) | (attr->readable ? SP_RVMA_READABLE : 0) |
		 (attr->forget ? SP_RVMA_FORGET : 0);
	if (attr->type != RVMA_EPOCH_BYTES && attr->type != RVMA_EPOCH_OPS)
		return -EINVAL;
	return attr->mode == RVMA_STEERED || attr->mode == RVMA_MANAGED || attr->mode == RVMA_REGION ? 0 : -EINVAL;
}

static int rvma_window_call(struct rvma_window *w, uint16_t op)
{
	return rvma_call(w->rvma, op, &w->id, 1, NULL);
}

/* The NIC does it in slices. */
static int rvma_call_to_end(struct rvma *r, uint16_t op, const uint64_t *arg, unsigned args, struct sp_event *result)
{
	int rc;

	do
		rc = rvma_call(r, op, arg, args, result);
	while (rc == -EINPROGRESS);
	return rc;
}

int rvma_init_window(struct rvma *r, uint64_t mailbox, const struct rvma_window_attr *attr, struct rvma_window **out)
{
	static const struct rvma_window_attr defaults;
	struct sp_event result = {.status = 0};
	struct rvma_window *w;
	uint64_t flags;
	int rc;

	attr = attr ? attr : &defaults;
	rc = rvma_window_flags(attr, &flags);
	if (rc)
		return rc;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->rvma = r;
	rc = rvma_call(r, SP_RVMA_CMD_WINDOW, (uint64_t[]){mailbox, attr->key, attr->threshold, flags}, 4, &result);
	if (rc)
		goto fail;
	w->id = result.arg[0];
	rc = -EIO;
	if ((uint32_t)w->id >= r->windows)
		goto fail;
	rc = 0;
	if (attr->max_buffers || attr->max_bytes || attr->max_put || attr->max_rate)
		rc = rvma_call(r, SP_RVMA_CMD_LIMIT,
			       (uint64_t[]){w->id, attr->max_buffers, attr->max_bytes, attr->max_put, attr->max_rate},
			       5, NULL);
	if (rc) {
		rvma_window_call(w, SP_RVMA_CMD_FREE);
		goto fail;
	}
	w->next = r->window;
	w->back = &r->window;
	if (w->next)
		w->next->back = &w->next;
	r->window = w;
	*out = w;
	return 0;
fail:
	free(w);
	return rc;
}

int rvma_close_win(struct rvma_window *window)
{
	return rvma_call_to_end(window->rvma, SP_RVMA_CMD_CLOSE, &window->id, 1, NULL);
}

int rvma_free_win(struct rvma_window *window)
{
	int rc;

	if (!window)
		return 0;
	rc = rvma_window_call(window, SP_RVMA_CMD_FREE);
	if (rc == -EAGAIN)
		return rc;
	*window->back = window->next;
	if (window->next)
		window->next->back = window->back;
	free(window);
	return rc;
}

/* ---- buffers and epochs ---- */
int rvma_post_buffer(struct rvma_window *window, const struct rvma_buffer *buffer)
{
	struct rvma *r = window->rvma;
	struct sp_command command = {.op = SP_CMD_POST, .flags = SP_CMD_REPLY, .context = r->id};
	const struct sp_mr *mr = buffer->mr, *notify = buffer->notify_mr;
	int rc = rvma_check(r);

	rc = rc ? rc : sp_mr_check(r->dev, mr, buffer->offset, buffer->size);
	if (!rc && notify)
		rc = sp_mr_check(r->dev, notify, buffer->notify_offset, sizeof(struct rvma_notification));
	if (rc)
		return rc;
	/* Regions of the application's own memory may begin at any address. */
	if (notify && ((uintptr_t)notify->addr + buffer->notify_offset) % sizeof(struct rvma_notification))
		return -EINVAL;
	command.cookie = (uintptr_t)mr->addr + buffer->offset;
	command.arg[0] = mr->id | (uint64_t)(notify ? notify->id : 0) << 32;
	command.arg[1] = buffer->offset;
	command.arg[2] = buffer->size;
	command.arg[3] = notify ? buffer->notify_offset : 0;
	command.arg[4] = buffer->threshold;
	command.arg[5] = window->id;
	return sp_command_call(r->dev, &command, NULL);
}

int rvma_win_inc_epoch(struct rvma_window *window)
{
	return rvma_window_call(window, SP_RVMA_CMD_INC_EPOCH);
}

static uint64_t rvma_window_read(const struct rvma_window *w, size_t field)
{
	return rvma_area_read(w->rvma,
			      w->rvma->layout.window + (uint32_t)w->id * sizeof(struct sp_rvma_window_status) + field);
}
#define RVMA_WINDOW(w, field) rvma_window_read(w, offsetof(struct sp_rvma_window_status, field))

int rvma_win_get_epoch(struct rvma_window *window, uint64_t *epoch)
{
	*epoch = RVMA_WINDOW(window, epoch);
	return rvma_check(window->rvma);
}

int rvma_win_status(struct rvma_window *window, struct rvma_window_status *status)
{
	struct rvma *r = window->rvma;

	*status = (struct rvma_window_status){
		.epoch = RVMA_WINDOW(window, epoch),
		.posted = RVMA_WINDOW(window, posted),
		.held = RVMA_WINDOW(window, held),
		.puts = RVMA_WINDOW(window, puts),
		.bytes = RVMA_WINDOW(window, bytes),
		.refused = RVMA_WINDOW(window, refused),
		.lost = rvma_area_read(r, r->layout.lost + (uint32_t)window->id * sizeof(uint64_t)),
		.gone = rvma_area_read(r, r->layout.gone),
		.closed = RVMA_WINDOW(window, closed)};
	return rvma_check(r);
}

static int rvma_epoch_call(struct rvma_window *w, uint16_t op, uint64_t epoch, struct rvma_completed *completed)
{
	struct sp_event result = {.status = 0};
	const uint64_t arg[] = {w->id, epoch};
	int rc = rvma_call_to_end(w->rvma, op, arg, 2, &result);

	if (!rc && completed)
		*completed = (struct rvma_completed){(void *)(uintptr_t)result.arg[0], result.arg[1], result.arg[4],
						     result.arg[2], result.arg[3]};
	return rc;
}

int rvma_win_get_buf_ptrs(struct rvma_window *window, struct rvma_completed *completed, unsigned count)
{
	const uint64_t epoch = RVMA_WINDOW(window, epoch), held = RVMA_WINDOW(window, held);
	struct rvma_completed one;
	uint64_t first = epoch - (held < epoch ? held : epoch);
	unsigned n = 0;
	int rc = 0;

	/* The two were read one after the other: another buffer may have completed between the reads. */
	while (first && !(rc = rvma_epoch_call(window, SP_RVMA_CMD_EPOCH, first - 1, &one)))
		first--;
	if (rc && rc != -ENODATA)
		return rc;
	count = count < INT32_MAX ? count : INT32_MAX;
	for (; n < count; first++) {
		rc = rvma_epoch_call(window, SP_RVMA_CMD_EPOCH, first, &completed[n]);
		if (!rc)
			n++;
		else if (rc != -ENODATA)
			return rc;
		else if (first >= epoch)
			break;
	}
	return (int)n;
}

int rvma_win_release(struct rvma_window *window, uint64_t epoch)
{
	return rvma_epoch_call(window, SP_RVMA_CMD_RELEASE, epoch, NULL);
}

int rvma_win_rewind(struct rvma_window *window, uint64_t epoch, struct rvma_completed *completed)
{
	return rvma_epoch_call(window, SP_RVMA_CMD_REWIND, epoch, completed);
}
