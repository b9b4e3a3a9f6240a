/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <pcap/pcap.h>
#include <rte_mbuf.h>

#include "../pipeline/limits.h"
#include "capture.h"
#include "flow.h"
#include "shortage.h"

#define SNAPLEN 262144 /* what tcpdump writes for "whole packets" */

struct sp_capture {
	char *file;
	pcap_t *pcap;
	uint16_t queues;
	/* The next packet: whichever queue it is for, nothing behind it is handed out before, so nothing piles up. */
	const uint8_t *bytes; /* NULL: the capture has ended */
	uint32_t len;
	uint16_t queue;
	sp_time at;
	__int128 start; /* ns */
	uint64_t read;	/* packets read from the file */
	int status;
	struct sp_error error;
	struct sp_capture_counters counters;
	struct sp_shortage shortage;
};

struct sp_capture_writer {
	char *file;
	FILE *stream;
	pcap_t *pcap;
	pcap_dumper_t *dumper;
	uint64_t start;
	int status; /* the first failure */
	uint8_t frame[SP_PACKET_ROOM * 2];
};

static int fail(struct sp_error *error, int err, const char *file, const char *what)
{
	if (error) {
		error->key[0] = '\0';
		snprintf(error->text, sizeof(error->text), "%.110s: %.140s", file, what);
	}
	return err;
}

static void capture_end(struct sp_capture *c, const char *what)
{
	char text[200];

	c->bytes = NULL;
	if (!what || c->status)
		return;
	snprintf(text, sizeof(text), "%s (after packet %llu)", what, (unsigned long long)c->read);
	c->status = fail(&c->error, -EINVAL, c->file, text);
}

/* libpcap's words, as they differ between its two formats, for what is one thing: the file stops inside a packet. */
static const char *read_error(const char *text)
{
	return strstr(text, "truncated") || strstr(text, "only got") ? "cut off in the middle of a packet" : text;
}

/* Fetches the next packet. Those that no buffer holds are passed over here, so that they do not stop the rest. */
static void capture_advance(struct sp_capture *c)
{
	struct pcap_pkthdr *header;
	const uint8_t *bytes;
	__int128 ns, ps;
	int result;

	for (;;) {
		result = pcap_next_ex(c->pcap, &header, &bytes);
		if (result != 1) {
			capture_end(c, result == PCAP_ERROR_BREAK ? NULL : read_error(pcap_geterr(c->pcap)));
			return;
		}
		ns = (__int128)header->ts.tv_sec * 1000000000 + header->ts.tv_usec; /* nanoseconds, as asked for */
		if (!c->read)
			c->start = ns;
		ps = (ns - c->start) * 1000;
		if (ps > (__int128)SP_CAPTURE_SPAN) {
			capture_end(c, "a time stamp more than 200 days after the first packet's");
			return;
		}
		c->read++;
		if (header->caplen <= SP_PACKET_ROOM)
			break;
		c->counters.oversized++;
	}
	c->bytes = bytes;
	c->len = header->caplen;
	c->counters.snapped += header->caplen < header->len;
	if (ps < (__int128)c->at)
		c->counters.backwards++;
	else
		c->at = (sp_time)ps;
	c->queue = sp_flow_queue(bytes, c->len, c->queues);
}

static pcap_t *open_stream(const char *file, struct sp_error *error, int *err)
{
	char text[PCAP_ERRBUF_SIZE] = "";
	FILE *stream = fopen(file, "rb");
	struct stat st;
	pcap_t *pcap;

	if (!stream || fstat(fileno(stream), &st)) {
		*err = fail(error, -errno, file, strerror(errno));
	} else if (S_ISDIR(st.st_mode)) {
		*err = fail(error, -EISDIR, file, strerror(EISDIR));
	} else if (S_ISREG(st.st_mode) && !st.st_size) {
		*err = fail(error, -EINVAL, file, "empty file");
	} else {
		pcap = pcap_fopen_offline_with_tstamp_precision(stream, PCAP_TSTAMP_PRECISION_NANO, text);
		if (pcap)
			return pcap;
		if (strstr(text, "unknown file format"))
			*err = fail(error, -EINVAL, file, "not a capture (neither pcap nor pcapng)");
		else if (strstr(text, "truncated") || strstr(text, "only got"))
			*err = fail(error, -EINVAL, file, "not a capture, or cut off inside the file header");
		else
			*err = fail(error, -EINVAL, file, text);
	}
	if (stream)
		fclose(stream);
	return NULL;
}

int sp_capture_open(const char *file, uint16_t queues, struct sp_capture **capture, struct sp_error *error)
{
	struct sp_capture *c = calloc(1, sizeof(*c));
	char text[128];
	int err = -ENOMEM, type;

	if (!c)
		return fail(error, err, file, strerror(ENOMEM));
	c->file = strdup(file);
	c->queues = queues ? queues : 1;
	if (!c->file) {
		fail(error, err, file, strerror(ENOMEM));
		goto unwind;
	}
	c->pcap = open_stream(file, error, &err);
	if (!c->pcap)
		goto unwind;
	type = pcap_datalink(c->pcap);
	if (type != DLT_EN10MB) {
		const char *name = pcap_datalink_val_to_name(type);

		snprintf(text, sizeof(text), "link type %s (%d), only Ethernet can be replayed",
			 name ? name : "unknown", type);
		err = fail(error, -EINVAL, file, text);
		goto unwind;
	}
	capture_advance(c);
	*capture = c;
	return 0;
unwind:
	sp_capture_close(c);
	return err;
}

