/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection management on the wire (InfiniBand Architecture Specification 1.4, volume 1: MADs 13.4, messages 12.6 and
 * 12.11; annex A11, RDMA IP CM service): BTH (SP_UD_SEND_ONLY, to QP 1) | DETH (from QP 1) | 256 bytes of MAD.
 * As in roce.h, the structs consist of bytes, and numbers are big-endian.
 */
#ifndef SPINDLE_WIRE_CM_H
#define SPINDLE_WIRE_CM_H

#include "roce.h"

#define SP_CM_QKEY	    0x80010000u /* of QP 1 */
#define SP_CM_MAD_LEN	    256u
#define SP_CM_LID	    0xFFFFu	/* RoCE has none */
#define SP_CM_ACK_DELAY	    15u		/* target ACK delay as Linux says it */
#define SP_CM_UDP_QKEY	    0x01234567u /* of datagrams where nobody names one */
#define SP_CM_SELECTIVE	    "spindle"	/* the last 8 bytes of private data: the sender offers selective repeat */
#define SP_CM_SELECTIVE_LEN 8u

enum sp_mad { SP_MAD_BASE = 1, SP_MAD_CLASS_CM = 7, SP_MAD_CM_VERSION = 2, SP_MAD_SEND = 3 };
enum sp_cm_attribute {
	SP_CM_REQ = 0x10,
	SP_CM_MRA,
	SP_CM_REJ,
	SP_CM_REP,
	SP_CM_RTU,
	SP_CM_DREQ,
	SP_CM_DREP,
	SP_CM_SIDR_REQ,
	SP_CM_SIDR_REP,
};
/* What a REJ or MRA is about. */
enum sp_cm_about { SP_CM_ABOUT_REQ, SP_CM_ABOUT_REP, SP_CM_ABOUT_OTHER };
enum sp_cm_reason {
	SP_CM_NO_RESOURCES = 3,
	SP_CM_TIMEOUT = 4,
	SP_CM_INVALID_ID = 6,
	SP_CM_INVALID_SERVICE = 8,
	SP_CM_STALE = 10,
	SP_CM_INVALID_GID = 12,
	SP_CM_CONSUMER = 28,
};
enum sp_sidr_status { SP_SIDR_VALID, SP_SIDR_UNSUPPORTED, SP_SIDR_REJECT, SP_SIDR_NO_QP };

struct sp_mad_header {
	uint8_t base, class, class_version, method; /* enum sp_mad */
	uint8_t status[2], specific[2];
	uint8_t tid[8]; /* transaction: the answer has the request's */
	uint8_t attribute[2], reserved[2];
	uint8_t modifier[4];
};
static_assert(sizeof(struct sp_mad_header) == 24 && offsetof(struct sp_mad_header, attribute) == 16, "MAD");

/* In front of a REQ's and a SIDR_REQ's private data. The service ID is 0x0000000001, protocol (6 TCP, 0x11 UDP, 0x3F
 * IB: the low byte of the port space) and destination port. */
struct sp_cm_ip {
	uint8_t version; /* 0.0 */
	uint8_t ip;	 /* high half: 4 or 6 */
	uint8_t source_port[2];
	uint8_t source[16], destination[16]; /* IPv4: the last 4 bytes, after zeros */
};
static_assert(sizeof(struct sp_cm_ip) == 36 && offsetof(struct sp_cm_ip, destination) == 20, "IP CM");
#define SP_CM_SERVICE(port_space, port) ((uint64_t)(port_space) << 16 | (port))

struct sp_cm_req_path {
	uint8_t local_lid[2], remote_lid[2];
	uint8_t local_gid[16], remote_gid[16];
	uint8_t flow_rate[4]; /* flow label 20 bits, reserved 6, packet rate 6 */
	uint8_t traffic_class, hop_limit;
	uint8_t sl;	     /* high half; bit 3: subnet local */
	uint8_t ack_timeout; /* high 5 bits */
};
static_assert(sizeof(struct sp_cm_req_path) == 44 && offsetof(struct sp_cm_req_path, flow_rate) == 36, "path");

