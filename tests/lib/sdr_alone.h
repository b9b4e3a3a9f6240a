/* SPDX-License-Identifier: BSD-3-Clause */
/* The sdr handler with the stand-in for the pipeline (fake_nic.h), and packets and commands made by hand. */
#ifndef TESTS_SDR_ALONE_H
#define TESTS_SDR_ALONE_H

#include "../../handlers/sdr/state.h"
#include "fake_nic.h"
#include "suite.h"

enum { BUFFER = 1 }; /* memory id of the buffer that tests post, see attach() */

#define UNTOUCHED 0xEE

extern struct fake_nic alone_nic;
void alone_attach(struct fake_nic *f, const char *const *setting, uint64_t buffer, uint16_t workers);

/* ---- packets made by hand, from the wire format's description ---- */
struct packet {
	uint32_t qp_index, id, offset, user; /* user: value of the user bits */
	uint32_t len, rkey, dma_len, psn;
	uint64_t va;
	uint8_t opcode, flags, fill;
	struct sp_packet p;
	uint8_t bytes[20 + 4200];
};

/* Split 10+18+4, mtu 128, M = 64 KiB, unless a test says otherwise. */
#define MTU 128u

#define M_BYTES	     65536ull
#define MTU_SETTINGS "mtu", "128", "queue", "64", "max-message-bytes", "64K", "chunk-bytes", "512", "rkey", "0x12345678"

extern const char *const alone_implicit4[];
struct packet *alone_packet(uint32_t id, uint32_t offset, uint32_t len);
struct sp_packet *alone_build(struct packet *k);
uint32_t alone_give(struct packet *k);
int alone_post_to(struct fake_nic *f, uint64_t k, uint64_t offset, uint64_t len);
int alone_complete(struct fake_nic *f, uint64_t k);
const struct sp_sdr_recv_status *alone_line(struct fake_nic *f, uint32_t slot);
/* Distinct packets of the message in a slot that have come. */
uint64_t alone_came(struct fake_nic *f, uint32_t slot);
const uint64_t *alone_bitmap(struct fake_nic *f, uint32_t slot);
const char *alone_report(struct fake_nic *f);
bool alone_untouched(const uint8_t *p, size_t n);
bool alone_filled(const uint8_t *p, size_t n, uint8_t with);
uint32_t alone_draw(uint32_t below);
struct packet *alone_of_message(uint64_t k, uint32_t slots, uint32_t generations, uint32_t p);
int alone_connect_to(struct fake_nic *f, uint64_t peer_nonce, uint64_t nonce);
/* What a companion asks for: one chunk. 0: it is reserved; 1: it has come. */
int alone_reserve(const struct sp_export *x, uint64_t key, uint64_t chunk);

#endif
