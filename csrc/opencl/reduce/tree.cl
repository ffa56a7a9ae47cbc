/*
 * tree.cl - reduce for GPUs: lanes of a leaf for each work-item, which meet in local memory.
 *
 * A team of work-items has a node of the tree, leaf after leaf; a work-group has `side` teams
 * side by side. Neighbouring work-items take neighbours in memory: lanes of one output, or the
 * same lanes of several (ACROSS). Where the array allows it they take vectors of ITEMS. A
 * work-item adds its lanes' elements in private memory and folds its lanes; then the team folds
 * in local memory, half of it at a time. The lanes of a team's work-item lie a team apart and
 * come in bit-reversed order, so that those that fold first are neighbours. Several leaves go
 * TOGETHER: they meet at the same barriers.
 */
#if defined(ACROSS)
#define NODE R
#define FOLD_NODES(a, b) fold(a, b)
#endif
#include "opencl/reduce/finish.cl"

#if defined(BEST)
#define TOGETHER 1 /* nodes that are large */
#elif !defined(TOGETHER)
#define TOGETHER 4
#endif

/* Of a team, where the build knows them: loops of constants have no arrays in memory. */
#if !defined(TEAM)
#define TEAM w.team
#define TURNS w.turns
#define BY_ROWS w.by_rows
#elif defined(ACROSS)
#define BY_ROWS 0
#else
#define BY_ROWS 1
#endif
#if !defined(BATCH)
#define BATCH 8
#endif

#if ITEMS == 1
#define READ(p) LOAD(0, p)
#else
#define READ(p) (*(__global const V *)(p))
#endif

/* A whole lane of a leaf: the loads of a batch are under way before any is waited for. */
static R whole_lane(__global const BASE *a, long step, long k, int flags)
{
    enum { EACH = LEAF / TREE_LANES };
    R sum = none();
    for (int first = 0; first < EACH; first += BATCH) {
        V v[BATCH];
#pragma unroll
        for (int i = 0; i < BATCH; i++) v[i] = READ(a + (first + i) * step);
#pragma unroll
        for (int i = 0; i < BATCH; i++)
            sum = fold(sum, of(v[i], k + (first + i) * TREE_LANES, flags));
    }
    return sum;
}

#if ITEMS == 1
/* Elements l, l + 128, .. of those from number k on, of which there are n. */
static R lane(__global const BASE *a, __global const uchar *where, const struct shape *g,
              const struct work *w, long k, int l, int n)
{
    R sum = none();
    for (; l < n; l += TREE_LANES) {
        const struct at at = element(g, k + l);
        if (w->has_where && !where[at.where]) continue;
        sum = fold(sum, of(LOAD(at.in, a), k + l, w->flags));
    }
    return sum;
}
#else
/* The same of vectors. Of one that ends early the rest is what changes nothing. */
static R lane(__global const BASE *a, __global const uchar *where, const struct shape *g,
              const struct work *w, long k, int l, int n)
{
    const long step = IN_OF(g)[KEPT];
    R sum = none();
    for (; l < n; l += TREE_LANES) {
        __global const BASE *const from = a + (k + l) * step * PARTS;
        if (!BY_ROWS || l + ITEMS <= n) sum = fold(sum, of(READ(from), k + l, w->flags));
        else {
            ACC made[RLANES], hidden[RLANES];
            JOIN(vstore, RLANES)(of(gather(from, 1, n - l), k + l, w->flags), 0, made);
            JOIN(vstore, RLANES)(none(), 0, hidden);
            for (int i = (n - l) * PAIRS; i < RLANES; i++) made[i] = hidden[i];
            sum = fold(sum, JOIN(vload, RLANES)(0, made));
        }
    }
    return sum;
}
#endif

/* The lanes of a vector fold. */
static ONE within(R lanes)
{
    ONE *const lane = (ONE *)&lanes;
    for (int d = ITEMS / 2; d > 0; d /= 2)
        for (int i = 0; i < d; i++) lane[i] = fold_one(lane[i], lane[i + d]);
    return lane[0];
}

