/*
 * reduce_columns.cu - sums, and means of floats, where neighbouring outputs are neighbours in
 * memory, as along axis 0 of a C-contiguous matrix.
 */
#include "cuda/reduce_tree.h"

enum {
    COLUMNS = 32, /* of a block: a line of 128 bytes in float32 */
    WARPS = 8,
    OWN = LANES / WARPS,   /* lanes of a thread */
    FOLDED = WARPS * WARPS /* leaves that a block folds once they are sums */
};

/* How blocks cover the array: by column blocks, then leaves, then the outer kept axes. */
struct columns_plan {
    int64_t line;    /* columns side by side */
    unsigned across; /* blocks to a line */
    unsigned leaves; /* that the launch reads, or makes from elements */
};

/* A column's eight values, one of each warp, fold into one. */
template <typename R, int WIDTH, bool NEIGHBOURS>
GOP_DEVICE R columns_meet(const R (*shared)[WIDTH], int x)
{
    R v[WARPS];
#pragma unroll
    for (int w = 0; w < WARPS; w++) v[w] = shared[w][x];
#pragma unroll
    for (int d = 1; d < WARPS; d *= 2) {
        /* Leaves fold with their neighbours first, lanes with those farthest away. */
        const int apart = NEIGHBOURS ? d : WARPS / 2 / d;
#pragma unroll
        for (int w = 0; w + apart < WARPS; w++)
            if (NEIGHBOURS ? w % (2 * d) == 0 : w < apart) v[w] = add(v[w], v[w + apart]);
    }
    return v[0];
}

template <typename R> GOP_DEVICE void columns_conclude(const reduce_args &r, int64_t line,
                                                       int64_t outer, int64_t leaf,
                                                       int64_t column, R value)
{
    if (r.leaves == 1) finish(r, outer * line + column, value);
    else static_cast<R *>(r.partial)[(outer * r.leaves + leaf) * line + column] = value;
}

/* C neighbouring elements, read at once. */
template <typename T, int C> struct alignas(sizeof(T) * C) columns_of {
    T at[C];
};
template <int BYTES> struct columns_word;
template <> struct columns_word<1> {
    typedef unsigned char type;
};
template <> struct columns_word<2> {
    typedef unsigned short type;
};
template <> struct columns_word<4> {
    typedef unsigned type;
};
template <> struct columns_word<8> {
    typedef uint2 type;
};
template <> struct columns_word<16> {
    typedef uint4 type;
};

template <typename T, int C> GOP_DEVICE columns_of<T, C> load_columns(const T *address)
{
    typedef typename columns_word<sizeof(T) * C>::type word_t;
    columns_of<T, C> v;
    const word_t word = *reinterpret_cast<const word_t *>(address);
    __builtin_memcpy(&v, &word, sizeof v);
    return v;
}

/* Sixteen elements of each of a thread's columns, all loaded at once: those below row `below`.
 */
template <bool WHOLE, typename T, int C, typename R, int KEEP>
GOP_DEVICE void add_sixteen(const T *a, int64_t step, int64_t below, R (&acc)[C][KEEP])
{
    columns_of<T, C> v[OWN];
#pragma unroll
    for (int i = 0; i < OWN; i++)
        if (WHOLE || i * WARPS < below) v[i] = load_columns<T, C>(a + i * step);
#pragma unroll
    for (int i = 0; i < OWN; i++)
#pragma unroll
        for (int c = 0; c < C; c++) {
            R &lane = acc[c][KEEP == 1 ? 0 : i];
            if (WHOLE || i * WARPS < below) lane = add(lane, widen(v[i].at[c]));
        }
}

/* ---- columns: a column a thread, eight warps to a leaf ----------------------------------
 * Warp w owns the lanes w, w + 8, .., sixteen of them, all loaded at once. They fold in
 * registers for d = 64, 32, 16, 8; what is left meets in shared memory. A thread has C columns
 * of a narrow type, so that a warp still reads a line of 128 bytes. */
