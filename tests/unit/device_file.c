/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of devices: what they say, and what is said of their mistakes; costs; the devices that come with Spindle. */
#include <math.h>

#include "../../pipeline/observe/trace.h"
#include "../../testbed/device/load.h"
#include "../../testbed/random.h"
#include "../lib/suite.h"

static struct sp_device device;
static struct sp_error error;

static int parse(const char *text)
{
	return sp_device_parse("d.ini", text, strlen(text), &device, &error);
}

static void refused(const char *text, const char *says)
{
	CU_ASSERT_EQUAL(parse(text), -EINVAL);
	if (strcmp(error.text, says))
		printf("# %s\n# not: %s\n", error.text, says);
	CU_ASSERT_STRING_EQUAL(error.text, says);
}

/* ---- what a file says ---- */

TEST(a_file_describes_a_device)
{
	CU_ASSERT_EQUAL(
		parse("[device]\nabout = a; b ; comment\ncores = 8\nclock = 2.5GHz\nhost-cycles = 1.5\nplacement = "
		      "worker\nmatching = core\narrive = 13ns\narrive-rate = 400G\ndma-latency = 0.5us\n"
		      "packet-overhead = 24\npacket-interval = 6.7ns\nbuffer = 4M\nline-rate = 100G\n"
		      "[cost]\nsdr = 10\nsdr.header = 2 + 3/word\n"),
		0);
	CU_ASSERT_STRING_EQUAL(device.name, "d");
	CU_ASSERT_STRING_EQUAL(device.about, "a; b");
	CU_ASSERT_EQUAL(device.cores, 8);
	CU_ASSERT_EQUAL(device.clock, 2.5e9);
	CU_ASSERT_EQUAL(device.host_cycles, 1.5);
	CU_ASSERT_TRUE(device.by_worker && device.core_matches);
	CU_ASSERT_EQUAL(device.arrive, 13 * SP_NS);
	CU_ASSERT_EQUAL(device.dma_latency, 500 * SP_NS);
	CU_ASSERT_EQUAL(device.buffer, 4 << 20);
	CU_ASSERT_EQUAL(device.costs.count, 2);
	CU_ASSERT_EQUAL(sp_device_time(&device, 5), 2 * SP_NS);
	CU_ASSERT_EQUAL(sp_device_wire_time(&device, 101), 10 * SP_NS); /* 125 bytes at 100 Gbit/s */
	CU_ASSERT_EQUAL(sp_device_wire_time(&device, 1), 6700);		/* the least time between two */
}

TEST(mistakes_are_named_with_file_line_and_key)
{
	refused("", "d.ini:1: there is no section [device]");
	refused("[device]\ncores = 0\n", "d.ini:2: cores: '0' is no number from 1 to 4096");
	refused("[device]\n\ncores = 8x\n", "d.ini:3: cores: '8x' is no number from 1 to 4096");
	refused("[device]\nclock = fast\n", "d.ini:2: clock: 'fast' is no clock (1.8GHz, 40MHz), nor host");
	refused("[device]\nhost-cycles = nan\n", "d.ini:2: host-cycles: 'nan' is no number above 0 and up to 1000");
	refused("[device]\narrive = 2s\n", "d.ini:2: arrive: '2s' is no time up to 1s (26ns, 1.5us)");
	refused("[device]\ndma-rate = 0\n", "d.ini:2: dma-rate: '0' is no rate in bit/s, 1 to 1000T (400G)");
	refused("[device]\nplacement = here\n", "d.ini:2: placement: 'here' is neither any nor worker");
	refused("[device]\nlatency = 1ns\n", "d.ini:2: [device] has no key latency");
	refused("[device]\ncore = 1\n", "d.ini:2: [device] has no key core; is cores meant?");
	refused("[device]\n[devise]\n",
		"d.ini:2: unknown section [devise], is [device] meant?; there are [device], [cost] and [check NAME]");
	refused("[device]\n[cost]\nsdr = -1\n", "d.ini:3: sdr: '-1' does not begin with a number of cycles");
	refused("[device]\n[cost]\nsdr.paylod = 1\n",
		"d.ini:3: sdr.paylod: a handler has no function 'paylod' (payload, header, completion, ...)");
	refused("[device]\n[check]\n", "d.ini:2: [check NAME] needs a name");
	refused("[device]\nline-rate = 1G\n[check a]\nbytes = 5\n",
		"d.ini:3: [check a] has nothing to compare with: latency, packets-per-second, cores-needed or budget");
	refused("[device]\n[check a]\nlatency = 1ns\n", "d.ini:2: [check a] needs a rate: the device has no line-rate");
	refused("[device]\n[check a]\nlatency = 1ns\nbudget = 3\n",
		"d.ini:4: budget: a check has one result to compare with, and this is its second");
}

