/* SPDX-License-Identifier: BSD-3-Clause */
/* What the two ends of a file transfer say to each other: names, addresses, lines; and that rubbish hurts
 * nobody. */
#include <fcntl.h>
#include <sys/socket.h>

/* Included, not linked: they are part of the command. */
#include "../../command/transfer/talk.c"
#include "../../command/transfer/words.c"

#include "../lib/suite.h"

static uint64_t random_next(uint64_t *state)
{
	uint64_t x = *state += 0x9E3779B97F4A7C15ull;

	x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
	x = (x ^ x >> 27) * 0x94D049BB133111EBull;
	return x ^ x >> 31;
}

/* ---- the first line ---- */
static const struct talk_hello example = {.session = 0x0123456789ABCDEF,
					  .size = INT64_MAX,
					  .message = TALK_MESSAGE,
					  .chunk = 1,
					  .mtu = 1436,
					  .family = 6,
					  .payload = {1436, 0},
					  .name = "a \"name\"\n of \xFF bytes",
					  .scheme = "ec-mds2"}; /* one that is not known here: it is named */

TEST(a_hello_comes_over_as_it_was_said)
{
	json_t *line = talk_hello_line(&example);
	struct talk_hello heard;
	const char *what;

	CU_ASSERT_EQUAL_FATAL(talk_hello_get(line, &heard, &what), 0);
	CU_ASSERT(heard.session == example.session && heard.size == example.size && heard.message == example.message &&
		  heard.chunk == example.chunk && heard.mtu == example.mtu && heard.family == example.family &&
		  heard.payload[0] == 1436 && heard.payload[1] == 0);
	CU_ASSERT_STRING_EQUAL(heard.name, example.name);
	CU_ASSERT_STRING_EQUAL(heard.scheme, example.scheme);
	json_decref(line);
}

/* key, a value in JSON that is out of its range. */
TEST(every_value_of_a_hello_is_checked)
{
	static const char *const bad[][2] = {
		{"spindle", "\"File\""},
		{"spindle", "1"},
		{"version", "0"},
		{"version", "1"},
		{"version", "3"},
		{"version", "\"2\""},
		{"session", "\"00\""},
		{"session", "\"0123456789abcdef00\""},
		{"session", "\"0123456789abcdeg\""},
		{"session", "\"0123456789ABCDEF\""},
		{"name", "\"\""},
		{"name", "\"6\""},
		{"name", "\"6100\""}, /* a NUL at the end */
		{"name", "\"610061\""},
		{"name", "null"},
		{"size", "-1"},
		{"size", "1.5"},
		{"message", "0"},
		{"message", "1073741825"},
		{"chunk", "0"},
		{"mtu", "-1"},
		{"mtu", "4294967296"},
		{"family", "5"},
		{"family", "7"},
		{"payload4", "-1"},
		{"payload6", "true"},
		{"scheme", "1"},
		{"scheme", "\"\""},
		{"scheme", "\"sr nack\""},
		{"scheme", "\"SR-NACK\""},
		{"scheme", "\"\\u001b[2J\""},
		{"scheme", "\"abcdefghijklmnopqrstuvwxyzabcdef\""}, /* 32 */
	};
	struct talk_hello heard = {.size = 77};
	const char *what;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		json_t *line = talk_hello_line(&example);

		json_object_set_new(line, bad[i][0], json_loads(bad[i][1], JSON_DECODE_ANY, NULL));
		if (talk_hello_get(line, &heard, &what) != -EPROTO)
			printf("# %s: %s\n", bad[i][0], bad[i][1]);
		CU_ASSERT_EQUAL(talk_hello_get(line, &heard, &what), -EPROTO);
		json_object_del(line, bad[i][0]);
		CU_ASSERT_EQUAL(talk_hello_get(line, &heard, &what), -EPROTO);
		json_decref(line);
	}
	CU_ASSERT_EQUAL(heard.size, 77);
}

