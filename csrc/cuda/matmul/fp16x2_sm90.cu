/*
 * fp16x2_sm90.cu - matmul on tensor cores: each float32 as two float16, three products.
 *
 * This takes half as many products as bf16x3_packed, but float16 has a narrow range and two of
 * them only 22 bits. So lines are scaled by powers of two (bf16x3_parts.h), and errors are
 * bounded: the pack counts the numbers that are too small to be held whole, and a sum is
 * doubtful unless it is far larger than the error that these may cause. A few doubtful sums are
 * computed again, each by a block. If there are many, or the operands hold infinities or NaNs,
 * the kernels of bf16x3_packed compute everything. They are always enqueued behind and read a
 * flag in device memory: nothing comes back to the host.
 */
#include "cuda/matmul/steps.h"
#include "cuda/common/wgmma.h"

struct fp16x2_plan {
    split_plan halves, pieces; /* their images share memory, one after the other */
    size_t guard, largest_a, largest_b, scale_a, scale_b, list;
    int64_t lines_a, lines_b;
};

enum { CLEAR_THREADS = 256, MENDERS = 4 /* blocks an SM */ };
enum { MOST_OF_PLACE = 64 }; /* sums of one place on the list */

/* With more doubtful sums it is faster to compute everything again; more tiny numbers foretell
 * as many. */
template <typename G> static unsigned most_doubtful(const G &g, int64_t products)
{
    const double some = (double)g.m * (double)g.n * (double)products / 32768;
    return some < 256 ? 256 : some > 65536 ? 65536 : (unsigned)some;
}

#if GOP_SM90

/* Compiled once, in bf16x3_packed_sm90.cu. */
extern template gop_status matmul_pieces_step<float, 3>(gop_ctx *, const split_plan &,
                                                        const split_step<float> &);

__global__ void __launch_bounds__(CLEAR_THREADS)
    matmul_fp16x2_clear_kernel(unsigned *words, int64_t count)
{
    const int64_t threads = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += threads)
        words[i] = 0;
}

GOP_DEVICE unsigned magnitude(float x)
{
    return gop_float_to_bits(x) & 0x7fffffffu;
}

/* The largest magnitude of each line of a unit. */
template <bool OF_B>
GOP_DEVICE void scan(const image_job &job, const image_side &side, int64_t unit, unsigned *most)
{
    const pack_unit u = unit_of<OF_B>(job, side, unit);
    const reals<float, OF_B> in = reals_of<float, OF_B>(job, side, u.product);
    const int t = threadIdx.x;
    __syncthreads();
    if (t < PACK_WIDTH) most[t] = 0;
    __syncthreads();
    if (side.transposed) { /* the contiguous direction is that of 64 */
        unsigned own = 0;
        for (int e = t; e < PACK_HEIGHT * PACK_WIDTH; e += THREADS_OF_PACK) {
            const int y = e % PACK_HEIGHT, x = e / PACK_HEIGHT;
            const unsigned bits =
                magnitude(OF_B ? in.at(u.x + x, u.y + y) : in.at(u.y + y, u.x + x));
            own = bits > own ? bits : own;
            if constexpr (OF_B) { /* else the line stays the same */
                for (int lanes = 16; lanes; lanes /= 2) {
                    const unsigned other = __shfl_xor_sync(~0u, own, lanes);
                    own = other > own ? other : own;
                }
                if (t % 32 == 0) atomicMax(most + x, own);
                own = 0;
            }
        }
        if (!OF_B) atomicMax(most + t % PACK_HEIGHT, own);
    } else {
        unsigned own[8] = {};
#pragma unroll
        for (int pass = 0; pass < 4; pass++) {
            const int2 at = pack_place<OF_B>(pass);
            float value[8];
            const int x = u.x + at.x, y = u.y + at.y;
            in.template eight<true>(value, OF_B ? x : y, OF_B ? y : x, side.runs, side.vectors);
#pragma unroll
            for (int e = 0; e < 8; e++) {
                const unsigned bits = magnitude(value[e]);
                own[e] = bits > own[e] ? bits : own[e];
            }
        }
        const int2 at = pack_place<OF_B>(0);
#pragma unroll
        for (int e = 0; e < 8; e++) {
            if (OF_B) atomicMax(most + at.x + e, own[e]);
            else if (e) own[0] = own[e] > own[0] ? own[e] : own[0];
        }
        if (!OF_B) atomicMax(most + at.y, own[0]);
    }
    __syncthreads();
    const int line = (OF_B ? u.x : u.y) + t;
    if (t < (OF_B ? PACK_WIDTH : PACK_HEIGHT) && line < side.padded && most[t])
        atomicMax(side.largest + u.product * side.padded + line, most[t]);
}

