/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows: what an rkey that a work request has bound opens, for whom, and until when. */
#include "../lib/rdma_nic.h"

#define WAY(i)	((RN_PSN + (i)) & 0xFFFFFF)
#define ALL	(SP_RDMA_REMOTE_WRITE | SP_RDMA_REMOTE_READ | SP_RDMA_REMOTE_ATOMIC)
#define REGION	4096u
#define AT	1024u /* where windows begin, within the region, which is RN_VA's */
#define LENGTH	512u
#define ALL_OPS 4

static struct sp_rdma_keys region; /* with all rights, windows included */

static void window_start(uint32_t type)
{
	rn_begin("");
	rn_connect(type);
	CU_ASSERT_EQUAL_FATAL(rn_register(RN_VA, RN_DATA, REGION, rn_pd, 31, &region), 0);
	rn_watch();
}

static void window_stop(void)
{
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, region.lkey), 0);
	rn_stop();
}

static void start_rc(void)
{
	window_start(SP_RDMA_RC);
}

static void start_uc(void)
{
	window_start(SP_RDMA_UC);
}

#define RC_TEST(name) TEST_BETWEEN(start_rc, window_stop, name)
#define UC_TEST(name) TEST_BETWEEN(start_uc, window_stop, name)

static uint32_t allocated(uint32_t pd, enum sp_rdma_mw_type type)
{
	const struct sp_rdma_mw_alloc in = {pd, type};
	struct sp_rdma_keys keys = {0, 0};

	CU_ASSERT_EQUAL_FATAL(rn_control(SP_RDMA_MW_ALLOC, 0, &in, sizeof(in), &keys, sizeof(keys)), 0);
	CU_ASSERT_EQUAL(keys.lkey, 0);
	return keys.rkey;
}

/* The tag, as ibv_inc_rkey() does it. */
static uint32_t after(uint32_t rkey)
{
	return (rkey & ~0xFFu) | ((rkey + 1) & 0xFF);
}

/* Posts BIND_MW; its completion has this status. */
static bool bound_so(uint32_t rkey, uint32_t lkey, uint64_t va, uint64_t len, uint64_t rights, uint8_t status)
{
	const struct sp_rdma_wqe w = {.owner = 1,
				      .op = SP_RDMA_WR_BIND_MW,
				      .flags = SP_RDMA_SIGNALED,
				      .wr_id = rkey,
				      .rkey = rkey,
				      .imm = lkey,
				      .remote = va,
				      .compare_add = len,
				      .swap = rights};

	rn_post_wqe(&w, NULL, 0);
	return rn_completed(rkey, status, SP_RDMA_WC_BIND_MW, 0);
}

static bool bound(uint32_t rkey, uint64_t rights)
{
	return bound_so(rkey, region.lkey, RN_VA + AT, LENGTH, rights, SP_RDMA_OK);
}

/* It is not, and the QP begins anew. */
static bool refused(uint32_t rkey, uint32_t lkey, uint64_t va, uint64_t len, uint64_t rights)
{
	bool ok = bound_so(rkey, lkey, va, len, rights, SP_RDMA_MW_BIND_ERR);

	ok = ok && (rn_type == SP_RDMA_UC || rn_attr().state == SP_RDMA_ERR);
	rn_anew();
	return ok;
}

/* A request for 8 bytes there: WRITE, READ, CAS, FETCH_ADD. */
static void reach(unsigned op, uint32_t psn, uint64_t va, uint32_t key)
{
	uint8_t reth[16];

	rn_reth(reth, va, key, 8);
	rn_ack = true;
	if (op < 2)
		rn_packet(op ? SP_RC_READ_REQUEST : SP_RC_WRITE_ONLY, psn, reth, 16, NULL, op ? 0 : 8);
	else
		rn_atomic(op == 2 ? SP_RC_COMPARE_SWAP : SP_RC_FETCH_ADD, psn, va, key, 5, 0xEEEEEEEEEEEEEEEE);
}

static bool opens(unsigned op, uint64_t va, uint32_t key)
{
	struct rn_answer a;
	bool ok;

	rn_anew();
	reach(op, WAY(0), va, key);
	ok = rn_answered(&a) && a.psn == WAY(0) && a.syndrome < 0x20;
	ok = ok && a.opcode == (op == 0	  ? SP_RC_ACKNOWLEDGE
				: op == 1 ? SP_RC_READ_RESPONSE_ONLY
					  : SP_RC_ATOMIC_ACKNOWLEDGE);
	if (op == 0)
		ok = ok && rn_filled(va - RN_VA, 0, 8);
	rn_anew();
	return ok;
}

