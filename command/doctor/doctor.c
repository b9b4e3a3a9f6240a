/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle doctor: checks what a NIC needs of this machine. It changes nothing. */
#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/capability.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "../../handlers/isa/isa.h"
#include "../../pipeline/nic.h"
#include "../../pipeline/observe/report.h"
#include "../command.h"
#include "../options.h"
#include "finding.h"
#include "interface.h"
#include "port.h"
#include "../output.h"
#include "../run/calls.h"
#include "../run/landlock.h"

/* ---- the processor ------------------------------------------------------------------------------ */
#if defined(__x86_64__)
static bool cpuid_bit(uint32_t leaf, char reg, unsigned bit)
{
	uint32_t a, b, c, d;

	if (!__get_cpuid_count(leaf, 0, &a, &b, &c, &d))
		return false;
	return (reg == 'c' ? c : d) >> bit & 1;
}

static void check_cpu(struct doctor *d)
{
	static const char *const slower[] = {
		[SP_ISA_AVX2] = "bitmaps, copies and erasure codes are several times slower",
		[SP_ISA_AVX512] = "ICRC of large packets is slower, erasure codes run at half speed"};
	const enum sp_isa_level best = sp_isa_best();
	char lacks[160];

	doctor_say(d, FINE, "cpu", NULL, "kernels of level %s run; SPINDLE_ISA takes %s%s%s",
		   sp_isa_name(sp_isa_level()), sp_isa_name(0), best > 0 ? ", " : "",
		   best > 1 ? "avx2, avx512"
		   : best   ? "avx2"
			    : "");
	if (best == SP_ISA_AVX512)
		return;
	sp_isa_lacks(best + 1, lacks, sizeof(lacks));
	doctor_say(d, best ? FINE : ATTENTION, "cpu", best ? NULL : "in a virtual machine: pass the host's CPU through",
		   "no level %s, for which it lacks %s: %s", sp_isa_name(best + 1), lacks, slower[best + 1]);
}

static void check_clock(struct doctor *d)
{
	bool invariant = cpuid_bit(0x80000007, 'd', 8);
	bool waits = cpuid_bit(7, 'c', 5) || cpuid_bit(0x80000001, 'c', 29);

	doctor_say(d, invariant ? FINE : ATTENTION, "clock",
		   invariant ? NULL
			     : "expect wrong times where the CPU changes its frequency; in a virtual machine: pass the "
			       "host's CPU through",
		   "the time stamp counter is %s", invariant ? "invariant" : "not marked as invariant");
	doctor_say(d, FINE, "waiting", NULL,
		   waits ? "umwait or mwaitx is there: a completion word can be waited for without spinning"
			 : "neither umwait (WAITPKG) nor mwaitx: waiting for a completion word spins or sleeps");
}
#else
static void check_cpu(struct doctor *d)
{
	doctor_say(d, ATTENTION, "cpu", "use an x86-64 machine", "not x86-64: nothing here has been measured on it");
}

static void check_clock(struct doctor *d)
{
	(void)d;
}
#endif

static void check_cores(struct doctor *d)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set)) {
		doctor_say(d, FINE, "cores", NULL, "%ld in the machine", sysconf(_SC_NPROCESSORS_ONLN));
		return;
	}
	int cores = CPU_COUNT(&set);
	doctor_say(d, cores < 2 ? ATTENTION : FINE, "cores",
		   cores < 2 ? "give this process a second core (taskset, cgroup): NIC and application share this one"
			     : NULL,
		   "%d for this process: one a worker, and one for the application", cores);
}

/* ---- memory and rights -------------------------------------------------------------------------- */
static void check_hugepages(struct doctor *d)
{
	static const char *const sizes[] = {"2048kB", "1048576kB"};
	char line[64];
	unsigned long long total = 0;

	for (unsigned i = 0; i < 2; i++) {
		const char *base = "/sys/kernel/mm/hugepages/hugepages-";
		unsigned long long pages =
			strtoull(doctor_file(line, sizeof(line), "%s%s/nr_hugepages", base, sizes[i]), NULL, 10);
		unsigned long long unused =
			strtoull(doctor_file(line, sizeof(line), "%s%s/free_hugepages", base, sizes[i]), NULL, 10);
		total += pages;
		if (pages)
			doctor_say(d, unused ? FINE : ATTENTION, "huge pages",
				   unused ? NULL : "end the program that holds them, or reserve more",
				   "%llu of %s, %llu free", pages, sizes[i], unused);
	}
	if (!total)
		doctor_say(d, ATTENTION, "huge pages",
			   "PCI ports want them, other ports work without: echo 512 | sudo tee "
			   "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
			   "none reserved");
}

static void check_memlock(struct doctor *d)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit))
		return;
	if (limit.rlim_cur == RLIM_INFINITY)
		doctor_say(d, FINE, "locked memory", NULL, "no limit");
	else
		doctor_say(d, limit.rlim_cur < 512ull << 20 ? ATTENTION : FINE, "locked memory",
			   limit.rlim_cur < 512ull << 20
				   ? "PCI ports without root need more: ulimit -l unlimited, or memlock in "
				     "/etc/security/limits.conf"
				   : NULL,
			   "limit %llu KiB", (unsigned long long)limit.rlim_cur >> 10);
}

