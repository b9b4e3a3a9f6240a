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
#include "pcapng.h"
#include "records.h"
#include "shortage.h"

#define SNAPLEN 262144 /* what tcpdump writes for "whole packets" */

struct sp_pcap {
	struct sp_records *records;
	int interface; /* of the file, or SP_RECORDS_ALL */
	uint16_t queues;
	/* The next packet of the file. It is handed out before any later one, whatever its queue, so that packets do
	 * not pile up. */
	const uint8_t *bytes; /* NULL: the capture has ended */
	uint32_t len;
	uint16_t queue;
	sp_time at;
	__int128 start;	 /* ns: time 0 */
	bool started;	 /* it is known */
	uint64_t number; /* of the next packet, in the file */
	uint64_t read;	 /* packets read from the file in all passes */
	struct sp_pcap_pace pace;
	__int128 pass;	    /* ps: start of this pass */
	sp_time gap;	    /* between passes; known after the first */
	__int128 period;    /* ps from one pass to the next, of joined captures; 0: by the gap */
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
	pcap_t *pcap; /* NULL: pcapng */
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
	if (sp_records_open_interface(sp_records_file(c->records), c->interface, &again,
				      &error)) { /* it was changed meanwhile */
		capture_end(c, &error);
		return false;
	}
	sp_records_close(c->records);
	c->records = again;
	c->pass = c->period ? c->period * c->counters.passes : (__int128)c->at + c->gap;
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
		if (!c->started)
			c->start = record->ns;
		c->started = true;
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
	return sp_pcap_open_interface(file, SP_RECORDS_ALL, queues, capture, error);
}

int sp_pcap_open_interface(const char *file, int interface, uint16_t queues, struct sp_pcap **capture,
			   struct sp_error *error)
{
	struct sp_pcap *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return fail(error, -ENOMEM, file, strerror(ENOMEM));
	c->queues = queues ? queues : 1;
	c->interface = interface;
	err = sp_records_open_interface(file, interface, &c->records, error);
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

/* ---- several captures ---- */
/* What a capture's packets have together; a damaged one up to the damage, which is found again when it is played. */
static int survey(const struct sp_pcap *c, uint64_t *packets, __int128 *last, struct sp_error *error)
{
	struct sp_error ignored;
	struct sp_records *records;
	struct sp_record record;
	int err = sp_records_open_interface(sp_records_file(c->records), c->interface, &records, error);

	if (err)
		return err;
	while (sp_records_next(records, &record, &ignored) == 1) {
		if (record.len > SP_PACKET_ROOM)
			continue;
		++*packets;
		*last = record.ns > *last ? record.ns : *last;
	}
	sp_records_close(records);
	return 0;
}

/* The time from one pass to the next, ps; 0: there is one pass, or none needs it. */
static int common_period(struct sp_pcap *const capture[], unsigned captures, __int128 start, __int128 *period,
			 struct sp_error *error)
{
	const struct sp_pcap_pace *pace = &capture[0]->pace;
	__int128 last = start, length;
	uint64_t packets = 0;
	int err = 0;

