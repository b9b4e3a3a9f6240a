/* SPDX-License-Identifier: BSD-3-Clause */
/* Every field that fields.c can find. */
#ifndef TESTBED_FIELDS_TABLE_H
#define TESTBED_FIELDS_TABLE_H

/* clang-format off */
/* One line per field: its id, its name, its form, what its number counts. */
#define FIELDS(X) \
	X(F_ETH_DST, "eth.dst", MAC, 1) \
	X(F_ETH_SRC, "eth.src", MAC, 1) \
	X(F_ETH_TYPE, "eth.type", HEX, 1) \
	X(F_ETH_LEN, "eth.len", NUMBER, 1) \
	X(F_VLAN_PRIORITY, "vlan.priority", NUMBER, 1) \
	X(F_VLAN_DEI, "vlan.dei", NUMBER, 1) \
	X(F_VLAN_ID, "vlan.id", NUMBER, 1) \
	X(F_VLAN_TYPE, "vlan.etype", HEX, 1) \
	X(F_AD_PRIORITY, "ieee8021ad.priority", NUMBER, 1) \
	X(F_AD_DEI, "ieee8021ad.dei", NUMBER, 1) \
	X(F_AD_ID, "ieee8021ad.id", NUMBER, 1) \
	X(F_AD_TYPE, "ieee8021ah.etype", HEX, 1) \
	X(F_ARP_HW_TYPE, "arp.hw.type", NUMBER, 1) \
	X(F_ARP_PROTO_TYPE, "arp.proto.type", HEX, 1) \
	X(F_ARP_HW_SIZE, "arp.hw.size", NUMBER, 1) \
	X(F_ARP_PROTO_SIZE, "arp.proto.size", NUMBER, 1) \
	X(F_ARP_OPCODE, "arp.opcode", NUMBER, 1) \
	X(F_ARP_SRC_MAC, "arp.src.hw_mac", MAC, 1) \
	X(F_ARP_SRC_IP, "arp.src.proto_ipv4", IP4, 1) \
	X(F_ARP_DST_MAC, "arp.dst.hw_mac", MAC, 1) \
	X(F_ARP_DST_IP, "arp.dst.proto_ipv4", IP4, 1) \
	X(F_IP_VERSION, "ip.version", NUMBER, 1) \
	X(F_IP_HDR_LEN, "ip.hdr_len", NUMBER, 4) \
	X(F_IP_DSFIELD, "ip.dsfield", HEX, 1) \
	X(F_IP_LEN, "ip.len", NUMBER, 1) \
	X(F_IP_ID, "ip.id", HEX, 1) \
	X(F_IP_RB, "ip.flags.rb", NUMBER, 1) \
	X(F_IP_DF, "ip.flags.df", NUMBER, 1) \
	X(F_IP_MF, "ip.flags.mf", NUMBER, 1) \
	X(F_IP_FRAG_OFFSET, "ip.frag_offset", NUMBER, 1) \
	X(F_IP_TTL, "ip.ttl", NUMBER, 1) \
	X(F_IP_PROTO, "ip.proto", NUMBER, 1) \
	X(F_IP_CHECKSUM, "ip.checksum", HEX, 1) \
	X(F_IP_SRC, "ip.src", IP4, 1) \
	X(F_IP_DST, "ip.dst", IP4, 1) \
	X(F_IP_OPTIONS, "ip.options", BYTES, 1) \
	X(F_IP6_VERSION, "ipv6.version", NUMBER, 1) \
	X(F_IP6_TCLASS, "ipv6.tclass", HEX, 1) \
	X(F_IP6_FLOW, "ipv6.flow", HEX, 1) \
	X(F_IP6_PLEN, "ipv6.plen", NUMBER, 1) \
	X(F_IP6_NXT, "ipv6.nxt", NUMBER, 1) \
	X(F_IP6_HLIM, "ipv6.hlim", NUMBER, 1) \
	X(F_IP6_SRC, "ipv6.src", IP6, 1) \
	X(F_IP6_DST, "ipv6.dst", IP6, 1) \
	X(F_IP6_EXT_NXT, "ipv6.ext.nxt", NUMBER, 1) \
	X(F_IP6_EXT_LEN, "ipv6.ext.len", NUMBER, 1) \
	X(F_IP6_EXT_DATA, "ipv6.ext.data", BYTES, 1) \
	X(F_FRAG_NXT, "ipv6.fraghdr.nxt", NUMBER, 1) \
	X(F_FRAG_RESERVED, "ipv6.fraghdr.reserved_octet", HEX, 1) \
	X(F_FRAG_OFFSET, "ipv6.fraghdr.offset", NUMBER, 1) \
	X(F_FRAG_BITS, "ipv6.fraghdr.reserved_bits", NUMBER, 1) \
	X(F_FRAG_MORE, "ipv6.fraghdr.more", NUMBER, 1) \
	X(F_FRAG_IDENT, "ipv6.fraghdr.ident", HEX, 1) \
	X(F_ICMP_TYPE, "icmp.type", NUMBER, 1) \
	X(F_ICMP_CODE, "icmp.code", NUMBER, 1) \
	X(F_ICMP_CHECKSUM, "icmp.checksum", HEX, 1) \
	X(F_ICMP_IDENT, "icmp.ident", NUMBER, 1) \
	X(F_ICMP_SEQ, "icmp.seq", NUMBER, 1) \
	X(F_ICMP6_TYPE, "icmpv6.type", NUMBER, 1) \
	X(F_ICMP6_CODE, "icmpv6.code", NUMBER, 1) \
	X(F_ICMP6_CHECKSUM, "icmpv6.checksum", HEX, 1) \
	X(F_ICMP6_IDENT, "icmpv6.echo.identifier", HEX, 1) \
	X(F_ICMP6_SEQ, "icmpv6.echo.sequence_number", NUMBER, 1) \
	X(F_ICMP6_RESERVED, "icmpv6.reserved", HEX, 1) \
	X(F_NS_TARGET, "icmpv6.nd.ns.target_address", IP6, 1) \
	X(F_NA_R, "icmpv6.nd.na.flag.r", NUMBER, 1) \
	X(F_NA_S, "icmpv6.nd.na.flag.s", NUMBER, 1) \
	X(F_NA_O, "icmpv6.nd.na.flag.o", NUMBER, 1) \
	X(F_NA_RSV, "icmpv6.nd.na.flag.rsv", NUMBER, 1) \
	X(F_NA_TARGET, "icmpv6.nd.na.target_address", IP6, 1) \
	X(F_OPT_TYPE, "icmpv6.opt.type", NUMBER, 1) \
	X(F_OPT_LEN, "icmpv6.opt.length", NUMBER, 1) \
	X(F_OPT_MAC, "icmpv6.opt.linkaddr", MAC, 1) \
	X(F_OPT_DATA, "icmpv6.opt.data", BYTES, 1) \
	X(F_UDP_SRCPORT, "udp.srcport", NUMBER, 1) \
	X(F_UDP_DSTPORT, "udp.dstport", NUMBER, 1) \
	X(F_UDP_LENGTH, "udp.length", NUMBER, 1) \
	X(F_UDP_CHECKSUM, "udp.checksum", HEX, 1) \
	X(F_TCP_SRCPORT, "tcp.srcport", NUMBER, 1) \
	X(F_TCP_DSTPORT, "tcp.dstport", NUMBER, 1) \
	X(F_TCP_SEQ, "tcp.seq_raw", NUMBER, 1) \
	X(F_TCP_ACK, "tcp.ack_raw", NUMBER, 1) \
	X(F_TCP_HDR_LEN, "tcp.hdr_len", NUMBER, 4) \
	X(F_TCP_FLAGS, "tcp.flags", HEX, 1) \
	X(F_TCP_WINDOW, "tcp.window_size_value", NUMBER, 1) \
	X(F_TCP_CHECKSUM, "tcp.checksum", HEX, 1) \
	X(F_TCP_URGENT, "tcp.urgent_pointer", NUMBER, 1) \
	X(F_TCP_OPTIONS, "tcp.options", BYTES, 1) \
	X(F_BTH_OPCODE, "infiniband.bth.opcode", NUMBER, 1) \
	X(F_BTH_SE, "infiniband.bth.se", NUMBER, 1) \
	X(F_BTH_M, "infiniband.bth.m", NUMBER, 1) \
	X(F_BTH_PADCNT, "infiniband.bth.padcnt", NUMBER, 1) \
	X(F_BTH_TVER, "infiniband.bth.tver", NUMBER, 1) \
	X(F_BTH_P_KEY, "infiniband.bth.p_key", HEX, 1) \
	X(F_IB_RESERVED, "infiniband.reserved", HEX, 1) \
	X(F_BTH_DESTQP, "infiniband.bth.destqp", HEX, 1) \
	X(F_BTH_A, "infiniband.bth.a", NUMBER, 1) \
	X(F_BTH_RESERVED7, "infiniband.bth.reserved7", NUMBER, 1) \
	X(F_BTH_PSN, "infiniband.bth.psn", NUMBER, 1) \
	X(F_DETH_Q_KEY, "infiniband.deth.q_key", HEX, 1) \
	X(F_DETH_SRCQP, "infiniband.deth.srcqp", HEX, 1) \
	X(F_RETH_VA, "infiniband.reth.va", HEX, 1) \
	X(F_RETH_R_KEY, "infiniband.reth.r_key", HEX, 1) \
	X(F_RETH_DMALEN, "infiniband.reth.dmalen", NUMBER, 1) \
	X(F_ATOMIC_SWAPDT, "infiniband.atomiceth.swapdt", NUMBER, 1) \
	X(F_ATOMIC_CMPDT, "infiniband.atomiceth.cmpdt", NUMBER, 1) \
	X(F_AETH_SYNDROME, "infiniband.aeth.syndrome", NUMBER, 1) \
	X(F_AETH_MSN, "infiniband.aeth.msn", NUMBER, 1) \
	X(F_ATOMIC_ACK, "infiniband.atomicacketh.origremdt", NUMBER, 1) \
	X(F_IMMDT, "infiniband.immdt", HEX, 1) \
	X(F_IETH, "infiniband.ieth", HEX, 1) \
	X(F_IB_PAD, "infiniband.pad", BYTES, 1) \
	X(F_ICRC, "infiniband.invariant.crc", HEX, 1) \
	X(F_PAYLOAD, "payload", BYTES, 1) \
	X(F_PADDING, "padding", BYTES, 1)
/* clang-format on */

#define FIELD_ID(id, name, form, unit) id,
enum field_id { FIELDS(FIELD_ID) FIELD_IDS };

#endif
