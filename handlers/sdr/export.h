/* SPDX-License-Identifier: BSD-3-Clause */
/* For a companion: spindle-export.h. */
#ifndef HANDLERS_SDR_EXPORT_H
#define HANDLERS_SDR_EXPORT_H

#include "state.h"

#pragma GCC visibility push(hidden)
extern const struct sp_export sdr_exports;
#pragma GCC visibility pop

#endif
