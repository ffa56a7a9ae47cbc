/*
 * ring_sm80.cu - matmul with few columns, by tensor cores fed from a ring in shared memory.
 *
 * Whoever asks memory for its next bytes only after the last have come waits for most of the
 * time. Copies that nobody waits for (cp.async) keep some 100 KB on their way to each
 * multiprocessor, in whole lines of memory, and no register holds them. The large operand is
 * read once, as it lies; the small one is first laid out as the factors that tensor cores take.
 */
#include "cuda/matmul/thin.h"
#include "cuda/matmul/warpgroup.h"
#include "cuda/sm80.h"

#if GOP_SM80

#include "cuda/matmul/ring.h"
#include "cuda/matmul/tiles.h"

struct ring_plan {
    thin_cut cut;
    int64_t stages, each; /* of a product: stages, and threads that write factors */
    int64_t tiles;        /* of columns */
    int wide;
    size_t at_wanted;
};

template <typename T, bool ALONG, int NT>
static gop_status matmul_ring(gop_ctx *ctx, const gop_task *task, int64_t)
{
    typedef ring_shape<T, ALONG, NT> shape;
    static_assert(shape::STAGES * shape::BYTES <= RING_SHARED, "what a block may have");
    const ring_plan &plan = *GOP_OWN(const ring_plan, task->plan);
    const matmul_product<T> p = thin_product_of<T>(task, plan.cut);
    uint8_t *const factors = (uint8_t *)task->scratch + plan.cut.pack_at;
    unsigned *const wanted =
        shape::SPLIT ? (unsigned *)((uint8_t *)task->scratch + plan.at_wanted) : nullptr;
    const dim3 packers((unsigned)blocks_for(plan.each, 256),
                       (unsigned)(p.g.batches < 65535 ? p.g.batches : 65535));
    GOP_TRY(GOP_LAUNCH(ctx, (matmul_ring_pack_kernel<T, ALONG, NT>), packers, 256, 0, p,
                       factors, plan.stages, plan.each, wanted));
    const unsigned grid =
        (unsigned)(blocks_for(p.g.m, RING_LINES) * plan.tiles * plan.cut.split * p.g.batches);
    GOP_TRY(GOP_LAUNCH_EARLY(ctx, (matmul_ring_kernel<T, ALONG, NT>), grid, THIN_THREADS,
                             shape::STAGES * shape::BYTES, p, factors, plan.stages, plan.wide,
                             wanted));
    GOP_TRY(ring_add_pieces<T>(ctx, task, p.part));
    if constexpr (shape::SPLIT) {
        matmul_part whole = {0, p.g.batches, 0, task->geometry.gemm.m, 1, p.g.k, 0};
        whole.wanted = wanted;
        return matmul_launch_blocks<T, T>(ctx, matmul_product_of<T>(task, whole));
    }
    return GOP_OK;
}

template <typename T, bool ALONG> static gop_launch launch_of(int width)
{
    switch (width) {
    case 0:
        return matmul_ring<T, ALONG, 1>;
    case 1:
        return matmul_ring<T, ALONG, 2>;
    case 2:
        return matmul_ring<T, ALONG, 4>;
    default:
        break;
    }
    if constexpr (sizeof(typename ring_real<T>::type) < 8) return matmul_ring<T, ALONG, 8>;
    return nullptr;
}
template <typename T> static gop_launch launch_of(int along, int width)
{
    return along ? launch_of<T, true>(width) : launch_of<T, false>(width);
}
static gop_launch launch_of(gop_dtype dtype, int along, int width)
{
    switch (dtype) {
    case GOP_FLOAT16:
        return launch_of<float16>(along, width);
    case GOP_BFLOAT16:
        return launch_of<bfloat16>(along, width);
    case GOP_FLOAT32:
        return launch_of<float>(along, width);
    case GOP_FLOAT64:
        return launch_of<double>(along, width);
    case GOP_COMPLEX64:
        return launch_of<complex64>(along, width);
    default:
        return launch_of<complex128>(along, width);
    }
}
#define DTYPES THIN_DTYPES
#else
#define DTYPES 0
#endif