template <typename T, int C> __global__ void __launch_bounds__(WARPS *COLUMNS)
    reduce_columns_kernel(reduce_args r, columns_plan plan)
{
    typedef typename sum_of<T>::type R;
    enum { WIDTH = COLUMNS * C, KEEP = is_ordered<R>::value ? OWN : 1 };
    __shared__ R shared[WARPS][WIDTH];
    const gop_reduction &g = r.g;
    const int x = threadIdx.x % COLUMNS * C, warp = threadIdx.x / COLUMNS;
    const unsigned row = blockIdx.x / plan.across;
    const unsigned outer = row / plan.leaves, leaf = row % plan.leaves;
    const int64_t begin = (int64_t)(blockIdx.x % plan.across) * WIDTH;
    const int64_t stride = g.in[g.kept], left = g.count - (int64_t)leaf * LEAF;
    R acc[C][KEEP];
#pragma unroll
    for (int i = 0; i < C * KEEP; i++) acc[i / KEEP][i % KEEP] = constant<R>::zero();
    if (begin + x < plan.line) {
        const T *a = static_cast<const T *>(r.a) + place_of(g, 0, g.kept - 1, outer).in +
                     begin + x + ((int64_t)leaf * LEAF + warp) * stride;
        if (left >= LEAF)
#pragma unroll 1
            for (int j = 0; j < LEAF; j += LANES)
                add_sixteen<true, T, C>(a + j * stride, WARPS * stride, 0, acc);
        else
#pragma unroll 1
            for (int j = warp; j < left; j += LANES)
                add_sixteen<false, T, C>(a + (j - warp) * stride, WARPS * stride, left - j,
                                         acc);
    }
#pragma unroll
    for (int c = 0; c < C; c++) {
        fold_own<sum_fold<R>, KEEP>(acc[c]);
        shared[warp][x + c] = acc[c][0];
    }
    __syncthreads();
    const int q = threadIdx.x;
    if (q < WIDTH && begin + q < plan.line)
        columns_conclude(r, plan.line, outer, leaf, begin + q,
                         columns_meet<R, WIDTH, false>(shared, q));
}

/* ---- columns, leaves: a block folds 64 sums of each of 32 columns -----------------------
 * Eight neighbours in a thread, then the eight warps. */
template <typename R> __global__ void __launch_bounds__(WARPS *COLUMNS)
    reduce_columns_leaves_kernel(reduce_args r, columns_plan plan, const R *from)
{
    __shared__ R shared[WARPS][COLUMNS];
    const int x = threadIdx.x % COLUMNS, warp = threadIdx.x / COLUMNS;
    const unsigned row = blockIdx.x / plan.across;
    const int64_t outer = row / (unsigned)r.leaves, part = row % (unsigned)r.leaves;
    const int64_t column = (int64_t)(blockIdx.x % plan.across) * COLUMNS + x;
    const int64_t leaf = part * FOLDED + warp * WARPS;
    R v[WARPS];
#pragma unroll
    for (int i = 0; i < WARPS; i++)
        v[i] = column < plan.line && leaf + i < plan.leaves
                   ? from[(outer * plan.leaves + leaf + i) * plan.line + column]
                   : constant<R>::zero();
#pragma unroll
    for (int d = 1; d < WARPS; d *= 2)
#pragma unroll
        for (int i = 0; i < WARPS; i += 2 * d) v[i] = add(v[i], v[i + d]);
    shared[warp][x] = v[0];
    __syncthreads();
    if (warp == 0 && column < plan.line)
        columns_conclude(r, plan.line, outer, part, column,
                         columns_meet<R, COLUMNS, true>(shared, x));
}

static int64_t columns_blocks(const gop_reduction &g)
{
    const int64_t line = g.extent[g.kept - 1];
    return g.outputs / line * blocks_for(line, COLUMNS) * blocks_for(g.count, LEAF);
}