static void check_rights(struct doctor *d)
{
	static const struct {
		int bit;
		const char *name, *use;
	} capability[] = {
		{CAP_NET_RAW, "CAP_NET_RAW", "af_packet and af_xdp ports, pcap on an interface"},
		{CAP_NET_ADMIN, "CAP_NET_ADMIN",
		 "tap (also as the exception port), af_packet and af_xdp ports, changing an interface's MTU"},
		{CAP_IPC_LOCK, "CAP_IPC_LOCK", "memory beyond the limit of locked memory, for PCI and af_xdp ports"},
		{CAP_SYS_ADMIN, "CAP_SYS_ADMIN",
		 "af_xdp ports; network namespaces; physical addresses, where there is no IOMMU"},
	};
	char line[256];
	FILE *f = fopen("/proc/self/status", "re");
	unsigned long long set = 0;

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "CapEff:", 7))
			set = strtoull(line + 7, NULL, 16);
	if (f)
		fclose(f);
	for (unsigned i = 0; i < sizeof(capability) / sizeof(*capability); i++) {
		bool has = set >> capability[i].bit & 1;
		doctor_say(d, has ? FINE : ATTENTION, "rights",
			   has ? NULL : "only if you need that: run as root, or setcap on the executable",
			   "%s %s: for %s", has ? "has" : "lacks", capability[i].name, capability[i].use);
	}
}

/* What spindle run fences itself in with. */
static void check_sandbox(struct doctor *d)
{
	const int calls = calls_supported(), files = landlock_version();

	if (calls_unfiltered_build)
		doctor_say(d, ATTENTION, "sandbox", "use a build without sanitizers where others have access",
			   "this build has sanitizers: spindle run restricts neither system calls nor files");
	if (!calls)
		doctor_say(d, FINE, "system calls", NULL, "seccomp filters what spindle run may call");
	else
		doctor_say(d, ATTENTION, "system calls",
			   "CONFIG_SECCOMP_FILTER in the kernel; in a container, let it use seccomp()",
			   "seccomp is not available (%s): spindle run goes on without a filter of system calls",
			   strerror(-calls));
	if (files > 0)
		doctor_say(d, FINE, "files", NULL, "landlock, version %d, restricts what spindle run may open%s", files,
			   files < 4 ? "; TCP is not its business before version 4" : "");
	else
		doctor_say(d, ATTENTION, "files", "boot with lsm=landlock,... (CONFIG_SECURITY_LANDLOCK, Linux 5.13)",
			   "landlock is not available (%s): spindle run goes on without restricting files",
			   strerror(-files));
}

static unsigned entries(const char *directory)
{
	DIR *dir = opendir(directory);
	unsigned count = 0;

	for (struct dirent *e; dir && (e = readdir(dir));)
		count += e->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return count;
}

static void check_iommu(struct doctor *d)
{
	bool iommu = entries("/sys/class/iommu") > 0, vfio = !access("/dev/vfio/vfio", F_OK);

	doctor_say(d, iommu ? FINE : ATTENTION, "iommu",
		   iommu ? NULL
			 : "only for PCI ports by vfio: turn it on in the firmware and with intel_iommu=on (AMD: it is "
			   "on), or "
			   "use vfio's enable_unsafe_noiommu_mode",
		   iommu ? "present" : "none");
	doctor_say(d, vfio ? FINE : ATTENTION, "vfio",
		   vfio ? NULL
			: "only for PCI ports (not Mellanox): sudo modprobe vfio-pci, then dpdk-devbind.py -b vfio-pci",
		   vfio ? "loaded" : "not loaded");
}

/* ---- the command -------------------------------------------------------------------------------- */
static void (*const checks[])(struct doctor *) = {
	check_cpu,     check_clock, check_cores,       check_hugepages, check_memlock, check_rights,
	check_sandbox, check_iommu, doctor_interfaces, doctor_dpdk,	doctor_config,
};

static const struct usage usage = {
	.command = "doctor",
	.forms = "spindle doctor [-c nic.ini] [--json] [-- EAL ARGUMENTS]",
	.about = "Checks whether this machine is fine for a NIC, and says what to do about problems. It changes "
		 "nothing. With "
		 "-c it also checks the configuration, its ports (as the EAL arguments make them) and clashes with the "
		 "kernel's addresses. Example: spindle doctor -c nic.ini -- --vdev=net_af_packet0,iface=eth1",
	.end = "Exit status: 0 no problem, 1 a problem, 2 wrong usage.",
	.eal = INT_MAX,
};

#define AT(field) OPTION_AT(struct doctor, field)

static const struct option_row rows[] = {
	{"config", 'c', OPTION_STRING, "FILE", "the configuration of a NIC", AT(config_file)},
	{"json", 0, OPTION_FLAG, NULL, "print JSON", AT(json)},
	{0},
};

static int finish(struct doctor *d)
{
	int status = d->count[PROBLEM] ? 1 : 0;

	if (!d->report) {
		printf("\n%u fine, %u to look at, %u problem%s\n", d->count[FINE], d->count[ATTENTION],
		       d->count[PROBLEM], d->count[PROBLEM] == 1 ? "" : "s");
		return status;
	}
	sp_report_close(d->report);
	sp_report_uint(d->report, "fine", d->count[FINE]);
	sp_report_uint(d->report, "attention", d->count[ATTENTION]);
	sp_report_uint(d->report, "problem", d->count[PROBLEM]);
	char *text = sp_report_finish(d->report);
	if (!text)
		return command_fail("doctor", "no memory for the report");
	puts(text);
	free(text);
	return status;
}

int command_doctor(int argc, char **argv)
{
	struct doctor d = {0};
	struct options o = {&usage, {{NULL, rows, &d, NULL}}};
	const int status = options_parse(&o, argc, argv);

	if (status != OPTIONS_GO_ON)
		return status;
	d.eal_argc = o.eals;
	d.eal_argv = o.eal;
	if (d.json) {
		d.report = sp_report_new();
		sp_report_open(d.report, "checks", true);
		if (!d.report)
			return 1;
	}
	for (unsigned i = 0; i < sizeof(checks) / sizeof(*checks); i++)
		checks[i](&d);
	return finish(&d);
}
