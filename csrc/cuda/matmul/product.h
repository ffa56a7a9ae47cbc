/*
 * product.h - what all kernels of matmul share: a term and its sum, the operands of one launch,
 * the cut of a long call into steps, and of a sum into chunks.
 */
#ifndef GOP_CUDA_MATMUL_PRODUCT_H
#define GOP_CUDA_MATMUL_PRODUCT_H

#include "cuda/common/item_size.h"
#include "cuda/device.h"

/* ---- the arithmetic of each dtype ---- */

/* A truth value: sums are or-ed, since a count of true terms could wrap to 0. */
struct logic {
    uint32_t bit;
};

/* What a sum of products is kept in. Signed integers run as unsigned ones: the low bits of a
 * product are the same, and unsigned numbers may wrap. */
template <typename T> struct sum_type {
    typedef compute_t<T> type;
};
template <> struct sum_type<boolean> {
    typedef logic type;
};
template <> struct sum_type<uint8_t> {
    typedef uint32_t type;
};
template <> struct sum_type<uint16_t> {
    typedef uint32_t type;
};
template <typename T> using sum_t = typename sum_type<T>::type;

template <typename T> GOP_DEVICE sum_t<T> widen(T value)
{
    return load(value);
}
template <> GOP_DEVICE logic widen<boolean>(boolean value)
{
    return {value.byte != 0};
}

/* Stores a sum in its own type, or rounded once, or as the low bits, in the output's. */
template <typename O> GOP_DEVICE void put(O *to, O sum)
{
    *to = sum;
}
GOP_DEVICE void put(boolean *to, logic sum)
{
    to->byte = (uint8_t)sum.bit;
}
GOP_DEVICE void put(uint8_t *to, uint32_t sum)
{
    *to = (uint8_t)sum;
}
GOP_DEVICE void put(uint16_t *to, uint32_t sum)
{
    *to = (uint16_t)sum;
}
GOP_DEVICE void put(float16 *to, float sum)
{
    *to = store<float16>(sum);
}
GOP_DEVICE void put(bfloat16 *to, float sum)
{
    *to = store<bfloat16>(sum);
}

/* a * b + sum: one rounding for a float, four for a complex number. */
GOP_DEVICE float accumulate(float a, float b, float sum)
{
    return fmaf(a, b, sum);
}
GOP_DEVICE double accumulate(double a, double b, double sum)
{
    return fma(a, b, sum);
}
GOP_DEVICE uint32_t accumulate(uint32_t a, uint32_t b, uint32_t sum)
{
    return a * b + sum;
}
GOP_DEVICE uint64_t accumulate(uint64_t a, uint64_t b, uint64_t sum)
{
    return a * b + sum;
}
GOP_DEVICE logic accumulate(logic a, logic b, logic sum)
{
    return {sum.bit | (a.bit & b.bit)};
}
template <typename R>
GOP_DEVICE complex<R> accumulate(complex<R> a, complex<R> b, complex<R> sum)
{
    return {accumulate(-a.im, b.im, accumulate(a.re, b.re, sum.re)),
            accumulate(a.im, b.re, accumulate(a.re, b.im, sum.im))};
}

template <typename S> GOP_DEVICE S plus(S a, S b)
{
    return a + b;
}
GOP_DEVICE logic plus(logic a, logic b)
{
    return {a.bit | b.bit};
}
template <typename R> GOP_DEVICE complex<R> plus(complex<R> a, complex<R> b)
{
    return {a.re + b.re, a.im + b.im};
}

/* ---- operands ---- */

/* What a kernel gets of a gop_gemm, whose batch has room for 64 axes: 2 KB of arguments cost a
 * microsecond a launch. It gets the innermost axes, which is all in practice. */
struct matmul_geometry {
    enum { AXES = 3 };
    int64_t m, n, k;
    int64_t a_row, a_col, b_row, b_col, out_row, out_col;
    int batch_rank;
    int64_t batches; /* product of these extents */
    int64_t extent[AXES], a[AXES], b[AXES], out[AXES];
};

