/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include <CUnit/TestRun.h>

static struct suite_test *suite_tests;
static unsigned suite_done, suite_failed;

void suite_add(struct suite_test *test)
{
	struct suite_test **at = &suite_tests;

	while (*at && (*at)->line <= test->line)
		at = &(*at)->next;
	test->next = *at;
	*at = test;
}

unsigned suite_times(unsigned count)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return count / 4;
#else
	return count;
#endif
}

static void suite_complete(const CU_pTest test, const CU_pSuite suite, const CU_pFailureRecord failure)
{
	for (CU_pFailureRecord f = failure; f; f = f->pNext)
		printf("# %s:%u: %s\n", f->strFileName, f->uiLineNumber, f->strCondition);
	printf("%s %u - %s\n", failure ? "not ok" : "ok", ++suite_done, test->pName);
	fflush(stdout);
	suite_failed += failure != NULL;
}

/* handlers/isa/isa.h; not in programs that have no kernels. */
int sp_isa_check(char *why, size_t room) __attribute__((weak));

/* Why nothing runs: the processor lacks the level of SPINDLE_ISA. NULL: it does not. */
static const char *level_missing(void)
{
	static char why[256];

	return sp_isa_check && sp_isa_check(why, sizeof(why)) == -ENOTSUP ? why : NULL;
}

static void suite_skipped(void)
{
}

int suite_run(void)
{
	const char *missing = level_missing();
	unsigned count = 0;

	if (CU_initialize_registry() != CUE_SUCCESS)
		return 99;
	CU_pSuite suite = CU_add_suite("tests", NULL, NULL);
	for (struct suite_test *t = suite_tests; t; t = t->next, count++) {
		const char *why = missing ? missing : t->skip ? t->skip() : NULL;
		char name[4096 + 256];

		snprintf(name, sizeof(name), "%s%s%s", t->name, why ? " # SKIP " : "", why ? why : "");
		if (!CU_add_test(suite, name, why ? suite_skipped : t->run))
			return 99;
	}
	printf("1..%u\n", count);
	CU_set_test_complete_handler(suite_complete);
	CU_run_all_tests();
	CU_cleanup_registry();
	return suite_failed ? 1 : 0;
}