	*period = 0;
	if (pace->passes < 2 || pace->bits || pace->packets)
		return 0;
	for (unsigned i = 0; i < captures && !err; i++)
		err = survey(capture[i], &packets, &last, error);
	length = (last - start) * 1000;
	*period = length + (packets > 1 && length >= packets - 1 ? length / (packets - 1) : SP_US);
	return err;
}

int sp_pcap_join(struct sp_pcap *const capture[], unsigned captures, struct sp_error *error)
{
	const struct sp_pcap *first = NULL;
	__int128 start, period;
	int err;

	for (unsigned i = 0; i < captures; i++)
		if (capture[i]->started && (!first || capture[i]->start < first->start))
			first = capture[i];
	if (!first)
		return 0; /* no packet at all */
	start = first->start;
	err = common_period(capture, captures, start, &period, error);
	for (unsigned i = 0; i < captures && !err; i++) {
		struct sp_pcap *c = capture[i];
		const __int128 late = c->bytes && !c->pace.bits && !c->pace.packets ? c->start - start : 0;

		if (c->at + late * 1000 > (__int128)SP_CAPTURE_SPAN)
			return fail(error, -EINVAL, sp_records_file(c->records),
				    "begins more than 200 days after the other captures");
		c->at += (sp_time)(late * 1000);
		c->start = start;
		c->started = true;
		c->period = period;
	}
	return err;
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

static void write_pcap(struct sp_pcap_writer *w, uint64_t ns, const uint8_t *bytes, uint32_t len)
{
	const struct pcap_pkthdr header = {
		.ts = {.tv_sec = (time_t)(ns / 1000000000u), .tv_usec = (suseconds_t)(ns % 1000000000u)},
		.caplen = len,
		.len = len};

	errno = 0;
	pcap_dump((u_char *)w->dumper, &header, bytes);
	if (ferror(w->stream))
		writer_fail(w, errno);
}

static void write_pcapng(struct sp_pcap_writer *w, uint32_t interface, uint64_t ns, const uint8_t *bytes, uint32_t len)
{
	const struct pcapng_packet packet = {
		.interface = interface, .time = ns, .captured = len, .length = len, .frame = bytes, .outgoing = true};
	const int err = pcapng_packet(w->stream, &packet);

	if (err)
		writer_fail(w, -err);
}

static unsigned capture_transmit(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now)
{
	struct sp_pcap_writer *w = ((struct sp_pcap_port *)port)->out;
	const uint32_t interface = ((struct sp_pcap_port *)port)->interface;

	(void)queue;
	for (unsigned i = 0; i < count; i++) {
		if (w && !w->status) {
			const uint32_t len = rte_pktmbuf_pkt_len(packet[i]);
			const uint64_t ns = w->start + now / SP_NS;
			const uint8_t *bytes =
				len <= sizeof(w->frame) ? rte_pktmbuf_read(packet[i], 0, len, w->frame) : NULL;

			if (!bytes)
				writer_fail(w, EMSGSIZE);
			else if (w->pcap)
				write_pcap(w, ns, bytes, len);
			else
				write_pcapng(w, interface, ns, bytes, len);
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

static void writer_free(struct sp_pcap_writer *w)
{
	if (w->pcap)
		pcap_close(w->pcap);
	free(w->file);
	free(w);
}

static int writer_open(const char *file, uint64_t start, struct sp_pcap_writer **writer, struct sp_error *error)
{
	struct sp_pcap_writer *w = calloc(1, sizeof(*w));
	int err;

	if (!w || !(w->file = strdup(file))) {
		free(w);
		return fail(error, -ENOMEM, file, strerror(ENOMEM));
	}
	w->start = start;
	w->stream = fopen(file, "wb");
	if (!w->stream) {
		err = fail(error, -errno, file, strerror(errno));
		writer_free(w);
		return err;
	}
	*writer = w;
	return 0;
}

int sp_pcap_create(const char *file, uint64_t start, struct sp_pcap_writer **writer, struct sp_error *error)
{
	pcap_t *pcap = pcap_open_dead_with_tstamp_precision(DLT_EN10MB, SNAPLEN, PCAP_TSTAMP_PRECISION_NANO);
	int err;

	if (!pcap)
		return fail(error, -ENOMEM, file, strerror(ENOMEM));
	err = writer_open(file, start, writer, error);
	if (err) {
		pcap_close(pcap);
		return err;
	}
	(*writer)->pcap = pcap;
	(*writer)->dumper = pcap_dump_fopen(
		pcap, (*writer)->stream); /* not pcap_dump_open: for it "-" is stdout, where the JSON goes */
	if (!(*writer)->dumper) {
		err = fail(error, -EIO, file, pcap_geterr(pcap));
		fclose((*writer)->stream);
		writer_free(*writer);
		*writer = NULL;
	}
	return err;
}

int sp_pcap_create_ports(const char *file, uint64_t start, unsigned ports, struct sp_pcap_writer **writer,
			 struct sp_error *error)
{
	char name[16];
	int err = writer_open(file, start, writer, error), failed;

	if (err)
		return err;
	failed = pcapng_begin((*writer)->stream, "spindle replay");
	for (unsigned i = 0; i < ports && !failed; i++) {
		snprintf(name, sizeof(name), "port%u", i);
		failed = pcapng_interface((*writer)->stream, name, SNAPLEN);
	}
	if (failed)
		writer_fail(*writer, -failed); /* sp_pcap_finish() reports it, as all that is written later */
	return 0;
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
	if (writer->dumper)
		pcap_dump_close(writer->dumper); /* returns no error, but nothing is left to write */
	else
		fclose(writer->stream);
	err = writer->status;
	if (err) {
		char text[128];

		snprintf(text, sizeof(text), "%s; the file is incomplete", strerror(-err));
		fail(error, err, writer->file, text);
	}
	writer_free(writer);
	return err;
}
