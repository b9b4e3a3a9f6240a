/* SPDX-License-Identifier: BSD-3-Clause */
/* What a worker of training knows, and files of it. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train_learn.h"

#include "../random.h"

#define HEAD 32u /* bytes before the parameters */

static const uint8_t magic[8] = "SpndlTr1";

int train_state_create(struct train_state *s, uint32_t workers, uint32_t numbers, uint64_t seed)
{
	*s = (struct train_state){.workers = workers, .numbers = numbers, .seed = seed};
	if (!numbers || numbers > TRAIN_NUMBERS_MAX)
		return -EINVAL;
	s->parameter = malloc(numbers * sizeof(*s->parameter));
	s->momentum = calloc(numbers, sizeof(*s->momentum));
	if (!s->parameter || !s->momentum) {
		train_state_free(s);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < numbers; i++) {
		uint64_t x = seed ^ ~(uint64_t)i;

		s->parameter[i] = (int32_t)(sp_splitmix(&x) >> 44) - (1 << 19);
	}
	return 0;
}

int train_state_copy(struct train_state *to, const struct train_state *from)
{
	if (to->numbers != from->numbers) {
		train_state_free(to);
		if (train_state_create(to, from->workers, from->numbers, from->seed))
			return -ENOMEM;
	}
	memcpy(to->parameter, from->parameter, from->numbers * sizeof(*to->parameter));
	memcpy(to->momentum, from->momentum, from->numbers * sizeof(*to->momentum));
	to->workers = from->workers;
	to->seed = from->seed;
	to->steps = from->steps;
	return 0;
}

void train_state_free(struct train_state *s)
{
	free(s->parameter);
	free(s->momentum);
	*s = (struct train_state){0};
}

bool train_state_equal(const struct train_state *a, const struct train_state *b)
{
	return a->workers == b->workers && a->numbers == b->numbers && a->seed == b->seed && a->steps == b->steps &&
	       !memcmp(a->parameter, b->parameter, a->numbers * sizeof(*a->parameter)) &&
	       !memcmp(a->momentum, b->momentum, a->numbers * sizeof(*a->momentum));
}

/* ---- bytes ---- */
#define FNV_BEGIN 0xCBF29CE484222325u

static uint64_t fnv(uint64_t hash, const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		hash = (hash ^ bytes[i]) * 0x100000001B3u;
	return hash;
}

static uint8_t *put(uint8_t *at, uint64_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		*at++ = (uint8_t)(value >> 8 * i);
	return at;
}

static uint64_t get(const uint8_t *at, unsigned bytes)
{
	uint64_t value = 0;

	for (unsigned i = bytes; i--;)
		value = value << 8 | at[i];
	return value;
}

static size_t file_bytes(uint32_t numbers)
{
	return HEAD + 8ull * numbers + 8;
}

/* The file; the caller frees. NULL: no memory. */
static uint8_t *file_of(const struct train_state *s)
{
	uint8_t *const bytes = malloc(file_bytes(s->numbers)), *at = bytes;

	if (!bytes)
		return NULL;
	memcpy(at, magic, sizeof(magic));
	at = put(put(at + sizeof(magic), s->workers, 4), s->numbers, 4);
	at = put(put(at, s->seed, 8), s->steps, 8);
	for (uint32_t i = 0; i < s->numbers; i++)
		at = put(at, (uint32_t)s->parameter[i], 4);
	for (uint32_t i = 0; i < s->numbers; i++)
		at = put(at, (uint32_t)s->momentum[i], 4);
	put(at, fnv(FNV_BEGIN, bytes, (size_t)(at - bytes)), 8);
	return bytes;
}

uint64_t train_state_digest(const struct train_state *s)
{
	uint64_t hash = FNV_BEGIN;

	for (unsigned k = 0; k < 2; k++)
		for (uint32_t i = 0; i < s->numbers; i++) {
			uint8_t four[4];

			put(four, (uint32_t)(k ? s->momentum : s->parameter)[i], 4);
			hash = fnv(hash, four, 4);
		}
	return hash;
}

