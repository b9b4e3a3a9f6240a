/* SPDX-License-Identifier: BSD-3-Clause */
#include "rvma_buckets.h"

void mo_fail(struct mo *m, const char *format, ...)
{
	va_list list;

	if (m->text[0])
		return;
	va_start(list, format);
	vsnprintf(m->text, sizeof(m->text), format, list);
	va_end(list);
}

bool mo_bit(const uint64_t *words, uint64_t i)
{
	return words[i / 64] >> i % 64 & 1;
}

struct mo_window *mo_window_find(struct mo *m, unsigned c, uint64_t mailbox)
{
	for (struct mo_window *w = m->context[c].windows; w; w = w->next)
		if (!w->gone && w->mailbox == mailbox)
			return w;
	return NULL;
}

struct mo_window *mo_window_catch_all(struct mo *m, unsigned c)
{
	for (struct mo_window *w = m->context[c].windows; w; w = w->next)
		if (!w->gone && w->flags & MO_CATCH_ALL)
			return w;
	return NULL;
}

struct mo_window *mo_window_add(struct mo *m, unsigned c, uint64_t id, uint64_t mailbox, uint64_t key,
				uint64_t threshold, uint64_t flags)
{
	struct mo_window *w = calloc(1, sizeof(*w));

	w->next = m->context[c].windows;
	m->context[c].windows = w;
	w->id = id;
	w->mailbox = mailbox;
	w->key = key;
	w->threshold = threshold;
	w->flags = flags;
	return w;
}

uint64_t mo_posted_bytes(const struct mo_window *w)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < w->posteds; i++)
		n += w->posted[i]->length;
	return n;
}

unsigned mo_completes(const struct mo_window *w)
{
	unsigned n = 0;

	for (unsigned i = 0; i < w->helds; i++)
		n += w->held[i]->complete;
	return n;
}

struct mo_buffer *mo_completed(const struct mo_window *w, uint64_t epoch)
{
	for (unsigned i = 0; i < w->helds; i++)
		if (w->held[i]->epoch == epoch && w->held[i]->complete)
			return w->held[i];
	return NULL;
}

void mo_discard(struct mo *m, struct mo_buffer *b)
{
	if (b->owner)
		*b->owner = 0;
	b->owner = NULL;
	if (m->trashed < sizeof(m->trash) / sizeof(*m->trash))
		m->trash[m->trashed++] = b;
}

void mo_hold_drop(struct mo *m, struct mo_window *w, unsigned first, unsigned end)
{
	for (unsigned i = first; i < end; i++)
		mo_discard(m, w->held[i]);
	memmove(w->held + first, w->held + end, (w->helds - end) * sizeof(*w->held));
	w->helds -= end - first;
}

uint64_t mo_length(const struct mo_window *w, const struct mo_buffer *b)
{
	return w->flags & MO_MANAGED ? b->tail : b->bytes;
}

void mo_settle(struct mo *m, unsigned c, struct mo_window *w)
{
	for (unsigned i = 0; i < w->helds && !w->freeing; i++) {
		struct mo_buffer *b = w->held[i];

		if (b->complete)
			continue;
		if (b->open)
			break;
		b->complete = true;
		m->epochs++;
		if (b->line != MO_NOWHERE) {
			const uint64_t words[8] = {b->address, mo_length(w, b), b->epoch, b->flags, b->mailbox, b->ops};

			memcpy(m->context[c].memory + b->line, words, 64);
		}
		if (w->flags & MO_FORGET) {
			mo_hold_drop(m, w, i, i + 1);
			i--;
		}
	}
}

void mo_leave(struct mo *m, unsigned c, struct mo_window *w, uint64_t flags)
{
	struct mo_buffer *b = w->posted[0];

	memmove(w->posted, w->posted + 1, --w->posteds * sizeof(*w->posted));
	b->flags |= flags;
	b->epoch = w->epoch++;
	if (b->open)
		m->over_change++;
	if (w->helds == MO_HELD)
		abort();
	w->held[w->helds++] = b;
	mo_settle(m, c, w);
}

void mo_threshold(struct mo *m, unsigned c, struct mo_window *w, struct mo_buffer *b)
{
	const uint64_t threshold = b->threshold ? b->threshold : w->threshold;

	if (w->posteds && w->posted[0] == b && threshold && !(w->flags & MO_REGION) &&
	    (w->flags & MO_OPS ? b->ops : b->bytes) >= threshold)
		mo_leave(m, c, w, 0);
}

void mo_close(struct mo *m, unsigned c, struct mo_window *w)
{
	w->closed = true;
	while (w->posteds)
		mo_leave(m, c, w, MO_PARTIAL | MO_ENDED);
}
