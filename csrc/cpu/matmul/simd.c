/*
 * simd.c - matmul with packed panels and a tile of accumulators in registers.
 *
 * a and b are packed into panels that the register kernel (kernel.inc) reads sequentially. A
 * loaded value is used once per row or column of the tile, so loads are no longer the
 * bottleneck.
 */
#ifdef D

/* Writes a tile's accumulators to out. They are stored strip by strip as blocks of a panel's
 * rows x NR. */
static void FN(unpack)(const product *p, const X *c, const tile *at, T *out)
{
    const int nr = PFN(NR), planes = 1 + IS_COMPLEX;
    const int64_t panels = gop_ceil(at->rows, p->mr);
    for (int64_t j1 = 0; j1 < at->cols; j1 += p->strip) {
        const int64_t cols = gop_smaller(at->cols - j1, p->strip);
        for (int64_t panel = 0; panel < panels; panel++) {
            const int64_t i0 = panel_begin(p, at->rows, panel),
                          rows = panel_begin(p, at->rows, panel + 1) - i0;
            for (int64_t j0 = 0; j0 < cols; j0 += nr, c += rows * nr * planes) {
                const int64_t i_end = gop_smaller(at->rows - i0, rows);
                const int64_t j_end = gop_smaller(cols - j0, nr);
                for (int64_t i = 0; i < i_end; i++) {
                    T *row = out + (i0 + i) * p->s.out_row + (j1 + j0) * p->s.out_col;
                    const X *sum = c + i * nr;
                    if (p->s.out_col == 1)
                        for (int64_t j = 0; j < j_end; j++)
                            row[j] = FN(get)(sum + j, rows * nr);
                    else
                        for (int64_t j = 0; j < j_end; j++)
                            row[j * p->s.out_col] = FN(get)(sum + j, rows * nr);
                }
            }
        }
    }
}

/* Computes one block of accumulators of a panel of `rows`. If it is whole and in_out is set,
 * its sums are kept in out, else in c. `down` rows of the tile are left. */
static ALWAYS_INLINE void FN(block)(const product *p, int rows, int64_t down, int64_t cols,
                                    int64_t kc, const X *a, const X *b, X *c, T *out,
                                    int is_first)
{
    if (!p->in_out) {
        PFN(multiply)(rows, kc, a, b, c, PFN(NR), is_first);
        return;
    }
#if WIDE
    if (down >= rows && cols >= PFN(NR)) {
        PFN(multiply)(rows, kc, a, b, (X *)out, p->s.out_row, is_first);
        return;
    }
    PFN(multiply)(rows, kc, a, b, c, PFN(NR), 1);
    for (int64_t i = 0; i < down && i < rows; i++)
        for (int64_t j = 0; j < cols && j < PFN(NR); j++) {
            T *const to = out + i * p->s.out_row + j;
            *to = is_first ? (T)c[i * PFN(NR) + j] : (T)((X)*to + c[i * PFN(NR) + j]);
        }
#else
    (void)down, (void)cols, (void)out;
#endif
}

/* Adds kc values of l to a tile's sums, in at->sums or out. */
static void FN(terms)(const rounds *call, const tile *at, int64_t l0, int64_t kc, int is_first)
{
    const product *const p = call->plan;
    const int nr = PFN(NR), planes = 1 + IS_COMPLEX;
    const T *const a = (const T *)call->a + at->a + l0 * p->s.a_col;
    const T *const b = (const T *)call->b + at->b + l0 * p->s.b_row;
    T *const out = (T *)call->out + at->out;
    X *const a_panels = at->a_panels, *const b_panels = at->b_panels, *c = at->sums;
    const int64_t panels = gop_ceil(at->rows, p->mr);
    for (int64_t panel = 0; panel < panels; panel++) {
        const int64_t i0 = panel_begin(p, at->rows, panel), left = at->rows - i0;
        const int64_t rows = panel_begin(p, at->rows, panel + 1) - i0;
        FN(pack)
        (a + i0 * p->s.a_row, p->s.a_row, p->s.a_col, gop_smaller(left, rows), left, kc, rows,
         a_panels + i0 * kc * planes);
    }
    for (int64_t j1 = 0; j1 < at->cols; j1 += p->strip) {
        const int64_t cols = gop_smaller(at->cols - j1, p->strip);
        FN(pack)
        (b + j1 * p->s.b_col, p->s.b_col, p->s.b_row, cols, cols, kc, nr, b_panels);
        for (int64_t panel = 0; panel < panels; panel++) {
            const int64_t i0 = panel_begin(p, at->rows, panel),
                          rows = panel_begin(p, at->rows, panel + 1) - i0;
            for (int64_t j0 = 0; j0 < cols; j0 += nr) {
                if (!p->is_mirrored || at->below + i0 < j1 + j0 + nr) FN(block)
                (p, (int)rows, at->rows - i0, cols - j0, kc, a_panels + i0 * kc * planes,
                 b_panels + j0 * kc * planes, c, out + i0 * p->s.out_row + j1 + j0, is_first);
                if (!p->in_out) c += rows * nr * planes;
            }
        }
    }
}