__kernel void reduce_tree_kernel(OPERANDS, const struct shape g, const struct work w)
{
    __local R node[TOGETHER][ROOT_GROUP];
    R lanes[8];
    NODE leaves[40];
    const int item = (int)get_local_id(0), side = ROOT_GROUP / TEAM;
    const int t = BY_ROWS ? item % TEAM : item / side;
    const int x = BY_ROWS ? item / TEAM : item % side;
    const int apart = BY_ROWS ? 1 : side; /* of a team's neighbours */
    const int wide = BY_ROWS ? 1 : ITEMS; /* outputs of a work-item */
    const long sides = (g.outputs / wide + side - 1) / side, group = (long)get_group_id(0);
    const long pair = group * side + x;
    const long o = BY_ROWS ? pair / w.nodes : (group % sides * side + x) * wide;
    const long number = BY_ROWS ? pair % w.nodes : group / sides;
    const long first = number << w.node_leaves;
    const long count = min(w.leaves - first, 1l << w.node_leaves);
    const long most = min(w.leaves, 1l << w.node_leaves); /* of any team: all meet as often */
    const struct at at = output(&g, o < g.outputs ? o : 0);
    __global const BASE *from = a + (a_at + at.in) * PARTS;
    __global const uchar *mask = where + where_at + at.where;
    const int one_axis = ITEMS > 1 || (g.reduced == 1 && !w.has_where);
    const long step = REDUCED ? IN_OF(&g)[KEPT] : 0;
    for (long i = 0; i < most; i += TOGETHER) {
        const int together = (int)min((long)TOGETHER, most - i);
        for (int j = 0; j < together; j++) {
            const long k = (first + i + j) * LEAF;
            const int n = o < g.outputs ? (int)max(0l, min((long)LEAF, g.count - k)) : 0;
#pragma unroll
            for (int turn = 0; turn < TURNS; turn++) { /* a power of two */
                int reversed = 0;
                for (int bit = 1; bit < TURNS; bit *= 2)
                    reversed = reversed * 2 + (turn & bit ? 1 : 0);
                const int l = (t + reversed * TEAM) * (BY_ROWS ? ITEMS : 1);
                R sum;
                if (one_axis && n == LEAF)
                    sum = whole_lane(from + (k + l) * step * PARTS, TREE_LANES * step * PARTS,
                                     k + l, w.flags);
                else sum = lane(from, mask, &g, &w, k, l, n);
                int level = 0;
                for (; turn >> level & 1; level++) sum = fold(lanes[level], sum);
                lanes[level] = sum;
            }
            int last = 0;
            while (1 << last < TURNS) last++;
            node[j][item] = lanes[last];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int d = TEAM / 2; d > 0; d /= 2) {
            for (int j = 0; t < d && j < together; j++)
                node[j][item] = fold(node[j][item], node[j][item + d * apart]);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        for (int j = 0; t == 0 && j < together && i + j < count; j++)
#if defined(ACROSS)
            push(leaves, i + j, node[j][item]);
#else
            push(leaves, i + j, within(node[j][item]));
#endif
    }
    if (t != 0 || o >= g.outputs) return;
#if defined(ACROSS)
    const R all = count > 0 ? root_of(leaves, count) : none();
#else
    const ONE all = count > 0 ? root_of(leaves, count) : none_one();
#endif
    const ONE *const root = (const ONE *)&all;
    for (int c = 0; c < wide; c++) {
        const struct at to = {at.in + c, 0, at.out + (wide > 1 ? c * OUT_OF(&g)[KEPT - 1] : 0)};
        if (w.nodes > 1) PARTIAL[(o + c) * w.nodes + number] = root[c];
        else finish(ARGUMENTS, &g, &w, wide > 1 ? to : at, o + c, root[c]);
    }
}
