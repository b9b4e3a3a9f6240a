/* SPDX-License-Identifier: BSD-3-Clause */
/* The received file: NAME.part until it is complete and verified. A part that can be resumed ends with a note: how many
 * bytes from its beginning are stored, and their SHA-256. A later attempt checks that they are still the same. A part
 * is locked while it is written. */
#ifndef COMMAND_RECV_FILE_H
#define COMMAND_RECV_FILE_H

#include <stdbool.h>
#include <stdint.h>

struct recv_file {
	int dir, fd;
	bool replace;
	bool resume; /* the part has a note */
	char name[256], part[256];
	uint64_t size;
	uint64_t kept;	    /* bytes of an earlier attempt, by its note */
	uint8_t digest[32]; /* their SHA-256 */
	uint64_t stored;    /* bytes, by the latest note */
	uint64_t reserved;  /* bytes from the beginning that there is room for */
	bool stale;	    /* the note is of a file of another size: to be discarded by recv_file_restart() */
};

/* An early check whether files can be written there; recv_file_open() decides. 0, or -1 and why. */
int recv_file_check(const char *target, char why[300]);
/* target: a directory, a file's name, or NULL: the current directory. name: the sender's name, for a directory. Creates
 * NAME.part, if there is room for size bytes; with resume, opens an existing one. 0, or -1 and why. */
int recv_file_open(struct recv_file *f, const char *target, const char *name, uint64_t size, bool resume,
		   char why[300]);
/* Writes the note, if the part can be resumed. 0, or -1 and why. */
int recv_file_note(struct recv_file *f, uint64_t stored, const uint8_t digest[32], char why[300]);
/* Before bytes up to end are written: reserves room for them, and somewhat more. -errno */
int recv_file_reach(struct recv_file *f, uint64_t end);
/* Discards the bytes of an earlier attempt. 0, or -1 and why. */
int recv_file_restart(struct recv_file *f, char why[300]);
/* Gives the part its final name. 0, or -1 and why; then the part is deleted. */
int recv_file_keep(struct recv_file *f, char why[300]);
/* After a failure: leaves the part if it can be resumed and is not empty, else deletes it. Returns the bytes kept. */
uint64_t recv_file_part(struct recv_file *f);
void recv_file_forget(struct recv_file *f); /* recv_file_part() will delete it */
void recv_file_drop(struct recv_file *f);

#endif
