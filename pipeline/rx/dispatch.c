/* SPDX-License-Identifier: BSD-3-Clause */
#include "dispatch.h"
#include "../engine.h"
#include "../entity.h"
#include "../context.h"
#include "../exec/fate.h"
#include "flow_cache.h"
#include "rule.h"
#include "../exec/handover.h"
#include "../frame/icrc.h"
#include "../tx/answer.h"
#include "match.h"
#include "../frame/parser_plain.h"
#include "../exec/run.h"

#include <rte_mbuf.h>

/* Returns the entity that got the packet; NULL: another worker has it. */
static inline struct sp_entity *add(struct sp_worker *w, struct sp_context *c, struct sp_packet *p)
{
	struct sp_entity *e = c->entity[w->index];

	if (unlikely(c->home_only | c->flows)) {
		const uint16_t to = c->flows ? sp_flow_worker(c, p->qp_index) : c->home;

		if (to != w->index) {
			sp_packet_hand_over(w, to, p);
			return NULL;
		}
	}
	if (!e->batched)
		w->active[w->actives++] = e;
	sp_entity_add(e, p);
	return e;
}

/* Of any port: the weak host model. */
static inline bool is_own(const struct sp_nic *nic, const struct sp_packet *p)
{
	const uint8_t *to = sp_packet_destination(p);

	if (likely(!(p->flags & SP_PKT_IPV6))) {
		uint32_t ip;

		memcpy(&ip, to, 4);
		for (unsigned i = 0; i < nic->own4s; i++)
			if (nic->own4[i] == ip)
				return true;
		return false;
	}
	for (unsigned i = 0; i < nic->own6s; i++)
		if (!memcmp(nic->own6[i], to, 16))
			return true;
	return false;
}

/* Of the NIC's VLAN: one tag with its number, or none. Tags with the number 0 are priorities (802.1Q, 9.6). */
static bool is_in_vlan(const struct sp_nic *nic, const struct sp_packet *p)
{
	uint32_t vlan = 0;

	for (uint32_t at = 12; at + 2 < p->l3; at += 4) {
		const uint32_t id = sp_load_be16(p->frame + at + 2) & 0xFFF;

		if (id && (vlan || sp_load_be16(p->frame + at) != 0x8100)) /* a provider's tag is none of ours */
			return false;
		vlan |= id;
	}
	return vlan == nic->vlan;
}

static bool is_peer(const struct sp_context *c, const struct sp_packet *p)
{
	static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};
	const uint8_t *from = sp_packet_source(p);

	if (unlikely(c->peer_self && p->port != SP_PORT_LOOP)) /* the NIC's own address, but from a wire */
		return false;
	if (p->flags & SP_PKT_IPV6)
		return !memcmp(c->peer, from, 16);
	return !memcmp(c->peer, mapped, 12) && !memcmp(c->peer + 12, from, 4);
}

static inline bool icrc_right(const struct sp_packet *p)
{
	const uint8_t *l3 = p->frame + p->l3;
	const uint32_t pad = p->data[-11] >> 4 & 3; /* BTH byte 1 */
	const uint32_t len = (uint32_t)(p->data - l3) + p->len + pad;

	return sp_icrc_right(l3, (uint32_t)(p->l4 - p->l3), len);
}

/* Where the packet before went: packets in a row often belong to one flow, and a match depends on nothing but the QP
 * number, the addresses and the port. */
struct same {
	uint64_t addresses;
	uint32_t qp; /* no number of 24 bits: there was none */
	uint32_t ports, hash;
	uint16_t index;
	struct sp_entity *entity;
};

/* RoCEv2: by QP number. Returns false when nobody has that QP (then the filters may still want it). */
static bool match_qp(struct sp_worker *w, struct sp_packet *p, struct same *same)
{
	const struct sp_nic *nic = w->nic;
	const struct sp_qp *qp;
	struct sp_context *c;

	same->qp = UINT32_MAX;
	qp = sp_qp_table_find(nic->qps, p->dest_qp);
	if (unlikely(!qp))
		return false;
	if (unlikely(!is_own(nic, p))) {
		sp_packet_drop(w, p, SP_DROP_WRONG_DESTINATION);
		return true;
	}
	c = __atomic_load_n(&qp->context, __ATOMIC_ACQUIRE);
	if (unlikely(atomic_load_explicit(&c->peer_set, memory_order_acquire) && !nic->any_source && !is_peer(c, p))) {
		sp_packet_drop(w, p, SP_DROP_WRONG_SOURCE);
		return true;
	}
	p->qp_index = qp->index;
	same->entity = add(w, c, p);
	if (same->entity && !(p->flags & SP_PKT_IPV6)) {
		same->qp = p->dest_qp;
		same->index = p->qp_index;
		same->addresses = sp_addresses4(p->frame + p->l3);
		same->ports = sp_native32(p->frame + p->l4);
		same->hash = p->hash;
	}
	return true;
}

