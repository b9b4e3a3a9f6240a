/* SPDX-License-Identifier: BSD-3-Clause */
/* The sdr handler, compiled once for all programs that run it with the stand-in for the pipeline: linked from the NIC's
 * library, it would call the NIC. */
#include "../../handlers/sdr.c"
#include "../../handlers/sdr_receive.c"
#include "../../handlers/sdr_place.c"
#include "../../handlers/sdr_shared.c"
#include "../../handlers/sdr_export.c"
#include "../../handlers/sdr_send.c"
#include "../../handlers/sdr_control.c"
