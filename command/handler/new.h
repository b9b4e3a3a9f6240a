/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle handler new: writes a project for a handler outside of this tree. */
#ifndef COMMAND_HANDLER_NEW_H
#define COMMAND_HANDLER_NEW_H

#include <stdbool.h>
#include <stddef.h>

/* The files of handlers/template/, up to a NULL name; embed.py generates them for the build. */
struct template_file {
	const char *name;  /* in the project; "handler.c" gets the handler's name there */
	bool placeholders; /* @NAME@ stands for the handler's name */
	unsigned mode;	   /* before the umask */
	size_t len;
	const unsigned char *bytes;
};
extern const struct template_file template_files[];

int handler_new(int argc, char **argv); /* argv[0]: "new"; see command.h */

#endif
