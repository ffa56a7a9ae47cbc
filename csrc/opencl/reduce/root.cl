/*
 * root.cl - what parts of an output have left in scratch memory folds to its root: a work-group
 * an output. A program of its own, as short calls do not need it.
 */
#include "opencl/reduce/finish.cl"

__kernel void reduce_root_kernel(OPERANDS, const struct shape g, const struct work w)
{
    __local ONE node[ROOT_GROUP];
    ONE waiting[40];
    const long o = (long)get_group_id(0);
    const int t = (int)get_local_id(0);
    const long first = t * w.each, count = min(w.each, w.nodes - first);
    for (long i = 0; i < count; i++) push(waiting, i, PARTIAL[o * w.nodes + first + i]);
    node[t] = count > 0 ? root_of(waiting, count) : none_one();
    for (int d = 1; d < ROOT_GROUP; d *= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (t % (2 * d) == 0 && t + d < ROOT_GROUP) node[t] = fold_one(node[t], node[t + d]);
    }
    if (t == 0) finish(ARGUMENTS, &g, &w, output(&g, o), o, node[0]);
}
