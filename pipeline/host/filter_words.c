/* SPDX-License-Identifier: BSD-3-Clause */
#include "filter_words.h"
#include "../error.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define LONGEST 256 /* characters; with NUMBERS the slowest known takes 60 ms */
#define NUMBERS 32

/* The words of pcap-filter(7) that stand for what is in the packet. */
static const char *const keywords[] = {
	"ack",	     "addr1", "addr2",	    "ah",	"and",	    "arp",	 "broadcast", "carp",
	"dst",	     "echo",  "echoreply",  "esp",	"ether",    "fin",	 "geneve",    "greater",
	"host",	     "icmp",  "icmp6",	    "icmpcode", "icmptype", "icmp6code", "icmp6type", "igmp",
	"ip",	     "ip6",   "ipv6",	    "len",	"less",	    "link",	 "mask",      "mpls",
	"multicast", "net",   "not",	    "or",	"pim",	    "port",	 "portrange", "pppoed",
	"pppoes",    "proto", "protochain", "push",	"rarp",	    "rst",	 "sctp",      "src",
	"syn",	     "tcp",   "tcpflags",   "udp",	"urg",	    "vlan",	 "vrrp"};

static bool is_keyword(const char *word, size_t len)
{
	for (size_t i = 0; i < sizeof(keywords) / sizeof(*keywords); i++)
		if (strlen(keywords[i]) == len && !memcmp(keywords[i], word, len))
			return true;
	return false;
}

/* Decimal, hexadecimal, dotted, or an address with colons. */
static bool is_number(const char *word, size_t len)
{
	const bool colons = memchr(word, ':', len), hex = len > 2 && word[0] == '0' && (word[1] | 0x20) == 'x';

	for (size_t i = hex ? 2 : 0; i < len; i++)
		if (!isdigit((unsigned char)word[i]) && word[i] != '.' &&
		    !((colons || hex) && (isxdigit((unsigned char)word[i]) || word[i] == ':')))
			return false;
	return true;
}

int sp_filter_words(const char *expression, struct sp_error *error)
{
	unsigned numbers = 0;

	if (strlen(expression) > LONGEST)
		return sp_error_set(error, E2BIG, "filter", "%zu characters: a program of this user may use %d",
				    strlen(expression), LONGEST);
	for (const char *at = expression; *at;) {
		size_t len = 0;

		while (isalnum((unsigned char)at[len]) || (at[len] && strchr("._:", at[len])))
			len++;
		if (len && is_number(at, len))
			numbers++;
		else if (len && !is_keyword(at, len))
			return sp_error_set(
				error, EPERM, "filter",
				"%.*s: a program of this user may not use names of hosts, ports or the like",
				(int)(len < 64 ? len : 64), at);
		at += len ? len : 1;
	}
	if (numbers > NUMBERS)
		return sp_error_set(error, E2BIG, "filter", "%u numbers: a program of this user may use %d", numbers,
				    NUMBERS);
	return 0;
}
