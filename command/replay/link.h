/* SPDX-License-Identifier: BSD-3-Clause */
/* A link in front of each port. One end sends the capture's packets at their time stamps; the NIC is at the other. */
#ifndef COMMAND_REPLAY_LINK_H
#define COMMAND_REPLAY_LINK_H

#include "state.h"

/* Before the NIC is created: makes its port of that index. 0, or -errno after a message. */
int replay_link_open(struct replay *r, unsigned index, uint16_t workers, struct sp_port_config *port);
int replay_link_feed(struct replay *r);	       /* adds the senders to the world; 0 or -errno */
bool replay_link_over(const struct replay *r); /* nothing is on its way to the NIC */
void replay_link_close(struct replay *r);      /* after the NIC */

#endif