TEST(a_name_of_256_bytes_is_refused)
{
	char name[2 * 256 + 1];
	struct talk_hello heard;
	const char *what;
	json_t *line = talk_hello_line(&example);

	memset(name, '6', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	json_object_set_new(line, "name", json_string(name));
	CU_ASSERT_EQUAL(talk_hello_get(line, &heard, &what), -EPROTO);
	name[2 * 255] = 0;
	json_object_set_new(line, "name", json_string(name));
	CU_ASSERT_EQUAL(talk_hello_get(line, &heard, &what), 0);
	CU_ASSERT_EQUAL(strlen(heard.name), 255);
	json_decref(line);
}

TEST(names_cannot_lead_out_of_a_directory_or_hide_in_it)
{
	CU_ASSERT(talk_name_fine("a"));
	CU_ASSERT(talk_name_fine("file.tar.gz"));
	CU_ASSERT(talk_name_fine("-"));
	CU_ASSERT(!talk_name_fine(""));
	CU_ASSERT(!talk_name_fine("."));
	CU_ASSERT(!talk_name_fine(".."));
	CU_ASSERT(!talk_name_fine(".profile"));
	CU_ASSERT(!talk_name_fine("/etc/passwd"));
	CU_ASSERT(!talk_name_fine("a/../../b"));
	CU_ASSERT(!talk_name_fine("a/"));
}

TEST(text_of_the_peer_cannot_drive_the_terminal)
{
	char text[] = "a\033[2J\r\n\x7F\xC2\x9B"
		      "b \xC3\xA9 \xC2\xA0";

	talk_clean(text);
	CU_ASSERT_STRING_EQUAL(text, "a?[2J??"
				     "???"
				     "b \xC3\xA9 \xC2\xA0");
}

TEST(host_and_port_are_told_apart)
{
	static const struct {
		const char *text;
		bool listen;
		const char *host, *port; /* NULL: refused */
	} row[] = {
		{"host", false, "host", "4791"},
		{"host:1", false, "host", "1"},
		{"192.0.2.1:65535", false, "192.0.2.1", "65535"},
		{"::1", false, "::1", "4791"},
		{"[::1]", false, "::1", "4791"},
		{"[2001:db8::1]:80", false, "2001:db8::1", "80"},
		{"123", false, "123", "4791"},
		{"123", true, "", "123"},
		{"0", true, "", "0"},
		{":80", true, "", "80"},
		{"::", true, "::", "4791"},
		{"[::]:80", true, "::", "80"},
		{":80", false, NULL, NULL},
		{"", false, NULL, NULL},
		{"host:", false, NULL, NULL},
		{"host:65536", false, NULL, NULL},
		{"host:8x", false, NULL, NULL},
		{"host:-1", false, NULL, NULL},
		{"[::1", false, NULL, NULL},
		{"[::1]80", false, NULL, NULL},
		{"host:99999999999999999999", false, NULL, NULL},
	};
	char host[256], port[16];

	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		const int rc = talk_split(row[i].text, row[i].listen, TALK_PORT, host, port);

		if (!rc != !!row[i].host)
			printf("# \"%s\": %d\n", row[i].text, rc);
		CU_ASSERT_EQUAL_FATAL(rc, row[i].host ? 0 : -EINVAL);
		if (!rc) {
			CU_ASSERT_STRING_EQUAL(host, row[i].host);
			CU_ASSERT_STRING_EQUAL(port, row[i].port);
		}
	}
}

/* ---- lines over a socket ---- */
static struct talk *talker(int *other)
{
	int fd[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd))
		abort();
	fcntl(fd[0], F_SETFL, O_NONBLOCK);
	*other = fd[1];
	return talk_new(fd[0], "peer");
}

static int take(struct talk *t, json_t **line)
{
	talk_pump(t, sp_clock());
	return talk_take(t, line);
}

TEST(lines_are_put_together_from_pieces)
{
	static const char text[] = "{\"a\":1}\n{\"b\":2}\n{\"c\"";
	int other;
	struct talk *t = talker(&other);
	json_t *line = NULL;

	for (const char *c = text; *c; c++) {
		const bool whole = *c == '\n';

		CU_ASSERT_EQUAL(write(other, c, 1), 1);
		CU_ASSERT_EQUAL_FATAL(take(t, &line), whole);
		if (whole) {
			CU_ASSERT_EQUAL(json_object_size(line), 1);
			json_decref(line);
		}
	}
	CU_ASSERT_EQUAL(write(other, text, 16), 16); /* ends the third, which is none; a line behind */
	CU_ASSERT_EQUAL(take(t, &line), -EPROTO);
	CU_ASSERT_EQUAL(take(t, &line), 1);
	json_decref(line);
	close(other);
	CU_ASSERT_EQUAL(take(t, &line), -ECONNRESET);
	talk_free(t);
}

