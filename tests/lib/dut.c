/* SPDX-License-Identifier: BSD-3-Clause */
#include "dut.h"

#include <zlib.h>

void dut_need(void **array, unsigned *room, unsigned count, size_t size)
{
	if (count < *room)
		return;
	*room = *room ? *room * 2 : 64;
	*array = realloc(*array, *room * size);
	if (!*array)
		abort();
}

unsigned dut_receive(void *arg, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	struct dut_port *p = arg;
	unsigned n = 0;

	while (n < max && p->rx[queue].head < p->rx[queue].tail && p->rx[queue].arrival[p->rx[queue].head].at <= now)
		packet[n++] = p->rx[queue].arrival[p->rx[queue].head++].packet;
	p->received += n;
	return n;
}

unsigned dut_transmit(void *arg, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now)
{
	struct dut_port *p = arg;
	unsigned n;

	for (n = 0; n < count && !p->closed && now >= p->busy; n++) {
		if (p->gap)
			p->busy = now + p->gap;
		if (!p->forget) {
			struct dut_sent *s;

			dut_need((void **)&p->sent, &p->sent_room, p->sents, sizeof(*s));
			s = &p->sent[p->sents++];
			s->at = now;
			s->queue = queue;
			s->len = packet[n]->pkt_len;
			memcpy(s->bytes, rte_pktmbuf_mtod(packet[n], void *), s->len < 2048 ? s->len : 2048);
		}
		rte_pktmbuf_free(packet[n]);
	}
	return n;
}

sp_time dut_next(void *arg, uint16_t queue, bool blocked)
{
	struct dut_port *p = arg;
	sp_time next = blocked && !p->closed ? p->busy : SP_NEVER;

	if (p->rx[queue].head < p->rx[queue].tail && p->rx[queue].arrival[p->rx[queue].head].at < next)
		next = p->rx[queue].arrival[p->rx[queue].head].at;
	return next;
}

const struct sp_port_ops dut_ops = {.receive = dut_receive, .transmit = dut_transmit, .next = dut_next};

void dut_port_free(struct dut_port *p)
{
	for (unsigned q = 0; q < DUT_QUEUES; q++) {
		while (p->rx[q].head < p->rx[q].tail)
			rte_pktmbuf_free(p->rx[q].arrival[p->rx[q].head++].packet);
		free(p->rx[q].arrival);
	}
	free(p->sent);
	memset(p, 0, sizeof(*p));
}

void dut_feed_bytes(struct dut_port *p, uint16_t queue, sp_time at, const void *bytes, uint32_t len)
{
	struct rte_mbuf *m = sp_packet_alloc();
	struct dut_arrival *a;

	CU_ASSERT_PTR_NOT_NULL_FATAL(m);
	memcpy(rte_pktmbuf_append(m, (uint16_t)len), bytes, len);
	dut_need((void **)&p->rx[queue].arrival, &p->rx[queue].room, p->rx[queue].tail, sizeof(*a));
	a = &p->rx[queue].arrival[p->rx[queue].tail++];
	a->packet = m;
	a->at = at;
	p->fed++;
}

const uint8_t dut_mac[6] = {2, 0, 0, 0, 0, 1}, dut_peer_mac[6] = {2, 0, 0, 0, 0, 2};

const uint8_t dut_own4[16] = DUT_IP4(192, 0, 2, 2), dut_peer4[16] = DUT_IP4(192, 0, 2, 1);

const uint8_t dut_own6[16] = DUT_IP6(2), dut_peer6[16] = DUT_IP6(1);

static int dut_eal_args(void)
{
	int count = 0;

	while (dut_eal && dut_eal[count])
		count++;
	return count;
}

void dut_prepare(struct dut *r, uint16_t workers)
{
	struct sp_error error = {0};

	memset(r, 0, sizeof(*r));
	CU_ASSERT_EQUAL_FATAL(sp_eal_init(dut_eal_args(), dut_eal, &error), 0);
	r->in_use = rte_mempool_in_use_count(sp_process_pool());
	r->config.workers = workers;
	memcpy(r->config.mac, dut_mac, 6);
	memcpy(r->config.address[0].ip, dut_own4, 16);
	r->config.address[0].prefix = 24;
	memcpy(r->config.address[1].ip, dut_own6, 16);
	r->config.address[1].prefix = 64;
	r->config.addresses = 2;
	r->config.ports = 1;
	r->config.port[0].ops = &dut_ops;
	r->config.port[0].ops_arg = &r->port;
}

void dut_create(struct dut *r)
{
	struct sp_error error = {0};

	CU_ASSERT_EQUAL_FATAL(sp_nic_create(&r->config, &error, &r->nic), 0);
	CU_ASSERT_EQUAL_FATAL(sp_nic_dev(r->nic, true, &r->dev), 0);
}

void dut_with_exception(struct dut *r)
{
	r->config.exception.ops = &dut_ops;
	r->config.exception.ops_arg = &r->exception;
}

void dut_start(struct dut *r, uint16_t workers)
{
	dut_prepare(r, workers);
	dut_create(r);
}

void dut_stop(struct dut *r)
{
	sp_dev_close(r->dev);
	sp_nic_destroy(r->nic);
	dut_port_free(&r->port);
	dut_port_free(&r->exception);
	CU_ASSERT_EQUAL(rte_mempool_in_use_count(sp_process_pool()), r->in_use);
}

