/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options of the command line. One row of a table describes one option: parsing, error messages and --help all come
 * from that row. No other file calls getopt.
 */
#ifndef COMMAND_OPTIONS_H
#define COMMAND_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_kind {
	OPTION_FLAG,	    /* no value: stores `least`, or 1 if `least` is 0 */
	OPTION_STRING,	    /* const char *; least and most bound its length, and `wants` is set */
	OPTION_NUMBER,	    /* integer, also 0x1F or 64K */
	OPTION_SIZE,	    /* the same; messages show its bounds as 64K or 1G */
	OPTION_TIME,	    /* picoseconds, from 10ms */
	OPTION_RATE,	    /* bit/s, from 10G */
	OPTION_REAL,	    /* double, from `low` to `high` */
	OPTION_PROBABILITY, /* double, from 0 to 1 */
	OPTION_WORD,	    /* one of `words`: stores its index */
	OPTION_CALL,	    /* take() stores the value; `wants` is set if it returns -EINVAL */
};

#define OPTION_ABOVE 1 /* the value must be more than `low` */
#define OPTION_BELOW 2 /* the value must be less than `high` */

/* The place of a value in the struct that a group of options fills. Integers may have 1, 4 or 8 bytes. */
#define OPTION_AT(type, field) offsetof(type, field), sizeof(((type *)0)->field)

struct option_row {
	const char *name; /* "mtu" for --mtu; NULL: the option has a letter only */
	char letter;	  /* 'n' for -n; 0: none */
	enum option_kind kind;
	const char *value; /* how --help calls the value; NULL: the option takes none; "[=N]": the value is optional */
	const char *help;
	size_t at, bytes;	  /* OPTION_AT() */
	uint64_t least, most;	  /* bounds of integers; most 0: no bound */
	double low, high;	  /* bounds of a real number; high 0: no bound */
	unsigned open;		  /* OPTION_ABOVE, OPTION_BELOW */
	const char *unit;	  /* behind the bounds in messages: " packets" */
	const char *suffix;	  /* a real number may end with it: "km" */
	const char *wants;	  /* what the value must be, if kind and bounds do not say it */
	const char *const *words; /* up to a NULL */
	/* For OPTION_CALL. 0; -EINVAL: the value is not what the option wants; or the exit status, after a message. */
	int (*take)(void *to, const char *value);
	unsigned modes; /* bits of the modes that have this option (see options_foreign); 0: all */
};

/* Rows up to one with neither name nor letter, and the struct that they fill. */
struct option_group {
	const char *title; /* above the options in --help, or NULL */
	const struct option_row *rows;
	void *to;
	void (*taken)(void *to, const struct option_row *row); /* after each value has been stored; or NULL */
};

/* What --help says of a subcommand beside its options. */
struct usage {
	const char *command; /* "send" */
	const char *forms;   /* "spindle send FILE HOST [OPTIONS]", a line per form */
	const char *about;   /* a paragraph, or more with \n between them */
	const char *end;     /* behind the options: exit statuses; or NULL */
	int arguments;	     /* at most so many arguments that are no options */
	int eal;	     /* at most so many arguments for EAL behind "--"; 0: "--" only ends the options */
};

#define OPTION_GROUPS 8
#define OPTIONS_MOST  64 /* rows of all groups */

struct options {
	const struct usage *usage;
	struct option_group group[OPTION_GROUPS]; /* up to NULL rows */
	/* options_parse() fills what follows */
	char **argument; /* those that are no options */
	int arguments;
	char **eal; /* those behind "--" */
	int eals;
	const struct option_row *given[OPTIONS_MOST]; /* each option once, up to a NULL */
};

#define OPTIONS_GO_ON (-1)

/* Parses argv[1] and what follows. OPTIONS_GO_ON, or the exit status: 0 after --help, 2 after a message. */
int options_parse(struct options *o, int argc, char **argv);
bool options_has(const struct options *o, const char *name); /* the option was given */
/* The first option that was given and that `mode` (one bit) does not have; NULL: there is none. */
const struct option_row *options_foreign(const struct options *o, unsigned mode);
const char *option_name(const struct option_row *row); /* "--mtu" or "-w"; valid until the next call */

/* The value of an OPTION_REAL or OPTION_PROBABILITY, for take(). 0 or -EINVAL. */
int option_real(const struct option_row *row, const char *text, double *value);
/* Prints a message and the forms of the subcommand. Returns exit status 2. */
int options_misuse(const struct usage *u, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints "NAME must be WANTS, not VALUE". Returns exit status 2. */
int options_bad_value(const struct usage *u, const char *name, const char *wants, const char *value);

#endif
