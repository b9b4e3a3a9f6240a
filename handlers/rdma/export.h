/* SPDX-License-Identifier: BSD-3-Clause */
/* For a companion: spindle-export.h. */
#ifndef HANDLERS_RDMA_EXPORT_H
#define HANDLERS_RDMA_EXPORT_H

#include "state.h"

extern const struct sp_export rdma_exports;

#endif