struct sp_cm_req {
	uint8_t local_id[4], reserved[4];
	uint8_t service[8];
	uint8_t guid[8];
	uint8_t reserved2[4];
	uint8_t qkey[4];
	uint8_t qp[3], responder_resources;
	uint8_t eecn[3], initiator_depth;
	uint8_t remote_eecn[3];
	uint8_t remote_timeout; /* 5 bits: how long the passive side may take; transport 2 (0 RC, 1 UC); flow control 1
				 */
	uint8_t psn[3];
	uint8_t local_timeout; /* 5 bits: how long the active side may take; QP's retry count 3 */
	uint8_t pkey[2];
	uint8_t mtu;	 /* code 4 bits (1: 256 .. 5: 4096), RDC exists 1, RNR retry count 3 */
	uint8_t retries; /* of CM messages, 4 bits; SRQ 1; extended transport 3 */
	struct sp_cm_req_path primary, alternate;
	struct sp_cm_ip ip;
	uint8_t private_data[56];
};
static_assert(sizeof(struct sp_cm_req) == 232 && offsetof(struct sp_cm_req, qp) == 32, "REQ");
static_assert(offsetof(struct sp_cm_req, psn) == 44 && offsetof(struct sp_cm_req, primary) == 52, "REQ");
static_assert(offsetof(struct sp_cm_req, alternate) == 96 && offsetof(struct sp_cm_req, ip) == 140, "REQ");

struct sp_cm_rep {
	uint8_t local_id[4], remote_id[4];
	uint8_t qkey[4];
	uint8_t qp[3], reserved;
	uint8_t eecn[3], reserved2;
	uint8_t psn[3], reserved3;
	uint8_t responder_resources, initiator_depth;
	uint8_t ack_delay; /* 5 bits; failover 2; flow control 1 */
	uint8_t rnr;	   /* RNR retry count 3; SRQ 1 */
	uint8_t guid[8];
	uint8_t private_data[196];
};
static_assert(sizeof(struct sp_cm_rep) == 232 && offsetof(struct sp_cm_rep, qp) == 12, "REP");
static_assert(offsetof(struct sp_cm_rep, psn) == 20 && offsetof(struct sp_cm_rep, guid) == 28, "REP");

struct sp_cm_rtu { /* and DREP */
	uint8_t local_id[4], remote_id[4];
	uint8_t private_data[224];
};
static_assert(sizeof(struct sp_cm_rtu) == 232, "RTU, DREP");

struct sp_cm_dreq {
	uint8_t local_id[4], remote_id[4];
	uint8_t remote_qp[3], reserved;
	uint8_t private_data[220];
};
static_assert(sizeof(struct sp_cm_dreq) == 232, "DREQ");

struct sp_cm_rej {
	uint8_t local_id[4], remote_id[4];
	uint8_t about;	  /* enum sp_cm_about, 2 bits */
	uint8_t info_len; /* 7 bits */
	uint8_t reason[2];
	uint8_t info[72];
	uint8_t private_data[148];
};
static_assert(sizeof(struct sp_cm_rej) == 232 && offsetof(struct sp_cm_rej, private_data) == 84, "REJ");

struct sp_cm_mra {
	uint8_t local_id[4], remote_id[4];
	uint8_t about;	 /* enum sp_cm_about, 2 bits */
	uint8_t timeout; /* 5 bits: how much longer it may take */
	uint8_t private_data[222];
};
static_assert(sizeof(struct sp_cm_mra) == 232, "MRA");

struct sp_sidr_req {
	uint8_t id[4];
	uint8_t pkey[2], reserved[2];
	uint8_t service[8];
	struct sp_cm_ip ip;
	uint8_t private_data[180];
};
static_assert(sizeof(struct sp_sidr_req) == 232 && offsetof(struct sp_sidr_req, ip) == 16, "SIDR_REQ");

struct sp_sidr_rep {
	uint8_t id[4];
	uint8_t status, info_len, reserved[2]; /* status: enum sp_sidr_status */
	uint8_t qp[3], reserved2;
	uint8_t service[8];
	uint8_t qkey[4];
	uint8_t info[72];
	uint8_t private_data[136];
};
static_assert(sizeof(struct sp_sidr_rep) == 232 && offsetof(struct sp_sidr_rep, qkey) == 20, "SIDR_REP");
static_assert(offsetof(struct sp_sidr_rep, private_data) == 96, "SIDR_REP");

struct sp_cm_mad {
	struct sp_mad_header header;
	union {
		struct sp_cm_req req;
		struct sp_cm_rep rep;
		struct sp_cm_rtu rtu;
		struct sp_cm_dreq dreq;
		struct sp_cm_rtu drep;
		struct sp_cm_rej rej;
		struct sp_cm_mra mra;
		struct sp_sidr_req sidr_req;
		struct sp_sidr_rep sidr_rep;
		struct { /* all but REQ and SIDR begin with these */
			uint8_t local_id[4], remote_id[4];
		} ids;
		uint8_t bytes[232];
	};
};
static_assert(sizeof(struct sp_cm_mad) == SP_CM_MAD_LEN, "MAD");

/* A time-out's code: 4.096 us times a power of two. */
#define SP_CM_TIME(code) (4096ull * 1000 << ((code)&31)) /* ps */

#endif