static inline matmul_geometry matmul_geometry_of(const gop_gemm &g)
{
    enum { AXES = matmul_geometry::AXES };
    const int before = g.batch_rank > AXES ? g.batch_rank - AXES : 0;
    matmul_geometry of = {g.m,     g.n,     g.k,       g.a_row,   g.a_col,
                          g.b_row, g.b_col, g.out_row, g.out_col, g.batch_rank - before,
                          1};
    for (int axis = 0; axis < of.batch_rank; axis++) {
        of.extent[axis] = g.extent[before + axis];
        of.a[axis] = g.a[before + axis];
        of.b[axis] = g.b[before + axis];
        of.out[axis] = g.out[before + axis];
        of.batches *= of.extent[axis];
    }
    return of;
}

/* Refuses a batch of more axes, in the name of `who`. */
static inline gop_status matmul_takes_batch(const gop_gemm &g, const char *who)
{
    if (g.batch_rank <= matmul_geometry::AXES) return GOP_OK;
    return gop_fail(GOP_REFUSED,
                    "matmul: kernel '%s' takes batches of up to %d axes that do not merge, "
                    "got %d",
                    who, matmul_geometry::AXES, g.batch_rank);
}

/* Refuses empty sums, and those whose terms an int cannot count some steps past their end. */
static inline gop_status matmul_takes_sums(const gop_gemm &g, const char *who)
{
    if (g.k > 0 && g.k <= INT32_MAX / 4) return GOP_OK;
    return gop_fail(GOP_REFUSED, "matmul: kernel '%s' takes sums of 1 to %d terms, got %lld",
                    who, INT32_MAX / 4, (long long)g.k);
}

struct matmul_part {
    int64_t batch, batches; /* the products of the batch it computes */
    int64_t row, rows;      /* and which rows of them */
    int64_t split, chunk;   /* sums over l are split into so many chunks of so many terms */
    int64_t split_stride;   /* between the results of two chunks */
    const unsigned *wanted = nullptr; /* on the device: where it is 0, nothing is computed */
};

/* All of a product, in one step. */
static inline matmul_part matmul_whole(const gop_gemm &g)
{
    return {0, g.batches, 0, g.m, 1, g.k, 0};
}

template <typename T> struct matmul_product {
    matmul_geometry g;
    const T *a, *b;
    void *out;
    matmul_part part;
};

template <typename T>
static inline matmul_product<T> matmul_product_of(const gop_task *task, const matmul_part &part)
{
    const gop_gemm &g = task->geometry.gemm;
    matmul_product<T> p;
    p.g = matmul_geometry_of(g);
    p.part = part;
    p.part.batch = part.batch % p.g.batches;
    int64_t before = part.batch / p.g.batches, a = 0, b = 0, out = 0; /* of outer axes */
    for (int axis = g.batch_rank - p.g.batch_rank - 1; axis >= 0; axis--) {
        const int64_t index = before % g.extent[axis];
        before /= g.extent[axis];
        a += index * g.a[axis], b += index * g.b[axis], out += index * g.out[axis];
    }
    p.a = (const T *)task->in[0].data + a;
    p.b = (const T *)task->in[1].data + b;
    p.out = (T *)task->out[0].data + out;
    return p;
}

/* The transposed product, of the transposed operands. */
template <typename G> static inline G matmul_swapped(const G &g)
{
    G s = g;
    s.m = g.n, s.n = g.m;
    s.a_row = g.b_col, s.a_col = g.b_row;
    s.b_row = g.a_col, s.b_col = g.a_row;
    s.out_row = g.out_col, s.out_col = g.out_row;
    for (int axis = 0; axis < g.batch_rank; axis++)
        s.a[axis] = g.b[axis], s.b[axis] = g.a[axis];
    return s;
}

struct matmul_offsets {
    int64_t a, b, out;
};

GOP_DEVICE matmul_offsets matmul_batch(const matmul_geometry &g, int64_t batch)
{
    matmul_offsets at = {0, 0, 0};
    for (int axis = g.batch_rank - 1; axis >= 0; axis--) {
        const int64_t index = batch % g.extent[axis];
        batch /= g.extent[axis];
        at.a += index * g.a[axis];
        at.b += index * g.b[axis];
        at.out += index * g.out[axis];
    }
    return at;
}

