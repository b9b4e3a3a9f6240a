/* SPDX-License-Identifier: BSD-3-Clause */
/* GOAL text: words of a line, labels in a hash table of the rank. */
#include "text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define OP_BYTES   60u /* about: an operation, with what arrays that grow hold beyond it */
#define PAIR_BYTES 16u
#define RANK_BYTES 64u
#define LABELS	   64u /* places for labels, at first */

struct label {
	uint32_t at, op; /* at: of its characters, from 1; 0: a free place */
};

enum token { END, LINE, WORD, NUMBER, ANY, OPEN, CLOSE, COLON, OTHER };

struct reader {
	FILE *f;
	const char *name;
	uint64_t line, memory, used;
	struct goal *g;
	uint32_t ranks, rank; /* rank: of the block; ranks: none */
	uint32_t *begins;     /* line of each rank's block; 0: it did not come */
	char *why;
	size_t whylen;
	/* ---- the token ---- */
	enum token token;
	char word[GOAL_LABEL_MAX + 1];
	uint64_t number;
	int next; /* a character */
	/* ---- labels of the block ---- */
	struct label *label; /* places, a power of two */
	uint32_t labels, places;
	char *chars;
	uint32_t chars_used, chars_room;
};

static int __attribute__((format(printf, 3, 4))) wrong(struct reader *r, int err, const char *format, ...)
{
	char what[160];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	snprintf(r->why, r->whylen, "%s:%" PRIu64 ": %s", r->name, r->line, what);
	return err;
}

static int take_memory(struct reader *r, uint64_t bytes)
{
	r->used += bytes;
	if (r->used <= r->memory)
		return 0;
	return wrong(r, -E2BIG, "the schedule takes more than %" PRIu64 " MiB of memory", r->memory >> 20);
}

static int memory_lacks(struct reader *r)
{
	return wrong(r, -ENOMEM, "memory does not suffice");
}

/* ---- tokens ---- */
static void step(struct reader *r)
{
	r->next = getc_unlocked(r->f);
}

static int comment(struct reader *r)
{
	const uint64_t began = r->line;

	step(r);
	if (r->next == '/') {
		while (r->next != '\n' && r->next != EOF)
			step(r);
		return 0;
	}
	if (r->next != '*')
		return wrong(r, -EINVAL, "what does this '/' mean? Comments are // and /* */");
	step(r);
	for (int last = 0;; last = r->next, step(r)) {
		if (last == '*' && r->next == '/')
			break;
		if (r->next == '\n')
			r->line++;
		if (r->next == EOF) {
			r->line = began;
			return wrong(r, -EINVAL, "this comment does not end");
		}
	}
	step(r);
	return 0;
}

