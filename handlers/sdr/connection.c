/* SPDX-License-Identifier: BSD-3-Clause */
/* sdr, the connection, clear-to-send to the peer, and control packets that are sent. */
#include "connection.h"

void sdr_flag(struct sp_ctx *c, struct sdr *s, uint64_t flag)
{
	if (__atomic_load_n(&s->flags, __ATOMIC_RELAXED) & flag)
		return;
	__atomic_fetch_or(&s->flags, flag, __ATOMIC_RELAXED);
	sp_dma_or64(c, s->area, SDR_CONNECTION(s, flags), flag);
}

int sdr_connect(struct sp_ctx *c, const struct sp_command *command)
{
	struct sdr *s = c->state;
	const uint32_t qp = (uint32_t)command->arg[2], control = (uint32_t)(command->arg[2] >> 32);
	uint8_t ip[16];
	int rc;

	if (s->connected || s->flags & SP_SDR_CLOSED)
		return -EISCONN;
	if (!sp_roce_qp_valid(qp) || !sp_roce_qp_valid(qp + s->generations * s->channels - 1) ||
	    (!s->implicit && !sp_roce_qp_valid(control)) || command->arg[5] > UINT32_MAX)
		return -EINVAL;
	memcpy(ip, command->arg, sizeof(ip));
	rc = sp_path_open(c, ip, true, &s->path);
	if (rc)
		return rc;
	s->peer_qp = qp;
	s->peer_control = control;
	s->peer_rkey = (uint32_t)command->arg[5];
	s->peer_nonce = command->arg[3];
	s->nonce = command->arg[4];
	if (s->implicit)
		s->may_send = UINT64_MAX;
	sdr_flag(c, s, SP_SDR_CONNECTED);
	__atomic_store_n(&s->open, 1, __ATOMIC_RELEASE);      /* from now on the NIC drops what comes from others */
	__atomic_store_n(&s->connected, 1, __ATOMIC_RELEASE); /* control packets are valid from here on */
	if (s->next_open)
		sdr_cts_start(c);
	sp_issue_start(c, &s->issue);
	return 0;
}

/* ---- clear-to-send ---- */
void sdr_cts_start(struct sp_ctx *c)
{
	struct sdr *s = c->state;

	if (s->implicit || !s->connected)
		return;
	/* By timer, although it is due now: then many receives that are posted together make one packet. */
	s->cts_wait = s->cts_interval;
	sp_timer_arm(c, &s->timer[SDR_TIMER_CTS], c->now);
}

int sdr_send_control(struct sp_ctx *c, struct sdr *s, struct sp_sdr_control *head, enum sp_sdr_control_type type,
		     uint32_t len, uint8_t flags)
{
	const struct sp_send send = {
		.dest_qp = s->peer_control,
		.psn = s->control_psn,
		.opcode = SP_UC_SEND_ONLY,
		.flags = flags,
		.bytes = head,
		.len = len,
	};
	int rc;

	head->version = SP_SDR_CONTROL_VERSION;
	head->type = (uint8_t)type;
	sp_store_be32(head->magic, SP_SDR_CONTROL_MAGIC);
	sp_store_be16(head->length, (uint16_t)len);
	sp_store_be64(head->to, s->peer_nonce);
	sp_store_be64(head->from, s->nonce);
	rc = sp_send_roce(c, s->path, &send);
	if (rc == 0)
		s->control_psn = (s->control_psn + 1) & SP_ROCE_PSN_MASK;
	return rc;
}

int sdr_send_count(struct sp_ctx *c, struct sdr *s, enum sp_sdr_control_type type, uint64_t count)
{
	struct sp_sdr_cts cts;

	sp_store_be64(cts.count, count);
	return sdr_send_control(c, s, &cts.head, type, sizeof(cts), 0);
}

void sdr_cts_timer(struct sp_ctx *c)
{
	struct sdr *s = c->state;

	/* The peer knows what is granted: a packet of the last message has arrived, or the peer has said that it has
	 * ended that. */
	if (!s->connected || __atomic_load_n(&s->highest_seen, __ATOMIC_RELAXED) >= s->next_open ||
	    __atomic_load_n(&s->peer_ended, __ATOMIC_RELAXED) >= s->next_open)
		return;
	if (sdr_send_count(c, s, SP_SDR_CTS, s->next_open) == 0)
		c->counters[SDR_CTS_SENT]++;
	sp_timer_arm(c, &s->timer[SDR_TIMER_CTS], c->now + s->cts_wait);
	if (s->cts_wait < 128 * s->cts_interval)
		s->cts_wait *= 2;
}

/* ---- has the peer restarted? ---- */
void sdr_probe_start(struct sp_ctx *c)
{
	struct sdr *s = c->state;

	if (!s->connected || __atomic_load_n(&s->probe, __ATOMIC_RELAXED) || c->now < s->probes_again ||
	    __atomic_load_n(&s->flags, __ATOMIC_RELAXED) & SP_SDR_PEER_RESTARTED)
		return;
	s->probes = 0;
	__atomic_store_n(&s->probe, sp_random(c) | 1, __ATOMIC_RELEASE);
	sp_timer_arm(c, &s->timer[SDR_TIMER_PROBE], c->now);
}

void sdr_probe_timer(struct sp_ctx *c)
{
	struct sdr *s = c->state;
	const uint64_t probe = __atomic_load_n(&s->probe, __ATOMIC_ACQUIRE);

	if (!s->connected)
		return;
	if (!probe) { /* it is alive. How often it is asked must not be a stranger's choice */
		s->probes_again = c->now + SP_SDR_PROBE_REST * SP_SDR_PROBE_FIRST(s->cts_interval);
		return;
	}
	if (s->probes == SP_SDR_PROBES) {
		c->counters[SDR_PEER_RESTARTS]++;
		sdr_flag(c, s, SP_SDR_PEER_RESTARTED);
		return;
	}
	if (sdr_send_count(c, s, SP_SDR_PROBE, probe) == 0)
		c->counters[SDR_PROBES_SENT]++;
	sp_timer_arm(c, &s->timer[SDR_TIMER_PROBE], c->now + (SP_SDR_PROBE_FIRST(s->cts_interval) << s->probes++));
}
