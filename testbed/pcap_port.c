/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <pcap/pcap.h>
#include <rte_mbuf.h>

#include "../pipeline/limits.h"
#include "pcap_port.h"
#include "flow.h"
#include "link.h"
#include "packet_number.h"
#include "records.h"
#include "shortage.h"

#define SNAPLEN 262144 /* what tcpdump writes for "whole packets" */

struct sp_pcap {
	struct sp_records *records;
	uint16_t queues;
	/* The next packet of the file. It is handed out before any later one, whatever its queue, so that packets do
	 * not pile up. */
	const uint8_t *bytes; /* NULL: the capture has ended */
	uint32_t len;
	uint16_t queue;
	sp_time at;
	__int128 start;	 /* ns */
	uint64_t number; /* of the next packet, in the file */
	uint64_t read;	 /* packets read from the file in all passes */
	struct sp_pcap_pace pace;
	__int128 pass;	    /* ps: start of this pass */
	sp_time gap;	    /* between passes; known after the first */
	uint64_t first;	    /* packets read in the first */
	uint64_t remainder; /* remainder of the last step at a given rate */
	int status;
	struct sp_error error;
	struct sp_pcap_counters counters;
	struct sp_shortage shortage;
};

struct sp_pcap_writer {
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

static void capture_end(struct sp_pcap *c, const struct sp_error *error)
{
	c->bytes = NULL;
	if (!error || c->status)
		return;
	c->status = -EINVAL;
	c->error = *error;
}

/* Opens the file again after a pass. False: there is no further pass. */
static bool capture_again(struct sp_pcap *c)
{
	struct sp_error error = {.key = ""};
	struct sp_records *again;

	if (c->counters.passes == 1) {
		c->first = c->read;
		c->gap = c->read > 1 ? c->at / (c->read - 1) : 0;
		if (!c->gap)
			c->gap = SP_US;
	}
	if (c->counters.passes >= c->pace.passes || !c->first)
		return false;
	if (sp_records_open(sp_records_file(c->records), &again, &error)) { /* it was changed meanwhile */
		capture_end(c, &error);
		return false;
	}
	sp_records_close(c->records);
	c->records = again;
	c->pass = (__int128)c->at + c->gap;
	c->counters.passes++;
	return true;
}

/* When the next packet is due, in picoseconds; c->len is still the length of the one before. */
static __int128 capture_due(struct sp_pcap *c, __int128 ns)
{
	const uint64_t rate = c->pace.bits ? c->pace.bits : c->pace.packets;
	const uint64_t bytes = (c->len < SP_LINK_MIN_FRAME ? SP_LINK_MIN_FRAME : c->len) + SP_LINK_OVERHEAD;
	uint64_t numerator;

	if (!rate)
		return c->pass + (ns - c->start) * 1000;
	if (!c->read)
		return 0;
	numerator = (c->pace.bits ? 8 * bytes : 1) * SP_SEC + c->remainder;
	c->remainder = numerator % rate;
	return (__int128)c->at + numerator / rate;
}

/* The next record that fits into a buffer. Larger ones are skipped, so that they do not stop the rest. */
static bool record_next(struct sp_pcap *c, struct sp_record *record)
{
	struct sp_error error = {.key = ""};
	int result;

	for (;;) {
		result = sp_records_next(c->records, record, &error);
		if (!result && capture_again(c))
			continue;
		if (result != 1) {
			capture_end(c, result ? &error : NULL);
			return false;
		}
		if (c->counters.passes == 1 && sp_records_count(c->records) == 1)
			c->start = record->ns;
		if (record->len <= SP_PACKET_ROOM)
			return true;
		c->counters.oversized++;
	}
}

/* Fetches the next packet. */
static void capture_advance(struct sp_pcap *c)
{
	struct sp_error error = {.key = ""};
	struct sp_record record;
	char text[192];
	__int128 due;

	if (!record_next(c, &record))
		return;
	due = capture_due(c, record.ns);
	if (due > (__int128)SP_CAPTURE_SPAN) {
		snprintf(text, sizeof(text),
			 "packet %llu is due more than 200 days after the first one; it and the rest are left out%s",
			 (unsigned long long)sp_records_count(c->records),
			 c->pace.bits || c->pace.packets ? "" : " (see --rate)");
		fail(&error, -EINVAL, sp_records_file(c->records), text);
		capture_end(c, &error);
		return;
	}
	c->read++;
	c->number = sp_records_count(c->records);
	c->bytes = record.bytes;
	c->len = record.len;
	c->counters.snapped += record.len < record.wire;
	if (due < (__int128)c->at)
		c->counters.backwards++;
	else
		c->at = (sp_time)due;
	c->queue = sp_flow_queue(c->bytes, c->len, c->queues);
}

int sp_pcap_open(const char *file, uint16_t queues, struct sp_pcap **capture, struct sp_error *error)
{
	struct sp_pcap *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return fail(error, -ENOMEM, file, strerror(ENOMEM));
	c->queues = queues ? queues : 1;
	err = sp_records_open(file, &c->records, error);
	if (err) {
		free(c);
		return err;
	}
	c->counters.passes = 1;
	c->pace.passes = 1;
	capture_advance(c);
	*capture = c;
	return 0;
}

int sp_pcap_pace(struct sp_pcap *capture, const struct sp_pcap_pace *pace, struct sp_error *error)
{
	const char *file = sp_records_file(capture->records);
	struct stat st;

	if (pace->bits > SP_CAPTURE_MAX_RATE || pace->packets > SP_CAPTURE_MAX_RATE || (pace->bits && pace->packets))
		return fail(error, -EINVAL, file, "cannot be handed out at that rate");
	if (pace->passes > 1 && (stat(file, &st) || !S_ISREG(st.st_mode)))
		return fail(error, -EINVAL, file, "not a regular file: it can be read only once");
	capture->pace = *pace;
	return 0;
}

void sp_pcap_close(struct sp_pcap *capture)
{
	if (!capture)
		return;
	sp_records_close(capture->records);
	free(capture);
}

void sp_pcap_count(const struct sp_pcap *capture, struct sp_pcap_counters *counters)
{
	*counters = capture->counters;
}

bool sp_pcap_ended(const struct sp_pcap *capture)
{
	return !capture->bytes;
}

uint64_t sp_pcap_start(const struct sp_pcap *capture)
{
	return capture->start > 0 && capture->start <= INT64_MAX ? (uint64_t)capture->start : 0;
}

int sp_pcap_status(const struct sp_pcap *capture, struct sp_error *error)
{
	char text[128];

	if (capture->status) {
		if (error)
			*error = capture->error;
		return capture->status;
	}
	if (!capture->counters.oversized)
		return 0;
	snprintf(text, sizeof(text), "%llu packets larger than %d bytes were skipped",
		 (unsigned long long)capture->counters.oversized, SP_PACKET_ROOM);
	return fail(error, -EINVAL, sp_records_file(capture->records), text);
}

static unsigned capture_receive(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	struct sp_pcap *c = ((struct sp_pcap_port *)port)->in;
	unsigned n = 0;

	while (c && n < max && c->bytes && c->queue == queue && c->at <= now) {
		struct rte_mbuf *m = sp_packet_alloc();
		char *to;

		if (!m) {
			sp_shortage_begin(&c->shortage, now);
			break; /* the packet stays until the NIC returns buffers */
		}
		sp_shortage_end(&c->shortage);
		to = rte_pktmbuf_append(m, (uint16_t)c->len);
		if (to) {
			memcpy(to, c->bytes, c->len);
			sp_packet_number_set(m, c->number);
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

static void writer_fail(struct sp_pcap_writer *w, int err)
{
	if (!w->status)
		w->status = err ? -err : -EIO;
}

static unsigned capture_transmit(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now)
{
	struct sp_pcap_writer *w = ((struct sp_pcap_port *)port)->out;

	(void)queue;
	for (unsigned i = 0; i < count; i++) {
		if (w && !w->status) {
			const uint32_t len = rte_pktmbuf_pkt_len(packet[i]);
			const uint64_t ns = w->start + now / SP_NS;
			const struct pcap_pkthdr header = {.ts = {.tv_sec = (time_t)(ns / 1000000000u),
								  .tv_usec = (suseconds_t)(ns % 1000000000u)},
							   .caplen = len,
							   .len = len};
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
	return count; /* a port never refuses packets because the disk is full: the error is reported at the end */
}

static sp_time capture_next(void *port, uint16_t queue, bool transmit_blocked)
{
	const struct sp_pcap *c = ((struct sp_pcap_port *)port)->in;

	(void)transmit_blocked;
	if (!c || !c->bytes || c->queue != queue)
		return SP_NEVER;
	return c->shortage.on ? sp_shortage_next(&c->shortage) : c->at;
}

const struct sp_port_ops sp_pcap_ops = {.receive = capture_receive, .transmit = capture_transmit, .next = capture_next};

int sp_pcap_create(const char *file, uint64_t start, struct sp_pcap_writer **writer, struct sp_error *error)
{
	struct sp_pcap_writer *w = calloc(1, sizeof(*w));
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
	w->dumper =
		pcap_dump_fopen(w->pcap, w->stream); /* not pcap_dump_open: for it "-" is stdout, where the JSON goes */
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

void sp_pcap_flush(struct sp_pcap_writer *writer)
{
	fflush(writer->stream);
}

int sp_pcap_finish(struct sp_pcap_writer *writer, struct sp_error *error)
{
	int err;

	if (!writer)
		return 0;
	errno = 0;
	if (fflush(writer->stream) || ferror(writer->stream))
		writer_fail(writer, errno);
	pcap_dump_close(writer->dumper); /* returns no error, but nothing is left to write */
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
