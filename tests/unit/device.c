/* SPDX-License-Identifier: BSD-3-Clause */
/* What an application may have: every limit, one by one, and that all is given back. */
#include <dirent.h>

#include "../lib/remote_app.h"

static unsigned descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	CU_ASSERT_PTR_NOT_NULL_FATAL(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

TEST(limits_that_are_not_given_are_the_documented_ones)
{
	dut_start(&dut, 1);
	struct sp_device *d = remote_attach(0, 0, 0, 0);
	CU_ASSERT_EQUAL(d->account->limit.memory, 1073741824);
	CU_ASSERT_EQUAL(d->account->limit.contexts, 256);
	CU_ASSERT_EQUAL(d->account->limit.qps, 16384);
	CU_ASSERT_EQUAL(d->account->limit.messages, 65536);
	sp_dev_close(&d->pub);
	dut_stop(&dut);
}

TEST(a_limit_of_contexts_holds_is_named_and_closing_gives_back)
{
	uint32_t id[3];

	dut_start(&dut, 1);
	struct sp_device *d = remote_attach(0, 2, 0, 0);
	id[0] = remote_opened(d, "qp=16");
	id[1] = remote_opened(d, "qp=17");
	CU_ASSERT_EQUAL(remote_try_open(d, "qp=18", &id[2]), -EDQUOT);
	CU_ASSERT_STRING_EQUAL(remote_error.text,
			       "this application may have at most 2 contexts (contexts in [limits])");
	CU_ASSERT_EQUAL(remote_try_open(d, "qp=18", &id[2]), -EDQUOT);
	CU_ASSERT_EQUAL(sp_context_close(&d->pub, id[0]), 0);
	id[2] = remote_opened(d, "qp=18");
	CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, id[1]), 0); /* ended by the NIC: one less, too */
	id[1] = remote_opened(d, "qp=19");
	CU_ASSERT_EQUAL(remote_try_open(d, "qp=20", &id[0]), -EDQUOT);
	sp_dev_close(&d->pub);
	dut_stop(&dut);
}

TEST(a_limit_of_qps_counts_ranges_single_and_control_ones)
{
	uint32_t a;

	dut_start(&dut, 1);
	struct sp_device *d = remote_attach(0, 0, 8, 0);
	CU_ASSERT_EQUAL(remote_try_open(d, "qp=100;qps=9", &a), -EDQUOT);
	CU_ASSERT_STRING_EQUAL(remote_error.text, "this application may have at most 8 QPs (qps in [limits])");
	CU_ASSERT_EQUAL(remote_try_open(d, "qp=100;qps=8;control=yes", &a), -EDQUOT);
	a = remote_opened(d, "qp=100;qps=6;control=yes");
	CU_ASSERT_EQUAL(d->account->qps, 7);
	uint32_t b = remote_opened(d, "qp=200"); /* without a claim it has one */
	CU_ASSERT_EQUAL(d->account->qps, 8);
	CU_ASSERT_EQUAL(remote_try_open(d, "qp=300", &b), -EDQUOT);
	CU_ASSERT_STRING_EQUAL(remote_error.text, "this application may have at most 8 QPs (qps in [limits])");
	CU_ASSERT_EQUAL(sp_context_close(&d->pub, a), 0);
	CU_ASSERT_EQUAL(d->account->qps, 1);
	remote_opened(d, "qp=300;qps=7");
	sp_dev_close(&d->pub);
	dut_stop(&dut);
}

TEST(a_limit_of_messages_is_over_all_contexts)
{
	uint32_t b;

	dut_start(&dut, 1);
	struct sp_device *d = remote_attach(0, 0, 0, 100);
	uint32_t a = remote_opened(d, "qp=16;messages=60");
	CU_ASSERT_EQUAL(remote_try_open(d, "qp=17;messages=41", &b), -EDQUOT);
	CU_ASSERT_STRING_EQUAL(remote_error.text,
			       "this application may have at most 100 messages at once (messages in [limits])");
	b = remote_opened(d, "qp=17;messages=40");
	CU_ASSERT_EQUAL(d->account->messages, 100);
	CU_ASSERT_EQUAL(sp_context_close(&d->pub, a), 0);
	CU_ASSERT_EQUAL(d->account->messages, 40);
	remote_opened(d, "qp=16;messages=60");
	sp_dev_close(&d->pub);
	dut_stop(&dut);
}

