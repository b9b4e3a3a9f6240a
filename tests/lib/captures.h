/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds and reads the real captures: in SPINDLE_SHARED_PCAPS, or in ../shared/pcaps beside the source tree. */
#ifndef TESTS_CAPTURES_H
#define TESTS_CAPTURES_H

#include <pcap/pcap.h>

#include "suite.h"

const char *captures_directory(void);
/* Why rules that need captures cannot run; NULL: they can. */
const char *captures_missing(void);
#define TEST_OF_CAPTURES(function) TEST_IF(captures_missing, function)

/* NULL, after a line on stdout: unreadable. */
pcap_t *captures_open(const char *file);
/* Calls each() for every whole packet; the bytes are in a malloc of exactly their length. False: unreadable. */
bool captures_each(const char *file,
		   void (*each)(const char *file, unsigned number, uint8_t *bytes, uint32_t len, void *arg), void *arg);

#endif
