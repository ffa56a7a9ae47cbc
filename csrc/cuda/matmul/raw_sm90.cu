/*
 * raw_sm90.cu - matmul of float32 with some columns: the large operand is split in registers.
 *
 * To write a large operand's pieces and to read them again takes three times what reading it
 * takes; with some hundred columns that is more than multiplying. Here four warps copy it as it
 * lies into a ring in shared memory, and those that multiply split what they take from there:
 * the matrix instruction takes one operand from registers. Only the small operand is packed.
 */
#include "cuda/wgmma.h"

#if GOP_SM90

#include "cuda/matmul/raw.h"
#include "cuda/matmul/tiles.h"

struct raw_plan {
    thin_cut cut;
    raw_job job;
    int64_t each; /* threads that pack a product's small operand */
    size_t at_wanted;
};

template <typename T, bool ALONG>
static gop_status matmul_raw(gop_ctx *ctx, const gop_task *task, int64_t)
{
    typedef raw_shape<T, ALONG> shape;
    const raw_plan &plan = *GOP_OWN(const raw_plan, task->plan);
    const matmul_product<T> p = thin_product_of<T>(task, plan.cut);
    uint8_t *const factors = (uint8_t *)task->scratch + plan.cut.pack_at;
    raw_job job = plan.job;
    job.factors = factors;
    job.wanted = (unsigned *)((uint8_t *)task->scratch + plan.at_wanted);
    const gop_gemm &g = p.g;
    job.pairs = sizeof(T) == 4 && g.out_col == 1 && g.out_row % 2 == 0 &&
                (uintptr_t)p.out % 8 == 0 && p.part.split_stride % 2 == 0;
    for (int axis = 0; axis < g.batch_rank; axis++) job.pairs &= g.out[axis] % 2 == 0;
    const dim3 packers((unsigned)blocks_for(plan.each, 256),
                       (unsigned)(g.batches < 65535 ? g.batches : 65535));
    GOP_TRY(GOP_LAUNCH(ctx, (matmul_raw_pack_kernel<T, ALONG>), packers, 256, 0, p, factors,
                       job.stages, plan.each, job.wanted));
    const int64_t most = ctx->info.processors;
    GOP_TRY(GOP_LAUNCH_EARLY(ctx, (matmul_raw_kernel<T, ALONG>),
                             (unsigned)(job.items < most ? job.items : most), RAW_THREADS,
                             shape::SHARED, p, job));
    GOP_TRY(ring_add_pieces<T>(ctx, task, p.part));
    matmul_part whole = {0, g.batches, 0, task->geometry.gemm.m, 1, g.k, 0};
    whole.wanted = job.wanted;
    return matmul_launch_blocks<T, T>(ctx, matmul_product_of<T>(task, whole));
}

static gop_launch launch_of(gop_dtype dtype, int along)
{
    if (dtype == GOP_FLOAT32) return along ? matmul_raw<float, true> : matmul_raw<float, false>;
    return along ? matmul_raw<complex64, true> : matmul_raw<complex64, false>;
}

static gop_status matmul_raw_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    GOP_TRY(gop_has_wgmma(ctx, "matmul: kernel 'raw'"));
    raw_plan *const p = GOP_OWN(raw_plan, plan);
    *p = {};
    const gop_gemm g = thin_geometry(task, &p->cut.swapped);
    const int64_t item = matmul_item(task), parts = item / 4, terms = 32 / parts;
    GOP_TRY(thin_takes(task, g, "raw", (int)(512 / parts), 4096));
    if (of_itself(task->call))
        return gop_fail(GOP_REFUSED, "matmul: kernel 'raw' takes arrays that are not each "
                                     "other's transpose, whose product is symmetric");
    const double terms_of_all = (double)g.batches * (double)g.m * (double)g.n * (double)g.k;
    if (terms_of_all * (double)(parts * parts) > (double)ctx->info.processors * 3.5e10)
        return gop_fail(GOP_REFUSED, "matmul: kernel 'raw' takes products of some 100 ms at "
                                     "most, as it computes one in one step");
    enum { FEW = 32 }; /* columns that 'ring' serves as well */
    const double least = 16e6, bytes = (double)g.m * (double)g.k * (double)item;
    const int lower = task->call->params.matmul.precision > GOP_HIGHEST;
    if (!task->named && (lower || g.n * parts <= FEW || bytes < least))
        return gop_fail(
            GOP_REFUSED,
            "matmul: kernel 'raw' takes more than %d columns beside %g MB, where no "
            "lower precision is asked for",
            (int)(FEW / parts), least / 1e6);
    const int along = thin_far(g.a_col) <= thin_far(g.a_row);
    raw_job &job = p->job;
    job.tiles = (g.n * parts + RAW_COLUMNS - 1) / RAW_COLUMNS;
    job.stages = (g.k + terms - 1) / terms;
    job.wide = thin_wide(task, g, p->cut.swapped ? 1 : 0, along);
    p->each = job.tiles * job.stages * 32 * (RAW_COLUMNS / 8);
    const int64_t blocks = blocks_for(g.m, RING_LINES) * job.tiles * g.batches;
    const int64_t longest = (job.stages + 7) / 8;
    int64_t pieces = ctx->info.processors / blocks;
    if (pieces > longest) pieces = longest;
    if (pieces < 1) pieces = 1;
    thin_cut &cut = p->cut;
    cut.chunk = ((g.k + pieces - 1) / pieces + terms - 1) / terms * terms;
    cut.split = (g.k + cut.chunk - 1) / cut.chunk;
    job.items = blocks * cut.split;
    thin_scratch(task, g, &cut, plan);
    p->at_wanted = cut.pack_at + (size_t)(g.batches * job.tiles * job.stages * 3 * 8192);
    plan->scratch = p->at_wanted + 256;
    plan->launch = launch_of(task->in[0].dtype, along);
    return GOP_OK;
}

#define DTYPES (1u << GOP_FLOAT32 | 1u << GOP_COMPLEX64)
#else
#define DTYPES 0

static gop_status matmul_raw_plan(const gop_ctx *ctx, const gop_task *, gop_plan *)
{
    return gop_has_wgmma(ctx, "matmul: kernel 'raw'");
}
#endif

extern const gop_row matmul_raw_row = {
    .name = "raw",
    .note = "few columns beside a far larger operand: float32 split into three bfloat16 in "
            "registers, which the matrix instruction takes, and never written",
    .role = GOP_CONFORMING,
    .plan = matmul_raw_plan,
    .dtypes = DTYPES,
};
