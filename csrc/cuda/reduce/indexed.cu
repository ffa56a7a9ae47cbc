/*
 * indexed.cu - reduce: any axes, by a table of where the elements of a leaf lie.
 *
 * The elements of every output lie at the same distances from its first one. So a block finds
 * the distances of a leaf once, and an element costs a look into shared memory where the tree
 * divides by the extent of every axis. Whose threads are neighbours, those of an output's
 * elements or those of several outputs, is decided by the lines that a warp would touch.
 */
#include "cuda/divisor.h"
#include "cuda/reduce/maps.h"

enum {
    INDEXED = 256, /* threads of a block */
    WARPS = INDEXED / 32,
    MANY = 512, /* threads of a processor that keep it busy */
    AXES = 12,
    TURNS = 8, /* groups of outputs that a block takes at most for one table */
};

/* Who has what in a block: of a warp `wide` threads share an output, of the block `high` warps.
 * Together they are the classes of an output's elements: class c has the lanes c, c + classes,
 * .. below `lanes`, all that there are elements for. */
struct indexed_axis {
    divisor n;
    int64_t in, where;
};
struct indexed_shape {
    int wide, high, lanes, turns;
    int64_t groups; /* blocks side by side: outputs by as many as a block has at once, and
                       turns */
    indexed_axis axis[AXES];
};

GOP_DEVICE reduce_place indexed_place(const indexed_shape &p, int first, int last, uint32_t i)
{
    reduce_place at = {0, 0, 0};
#pragma unroll 1
    for (int d = last - 1; d > first; d--) {
        const uint32_t above = quotient(i, p.axis[d].n), x = i - above * p.axis[d].n.d;
        at.in += x * p.axis[d].in;
        at.where += x * p.axis[d].where;
        i = above;
    }
    if (first < last) {
        at.in += i * p.axis[first].in;
        at.where += i * p.axis[first].where;
    }
    return at;
}

/* Adds elements k, k + step, .. of this thread, AHEAD of them at most and all below n: element
 * b to accumulator b % KEEP. */
template <typename M, bool MASKED, int AHEAD, int KEEP>
GOP_DEVICE void add_indexed(const typename M::T *a, const uint8_t *where, const int32_t *place,
                            const int32_t *mask_place, const int (&k)[AHEAD], int n,
                            int key_flags, typename gather_of<M>::acc (&acc)[KEEP])
{
    typename M::T v[AHEAD];
    bool in[AHEAD];
#pragma unroll
    for (int b = 0; b < AHEAD; b++) {
        in[b] = k[b] < n;
        if (in[b]) v[b] = a[place[k[b]]];
        if (MASKED && in[b]) in[b] = where[mask_place[k[b]]];
    }
#pragma unroll
    for (int b = 0; b < AHEAD; b++)
        if (in[b]) gather_of<M>::add(acc[b % KEEP], v[b], k[b], key_flags);
}

/* The lanes of a class: KEEP of them at a time, those that fold first first; what is done waits
 * in as many levels as a binary counter has bits. Or, where order does not matter, all. */