__global__ void __launch_bounds__(THREADS_OF_PACK, PACK_BLOCKS)
    matmul_fp16x2_scan_kernel(const image_job job)
{
    __shared__ unsigned most[PACK_WIDTH];
    launch_dependents();
    grid_dependency_sync();
    /* Units go from last to first, so that the pack begins with what is still in the cache. */
    for (int64_t unit = job.units - 1 - blockIdx.x; unit >= 0; unit -= gridDim.x) {
        if (unit < job.units_a) scan<false>(job, job.a, unit, most);
        else scan<true>(job, job.b, unit - job.units_a, most);
    }
}

/* Where element e of doubtful sums is. */
GOP_DEVICE int2 doubtful_place(const doubtful_sums &d, int e)
{
    return make_int2(d.row + e % 4 / 2 * 8, d.column + e / 4 * 8 + e % 2);
}

/* What the sum of |a| |b| has to reach, if the sum of a b does not, for it to be certain. */
GOP_DEVICE float doubt_of(const engine_job &p, int64_t product, int row, int column)
{
    const line_scale r = p.row_scale[product * p.row_scales + row];
    const line_scale c = p.column_scale[product * p.column_scales + column];
    return unscaled(r.doubt + c.doubt, r.undo, c.undo);
}

/* The sum of what the threads of a block have, for all of them. */
GOP_DEVICE float sum_of_block(float own, float (&part)[THREADS_OF_PACK / 32])
{
    for (int lanes = 16; lanes; lanes /= 2) own += __shfl_xor_sync(~0u, own, lanes);
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = own;
    __syncthreads();
    return ((part[0] + part[1]) + (part[2] + part[3])) +
           ((part[4] + part[5]) + (part[6] + part[7]));
}

/* Computes the doubtful sums again; a block takes one after another. Reports if there are too
 * many. A column of b may lie in few memory banks and be slow to read, but mostly a few terms
 * show that the sum, small as it is, is certain. */
__global__ void __launch_bounds__(THREADS_OF_PACK)
    matmul_fp16x2_mend_kernel(const __grid_constant__ engine_job p, const float *a,
                              const float *b)
{
    __shared__ float part[THREADS_OF_PACK / 32];
    __shared__ int wrong[MOST_OF_PLACE], found;
    grid_dependency_sync();
    const unsigned count = p.guard->doubtful;
    const bool over = hopeless(p) || count > p.most_doubtful;
    if (blockIdx.x == 0 && threadIdx.x == 0) p.guard->fallback = over;
    if (over) return;
    const int t = threadIdx.x;
    for (unsigned i = blockIdx.x; i < count; i += gridDim.x) {
        const doubtful_sums d = p.list[i];
        const matmul_offsets of = matmul_batch(p.g, p.batch + d.product);
        float *const out = engine_out_of<float>(p, d.product);
        __syncthreads();
        if (t == 0) found = 0;
        __syncthreads();
        const int2 own = doubtful_place(d, t);
        /* The same condition as when it was listed; to check neighbours again costs little. */
        if (t < 4 * d.chunks && own.x < p.rows && own.y < p.columns &&
            fabsf(out[own.x * p.g.out_row + own.y * p.g.out_col]) <=
                doubt_of(p, d.product, own.x, own.y))
            wrong[atomicAdd(&found, 1)] = t;
        __syncthreads();
        for (int e = 0; e < found; e++) {
            const int2 at = doubtful_place(d, wrong[e]);
            const float *x = a + of.a + (p.row + at.x) * p.g.a_row;
            const float *y = b + of.b + at.y * p.g.b_col;
            const float first = t < p.g.k ? x[t * p.g.a_col] * y[t * p.g.b_row] : 0.0f;
            const float least = sum_of_block(fabsf(first), part);
            if (least >= doubt_of(p, d.product, at.x, at.y) && least <= 3.4028234e38f) continue;
            float sum = 0;
#pragma unroll 4
            for (int64_t l = t; l < p.g.k; l += THREADS_OF_PACK)
                sum = fmaf(x[l * p.g.a_col], y[l * p.g.b_row], sum);
            sum = sum_of_block(sum, part);
            if (t == 0) out[at.x * p.g.out_row + at.y * p.g.out_col] = sum;
        }
    }
}