/* A NAK, and no byte of memory has changed. */
static bool closed(unsigned op, uint64_t va, uint32_t key)
{
	bool ok;

	rn_anew();
	rn_watch();
	reach(op, WAY(0), va, key);
	ok = rn_acked(0x62, WAY(0)) && rn_only(0, 0);
	rn_anew();
	return ok;
}

static bool closed_to_all(uint64_t va, uint32_t key)
{
	for (unsigned op = 0; op < ALL_OPS; op++)
		if (!closed(op, va, key))
			return false;
	return true;
}

RC_TEST(a_window_opens_its_own_part_of_the_region)
{
	for (unsigned type = SP_RDMA_MW_1; type <= SP_RDMA_MW_2; type++) {
		const uint32_t first = allocated(rn_pd, type), key = after(first);

		CU_ASSERT(closed_to_all(RN_VA + AT, first)); /* bound to nothing yet */
		CU_ASSERT(bound(key, ALL));
		for (unsigned op = 0; op < ALL_OPS; op++) {
			CU_ASSERT(opens(op, RN_VA + AT, key));
			CU_ASSERT(opens(op, RN_VA + AT + LENGTH - 8, key));
			CU_ASSERT(closed(op, RN_VA + AT - 8, key));
			CU_ASSERT(closed(op, RN_VA + AT + LENGTH, key));
			CU_ASSERT(closed(op, RN_VA + AT, first));
			CU_ASSERT(closed(op, RN_VA + AT, after(key)));
		}
		CU_ASSERT(closed(0, RN_VA + AT - 4, key)); /* half of it within */
		CU_ASSERT(closed(0, RN_VA + AT + LENGTH - 4, key));
		CU_ASSERT(closed(1, UINT64_MAX - 3, key));
		CU_ASSERT_EQUAL(rn_end(SP_RDMA_MW_DEALLOC, first), 0);
		CU_ASSERT(closed_to_all(RN_VA + AT, key));
		CU_ASSERT_EQUAL(rn_end(SP_RDMA_MW_DEALLOC, first), -ENOENT);
	}
}

/* What the region allows does not count; nor does a window's key count as an lkey. */
RC_TEST(a_window_has_rights_of_its_own)
{
	const uint64_t right[ALL_OPS] = {SP_RDMA_REMOTE_WRITE, SP_RDMA_REMOTE_READ, SP_RDMA_REMOTE_ATOMIC,
					 SP_RDMA_REMOTE_ATOMIC};
	const uint32_t first = allocated(rn_pd, SP_RDMA_MW_1);
	uint32_t key = first;

	for (uint64_t rights = 0; rights <= ALL; rights += 2) {
		key = after(key);
		CU_ASSERT(bound(key, rights));
		for (unsigned op = 0; op < ALL_OPS; op++)
			CU_ASSERT(rights & right[op] ? opens(op, RN_VA + AT, key) : closed(op, RN_VA + AT, key));
	}
	const struct sp_rdma_sge sge = {RN_VA + AT, 8, key};

	rn_request(&(struct sp_rdma_wqe){.op = SP_RDMA_WR_SEND, .wr_id = 3}, &sge);
	rn_go();
	CU_ASSERT(rn_completed(3, SP_RDMA_LOC_PROT_ERR, SP_RDMA_WC_SEND, 0));
	rn_anew();
	/* A region with few rights may have windows with all that do not change it. */
	struct sp_rdma_keys few;

	CU_ASSERT_EQUAL(rn_register(RN_VA, RN_DATA, REGION, rn_pd, SP_RDMA_MW_BIND, &few), 0);
	key = after(key);
	CU_ASSERT(bound_so(key, few.lkey, RN_VA, 8, SP_RDMA_REMOTE_READ, SP_RDMA_OK));
	CU_ASSERT(opens(1, RN_VA, key));
	CU_ASSERT(refused(after(key), few.lkey, RN_VA, 8, SP_RDMA_REMOTE_WRITE));
	CU_ASSERT(refused(after(key), few.lkey, RN_VA, 8, SP_RDMA_REMOTE_ATOMIC));
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MW_DEALLOC, first), 0);
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, few.lkey), 0);
}

