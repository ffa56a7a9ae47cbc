/*
 * root.cl - what parts of an output have left in scratch memory folds to its root: a team of
 * work-items an output. It is a program of its own, which short calls do not need, and takes an
 * element at a time, whatever the vectors of the parts were.
 */
#define ITEMS 1
#define LANES PARTS
#define RLANES PAIRS
#include "opencl/reduce/finish.cl"

__kernel void reduce_root_kernel(OPERANDS, const struct shape g, const struct work w)
{
    enum { AT_ONCE = 8 }; /* loads that are under way at once */
    __local ONE node[ROOT_GROUP];
    ONE waiting[40], next[AT_ONCE];
    const int item = (int)get_local_id(0), t = item % w.team;
    const long o = (long)get_global_id(0) / w.team, first = t * w.each;
    const long count = o < g.outputs ? min(w.each, w.nodes - first) : 0;
    __global const ONE *const from = PARTIAL + o * w.nodes + first;
    for (long i = 0; i < count; i += AT_ONCE) {
        UNROLLED for (int b = 0; b < AT_ONCE; b++) next[b] = from[min(i + b, count - 1)];
        UNROLLED for (int b = 0; b < AT_ONCE; b++)
            if (i + b < count) push(waiting, i + b, next[b]);
    }
    node[item] = count > 0 ? root_of(waiting, count) : none();
    for (int d = 1; d < w.team; d *= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (t % (2 * d) == 0) node[item] = fold_one(node[item], node[item + d]);
    }
    if (t == 0 && o < g.outputs) finish(ARGUMENTS, &g, &w, output(&g, o), o, node[item]);
}