/* ---- costs ---- */

TEST(a_cost_is_a_sum_of_terms)
{
	const struct sp_cost_work work = {.bytes = 100, .writes = 1000, .words = 3, .frames = 2, .events = 1};
	static const struct {
		const char *text;
		double cycles;
	} good[] = {{"38", 38},
		    {" 1163.5 + 756/word ", 1163.5 + 3 * 756},
		    {"0.5/byte+1/write", 1050},
		    {"7/frame + 5/event + 1/call", 20},
		    {"100/word - 50", 250},
		    {"1 - 1/byte", 0}};
	static const char *const bad[] = {"",	 "x",	"1 2",	"1/byt", "1/",	    "1 +",	   "+1",
					  "nan", "inf", "1e99", "-3",	 "1//byte", "0x10/byte/x", "1 + + 2"};
	struct sp_cost cost;
	char why[120];

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		CU_ASSERT_EQUAL(sp_cost_parse(good[i].text, &cost, why), 0);
		CU_ASSERT_DOUBLE_EQUAL(sp_cost_of(&cost, &work), good[i].cycles, 1e-9);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CU_ASSERT_EQUAL(sp_cost_parse(bad[i], &cost, why), -EINVAL);
}

TEST(a_handler_with_a_row_costs_what_its_rows_say_and_others_are_measured)
{
	const struct sp_cost_work none = {0};
	struct sp_costs costs = {.count = 0};
	char why[120];

	CU_ASSERT_PTR_NULL(sp_costs_find(&costs, "sdr", SP_CALLED_PAYLOAD));
	CU_ASSERT_EQUAL(sp_costs_set(&costs, "sdr", "5", why), 0);
	CU_ASSERT_EQUAL(sp_costs_set(&costs, "sdr.payload", "6", why), 0); /* the same, and replaces it */
	CU_ASSERT_EQUAL(costs.count, 1);
	CU_ASSERT_EQUAL(sp_cost_of(sp_costs_find(&costs, "sdr", SP_CALLED_PAYLOAD), &none), 6);
	CU_ASSERT_EQUAL(sp_cost_of(sp_costs_find(&costs, "sdr", SP_CALLED_HEADER), &none), 0);
	CU_ASSERT_PTR_NULL(sp_costs_find(&costs, "rvma", SP_CALLED_PAYLOAD));
	CU_ASSERT_EQUAL(sp_costs_set(&costs, "*.header", "7", why), 0);
	CU_ASSERT_EQUAL(sp_cost_of(sp_costs_find(&costs, "rvma", SP_CALLED_HEADER), &none), 7);
	CU_ASSERT_EQUAL(sp_cost_of(sp_costs_find(&costs, "rvma", SP_CALLED_PAYLOAD), &none), 0);
	CU_ASSERT_EQUAL(sp_cost_of(sp_costs_find(&costs, "sdr", SP_CALLED_HEADER), &none), 0);
}

/* ---- the devices that there are ---- */

static char folder[512];