RC_TEST(what_must_not_be_bound_is_not)
{
	const uint32_t other = rn_id(SP_RDMA_PD_CREATE, NULL, 0), mine = allocated(rn_pd, SP_RDMA_MW_1);
	const uint32_t second = allocated(rn_pd, SP_RDMA_MW_2), foreign = allocated(other, SP_RDMA_MW_1);
	struct sp_rdma_keys without, theirs;

	CU_ASSERT_EQUAL(rn_register(RN_VA, RN_DATA, REGION, rn_pd, 15, &without), 0);
	CU_ASSERT_EQUAL(rn_register(RN_VA, RN_DATA, REGION, other, 31, &theirs), 0);
	const struct {
		uint32_t rkey, lkey;
		uint64_t va, len, rights;
	} wrong[] = {
		{mine, without.lkey, RN_VA, 8, ALL},	/* no window may be bound to it */
		{mine, theirs.lkey, RN_VA, 8, ALL},	/* another PD's */
		{foreign, region.lkey, RN_VA, 8, ALL},	/* the window is */
		{mine, mine, RN_VA, 8, ALL},		/* a window to a window */
		{mine, region.lkey ^ 1, RN_VA, 8, ALL}, /* no such region */
		{mine, 0, RN_VA, 8, ALL},
		{mine, region.lkey, RN_VA - 1, 8, ALL},
		{mine, region.lkey, RN_VA, REGION + 1, ALL},
		{mine, region.lkey, RN_VA + REGION, 1, ALL},
		{mine, region.lkey, RN_VA + 8, UINT64_MAX, ALL},
		{mine, region.lkey, RN_VA, 8, ALL | SP_RDMA_LOCAL_WRITE},
		{mine, region.lkey, RN_VA, 8, ALL | SP_RDMA_MW_BIND},
		{mine, region.lkey, RN_VA, 8, 1ull << 40},
		{mine ^ 1u << 31, region.lkey, RN_VA, 8, ALL}, /* more than the tag */
		{region.rkey, region.lkey, RN_VA, 8, ALL},     /* a region is no window */
		{0, region.lkey, RN_VA, 8, ALL},
		{second, region.lkey, RN_VA, 0, ALL}, /* type 2: of no length */
	};

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		if (!refused(wrong[i].rkey, wrong[i].lkey, wrong[i].va, wrong[i].len, wrong[i].rights))
			CU_FAIL("bound, or another completion");
	CU_ASSERT(bound(second, ALL));
	CU_ASSERT(refused(after(second), region.lkey, RN_VA, 8, ALL)); /* type 2: is bound */
	CU_ASSERT(opens(0, RN_VA + AT, second));		       /* and stays */
	const struct sp_rdma_mw_alloc odd[] = {{rn_pd, 0}, {rn_pd, 3}, {0, 1}, {UINT32_MAX, 1}};
	struct sp_rdma_keys keys;

	for (unsigned i = 0; i < 4; i++)
		CU_ASSERT_EQUAL(rn_control(SP_RDMA_MW_ALLOC, 0, &odd[i], sizeof(*odd), &keys, sizeof(keys)),
				i < 2 ? -EINVAL : -ENOENT);
	CU_ASSERT_EQUAL(rn_control(SP_RDMA_MW_ALLOC, 0, odd, 4, &keys, sizeof(keys)), -EINVAL);
	/* Neither ends as the other does. */
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, mine), -ENOENT);
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MW_DEALLOC, region.rkey), -ENOENT);
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MW_DEALLOC, after(mine)), -ENOENT);
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_PD_DESTROY, other), -EBUSY);
	for (unsigned i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(rn_end(SP_RDMA_MW_DEALLOC, (uint32_t[]){mine, second, foreign}[i]), 0);
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, without.lkey), 0);
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, theirs.lkey), 0);
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_PD_DESTROY, other), 0);
}

static bool invalidated(uint32_t key, bool by_peer, uint8_t status)
{
	const struct sp_rdma_wqe w = {
		.owner = 1, .op = SP_RDMA_WR_LOCAL_INV, .flags = SP_RDMA_SIGNALED, .wr_id = 9, .imm = key};
	uint8_t word[4];

	rn_anew();
	if (!by_peer) {
		rn_post_wqe(&w, NULL, 0);
		return rn_completed(9, status ? SP_RDMA_LOC_PROT_ERR : SP_RDMA_OK, SP_RDMA_WC_LOCAL_INV, 0);
	}
	rn_receive(9, 0, 8);
	sp_store_be32(word, key);
	rn_packet(SP_RC_SEND_ONLY_INVALIDATE, WAY(0), word, 4, NULL, 0);
	return rn_completed(9, status, SP_RDMA_WC_RECV, 0);
}

