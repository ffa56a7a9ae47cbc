/*
 * pieces_sm90.cu - matmul on tensor cores: each float32 as three bfloat16, six products.
 *
 * Tensor cores multiply halves some fifteen times as fast as other units multiply float32. A
 * float32 of 24 bits is the sum of three bfloat16 of 8 bits; of the nine products of two such
 * sums the three smallest lie below float32's last bit. Six products on tensor cores, their
 * sums rounded in float32 registers, are as accurate as a loop of fma and more than twice as fast
 * as any.
 *
 * pack.h splits, engine.h multiplies. What pieces do not hold, infinities, NaNs and numbers
 * near the ends of float32's range, the pack sees; then blocktiled's kernel, queued behind,
 * computes, and else does nothing. A complex product is a real one with twice the columns and
 * twice the terms.
 */
#include "cuda/matmul/tiles.h"
#include "cuda/wgmma.h"

#if GOP_SM90

#include "cuda/matmul/engine.h"
#include "cuda/matmul/pack.h"
#include "cuda/matmul/waves.h"

enum { LAST = 1, SYMMETRIC = 2, CUTS = 4 }; /* cuts are numbered by these bits */

struct pieces_plan {
    int turned;                     /* out = (b^T a^T)^T, where out's rows are contiguous */
    int symmetric;                  /* b is a's transpose if it begins where a does */
    int64_t rows, panels, products; /* of a step */
    int blocks, unit;
    engine_cut cut[CUTS];
    size_t image_a, image_b; /* bytes, of a product, in the larger tiles */
    size_t at_b, at_parts, at_bad, at_wanted;
};

template <typename X> static void exchange(X &a, X &b)
{
    const X first = a;
    a = b, b = first;
}

static void turn_product(gop_gemm *g)
{
    exchange(g->m, g->n);
    exchange(g->a_row, g->b_col);
    exchange(g->a_col, g->b_row);
    exchange(g->out_row, g->out_col);
    for (int axis = 0; axis < g->batch_rank; axis++) exchange(g->a[axis], g->b[axis]);
}

/* Whether every product of the batch has the same operand. */
static int same_for_all(const gop_gemm &g, const int64_t *stride)
{
    for (int axis = 0; axis < g.batch_rank; axis++)
        if (stride[axis]) return 0;
    return 1;
}

