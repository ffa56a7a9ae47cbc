/*
 * block.cl - a block of LANES rows of LANES numbers, transposed in registers.
 *
 * By as many steps as LANES is doublings: each puts the halves of two rows together like the
 * teeth of a zip.
 */
#ifndef BLOCK_CL
#define BLOCK_CL

#include "opencl/vector.cl"

#define HALF_OF_2(type) type
#define HALF_OF_4(type) type##2
#define HALF_OF_8(type) type##4
#define HALF_OF_16(type) type##8
#define HALF_OF(type) JOIN(HALF_OF_, LANES)(type)
#define HALF_V HALF_OF(BASE) /* a vector of half as many */

static V zip(HALF_V a, HALF_V b)
{
    V both = (V)(0);
    both.even = a;
    both.odd = b;
    return both;
}

static void transpose_block(V row[LANES])
{
#pragma unroll
    for (int step = 1; step < LANES; step *= 2) {
        V next[LANES];
#pragma unroll
        for (int i = 0; i < LANES / 2; i++) {
            next[2 * i] = zip(row[i].lo, row[i + LANES / 2].lo);
            next[2 * i + 1] = zip(row[i].hi, row[i + LANES / 2].hi);
        }
#pragma unroll
        for (int i = 0; i < LANES; i++) row[i] = next[i];
    }
}

#endif
