/* SPDX-License-Identifier: BSD-3-Clause */
#include "ec_reference.h"

uint8_t ec_product[256][256], ec_inverse[256];

void ec_field(void)
{
	if (ec_inverse[1])
		return;
	for (unsigned a = 0; a < 256; a++)
		for (unsigned b = 0; b < 256; b++) {
			unsigned sum = 0, x = a;

			for (unsigned bit = 0; bit < 8; bit++, x = x << 1 ^ (x & 0x80 ? 0x11d : 0))
				if (b >> bit & 1)
					sum ^= x;
			ec_product[a][b] = (uint8_t)sum;
			if (sum == 1)
				ec_inverse[a] = (uint8_t)b;
		}
}

unsigned ec_rows(unsigned k, unsigned m, unsigned data)
{
	return (data * m + k - 1) / k;
}

/* What data chunk j is multiplied with in chunk i: of k' data and rows parity chunks. */
static uint8_t ec_element(enum sp_ec_kind kind, unsigned data, unsigned rows, unsigned i, unsigned j)
{
	if (i < data)
		return i == j;
	return kind == SP_EC_XOR ? j % rows == i - data : ec_inverse[(255 - (i - data)) ^ j];
}

bool ec_determined(enum sp_ec_kind kind, unsigned data, unsigned rows, const uint64_t *missing)
{
	static uint8_t a[256][256];
	unsigned n = 0, rank = 0;

	for (unsigned i = 0; i < data + rows; i++) {
		if (missing[i / 64] >> (i % 64) & 1)
			continue;
		for (unsigned j = 0; j < data; j++)
			a[n][j] = ec_element(kind, data, rows, i, j);
		n++;
	}
	for (unsigned j = 0; j < data; j++) {
		unsigned pivot = rank;
		uint8_t line[256];

		while (pivot < n && !a[pivot][j])
			pivot++;
		if (pivot == n)
			return false;
		memcpy(line, a[pivot], sizeof(line));
		memcpy(a[pivot], a[rank], sizeof(line));
		memcpy(a[rank], line, sizeof(line));
		for (unsigned i = rank + 1; i < n; i++) {
			const uint8_t factor = ec_product[a[i][j]][ec_inverse[line[j]]];

			for (unsigned c = j; factor && c < data; c++)
				a[i][c] ^= ec_product[factor][line[c]];
		}
		rank++;
	}
	return true;
}

uint32_t ec_length(const struct ec_area *a, unsigned i)
{
	return i == a->sub.data - 1 ? a->sub.last : a->sub.bytes;
}

void ec_area_new(struct ec_area *a, enum sp_ec_kind kind, unsigned k, unsigned m, unsigned data, uint32_t bytes,
		 uint32_t last, struct sp_random *random)
{
	ec_field();
	*a = (struct ec_area){
		.sub = {.data = data, .bytes = bytes, .last = last, .cold = random && sp_random_next(random) % 2},
		.kind = kind,
		.rows = ec_rows(k, m, data)};
	for (unsigned i = 0; i < data + a->rows; i++) {
		const uint32_t length = ec_length(a, i);
		const unsigned off = random ? (unsigned)(sp_random_next(random) % 64) : 0;

		a->memory[i] = malloc(length + 2 * EC_GUARD + 64);
		memset(a->memory[i], EC_FILL, length + 2 * EC_GUARD + 64);
		a->chunk[i] = a->memory[i] + EC_GUARD + off;
		a->right[i] = calloc(1, bytes);
		for (uint32_t b = 0; i < data && b < length; b++)
			a->right[i][b] = random ? (uint8_t)(sp_random_next(random) >> 24)
						: (uint8_t)(i * 131 + b * b * 7 + b * 29 + (b >> 8) * 53 + 11);
		if (i < data)
			memcpy(a->chunk[i], a->right[i], length);
	}
	for (unsigned i = data; i < data + a->rows; i++)
		for (unsigned j = 0; j < data; j++) {
			const uint8_t *product = ec_product[ec_element(kind, data, a->rows, i, j)];

			for (uint32_t b = 0; b < bytes; b++)
				a->right[i][b] ^= product[a->right[j][b]];
		}
}

const struct sp_ec_submessage *ec_sub(struct ec_area *a)
{
	a->sub.chunk = a->chunk;
	return &a->sub;
}

void ec_area_free(struct ec_area *a)
{
	for (unsigned i = 0; i < a->sub.data + a->rows; i++) {
		free(a->memory[i]);
		free(a->right[i]);
	}
}

void ec_fill(struct ec_area *a, unsigned i, uint8_t byte)
{
	memset(a->chunk[i], byte, ec_length(a, i));
}

bool ec_is_right(const struct ec_area *a, unsigned i)
{
	return !memcmp(a->chunk[i], a->right[i], ec_length(a, i));
}

bool ec_is_filled(const struct ec_area *a, unsigned i, uint8_t byte)
{
	for (uint32_t b = 0; b < ec_length(a, i); b++)
		if (a->chunk[i][b] != byte)
			return false;
	return true;
}

bool ec_guarded(const struct ec_area *a)
{
	for (unsigned i = 0; i < a->sub.data + a->rows; i++) {
		const uint8_t *end = a->chunk[i] + ec_length(a, i);

		for (const uint8_t *p = a->memory[i]; p < a->chunk[i]; p++)
			if (*p != EC_FILL)
				return false;
		for (const uint8_t *p = end; p < a->memory[i] + ec_length(a, i) + 2 * EC_GUARD + 64; p++)
			if (*p != EC_FILL)
				return false;
	}
	return true;
}

void ec_set(uint64_t *bitmap, unsigned i)
{
	bitmap[i / 64] |= 1ull << (i % 64);
}

const struct sp_ec_kernel *ec_kernel(unsigned i)
{
#ifdef __x86_64__
	static const struct sp_ec_kernel *const all[] = {&sp_ec_baseline, &sp_ec_avx2, &sp_ec_avx512, &sp_ec_gfni};
	const unsigned count = sp_isa_best() == SP_ISA_AVX512 ? 4
			       : sp_isa_best() == SP_ISA_AVX2 ? (sp_isa_wide() ? 3 : 2)
							      : 1;

	return i < count ? all[i] : NULL;
#else
	return i ? NULL : &sp_ec_baseline;
#endif
}

struct ec_code *ec_code_by(const struct sp_ec_kernel *kernel, enum sp_ec_kind kind, unsigned k, unsigned m)
{
	struct ec_code *c = malloc(sizeof(*c));
	const size_t bytes = sp_ec_code_bytes(kind, k, m);

	for (unsigned i = 0; i < 2; i++)
		if (posix_memalign(&c->memory[i], 64, bytes))
			abort();
	if (sp_ec_code_init_by(&c->code, kernel, kind, k, m, c->memory[0]))
		abort();
	sp_ec_job_init(&c->job, c->memory[1]);
	return c;
}

struct ec_code *ec_code_new(enum sp_ec_kind kind, unsigned k, unsigned m)
{
	return ec_code_by(&sp_ec_baseline, kind, k, m);
}

void ec_code_free(struct ec_code *c)
{
	free(c->memory[0]);
	free(c->memory[1]);
	free(c);
}

unsigned ec_run(struct ec_code *c, uint64_t budget)
{
	unsigned slices = 1;

	while (sp_ec_job_step(&c->job, budget))
		slices++;
	return slices;
}

const uint64_t NOTHING[SP_EC_WORDS];
