/* SPDX-License-Identifier: BSD-3-Clause */
/* The file that is received: under another name until all of it is there and right. */
#ifndef COMMAND_RECV_FILE_H
#define COMMAND_RECV_FILE_H

#include <stdbool.h>
#include <stdint.h>

struct recv_file {
	int dir, fd;
	bool replace;
	char name[256], part[256];
};

/* Can files be put there at all? For the beginning; what recv_file_open() says counts. 0, or -1 with why. */
int recv_file_check(const char *target, char why[300]);
/* target: a directory, a file's name, or NULL: the directory we are in. name: the sender's, for a directory. Makes
 * NAME.part with room for size bytes. 0, or -1 with why. */
int recv_file_open(struct recv_file *f, const char *target, const char *name, uint64_t size, char why[300]);
/* Gives it its name. 0, or -1 with why, and then it is dropped. */
int recv_file_keep(struct recv_file *f, char why[300]);
void recv_file_drop(struct recv_file *f);

#endif
