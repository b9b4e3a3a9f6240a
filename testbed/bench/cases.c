/* SPDX-License-Identifier: BSD-3-Clause */
#include "cases.h"

#include <stddef.h>

/* Each ends with a case without a name. They are declared here, not in bench.h, so that no case depends on the list. */
extern const struct bench_case bench_receive[], bench_workers[], bench_send[], bench_engine[], bench_table[],
	bench_virtual[], bench_memory[], bench_rvma[], bench_puts[], bench_rdma[], bench_rdma_send[], bench_ec[],
	bench_bpf[], bench_latency[], bench_file[], bench_stream[], bench_idle[], bench_start[];

const struct bench_case *bench_case(unsigned index)
{
	static const struct bench_case *const families[] = {
		bench_receive, bench_workers, bench_send, bench_engine, bench_table,	 bench_virtual,
		bench_memory,  bench_rvma,    bench_puts, bench_rdma,	bench_rdma_send, bench_ec,
		bench_bpf,     bench_latency, bench_file, bench_stream, bench_idle,	 bench_start};

	for (unsigned f = 0; f < sizeof(families) / sizeof(*families); f++)
		for (const struct bench_case *c = families[f]; c->name; c++)
			if (!index--)
				return c;
	return NULL;
}
