/* SPDX-License-Identifier: BSD-3-Clause */
/* Matching: a hash table by rank, source and tag, and a list by age per rank for what has GOAL_ANY. */
#include "match.h"

#include <errno.h>
#include <stdlib.h>

#include "schedule.h"

#define NONE	      UINT32_MAX
#define BUCKETS_LEAST 1024u

enum side { RECEIVE, MESSAGE };

struct entry {
	uint64_t age;
	uint32_t rank, src, tag, op;
	uint32_t chain;		 /* the next of its bucket; of a free one, the next free one */
	uint32_t older, younger; /* in its rank's list */
	uint32_t side;
};

struct list {
	uint32_t head, tail;
};

struct goal_match {
	struct entry *entry;
	uint32_t entries, room, free; /* free: the first of a list */
	struct list *bucket;	      /* in each, those of one key are by age */
	uint32_t buckets, hashed;
	struct list *wild;   /* per rank, receives with GOAL_ANY, which are in no bucket */
	struct list *coming; /* per rank, all messages */
	uint64_t age, waiting[2], wilds;
	uint32_t ranks;
};

int goal_match_create(uint32_t ranks, struct goal_match **m)
{
	struct goal_match *n = calloc(1, sizeof(*n));

	*m = n;
	if (!n)
		return -ENOMEM;
	n->ranks = ranks;
	n->buckets = BUCKETS_LEAST;
	n->bucket = malloc(n->buckets * sizeof(*n->bucket));
	n->wild = malloc(ranks * sizeof(*n->wild));
	n->coming = malloc(ranks * sizeof(*n->coming));
	if (!n->bucket || !n->wild || !n->coming) {
		goal_match_destroy(n);
		*m = NULL;
		return -ENOMEM;
	}
	goal_match_clear(n);
	return 0;
}

void goal_match_destroy(struct goal_match *m)
{
	if (!m)
		return;
	free(m->entry);
	free(m->bucket);
	free(m->wild);
	free(m->coming);
	free(m);
}

void goal_match_clear(struct goal_match *m)
{
	for (uint32_t i = 0; i < m->buckets; i++)
		m->bucket[i] = (struct list){NONE, NONE};
	for (uint32_t i = 0; i < m->ranks; i++)
		m->wild[i] = m->coming[i] = (struct list){NONE, NONE};
	m->entries = m->hashed = 0;
	m->free = NONE;
	m->age = m->waiting[RECEIVE] = m->waiting[MESSAGE] = m->wilds = 0;
}

/* ---- the hash table ---- */
static struct list *bucket_of(const struct goal_match *m, enum side side, uint32_t rank, uint32_t src, uint32_t tag)
{
	uint64_t h = ((uint64_t)rank << 32 | src) * 0x9E3779B97F4A7C15u;

	h ^= h >> 29;
	h = (h + tag * 2ull + side) * 0xBF58476D1CE4E5B9u;
	return &m->bucket[(h >> 32) & (m->buckets - 1)];
}

static void chain_add(struct goal_match *m, struct list *b, uint32_t i)
{
	m->entry[i].chain = NONE;
	if (b->tail == NONE)
		b->head = i;
	else
		m->entry[b->tail].chain = i;
	b->tail = i;
}

/* Twice the buckets. Those of one key come from one bucket in their order, and keep it. */
static void widen(struct goal_match *m)
{
	const uint32_t old = m->buckets;
	struct list *from = m->bucket, *to = malloc(2ull * old * sizeof(*to));

	if (!to || old >= 1u << 30) {
		free(to);
		return; /* slower, and right */
	}
	m->bucket = to;
	m->buckets = 2 * old;
	for (uint32_t i = 0; i < m->buckets; i++)
		to[i] = (struct list){NONE, NONE};
	for (uint32_t i = 0; i < old; i++)
		for (uint32_t e = from[i].head, next; e != NONE; e = next) {
			const struct entry *x = &m->entry[e];

			next = x->chain;
			chain_add(m, bucket_of(m, (enum side)x->side, x->rank, x->src, x->tag), e);
		}
	free(from);
}

static uint32_t find(const struct goal_match *m, enum side side, uint32_t rank, uint32_t src, uint32_t tag)
{
	for (uint32_t i = bucket_of(m, side, rank, src, tag)->head; i != NONE; i = m->entry[i].chain) {
		const struct entry *e = &m->entry[i];

		if (e->rank == rank && e->src == src && e->tag == tag && e->side == side)
			return i;
	}
	return NONE;
}

static void chain_remove(struct goal_match *m, uint32_t i)
{
	const struct entry *e = &m->entry[i];
	struct list *b = bucket_of(m, (enum side)e->side, e->rank, e->src, e->tag);
	uint32_t before = NONE;

	for (uint32_t at = b->head; at != i; at = m->entry[at].chain)
		before = at;
	if (before == NONE)
		b->head = e->chain;
	else
		m->entry[before].chain = e->chain;
	if (b->tail == i)
		b->tail = before;
	m->hashed--;
}

