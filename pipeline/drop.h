/* SPDX-License-Identifier: BSD-3-Clause */
/* The pipeline's drop reasons; handlers declare their own. Counters and JSON show these names. */
#ifndef PIPELINE_DROP_H
#define PIPELINE_DROP_H

#define SP_DROPS(X)                                                                                                    \
	/* parser: what is wrong with the frame */                                                                     \
	X(SHORT_ETHERNET, "short-ethernet") /* fewer than 14 bytes, or a VLAN tag cut off */                           \
	X(SHORT_IP, "short-ip")		    /* IP header cut off */                                                    \
	X(BAD_IP_HEADER, "bad-ip-header")   /* version or header length wrong */                                       \
	X(BAD_IP_CHECKSUM, "bad-ip-checksum")                                                                          \
	X(BAD_IP_LENGTH, "bad-ip-length")   /* total length beyond the frame or below the header */                    \
	X(MAPPED_ADDRESS, "mapped-address") /* IPv6 with ::ffff:a.b.c.d as an address: inside, that is IPv4 */         \
	X(SHORT_UDP, "short-udp")	    /* UDP header cut off */                                                   \
	X(BAD_UDP_LENGTH, "bad-udp-length") /* beyond the IP packet or below 8, or short of it on port 4791 */         \
	X(SHORT_BTH, "short-bth")	    /* no room for BTH and ICRC */                                             \
	X(BAD_BTH, "bad-bth")		    /* transport version not 0 */                                              \
	X(BAD_PAD, "bad-pad")		    /* pad count larger than the payload */                                    \
	X(BAD_ICRC, "bad-icrc")                                                                                        \
	X(NOT_LINEAR, "not-linear") /* several segments, too long for one buffer */                                    \
	/* match */                                                                                                    \
	X(BAD_QP, "bad-qp")			  /* QP number 0, 1 or 0xFFFFFF, or one that no context has */         \
	X(WRONG_VLAN, "wrong-vlan")		  /* not of the NIC's VLAN, and no exception port */                   \
	X(WRONG_DESTINATION, "wrong-destination") /* RoCE for an address that is not the NIC's */                      \
	X(ROCE_FRAGMENT, "roce-fragment")	  /* RoCE for the NIC in a fragment, or behind extension headers */    \
	X(WRONG_SOURCE, "wrong-source")		  /* RoCE from another address than the connected peer's */            \
	X(NO_MATCH, "no-match")			  /* for no context, and no exception port */                          \
	X(EXCEPTION_FULL, "exception-full")	  /* the exception port's queue is full */                             \
	X(EXCEPTION_MTU, "exception-mtu")   /* larger than the exception port carries: put together on the way */      \
	X(CONTEXT_CLOSED, "context-closed") /* the context went away while the packet was parked */                    \
	X(HANDOVER_FULL, "handover-full")   /* the ring to the owning worker is full */                                \
	/* messages */                                                                                                 \
	X(HEADER_BUSY, "header-busy") /* another worker runs the header handler, and the parking list is full */       \
	X(MESSAGE_TABLE_FULL, "message-table-full")                                                                    \
	X(NO_MESSAGE, "no-message")		/* the message is not open, and the handler has no miss() */           \
	X(HANDLER_ERROR, "handler-error")	/* verdict SP_ERROR or out of range */                                 \
	X(OVER_BUDGET, "over-budget")		/* the context owes the worker what earlier packets cost too much */   \
	X(CONTEXT_DISABLED, "context-disabled") /* it overran its budget */                                            \
	X(BACKLOG_FULL, "backlog-full")		/* the context has had its share of the worker, and waits too long */  \
	X(OVER_LIMIT, "over-limit")		/* the context's user has used up what [limits NAME] allows */         \
	/* transmit; these packets were never received, they are counted apart */                                      \
	X(TX_NO_NEIGHBOUR, "tx-no-neighbour")                                                                          \
	X(TX_FULL, "tx-full")

enum sp_drop {
#define X(id, name) SP_DROP_##id,
	SP_DROPS(X)
#undef X
		SP_DROP_COUNT
};
#define SP_DROP_FIRST_TX SP_DROP_TX_NO_NEIGHBOUR
#define SP_DROP_NONE	 (-1)

extern const char *const sp_drop_names[SP_DROP_COUNT];

#endif