int dut_try_context(struct dut *r, const char *name, const char *handler, const char *settings, uint32_t *id,
		    struct sp_error *error)
{
	char text[1024], *at = text, *one;
	struct sp_setting setting[32];
	struct sp_context_config c = {.name = name, .handler = handler, .setting = setting};

	snprintf(text, sizeof(text), "%s", settings);
	while ((one = strsep(&at, ";")) && *one) {
		setting[c.settings].key = strsep(&one, "=");
		setting[c.settings++].value = one;
	}
	return sp_nic_context_add(r->nic, &c, id, error);
}

uint32_t dut_context(struct dut *r, const char *name, const char *handler, const char *settings)
{
	struct sp_error error = {0};
	uint32_t id = 0;
	int rc = dut_try_context(r, name, handler, settings, &id, &error);

	if (rc)
		printf("# context %s: %d %s: %s\n", name, rc, error.key, error.text);
	CU_ASSERT_EQUAL_FATAL(rc, 0);
	return id;
}

unsigned dut_poll(struct dut *r, sp_time now)
{
	unsigned done = 0;

	for (uint16_t w = 0; w < sp_nic_workers(r->nic); w++)
		done += sp_nic_poll(r->nic, w, now);
	return done;
}

void dut_settle(struct dut *r, sp_time now)
{
	unsigned rounds = 0;

	while (dut_poll(r, now) && ++rounds < 100000)
		;
	CU_ASSERT(rounds < 100000);
}

sp_time dut_deadline(struct dut *r)
{
	sp_time next = SP_NEVER;

	for (uint16_t w = 0; w < sp_nic_workers(r->nic); w++)
		next = RTE_MIN(next, sp_nic_next_deadline(r->nic, w));
	return next;
}

sp_time dut_run(struct dut *r, sp_time now, sp_time until)
{
	unsigned still = 0;

	for (;;) {
		for (uint16_t w = 0; w < sp_nic_workers(r->nic); w++)
			if (sp_nic_next_deadline(r->nic, w) <= now)
				sp_nic_poll(r->nic, w, now);
		sp_time next = dut_deadline(r);
		if (next > now)
			still = 0;
		else if (++still == 100000) {
			CU_FAIL("time stands still");
			return now;
		}
		if (next > until)
			return now;
		now = RTE_MAX(now, next);
	}
}

uint64_t dut_counter(struct dut *r, uint32_t id, const char *name)
{
	return sp_nic_context_counter(r->nic, id, name);
}

void dut_check_totals(struct dut *r)
{
	struct sp_nic_totals t;

	sp_nic_totals(r->nic, &t);
	CU_ASSERT_EQUAL(t.received, r->port.received);
	CU_ASSERT_EQUAL(t.taken + t.forwarded + t.dropped, t.received);
}

uint32_t dut_icrc(const uint8_t *l3, uint32_t len)
{
	uint8_t copy[2048 + 8];
	uint8_t *p = copy + 8, *udp;

	memset(copy, 0xFF, 8);
	memcpy(p, l3, len);
	if (p[0] >> 4 == 4) {
		p[1] = p[8] = p[10] = p[11] = 0xFF;
		udp = p + 4 * (p[0] & 15);
	} else {
		p[0] |= 0x0F;
		p[1] = p[2] = p[3] = p[7] = 0xFF;
		udp = p + 40;
	}
	udp[6] = udp[7] = 0xFF;
	udp[8 + 4] = 0xFF;
	return (uint32_t)crc32(0, copy, 8 + len);
}

void dut_seal(struct frame *f)
{
	uint32_t crc = dut_icrc(f->bytes + f->l3, f->len - 4 - f->l3);

	for (unsigned i = 0; i < 4; i++)
		f->bytes[f->len - 4 + i] = (uint8_t)(crc >> 8 * i);
}

void dut_roce(struct frame *f, enum frame_ip ip, uint32_t qp, uint32_t psn, const void *payload, uint32_t len)
{
	struct frame_shape shape = {.ip = ip, .roce = true, .payload = len, .pad = -len & 3};

	frame_build(f, &shape);
	for (unsigned i = 0; i < 3; i++) {
		f->bytes[f->l4 + 8 + 5 + i] = (uint8_t)(qp >> (16 - 8 * i));
		f->bytes[f->l4 + 8 + 9 + i] = (uint8_t)(psn >> (16 - 8 * i));
	}
	if (payload)
		memcpy(f->bytes + f->data, payload, len);
	dut_seal(f);
}

void dut_udp(struct frame *f, uint16_t to_port, const void *payload, uint32_t len)
{
	struct frame_shape shape = {.ip = FRAME_IP4, .payload = len};

	frame_build(f, &shape);
	frame_put16(f, f->l4 + 2, to_port);
	if (payload)
		memcpy(f->bytes + f->data, payload, len);
}

void dut_feed(struct dut *r, const struct frame *f)
{
	dut_feed_bytes(&r->port, 0, 0, f->bytes, f->len);
}

uint64_t dut_random(uint64_t *state)
{
	uint64_t x = *state += 0x9E3779B97F4A7C15ull;

	x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
	x = (x ^ x >> 27) * 0x94D049BB133111EBull;
	return x ^ x >> 31;
}

struct dut dut;

uint64_t dut_dropped(const char *reason)
{
	return sp_nic_dropped(dut.nic, reason);
}