template <typename M, bool MASKED, int KEEP>
GOP_DEVICE typename M::F::acc fold_class(const typename M::T *a, const uint8_t *where,
                                         const int32_t *place, const int32_t *mask_place, int c,
                                         int classes, int lanes, int n, int64_t k0,
                                         int key_flags)
{
    typedef typename M::F F;
    typedef gather_of<M> G;
    if constexpr (!F::ORDERED) {
        enum { AHEAD = 8 };
        typename G::acc acc[1] = {G::none()};
#pragma unroll 1
        for (int from = c; from < n; from += AHEAD * classes) {
            int k[AHEAD];
#pragma unroll
            for (int b = 0; b < AHEAD; b++) k[b] = from + b * classes;
            add_indexed<M, MASKED>(a, where, place, mask_place, k, n, key_flags, acc);
        }
        return G::root(acc[0], k0, key_flags);
    } else {
        enum { AHEAD = 16 / KEEP * KEEP > 8 && sizeof(typename M::T) > 8 ? 8 : 16, LEVELS = 7 };
        typename F::acc waiting[LEVELS], value = F::none();
        const int own = lanes / classes, turns = own > KEEP ? own / KEEP : 1;
#pragma unroll 1
        for (int t = 0; t < turns; t++) {
            int turn = 0; /* the bits of t from right to left */
            for (int bit = 1; bit < turns; bit *= 2) turn = 2 * turn + ((t & bit) != 0);
            typename F::acc acc[KEEP];
#pragma unroll
            for (int i = 0; i < KEEP; i++) acc[i] = F::none();
#pragma unroll 1
            for (int row = 0; row < n; row += AHEAD / KEEP * LANES) {
                int k[AHEAD];
#pragma unroll
                for (int b = 0; b < AHEAD; b++) {
                    const int m = turn + b % KEEP * turns;
                    k[b] = m < own ? row + b / KEEP * LANES + c + m * classes : n;
                }
                add_indexed<M, MASKED>(a, where, place, mask_place, k, n, key_flags, acc);
            }
            fold_own<F, KEEP>(acc);
            value = acc[0];
#pragma unroll
            for (int l = 0; l < LEVELS; l++) {
                if (turns >> l == 1) break;
                if (!(t >> l & 1)) {
                    waiting[l] = value;
                    break;
                }
                value = F::fold(waiting[l], value);
            }
        }
        return value;
    }
}

template <typename M, bool MASKED, int KEEP> __global__ void __launch_bounds__(INDEXED)
    reduce_indexed_kernel(const __grid_constant__ reduce_args r,
                          const __grid_constant__ indexed_shape p)
{
    typedef typename M::F F;
    typedef typename F::acc R;
    __shared__ int32_t place[LEAF], mask_place[MASKED ? LEAF : 1];
    __shared__ R shared[INDEXED];
    const gop_reduction &g = r.g;
    const int64_t leaf = blockIdx.x / (uint32_t)p.groups;
    const uint32_t first = (blockIdx.x - (uint32_t)(leaf * p.groups)) * p.turns;
    const int64_t k0 = leaf * LEAF;
    const int n = (int)(g.count - k0 < LEAF ? g.count - k0 : LEAF);
    const reduce_place from = indexed_place(p, g.kept, g.kept + g.reduced, (uint32_t)k0);
    for (int i = threadIdx.x; i < n; i += INDEXED) {
        const reduce_place at = indexed_place(p, g.kept, g.kept + g.reduced, (uint32_t)k0 + i);
        place[i] = (int32_t)(at.in - from.in);
        if (MASKED) mask_place[i] = (int32_t)(at.where - from.where);
    }
    __syncthreads();
    const int t = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int across = 32 / p.wide, row = warp % p.high;
    const int c = row * p.wide + t % p.wide, q = warp / p.high * across + t / p.wide;
#pragma unroll 1
    for (int turn = 0; turn < p.turns; turn++) {
        const int64_t o = (int64_t)(first + turn) * (WARPS / p.high * across) + q;
        R value = F::none();
        if (o < g.outputs) {
            const reduce_place at = indexed_place(p, 0, g.kept, (uint32_t)o);
            value = fold_class<M, MASKED, KEEP>(
                static_cast<const typename M::T *>(r.a) + at.in + from.in,
                MASKED ? r.where + at.where + from.where : nullptr, place, mask_place, c,
                p.wide * p.high, p.lanes, n, k0, r.key_flags);
        }
        if (p.high > 1) {
            __syncthreads();
            shared[threadIdx.x] = value;
            __syncthreads();
            if (row == 0) {
                R own[WARPS];
#pragma unroll
                for (int w = 0; w < WARPS; w++)
                    own[w] = w < p.high ? shared[threadIdx.x + w * 32] : F::none();
                fold_own<F, WARPS>(own);
                value = own[0];
            }
        }
        for (int d = p.wide / 2; d > 0; d /= 2)
            value = F::fold(value, shuffle_down(value, d, p.wide));
        if (row == 0 && t % p.wide == 0 && o < g.outputs) conclude(r, o, leaf, value);
    }
}

