/* SPDX-License-Identifier: BSD-3-Clause */
/* The sdr handler, compiled once for all programs that run it with the stand-in for the pipeline: linked from the NIC's
 * library, it would call the NIC. */
#include "../../handlers/sdr/sdr.c"
#include "../../handlers/sdr/receive.c"
#include "../../handlers/sdr/place.c"
#include "../../handlers/sdr/place_workers.c"
#include "../../handlers/sdr/export.c"
#include "../../handlers/sdr/send.c"
#include "../../handlers/sdr/queue.c"
#include "../../handlers/sdr/connection.c"
#include "../../handlers/sdr/datagram.c"
#include "../../handlers/sdr/control.c"