/* Computes tiles [begin, end) of the round, for its values of l. */
static void FN(tiles)(void *argument, int64_t begin, int64_t end, int worker)
{
    const rounds *const call = argument;
    const product *const p = call->plan;
    for (int64_t t = begin; t < end; t++) {
        tile at;
        locate(call, t, worker, &at);
        if (p->is_mirrored && at.below >= at.cols) continue;
        int64_t l0 = call->l_begin;
        do {
            const int64_t kc = gop_smaller(call->l_end - l0, KC);
            FN(terms)(call, &at, l0, kc, l0 == 0);
            l0 += kc;
        } while (l0 < call->l_end);
        if (!p->in_out && l0 == p->s.k) FN(unpack)(p, at.sums, &at, (T *)call->out + at.out);
    }
}

/* Computes blocks of KC terms [begin, end) of the round's tiles, each in its own slot. */
static void FN(shared)(void *argument, int64_t begin, int64_t end, int worker)
{
    const rounds *const call = argument;
    for (int64_t t = begin; t < end; t++) {
        const int64_t block = t % call->blocks, l0 = call->l_begin + block * KC;
        tile at;
        locate(call, t / call->blocks, worker, &at);
        at.sums = sums_of(call, t / call->blocks, block);
        if (call->plan->is_mirrored && at.below >= at.cols) continue;
        FN(terms)(call, &at, l0, gop_smaller(call->l_end - l0, KC), 1);
    }
}

/* Writes tiles [begin, end), whose blocks have all been added. */
static void FN(shared_end)(void *argument, int64_t begin, int64_t end, int worker)
{
    const rounds *const call = argument;
    for (int64_t t = begin; t < end; t++) {
        tile at;
        locate(call, t, worker, &at);
        FN(unpack)(call->plan, sums_of(call, t, -1), &at, (T *)call->out + at.out);
    }
}

/* Copies the elements above the diagonal to below it, for squares of rows [begin, end) of all
 * products. */
static void FN(mirror)(void *argument, int64_t begin, int64_t end, int worker)
{
    const rounds *const call = argument;
    const product *const p = call->plan;
    const int64_t each = (p->s.m + MIRRORED - 1) / MIRRORED;
    (void)worker;
    for (int64_t t = begin; t < end; t++) {
        int64_t a, b, at;
        batch_offsets(call->gemm, t / each, &a, &b, &at);
        T *const out = (T *)call->out + at;
        const int64_t i0 = t % each * MIRRORED, i_end = gop_smaller(p->s.m, i0 + MIRRORED);
        for (int64_t j0 = 0; j0 <= i0; j0 += MIRRORED)
            for (int64_t i = i0; i < i_end; i++)
                for (int64_t j = j0; j < i && j < j0 + MIRRORED; j++)
                    out[i * p->s.out_row + j * p->s.out_col] =
                        out[j * p->s.out_row + i * p->s.out_col];
    }
}

#else
#include "cpu/matmul/panels.h"
#include "cpu/matmul/tiles.h"

/* Rows of a square of the mirror copy; sums that are added at a time, and how many of these
 * parts make a piece. */
enum { MIRRORED = 32, PART = 1024, FEW = 32 };

#define GOP_TPL "cpu/matmul/simd.c"
#include "cpu/runtime/each_dtype.inc"
#undef PFN
#undef X
#undef WIDE

