/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory, byte by byte. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "expect_private.h"

#define BLOCK 65536
#define GAP   8	 /* equal bytes that separate two differences */
#define SHOWN 16 /* bytes shown of a difference */

/* A difference that may go on. */
struct run {
	uint64_t at, end; /* end: after its last different byte; at == end: no difference */
	uint8_t expected[SHOWN], found[SHOWN];
};

static void run_end(struct run *r, const char *what, struct sp_differences *d)
{
	char expected[2 * SHOWN + 4] = "", found[2 * SHOWN + 4] = "";
	const uint64_t len = r->end - r->at;

	if (!len)
		return;
	for (unsigned i = 0; i < SHOWN && i < len; i++) {
		sprintf(expected + 2 * i, "%02x", r->expected[i]);
		sprintf(found + 2 * i, "%02x", r->found[i]);
	}
	sp_differ(d, "%s, offset 0x%llx: expected %s%s, found %s%s (%llu byte%s)", what, (unsigned long long)r->at,
		  expected, len > SHOWN ? "..." : "", found, len > SHOWN ? "..." : "", (unsigned long long)len,
		  len == 1 ? "" : "s");
	r->at = r->end = 0;
}

static void run_byte(struct run *r, uint64_t at, uint8_t expected, uint8_t found, const char *what,
		     struct sp_differences *d)
{
	if (r->end != r->at && (expected != found ? at - r->end >= GAP : at - r->end >= GAP - 1))
		run_end(r, what, d);
	if (expected == found && r->end == r->at)
		return;
	if (r->end == r->at)
		r->at = r->end = at;
	if (at - r->at < SHOWN) {
		r->expected[at - r->at] = expected;
		r->found[at - r->at] = found;
	}
	if (expected != found)
		r->end = at + 1;
}

static void compare_block(struct run *r, uint64_t at, const uint8_t *expected, const uint8_t *found, uint64_t len,
			  const char *what, struct sp_differences *d)
{
	if (r->at == r->end && !memcmp(expected, found, len))
		return;
	for (uint64_t i = 0; i < len; i++)
		run_byte(r, at + i, expected[i], found[i], what, d);
}

int64_t sp_expect_memory(const char *expected, const void *found, uint64_t len, const char *what,
			 const struct sp_expect_say *say, struct sp_error *error)
{
	struct sp_differences d = {.say = say};
	struct run run = {.at = 0};
	uint8_t block[BLOCK];
	uint64_t at = 0, more = 0;
	FILE *file = fopen(expected, "rb");
	struct stat st;
	size_t n;

	if (!file)
		return sp_expect_fail(error, -errno, expected, strerror(errno));
	if (!fstat(fileno(file), &st) && S_ISDIR(st.st_mode)) {
		fclose(file);
		return sp_expect_fail(error, -EISDIR, expected, strerror(EISDIR));
	}
	errno = 0;
	while ((n = fread(block, 1, sizeof(block), file)) > 0) {
		const uint64_t both = n < len - at ? n : len - at;

		compare_block(&run, at, block, (const uint8_t *)found + at, both, what, &d);
		at += both;
		more += n - both;
	}
	if (ferror(file)) {
		const int err = errno ? errno : EIO;

		fclose(file);
		return sp_expect_fail(error, -err, expected, strerror(err));
	}
	fclose(file);
	if (!at && !more)
		return sp_expect_fail(error, -EINVAL, expected, "empty file: it expects nothing");
	memset(block, 0, sizeof(block));
	while (at < len) {
		n = len - at < sizeof(block) ? len - at : sizeof(block);
		compare_block(&run, at, block, (const uint8_t *)found + at, n, what, &d);
		at += n;
	}
	run_end(&run, what, &d);
	if (more)
		sp_differ(&d, "%s has %llu bytes, %llu are expected", what, (unsigned long long)len,
			  (unsigned long long)(len + more));
	return d.count;
}
