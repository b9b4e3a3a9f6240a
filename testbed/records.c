/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <pcap/pcap.h>

#include "interfaces.h"
#include "records.h"

#define MICROSECONDS 0xA1B2C3D4u /* the first four bytes of such a pcap file, in either byte order */

struct sp_records {
	char *file;
	pcap_t *pcap;
	uint64_t count;
	bool coarse;
	int only;			  /* interface whose packets are wanted, or SP_RECORDS_ALL */
	struct sp_interfaces *interfaces; /* NULL: all packets came by interface 0 */
};

static int fail(struct sp_error *error, int err, const char *file, const char *what)
{
	if (error) {
		error->key[0] = '\0';
		snprintf(error->text, sizeof(error->text), "%.110s: %.140s", file, what);
	}
	return err;
}

/* Looked at before libpcap reads the file; not possible for a pipe. */
static bool is_coarse(FILE *stream)
{
	uint32_t magic = 0;

	if (fseek(stream, 0, SEEK_SET))
		return false;
	if (fread(&magic, sizeof(magic), 1, stream) != 1)
		magic = 0;
	rewind(stream);
	return magic == MICROSECONDS || magic == __builtin_bswap32(MICROSECONDS);
}

static int open_stream(struct sp_records *r, const char *file, struct sp_error *error)
{
	char text[PCAP_ERRBUF_SIZE] = "";
	FILE *stream = fopen(file, "rb");
	struct stat st;
	int err;

	if (!stream || fstat(fileno(stream), &st)) {
		err = fail(error, -errno, file, strerror(errno));
	} else if (S_ISDIR(st.st_mode)) {
		err = fail(error, -EISDIR, file, strerror(EISDIR));
	} else if (S_ISREG(st.st_mode) && !st.st_size) {
		err = fail(error, -EINVAL, file, "empty file");
	} else {
		r->coarse = S_ISREG(st.st_mode) && is_coarse(stream);
		r->pcap = pcap_fopen_offline_with_tstamp_precision(stream, PCAP_TSTAMP_PRECISION_NANO, text);
		if (r->pcap)
			return 0;
		if (strstr(text, "unknown file format"))
			err = fail(error, -EINVAL, file, "not a capture (neither pcap nor pcapng)");
		else if (strstr(text, "truncated") || strstr(text, "only got"))
			err = fail(error, -EINVAL, file, "not a capture, or cut off inside the file header");
		else
			err = fail(error, -EINVAL, file, text);
	}
	if (stream)
		fclose(stream);
	return err;
}

int sp_records_open(const char *file, struct sp_records **records, struct sp_error *error)
{
	return sp_records_open_interface(file, SP_RECORDS_ALL, records, error);
}

int sp_records_open_interface(const char *file, int interface, struct sp_records **records, struct sp_error *error)
{
	struct sp_records *r = calloc(1, sizeof(*r));
	char text[128];
	int err, type;

	if (!r || !(r->file = strdup(file))) {
		free(r);
		return fail(error, -ENOMEM, file, strerror(ENOMEM));
	}
	err = open_stream(r, file, error);
	if (err)
		goto unwind;
	type = pcap_datalink(r->pcap);
	if (type != DLT_EN10MB) {
		const char *name = pcap_datalink_val_to_name(type);

		snprintf(text, sizeof(text), "link type %s (%d), only Ethernet is supported", name ? name : "unknown",
			 type);
		err = fail(error, -EINVAL, file, text);
		goto unwind;
	}
	r->only = interface;
	err = interface < 0 ? 0 : sp_interfaces_open(file, &r->interfaces);
	if (err) {
		err = fail(error, err, file,
			   err == -EINVAL ? "no regular file: the interfaces are read beside the packets"
					  : strerror(-err));
		goto unwind;
	}
	*records = r;
	return 0;
unwind:
	sp_records_close(r);
	return err;
}

/* libpcap has different texts in its two formats for a file that ends inside a packet: make them one. */
static const char *read_error(const char *text)
{
	return strstr(text, "truncated") || strstr(text, "only got") ? "cut off in the middle of a packet" : text;
}

static bool is_wanted(struct sp_records *r)
{
	return r->only < 0 || (r->interfaces ? sp_interfaces_next(r->interfaces) : 0) == r->only;
}

int sp_records_next(struct sp_records *records, struct sp_record *record, struct sp_error *error)
{
	struct pcap_pkthdr *header;
	char text[200];
	int result;

	do {
		result = pcap_next_ex(records->pcap, &header, &record->bytes);
		records->count += result == 1;
	} while (result == 1 && !is_wanted(records));
	if (result == PCAP_ERROR_BREAK)
		return 0;
	if (result != 1) {
		snprintf(text, sizeof(text), "%s (after packet %llu)", read_error(pcap_geterr(records->pcap)),
			 (unsigned long long)records->count);
		return fail(error, -EINVAL, records->file, text);
	}
	record->len = header->caplen;
	record->wire = header->len;
	record->ns = (__int128)header->ts.tv_sec * 1000000000 + header->ts.tv_usec; /* nanoseconds, as requested */
	return 1;
}

uint64_t sp_records_count(const struct sp_records *records)
{
	return records->count;
}

const char *sp_records_file(const struct sp_records *records)
{
	return records->file;
}

bool sp_records_coarse(const struct sp_records *records)
{
	return records->coarse;
}

void sp_records_close(struct sp_records *records)
{
	if (!records)
		return;
	if (records->pcap)
		pcap_close(records->pcap); /* closes the stream too */
	sp_interfaces_close(records->interfaces);
	free(records->file);
	free(records);
}
