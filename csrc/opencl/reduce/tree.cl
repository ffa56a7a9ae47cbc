/*
 * tree.cl - reduce for GPUs: a lane of a leaf for each work-item, which meet in local memory.
 *
 * A work-group has `side` outputs side by side and a team of work-items for each. Neighbouring
 * work-items take neighbours in memory: lanes of one output, or the same lanes of several. A
 * work-item adds its lanes' elements in private memory and folds its lanes; then the team folds
 * in local memory, half of it at a time. The lanes of a team's work-item lie a team apart and
 * come in bit-reversed order, so that those that fold first are neighbours. Several leaves go
 * TOGETHER: they meet at the same barriers.
 */
#include "opencl/reduce/finish.cl"

#if defined(BEST)
#define TOGETHER 1 /* nodes that are large */
#else
#define TOGETHER 4
#endif

/* Elements l, l + 128, .. of those from number k on, of which there are n. */
static ONE lane(__global const BASE *a, __global const uchar *where, const struct shape *g,
                const struct work *w, long k, int l, int n)
{
    ONE sum = none_one();
    for (; l < n; l += TREE_LANES) {
        const struct at at = element(g, k + l);
        if (w->has_where && !where[at.where]) continue;
        sum = fold_one(sum, of(LOAD(at.in, a), k + l, w->flags));
    }
    return sum;
}

/* The same of a whole leaf along one axis: all loads are under way before any is waited for. */
static ONE whole_lane(__global const BASE *a, const struct shape *g, const struct work *w,
                      long k, int l)
{
    enum { EACH = LEAF / TREE_LANES };
    const long step = REDUCED ? IN_OF(g)[KEPT] : 0;
    V v[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) v[i] = LOAD((k + l + i * TREE_LANES) * step, a);
    ONE sum = none_one();
#pragma unroll
    for (int i = 0; i < EACH; i++)
        sum = fold_one(sum, of(v[i], k + l + i * TREE_LANES, w->flags));
    return sum;
}

__kernel void reduce_tree_kernel(OPERANDS, const struct shape g, const struct work w)
{
    __local ONE node[TOGETHER][ROOT_GROUP];
    ONE lanes[8], leaves[40];
    const int item = (int)get_local_id(0), team = w.team, side = ROOT_GROUP / team;
    const int t = w.by_rows ? item % team : item / side;
    const int x = w.by_rows ? item / team : item % side;
    const int apart = w.by_rows ? 1 : side; /* of a team's neighbours */
    const long sides = (g.outputs + side - 1) / side, group = (long)get_group_id(0);
    const long o = group % sides * side + x, number = group / sides;
    const long first = number << w.node_leaves;
    const long count = min(w.leaves - first, 1l << w.node_leaves);
    const struct at at = output(&g, o < g.outputs ? o : 0);
    __global const BASE *from = a + (a_at + at.in) * PARTS;
    __global const uchar *mask = where + where_at + at.where;
    const int one_axis = g.reduced == 1 && !w.has_where;
    for (long i = 0; i < count; i += TOGETHER) {
        const int together = (int)min((long)TOGETHER, count - i);
        for (int j = 0; j < together; j++) {
            const long k = (first + i + j) * LEAF;
            const int n = o < g.outputs ? (int)min((long)LEAF, g.count - k) : 0;
            for (int turn = 0; turn < w.turns; turn++) { /* a power of two */
                int reversed = 0;
                for (int bit = 1; bit < w.turns; bit *= 2)
                    reversed = reversed * 2 + (turn & bit ? 1 : 0);
                const int l = t + reversed * team;
                push(lanes, turn, one_axis && n == LEAF ? whole_lane(from, &g, &w, k, l)
                                                        : lane(from, mask, &g, &w, k, l, n));
            }
            node[j][item] = root_of(lanes, w.turns);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int d = team / 2; d > 0; d /= 2) {
            for (int j = 0; t < d && j < together; j++)
                node[j][item] = fold_one(node[j][item], node[j][item + d * apart]);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        for (int j = 0; t == 0 && j < together; j++)
            push(leaves, i + j, node[j][item]);
    }
    if (t != 0 || o >= g.outputs) return;
    const ONE root = count > 0 ? root_of(leaves, count) : none_one();
    if (w.nodes > 1) PARTIAL[o * w.nodes + number] = root;
    else finish(ARGUMENTS, &g, &w, at, o, root);
}
