/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzzes nic.ini: whatever the bytes, they are read or refused with the line named, and a NIC's configuration made of
 * them keeps its bounds. */
#include <errno.h>

#include "../../pipeline/config/config.h"
#include "../../pipeline/limits.h"
#include "standalone.h"

#define REQUIRE(condition)                                                                                             \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			abort();                                                                                       \
	} while (0)

static void error_says_where(int result, const struct sp_error *error)
{
	REQUIRE(result == -EINVAL);
	REQUIRE(memchr(error->text, 0, sizeof(error->text)) && memchr(error->key, 0, sizeof(error->key)));
	REQUIRE(!strncmp(error->text, "fuzz.ini:", 9) && error->text[9] >= '1' && error->text[9] <= '9');
}

static void lines_rise(const struct sp_config *config)
{
	unsigned line = 0;

	for (size_t i = 0; i < config->sections; i++) {
		const struct sp_config_section *section = &config->section[i];
		REQUIRE(section->line > line);
		line = section->line;
		for (size_t k = 0; k < section->keys; k++) {
			REQUIRE(section->key[k].line > line && *section->key[k].name && section->key[k].value);
			line = section->key[k].line;
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sp_error error = {.key = ""};
	struct sp_config *config = NULL;
	struct sp_nic_config nic = {0};

	int result = sp_config_parse("fuzz.ini", (const char *)data, size, &config, &error);
	if (result) {
		REQUIRE(!config);
		error_says_where(result, &error);
		return 0;
	}
	lines_rise(config);
	result = sp_config_nic(config, &nic, &error);
	if (result)
		error_says_where(result, &error);
	REQUIRE(nic.addresses <= SP_MAX_ADDRESSES && nic.ports <= SP_MAX_PORTS && nic.neighbours <= SP_MAX_STATIC);
	REQUIRE(!nic.mtu || (nic.mtu >= 576 && nic.mtu <= 9500));
	REQUIRE(nic.workers <= SP_MAX_WORKERS && memchr(nic.name, 0, sizeof(nic.name)));
	for (unsigned i = 0; i < nic.addresses; i++)
		REQUIRE(nic.address[i].prefix >= 1 && nic.address[i].prefix <= 128 &&
			nic.address[i].port < SP_MAX_PORTS);
	struct sp_server_config server;
	struct sp_run_config run;
	result = sp_config_run(config, &run, &error);
	if (result)
		error_says_where(result, &error);
	REQUIRE(run.directories <= SP_RUN_DIRECTORIES && run.user >= -1 && run.group >= -1);
	result = sp_config_server(config, &server, &error);
	if (result)
		error_says_where(result, &error);
	REQUIRE(server.users <= SP_MAX_USERS && server.group >= -1 && server.mode <= 0777);
	REQUIRE(!server.path || (*server.path == '/' && strlen(server.path) < 108));
	sp_config_free(config);
	return 0;
}

#ifdef FUZZ_STANDALONE
int main(int argc, char **argv)
{
	static const char *const text[] = {
		"[nic]\nip = 10.0.0.1/24, 2001:db8::1\nmac = 02:00:00:00:00:01\nmtu = 9000 ; jumbo\nworkers = 2\n"
		"gateway = 10.0.0.254\nicrc = no\nidle = spin\nmemory-limit = 1G\nname = left\nseed = 0x2A\n",
		"# comment\n[nic]\nport = net_pcap0\nexception = net_tap0\nneighbour = 10.0.0.9 02:00:00:00:00:09\n\n"
		"[context data]\nhandler = sdr\nqp = 0x20\nrkey = 7\nsplit = 10+18+4\n",
		"\xEF\xBB\xBF[context a]\r\n  filter = udp port 53\r\n[context b]\r\nhandler: count\r\n",
		"[nic]\nmtu = 99999999999999999999\n",
		"[nic]\nsocket = /run/spindle/a\nsocket-mode = 0660\nsocket-group = 7\napplications = 3\n[limits one]\n"
		"user = 1000\nmemory = 64M\ncontexts = 4\nqps = 128\nmessages = 1K\n[limits rest]\nuser = everyone\n"
		"refuse = yes\n",
		"[nic]\nuser = 1000\ngroup = 1000\nsandbox = no\nlive-handlers = no\nplugin-directory = /usr/lib/a\n"
		"plugin-directory = /b\n",
	};
	const uint8_t *seed[sizeof(text) / sizeof(*text)];
	size_t len[sizeof(text) / sizeof(*text)];

	for (size_t i = 0; i < sizeof(text) / sizeof(*text); i++) {
		seed[i] = (const uint8_t *)text[i];
		len[i] = strlen(text[i]);
	}
	return fuzz_standalone(argc, argv, seed, len, sizeof(text) / sizeof(*text));
}
#endif