static void answered(struct sp_worker *w, const struct sp_packet *p)
{
	w->answered++;
	if (unlikely(w->tap != NULL))
		w->tap->fate(w, p, SP_CAPTURE_ANSWERED, NULL);
}

/* The others: filters in order, then the NIC itself, then the normal way. here: of the NIC's VLAN; the filters alone
 * ask for no VLAN but by themselves. */
static void match_rules(struct sp_worker *w, struct sp_packet *p, int parsed, uint16_t ethertype, bool here)
{
	const uint64_t rules = atomic_load_explicit(&w->nic->rules, memory_order_acquire);

	if (rules) { /* there has been one */
		const struct sp_rule *rule =
			sp_flow_cache_match(w->flow_cache, w->nic->rule[rules & 1], rules >> 1, p->buf);

		if (rule) {
			p->qp_index = 0;
			add(w, sp_rule_context(rule), p);
			return;
		}
	}
	if (unlikely(!here) && !w->nic->has_exception)
		sp_packet_drop(w, p, SP_DROP_WRONG_VLAN);
	else if (unlikely(!here))
		sp_packet_forward(w, p);
	else if (parsed == SP_PARSED_ROCE)
		sp_packet_drop(w, p, is_own(w->nic, p) ? SP_DROP_BAD_QP : SP_DROP_WRONG_DESTINATION);
	else if (parsed == SP_PARSED_IP && unlikely(!p->l4) && is_own(w->nic, p) && sp_parse_hidden_roce(p))
		sp_packet_drop(w, p, SP_DROP_ROCE_FRAGMENT); /* a kernel that has the address would refuse it aloud */
	else if (sp_local_answer(w, p, parsed, ethertype))
		answered(w, p);
	else
		sp_packet_forward(w, p);
}

/* A packet that the parser's short way has not taken. */
static void dispatch_other(struct sp_worker *w, struct sp_packet *p, bool check, struct same *same)
{
	struct rte_mbuf *m = p->buf;
	uint16_t ethertype = 0;
	bool here;
	int parsed;

	if (unlikely(m->nb_segs > 1) && rte_pktmbuf_linearize(m)) {
		sp_packet_drop(w, p, SP_DROP_NOT_LINEAR);
		return;
	}
	parsed = sp_parse_layers(rte_pktmbuf_mtod(m, uint8_t *), m->data_len, p, &ethertype);
	here = is_in_vlan(w->nic, p);
	if (parsed == SP_PARSED_ROCE) {
		if (check && unlikely(!icrc_right(p))) {
			sp_packet_drop(w, p, SP_DROP_BAD_ICRC);
			return;
		}
		if (likely(here) && likely(match_qp(w, p, same)))
			return;
	}
	if (unlikely(parsed < 0))
		sp_packet_drop(w, p, (enum sp_drop)(-1 - parsed));
	else
		match_rules(w, p, parsed, ethertype, here);
}

/* Gives the buffers of a burst back: all at once, if each one is still here, has no other owner and is one segment of
 * its own memory, and all come from one pool. */
__attribute__((no_sanitize("thread"))) /* another owner may count down meanwhile: then the count is not 1 here */
static void
give_back(const struct sp_packet *p, struct rte_mbuf **packet, unsigned n)
{
	/* refcnt 1, nb_segs 1, neither indirect nor external; data_off, port and other flags are whatever they are */
	typedef uint64_t two __attribute__((vector_size(16)));
	static_assert(offsetof(struct rte_mbuf, rearm_data) % 16 == 0 &&
			      offsetof(struct rte_mbuf, refcnt) == offsetof(struct rte_mbuf, rearm_data) + 2 &&
			      offsetof(struct rte_mbuf, nb_segs) == offsetof(struct rte_mbuf, rearm_data) + 4 &&
			      offsetof(struct rte_mbuf, ol_flags) == offsetof(struct rte_mbuf, rearm_data) + 8,
		      "one load of 16 bytes");
	const two plain = {1ull << 16 | 1ull << 32, 0};
	const two look = {0x0000FFFFFFFF0000ull, RTE_MBUF_F_EXTERNAL | RTE_MBUF_F_INDIRECT};
	struct rte_mempool *const pool = packet[0]->pool; /* nobody calls for none */
	two odd = {0, 0};
	uint64_t pools = 0;
	unsigned i, left = 0;

	for (i = 0; i < n; i++) {
		const struct rte_mbuf *m = p[i].buf;

		if (unlikely(!m)) /* sent, or handed over: no look at what is somebody else's */
			break;
		odd |= (*(const two *)&m->rearm_data ^ plain) & look;
		pools |= (uintptr_t)m->pool ^ (uintptr_t)pool;
	}
	if (likely(i == n && !(odd[0] | odd[1] | pools))) {
		rte_mempool_put_bulk(pool, (void **)packet, n);
		return;
	}
	for (i = 0; i < n; i++)
		if (p[i].buf)
			packet[left++] = p[i].buf;
	rte_pktmbuf_free_bulk(packet, left);
}

