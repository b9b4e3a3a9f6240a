/* SPDX-License-Identifier: BSD-3-Clause */
/* GOAL text out: each rank's operations first, then what they wait for. */
#include "text.h"

#include <errno.h>
#include <inttypes.h>

static void write_any(FILE *f, const char *what, uint32_t value)
{
	if (value == GOAL_ANY)
		fprintf(f, " %s -1", what);
	else
		fprintf(f, " %s %u", what, value);
}

static void write_op(const struct goal_op *op, uint32_t i, FILE *f)
{
	static const char *const names[] = {"send", "recv", "calc"};

	fprintf(f, "l%u: %s %" PRIu64, i + 1, names[op->type], op->size);
	if (op->type != GOAL_CALC) {
		fputc('b', f);
		write_any(f, op->type == GOAL_SEND ? "to" : "from", op->peer);
		write_any(f, "tag", op->tag);
	}
	if (op->cpu)
		fprintf(f, " cpu %u", op->cpu);
	if (op->nic)
		fprintf(f, " nic %u", op->nic);
	fputc('\n', f);
}

int goal_write(const struct goal *g, FILE *f)
{
	fprintf(f, "num_ranks %u\n", goal_ranks(g));
	for (uint32_t rank = 0; rank < goal_ranks(g) && !ferror(f); rank++) {
		fprintf(f, "\nrank %u {\n", rank);
		for (uint32_t i = 0; i < goal_ops(g, rank); i++)
			write_op(goal_op(g, rank, i), i, f);
		for (uint32_t i = 0; i < goal_ops(g, rank); i++) {
			uint32_t n;
			const uint32_t *s = goal_successors(g, rank, i, &n);

			for (uint32_t k = 0; k < n; k++)
				fprintf(f, "l%u %s l%u\n", (s[k] & ~GOAL_STARTED) + 1,
					s[k] & GOAL_STARTED ? "irequires" : "requires", i + 1);
		}
		fputs("}\n", f);
	}
	return fflush(f) || ferror(f) ? -EIO : 0;
}
