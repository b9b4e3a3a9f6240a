/* SPDX-License-Identifier: BSD-3-Clause */
/* RVMA for applications: puts and gets. */
#include "rvma_private.h"

/* ---- beginning ---- */
/* Uses the id that the NIC has for the peer now. */
static int rvma_op_post(struct rvma_op *op, struct rvma_peer *peer, struct sp_command *command)
{
	int rc = peer->gone ? rvma_peer_find(peer) : 0;

	if (rc)
		return rc;
	command->arg[0] = (uint32_t)command->arg[0] | (uint64_t)peer->id << 32;
	rc = sp_command_post(op->rvma->dev, command);
	if (rc)
		return rc;
	op->command = *command;
	op->failed = 0;
	return 0;
}

static int rvma_op_begin(struct rvma_peer *peer, struct sp_command *command, const struct sp_mr *mr, uint64_t offset,
			 uint64_t size, struct rvma_op **out)
{
	struct rvma *r = peer->rvma;
	struct rvma_op *op;
	uint32_t number;
	int rc = rvma_check(r);

	if (rc)
		return rc;
	rc = size || mr ? sp_mr_check(r->dev, mr, offset, size) : 0;
	if (rc)
		return rc;
	if (sp_rvma_packets(size, r->mtu) > SP_RVMA_PACKETS_MAX)
		return -EINVAL;
	op = r->op_free;
	if (!op)
		return -EAGAIN;
	number = op->number + 1 ? op->number + 1 : 1;
	command->context = r->id;
	command->cookie = SP_RVMA_OP(op->slot, number);
	command->arg[0] = mr ? mr->id : 0;
	command->arg[1] = mr ? offset : 0;
	command->arg[2] = size;
	rc = rvma_op_post(op, peer, command);
	if (rc)
		return rc;
	r->op_free = op->next;
	op->number = number;
	op->busy = true;
	op->peer = peer;
	peer->ops++;
	*out = op;
	return 0;
}

int rvma_put_at(struct rvma_peer *peer, uint64_t mailbox, uint64_t key, struct sp_mr *mr, uint64_t offset,
		uint64_t size, uint64_t at, struct rvma_op **op)
{
	struct sp_command command = {.op = SP_RVMA_CMD_PUT, .arg = {[3] = mailbox, key, at}};

	if (at == SP_RVMA_APPEND) /* has another meaning on the wire */
		return -EINVAL;
	return rvma_op_begin(peer, &command, mr, offset, size, op);
}

int rvma_put(struct rvma_peer *peer, uint64_t mailbox, uint64_t key, struct sp_mr *mr, uint64_t offset, uint64_t size,
	     struct rvma_op **op)
{
	struct sp_command command = {.op = SP_RVMA_CMD_PUT, .arg = {[3] = mailbox, key, SP_RVMA_APPEND}};

	return rvma_op_begin(peer, &command, mr, offset, size, op);
}

int rvma_put_fenced(struct rvma_peer *peer, uint64_t mailbox, uint64_t key, struct sp_mr *mr, uint64_t offset,
		    uint64_t size, struct rvma_op **op)
{
	struct sp_command command = {
		.op = SP_RVMA_CMD_PUT, .flags = SP_RVMA_CMD_FENCE, .arg = {[3] = mailbox, key, SP_RVMA_APPEND}};

	return rvma_op_begin(peer, &command, mr, offset, size, op);
}

int rvma_get(struct rvma_peer *peer, uint64_t mailbox, uint64_t key, unsigned back, uint64_t at, struct sp_mr *mr,
	     uint64_t offset, uint64_t size, struct rvma_op **op)
{
	struct sp_command command = {.op = SP_RVMA_CMD_GET,
				     .flags = (uint16_t)(back << SP_RVMA_CMD_BACK_SHIFT),
				     .arg = {[3] = mailbox, key, at}};

	if (back > 255)
		return -EINVAL;
	return rvma_op_begin(peer, &command, mr, offset, size, op);
}

