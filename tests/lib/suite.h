/* SPDX-License-Identifier: BSD-3-Clause */
/* CUnit rules that report in TAP. TEST(name) { ... } is one rule. Rules of a program run in the order of their
 * lines. */
#ifndef TESTS_SUITE_H
#define TESTS_SUITE_H

#include <CUnit/CUnit.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct suite_test {
	const char *name;
	void (*run)(void);
	const char *(*skip)(void); /* NULL, or returns why the rule cannot run here; NULL: it can */
	unsigned line;
	struct suite_test *next;
};

void suite_add(struct suite_test *test);
/* Runs all rules; returns the exit status. A program without a main() of its own gets one that does only this. */
int suite_run(void);
/* `count`, or a quarter of it with a sanitizer, which looks at each way through and not at as many values. */
unsigned suite_times(unsigned count);

#define SUITE_RULE(function, rule, skip_fn)                                                                            \
	static void function(void);                                                                                    \
	static void __attribute__((constructor)) function##_add(void)                                                  \
	{                                                                                                              \
		static struct suite_test test = {rule, function, skip_fn, __LINE__, NULL};                             \
		suite_add(&test);                                                                                      \
	}                                                                                                              \
	static void function(void)
#define TEST(function)		       SUITE_RULE(function, #function, NULL)
#define TEST_IF(unavailable, function) SUITE_RULE(function, #function, unavailable)
/* A rule between two calls, which make and end what it needs. */
#define TEST_BETWEEN(start, end, function)                                                                             \
	static void function##_inside(void);                                                                           \
	TEST(function)                                                                                                 \
	{                                                                                                              \
		start();                                                                                               \
		function##_inside();                                                                                   \
		end();                                                                                                 \
	}                                                                                                              \
	static void function##_inside(void)
/* A rule of one call. */
#define TEST_CALL(function, ...)                                                                                       \
	TEST(function)                                                                                                 \
	{                                                                                                              \
		__VA_ARGS__;                                                                                           \
	}
/* A rule whose body runs for each of `count` seeds: seeds(rule, count, body). */
#define TEST_SEEDS(function, seeds, count, argument)                                                                   \
	static void function##_of_seed(argument);                                                                      \
	TEST_CALL(function, seeds(#function, count, function##_of_seed))                                               \
	static void function##_of_seed(argument)

#endif