static gop_status matmul_ring_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    GOP_TRY(gop_has_code(ctx, "matmul: kernel 'ring'", 8,
                         "whose tensor cores take halves and float64"));
#if GOP_SM80
    if (ctx->info.shared_per_block < RING_SHARED)
        return gop_fail(
            GOP_REFUSED,
            "matmul: kernel 'ring' needs %d bytes of shared memory, this device has "
            "%lld for a block",
            RING_SHARED, (long long)ctx->info.shared_per_block);
    ring_plan *const p = GOP_OWN(ring_plan, plan);
    *p = {};
    const gop_gemm g = thin_geometry(task, &p->cut.swapped);
    const gop_dtype dtype = task->in[0].dtype;
    const int parts = dtype == GOP_COMPLEX64 || dtype == GOP_COMPLEX128 ? 2 : 1;
    const int split = dtype == GOP_FLOAT32 || dtype == GOP_COMPLEX64;
    const int64_t item = matmul_item(task), columns = g.n * parts;
    GOP_TRY(thin_takes(task, g, "ring", THIN_COLUMNS, split ? 512 : THIN_COLUMNS));
    if (split && of_itself(task->call))
        return gop_fail(GOP_REFUSED, "matmul: kernel 'ring' takes float32 arrays that are not "
                                     "each other's transpose, whose product is symmetric");
    const int most = item / parts < 8 ? 3 : 2;
    int width = 0;
    while (width < most && columns > 8 << width) width++;
    p->tiles = (columns + (8 << width) - 1) / (8 << width);
    const int64_t terms = RING_LINE_BYTES / item;
    p->stages = (g.k + terms - 1) / terms;
    p->each = p->tiles * p->stages * 64 * (1 << width);
    const int along = thin_far(g.a_col) <= thin_far(g.a_row);
    p->wide = thin_wide(task, g, p->cut.swapped ? 1 : 0, along) || item == 16;
    /* columns that the arithmetic units serve as well, and bytes that pay for more launches */
    const int few = split ? 4 : 2;
    const double least = 16e6, bytes = (double)g.m * (double)g.k * (double)item;
    if (!task->named && (g.n <= few || g.k < 64 || bytes < least || (item == 2 && !p->wide)))
        return gop_fail(GOP_REFUSED,
                        "matmul: kernel 'ring' takes more than %d columns beside %g MB, halves "
                        "in multiples of 16 bytes",
                        few, least / 1e6);
    GOP_TRY(warpgroup_has_halves(ctx, task, "ring"));

    /* as many pieces of a sum as fill the device */
    const int64_t slots = ctx->info.processors * 2;
    const int64_t blocks = blocks_for(g.m, RING_LINES) * p->tiles * g.batches;
    const int64_t longest = (g.k + 8 * terms - 1) / (8 * terms);
    int64_t pieces = slots / blocks < longest ? slots / blocks : longest;
    if (pieces < 1) pieces = 1;
    thin_cut &cut = p->cut;
    cut.chunk = ((g.k + pieces - 1) / pieces + terms - 1) / terms * terms;
    cut.split = (g.k + cut.chunk - 1) / cut.chunk;
    cut.packed = 0;
    thin_scratch(task, g, &cut, plan);
    p->at_wanted = cut.pack_at + (size_t)(g.batches * p->each / 32 * (split ? 768 : 512));
    plan->scratch = p->at_wanted + 256;
    plan->launch = launch_of(dtype, along, width);
    return GOP_OK;
#else
    return GOP_OK;
#endif
}

extern const gop_row matmul_ring_row = {
    .name = "ring",
    .note = "few rows or columns: whole lines of the large operand by copies that nobody waits "
            "for, from shared memory into tensor cores",
    .role = GOP_CONFORMING,
    .plan = matmul_ring_plan,
    .dtypes = DTYPES,
};