/* A packet that the parser's short way has taken; its ICRC is right. */
static inline void dispatch_plain(struct sp_worker *w, struct sp_packet *p, struct same *same)
{
	const uint8_t *f = p->data - SP_PLAIN_DATA;

	if (likely(p->dest_qp == same->qp) && likely(sp_addresses4(f + SP_PLAIN_IP) == same->addresses)) {
		/* The source port may differ: a sender that spreads packets over paths changes it. */
		p->hash = likely(sp_plain_ports(f) == same->ports) ? same->hash : sp_plain_hash(f);
		p->qp_index = same->index;
		sp_entity_add(same->entity, p);
		return;
	}
	p->hash = sp_plain_hash(f);
	if (unlikely(!match_qp(w, p, same)))
		match_rules(w, p, SP_PARSED_ROCE, SP_PLAIN_TYPE, true);
}

/* A burst whose ICRCs are checked: those of plain packets (a bit each) all at once, since a multiplication's result
 * takes long, but many can be under way. */
static void dispatch_checked(struct sp_worker *w, struct sp_packet *p, unsigned n, uint32_t plain, struct same *same)
{
	const uint8_t *l3[SP_BURST];
	uint32_t len[SP_BURST], right;
	unsigned count = 0;

	static_assert(SP_BURST <= 32, "a bit each");
	for (uint32_t left = plain; left; left &= left - 1) {
		const uint8_t *ip = p[__builtin_ctz(left)].frame + SP_PLAIN_IP;

		l3[count] = ip;
		len[count++] = sp_load_be16(ip + 2) - SP_ROCE_ICRC_LEN;
	}
	right = sp_icrc_right_plain(l3, len, count);
	for (unsigned i = 0; i < n; i++) {
		if (unlikely(!(plain >> i & 1))) {
			dispatch_other(w, &p[i], true, same);
			continue;
		}
		if (likely(right & 1))
			dispatch_plain(w, &p[i], same);
		else
			sp_packet_drop(w, &p[i], SP_DROP_BAD_ICRC);
		right >>= 1;
	}
}

void sp_dispatch(struct sp_worker *w, uint16_t port, struct rte_mbuf **packet, unsigned n)
{
	const bool check = !w->nic->icrc_off && !w->handing;
	const unsigned segments = w->nic->vlan ? 0 : 1; /* of plain packets: none of a VLAN is */
	struct same same = {.qp = UINT32_MAX};
	struct sp_packet pk[SP_BURST];
	uint64_t bytes = 0;
	uint32_t plain = 0;

	if (unlikely(w->tap != NULL) && w->tap->arrive(w, port, pk, packet, n)) {
		for (unsigned i = 0; i < n; i++)
			sp_dispatch(w, port, &packet[i], 1);
		return;
	}
	for (unsigned i = 0; i < n; i++) {
		struct rte_mbuf *m = packet[i];
		struct sp_packet *p = &pk[i];

		bytes += m->pkt_len;
		p->buf = m;
		p->port = port;
		if (likely(m->nb_segs == segments) &&
		    likely(sp_parse_plain(rte_pktmbuf_mtod(m, uint8_t *), m->data_len, p))) {
			plain |= 1u << i;
			if (!check)
				dispatch_plain(w, p, &same);
		} else if (!check) {
			dispatch_other(w, p, false, &same);
		}
	}
	if (check)
		dispatch_checked(w, pk, n, plain, &same);
	w->rx[port].packets += n;
	w->rx[port].bytes += bytes;
	sp_run_contexts(w);
	if (unlikely(w->tap != NULL))
		w->tap->settle(w);
	give_back(pk, packet, n);
}

unsigned sp_dispatch_handed_over(struct sp_worker *w)
{
	struct rte_mbuf *packet[SP_BURST];
	unsigned done = 0, n;
	uint16_t port;

	w->handing = true;
	for (uint16_t from = 0; from < w->nic->workers; from++) {
		n = sp_handover_take(w, from, packet, &port);
		if (n)
			sp_dispatch(w, port, packet, n);
		done += n;
	}
	w->handing = false;
	return done;
}

/* As from a port: parsed, ICRC and all. What is sent meanwhile waits for the next poll. */
unsigned sp_dispatch_loop(struct sp_worker *w)
{
	struct sp_tx_queue *q = &w->tx[SP_PORT_LOOP];
	struct rte_mbuf *packet[SP_BURST];
	const unsigned n = RTE_MIN(q->count, (unsigned)SP_BURST);

	for (unsigned i = 0; i < n; i++) {
		packet[i] = q->packet[(q->head + i) % SP_TX_QUEUE];
		q->bytes += packet[i]->pkt_len;
	}
	q->head = (q->head + n) % SP_TX_QUEUE;
	q->count -= n;
	q->packets += n;
	sp_dispatch(w, SP_PORT_LOOP, packet, n);
	return n;
}
