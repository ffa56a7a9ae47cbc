/*
 * naive.cl - add, multiply_add and fma, one number a work-item, any strides.
 *
 * Neighbouring work-items take neighbours of the output: what a GPU runs together falls into
 * few transactions of memory. An element's place costs a division for each axis.
 */
#include "opencl/add/element.cl"
#include "opencl/axes.cl"

__kernel void add_naive_kernel(OPERANDS, const struct axes e)
{
    const INDEX i = (INDEX)get_global_id(0);
    if (i >= (INDEX)e.size) return;
    long at[4] = {out_at, a_at, b_at, c_at};
    place(&e, 0, (int)e.rank, i, 4, at);
    STORE(of_three(LOAD(at[1], a), LOAD(at[2], b), LOAD(at[3], c)), at[0], out);
}
