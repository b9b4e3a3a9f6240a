/* SPDX-License-Identifier: BSD-3-Clause */
/* What programs of tests include, most of them: see pipeline/pch/dpdk.h. */
#include "../../pipeline/pch/dpdk.h"

#include <CUnit/CUnit.h>
