/* SPDX-License-Identifier: BSD-3-Clause */
#include "interfaces.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum {
	SECTION = 0x0A0D0D0A,
	BYTE_ORDER_MARK = 0x1A2B3C4D,
	INTERFACE = 1,
	OLD_PACKET = 2, /* obsolete; its interface has 16 bits */
	SIMPLE_PACKET = 3,
	PACKET = 6,
	BLOCK_MIN = 12, /* type, length, and the length again at its end */
};

struct sp_interfaces {
	FILE *stream;
	bool swapped;	     /* this section has the other byte order */
	uint32_t here, most; /* interfaces of this section, and of any */
};

static uint32_t in_order(const struct sp_interfaces *f, uint32_t value)
{
	return f->swapped ? __builtin_bswap32(value) : value;
}

/* Reads a block's head and its first word; leaves the stream behind the block. False: there is none, or it is cut off.
 */
static bool block_next(struct sp_interfaces *f, uint32_t *type, uint32_t *word)
{
	uint32_t head[3];
	uint32_t len;

	if (fread(head, sizeof(head), 1, f->stream) != 1)
		return false;
	if (head[0] == SECTION) { /* the same in both orders */
		f->swapped = head[2] != BYTE_ORDER_MARK;
		f->here = 0;
	}
	*type = in_order(f, head[0]);
	*word = in_order(f, head[2]);
	len = in_order(f, head[1]);
	if (len < BLOCK_MIN || (f->swapped && *type == SECTION && *word != BYTE_ORDER_MARK))
		return false;
	if (*type == OLD_PACKET) { /* the first half of the word, in either order */
		const uint16_t half = (uint16_t)(f->swapped ? *word >> 16 : *word);

		*word = half;
	}
	return !fseeko(f->stream, (((off_t)len + 3) & ~(off_t)3) - (off_t)sizeof(head), SEEK_CUR);
}

int sp_interfaces_open(const char *file, struct sp_interfaces **interfaces)
{
	struct sp_interfaces *f = calloc(1, sizeof(*f));
	struct stat st;
	uint32_t type = 0;
	int err = 0;

	*interfaces = NULL;
	if (!f)
		return -ENOMEM;
	if (stat(file, &st))
		err = -errno;
	else if (!S_ISREG(st.st_mode)) /* before it is opened: a pipe would wait for its writer */
		err = -EINVAL;
	else if (!(f->stream = fopen(file, "rbe")))
		err = -errno;
	else if (fread(&type, sizeof(type), 1, f->stream) != 1 || type != SECTION)
		goto none; /* records.h says what else it is */
	if (err)
		goto none;
	rewind(f->stream);
	*interfaces = f;
	return 0;
none:
	sp_interfaces_close(f);
	return err;
}

int64_t sp_interfaces_next(struct sp_interfaces *f)
{
	uint32_t type, word;

	while (block_next(f, &type, &word)) {
		if (type == PACKET || type == OLD_PACKET)
			return word;
		if (type == SIMPLE_PACKET)
			return 0; /* of the section's first interface */
		if (type == INTERFACE && ++f->here > f->most)
			f->most = f->here;
	}
	return -1;
}

uint32_t sp_interfaces_described(const struct sp_interfaces *f)
{
	return f->most;
}

void sp_interfaces_close(struct sp_interfaces *f)
{
	if (!f)
		return;
	if (f->stream)
		fclose(f->stream);
	free(f);
}

int64_t sp_interfaces_count(const char *file)
{
	struct sp_interfaces *f;
	int64_t count = 1;
	int err = sp_interfaces_open(file, &f);

	if (err || !f)
		return err ? err : count;
	while (sp_interfaces_next(f) >= 0)
		;
	count = sp_interfaces_described(f);
	sp_interfaces_close(f);
	return count;
}
