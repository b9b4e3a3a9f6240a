/* SPDX-License-Identifier: BSD-3-Clause */
#include "quantile.h"

/* The value at this place in sorted order (Hoare's selection; equal values, of which there are many, are split). */
static double select_place(double *v, uint64_t n, uint64_t place)
{
	uint64_t from = 0, to = n - 1;

	while (from < to) {
		double pivot = v[from + (to - from) / 2];
		uint64_t i = from, j = to;

		for (;;) {
			while (v[i] < pivot)
				i++;
			while (v[j] > pivot)
				j--;
			if (i >= j)
				break;
			double swapped = v[i];
			v[i++] = v[j];
			v[j--] = swapped;
		}
		if (place <= j)
			to = j;
		else
			from = j + 1;
	}
	return v[place];
}

double sp_quantile(double *v, uint64_t n, uint64_t thousandths)
{
	return select_place(v, n, (n * thousandths + 999) / 1000 - 1);
}