static const char *devices(void)
{
	const char *source = getenv("MESON_SOURCE_ROOT");

	if (!source)
		return "MESON_SOURCE_ROOT is not set";
	snprintf(folder, sizeof(folder), "%s/devices", source);
	setenv("SPINDLE_DEVICES", folder, 1);
	return NULL;
}

static int one(void *arg, const char *path)
{
	unsigned *n = arg;

	CU_ASSERT_EQUAL(sp_device_read(path, &device, &error), 0);
	CU_ASSERT_TRUE(*device.about && (device.cores || !strcmp(device.name, "host")));
	for (unsigned i = 0; i < device.checks; i++) {
		const struct sp_device_check *c = &device.check[i];
		double value;

		CU_ASSERT_EQUAL(sp_device_check_run(&device, c, &value), 0);
		if (fabs(value / c->value - 1) > 0.01)
			printf("# %s, %s: %g instead of %g\n", device.name, c->name, value, c->value);
		CU_ASSERT_DOUBLE_EQUAL(value / c->value, 1, c->fitted ? 0.002 : 0.06);
		CU_ASSERT_TRUE(*c->about && *c->source);
	}
	(*n)++;
	return 0;
}

TEST_IF(devices, each_device_is_read_and_what_follows_of_it_differs_by_6_percent_at_most)
{
	unsigned n = 0;

	CU_ASSERT_EQUAL(sp_device_each(one, &n), 0);
	CU_ASSERT_TRUE(n >= 4);
}

/* What the checks say, worked out by hand. */
TEST_IF(devices, checks_are_worked_out_as_by_hand)
{
	const struct sp_device_check *c;
	double value;

	CU_ASSERT_EQUAL_FATAL(sp_device_find("dpa", &device, &error), 0);
	c = &device.check[0];
	CU_ASSERT_EQUAL(sp_device_check_run(&device, c, &value), 0);
	CU_ASSERT_DOUBLE_EQUAL(value, 16 * 1.8e9 / (1163.7 + 756.3), 1000);
	CU_ASSERT_EQUAL_FATAL(sp_device_find("pspin", &device, &error), 0);
	c = &device.check[1];
	CU_ASSERT_EQUAL(sp_device_check_run(&device, c, &value), 0);
	CU_ASSERT_DOUBLE_EQUAL(value * 1e9, 13 + 10.1 + 38 + 2 * 8192 / 350.0, 0.01);
}

TEST_IF(devices, a_device_that_there_is_not_lists_those_that_there_are)
{
	CU_ASSERT_EQUAL(sp_device_find("pspim", &device, &error), -ENOENT);
	CU_ASSERT_STRING_EQUAL(error.text,
			       "there is no device pspim; there are dpa, fpspin, host, pspin, spin2017, or the "
			       "path of a file");
	CU_ASSERT_EQUAL(sp_device_find("./none.ini", &device, &error), -ENOENT);
	CU_ASSERT_STRING_EQUAL(error.text, "./none.ini: No such file or directory");
	setenv("SPINDLE_DEVICES", "/nowhere", 1);
	CU_ASSERT_EQUAL(sp_device_find("pspin", &device, &error), -ENOENT);
	devices();
}

TEST_IF(devices, no_damage_to_a_file_does_harm)
{
	char path[600], text[8192], bad[8192];
	struct sp_random r;
	size_t len;
	FILE *f;

	snprintf(path, sizeof(path), "%s/pspin.ini", folder);
	f = fopen(path, "re");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	len = fread(text, 1, sizeof(text), f);
	fclose(f);
	sp_random_seed(&r, 1, 0);
	for (unsigned i = 0; i < suite_times(2000); i++) {
		memcpy(bad, text, len);
		for (unsigned k = 0; k <= i % 4; k++)
			bad[sp_random_next(&r) % len] = (char)sp_random_next(&r);
		if (sp_device_parse("d.ini", bad, len - sp_random_next(&r) % 64, &device, &error))
			CU_ASSERT_EQUAL(strncmp(error.text, "d.ini:", 6), 0);
	}
}
