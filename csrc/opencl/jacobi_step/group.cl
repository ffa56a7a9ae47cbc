/*
 * group.cl - jacobi_step for GPUs, a work-group per row: neighbouring work-items read
 * neighbouring elements, and the lanes of a leaf fold in local memory.
 */
#include "opencl/jacobi_step/system.cl"

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
