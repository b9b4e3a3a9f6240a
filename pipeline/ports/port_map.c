/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for a port's DMA: registered with EAL, and mapped in the IOMMU. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* rte_dev_dma_map: experimental, and there is no other */
#include "../engine.h"
#include "port.h"

#include <stdlib.h>
#include <unistd.h>

#include <rte_errno.h>

static struct rte_device *mapped_device(const struct sp_port *port)
{
	struct rte_eth_dev_info info;

	if (!sp_port_reads_memory(port) || rte_eth_dev_info_get(port->ethdev, &info))
		return NULL;
	return info.device;
}

/* The n-th port of the NIC, the exception port last; NULL past it. */
static const struct sp_port *nth(const struct sp_nic *nic, unsigned n)
{
	return n < nic->ports ? &nic->port[n] : n == nic->ports && nic->has_exception ? nic->exception : NULL;
}

struct span {
	void *addr;
	uint64_t len;
};

static struct span pages(void *addr, uint64_t len)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)addr & ~(page - 1);

	return (struct span){(void *)first, RTE_ALIGN((uintptr_t)addr + len - first, page)};
}

static int extmem_register(struct span s)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), n = s.len / page;
	rte_iova_t *iova = malloc(n * sizeof(*iova));
	int r = 0;

	if (!iova)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) /* IOVA is the virtual address; otherwise the port is not `mapped` */
		iova[i] = (rte_iova_t)(uintptr_t)s.addr + i * page;
	if (rte_extmem_register(s.addr, s.len, iova, (unsigned)n, page))
		r = -rte_errno;
	free(iova);
	return r;
}

static void unmap_ports(struct sp_nic *nic, struct span s, unsigned until)
{
	for (unsigned i = 0; i < until; i++) {
		struct rte_device *d = mapped_device(nth(nic, i));

		if (d)
			rte_dev_dma_unmap(d, s.addr, (uint64_t)(uintptr_t)s.addr, s.len);
	}
}

int sp_port_map(struct sp_nic *nic, void *addr, uint64_t len)
{
	struct span s = pages(addr, len);
	bool registered = false;
	unsigned i;
	int r = 0;

	for (i = 0; nth(nic, i) && !r; i++) {
		struct rte_device *d = mapped_device(nth(nic, i));

		if (!d)
			continue;
		if (!registered) {
			r = extmem_register(s);
			registered = !r;
		}
		/* ports in one VFIO container share a mapping */
		if (!r && rte_dev_dma_map(d, s.addr, (uint64_t)(uintptr_t)s.addr, s.len) && rte_errno != EEXIST)
			r = rte_errno ? -rte_errno : -ENOMEM;
	}
	if (!r || !registered)
		return r;
	unmap_ports(nic, s, i - 1);
	rte_extmem_unregister(s.addr, s.len);
	return r;
}

void sp_port_unmap(struct sp_nic *nic, void *addr, uint64_t len)
{
	struct span s = pages(addr, len);
	unsigned n = 0;
	bool mapped = false;

	while (nth(nic, n))
		mapped |= mapped_device(nth(nic, n++)) != NULL;
	if (!mapped)
		return;
	unmap_ports(nic, s, n);
	rte_extmem_unregister(s.addr, s.len);
}
