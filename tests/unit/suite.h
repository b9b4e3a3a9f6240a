/* SPDX-License-Identifier: BSD-3-Clause */
/* A CUnit suite that reports in TAP, one line per rule. SUITE("parser", TEST(name_of_rule), ...) is the main(). */
#ifndef TESTS_SUITE_H
#define TESTS_SUITE_H

#include <CUnit/CUnit.h>
#include <CUnit/TestRun.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct suite_test {
	const char *name;
	void (*run)(void);
};
static unsigned suite_done, suite_failed;

/* How often of so many times: a sanitizer looks at each way through, not at as many values. */
static inline unsigned suite_times(unsigned count)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return count / 4;
#else
	return count;
#endif
}

static void suite_complete(const CU_pTest test, const CU_pSuite suite, const CU_pFailureRecord failure)
{
	(void)suite;
	for (CU_pFailureRecord f = failure; f; f = f->pNext)
		printf("# %s:%u: %s\n", f->strFileName, f->uiLineNumber, f->strCondition);
	printf("%s %u - %s\n", failure ? "not ok" : "ok", ++suite_done, test->pName);
	fflush(stdout);
	suite_failed += failure != NULL;
}

/* handlers/isa/isa.h; not in programs that have no kernels. */
int sp_isa_check(char *why, size_t room) __attribute__((weak));

/* A level that the processor lacks: nothing runs. */
static inline bool suite_skipped(const struct suite_test *test, size_t count)
{
	char why[256];

	if (!sp_isa_check || sp_isa_check(why, sizeof(why)) != -ENOTSUP)
		return false;
	printf("1..%zu\n", count);
	for (size_t i = 0; i < count; i++)
		printf("ok %zu - %s # SKIP %s\n", i + 1, test[i].name, why);
	return true;
}

static inline int suite_run(const char *name, const struct suite_test *test, size_t count)
{
	if (suite_skipped(test, count))
		return 0;
	if (CU_initialize_registry() != CUE_SUCCESS)
		return 99;
	CU_pSuite suite = CU_add_suite(name, NULL, NULL);
	for (size_t i = 0; i < count; i++)
		if (!CU_add_test(suite, test[i].name, test[i].run))
			return 99;
	printf("1..%zu\n", count);
	CU_set_test_complete_handler(suite_complete);
	CU_run_all_tests();
	CU_cleanup_registry();
	return suite_failed ? 1 : 0;
}

#define TEST(function)                                                                                                 \
	{                                                                                                              \
#function, function                                                                                    \
	}
#define SUITE(name, ...)                                                                                               \
	int main(void)                                                                                                 \
	{                                                                                                              \
		static const struct suite_test tests[] = {__VA_ARGS__};                                                \
		return suite_run(name, tests, sizeof(tests) / sizeof(*tests));                                         \
	}

#endif
