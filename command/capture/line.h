/* SPDX-License-Identifier: BSD-3-Clause */
/* A frame as one line of text, in the manner of tcpdump. Reads no byte outside the frame, whatever the frame says. */
#ifndef COMMAND_CAPTURE_LINE_H
#define COMMAND_CAPTURE_LINE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct capture_line {
	uint64_t time; /* ns since the epoch */
	const char *port;
	bool outgoing;
	const uint8_t *frame;
	uint32_t captured, length; /* bytes at `frame`, bytes of the whole frame */
	const char *fate;
};

/* "12:00:00.000000001 port In  IP 192.0.2.1.5 > 192.0.2.2.7: UDP, length 3 [fate]", and a line feed. Local time. A part
 * that the capture has cut off is shown as [|PROTOCOL]. 0 or -errno of the stream. */
int capture_line_print(FILE *to, const struct capture_line *line);

#endif
