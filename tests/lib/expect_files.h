/* SPDX-License-Identifier: BSD-3-Clause */
/* Files for sp_expect to compare, and the differences that it reports. */
#ifndef TESTS_EXPECT_FILES_H
#define TESTS_EXPECT_FILES_H

#include <fcntl.h>
#include <sys/mman.h>
#include "../../testbed/expect.h"
#include "../../testbed/fields.h"
#include "../../testbed/random.h"
#include "frame.h"
#include "suite.h"

#define SEEDS 4000
#define MOST  60

/* ---- what is said ---- */
extern char expect_said[SP_EXPECT_SAID + 2][1100];

extern unsigned expect_saying;
extern struct sp_error expect_error;
extern const struct sp_expect_say expect_to_us;
void expect_say_all(const char *what);

/* ---- files ---- */
struct file {
	int fd;
	char path[32];
};

extern struct file expect_want, expect_found;
void expect_file_write(struct file *f, const void *bytes, size_t len);
void expect_file_text(struct file *f, const char *text);

struct packet {
	uint64_t ns;
	uint32_t len;
	uint8_t bytes[256];
};

struct capture {
	unsigned count;
	struct packet at[2 * MOST];
};

extern struct capture expect_a, expect_b;

#endif
