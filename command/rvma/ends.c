/* SPDX-License-Identifier: BSD-3-Clause */
#include "ends.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "../interrupt.h"
#include "../nic_error.h"

int rvma_command_fail(const struct rvma_asked *a, const char *format, ...)
{
	va_list args;

	fflush(stdout); /* keeps the lines of both streams in order */
	fprintf(stderr, "spindle rvma %s: ", a->verb);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return -1;
}

int rvma_command_nic(const struct rvma_asked *a, const char *what, int rc)
{
	if (rc == -ENODEV || rc == -ECONNABORTED)
		return rvma_command_fail(a, rc == -ENODEV ? "the NIC has gone" : "the NIC has died");
	return rvma_command_fail(a, "%s: %s", what, strerror(-rc));
}

int rvma_command_open(struct rvma_ends *e, const struct rvma_asked *a, const struct rvma_attr *attr, int flags)
{
	struct sp_error error = {.text = ""};
	char text[300];
	int rc;

	*e = (struct rvma_ends){.asked = a, .fd = -1};
	if (a->file && strcmp(a->file, "-")) {
		e->fd = open(a->file, flags | O_CLOEXEC, 0666);
		if (e->fd < 0)
			return rvma_command_fail(a, "%s: %s", a->file, strerror(errno));
	} else if (a->file) {
		e->fd = dup(flags & O_WRONLY ? STDOUT_FILENO : STDIN_FILENO);
		if (e->fd < 0)
			return rvma_command_fail(a, "-: %s", strerror(errno));
	}
	rc = sp_attach(a->nic, &e->dev);
	if (rc) {
		e->dev = NULL;
		command_nic_error(a->nic, rc, text, sizeof(text));
		return rvma_command_fail(a, "%s", text);
	}
	rc = rvma_open(e->dev, attr, &e->rvma, &error);
	if (rc == -ENODEV || rc == -ECONNABORTED)
		return rvma_command_nic(a, "", rc);
	if (rc)
		return rvma_command_fail(a, "%s%s%s", error.key, *error.key ? ": " : "",
					 *error.text ? error.text : strerror(-rc));
	return 0;
}

void rvma_command_close(struct rvma_ends *e)
{
	if (e->rvma)
		rvma_close(e->rvma);
	if (e->dev)
		sp_dev_close(e->dev);
	if (e->fd >= 0)
		close(e->fd);
}

int rvma_command_write(const struct rvma_asked *a, int fd, const void *bytes, uint64_t len)
{
	const char *at = bytes;

	while (len) {
		const ssize_t n = write(fd, at, len);

		if (n < 0 && errno == EINTR && !interrupt_came())
			continue;
		if (n < 0)
			return rvma_command_fail(a, "%s: %s", a->file, strerror(errno));
		at += n;
		len -= (uint64_t)n;
	}
	return 0;
}

const char *rvma_command_ip(const uint8_t ip[16], char text[64])
{
	static const uint8_t mapped[12] = {[10] = 0xFF, 0xFF};
	const bool four = !memcmp(ip, mapped, sizeof(mapped));

	return inet_ntop(four ? AF_INET : AF_INET6, four ? ip + 12 : ip, text, 64);
}