/* ---- lists by age ---- */
static void list_add(struct goal_match *m, struct list *l, uint32_t i)
{
	m->entry[i].older = l->tail;
	m->entry[i].younger = NONE;
	if (l->tail == NONE)
		l->head = i;
	else
		m->entry[l->tail].younger = i;
	l->tail = i;
}

static void list_remove(struct goal_match *m, struct list *l, uint32_t i)
{
	const struct entry *e = &m->entry[i];

	if (e->older == NONE)
		l->head = e->younger;
	else
		m->entry[e->older].younger = e->younger;
	if (e->younger == NONE)
		l->tail = e->older;
	else
		m->entry[e->younger].older = e->older;
}

/* The oldest of the list that src and tag match. */
static uint32_t search(const struct goal_match *m, const struct list *l, uint32_t src, uint32_t tag)
{
	for (uint32_t i = l->head; i != NONE; i = m->entry[i].younger) {
		const struct entry *e = &m->entry[i];

		if ((src == GOAL_ANY || e->src == GOAL_ANY || e->src == src) &&
		    (tag == GOAL_ANY || e->tag == GOAL_ANY || e->tag == tag))
			return i;
	}
	return NONE;
}

/* ---- both ---- */
static bool hashed(const struct entry *e)
{
	return e->src != GOAL_ANY && e->tag != GOAL_ANY;
}

static int add(struct goal_match *m, const struct entry *e)
{
	uint32_t i = m->free;

	if (i != NONE) {
		m->free = m->entry[i].chain;
	} else {
		if (m->entries == m->room) {
			const uint32_t wanted = m->room ? m->room * 2 : 1024;
			struct entry *larger = wanted > 1u << 31 ? NULL : realloc(m->entry, wanted * sizeof(*m->entry));

			if (!larger)
				return -ENOMEM;
			m->entry = larger;
			m->room = wanted;
		}
		i = m->entries++;
	}
	m->entry[i] = *e;
	m->entry[i].age = m->age++;
	m->waiting[e->side]++;
	if (hashed(e)) {
		if (m->hashed > 2 * m->buckets)
			widen(m);
		m->hashed++;
		chain_add(m, bucket_of(m, (enum side)e->side, e->rank, e->src, e->tag), i);
	} else {
		m->wilds++;
	}
	if (e->side == MESSAGE)
		list_add(m, &m->coming[e->rank], i);
	else if (!hashed(e))
		list_add(m, &m->wild[e->rank], i);
	return 0;
}

static void take(struct goal_match *m, uint32_t i, struct goal_waiting *what)
{
	struct entry *e = &m->entry[i];

	*what = (struct goal_waiting){e->side == MESSAGE ? e->src : e->rank, e->op};
	m->waiting[e->side]--;
	if (hashed(e))
		chain_remove(m, i);
	else
		m->wilds--;
	if (e->side == MESSAGE)
		list_remove(m, &m->coming[e->rank], i);
	else if (!hashed(e))
		list_remove(m, &m->wild[e->rank], i);
	e->chain = m->free;
	m->free = i;
}

bool goal_match_receive(struct goal_match *m, uint32_t rank, uint32_t src, uint32_t tag, struct goal_waiting *message)
{
	uint32_t i;

	if (src == GOAL_ANY || tag == GOAL_ANY)
		i = search(m, &m->coming[rank], src, tag);
	else
		i = find(m, MESSAGE, rank, src, tag);
	if (i != NONE)
		take(m, i, message);
	return i != NONE;
}

bool goal_match_message(struct goal_match *m, uint32_t rank, uint32_t src, uint32_t tag, struct goal_waiting *receive)
{
	const uint32_t wild = m->wilds ? search(m, &m->wild[rank], src, tag) : NONE;
	uint32_t i = find(m, RECEIVE, rank, src, tag);

	if (i == NONE || (wild != NONE && m->entry[wild].age < m->entry[i].age))
		i = wild;
	if (i != NONE)
		take(m, i, receive);
	return i != NONE;
}

int goal_match_post(struct goal_match *m, uint32_t rank, uint32_t src, uint32_t tag, uint32_t op)
{
	return add(m, &(struct entry){.rank = rank, .src = src, .tag = tag, .op = op, .side = RECEIVE});
}

int goal_match_keep(struct goal_match *m, uint32_t rank, uint32_t src, uint32_t tag, uint32_t op)
{
	return add(m, &(struct entry){.rank = rank, .src = src, .tag = tag, .op = op, .side = MESSAGE});
}

uint64_t goal_match_receives(const struct goal_match *m)
{
	return m->waiting[RECEIVE];
}

uint64_t goal_match_messages(const struct goal_match *m)
{
	return m->waiting[MESSAGE];
}

bool goal_match_message_left(const struct goal_match *m, uint32_t *rank, uint32_t *src)
{
	for (uint32_t i = 0; i < m->ranks; i++)
		if (m->coming[i].head != NONE) {
			*rank = i;
			*src = m->entry[m->coming[i].head].src;
			return true;
		}
	return false;
}
