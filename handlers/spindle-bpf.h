/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface of eBPF handlers: the only header that one includes. docs/ebpf.md is the guide. Built with
 *
 *	clang -O2 -target bpf -mcpu=v2 -ffreestanding -c NAME.bpf.c -o NAME.bpf.o
 *
 * and loaded like any plug-in. Each function of SP_BPF_HANDLER() is a handler. It is called for each packet of its
 * contexts with a copy of what the NIC knows of the packet, and returns the verdict. The copy belongs to the call. No
 * loops (unroll them), no other functions (but always_inline ones), no variables outside (sp_bpf_state_*). The only
 * addresses are those of the copy and of the stack, at offsets that are constant or, in the copy, have a mask.
 */
#ifndef SPINDLE_BPF_H
#define SPINDLE_BPF_H
/* clang-format off: kept in columns */
#include <stdint.h>

#define SP_BPF_ABI    1
#define SP_BPF_HEAD   128   /* bytes of the frame that are in the copy */
#define SP_BPF_PARAMS 8     /* parameters of a handler */
#define SP_BPF_STATE  65536 /* words of state, at most */

/* Numbers are in host byte order; bytes of the frame are as in the frame. Fields that do not apply are 0. */
struct sp_bpf_packet {
	uint64_t now;        /* picoseconds: the NIC's time */
	uint32_t frame_len;  /* bytes of the whole frame */
	uint32_t len;        /* bytes at `data`, without BTH pad bytes and ICRC and without Ethernet padding */
	uint32_t data;       /* offset in the frame of the first byte above the headers parsed */
	uint32_t flags;      /* SP_BPF_* */
	uint32_t l3, l4;     /* offsets of the IP and the L4 header; 0: there is none */
	uint32_t hash;       /* of addresses, protocol and UDP ports */
	uint32_t dest_qp, psn, opcode; /* of the BTH */
	uint32_t port, worker; /* of the NIC: the port it came by; the worker that runs this */
	uint32_t source_port, destination_port; /* UDP */
	uint8_t source[16], destination[16];    /* IPv6; IPv4 as ::ffff:a.b.c.d */
	uint8_t head[SP_BPF_HEAD]; /* the first bytes of the frame; 0 after its end */
};
enum { SP_BPF_ROCE = 1, SP_BPF_IPV6 = 2, SP_BPF_UDP = 4, SP_BPF_SE = 8 };

/* Verdicts, as in spindle-handler.h. SP_SENT: sp_bpf_answer() has sent the packet. */
#ifdef __bpf__
enum { SP_DONE = 0, SP_FORWARD = 2, SP_ERROR = 3, SP_DROP_KIND = 4, SP_SENT = 5 };
#define SP_DROP(reason) (SP_DROP_KIND | (uint32_t)(reason) << 8)

/* Calls. They take and return numbers. Offsets are into the frame, and are checked: with a range outside of it, after
 * the frame was sent, or with an invalid index, the call returns 0 and does nothing, and the packet is the drop
 * `bad-access`. */
uint64_t sp_bpf_load(uint64_t offset, uint64_t bytes);   /* 1, 2, 4 or 8, big endian as on the wire */
uint64_t sp_bpf_store(uint64_t offset, uint64_t bytes, uint64_t value);
uint64_t sp_bpf_swap(uint64_t a, uint64_t b, uint64_t bytes);          /* swaps two ranges of at most 64 bytes */
/* RFC 1071, as sp_bpf_store() takes it; sum: carried in */
uint64_t sp_bpf_checksum(uint64_t offset, uint64_t bytes, uint64_t sum);
/* Updates the checksum at offset for a 16-bit word that has changed (RFC 1624). */
uint64_t sp_bpf_checksum_fix(uint64_t offset, uint64_t was, uint64_t is);
uint64_t sp_bpf_answer(void);      /* sends the frame as it is now, by the port it came by; 1: sent, 0: no room */
uint64_t sp_bpf_count(uint64_t counter, uint64_t n);     /* index into SP_BPF_COUNTERS */
uint64_t sp_bpf_param(uint64_t index);                   /* into SP_BPF_PARAM's */
uint64_t sp_bpf_state_get(uint64_t index);               /* words of the context, shared by its workers */
uint64_t sp_bpf_state_set(uint64_t index, uint64_t value);
uint64_t sp_bpf_state_add(uint64_t index, uint64_t n);   /* atomic; returns the old value */
/* To the host: SP_EVENT_OWN + type (below 256). 1: posted, 0: its queue is full. */
uint64_t sp_bpf_event(uint64_t type, uint64_t a, uint64_t b, uint64_t c);
uint64_t sp_bpf_random(void);                            /* see sp_random() */

/* The copy's bytes at a constant, even offset, from the wire to a number. */
#define sp_bpf_u8(p, at)  ((p)->head[at])
#define sp_bpf_u16(p, at) __builtin_bswap16(*(const uint16_t *)(const void *)((p)->head + (at)))
#define sp_bpf_u32(p, at) __builtin_bswap32(*(const uint32_t *)(const void *)((p)->head + (at)))
#endif

/* ---- sections of the object that the NIC reads ---- */
struct sp_bpf_about { uint32_t abi, packet_bytes, state_words, reserved; };
/* fallback: "": must be given; else 12, 64K, 0x1F */
struct sp_bpf_param_about { char name[40], fallback[24], help[96]; };
#define SP_BPF_PLACE(kind, id) __attribute__((section(kind "/" #id), used, aligned(8)))
/* SP_BPF_HANDLER(name, state words) { ... return verdict; }, where p is the packet. Handlers' names are made of small
 * letters, digits and -: an identifier's _ becomes one. */
#define SP_BPF_HANDLER(id, words) \
	SP_BPF_PLACE("about", id) const struct sp_bpf_about sp_bpf_about_##id = \
		{SP_BPF_ABI, sizeof(struct sp_bpf_packet), words, 0}; \
	__attribute__((section("handler/" #id), used)) uint64_t sp_bpf_handler_##id(struct sp_bpf_packet *p)
#define SP_BPF_DOC(id, text) SP_BPF_PLACE("doc", id) const char sp_bpf_doc_##id[] = text
/* Names, one after the other with a \0 between them: SP_BPF_DROPS(id, "not-icmp\0" "no-room"). At most 63 each. */
#define SP_BPF_DROPS(id, names) SP_BPF_PLACE("drops", id) const char sp_bpf_drops_##id[] = names
#define SP_BPF_COUNTERS(id, names) SP_BPF_PLACE("counters", id) const char sp_bpf_counters_##id[] = names
/* SP_BPF_PARAMETERS(id) = {{"limit", "64", "bytes from which on ..."}, ...}; numbers all */
#define SP_BPF_PARAMETERS(id) SP_BPF_PLACE("params", id) const struct sp_bpf_param_about sp_bpf_params_##id[]
#endif
