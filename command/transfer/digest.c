/* SPDX-License-Identifier: BSD-3-Clause */
#include "digest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hasher.h"
#include "show.h"

int transfer_digest_begin(struct transfer *t)
{
	if (!t->sha)
		t->sha = EVP_MD_CTX_new();
	return t->sha && EVP_DigestInit_ex(t->sha, EVP_sha256(), NULL) == 1 ? 0 : transfer_fail(t, "no SHA-256 here");
}

int transfer_digest(struct transfer *t, const void *bytes, size_t len)
{
	return EVP_DigestUpdate(t->sha, bytes, len) == 1 ? 0 : transfer_fail(t, "SHA-256 failed");
}

/* ---- beside the transfer ---- */

static int failed(struct transfer *t)
{
	return transfer_fail(t, "SHA-256 failed");
}

bool transfer_hash_room(struct transfer *t)
{
	return !t->hasher || hasher_room(t->hasher);
}

int transfer_hash(struct transfer *t, const void *bytes, size_t len)
{
	if (!t->hasher && !(t->hasher = hasher_begin(t->sha)))
		return transfer_fail(t, "no thread for the SHA-256");
	hasher_add(t->hasher, bytes, len);
	return 0;
}

uint64_t transfer_hashed(struct transfer *t)
{
	return t->hasher ? hasher_done(t->hasher) : 0;
}

int transfer_hash_note(struct transfer *t, bool all, uint64_t *bytes, uint8_t digest[TRANSFER_DIGEST])
{
	*bytes = 0;
	return t->hasher ? (hasher_note(t->hasher, all, bytes, digest) ? 0 : failed(t))
			 : transfer_digest_so_far(t, digest);
}

int transfer_digest_end(struct transfer *t)
{
	uint64_t bytes;

	return transfer_hash_note(t, true, &bytes, t->digest);
}

int transfer_digest_so_far(struct transfer *t, uint8_t digest[TRANSFER_DIGEST])
{
	return hasher_so_far(t->sha, digest) ? 0 : failed(t);
}

/* Work between two slices. The peer may only send "alive" meanwhile. */
static int check_meanwhile(struct transfer *t, uint64_t at, sp_time *told)
{
	json_t *line;
	int rc = transfer_look(t);

	if (!rc && sp_clock() - *told >= SP_SEC) {
		*told = sp_clock();
		rc = transfer_tell(t, json_pack("{s:I}", "checked", (json_int_t)at));
	}
	if (!rc)
		rc = transfer_listen(t, &line);
	if (rc == 1) {
		json_decref(line);
		rc = transfer_fail(t, "protocol error: out of turn");
	}
	if (t->others)
		t->others->step(t->others->arg);
	t->done = at;
	transfer_progress(t);
	return rc;
}

int transfer_check(struct transfer *t, int fd, uint64_t bytes, const uint8_t digest[TRANSFER_DIGEST], bool *same)
{
	uint8_t found[TRANSFER_DIGEST], *buffer = malloc(TRANSFER_SLICE);
	sp_time told = sp_clock();
	int rc = buffer ? 0 : transfer_fail(t, "out of memory");

	for (uint64_t at = 0; !rc && at < bytes;) {
		const uint64_t left = bytes - at;
		const ssize_t n = pread(fd, buffer, left < TRANSFER_SLICE ? left : TRANSFER_SLICE, (off_t)at);

		if (!n) /* the file has become shorter: not the same */
			break;
		if (n < 0 && errno != EINTR)
			rc = transfer_fail(t, "reading the file: %s", strerror(errno));
		if (n > 0) {
			rc = transfer_digest(t, buffer, (size_t)n);
			at += (uint64_t)n;
		}
		if (!rc)
			rc = check_meanwhile(t, at, &told);
	}
	free(buffer);
	if (!rc)
		rc = transfer_digest_so_far(t, found);
	*same = !rc && !memcmp(found, digest, sizeof(found));
	return rc;
}