/* ---- the plan ---- */

struct indexed_launch {
    reduce_args r;
    indexed_shape shape;
};

template <typename M, bool MASKED, int KEEP>
static gop_status reduce_indexed(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const indexed_launch &own = *GOP_OWN(const indexed_launch, task->plan);
    reduce_args r = reduce_addressed(task, own.r);
    if (MASKED) r.where = static_cast<const uint8_t *>(task->in[1].data);
    GOP_TRY(GOP_LAUNCH_FOLLOWED(ctx, r.leaves > 1, (reduce_indexed_kernel<M, MASKED, KEEP>),
                                dim3((unsigned)(own.shape.groups * r.leaves)), dim3(INDEXED), 0,
                                r, own.shape));
    return reduce_fold_leaves<typename M::F>(ctx, r);
}

template <typename M>
static gop_status reduce_indexed_all(gop_ctx *ctx, const gop_task *task, int64_t done)
{
    const indexed_shape &p = GOP_OWN(const indexed_launch, task->plan)->shape;
    if constexpr (M::F::ORDERED) {
        if (p.lanes == p.wide * p.high) return reduce_indexed<M, false, 1>(ctx, task, done);
        if (p.lanes > 32) return reduce_indexed<M, false, 8>(ctx, task, done);
    }
    return reduce_indexed<M, false, 4>(ctx, task, done);
}
template <typename M>
static gop_status reduce_indexed_masked(gop_ctx *ctx, const gop_task *task, int64_t done)
{
    return reduce_indexed<M, true, 4>(ctx, task, done);
}

static const reduce_by_map<gop_launch> plain = REDUCE_BY_MAP(reduce_indexed_all),
                                       masked = REDUCE_BY_MAP(reduce_indexed_masked);

/* Where the first items of axes first to last lie, in elements. */
static void first_places(const gop_reduction &g, int first, int last, int64_t (&at)[32])
{
    int64_t x[AXES] = {};
    at[0] = 0;
    for (int i = 1; i < 32; i++) {
        at[i] = at[i - 1];
        for (int d = last - 1; d >= first; d--) {
            at[i] += g.in[d];
            if (++x[d] < g.extent[d]) break;
            at[i] -= x[d] * g.in[d];
            x[d] = 0;
        }
    }
}

/* How many lines of memory a warp touches if `wide` of its threads share an output. Each is
 * looked for where its number's bits say, then in the next places. */
static int lines_of(const int64_t *element, const int64_t *output, int elements, int outputs,
                    int item, int wide)
{
    enum { LINE = 7, PLACES = 64 }; /* 2^LINE bytes */
    int64_t line[PLACES];
    uint64_t taken = 0;
    for (int o = 0; o < outputs && o < 32 / wide; o++)
        for (int k = 0; k < elements && k < wide; k++) {
            const int64_t mine = (element[k] + output[o]) * item >> LINE;
            int at = (int)((uint64_t)mine * 0x9e3779b97f4a7c15u >> 58);
            while (taken >> at & 1 && line[at] != mine) at = (at + 1) % PLACES;
            line[at] = mine;
            taken |= UINT64_C(1) << at;
        }
    return __builtin_popcountll(taken);
}

/* How many threads of a warp share an output: where a warp takes least for an element, turns of
 * the first-level cache, one for every line that is touched, and some for the instructions. */
static int wide_of(const gop_reduction &g, int item, int lanes)
{
    enum { INSTRUCTIONS = 2 };
    int64_t element[32], output[32];
    first_places(g, g.kept, g.kept + g.reduced, element);
    first_places(g, 0, g.kept, output);
    const int elements = g.count < 32 ? (int)g.count : 32;
    const int outputs = g.outputs < 32 ? (int)g.outputs : 32;
    int best = 1;
    double least = 0;
    for (int wide = 1; wide <= 32 && wide <= lanes; wide *= 2) {
        const int threads =
            (elements < wide ? elements : wide) * (outputs < 32 / wide ? outputs : 32 / wide);
        const int lines = lines_of(element, output, elements, outputs, item, wide);
        const double cost = (double)(lines + INSTRUCTIONS) / threads;
        if (wide > 1 && cost >= least) continue;
        least = cost;
        best = wide;
    }
    return best;
}