#define PACKING(D, planes)                                                                     \
    {                                                                                          \
        GOP_PASTE(MR, PACKED_##D), GOP_PASTE(NR, PACKED_##D),                                  \
            (int)sizeof(GOP_PASTE(packed, PACKED_##D)), planes, GOP_KIND_##D >= 3, WIDE_##D,   \
            tiles_##D, shared_##D, shared_end_##D, mirror_##D                                  \
    }
static const packing PACKINGS[GOP_NDTYPES] = {
    PACKING(bool, 1),    PACKING(int8, 1),      PACKING(int16, 1),      PACKING(int32, 1),
    PACKING(int64, 1),   PACKING(uint8, 1),     PACKING(uint16, 1),     PACKING(uint32, 1),
    PACKING(uint64, 1),  PACKING(float16, 1),   PACKING(bfloat16, 1),   PACKING(float32, 1),
    PACKING(float64, 1), PACKING(complex64, 2), PACKING(complex128, 2),
};

/* Adds the round's blocks to parts [begin, end) of the tiles' sums, first to last. */
#define ADD_BLOCKS(name, real)                                                                 \
    static void name(void *argument, int64_t begin, int64_t end, int worker)                   \
    {                                                                                          \
        const rounds *const call = argument;                                                   \
        const int64_t all = (int64_t)(call->plan->sum_bytes / sizeof(real));                   \
        const int64_t parts = (all + PART - 1) / PART;                                         \
        (void)worker;                                                                          \
        for (int64_t t = begin; t < end; t++) {                                                \
            const int64_t at = t % parts * PART, count = gop_smaller(all - at, PART);          \
            real *const sum = (real *)sums_of(call, t / parts, -1) + at;                       \
            for (int64_t block = 0; block < call->blocks; block++) {                           \
                const real *const more = (const real *)sums_of(call, t / parts, block) + at;   \
                if (call->l_begin == 0 && block == 0)                                          \
                    memcpy(sum, more, (size_t)count * sizeof(real));                           \
                else                                                                           \
                    for (int64_t x = 0; x < count; x++) sum[x] += more[x];                     \
            }                                                                                  \
        }                                                                                      \
    }
ADD_BLOCKS(add_blocks_f32, float)
ADD_BLOCKS(add_blocks_f64, double)

/* Runs one round of tiles whose sums are shared by workers. */
static gop_status shared_round(rounds *call, const packing *with, int64_t tiles)
{
    const product *const p = call->plan;
    const int64_t all = (int64_t)p->sum_bytes / with->item, parts = (all + PART - 1) / PART;
    call->blocks = (call->l_end - call->l_begin + KC - 1) / KC;
    GOP_TRY(gop_parallel_by(p->workers, tiles * call->blocks, 1, with->shared, call));
    GOP_TRY(gop_parallel_by(p->workers, tiles * parts, 1 + FEW / call->blocks,
                            with->item == 4 ? add_blocks_f32 : add_blocks_f64, call));
    if (call->l_end < p->s.k) return GOP_OK;
    return gop_parallel_by(p->workers, tiles, 1, with->shared_end, call);
}

/* Runs the tiles of one round. */
static gop_status product_round(rounds *call, const packing *with, int64_t count)
{
    const product *const p = call->plan;
    const int64_t work = p->tile_rows * p->tile_cols * (call->l_end - call->l_begin + 1);
    const int64_t grain = 1 + ((int64_t)1 << 18) / work;
    if (p->workers > 1) return gop_parallel_by(p->workers, count, grain, with->body, call);
    for (int64_t t = 0; t < count; t += grain) {
        GOP_TRY(gop_interrupted());
        with->body(call, t, count - t < grain ? count : t + grain, 0);
    }
    return GOP_OK;
}

/* Copies what is above the diagonal of all products to below it. */
static gop_status mirror_squares(rounds *call, const packing *with)
{
    const product *const p = call->plan;
    const int64_t squares = gop_ceil(p->s.m, MIRRORED) * call->gemm->batches;
    return gop_parallel_by(p->workers, squares, 1 + (1 << 16) / (MIRRORED * p->s.m),
                           with->mirror, call);
}

static gop_status product_run(const gop_task *task)
{
    const product *const p = GOP_OWN(const product, task->plan);
    const packing *const with = &PACKINGS[task->out[0].dtype];
    rounds call = {.plan = p,
                   .gemm = &task->geometry.gemm,
                   .a = task->in[p->s.is_swapped].data,
                   .b = task->in[!p->s.is_swapped].data,
                   .out = task->out[0].data,
                   .scratch = task->scratch};
    for (; call.first < p->tiles; call.first += p->group) {
        const int64_t count = gop_smaller(p->tiles - call.first, p->group);
        call.l_end = 0;
        do {
            call.l_begin = call.l_end;
            call.l_end =
                p->s.k - call.l_begin < p->round_k ? p->s.k : call.l_begin + p->round_k;
            GOP_TRY(gop_interrupted()); /* a single piece does not check */
            GOP_TRY(p->blocks ? shared_round(&call, with, count)
                              : product_round(&call, with, count));
        } while (call.l_end < p->s.k);
    }
    return p->is_mirrored ? mirror_squares(&call, with) : GOP_OK;
}

static gop_status matmul_simd(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)ctx, (void)step;
    return product_run(task);
}

static gop_status matmul_simd_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    (void)ctx;
    return plan_product(task, &PACKINGS[task->out[0].dtype], 1, plan);
}

static const gop_row matmul_simd_row = {
    .name = "simd",
    .note = "a and b are packed into panels that a register kernel reads in order: a tile "
            "of accumulators uses every loaded value many times",
    .role = GOP_CONFORMING,
    .launch = GOP_FN_EVERY(matmul_simd),
    .plan = matmul_simd_plan,
};

#endif
