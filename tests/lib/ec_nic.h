/* SPDX-License-Identifier: BSD-3-Clause */
/* The ec handler as companion of sdr on one NIC. The test makes messages, parity and packets by hand and polls. */
#ifndef TESTS_EC_NIC_H
#define TESTS_EC_NIC_H

#include "../../handlers/wire/ec.h"
#include "../../handlers/wire/roce.h"
#include "../../handlers/wire/sdr.h"
#include "ec_reference.h"
#include "dut.h"

enum { K = 32, M = 8, MTU = 1024, CHUNK = 8192, DATA = K * CHUNK, PARITY = M * CHUNK, SLOT = DATA + 4096 };

#define BASE                                                                                                           \
	"qp=0x100;mtu=1024;chunk-bytes=8192;max-message-bytes=256K;rkey=7;replay=yes;companion=ec;max-packet-life="    \
	"0ps;"
#define RECEIVER BASE "max-messages=4;generations=2"
#define SENDER	 BASE "max-messages=4;credit=implicit"

extern struct sp_mr *ecn_mr;
extern uint32_t ecn_id;
extern struct ec_area ecn_area; /* a whole submessage, and its parity as defined */
extern sp_time ecn_now;
extern unsigned ecn_generations;
extern uint16_t ecn_workers, ecn_queue; /* of the NIC; that packets come by */
void ecn_begin(const char *settings);
void ecn_stop(void);
int ecn_call(uint16_t op, uint64_t cookie, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4);
uint8_t *ecn_slot(uint64_t k);
void ecn_post(uint64_t k, uint64_t length);
void ecn_post_pair(uint64_t k);
/* Packet p of message k, which ends with packet `last`. */
void ecn_packet(uint64_t k, unsigned p, unsigned last, const uint8_t *bytes, uint32_t immediate);
extern const uint32_t ecn_right; /* stands for the immediate that fits */
void ecn_chunk_of(uint64_t k, unsigned chunk, uint32_t immediate);
void ecn_data_but(uint64_t k, unsigned lost);
void ecn_parity(uint64_t k, unsigned count, uint32_t immediate);
uint64_t ecn_total(enum sp_ec_total which);
const struct sp_sdr_recv_status *ecn_status(uint64_t k);
uint64_t ecn_bitmap(uint64_t k);
bool ecn_is_whole(uint64_t k);
void ecn_settle(void);

#endif
