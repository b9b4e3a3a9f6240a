/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file that is received: NAME.part until all of it is there and right. One that can be resumed ends with a note of
 * how much of it is stored from the beginning, and the SHA-256 of that: data and note cannot be mixed up, and who takes
 * it up again finds out whether it is still what was written. It is locked while somebody writes it.
 */
#ifndef COMMAND_RECV_FILE_H
#define COMMAND_RECV_FILE_H

#include <stdbool.h>
#include <stdint.h>

struct recv_file {
	int dir, fd;
	bool replace;
	bool resume; /* it has a note */
	char name[256], part[256];
	uint64_t size;
	uint64_t kept;	    /* bytes that were stored by an earlier attempt, by its note; */
	uint8_t digest[32]; /* their SHA-256 */
	uint64_t stored;    /* by the latest note */
	bool stale;	    /* which is of a file of another size: recv_file_restart() when the sender is in earnest */
};

/* Can files be put there at all? For the beginning; what recv_file_open() says counts. 0, or -1 with why. */
int recv_file_check(const char *target, char why[300]);
/* target: a directory, a file's name, or NULL: the directory we are in. name: the sender's, for a directory. Makes
 * NAME.part with room for size bytes; with resume, takes up one that was left. 0, or -1 with why. */
int recv_file_open(struct recv_file *f, const char *target, const char *name, uint64_t size, bool resume,
		   char why[300]);
/* Notes what is stored, if it can be resumed. 0, or -1 with why. */
int recv_file_note(struct recv_file *f, uint64_t stored, const uint8_t digest[32], char why[300]);
/* What was kept is of no use. 0, or -1 with why. */
int recv_file_restart(struct recv_file *f, char why[300]);
/* Gives it its name. 0, or -1 with why, and then it is dropped. */
int recv_file_keep(struct recv_file *f, char why[300]);
/* It has not come to its end: leaves it if it can be resumed and there is something in it, else drops it. Bytes kept.
 */
uint64_t recv_file_part(struct recv_file *f);
void recv_file_forget(struct recv_file *f); /* it is not to be left */
void recv_file_drop(struct recv_file *f);

#endif
