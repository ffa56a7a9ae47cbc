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

static void transpose_block(V row[BLOCK_ROWS])
{
    UNROLLED for (int step = 1; step < LANES; step *= 2) {
        V next[BLOCK_ROWS];
        UNROLLED for (int i = 0; i < BLOCK_ROWS / 2; i++) {
            const V other = row[i + BLOCK_ROWS / 2];
            next[2 * i].even = row[i].lo, next[2 * i].odd = other.lo;
            next[2 * i + 1].even = row[i].hi, next[2 * i + 1].odd = other.hi;
        }
        UNROLLED for (int i = 0; i < BLOCK_ROWS; i++) row[i] = next[i];
    }
}