/* ---- files ---- */
static int write_all(const char *path, const uint8_t *bytes, size_t n)
{
	FILE *f = fopen(path, "wb");
	int err = 0;

	if (!f)
		return -errno;
	if (fwrite(bytes, 1, n, f) != n || fflush(f) || fsync(fileno(f)))
		err = errno ? -errno : -EIO;
	if (fclose(f) && !err)
		err = -errno;
	return err;
}

int train_checkpoint_write(const struct train_state *s, const char *path)
{
	const size_t room = strlen(path) + 5;
	struct stat is;
	uint8_t *bytes;
	char *fresh;
	int err = -ENOMEM;

	if (!stat(path, &is) && !S_ISREG(is.st_mode))
		return -EEXIST; /* no device is replaced by a file */
	bytes = file_of(s);
	fresh = malloc(room);
	if (bytes && fresh) {
		snprintf(fresh, room, "%s.new", path);
		err = write_all(fresh, bytes, file_bytes(s->numbers));
		if (!err && rename(fresh, path))
			err = -errno;
		if (err)
			unlink(fresh);
	}
	free(bytes);
	free(fresh);
	return err;
}

/* What is wrong with a file of n bytes; NULL: nothing. A file that is longer than any has one byte too many here. */
static const char *fault(const uint8_t *bytes, size_t n, const struct train_state *like)
{
	if (n < sizeof(magic) || memcmp(bytes, magic, sizeof(magic)))
		return "is no checkpoint of sim train";
	if (n < HEAD)
		return "is damaged: it ends within its head";
	if (get(bytes + 12, 4) > TRAIN_NUMBERS_MAX || n != file_bytes((uint32_t)get(bytes + 12, 4)))
		return "is damaged: it has not as many bytes as its head says";
	if (fnv(FNV_BEGIN, bytes, n - 8) != get(bytes + n - 8, 8))
		return "is damaged: its checksum is wrong";
	if (get(bytes + 8, 4) != like->workers)
		return "is of another number of workers";
	if (get(bytes + 12, 4) != like->numbers)
		return "is of another number of parameters";
	if (get(bytes + 16, 8) != like->seed)
		return "is of another seed";
	return NULL;
}

static void take(struct train_state *s, const uint8_t *bytes)
{
	const uint8_t *parameters = bytes + HEAD, *momentum = parameters + 4ull * s->numbers;

	s->steps = get(bytes + 24, 8);
	for (uint32_t i = 0; i < s->numbers; i++) {
		s->parameter[i] = (int32_t)(uint32_t)get(parameters + 4ull * i, 4);
		s->momentum[i] = (int32_t)(uint32_t)get(momentum + 4ull * i, 4);
	}
}

int train_checkpoint_read(struct train_state *s, const struct train_state *like, const char *path, char *why,
			  size_t whylen)
{
	size_t room = file_bytes(TRAIN_NUMBERS_MAX) + 1;
	FILE *f = fopen(path, "rb");
	uint8_t *bytes = NULL;
	struct stat is;
	const char *wrong;
	size_t n;
	int err = 0;

	if (!f) {
		err = -errno;
		snprintf(why, whylen, "%s: %s", path, strerror(-err));
		return err;
	}
	if (!fstat(fileno(f), &is) && S_ISREG(is.st_mode) && (uint64_t)is.st_size < room)
		room = (size_t)is.st_size + 1;
	bytes = malloc(room);
	n = bytes ? fread(bytes, 1, room, f) : 0;
	if (!bytes)
		err = -ENOMEM;
	else if (ferror(f))
		err = errno ? -errno : -EIO;
	else
		err = train_state_create(s, like->workers, like->numbers, like->seed);
	fclose(f);
	if (err) {
		snprintf(why, whylen, "%s: %s", path, strerror(-err));
	} else if ((wrong = fault(bytes, n, like))) {
		snprintf(why, whylen, "%s %s", path, wrong);
		err = -EINVAL;
	} else {
		take(s, bytes);
	}
	if (err)
		train_state_free(s);
	free(bytes);
	return err;
}
