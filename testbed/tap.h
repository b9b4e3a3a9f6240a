/* SPDX-License-Identifier: BSD-3-Clause */
/* A port that passes everything on to another one and writes sent packets to a capture. Threads: as the port behind. */
#ifndef TESTBED_TAP_H
#define TESTBED_TAP_H

#include "capture.h"
#include "shortage.h"

struct sp_tap {
	const struct sp_port_ops *ops; /* the port behind */
	void *port;
	struct sp_capture_writer *out; /* several taps may share it: then it is in the order of sending */
	struct sp_shortage shortage;   /* of the tap; zeroed */
};
extern const struct sp_port_ops sp_tap_ops; /* ops_arg: struct sp_tap * */

#endif
