/* SPDX-License-Identifier: BSD-3-Clause */
#include "hasher.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define JOBS 256u

struct hasher {
	EVP_MD_CTX *sha; /* the thread's as long as it runs */
	pthread_t thread;
	pthread_mutex_t lock; /* of all below */
	pthread_cond_t more, less;
	struct {
		const void *bytes;
		size_t len;
	} job[JOBS];
	unsigned first, count; /* the first one is being done */
	uint64_t done;
	bool stop, failed;
	uint8_t digest[HASHER_DIGEST]; /* of the first `done` bytes, after what came before the thread */
};

bool hasher_so_far(const EVP_MD_CTX *from, uint8_t digest[HASHER_DIGEST])
{
	EVP_MD_CTX *sha = EVP_MD_CTX_new();
	unsigned len = 0;
	const bool fine = sha && EVP_MD_CTX_copy_ex(sha, from) == 1 && EVP_DigestFinal_ex(sha, digest, &len) == 1 &&
			  len == HASHER_DIGEST;

	EVP_MD_CTX_free(sha);
	return fine;
}

static void *hash(void *arg)
{
	struct hasher *h = arg;
	uint8_t digest[HASHER_DIGEST];

	pthread_mutex_lock(&h->lock);
	while (!h->stop || h->count) {
		const void *bytes = h->job[h->first % JOBS].bytes;
		const size_t len = h->job[h->first % JOBS].len;
		bool fine;

		if (!h->count) {
			pthread_cond_wait(&h->more, &h->lock);
			continue;
		}
		pthread_mutex_unlock(&h->lock);
		fine = EVP_DigestUpdate(h->sha, bytes, len) == 1 && hasher_so_far(h->sha, digest);
		pthread_mutex_lock(&h->lock);
		h->failed |= !fine;
		memcpy(h->digest, digest, sizeof(digest));
		h->done += len;
		h->first++;
		h->count--;
		pthread_cond_signal(&h->less);
	}
	pthread_mutex_unlock(&h->lock);
	return NULL;
}

struct hasher *hasher_begin(EVP_MD_CTX *sha)
{
	struct hasher *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->sha = sha;
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->more, NULL);
	pthread_cond_init(&h->less, NULL);
	if (hasher_so_far(sha, h->digest) && !pthread_create(&h->thread, NULL, hash, h))
		return h;
	free(h);
	return NULL;
}

bool hasher_room(struct hasher *h)
{
	bool room;

	pthread_mutex_lock(&h->lock);
	room = h->count < JOBS;
	pthread_mutex_unlock(&h->lock);
	return room;
}

void hasher_add(struct hasher *h, const void *bytes, size_t len)
{
	unsigned at;

	pthread_mutex_lock(&h->lock);
	while (h->count == JOBS)
		pthread_cond_wait(&h->less, &h->lock);
	at = (h->first + h->count++) % JOBS;
	h->job[at].bytes = bytes;
	h->job[at].len = len;
	pthread_cond_signal(&h->more);
	pthread_mutex_unlock(&h->lock);
}

uint64_t hasher_done(struct hasher *h)
{
	uint64_t done;

	pthread_mutex_lock(&h->lock);
	done = h->done;
	pthread_mutex_unlock(&h->lock);
	return done;
}

bool hasher_note(struct hasher *h, bool all, uint64_t *bytes, uint8_t digest[HASHER_DIGEST])
{
	bool fine;

	pthread_mutex_lock(&h->lock);
	while (all && h->count)
		pthread_cond_wait(&h->less, &h->lock);
	*bytes = h->done;
	memcpy(digest, h->digest, sizeof(h->digest));
	fine = !h->failed;
	pthread_mutex_unlock(&h->lock);
	return fine;
}

void hasher_end(struct hasher *h)
{
	if (!h)
		return;
	pthread_mutex_lock(&h->lock);
	h->stop = true;
	pthread_cond_signal(&h->more);
	pthread_mutex_unlock(&h->lock);
	pthread_join(h->thread, NULL);
	pthread_cond_destroy(&h->less);
	pthread_cond_destroy(&h->more);
	pthread_mutex_destroy(&h->lock);
	free(h);
}
