/* SPDX-License-Identifier: BSD-3-Clause */
#include "port.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <rte_cycles.h>
#include <rte_mbuf.h>

#include "../../pipeline/engine.h"
#include "../../pipeline/ports/port.h"
#include "../interrupt.h"
#include "../port_eal.h"
#include "expect.h"
#include "files.h"
#include "show.h"

#define PRECISE	 (200 * SP_US) /* closer than this to the next packet, it spins instead of sleeping */
#define PAUSE	 50000	       /* ns; packets that arrive meanwhile get late time stamps */
#define PATIENCE (2 * SP_SEC)  /* with a driver that takes nothing */
#define MTU	 1500

/* The capture's next packet, and when it is due. */
struct outgoing {
	struct rte_mbuf *packet;
	sp_time due, refused_since;
};

static void record(struct replay *r, sp_time now)
{
	struct rte_mbuf *packet[SP_BURST];
	const unsigned n = sp_port_receive(&r->nic->port[0], 0, packet, now);

	for (unsigned i = 0; i < n; i++) {
		r->real.received++;
		r->real.received_bytes += rte_pktmbuf_pkt_len(packet[i]);
	}
	if (n)
		sp_pcap_ops.transmit(&r->port[0], 0, packet, n, now); /* frees the packets, even on error */
}

static void drop(struct outgoing *o)
{
	rte_pktmbuf_free(o->packet);
	o->packet = NULL;
}

/* Returns whether it made progress. */
static bool send_next(struct replay *r, struct outgoing *o, sp_time now)
{
	struct replay_port *p = &r->real;
	uint32_t bytes;

	if (!o->packet) {
		o->due = sp_pcap_ops.next(&r->port[0], 0, false);
		if (o->due > now || !sp_pcap_ops.receive(&r->port[0], 0, &o->packet, 1, now))
			return false;
		if (o->packet->pkt_len > SP_PORT_FRAME(MTU)) {
			p->oversized++;
			drop(o);
			return true;
		}
		o->refused_since = now;
	}
	bytes = o->packet->pkt_len;
	if (!sp_port_transmit(&r->nic->port[0], 0, &o->packet, 1, now)) {
		if (now - o->refused_since < PATIENCE)
			return false;
		p->refused++;
		drop(o);
		return true;
	}
	o->packet = NULL;
	p->sent++;
	p->sent_bytes += bytes;
	p->span = now;
	p->late += now - o->due > REPLAY_LATE;
	if (now - o->due > p->latest)
		p->latest = now - o->due;
	return true;
}

static void rest(struct replay *r, const struct outgoing *o, sp_time now)
{
	const struct timespec pause = {.tv_nsec = PAUSE};
	const sp_time due = o->packet ? now : sp_pcap_ops.next(&r->port[0], 0, false);

	if (due > now && due - now > PRECISE)
		nanosleep(&pause, NULL);
	else
		rte_pause();
}

static void drive(struct replay *r)
{
	const sp_time start = sp_clock();
	struct outgoing next = {.packet = NULL};
	sp_time now = 0, over = 0;

	for (;;) {
		const bool ended = !next.packet && sp_pcap_ended(r->port[0].in);

		if (!ended)
			over = now;
		else if (now - over >= r->wait)
			break;
		if (interrupt_came()) {
			r->real.interrupted = true;
			break;
		}
		if (!send_next(r, &next, now))
			rest(r, &next, now);
		now = sp_clock() - start;
		record(r, now);
	}
	if (next.packet)
		drop(&next);
}

static int port_open(struct replay *r)
{
	const struct sp_nic_config config = {.name = "replay", .mtu = MTU, .ports = 1, .port[0].device = r->device};
	struct sp_error error = {.key = ""};
	int err = replay_expect_check(r);

	if (err)
		return err;
	err = interrupt_start(NULL, NULL);
	if (err) {
		replay_complain(r, "no thread for signals: %s", strerror(-err));
		return err;
	}
	err = port_eal_init(&r->device, 1, NULL, 0, &error);
	if (!err) {
		err = replay_files_open(r, 1);
		if (err)
			return err;
		err = sp_nic_create(&config, &error, &r->nic);
	}
	if (err)
		replay_complain(r, "--port %s: %s", r->device, *error.text ? error.text : strerror(-err));
	return err;
}

static void judge(struct replay *r)
{
	const struct replay_port *p = &r->real;
	struct sp_error error = {.key = ""};
	uint64_t kernel = 0;

	if (p->oversized)
		replay_complain(r, "%llu packet%s larger than the port's MTU of %d: not sent",
				(unsigned long long)p->oversized, replay_s(p->oversized), MTU);
	if (p->refused)
		replay_complain(r, "--port %s took nothing for %d s: %llu packet%s not sent", r->device,
				(int)(PATIENCE / SP_SEC), (unsigned long long)p->refused, replay_s(p->refused));
	if (sp_port_kernel_drops(&r->nic->port[0], &kernel) && kernel)
		replay_complain(r, "--port %s: %llu packet%s that came were lost before they could be read", r->device,
				(unsigned long long)kernel, replay_s(kernel));
	if (p->interrupted)
		replay_complain(r, "stopped by a signal after %llu packet%s", (unsigned long long)p->sent,
				replay_s(p->sent));
	if (sp_pcap_status(r->port[0].in, &error))
		replay_complain(r, "%s", error.text);
}

void replay_port_run(struct replay *r)
{
	if (port_open(r))
		return;
	drive(r);
	replay_report_make(r);
	replay_report_print(r);
	judge(r);
}