static bool fits_tables(const gop_reduction &g, const int64_t *stride)
{
    int64_t far = 0;
    for (int d = g.kept; d < g.kept + g.reduced; d++)
        far += gop_magnitude(stride[d]) * (g.extent[d] - 1);
    return far <= INT32_MAX;
}

/* Whether the tree goes from element to element without a division: along one axis, or along
 * lines of two whose elements lie nearer than outputs. A table for every leaf would cost more.
 */
static bool walks(const gop_reduction &g)
{
    const int last = g.kept + g.reduced - 1;
    const bool nearer =
        g.kept == 0 || gop_magnitude(g.in[last]) < gop_magnitude(g.in[g.kept - 1]);
    return g.reduced == 1 || (g.reduced == 2 && nearer && g.extent[last] >= 32);
}

static const int size_of[GOP_NDTYPES] = {
#define X(enumerator, word, bytes) bytes,
    GOP_DTYPES(X)
#undef X
};

static gop_status reduce_indexed_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    const gop_reduction &g = task->geometry.reduction;
    const gop_reduce_params &params = task->call->params.reduce;
    indexed_launch &own = *GOP_OWN(indexed_launch, plan);
    indexed_shape &p = own.shape;
    plan->launch = reduce_of_call(params.has_where ? masked : plain, task);
    const bool counts = params.op == GOP_MEAN && params.has_where;
    if (!plan->launch || counts || g.count == 0 || g.outputs == 0 || g.outputs > INT32_MAX ||
        g.count > INT32_MAX || g.kept + g.reduced > AXES || !fits_tables(g, g.in) ||
        !fits_tables(g, g.where))
        return gop_fail(GOP_REFUSED,
                        "reduce: this kernel takes no products of whole numbers, sums of "
                        "squares and masked means, and fewer than 2^31 outputs and elements "
                        "of each, that lie as near to each other");
    if (g.count > LEAF && walks(g))
        return gop_fail(GOP_REFUSED,
                        "reduce: this kernel takes more than %d elements to an "
                        "output where the tree would divide for each",
                        LEAF);
    reduce_arguments(task, &own.r, plan);
    const int64_t leaves = own.r.leaves;
    const int item = size_of[task->in[0].dtype];
    for (p.lanes = 1; p.lanes < LANES && p.lanes < g.count;) p.lanes *= 2;
    p.wide = wide_of(g, item, p.lanes);
    const int64_t busy = (int64_t)ctx->info.processors * MANY;
    for (p.high = 1; p.high < WARPS && 2 * p.wide * p.high <= p.lanes &&
                     (g.outputs * leaves * p.wide * p.high < busy ||
                      g.outputs < WARPS / p.high * (32 / p.wide));)
        p.high *= 2;
    const int64_t at_once = WARPS / p.high * (32 / p.wide);
    p.groups = blocks_for(g.outputs, at_once);
    for (p.turns = 1; p.turns < TURNS && p.groups * leaves >= 2 * p.turns * busy / INDEXED * 4;)
        p.turns *= 2;
    p.groups = blocks_for(p.groups, p.turns);
    if (p.groups * leaves > INT32_MAX)
        return gop_fail(GOP_REFUSED, "reduce: this kernel takes up to 2^31 - 1 blocks");
    for (int d = 0; d < g.kept + g.reduced; d++)
        p.axis[d] = {divisor_of(g.extent[d]), g.in[d], g.where[d]};
    return GOP_OK;
}

extern const gop_row reduce_indexed_row = {
    .name = "indexed",
    .note = "any axes: where a leaf's elements lie is found once a block, and neighbours in a "
            "warp are what is near in memory",
    .role = GOP_CONFORMING,
    .plan = reduce_indexed_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
