/* SPDX-License-Identifier: BSD-3-Clause */
/* An MPI program that compares all that it gets with what was sent: MPI_Alltoall of 8 B to 256 KiB, a ring, and
 * messages that arrive before they are asked for. "right N" at the end, N: the ranks. With an argument it goes on until
 * it is killed: "begun" after each round. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

#define EARLY 20

static unsigned char byte(int from, int to, size_t i)
{
	return (unsigned char)(from * 7 + to * 13 + (int)(i * 31 >> 3));
}

static int alltoall(int rank, int ranks, size_t len)
{
	unsigned char *out = malloc(len * (size_t)ranks), *in = calloc((size_t)ranks, len);
	int wrong = 0;

	for (int r = 0; r < ranks; r++)
		for (size_t i = 0; i < len; i++)
			out[(size_t)r * len + i] = byte(rank, r, i);
	MPI_Alltoall(out, (int)len, MPI_BYTE, in, (int)len, MPI_BYTE, MPI_COMM_WORLD);
	for (int r = 0; r < ranks; r++)
		for (size_t i = 0; i < len; i++)
			wrong += in[(size_t)r * len + i] != byte(r, rank, i);
	free(out);
	free(in);
	return wrong;
}

static int ring(int rank, int ranks)
{
	int value = 1;

	if (!rank)
		MPI_Send(&value, 1, MPI_INT, 1 % ranks, 0, MPI_COMM_WORLD);
	MPI_Recv(&value, 1, MPI_INT, (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	value += rank > 0;
	if (rank)
		MPI_Send(&value, 1, MPI_INT, (rank + 1) % ranks, 0, MPI_COMM_WORLD);
	return value != (rank ? rank + 1 : ranks);
}

/* They are received in the other order of their tags. */
static int early(int rank, int ranks)
{
	static unsigned char out[EARLY][9000], in[9000];
	const int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
	MPI_Request request[EARLY];
	int wrong = 0;

	for (int k = 0; k < EARLY; k++) {
		for (size_t i = 0; i < sizeof(out[k]); i++)
			out[k][i] = byte(rank + k, to, i);
		MPI_Isend(out[k], sizeof(out[k]), MPI_BYTE, to, k, MPI_COMM_WORLD, &request[k]);
	}
	for (int k = EARLY; k--;) {
		MPI_Recv(in, sizeof(in), MPI_BYTE, from, k, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (size_t i = 0; i < sizeof(in); i++)
			wrong += in[i] != byte(from + k, rank, i);
	}
	MPI_Waitall(EARLY, request, MPI_STATUSES_IGNORE);
	return wrong;
}

int main(int argc, char **argv)
{
	int rank, ranks, wrong = 0, all;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	do {
		for (size_t len = 8; len <= 256 << 10; len *= 8)
			wrong += alltoall(rank, ranks, len);
		wrong += ring(rank, ranks) + early(rank, ranks);
		if (argc > 1 && !rank && puts("begun") >= 0)
			fflush(stdout);
	} while (argc > 1);
	MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (!rank)
		printf(all ? "%d wrong\n" : "right %d\n", all ? all : ranks);
	MPI_Finalize();
	return all != 0;
}
