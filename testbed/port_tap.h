/* SPDX-License-Identifier: BSD-3-Clause */
/* A port that passes everything on to another one and writes sent packets to a capture. Threads: as the port behind. */
#ifndef TESTBED_PORT_TAP_H
#define TESTBED_PORT_TAP_H

#include "pcap_port.h"
#include "shortage.h"

struct sp_port_tap {
	const struct sp_port_ops *ops; /* the port behind */
	void *port;
	struct sp_pcap_writer *out;  /* several taps may share it: then it is in the order of sending */
	uint32_t interface;	     /* of this port, where the file has several */
	struct sp_shortage shortage; /* of the tap; zeroed */
};
extern const struct sp_port_ops sp_port_tap_ops; /* ops_arg: struct sp_port_tap * */

#endif