size_t reduce_columns_scratch(const gop_ctx *, const gop_task *task)
{
    const gop_reduction &g = task->geometry.reduction;
    const int64_t leaves = blocks_for(g.count, LEAF);
    return leaves == 1 ? 0
                       : (size_t)(g.outputs * (leaves + blocks_for(leaves, FOLDED))) * SLOT / 2;
}

/* Whether all groups of `together` columns start at multiples of as many elements. */
static bool in_groups(const reduce_args &r, int64_t line, int together, int item)
{
    int64_t bits = line | r.g.in[r.g.kept];
    for (int d = 0; d < r.g.kept - 1; d++) bits |= r.g.in[d];
    return bits % together == 0 && (uintptr_t)r.a % (together * item) == 0;
}

template <typename T>
static gop_status columns_task(gop_ctx *ctx, const gop_task *task, int64_t)
{
    typedef typename sum_of<T>::type R;
    enum { C = sizeof(T) < 4 ? 4 / sizeof(T) : 1 };
    reduce_args r;
    GOP_TRY(reduce_prepare(ctx, task, &r));
    const int64_t line = r.g.extent[r.g.kept - 1], outer = r.g.outputs / line;
    columns_plan plan = {line, (unsigned)blocks_for(line, COLUMNS), (unsigned)r.leaves};
    const dim3 block(WARPS * COLUMNS);
    R *const half[2] = {static_cast<R *>(r.partial),
                        static_cast<R *>(r.partial) + r.g.outputs * r.leaves};
    if (C > 1 && in_groups(r, line, C, sizeof(T))) {
        columns_plan groups = plan;
        groups.across = (unsigned)blocks_for(line, C * COLUMNS);
        GOP_TRY(GOP_LAUNCH(ctx, (reduce_columns_kernel<T, C>),
                           dim3((unsigned)(outer * groups.across * r.leaves)), block, 0, r,
                           groups));
    } else
        GOP_TRY(GOP_LAUNCH(ctx, (reduce_columns_kernel<T, 1>),
                           dim3((unsigned)(outer * plan.across * r.leaves)), block, 0, r,
                           plan));
    for (int from = 0; r.leaves > 1; from ^= 1) {
        plan.leaves = (unsigned)r.leaves;
        r.leaves = blocks_for(r.leaves, FOLDED);
        r.partial = half[from ^ 1];
        GOP_TRY(GOP_LAUNCH(ctx, reduce_columns_leaves_kernel<R>,
                           dim3((unsigned)(outer * plan.across * r.leaves)), block, 0, r, plan,
                           (const R *)half[from]));
    }
    return GOP_OK;
}

gop_status reduce_columns(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    static const gop_launch of[GOP_NDTYPES] = GOP_LAUNCH_ALL(columns_task);
    return of[task->in[0].dtype](ctx, task, step);
}

gop_status reduce_columns_accepts(const gop_ctx *, const gop_task *task)
{
    const gop_reduction &g = task->geometry.reduction;
    const gop_reduce_params &params = task->call->params.reduce;
    const int whole = task->in[0].dtype <= GOP_UINT64;
    if ((params.op != GOP_SUM && (params.op != GOP_MEAN || whole)) || params.has_where)
        return gop_fail(GOP_REFUSED, "reduce: this kernel takes sums, and means of floats, "
                                     "without where");
    if (g.kept == 0 || g.in[g.kept - 1] != 1 || g.extent[g.kept - 1] < COLUMNS)
        return gop_fail(GOP_REFUSED,
                        "reduce: this kernel needs outputs whose elements are neighbours in "
                        "memory, in lines of %d or more",
                        COLUMNS);
    if (g.reduced != 1 || g.in[g.kept] == 1 || g.count < WARPS)
        return gop_fail(GOP_REFUSED,
                        "reduce: this kernel needs at least %d elements to an output, one "
                        "distance apart",
                        WARPS);
    if (g.outputs == 0 || columns_blocks(g) > 0x7fffffff)
        return gop_fail(GOP_REFUSED, "reduce: this kernel needs 1 to 2^31 - 1 blocks");
    return GOP_OK;
}
