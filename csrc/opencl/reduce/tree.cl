/*
 * tree.cl - reduce for GPUs: lanes of a leaf for each work-item, which meet in local memory.
 *
 * A team of work-items takes a leaf, and a work-group has SIDE teams side by side. Neighbouring
 * work-items take neighbours in memory: lanes of one output, or the same lanes of several
 * (ACROSS). Where the array allows it they take vectors of ITEMS. A work-item adds its lanes'
 * elements in private memory and folds its lanes; then the team folds in local memory, half of
 * it at a time, and at last the leaves of a node. The lanes of a team's work-item lie a team
 * apart and come in bit-reversed order, so that those that fold first are neighbours. Several
 * leaves go TOGETHER: they meet at the same barriers.
 */
#if defined(ACROSS)
#define NODE R
#define FOLD_NODES(a, b) fold(a, b)
#endif
#include "opencl/reduce/finish.cl"

enum { TOGETHER = 4, BATCH = 8 }; /* leaves; loads that are under way at once */

/* Of a team, and BY_ROWS, where the build knows them: constant loops keep no arrays. */
#if !defined(TEAM)
#define EVERY_TURN _Pragma("unroll 1")
#define TEAM w.team
#define TURNS w.turns
#define BY_ROWS w.by_rows
#else
#define EVERY_TURN UNROLLED
#endif
#define SIDE (ROOT_GROUP / TEAM)

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
        UNROLLED for (int i = 0; i < BATCH; i++) v[i] = READ(a + (first + i) * step);
        UNROLLED for (int i = 0; i < BATCH; i++)
            sum = fold(sum, of(v[i], k + (first + i) * TREE_LANES, flags));
    }
    return sum;
}

/* Elements l, l + 128, .. of those from number k on, of which there are n; of a vector that ends
 * early the rest is what changes nothing. */
static R lane(__global const BASE *a, __global const uchar *where, const struct shape *g,
              const struct work *w, long k, int l, int n)
{
    R sum = none();
    for (; l < n; l += TREE_LANES) {
        const struct at at = element(g, k + l);
        __global const BASE *const from = a + at.in * PARTS;
        if (w->has_where && !where[at.where]) continue;
#if ITEMS > 1
        if (BY_ROWS && l + ITEMS > n) {
            ACC made[RLANES], hidden[RLANES];
            JOIN(vstore, RLANES)(of(gather(from, 1, n - l), k + l, w->flags), 0, made);
            JOIN(vstore, RLANES)(none(), 0, hidden);
            for (int i = (n - l) * PAIRS; i < RLANES; i++) made[i] = hidden[i];
            return fold(sum, JOIN(vload, RLANES)(0, made));
        }
#endif
        sum = fold(sum, of(READ(from), k + l, w->flags));
    }
    return sum;
}

/* The lanes of a vector fold. */
static ONE within(R lanes)
{
    ONE *const lane = (ONE *)&lanes;
    for (int d = ITEMS / 2; d > 0; d /= 2)
        for (int i = 0; i < d; i++) lane[i] = fold_one(lane[i], lane[i + d]);
    return lane[0];
}

/* What a work-item has of a leaf that begins at element k of those at `from`, of which there
 * are n; its first lane of TURNS is number t. */
static R lanes_of(__global const BASE *from, __global const uchar *mask, const struct shape *g,
                  const struct work w, long k, int t, int n)
{
    const long step = REDUCED ? IN_OF(g)[KEPT] : 0;
    const int one_axis = ITEMS > 1 || (g->reduced == 1 && !w.has_where);
    R waiting[8], sum;
    int level = 0;
    EVERY_TURN for (int turn = 0; turn < TURNS; turn++) { /* a power of two */
        int reversed = 0;
        for (int bit = 1; bit < TURNS; bit *= 2) reversed = reversed * 2 + (turn & bit ? 1 : 0);
        const int l = (t + reversed * TEAM) * (BY_ROWS ? ITEMS : 1);
        if (one_axis && n == LEAF)
            sum = whole_lane(from + (k + l) * step * PARTS, TREE_LANES * step * PARTS, k + l,
                             w.flags);
        else sum = lane(from, mask, g, &w, k, l, n);
        for (level = 0; turn >> level & 1; level++) sum = fold(waiting[level], sum);
        waiting[level] = sum;
    }
    return sum;
}

__kernel void reduce_tree_kernel(OPERANDS, const struct shape g, const struct work w)
{
    __local R node[TOGETHER][ROOT_GROUP];
    __local NODE root[ROOT_GROUP]; /* of leaves: each the units of a block side by side */
    const int item = (int)get_local_id(0), side = SIDE;
    const int t = BY_ROWS ? item % TEAM : item / side;
    const int x = BY_ROWS ? item / TEAM : item % side;
    const int apart = BY_ROWS ? 1 : side; /* of a team's neighbours */
    const int wide = BY_ROWS ? 1 : ITEMS; /* outputs of a unit */
    const int slots = 1 << (w.node_leaves + w.inner), inner = 1 << w.inner;
    const long blocks = w.tasks / w.nodes;
    for (long task = (long)get_group_id(0); task < w.tasks; task += (long)get_num_groups(0)) {
        const long part = BY_ROWS ? task % w.nodes : task / blocks;
        const long unit = (BY_ROWS ? task / w.nodes : task % blocks) << w.inner;
        for (int first = x; first < slots + x; first += side * TOGETHER) {
#pragma unroll 1
            for (int j = 0; j < TOGETHER; j++) {
                const int slot = first + j * side;
                const long o = (unit + (slot & (inner - 1))) * wide;
                const long k = ((part << w.node_leaves) + (slot >> w.inner)) * LEAF;
                const long left = slot < slots && o < g.outputs ? g.count - k : 0;
                const struct at at = output(&g, min(o, g.outputs - 1));
                node[j][item] =
                    lanes_of(a + (a_at + at.in) * PARTS, where + where_at + at.where, &g, w, k,
                             t, (int)clamp(left, 0l, (long)LEAF));
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int d = TEAM / 2; d > 0; d /= 2) {
                for (int j = 0; t < d && j < TOGETHER; j++)
                    node[j][item] = fold(node[j][item], node[j][item + d * apart]);
                barrier(CLK_LOCAL_MEM_FENCE);
            }
            for (int j = 0; t == 0 && j < TOGETHER; j++)
                if (first + j * side < slots)
#if defined(ACROSS)
                    root[first + j * side] = node[j][item];
#else
                    root[first + j * side] = within(node[j][item]);
#endif
        }
        for (int d = inner; d < slots; d *= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            if (item < slots && (item & (2 * d - inner)) == 0)
                root[item] = FOLD_NODES(root[item], root[item + d]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        const long o = (unit + item) * wide;
        if (item >= inner || o >= g.outputs) continue;
        const NODE all = root[item];
        const ONE *const one = (const ONE *)&all;
        const struct at at = output(&g, o);
        for (int c = 0; c < wide; c++) {
            const struct at to = {at.in + c, 0,
                                  wide > 1 ? at.out + c * OUT_OF(&g)[KEPT - 1] : at.out};
            if (w.nodes > 1) PARTIAL[(o + c) * w.nodes + part] = one[c];
            else finish(ARGUMENTS, &g, &w, to, o + c, one[c]);
        }
    }
}