/* From one product of the batch to the next, in C order of all its axes; -1 where the axes do
 * not follow each other so. */
template <typename G> static inline int64_t uniform_batch(const G &g, const int64_t *strides)
{
    for (int axis = 0; axis + 1 < g.batch_rank; axis++)
        if (strides[axis] != strides[axis + 1] * g.extent[axis + 1]) return -1;
    return g.batch_rank > 0 ? strides[g.batch_rank - 1] : 0;
}

static inline int64_t matmul_item(const gop_task *task)
{
    return item_size(task->out[0].dtype);
}

/* Whether b is a's own transpose, as the caller has them. */
static inline bool of_itself(const gop_call *call)
{
    const gop_array *a = &call->in[0], *b = &call->in[1];
    const int last = a->ndim - 1;
    if (a->data != b->data || a->ndim != b->ndim || last < 1) return false;
    for (int d = 0; d <= last; d++) {
        const int e = d < last - 1 ? d : 2 * last - 1 - d;
        if (a->shape[d] != b->shape[e] || a->strides[d] != b->strides[e]) return false;
    }
    return true;
}

/* ---- steps of about the same time ---- */

/* Terms that an SM adds in some 20 ms at a quarter of its float32 rate; wide types have fewer
 * units. `slower`: the kernel's time over the best one's, at most. */
static inline double matmul_step_terms(const gop_ctx *ctx, const gop_task *task, double slower)
{
    const double processors = ctx->info.processors > 0 ? ctx->info.processors : 1;
    const int64_t item = matmul_item(task);
    const double wide = item == 16 ? 16 : item == 8 ? 4 : 1;
    return processors * 2.4e9 / (slower * wide);
}

/* Whether 16 bytes, or `bytes`, which hold so many items, are neighbours in an operand's lines
 * wherever a kernel looks: `near` is the stride of items, of which a line has `extent`, `far`
 * of lines. */
static inline bool matmul_wide(const gop_gemm &g, const int64_t *batch, const void *data,
                               int64_t near, int64_t far, int64_t extent, int64_t items,
                               unsigned bytes = 16)
{
    bool wide =
        near == 1 && far % items == 0 && extent % items == 0 && (uintptr_t)data % bytes == 0;
    for (int axis = 0; axis < g.batch_rank; axis++) wide &= batch[axis] % items == 0;
    return wide;
}

/* A step has so many products of the batch, or of one product a panel of rows. */
struct matmul_cut {
    int64_t products, rows;
    int64_t panels; /* of a product */
    int64_t reach;  /* products of one matmul_geometry: no step has others too */
};

/* The plan of most kernels: a long task is cut into steps, by rows if one product is long, else
 * by products of the batch. */
static inline void matmul_plan_steps(const gop_ctx *ctx, const gop_task *task, double slower,
                                     gop_plan *plan, int least = 64)
{
    enum { PANEL = 128 }; /* a whole number of every kernel's tiles */
    const gop_gemm *g = &task->geometry.gemm;
    const double budget = matmul_step_terms(ctx, task, slower);
    const double row = (double)g->n * (double)(g->k ? g->k : 1), product = row * (double)g->m;
    matmul_cut *cut = GOP_OWN(matmul_cut, plan);
    *cut = {1, g->m, 1, matmul_geometry_of(*g).batches};
    if (product > budget) {
        const int64_t panels = 1 + (int64_t)(product / budget);
        const int64_t even = (g->m + panels - 1) / panels;
        cut->rows = (even + PANEL - 1) / PANEL * PANEL;
        cut->panels = (g->m + cut->rows - 1) / cut->rows;
        plan->steps = cut->panels * g->batches;
        return;
    }
    /* A grid has at most 2^31 - 1 blocks, and a tile `least` lines and columns. */
    const double grid =
        2147483647.0 / (double)((g->m + least - 1) / least * ((g->n + least - 1) / least));
    const int64_t fit = (int64_t)(budget / product < grid ? budget / product : grid);
    cut->products = fit < 1 ? 1 : fit < cut->reach ? fit : cut->reach;
    plan->steps = g->batches / cut->reach * blocks_for(cut->reach, cut->products);
}