TEST(what_was_said_before_the_end_is_still_heard)
{
	int other;
	struct talk *t = talker(&other);
	json_t *line = NULL;

	CU_ASSERT_EQUAL(write(other, "{\"error\":\"x\"}\n", 14), 14);
	close(other);
	talk_say(t, json_pack("{s:b}", "alive", 1)); /* cannot be delivered */
	CU_ASSERT_EQUAL(take(t, &line), 1);
	json_decref(line);
	CU_ASSERT_EQUAL(take(t, &line), -ECONNRESET);
	talk_free(t);
}

TEST(a_line_without_end_is_refused)
{
	int other;
	struct talk *t = talker(&other);
	char bytes[TALK_LINE];
	json_t *line = NULL;

	memset(bytes, '{', sizeof(bytes));
	CU_ASSERT_EQUAL(write(other, bytes, sizeof(bytes) - 1), sizeof(bytes) - 1);
	CU_ASSERT_EQUAL(take(t, &line), 0);
	CU_ASSERT_EQUAL(write(other, bytes, 1), 1);
	CU_ASSERT_EQUAL(take(t, &line), -EMSGSIZE);
	close(other);
	talk_free(t);
}

TEST(a_peer_that_does_not_read_is_noticed)
{
	int other, rc = 0;
	struct talk *t = talker(&other);

	for (unsigned i = 0; i < 1000 && !rc; i++) {
		json_t *text = json_object();
		char filler[2000];

		memset(filler, 'x', sizeof(filler));
		json_object_set_new(text, "x", json_stringn(filler, sizeof(filler)));
		rc = talk_say(t, text);
		talk_pump(t, sp_clock());
	}
	CU_ASSERT_EQUAL(rc, -ENOBUFS);
	close(other);
	talk_free(t);
}

/* Mutations of a good line: what is taken is within its ranges. Deep nesting, too. */
TEST(rubbish_is_refused_or_harmless)
{
	int other;
	struct talk *t = talker(&other);
	json_t *hello = talk_hello_line(&example);
	char *text = json_dumps(hello, JSON_COMPACT), copy[TALK_LINE];
	const size_t len = strlen(text);
	uint64_t seed = 2, taken = 0;

	json_decref(hello);
	for (unsigned run = 0; run < 20000; run++) {
		const char *what;
		struct talk_hello h;
		json_t *line = NULL;
		int rc;

		memcpy(copy, text, len);
		copy[len] = '\n';
		for (uint64_t i = random_next(&seed) % 4; i; i--)
			copy[random_next(&seed) % len] =
				run & 1 ? (char)random_next(&seed) : "0123456789-.eE\"[]{},:a"[random_next(&seed) % 22];
		CU_ASSERT_EQUAL_FATAL(write(other, copy, len + 1), (ssize_t)len + 1);
		while ((rc = take(t, &line))) {
			if (rc == -EPROTO)
				continue;
			CU_ASSERT_EQUAL_FATAL(rc, 1);
			if (!talk_hello_get(line, &h, &what)) {
				CU_ASSERT_FATAL(h.message >= 1 && h.message <= TALK_MESSAGE && h.size <= INT64_MAX);
				CU_ASSERT_FATAL(h.chunk >= 1 && h.mtu <= UINT32_MAX && strlen(h.name) >= 1);
				CU_ASSERT_FATAL(strlen(h.scheme) >= 1 && strlen(h.scheme) < TALK_SCHEME);
				taken++;
			}
			json_decref(line);
		}
		CU_ASSERT_EQUAL_FATAL(t->in_used, 0);
	}
	CU_ASSERT(taken > 1000 && taken < 19000);
	memset(copy, '[', sizeof(copy));
	copy[sizeof(copy) - 1] = '\n';
	CU_ASSERT_EQUAL(write(other, copy, sizeof(copy)), sizeof(copy));
	CU_ASSERT_EQUAL(take(t, &hello), -EPROTO);
	free(text);
	close(other);
	talk_free(t);
}