TEST(a_limit_of_memory_counts_regions_areas_events_queues_and_state)
{
	struct sp_mr *mr, *none;

	dut_start(&dut, 1);
	uint64_t before = dut.nic->memory_used;
	struct sp_device *d = remote_attach(1 << 20, 0, 0, 0);
	uint64_t queues = d->account->memory;
	CU_ASSERT(queues >= SP_COMMANDS * 64 && queues < SP_COMMANDS * 64 + 8192);
	CU_ASSERT_EQUAL(sp_mr_alloc(&d->pub, (1 << 20) - queues + 1, &none), -EDQUOT);
	CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(&d->pub, 1, &mr), 0);
	CU_ASSERT_EQUAL(d->account->memory, queues + 4096); /* what it takes, not what was asked */
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	CU_ASSERT_EQUAL(d->account->memory, queues);
	uint32_t id = remote_opened(d, "qp=16");
	uint64_t context = d->account->memory - queues;
	CU_ASSERT(context >= SP_EVENTS * 64 + sizeof(struct remote_state));
	CU_ASSERT_EQUAL(sp_context_close(&d->pub, id), 0);
	CU_ASSERT_EQUAL(d->account->memory, queues);
	id = remote_opened(d, "qp=16;area=10000");
	CU_ASSERT_EQUAL(d->account->memory, queues + context + 12288);
	CU_ASSERT_EQUAL(sp_context_close(&d->pub, id), 0);
	id = remote_opened(d, "qp=16;alloc=100000");
	CU_ASSERT(d->account->memory >= queues + context + 100000 && d->account->memory < queues + context + 101000);
	CU_ASSERT_EQUAL(dut.nic->memory_used, before + d->account->memory);
	CU_ASSERT_EQUAL(sp_context_close(&d->pub, id), 0);
	for (unsigned i = 0; i < 3; i++) {
		static const char *const much[] = {"qp=16;area=2M", "qp=16;alloc=2M", "qp=16;messages=60000"};

		CU_ASSERT_EQUAL(remote_try_open(d, much[i], &id), -EDQUOT);
		CU_ASSERT_STRING_EQUAL(
			remote_error.text,
			"this application may have at most 1048576 bytes of memory (memory in [limits])");
		CU_ASSERT_EQUAL(d->account->memory, queues);
	}
	CU_ASSERT_EQUAL(dut.nic->memory_used, before + queues);
	sp_dev_close(&d->pub);
	CU_ASSERT_EQUAL(dut.nic->memory_used, before);
	{
		const struct sp_limits little = {.memory = 1000};

		CU_ASSERT_EQUAL(sp_device_create(dut.nic, true, &little, &d), -EDQUOT); /* not even its queues */
	}
	CU_ASSERT_EQUAL(dut.nic->memory_used, before);
	dut_stop(&dut);
}

TEST(a_limit_of_regions_keeps_one_from_taking_all_of_the_nics)
{
	struct sp_mr *mr = NULL, *first;
	uint32_t id;

	dut_start(&dut, 1);
	struct sp_device *d = remote_attach(0, 0, 0, 0);
	struct sp_device *other = remote_attach(0, 0, 0, 0);
	CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(&d->pub, 1, &first), 0);
	for (unsigned i = 1; i < SP_REGIONS; i++) {
		CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(&d->pub, 1, &mr), 0);
		sp_shm_close(sp_device_region(d, mr->id));
	}
	CU_ASSERT_EQUAL(sp_mr_alloc(&d->pub, 1, &mr), -EDQUOT);
	CU_ASSERT_EQUAL(remote_try_open(d, "qp=16;area=1", &id), -EDQUOT);
	CU_ASSERT_STRING_EQUAL(remote_error.text, "this application may have at most 512 regions and areas");
	CU_ASSERT_EQUAL(sp_mr_alloc(&other->pub, 1, &mr), 0);
	CU_ASSERT_EQUAL(sp_mr_free(first), 0);
	remote_opened(d, "qp=16;area=1");
	CU_ASSERT_EQUAL(sp_mr_alloc(&d->pub, 1, &mr), -EDQUOT);
	sp_dev_close(&other->pub);
	sp_dev_close(&d->pub);
	dut_stop(&dut);
}