/* The plan of a kernel that has nothing else to decide. */
template <int SLOWER>
static gop_status matmul_steps_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    matmul_plan_steps(ctx, task, SLOWER, plan);
    return GOP_OK;
}

/* What a step computes. */
static inline matmul_part matmul_part_of(const gop_task *task, int64_t step)
{
    const gop_gemm &g = task->geometry.gemm;
    const matmul_cut &cut = *GOP_OWN(const matmul_cut, task->plan);
    const int64_t each = blocks_for(cut.reach, cut.products), group = step / cut.panels;
    const int64_t first = group % each * cut.products; /* of what it reaches */
    const int64_t row = step % cut.panels * cut.rows;
    matmul_part part = {
        group / each * cut.reach + first, cut.products, row, cut.rows, 1, g.k, 0};
    if (part.batches > cut.reach - first) part.batches = cut.reach - first;
    if (part.rows > g.m - row) part.rows = g.m - row;
    return part;
}

/* ---- sums that are split along l: partial sums in scratch, and the adding of them ---- */

/* The same product into scratch: chunk by chunk, each in C order. */
template <typename T>
static inline matmul_product<T> matmul_partials_of(const matmul_product<T> &p, void *scratch)
{
    matmul_product<T> partials = p;
    partials.out = scratch;
    partials.g.out_row = p.g.n;
    partials.g.out_col = 1;
    for (int axis = p.g.batch_rank - 1, inner = axis; axis >= 0; axis--)
        partials.g.out[axis] =
            axis == inner ? p.g.m * p.g.n : partials.g.out[axis + 1] * p.g.extent[axis + 1];
    return partials;
}

/* Enqueues the adding of partial sums into p.out, in an order that their number decides. */
template <typename T>
gop_status matmul_add_partials(gop_ctx *ctx, const matmul_product<T> &p, const void *partials);

/* ---- what blocktiled.cu and splitk.cu have for other kernels ---- */

/* Enqueues the kernel of 'blocktiled'. O is the output's type, or the sum's own for
 * partial sums. */
template <typename T, typename O>
gop_status matmul_launch_blocks(gop_ctx *ctx, const matmul_product<T> &p);

/* clang-format off */

/* X(T) for each type of items. */
#define MATMUL_FLOATS(X) X(float16) X(bfloat16) X(float) X(double) X(complex64) X(complex128)
#define MATMUL_TYPES(X) \
    X(boolean) X(uint8_t) X(uint16_t) X(uint32_t) X(uint64_t) MATMUL_FLOATS(X)

/* f<T, ...> for each dtype, signed integers by their unsigned twin; for a lesson's three. */
#define MATMUL_LAUNCHES(f, ...) \
    {f<boolean, ##__VA_ARGS__>, f<uint8_t, ##__VA_ARGS__>, f<uint16_t, ##__VA_ARGS__>, \
     f<uint32_t, ##__VA_ARGS__>, f<uint64_t, ##__VA_ARGS__>, f<uint8_t, ##__VA_ARGS__>, \
     f<uint16_t, ##__VA_ARGS__>, f<uint32_t, ##__VA_ARGS__>, f<uint64_t, ##__VA_ARGS__>, \
     f<float16, ##__VA_ARGS__>, f<bfloat16, ##__VA_ARGS__>, f<float, ##__VA_ARGS__>, \
     f<double, ##__VA_ARGS__>, f<complex64, ##__VA_ARGS__>, f<complex128, ##__VA_ARGS__>}
#define MATMUL_LESSONS(f, ...) \
    {nullptr, nullptr, nullptr, f<uint32_t, ##__VA_ARGS__>, nullptr, nullptr, nullptr, \
     nullptr, nullptr, nullptr, nullptr, f<float, ##__VA_ARGS__>, f<double, ##__VA_ARGS__>}

/* f<..., along, along> by whether a's terms are neighbours, and b's. */
#define MATMUL_BY_ORDER(f, ...) \
    {{f<__VA_ARGS__, 0, 0>, f<__VA_ARGS__, 0, 1>}, {f<__VA_ARGS__, 1, 0>, f<__VA_ARGS__, 1, 1>}}

/* clang-format on */

#endif
