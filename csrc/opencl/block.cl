/*
 * block.cl - a block of BLOCK_ROWS rows of LANES numbers, transposed in registers.
 *
 * By as many steps as LANES is doublings: each puts the halves of two rows together like the
 * teeth of a zip. The block's numbers, row after row, are then LANES columns of BLOCK_ROWS.
 * It is square where a build does not say how many rows it has.
 */
#include "opencl/vector.cl"

#if !defined(BLOCK_ROWS)
#define BLOCK_ROWS LANES
#endif
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

static void transpose_block(V row[BLOCK_ROWS])
{
    UNROLLED for (int step = 1; step < LANES; step *= 2) {
        V next[BLOCK_ROWS];
        UNROLLED for (int i = 0; i < BLOCK_ROWS / 2; i++) {
            next[2 * i] = zip(row[i].lo, row[i + BLOCK_ROWS / 2].lo);
            next[2 * i + 1] = zip(row[i].hi, row[i + BLOCK_ROWS / 2].hi);
        }
        UNROLLED for (int i = 0; i < BLOCK_ROWS; i++) row[i] = next[i];
    }
}
