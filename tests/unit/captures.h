/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the real captures are: SPINDLE_SHARED_PCAPS, else ../shared/pcaps beside the source tree. */
#ifndef TESTS_CAPTURES_H
#define TESTS_CAPTURES_H

#include <dirent.h>
#include <pcap/pcap.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"

static inline const char *captures_directory(void)
{
	static char path[4096];
	const char *given = getenv("SPINDLE_SHARED_PCAPS"), *root = getenv("MESON_SOURCE_ROOT");

	if (given)
		snprintf(path, sizeof(path), "%s", given);
	else
		snprintf(path, sizeof(path), "%s/../shared/pcaps", root ? root : ".");
	return path;
}

static inline void captures_absent(void)
{
}

/* A test that needs captures; where there are none it becomes one that TAP calls skipped, with the reason. */
static inline struct suite_test captures_test(const char *name, void (*run)(void))
{
	static char skipped[4096 + 256];
	DIR *d = opendir(captures_directory());

	if (d) {
		closedir(d);
		return (struct suite_test){name, run};
	}
	snprintf(skipped, sizeof(skipped), "%s # SKIP no captures in %s (SPINDLE_SHARED_PCAPS)", name,
		 captures_directory());
	return (struct suite_test){skipped, captures_absent};
}
#define CAPTURES_TEST(function) captures_test(#function, function)

static inline pcap_t *captures_open(const char *file)
{
	char path[4096 + 256], error[PCAP_ERRBUF_SIZE];

	snprintf(path, sizeof(path), "%s/%s", captures_directory(), file);
	pcap_t *p = pcap_open_offline(path, error);
	if (!p)
		printf("# %s\n", error);
	return p;
}

/* Calls each() for every whole packet of a capture; the bytes are in a malloc of exactly their length. False:
 * unreadable. */
static inline bool
captures_each(const char *file,
	      void (*each)(const char *file, unsigned number, uint8_t *bytes, uint32_t len, void *arg), void *arg)
{
	struct pcap_pkthdr *head;
	const u_char *bytes;
	unsigned number = 0;
	int ret;
	pcap_t *p = captures_open(file);

	if (!p)
		return false;
	while ((ret = pcap_next_ex(p, &head, &bytes)) == 1) {
		number++;
		if (head->caplen != head->len)
			continue;
		uint8_t *exact = malloc(head->caplen ? head->caplen : 1);
		memcpy(exact, bytes, head->caplen);
		each(file, number, exact, head->caplen, arg);
		free(exact);
	}
	pcap_close(p);
	return ret == PCAP_ERROR_BREAK;
}

#endif