static bool letter(int c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool digit(int c)
{
	return c >= '0' && c <= '9';
}

static int number(struct reader *r)
{
	for (r->number = 0; digit(r->next); step(r))
		if (__builtin_mul_overflow(r->number, 10, &r->number) ||
		    __builtin_add_overflow(r->number, (uint64_t)(r->next - '0'), &r->number))
			return wrong(r, -EINVAL, "this number has more than 64 bits");
	r->token = NUMBER;
	return 0;
}

static int word(struct reader *r)
{
	size_t n = 0;

	for (; letter(r->next) || digit(r->next); step(r)) {
		if (n == GOAL_LABEL_MAX)
			return wrong(r, -EINVAL, "this word has more than %d characters", GOAL_LABEL_MAX);
		r->word[n++] = (char)r->next;
	}
	r->word[n] = '\0';
	r->token = WORD;
	return 0;
}

/* Reads the next token. The line of LINE is the one that it ends; r->line is counted on by the token behind it. */
static int token(struct reader *r)
{
	int err = 0;

	if (r->token == LINE && r->number) /* a semicolon's is 0 */
		r->line++;
	while (!err && (r->next == ' ' || r->next == '\t' || r->next == '\r' || r->next == '/'))
		if (r->next == '/')
			err = comment(r);
		else
			step(r);
	if (err)
		return err;
	if (letter(r->next))
		return word(r);
	if (digit(r->next))
		return number(r);
	switch (r->next) {
	case EOF:
		r->token = END;
		return ferror(r->f) ? wrong(r, -EIO, "the file cannot be read") : 0;
	case '\n':
	case ';':
		r->token = LINE;
		r->number = r->next == '\n';
		break;
	case '{':
		r->token = OPEN;
		break;
	case '}':
		r->token = CLOSE;
		break;
	case ':':
		r->token = COLON;
		break;
	case '-':
		step(r);
		if (r->next != '1')
			return wrong(r, -EINVAL, "a negative number can only be -1, which means any");
		r->token = ANY;
		break;
	default:
		r->token = OTHER;
		r->word[0] = r->next >= ' ' && r->next < 127 ? (char)r->next : '?';
		r->word[1] = '\0';
	}
	step(r);
	return 0;
}

static bool is(const struct reader *r, const char *text)
{
	return r->token == WORD && !strcmp(r->word, text);
}

static int expected(struct reader *r, const char *what)
{
	static const char *const names[] = {
		"the end of the file", "the end of the line", "", "a number", "-1", "'{'", "'}'", "':'"};

	if (r->token == WORD || r->token == OTHER)
		return wrong(r, -EINVAL, "%s is expected, not '%.60s'", what, r->word);
	return wrong(r, -EINVAL, "%s is expected, not %s", what, names[r->token]);
}

/* A number up to `most`, and the token behind it. */
static int take_number(struct reader *r, const char *what, uint64_t most, uint64_t *value)
{
	if (r->token != NUMBER)
		return expected(r, what);
	if (r->number > most)
		return wrong(r, -EINVAL, "%s must be at most %" PRIu64 ", not %" PRIu64, what, most, r->number);
	*value = r->number;
	return token(r);
}

/* ---- labels ---- */
static uint32_t hash(const char *text)
{
	uint32_t h = 2166136261u;

	for (; *text; text++)
		h = (h ^ (uint8_t)*text) * 16777619u;
	return h ^ h >> 15;
}

/* The place of a label, or a free one where it belongs. */
static struct label *place(const struct reader *r, const char *text)
{
	uint32_t i = hash(text) & (r->places - 1);

	while (r->label[i].at && strcmp(r->chars + r->label[i].at, text))
		i = (i + 1) & (r->places - 1);
	return &r->label[i];
}

static int widen(struct reader *r)
{
	const uint32_t old = r->places;
	struct label *from = r->label, *to = calloc(2ull * old, sizeof(*to));
	int err = take_memory(r, (uint64_t)old * sizeof(*to));

	if (!to || err) {
		free(to);
		return err ? err : memory_lacks(r);
	}
	r->label = to;
	r->places = 2 * old;
	for (uint32_t i = 0; i < old; i++)
		if (from[i].at)
			*place(r, r->chars + from[i].at) = from[i];
	free(from);
	return 0;
}

static int add_label(struct reader *r, const char *text, uint32_t op)
{
	const uint32_t length = (uint32_t)strlen(text) + 1;
	struct label *l;
	int err;

	if (2 * r->labels >= r->places) {
		err = widen(r);
		if (err)
			return err;
	}
	if (r->chars_used + length > r->chars_room) {
		const uint64_t wanted = 2ull * r->chars_room + GOAL_LABEL_MAX + 1;
		char *more;

		err = take_memory(r, wanted - r->chars_room);
		if (err)
			return err;
		more = wanted > UINT32_MAX ? NULL : realloc(r->chars, wanted);
		if (!more)
			return memory_lacks(r);
		r->chars = more;
		r->chars_room = (uint32_t)wanted;
	}
	l = place(r, text);
	if (l->at)
		return wrong(r, -EINVAL, "the label '%.60s' is there already", text);
	memcpy(r->chars + r->chars_used, text, length);
	*l = (struct label){r->chars_used, op};
	r->chars_used += length;
	r->labels++;
	return 0;
}

static int find_label(struct reader *r, const char *text, uint32_t *op)
{
	const struct label *l = place(r, text);

	if (!l->at)
		return wrong(r, -EINVAL, "there is no label '%.60s' above", text);
	*op = l->op;
	return 0;
}

/* Before the next rank. A table that is far too large goes, or to clear it would take the time of its size each time.
 */
static int forget_labels(struct reader *r)
{
	if (r->places > LABELS && r->labels < r->places / 16) {
		r->used -= (r->places - LABELS) * sizeof(*r->label);
		free(r->label);
		r->places = LABELS;
		r->label = calloc(r->places, sizeof(*r->label));
		if (!r->label)
			return memory_lacks(r);
	}
	if (r->labels)
		memset(r->label, 0, r->places * sizeof(*r->label));
	r->labels = 0;
	r->chars_used = 1;
	return 0;
}

/* ---- statements ---- */
static int statement_end(struct reader *r)
{
	if (r->token != LINE && r->token != CLOSE && r->token != END)
		return expected(r, "the end of the line");
	return 0;
}

/* [tag T] [cpu C] [nic N], in any order. */
static int take_rest(struct reader *r, struct goal_op *op)
{
	bool tag = false, cpu = false, nic = false;
	uint64_t value = 0;
	int err = 0;

	while (!err && r->token == WORD) {
		bool *had = is(r, "tag") ? &tag : is(r, "cpu") ? &cpu : is(r, "nic") ? &nic : NULL;

		if (!had || (had == &tag && op->type == GOAL_CALC))
			return expected(r, op->type == GOAL_CALC ? "cpu or nic" : "tag, cpu or nic");
		if (*had)
			return wrong(r, -EINVAL, "%s is there twice", r->word);
		*had = true;
		err = token(r);
		if (!err && had == &tag && r->token == ANY && op->type == GOAL_RECV) {
			op->tag = GOAL_ANY;
			err = token(r);
			continue;
		}
		if (!err)
			err = take_number(r,
					  had == &tag	? "a tag"
					  : had == &cpu ? "a cpu"
							: "a nic",
					  had == &tag ? GOAL_ANY - 1 : UINT8_MAX, &value);
		if (had == &tag)
			op->tag = (uint32_t)value;
		else if (had == &cpu)
			op->cpu = (uint8_t)value;
		else
			op->nic = (uint8_t)value;
	}
	return err;
}

static int take_peer(struct reader *r, struct goal_op *op)
{
	const bool sends = op->type == GOAL_SEND;
	uint64_t peer = 0;
	int err;

	if (!is(r, "b"))
		return expected(r, "b (for bytes)");
	err = token(r);
	if (err)
		return err;
	if (!is(r, sends ? "to" : "from"))
		return expected(r, sends ? "to" : "from");
	err = token(r);
	if (err)
		return err;
	if (!sends && r->token == ANY) {
		op->peer = GOAL_ANY;
		return token(r);
	}
	err = take_number(r, "a rank", r->ranks - 1, &peer);
	op->peer = err ? 0 : (uint32_t)peer;
	return err;
}

/* The token is send, recv or calc. */
static int operation(struct reader *r, const char *label)
{
	struct goal_op op = {.type = is(r, "send") ? GOAL_SEND : is(r, "recv") ? GOAL_RECV : GOAL_CALC};
	uint32_t index = 0;
	int err = token(r);

	if (!err)
		err = take_number(r, op.type == GOAL_CALC ? "a time in ns" : "a size", UINT64_MAX, &op.size);
	if (!err && op.type != GOAL_CALC)
		err = take_peer(r, &op);
	if (!err)
		err = take_rest(r, &op);
	if (!err)
		err = statement_end(r);
	if (!err)
		err = take_memory(r, OP_BYTES);
	if (err)
		return err;
	err = goal_add(r->g, r->rank, &op, &index);
	if (err)
		return err == -ENOSPC ? wrong(r, -E2BIG, "the rank has too many operations") : memory_lacks(r);
	return label ? add_label(r, label, index) : 0;
}

/* The token is requires or irequires. */
static int dependency(struct reader *r, const char *label)
{
	const bool whole = is(r, "requires");
	uint32_t op = 0, before = 0;
	int err = find_label(r, label, &op);

	if (!err)
		err = token(r);
	if (!err && r->token != WORD)
		err = expected(r, "a label");
	if (!err)
		err = find_label(r, r->word, &before);
	if (!err)
		err = take_memory(r, PAIR_BYTES);
	if (err)
		return err;
	err = (whole ? goal_requires : goal_irequires)(r->g, r->rank, op, before);
	if (err)
		return err == -ENOSPC ? wrong(r, -E2BIG, "the rank has too many dependencies") : memory_lacks(r);
	err = token(r);
	return err ? err : statement_end(r);
}

static bool is_operation(const struct reader *r)
{
	return is(r, "send") || is(r, "recv") || is(r, "calc");
}

static int statement(struct reader *r)
{
	char label[GOAL_LABEL_MAX + 1];
	int err;

	if (r->token == LINE)
		return token(r);
	if (is_operation(r))
		return operation(r, NULL);
	if (r->token != WORD)
		return expected(r, "send, recv, calc, a label or '}'");
	memcpy(label, r->word, sizeof(label));
	err = token(r);
	if (err)
		return err;
	if (is(r, "requires") || is(r, "irequires"))
		return dependency(r, label);
	if (r->token != COLON)
		return expected(r, "':', requires or irequires behind a label");
	err = token(r);
	if (err)
		return err;
	return is_operation(r) ? operation(r, label) : expected(r, "send, recv or calc");
}

/* The token is `rank`. */
static int block(struct reader *r)
{
	const uint64_t began = r->line;
	uint64_t rank = 0;
	int err = token(r);

	if (!err)
		err = take_number(r, "a rank", r->ranks - 1, &rank);
	if (err)
		return err;
	if (r->begins[rank])
		return wrong(r, -EINVAL, "rank %" PRIu64 " was there already, in line %u", rank, r->begins[rank]);
	while (!err && r->token == LINE)
		err = token(r);
	if (!err && r->token != OPEN)
		err = expected(r, "'{'");
	if (err)
		return err;
	r->rank = (uint32_t)rank;
	r->begins[rank] = began < UINT32_MAX ? (uint32_t)began : UINT32_MAX;
	err = forget_labels(r);
	if (!err)
		err = token(r);
	while (!err && r->token != CLOSE && r->token != END)
		err = statement(r);
	if (!err && r->token == END)
		return wrong(r, -EINVAL, "the '}' of rank %u is missing, which begins in line %" PRIu64, r->rank,
			     began);
	return err ? err : token(r);
}

static int head(struct reader *r)
{
	uint64_t ranks = 0;
	int err = token(r);

	while (!err && r->token == LINE)
		err = token(r);
	if (!err && !is(r, "num_ranks"))
		err = expected(r, "num_ranks");
	if (!err)
		err = token(r);
	if (!err)
		err = take_number(r, "a number of ranks", GOAL_RANKS_MAX, &ranks);
	if (!err && !ranks)
		err = wrong(r, -EINVAL, "there must be at least 1 rank");
	if (!err)
		err = take_memory(r, ranks * RANK_BYTES + LABELS * sizeof(*r->label));
	if (err)
		return err;
	r->ranks = (uint32_t)ranks;
	r->begins = calloc(ranks, sizeof(*r->begins));
	r->places = LABELS;
	r->label = calloc(r->places, sizeof(*r->label));
	return !r->begins || !r->label || goal_create(r->ranks, &r->g) ? memory_lacks(r) : 0;
}

static int finish(struct reader *r)
{
	uint32_t rank, op;
	int err = goal_finish(r->g);

	if (!err)
		return 0;
	if (err == -ENOMEM)
		return memory_lacks(r);
	goal_fault(r->g, &rank, &op);
	r->line = r->begins[rank];
	return wrong(r, err, "operation %u of rank %u waits for itself: there is a circle of dependencies", op + 1,
		     rank);
}

int goal_read(FILE *f, const char *name, uint64_t memory, struct goal **g, char *why, size_t whylen)
{
	struct reader r = {
		.f = f, .name = name, .line = 1, .memory = memory, .why = why, .whylen = whylen, .token = OTHER};
	int err;

	step(&r);
	err = head(&r);
	while (!err && r.token != END) {
		if (r.token == LINE)
			err = token(&r);
		else
			err = is(&r, "rank") ? block(&r) : expected(&r, "rank");
	}
	if (!err)
		err = finish(&r);
	free(r.begins);
	free(r.label);
	free(r.chars);
	if (err)
		goal_destroy(r.g);
	else
		*g = r.g;
	return err;
}