TEST(a_limit_of_filters_keeps_one_from_taking_all_of_the_nics)
{
	uint32_t id, first = 0;

	dut_start(&dut, 1);
	struct sp_device *d = remote_attach(0, 0, 0, 0);
	struct sp_device *other = remote_attach(0, 0, 0, 0);
	for (unsigned i = 0; i < 8; i++) {
		id = remote_opened(d, "filter=udp port 7");
		first = i ? first : id;
	}
	CU_ASSERT_EQUAL(remote_try_open(d, "filter=udp port 7", &id), -EDQUOT);
	CU_ASSERT_STRING_EQUAL(remote_error.text, "this application may have at most 8 filters");
	remote_opened(d, "qp=16");
	remote_opened(other, "filter=udp port 7");
	CU_ASSERT_EQUAL(sp_context_close(&d->pub, first), 0);
	remote_opened(d, "filter=udp port 8");
	sp_dev_close(&other->pub);
	sp_dev_close(&d->pub);
	dut_stop(&dut);
}

TEST(a_failure_releases_everything)
{
	static const char *const bad[] = {
		"qp=16;qps=9",			   /* limit */
		"qp=16;messages=99",		   /* limit */
		"qp=16;qps=8;messages=50;area=4M", /* limit, after others were met */
		"qp=16;qps=8;control=yes",	   /* limit */
		"qp=16;qps=4;messages=50;area=100;alloc=1000;control=yes;fail=yes",
		"qp=900;qps=2",		 /* belongs to somebody else */
		"qp=899;qps=2;area=100", /* the second of them does */
		"qp=900;area=100",
		"area=100;qps=0", /* takes no packets */
		"qp=16;filter=nonsense;area=100",
		"qp=16;unheard=of",
		"qp=16;rate=fast",
		"qp=16;companion=nobody",
	};
	uint64_t memory;
	uint32_t id;

	dut_start(&dut, 1);
	struct sp_device *other = remote_attach(0, 0, 0, 0);
	remote_opened(other, "qp=900");
	struct sp_device *d = remote_attach(1 << 21, 3, 8, 64);
	memory = d->account->memory;
	uint64_t all = dut.nic->memory_used;
	unsigned open = descriptors();
	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		CU_ASSERT(remote_try_open(d, bad[i], &id) < 0);
		CU_ASSERT_EQUAL(d->account->memory, memory);
		CU_ASSERT_EQUAL(dut.nic->memory_used, all);
		CU_ASSERT_EQUAL(d->account->contexts, 0);
		CU_ASSERT_EQUAL(d->account->qps, 0);
		CU_ASSERT_EQUAL(d->account->messages, 0);
		CU_ASSERT_EQUAL(d->account->regions, 0);
		CU_ASSERT_EQUAL(descriptors(), open);
	}
	remote_opened(d, "qp=16;qps=7;control=yes;messages=64"); /* all of it is there still */
	sp_dev_close(&d->pub);
	sp_dev_close(&other->pub);
	dut_stop(&dut);
}

TEST(a_greedy_tenant_leaves_its_neighbour_its_part)
{
	struct sp_mr *mr;
	uint32_t id;

	dut_start(&dut, 2);
	struct sp_device *other = remote_attach(1 << 20, 2, 4, 16);
	uint32_t mine = remote_opened(other, "qp=900;messages=4");
	struct sp_device *greed = remote_attach(1 << 21, 3, 8, 64);
	while (!remote_try_open(greed, "qp=16;messages=64;qps=8", &id) ||
	       !remote_try_open(greed, "filter=udp;messages=1", &id))
		;
	for (uint64_t size = 1 << 21; size >= 4096; size /= 2)
		while (!sp_mr_alloc(&greed->pub, size, &mr))
			;
	CU_ASSERT_EQUAL(sp_mr_alloc(&greed->pub, 1, &mr), -EDQUOT);
	CU_ASSERT_EQUAL(other->account->contexts, 1);
	CU_ASSERT_EQUAL(other->account->qps, 1);
	CU_ASSERT_EQUAL(sp_mr_alloc(&other->pub, 100000, &mr), 0);
	remote_opened(other, "qp=901;qps=3;messages=12");
	CU_ASSERT_EQUAL(remote_call(other, mine, CMD_NOTE, 1), 0);
	sp_dev_close(&greed->pub);
	CU_ASSERT_EQUAL(remote_call(other, mine, CMD_NOTE, 1), 0);
	sp_dev_close(&other->pub);
	dut_stop(&dut);
}

