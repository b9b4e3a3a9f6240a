/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RVMA at its smallest: a mailbox with two buffers that take turns, and puts to it.
 *
 *     mailbox listen NIC MAILBOX             says where it is, and tells what comes
 *     mailbox put NIC IP QPN MAILBOX TEXT    IP and QPN: as listen says
 *
 * NIC: the name of one that `spindle run` runs.
 * Build: cc -o mailbox mailbox.c $(pkg-config --cflags --libs libspindle)
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rvma.h"

#define SIZE 4096

static int fail(const char *what, int rc)
{
	fprintf(stderr, "mailbox: %s: %s\n", what, rvma_op_reason(rc));
	return 1;
}

/* Notification i lies behind the buffers, and must be empty when the buffer is posted. */
static struct rvma_notification *notification(struct sp_mr *mr, unsigned i)
{
	return (struct rvma_notification *)((char *)mr->addr + 2 * SIZE) + i;
}

static int post(struct rvma_window *window, struct sp_mr *mr, unsigned i)
{
	const uint64_t note = 2 * SIZE + i * sizeof(struct rvma_notification);
	const struct rvma_buffer b = {
		.mr = mr, .offset = i * SIZE, .size = SIZE, .notify_mr = mr, .notify_offset = note};

	notification(mr, i)->address = NULL;
	return rvma_post_buffer(window, &b);
}

static int listen_at(struct sp_dev *dev, struct rvma *rvma, uint64_t mailbox)
{
	/* One put completes a buffer. The next put goes to the other one, while this one is read. */
	const struct rvma_window_attr attr = {.type = RVMA_EPOCH_OPS, .threshold = 1, .forget = true};
	struct rvma_address address;
	struct rvma_window *window;
	struct sp_mr *mr;
	char ip[INET6_ADDRSTRLEN];
	int rc = sp_mr_alloc(dev, 2 * (SIZE + sizeof(struct rvma_notification)), &mr);

	rc = rc ? rc : rvma_init_window(rvma, mailbox, &attr, &window);
	rc = rc ? rc : post(window, mr, 0);
	rc = rc ? rc : post(window, mr, 1);
	rc = rc ? rc : rvma_address_get(rvma, &address);
	if (!rc)
		printf("listening: %s %u\n", inet_ntop(AF_INET6, address.ip, ip, sizeof(ip)), address.qpn);
	for (unsigned i = 0; !rc && !fflush(stdout); i ^= 1) {
		const struct rvma_notification *n = notification(mr, i);

		rc = rvma_wait(rvma, n, RVMA_WAIT_SLEEP, SP_NEVER);
		if (!rc)
			printf("epoch %llu: %.*s\n", (unsigned long long)n->epoch, (int)n->length, (char *)n->address);
		rc = rc ? rc : post(window, mr, i);
	}
	return rc ? fail("listen", rc) : 0;
}

static int put(struct sp_dev *dev, struct rvma *rvma, char **argv)
{
	struct rvma_address to = {.qpn = (uint32_t)strtoul(argv[1], NULL, 0)};
	const size_t size = strlen(argv[3]);
	struct rvma_peer *peer;
	struct rvma_op *op;
	struct sp_mr *mr;
	int rc = inet_pton(AF_INET6, argv[0], to.ip) == 1 ? sp_mr_alloc(dev, size + 1, &mr) : -EINVAL;

	rc = rc ? rc : rvma_peer_open(rvma, &to, &peer);
	if (rc)
		return fail(argv[0], rc);
	memcpy(mr->addr, argv[3], size);
	rc = rvma_put(peer, strtoull(argv[2], NULL, 0), 0, mr, 0, size, &op);
	rc = rc ? rc : rvma_op_wait(op, SP_NEVER);
	return rc ? fail("put", rc) : 0;
}

int main(int argc, char **argv)
{
	struct rvma *rvma = NULL;
	struct sp_dev *dev;
	int rc;

	if (!(argc == 4 && !strcmp(argv[1], "listen")) && !(argc == 7 && !strcmp(argv[1], "put")))
		return fputs("usage: mailbox listen NIC MAILBOX | put NIC IP QPN MAILBOX TEXT\n", stderr), 2;
	rc = sp_attach(argv[2], &dev);
	if (rc)
		return fail(argv[2], rc);
	rc = rvma_open(dev, NULL, &rvma, NULL);
	rc = rc		 ? fail("rvma_open", rc)
	     : argc == 4 ? listen_at(dev, rvma, strtoull(argv[3], NULL, 0))
			 : put(dev, rvma, argv + 3);
	rvma_close(rvma);
	sp_dev_close(dev);
	return rc;
}