static gop_status matmul_fp16x2(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const fp16x2_plan &plan = *GOP_OWN(const fp16x2_plan, task->plan);
    split_step<float> s = split_step_of<float>(task, plan.halves, step);
    uint8_t *const scratch = s.scratch;
    guard_state *const guard = (guard_state *)(scratch + plan.guard);

    image_job pack = image_job_of<float, 2>(plan.halves, s);
    pack.guard = guard;
    pack.a.largest = (unsigned *)(scratch + plan.largest_a);
    pack.b.largest = (unsigned *)(scratch + plan.largest_b);
    pack.a.scale = (line_scale *)(scratch + plan.scale_a);
    pack.b.scale = (line_scale *)(scratch + plan.scale_b);

    engine_job job = engine_job_of(ctx, plan.halves, s, pack);
    const double lines = (double)(s.p.g.m + s.p.g.n) * (double)s.p.part.batches;
    const double tiny = lines * (double)s.p.g.k / 512;
    job.guard = guard;
    job.row_scale = pack.a.scale, job.column_scale = pack.b.scale;
    job.row_scales = pack.a.shared ? 0 : pack.a.padded;
    job.column_scales = pack.b.shared ? 0 : pack.b.padded;
    job.list = (doubtful_sums *)(scratch + plan.list);
    job.most_doubtful = most_doubtful(s.p.g, s.p.part.batches);
    job.most_tiny = tiny < 4e9 ? (unsigned)tiny : 4000000000u;

    const int64_t words = (int64_t)(plan.list - plan.guard) / 4;
    const unsigned packers = packers_of(ctx, pack);
    GOP_TRY(GOP_LAUNCH(ctx, matmul_fp16x2_clear_kernel,
                       (unsigned)blocks_for(words, CLEAR_THREADS * 4), CLEAR_THREADS, 0,
                       (unsigned *)guard, words));
    GOP_TRY(
        GOP_LAUNCH_EARLY(ctx, matmul_fp16x2_scan_kernel, packers, THREADS_OF_PACK, 0, pack));
    GOP_TRY(GOP_LAUNCH_EARLY(ctx, (matmul_pack_kernel<float, 2>), packers, THREADS_OF_PACK, 0,
                             pack));
    GOP_TRY((launch_engine<float, 2, true>(ctx, *s.cut, job)));
    GOP_TRY(GOP_LAUNCH_EARLY(ctx, matmul_fp16x2_mend_kernel,
                             (unsigned)(ctx->info.processors * MENDERS), THREADS_OF_PACK, 0,
                             job, s.p.a, s.p.b));
    s = split_step_of<float>(task, plan.pieces, step);
    s.only_if = &guard->fallback;
    return matmul_pieces_step<float, 3>(ctx, plan.pieces, s);
}
#endif

static gop_status matmul_fp16x2_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    GOP_TRY(gop_has_wgmma(ctx, "matmul: kernel 'fp16x2'"));
    const gop_gemm &g = task->geometry.gemm;
    GOP_TRY(matmul_takes_batch(g, "fp16x2"));
    const int64_t most = INT64_C(1) << 29;
    plan->precision = GOP_FAST;
    if (g.k < 16 || g.m > most || g.n > most || g.k > most)
        return gop_fail(GOP_REFUSED,
                        "matmul: kernel 'fp16x2' takes sums of at least 16 terms, got (%lld, "
                        "%lld) outputs of %lld terms",
                        (long long)g.m, (long long)g.n, (long long)g.k);
    fp16x2_plan *p = GOP_OWN(fp16x2_plan, plan);
    *p = {};
    split_plan_of(ctx, task, 2, 1, {0.55, 0.61}, &p->halves);
    split_plan_of(ctx, task, 3, 1, SPLIT_PACE, &p->pieces);
    p->halves.symmetric = 0; /* sums computed anew are not mirrored */
    const split_plan &h = p->halves;
    const gop_gemm transposed = h.transposed ? matmul_swapped(g) : g;
    p->lines_a = tiles_up(h.rows, 256) * h.products;
    p->lines_b = tiles_up(transposed.n, 256) * h.products;
    const size_t images = h.end > p->pieces.end ? h.end : p->pieces.end;
    p->guard = images;
    p->largest_a = p->guard + aligned(sizeof(guard_state));
    p->largest_b = p->largest_a + aligned((size_t)p->lines_a * sizeof(unsigned));
    p->scale_a = p->largest_b + aligned((size_t)p->lines_b * sizeof(unsigned));
    p->scale_b = p->scale_a + aligned((size_t)p->lines_a * sizeof(line_scale));
    p->list = p->scale_b + aligned((size_t)p->lines_b * sizeof(line_scale));
    plan->scratch = p->list + most_doubtful(transposed, h.products) * sizeof(doubtful_sums);
    plan->launch = GOP_NATIVE_LAUNCH(matmul_fp16x2);
    plan->steps = h.panels * ((g.batches + h.products - 1) / h.products);
    return GOP_OK;
}

extern const gop_row matmul_fp16x2_row = {
    .name = "fp16x2",
    .note = "a float32 is nearly the sum of two float16: three products on tensor cores, and "
            "what may be wrong is known and computed anew",
    .role = GOP_CONFORMING,
    .plan = matmul_fp16x2_plan,
    GOP_NATIVE_DTYPES(1u << GOP_FLOAT32),
    .before = "halves",
};
