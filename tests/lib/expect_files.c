/* SPDX-License-Identifier: BSD-3-Clause */
#include "expect_files.h"

char expect_said[SP_EXPECT_SAID + 2][1100];

unsigned expect_saying;

struct sp_error expect_error;

static void keep(void *arg, const char *text)
{
	if (expect_saying < SP_EXPECT_SAID + 2)
		snprintf(expect_said[expect_saying], sizeof(expect_said[0]), "%s", text);
	expect_saying++;
}

const struct sp_expect_say expect_to_us = {.say = keep};

void expect_say_all(const char *what)
{
	printf("# %s:\n", what);
	for (unsigned i = 0; i < expect_saying && i < SP_EXPECT_SAID; i++)
		printf("#   %s\n", expect_said[i]);
	if (*expect_error.text)
		printf("#   error: %s\n", expect_error.text);
}

struct file expect_want, expect_found;

void expect_file_write(struct file *f, const void *bytes, size_t len)
{
	if (!*f->path) {
		f->fd = memfd_create("expect", 0);
		snprintf(f->path, sizeof(f->path), "/proc/self/fd/%d", f->fd);
	}
	CU_ASSERT_FATAL(f->fd >= 0 && !ftruncate(f->fd, 0));
	CU_ASSERT_EQUAL_FATAL(pwrite(f->fd, bytes, len, 0), (ssize_t)len);
}

void expect_file_text(struct file *f, const char *text)
{
	expect_file_write(f, text, strlen(text));
}

struct capture expect_a, expect_b;