RC_TEST(a_window_of_type_2_is_its_qps_until_it_is_invalidated)
{
	const uint32_t first = allocated(rn_pd, SP_RDMA_MW_2), qp = rn_qpn, worker = rn_worker;
	uint32_t key = first;

	for (unsigned by_peer = 0; by_peer < 2; by_peer++) {
		key = after(key);
		CU_ASSERT(bound(key, ALL));
		CU_ASSERT(opens(0, RN_VA + AT, key));
		CU_ASSERT(invalidated(key, by_peer, SP_RDMA_OK));
		CU_ASSERT(closed_to_all(RN_VA + AT, key));
		CU_ASSERT(invalidated(key, by_peer, SP_RDMA_LOC_ACCESS_ERR));
		rn_anew();
	}
	key = after(key);
	CU_ASSERT(bound(key, ALL));
	/* Another QP of the same PD can neither use nor end it. */
	rn_connect(SP_RDMA_RC);
	CU_ASSERT_NOT_EQUAL(rn_qpn, qp);
	CU_ASSERT(closed_to_all(RN_VA + AT, key));
	for (unsigned by_peer = 0; by_peer < 2; by_peer++)
		CU_ASSERT(invalidated(key, by_peer, SP_RDMA_LOC_ACCESS_ERR));
	CU_ASSERT_EQUAL(rn_destroy(), 0);
	rn_qpn = qp;
	rn_worker = worker;
	rn_anew();
	CU_ASSERT(opens(0, RN_VA + AT, key));
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MW_DEALLOC, first), 0);
}

RC_TEST(a_window_of_type_1_is_its_domains_until_it_is_bound_anew)
{
	const uint32_t first = allocated(rn_pd, SP_RDMA_MW_1), qp = rn_qpn, worker = rn_worker;

	CU_ASSERT(bound(first, ALL)); /* the key that it has may be bound as well */
	for (unsigned by_peer = 0; by_peer < 2; by_peer++)
		CU_ASSERT(invalidated(first, by_peer, SP_RDMA_LOC_ACCESS_ERR));
	rn_connect(SP_RDMA_RC);
	CU_ASSERT(opens(0, RN_VA + AT, first));
	CU_ASSERT(bound_so(after(first), region.lkey, RN_VA, 8, SP_RDMA_REMOTE_WRITE, SP_RDMA_OK));
	CU_ASSERT(closed_to_all(RN_VA + AT, first));
	CU_ASSERT(opens(0, RN_VA, after(first)));
	CU_ASSERT(closed(1, RN_VA, after(first)));
	CU_ASSERT(bound_so(first, 0, 0, 0, 0, SP_RDMA_OK)); /* to nothing */
	CU_ASSERT(closed_to_all(RN_VA, after(first)));
	CU_ASSERT(closed_to_all(0, first));
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MW_DEALLOC, first), 0);
	CU_ASSERT_EQUAL(rn_destroy(), 0);
	rn_qpn = qp;
	rn_worker = worker;
	rn_anew();
}

RC_TEST(a_region_stays_while_a_window_is_bound_to_it)
{
	const uint32_t first = allocated(rn_pd, SP_RDMA_MW_1), second = allocated(rn_pd, SP_RDMA_MW_2);

	CU_ASSERT(bound(first, ALL));
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, region.lkey), -EBUSY);
	CU_ASSERT(bound(second, ALL));
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MW_DEALLOC, first), 0);
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, region.lkey), -EBUSY);
	CU_ASSERT(opens(0, RN_VA + AT, second));
	CU_ASSERT(invalidated(second, false, SP_RDMA_OK));
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MR_DEREG, region.lkey), 0);
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MW_DEALLOC, second), 0);
	CU_ASSERT_EQUAL_FATAL(rn_register(RN_VA, RN_DATA, REGION, rn_pd, 31, &region), 0);
	rn_anew();
}

/* An application that goes leaves nothing, whatever is bound. */
TEST(windows_end_with_their_application)
{
	window_start(SP_RDMA_RC);
	for (unsigned i = 0; i < 4; i++)
		CU_ASSERT(bound(allocated(rn_pd, i % 2 ? SP_RDMA_MW_1 : SP_RDMA_MW_2), ALL));
	rn_abandon();
}

UC_TEST(a_window_opens_to_writes_of_uc)
{
	const uint32_t first = allocated(rn_pd, SP_RDMA_MW_2);
	uint8_t reth[16];

	CU_ASSERT(bound(first, SP_RDMA_REMOTE_WRITE));
	rn_reth(reth, RN_VA + AT, first, 8);
	rn_packet(SP_UC_WRITE_ONLY, WAY(0), reth, 16, NULL, 8);
	CU_ASSERT(rn_filled(AT, 0, 8));
	rn_watch();
	rn_reth(reth, RN_VA + AT - 1, first, 8);
	rn_packet(SP_UC_WRITE_ONLY, WAY(1), reth, 16, NULL, 8);
	CU_ASSERT(rn_only(0, 0));
	CU_ASSERT(invalidated(first, false, SP_RDMA_OK));
	rn_watch();
	rn_reth(reth, RN_VA + AT, first, 8);
	rn_packet(SP_UC_WRITE_ONLY, WAY(0), reth, 16, NULL, 8);
	CU_ASSERT(rn_only(0, 0));
	CU_ASSERT_EQUAL(rn_end(SP_RDMA_MW_DEALLOC, first), 0);
}