static int64_t distance(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

/* Whether runs of eight start at multiples of 16 bytes. */
static int in_vectors(const gop_gemm &g, const void *data, int64_t contiguous, int64_t other,
                      const int64_t *batch, int64_t item)
{
    int64_t bytes = (int64_t)(uintptr_t)data | other * item;
    for (int axis = 0; axis < g.batch_rank; axis++) bytes |= batch[axis] * item;
    return contiguous == 1 && bytes % 16 == 0;
}

static size_t aligned(size_t bytes)
{
    return (bytes + IMAGE_ALIGNED - 1) / IMAGE_ALIGNED * IMAGE_ALIGNED;
}

static int64_t tiles_up(int64_t lines, int tile)
{
    return (lines + tile - 1) / tile * tile;
}

/* One step: pack, multiply, add parts; and the kernel for what pieces do not hold. */
template <typename T, int PIECES, int W>
static gop_status pieces_step(gop_ctx *ctx, const gop_task *task, const engine_cut &cut,
                              matmul_product<T> p, int symmetric)
{
    enum { PARTS = packing<T>::PARTS };
    const pieces_plan &plan = *GOP_OWN(const pieces_plan, task->plan);
    const gop_gemm &g = p.g;
    uint8_t *const scratch = (uint8_t *)task->scratch;
    unsigned *const bad = (unsigned *)(scratch + plan.at_bad);
    unsigned *const wanted = (unsigned *)(scratch + plan.at_wanted);
    const int item = (int)sizeof(T);

    image_job pack = {};
    pack.g = g;
    pack.a.from = p.a + p.part.row * g.a_row;
    pack.a.line = g.a_row, pack.a.term = g.a_col;
    pack.a.lines = p.part.rows;
    pack.a.to = scratch;
    pack.a.tile = 128 * W;
    pack.a.padded = cut.tiles_m * 128 * W;
    pack.a.shared = same_for_all(g, g.a);
    pack.a.turned = distance(g.a_row) < distance(g.a_col);
    pack.a.vectors = in_vectors(g, pack.a.from, g.a_col, g.a_row, g.a, item);
    pack.b.from = p.b;
    pack.b.line = g.b_col, pack.b.term = g.b_row;
    pack.b.lines = PARTS * g.n;
    pack.b.to = scratch + plan.at_b;
    pack.b.tile = IMAGE_COLUMNS;
    pack.b.padded = cut.tiles_n * 128 * W;
    pack.b.shared = same_for_all(g, g.b);
    pack.b.turned = distance(g.b_row) < distance(g.b_col);
    pack.b.vectors = in_vectors(g, p.b, g.b_col, g.b_row, g.b, item);
    pack.k = PARTS * g.k;
    pack.blocks = plan.blocks;
    pack.batch = p.part.batch;
    const int64_t block_bytes = (int64_t)PIECES * plan.blocks * IMAGE_TERMS * 2;
    pack.a.product = pack.a.padded * block_bytes;
    pack.b.product = pack.b.padded * block_bytes;
    pack.units_a = pack_units(pack.a, plan.blocks, false, p.part.batches);
    pack.units = pack.units_a + pack_units(pack.b, plan.blocks, true, p.part.batches);
    pack.bad = bad;
    const int64_t most = (int64_t)ctx->info.processors * PACK_BLOCKS;
    const unsigned packers = (unsigned)(pack.units < most ? pack.units : most);
    GOP_TRY(GOP_LAUNCH(ctx, (matmul_pack_kernel<T, PIECES>), packers, THREADS_OF_PACK, 0, pack));

    engine_job job = {};
    job.g = g;
    job.a = pack.a.to, job.b = pack.b.to;
    job.a_product = pack.a.shared ? 0 : pack.a.product;
    job.b_product = pack.b.shared ? 0 : pack.b.product;
    job.out = p.out;
    job.parts = (float *)(scratch + plan.at_parts);
    job.batch = p.part.batch;
    job.row = p.part.row;
    job.rows = (int)p.part.rows, job.columns = (int)(PARTS * g.n);
    job.blocks = plan.blocks;
    job.tiles_m = cut.tiles_m, job.tiles_n = cut.tiles_n, job.tiles = cut.tiles;
    job.group = 16 / W;
    job.whole = cut.whole, job.items = cut.items, job.slices = cut.slices;
    job.pairs = in_vectors(g, nullptr, g.out_col, 0, g.out, 8) && g.out_row % 2 == 0 &&
                (uintptr_t)p.out % (2 * sizeof(T)) == 0;
    job.mirrored = symmetric;
    job.bad = bad, job.bad_words = (int)packers;
    job.wanted = wanted;
    const int wave = ctx->info.processors / W;
    GOP_TRY(GOP_LAUNCH_EARLY(ctx, (matmul_engine_kernel<PIECES, false, T, W>),
                             (unsigned)((cut.items < wave ? cut.items : wave) * W),
                             ENGINE_THREADS, ENGINE_SHARED, job));
    if (cut.slices > 1)
        GOP_TRY(GOP_LAUNCH_EARLY(ctx, (matmul_parts_kernel<T, W>),
                                 (unsigned)((cut.items - cut.whole) / cut.slices * W * W * 4),
                                 ENGINE_CONSUMERS, 0, job));
    p.part.wanted = wanted;
    return matmul_launch_blocks<T, T>(ctx, p);
}

template <typename T, int PIECES>
static gop_status matmul_pieces(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const pieces_plan &plan = *GOP_OWN(const pieces_plan, task->plan);
    const int64_t batch = step / plan.panels * plan.products;
    const int64_t row = step % plan.panels * plan.rows;
    matmul_part part = {batch, plan.products, row, plan.rows, 1, task->geometry.gemm.k, 0};
    matmul_product<T> p = matmul_product_of<T>(task, part);
    const int symmetric = plan.symmetric && p.a == p.b;
    if (plan.turned) {
        turn_product(&p.g);
        exchange(p.a, p.b);
    }
    if (p.part.batches > p.g.batches - batch) p.part.batches = p.g.batches - batch;
    if (p.part.rows > p.g.m - row) p.part.rows = p.g.m - row;
    const int last = p.part.batches < plan.products || p.part.rows < plan.rows;
    const engine_cut &cut = plan.cut[last * LAST + symmetric * SYMMETRIC];
    if (cut.wide == 2) return pieces_step<T, PIECES, 2>(ctx, task, cut, p, symmetric);
    return pieces_step<T, PIECES, 1>(ctx, task, cut, p, symmetric);
}

/* How many pieces, for the precision asked for. */
static gop_launch launch_of(gop_dtype dtype, int pieces)
{
    if (dtype == GOP_COMPLEX64)
        return pieces == 3 ? matmul_pieces<complex64, 3> : matmul_pieces<complex64, 1>;
    return pieces == 3 ? matmul_pieces<float, 3> : matmul_pieces<float, 1>;
}

/* Steps short enough to be interrupted, that do not need too much memory at once. */
static void pieces_steps(const gop_ctx *ctx, const gop_gemm &g, int parts, pieces_plan *p)
{
    const double most = (double)ctx->info.processors * 3.5e10; /* multiply-adds, some 100 ms */
    const double images = 2e9;                                 /* bytes of a batch's */
    const double row = (double)g.n * (double)g.k * parts * parts, product = row * (double)g.m;
    const double image = 6.0 * (double)(g.m + g.n) * (double)g.k * parts * parts;
    const int64_t longest = INT64_C(1) << 30; /* rows, which are counted as int */
    p->rows = g.m, p->panels = p->products = 1;
    if ((product > most && !p->symmetric) || g.m > longest) {
        const int64_t pieces = 1 + (int64_t)(product / most) + g.m / longest;
        p->rows = tiles_up((g.m + pieces - 1) / pieces, 256);
        p->panels = (g.m + p->rows - 1) / p->rows;
        p->symmetric = 0;
        return;
    }
    const double fit = most / product < images / image ? most / product : images / image;
    p->products = fit < 1 ? 1 : fit < (double)g.batches ? (int64_t)fit : g.batches;
}

/* Where there is too little to multiply for the packing to pay. */
static int not_worth_it(const gop_gemm &g, int parts)
{
    const double terms = (double)g.batches * (double)g.m * (double)g.n * (double)g.k;
    return g.m < 64 || g.n * parts < 64 || g.k * parts < 64 || terms * parts * parts < 6e7;
}

static gop_status matmul_pieces_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    GOP_TRY(gop_has_wgmma(ctx, "matmul: kernel 'pieces'"));
    pieces_plan *p = GOP_OWN(pieces_plan, plan);
    *p = {};
    const gop_dtype dtype = task->in[0].dtype;
    const int parts = dtype == GOP_COMPLEX64 ? 2 : 1;
    gop_gemm g = task->geometry.gemm;
    if (g.k < 16 || g.m > INT64_C(1) << 40 || g.n > INT64_C(1) << 29 || g.k > INT64_C(1) << 33)
        return gop_fail(GOP_REFUSED,
                        "matmul: kernel 'pieces' takes sums of at least 16 terms, got (%lld, "
                        "%lld) outputs of %lld terms",
                        (long long)g.m, (long long)g.n, (long long)g.k);
    p->turned = g.out_col != 1 && g.out_row == 1;
    if (p->turned) turn_product(&g);
    if (!task->named && not_worth_it(g, parts))
        return gop_fail(GOP_REFUSED,
                        "matmul: kernel 'pieces' takes products large enough to pay for "
                        "splitting their operands, got (%lld, %lld) outputs of %lld terms",
                        (long long)g.m, (long long)g.n, (long long)g.k);
    p->symmetric = parts == 1 && g.m == g.n && g.a_row == g.b_col && g.a_col == g.b_row;
    for (int axis = 0; axis < g.batch_rank; axis++)
        p->symmetric = p->symmetric && g.a[axis] == g.b[axis];

    const gop_precision asked = task->call->params.matmul.precision;
    const int pieces = asked == GOP_BF16 ? 1 : 3;
    if (pieces == 1) plan->precision = GOP_BF16;
    plan->launch = launch_of(dtype, pieces);
    p->unit = pieces == 1 ? 2 : 1; /* the engine's stages have as many */
    const int64_t terms = IMAGE_TERMS * p->unit;
    p->blocks = (int)((g.k * parts + terms - 1) / terms) * p->unit;
    pieces_steps(ctx, g, parts, p);

    const int64_t batches = g.batches % p->products, rows = g.m % p->rows;
    const int64_t columns = g.n * parts;
    for (int c = 0; c < CUTS; c++)
        p->cut[c] = cut_of(ctx, c & LAST && batches ? batches : p->products,
                           c & LAST && rows ? rows : p->rows, columns, p->blocks, p->unit,
                           c & SYMMETRIC);
    size_t parts_bytes = 0;
    for (const engine_cut &cut : p->cut)
        if (cut_parts(cut) > parts_bytes) parts_bytes = cut_parts(cut);

    const size_t line = (size_t)pieces * (size_t)p->blocks * IMAGE_TERMS * 2;
    const size_t count = (size_t)p->products;
    p->image_a = aligned((size_t)tiles_up(p->rows, 256) * line);
    p->image_b = aligned((size_t)tiles_up(columns, 256) * line);
    p->at_b = p->image_a * (same_for_all(g, g.a) ? 1 : count);
    p->at_parts = p->at_b + p->image_b * (same_for_all(g, g.b) ? 1 : count);
    p->at_bad = p->at_parts + aligned(parts_bytes);
    p->at_wanted = p->at_bad + (size_t)ctx->info.processors * PACK_BLOCKS * sizeof(unsigned);
    plan->scratch = p->at_wanted + sizeof(unsigned);
    plan->steps = p->panels * ((g.batches + p->products - 1) / p->products);
    return GOP_OK;
}

#define DTYPES (1u << GOP_FLOAT32 | 1u << GOP_COMPLEX64)
#else
#define DTYPES 0

static gop_status matmul_pieces_plan(const gop_ctx *ctx, const gop_task *, gop_plan *)
{
    return gop_has_wgmma(ctx, "matmul: kernel 'pieces'");
}
#endif

extern const gop_row matmul_pieces_row = {
    .name = "pieces",
    .note = "a float32 is the sum of three bfloat16: six products on tensor cores, which "
            "multiply halves some fifteen times as fast, added in float32 registers",
    .role = GOP_CANDIDATE,
    .plan = matmul_pieces_plan,
    .dtypes = DTYPES,
};