void sp_capture_close(struct sp_capture *capture)
{
	if (!capture)
		return;
	if (capture->pcap)
		pcap_close(capture->pcap); /* closes the stream too */
	free(capture->file);
	free(capture);
}

void sp_capture_count(const struct sp_capture *capture, struct sp_capture_counters *counters)
{
	*counters = capture->counters;
}

bool sp_capture_ended(const struct sp_capture *capture)
{
	return !capture->bytes;
}

uint64_t sp_capture_start(const struct sp_capture *capture)
{
	return capture->start > 0 && capture->start <= INT64_MAX ? (uint64_t)capture->start : 0;
}

int sp_capture_status(const struct sp_capture *capture, struct sp_error *error)
{
	char text[128];

	if (capture->status) {
		if (error)
			*error = capture->error;
		return capture->status;
	}
	if (!capture->counters.oversized)
		return 0;
	snprintf(text, sizeof(text), "%llu packets larger than %d bytes were left out",
		 (unsigned long long)capture->counters.oversized, SP_PACKET_ROOM);
	return fail(error, -EINVAL, capture->file, text);
}

static unsigned capture_receive(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	struct sp_capture *c = ((struct sp_capture_port *)port)->in;
	unsigned n = 0;

	while (c && n < max && c->bytes && c->queue == queue && c->at <= now) {
		struct rte_mbuf *m = sp_packet_alloc();
		char *to;

		if (!m) {
			sp_shortage_begin(&c->shortage, now);
			break; /* the packet stays; buffers come back as the NIC goes on */
		}
		sp_shortage_end(&c->shortage);
		to = rte_pktmbuf_append(m, (uint16_t)c->len);
		if (to) {
			memcpy(to, c->bytes, c->len);
			packet[n++] = m;
			c->counters.packets++;
			c->counters.bytes += c->len;
		} else {
			rte_pktmbuf_free(m);
			c->counters.oversized++;
		}
		capture_advance(c);
	}
	return n;
}

static void writer_fail(struct sp_capture_writer *w, int err)
{
	if (!w->status)
		w->status = err ? -err : -EIO;
}

static unsigned capture_transmit(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now)
{
	struct sp_capture_writer *w = ((struct sp_capture_port *)port)->out;

	(void)queue;
	for (unsigned i = 0; i < count; i++) {
		if (w && !w->status) {
			const uint32_t len = rte_pktmbuf_pkt_len(packet[i]);
			const uint64_t ns = w->start + now / SP_NS;
			const struct pcap_pkthdr header = {
				.ts = {.tv_sec = (time_t)(ns / 1000000000u),
				       .tv_usec = (suseconds_t)(ns % 1000000000u)},
				.caplen = len,
				.len = len,
			};
			const uint8_t *bytes =
				len <= sizeof(w->frame) ? rte_pktmbuf_read(packet[i], 0, len, w->frame) : NULL;

			errno = 0;
			if (bytes)
				pcap_dump((u_char *)w->dumper, &header, bytes);
			if (!bytes || ferror(w->stream))
				writer_fail(w, bytes ? errno : EMSGSIZE);
		}
		rte_pktmbuf_free(packet[i]);
	}
	return count; /* a port never refuses for want of disk: the failure is told at the end */
}

static sp_time capture_next(void *port, uint16_t queue, bool transmit_blocked)
{
	const struct sp_capture *c = ((struct sp_capture_port *)port)->in;

	(void)transmit_blocked;
	if (!c || !c->bytes || c->queue != queue)
		return SP_NEVER;
	return c->shortage.on ? sp_shortage_next(&c->shortage) : c->at;
}

const struct sp_port_ops sp_capture_ops = {
	.receive = capture_receive, .transmit = capture_transmit, .next = capture_next};

int sp_capture_create(const char *file, uint64_t start, struct sp_capture_writer **writer, struct sp_error *error)
{
	struct sp_capture_writer *w = calloc(1, sizeof(*w));
	int err = -ENOMEM;

	if (!w)
		return fail(error, err, file, strerror(ENOMEM));
	w->start = start;
	w->file = strdup(file);
	w->pcap = pcap_open_dead_with_tstamp_precision(DLT_EN10MB, SNAPLEN, PCAP_TSTAMP_PRECISION_NANO);
	if (!w->file || !w->pcap) {
		fail(error, err, file, strerror(ENOMEM));
		goto unwind;
	}
	w->stream = fopen(file, "wb");
	if (!w->stream) {
		err = fail(error, -errno, file, strerror(errno));
		goto unwind;
	}
	w->dumper = pcap_dump_fopen(
		w->pcap, w->stream); /* not pcap_dump_open: it would take "-" for stdout, where the JSON goes */
	if (!w->dumper) {
		err = fail(error, -EIO, file, pcap_geterr(w->pcap));
		fclose(w->stream);
		goto unwind;
	}
	*writer = w;
	return 0;
unwind:
	if (w->pcap)
		pcap_close(w->pcap);
	free(w->file);
	free(w);
	return err;
}

int sp_capture_finish(struct sp_capture_writer *writer, struct sp_error *error)
{
	int err;

	if (!writer)
		return 0;
	errno = 0;
	if (fflush(writer->stream) || ferror(writer->stream))
		writer_fail(writer, errno);
	pcap_dump_close(writer->dumper); /* tells no error, but nothing is left to write */
	pcap_close(writer->pcap);
	err = writer->status;
	if (err) {
		char text[128];

		snprintf(text, sizeof(text), "%s; the file is incomplete", strerror(-err));
		fail(error, err, writer->file, text);
	}
	free(writer->file);
	free(writer);
	return err;
}