TEST(an_application_that_goes_takes_all_that_it_had)
{
	dut_start(&dut, 2);
	uint64_t memory = dut.nic->memory_used;
	{ /* the notifier's thread and the like are there from the first on */
		struct sp_device *d = remote_attach(0, 0, 0, 0);

		sp_dev_close(&d->pub);
	}
	unsigned open = descriptors();
	for (unsigned i = 0; i < 100; i++) {
		struct sp_device *d = remote_attach(0, 0, 0, 0);
		uint32_t id = remote_opened(d, "qp=16;qps=5;area=5000;control=yes");
		struct sp_command cmd = {.op = CMD_EVENTS, .context = id, .arg = {500}};
		struct sp_mr *mr;

		CU_ASSERT_EQUAL(sp_mr_alloc(&d->pub, 1 << 16, &mr), 0);
		CU_ASSERT_EQUAL(sp_command_post(&d->pub, &cmd), 0);
		if (i % 2)
			dut_poll(&dut, i);
		if (i % 3)
			CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, id), 0);
		sp_dev_close(&d->pub);
		CU_ASSERT_EQUAL(dut.nic->memory_used, memory);
	}
	CU_ASSERT_EQUAL(descriptors(), open);
	dut_stop(&dut);
}

TEST(an_application_names_only_what_is_its_own)
{
	struct sp_event e;
	struct sp_mr *mr;

	dut_start(&dut, 1);
	uint32_t nics = dut_context(&dut, "nics", "greedy", "qp=10");
	struct sp_device *a = remote_attach(0, 0, 0, 0);
	struct sp_device *b = remote_attach(0, 0, 0, 0);
	CU_ASSERT(a->owner && b->owner && a->owner != b->owner);
	uint32_t ida = remote_opened(a, "qp=16");
	uint32_t idb = remote_opened(b, "qp=17");
	CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(&b->pub, 4096, &mr), 0);
	CU_ASSERT_EQUAL(remote_call(a, idb, CMD_NOTE, 1), -ENOENT);
	CU_ASSERT_EQUAL(remote_call(a, nics, CMD_NOTE, 1), -ENOENT);
	CU_ASSERT_EQUAL(sp_context_close(&a->pub, idb), -ENOENT);
	CU_ASSERT_EQUAL(sp_context_close(&a->pub, nics), -ENOENT);
	CU_ASSERT_EQUAL(sp_event_take(&a->pub, idb, &e), -ENOENT);
	CU_ASSERT_EQUAL(sp_event_take(&a->pub, nics, &e), -ENOENT);
	CU_ASSERT_PTR_NULL(sp_device_events(a, idb));
	CU_ASSERT_PTR_NULL(sp_device_region(a, mr->id));
	CU_ASSERT_PTR_NOT_NULL(sp_device_region(b, mr->id));
	struct sp_mr theirs = *mr;
	theirs.dev = &a->pub;
	CU_ASSERT_EQUAL(a->pub.ops->mr_free(&a->pub, &theirs), -ENOENT);
	CU_ASSERT_EQUAL(remote_call(a, ida, CMD_WRITE, mr->id), -ENOENT);
	CU_ASSERT_EQUAL(remote_call(b, idb, CMD_WRITE, mr->id), 0);
	CU_ASSERT_EQUAL(sp_mr_reg(&a->pub, &theirs, sizeof(theirs), &mr), -EOPNOTSUPP);
	CU_ASSERT_EQUAL(remote_state_of(nics)->commands, 0);
	sp_dev_close(&a->pub);
	sp_dev_close(&b->pub);
	dut_stop(&dut);
}
