/* SPDX-License-Identifier: BSD-3-Clause */
/* The main() of programs that have none: in a file of its own, so that the linker takes it only then. */
#include "suite.h"

int main(void)
{
	return suite_run();
}