/* ---- ending ---- */
static const struct {
	int error;
	const char *reason;
} rvma_ends[] = {
	[SP_RVMA_DELIVERED] = {0, "delivered"},
	[SP_RVMA_NO_MAILBOX] = {-ENOENT, "the receiver has no such mailbox"},
	[SP_RVMA_NO_BUFFER] = {-ENOBUFS, "the mailbox has no buffer posted"},
	[SP_RVMA_BAD_KEY] = {-EACCES, "wrong key, or not readable"},
	[SP_RVMA_CLOSED] = {-ESHUTDOWN, "the mailbox is closed"},
	[SP_RVMA_TOO_LARGE] = {-EMSGSIZE, "larger than what the mailbox takes now"},
	[SP_RVMA_BAD_RANGE] = {-ERANGE, "outside the buffer"},
	[SP_RVMA_WRONG_MODE] = {-EPROTOTYPE, "the mailbox takes no offsets"},
	[SP_RVMA_RATE] = {-EDQUOT, "more than the mailbox takes a second"},
	[SP_RVMA_NOT_COMPLETE] = {-ENODATA, "no such buffer has been completed, or it was released"},
	[SP_RVMA_NOT_READABLE] = {-EACCES, "wrong key, or not readable"},
	[SP_RVMA_NO_ROOM] = {-ENOSPC, "the receiver has no room for it now"},
	[SP_RVMA_REWOUND] = {-ECANCELED, "its buffer was rewound, or the context has ended"},
	[SP_RVMA_GIVEN_UP] = {-ECONNABORTED, "the receiver has given it up, or our NIC has died"},
	[SP_RVMA_PEER_GONE] = {-ECONNRESET, "the peer is gone, or the NIC has ended the context"},
	[SP_RVMA_TIMEOUT] = {-ETIMEDOUT, "the peer says nothing of it"},
	[SP_RVMA_FAULT] = {-EFAULT, "memory is gone, or too small for what came"},
	[SP_RVMA_CANCELLED] = {-ECANCELED, "its buffer was rewound, or the context has ended"},
};
#define RVMA_ENDS (sizeof(rvma_ends) / sizeof(*rvma_ends))

const char *rvma_op_reason(int error)
{
	for (size_t i = 0; i < RVMA_ENDS; i++)
		if (rvma_ends[i].reason && rvma_ends[i].error == error)
			return rvma_ends[i].reason;
	switch (error) {
	case -EAGAIN:
		return "not yet";
	case -EHOSTUNREACH:
		return "no path to the peer";
	case -EINVAL:
		return "an argument is out of its range";
	case -ENODEV:
		return "the NIC has gone";
	}
	return "unknown error";
}

static int rvma_op_state(const struct rvma_op *op)
{
	const struct rvma *r = op->rvma;
	const uint64_t at = r->layout.op + op->slot * sizeof(struct sp_rvma_op_status);
	uint64_t status;

	if (rvma_area_read(r, at + offsetof(struct sp_rvma_op_status, number)) == op->number) {
		status = rvma_area_read(r, at + offsetof(struct sp_rvma_op_status, status));
		return status < RVMA_ENDS && rvma_ends[status].reason ? rvma_ends[status].error : -EIO;
	}
	return op->failed ? op->failed : -EAGAIN;
}

int rvma_op_test(struct rvma_op *op)
{
	struct rvma *r = op->rvma;
	const int error = rvma_check(r);
	int rc = rvma_op_state(op);

	if (rc == -EAGAIN && !error)
		return rc;
	if (rc == -EAGAIN) /* it ends with the context */
		rc = error;
	else if (rc == -ECONNRESET)
		op->peer->gone = true;
	else if (op->failed == -ENOENT) { /* nothing was sent: the NIC had dropped the peer for another one */
		struct sp_command again = op->command;

		rc = rvma_op_post(op, op->peer, &again);
		if (!rc || rc == -EAGAIN)
			return -EAGAIN;
	}
	op->busy = false;
	op->peer->ops--;
	op->next = r->op_free;
	r->op_free = op;
	return rc;
}

static int rvma_op_poll(void *op)
{
	return rvma_op_test(op);
}

int rvma_op_wait(struct rvma_op *op, sp_time timeout)
{
	const int rc = sp_wait_until(op->rvma->dev, rvma_op_poll, op, timeout);

	if (!op->busy)
		return rc;
	return rc == -ETIMEDOUT ? -EAGAIN
				: rvma_op_test(op); /* the wait has failed: the operation's own result tells why */
}
