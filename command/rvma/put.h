/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef COMMAND_RVMA_PUT_H
#define COMMAND_RVMA_PUT_H

#include "ends.h"

int rvma_put_file(const struct rvma_asked *a); /* 0 or -1 */
int rvma_get_file(const struct rvma_asked *a);

#endif
