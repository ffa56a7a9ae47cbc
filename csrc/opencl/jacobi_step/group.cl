/*
 * group.cl - jacobi_step for GPUs, rows by a work-group: neighbouring work-items read
 * neighbouring elements, and the lanes of a leaf fold in local memory.
 *
 * Where a dense matrix allows it (VECTORS) a work-item takes WIDTH lanes of HELD rows, which one
 * read of x serves, and a team of work-items a leaf; else it takes lane after lane of a row.
 */
#include "opencl/jacobi_step/system.cl"

#if defined(VECTORS)
#define V JOIN(BASE, WIDTH)
#define READ(p) (*(__global const V *)(p))
#if !defined(BATCH)
#define BATCH 4
#endif
enum { TEAM = TREE_LANES / WIDTH, TEAMS = GROUP / TEAM };

/* The lanes of a whole leaf: the loads of a batch are under way before any is waited for. */
static void whole_lanes(__global const T *const row[HELD], __global const T *x, V sum[HELD])
{
#pragma unroll 1
    for (int p = 0; p < LEAF; p += BATCH * TREE_LANES) {
        V a[BATCH][HELD], of_x[BATCH];
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
#pragma unroll
            for (int r = 0; r < HELD; r++) a[b][r] = READ(row[r] + p + b * TREE_LANES);
            of_x[b] = READ(x + p + b * TREE_LANES);
        }
#pragma unroll
        for (int b = 0; b < BATCH; b++)
#pragma unroll
            for (int r = 0; r < HELD; r++) sum[r] = fma(a[b][r], of_x[b], sum[r]);
    }
}

/* The same of the last leaf's m terms from the first of the work-item on. */
static V last_lanes(__global const T *row, __global const T *x, long m)
{
    V sum = NOTHING;
    for (; m >= WIDTH; m -= TREE_LANES, row += TREE_LANES, x += TREE_LANES)
        sum = fma(READ(row), READ(x), sum);
    T lane[WIDTH];
    JOIN(vstore, WIDTH)(sum, 0, lane);
    for (int l = 0; l < m; l++) lane[l] = fma(row[l], x[l], lane[l]);
    return JOIN(vload, WIDTH)(0, lane);
}

static T within(V sum)
{
    T lane[WIDTH];
    JOIN(vstore, WIDTH)(sum, 0, lane);
    for (int d = WIDTH / 2; d > 0; d /= 2)
        for (int l = 0; l < d; l++) lane[l] += lane[l + d];
    return lane[0];
}

__kernel void jacobi_step_group_kernel(SYSTEM)
{
    const struct operands o = OPERANDS;
    const int me = (int)get_local_id(0), t = me % TEAM, team = me / TEAM;
    const long leaves = (s.n + LEAF - 1) / LEAF, i = s.first + (long)get_group_id(0) * HELD;
    __local V lane[HELD][GROUP];
    T node[LEVELS];
    __global const T *row[HELD];
    for (long c = 0; c < s.k; c++) {
        for (long first = 0; first < leaves; first += TEAMS) {
            const long begin = (first + team) * LEAF + t * WIDTH;
            __global const T *const x = o.x + c * s.x_col + begin;
            V sum[HELD];
#pragma unroll
            for (int r = 0; r < HELD; r++) {
                row[r] = o.a + min(i + r, s.last - 1) * s.a_row + begin;
                sum[r] = NOTHING;
            }
            if ((first + team + 1) * LEAF <= s.n) whole_lanes(row, x, sum);
            else
                for (int r = 0; r < HELD; r++) sum[r] = last_lanes(row[r], x, s.n - begin);
#pragma unroll
            for (int r = 0; r < HELD; r++) lane[r][me] = sum[r];
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int d = TEAM / 2; d > 0; d /= 2) {
                for (int r = 0; t < d && r < HELD; r++) lane[r][me] += lane[r][me + d];
                barrier(CLK_LOCAL_MEM_FENCE);
            }
            for (long l = 0; me < HELD && l < min((long)TEAMS, leaves - first); l++)
                push(node, first + l, within(lane[me][l * TEAM]));
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        if (me < HELD && i + me < s.last) {
            struct row own;
            find_row(o, s, i + me, &own);
            update(o, s, factor, own.i, c, sum_of_leaves(node, leaves), diagonal_of(o, s, own));
        }
    }
}
#else
__kernel void jacobi_step_group_kernel(SYSTEM)
{
    const struct operands o = OPERANDS;
    const int me = (int)get_local_id(0);
    __local T lane[TREE_LANES];
    T node[LEVELS];
    struct row row;
    find_row(o, s, s.first + (long)get_group_id(0), &row);
    for (long c = 0; c < s.k; c++) {
        long leaves = 0;
        for (long begin = 0; begin < row.count; begin += LEAF) {
            const long end = min(begin + LEAF, row.count);
            for (int l = me; l < TREE_LANES; l += GROUP) {
                T sum = NOTHING;
                for (long p = begin + l; p < end; p += TREE_LANES)
                    sum = add_term(o, s, row, p, c, sum);
                lane[l] = sum;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int d = TREE_LANES / 2; d > 0; d /= 2) {
                for (int l = me; l < d; l += GROUP) lane[l] += lane[l + d];
                barrier(CLK_LOCAL_MEM_FENCE);
            }
            if (me == 0) push(node, leaves++, lane[0]);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        if (me == 0)
            update(o, s, factor, row.i, c, sum_of_leaves(node, leaves), diagonal_of(o, s, row));
    }
}
#endif
