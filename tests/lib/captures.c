/* SPDX-License-Identifier: BSD-3-Clause */
#include "../lib/captures.h"

const char *captures_directory(void)
{
	static char path[4096];
	const char *given = getenv("SPINDLE_SHARED_PCAPS"), *root = getenv("MESON_SOURCE_ROOT");

	if (given)
		snprintf(path, sizeof(path), "%s", given);
	else
		snprintf(path, sizeof(path), "%s/../shared/pcaps", root ? root : ".");
	return path;
}

const char *captures_missing(void)
{
	static char why[4096];

	snprintf(why, sizeof(why), "no captures in %.3900s (SPINDLE_SHARED_PCAPS)", captures_directory());
	return access(captures_directory(), R_OK | X_OK) ? why : NULL;
}

pcap_t *captures_open(const char *file)
{
	char path[4096 + 256], error[PCAP_ERRBUF_SIZE];

	snprintf(path, sizeof(path), "%s/%s", captures_directory(), file);
	pcap_t *p = pcap_open_offline(path, error);
	if (!p)
		printf("# %s\n", error);
	return p;
}

bool captures_each(const char *file,
		   void (*each)(const char *file, unsigned number, uint8_t *bytes, uint32_t len, void *arg), void *arg)
{
	struct pcap_pkthdr *head;
	const u_char *bytes;
	unsigned number = 0;
	int ret;
	pcap_t *p = captures_open(file);

	if (!p)
		return false;
	while ((ret = pcap_next_ex(p, &head, &bytes)) == 1) {
		number++;
		if (head->caplen != head->len)
			continue;
		uint8_t *exact = malloc(head->caplen ? head->caplen : 1);
		memcpy(exact, bytes, head->caplen);
		each(file, number, exact, head->caplen, arg);
		free(exact);
	}
	pcap_close(p);
	return ret == PCAP_ERROR_BREAK;
}
