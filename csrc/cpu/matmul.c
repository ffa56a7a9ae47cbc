/*
 * matmul - out[batch, i, j] = sum over l of a[batch, i, l] b[batch, l, j], on the CPU.
 *
 * Floor: 2 m n k flops. A core can do dozens of them in the time of one load from memory, so
 * the rows below differ in how often a loaded value is used: once, once per pass over a block
 * in cache, and once per row or column of accumulators in registers.
 */
#include "cpu/matmul_tiles.h"
#include "cpu/matmul_vector.h"

/* The types that panels hold: what integers of a width have in common; bytes multiply as
 * 16-bit numbers, since there is no vector product of bytes. */
#define PACKED_bool logic
#define PACKED_int8 u16
#define PACKED_int16 u16
#define PACKED_int32 u32
#define PACKED_int64 u64
#define PACKED_uint8 u16
#define PACKED_uint16 u16
#define PACKED_uint32 u32
#define PACKED_uint64 u64
#define PACKED_float16 f32
#define PACKED_bfloat16 f32
#define PACKED_float32 f32
#define PACKED_float64 f64
#define PACKED_complex64 c32
#define PACKED_complex128 c64

#define P logic
#define P_SCALAR uint8_t
#define P_COMPLEX 0
#define P_MADD(a, b, c) ((c) | ((b) & (a)))
#define P_ADD(a, b) ((a) | (b))
#include "cpu/matmul_kernel_tpl.h"
#define P u16
#define P_SCALAR uint16_t
#define P_COMPLEX 0
#define P_MADD(a, b, c) ((b) * (a) + (c))
#define P_ADD(a, b) ((a) + (b))
#include "cpu/matmul_kernel_tpl.h"
#define P u32
#define P_SCALAR uint32_t
#define P_COMPLEX 0
#define P_MADD(a, b, c) ((b) * (a) + (c))
#define P_ADD(a, b) ((a) + (b))
#include "cpu/matmul_kernel_tpl.h"
#define P u64
#define P_SCALAR uint64_t
#define P_COMPLEX 0
#define P_MADD(a, b, c) ((b) * (a) + (c))
#define P_ADD(a, b) ((a) + (b))
#include "cpu/matmul_kernel_tpl.h"
#define P f32
#define P_SCALAR float
#define P_COMPLEX 0
#define P_MADD(a, b, c) vector_fma_f32(VECTOR_SPLAT(vector_f32, a), b, c)
#define P_ADD(a, b) ((a) + (b))
#include "cpu/matmul_kernel_tpl.h"
#define P f64
#define P_SCALAR double
#define P_COMPLEX 0
#define P_MADD(a, b, c) vector_fma_f64(VECTOR_SPLAT(vector_f64, a), b, c)
#define P_ADD(a, b) ((a) + (b))
#include "cpu/matmul_kernel_tpl.h"
#define P c32
#define P_SCALAR float
#define P_COMPLEX 1
#define P_MADD(a, b, c) vector_fma_f32(VECTOR_SPLAT(vector_f32, a), b, c)
#define P_ADD(a, b) ((a) + (b))
#include "cpu/matmul_kernel_tpl.h"
#define P c64
#define P_SCALAR double
#define P_COMPLEX 1
#define P_MADD(a, b, c) vector_fma_f64(VECTOR_SPLAT(vector_f64, a), b, c)
#define P_ADD(a, b) ((a) + (b))
#include "cpu/matmul_kernel_tpl.h"

enum { BLOCK = 256 }; /* columns of b that `blocked` keeps in cache with KC rows of them */

static inline float madd_part_complex64(float x, float y, float sum)
{
    return fmaf(x, y, sum);
}
static inline double madd_part_complex128(double x, double y, double sum)
{
    return fma(x, y, sum);
}

#define GOP_TPL "cpu/matmul_tpl.h"
#include "cpu/each_dtype.h"

#define PACKING(D, planes)                                                                     \
    {                                                                                          \
        GOP_PASTE(MR, PACKED_##D), GOP_PASTE(NR, PACKED_##D),                                  \
            (int)sizeof(GOP_PASTE(packed, PACKED_##D)), planes, GOP_KIND_##D >= 3, tiles_##D   \
    }
static const packing PACKINGS[GOP_NDTYPES] = {
    PACKING(bool, 1),    PACKING(int8, 1),      PACKING(int16, 1),      PACKING(int32, 1),
    PACKING(int64, 1),   PACKING(uint8, 1),     PACKING(uint16, 1),     PACKING(uint32, 1),
    PACKING(uint64, 1),  PACKING(float16, 1),   PACKING(bfloat16, 1),   PACKING(float32, 1),
    PACKING(float64, 1), PACKING(complex64, 2), PACKING(complex128, 2),
};

static size_t product_scratch(const gop_task *task, int workers)
{
    product p;
    product_plan(&p, task, &PACKINGS[task->out[0].dtype], workers);
    const int64_t slots = p.round_k < p.k ? p.group : p.workers;
    return (size_t)p.workers * (p.a_bytes + p.b_bytes) + (size_t)slots * p.sum_bytes;
}

/* The tiles of one round. */
static gop_status product_round(product *p, const gop_task *task, int64_t count)
{
    const gop_body body = PACKINGS[task->out[0].dtype].body;
    const int64_t work = p->tile_rows * p->tile_cols * (p->l_end - p->l_begin + 1);
    const int64_t grain = 1 + ((int64_t)1 << 18) / work;
    if (p->workers > 1) return gop_parallel(count, grain, body, p);
    for (int64_t t = 0; t < count; t += grain) {
        GOP_TRY(gop_interrupted());
        body(p, t, count - t < grain ? count : t + grain, 0);
    }
    return GOP_OK;
}

static gop_status product_run(const gop_task *task, int workers)
{
    product p;
    product_plan(&p, task, &PACKINGS[task->out[0].dtype], workers);
    p.scratch = task->scratch;
    for (p.first = 0; p.first < p.tiles; p.first += p.group) {
        const int64_t left = p.tiles - p.first;
        p.l_end = 0;
        do {
            p.l_begin = p.l_end;
            p.l_end = p.k - p.l_begin < p.round_k ? p.k : p.l_begin + p.round_k;
            GOP_TRY(product_round(&p, task, left < p.group ? left : p.group));
        } while (p.l_end < p.k);
    }
    return GOP_OK;
}

static size_t matmul_simd_scratch(const gop_ctx *ctx, const gop_task *task)
{
    (void)ctx;
    return product_scratch(task, 1);
}

static gop_status matmul_simd(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)ctx, (void)step;
    return product_run(task, 1);
}

static size_t matmul_threaded_scratch(const gop_ctx *ctx, const gop_task *task)
{
    return product_scratch(task, ctx->info.processors);
}

static gop_status matmul_threaded(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)step;
    return product_run(task, ctx->info.processors); /* what scratch was sized by */
}

/* ---- naive, blocked: panels of rows, one a step ---- */

typedef void (*panel)(const gop_gemm *, const void *, const void *, void *, int64_t, int64_t);

static const panel NAIVE[GOP_NDTYPES] = GOP_FN_ALL(naive);
static const panel BLOCKED[GOP_NDTYPES] = {
    [GOP_INT8] = blocked_int8,       [GOP_INT16] = blocked_int16,
    [GOP_INT32] = blocked_int32,     [GOP_INT64] = blocked_int64,
    [GOP_UINT8] = blocked_uint8,     [GOP_UINT16] = blocked_uint16,
    [GOP_UINT32] = blocked_uint32,   [GOP_UINT64] = blocked_uint64,
    [GOP_FLOAT32] = blocked_float32, [GOP_FLOAT64] = blocked_float64,
};

/* Rows a step, counted through all products of the batch; at a slow estimate under 100 ms. */
static int64_t step_rows(const gop_gemm *g)
{
    const double row = (double)g->n * (double)g->k;
    return row < 0x1p24 ? (int64_t)(0x1p24 / (row + 1)) + 1 : 1;
}

static int64_t matmul_steps(const gop_ctx *ctx, const gop_task *task)
{
    (void)ctx;
    const gop_gemm *g = &task->geometry.gemm;
    const int64_t per = step_rows(g);
    return (g->batches * g->m + per - 1) / per;
}

static gop_status each_panel(const gop_task *task, int64_t step, panel multiply)
{
    const gop_gemm *g = &task->geometry.gemm;
    const int64_t item = gop_dtype_size(task->out[0].dtype);
    const int64_t rows = g->batches * g->m, per = step_rows(g);
    GOP_TRY(gop_interrupted());
    int64_t row = step * per;
    const int64_t end = rows - row < per ? rows : row + per;
    while (row < end) {
        int64_t a, b, out;
        batch_offsets(g, row / g->m, &a, &b, &out);
        const int64_t i = row % g->m, left = end - row;
        const int64_t i_end = g->m - i < left ? g->m : i + left;
        multiply(g, (const char *)task->in[0].data + a * item,
                 (const char *)task->in[1].data + b * item,
                 (char *)task->out[0].data + out * item, i, i_end);
        row += i_end - i;
    }
    return GOP_OK;
}

static gop_status matmul_naive(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)ctx;
    return each_panel(task, step, NAIVE[task->out[0].dtype]);
}

static gop_status matmul_blocked(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)ctx;
    return each_panel(task, step, BLOCKED[task->out[0].dtype]);
}

/* ---- the ladder ---- */

#define EVERY(launch)                                                                          \
    {                                                                                          \
        [0 ... GOP_NDTYPES - 1] = launch                                                       \
    }

static const gop_row ROWS_OF_MATMUL[] = {
    {
        .name = "naive",
        .note = "three loops: each product loads both its factors, b a whole row apart",
        .role = GOP_CONFORMING,
        .launch = EVERY(matmul_naive),
        .steps = matmul_steps,
    },
    {
        .name = "blocked",
        .note = "256 x 256 of b at a time: it stays in cache while the rows of a pass, and "
                "neighbouring columns share one vector instruction",
        .role = GOP_CONFORMING,
        .launch = {[GOP_INT8] = matmul_blocked,
                   [GOP_INT16] = matmul_blocked,
                   [GOP_INT32] = matmul_blocked,
                   [GOP_INT64] = matmul_blocked,
                   [GOP_UINT8] = matmul_blocked,
                   [GOP_UINT16] = matmul_blocked,
                   [GOP_UINT32] = matmul_blocked,
                   [GOP_UINT64] = matmul_blocked,
                   [GOP_FLOAT32] = matmul_blocked,
                   [GOP_FLOAT64] = matmul_blocked},
        .steps = matmul_steps,
    },
    {
        .name = "simd",
        .note = "a and b are packed into panels that a register kernel reads in order: a tile "
                "of accumulators uses every loaded value many times",
        .role = GOP_CONFORMING,
        .launch = EVERY(matmul_simd),
        .scratch = matmul_simd_scratch,
    },
    {
        .name = "threaded",
        .note = "each thread packs and multiplies its own tiles of the output; nothing is "
                "shared, so the bits do not depend on how many threads there are",
        .role = GOP_CONFORMING,
        .launch = EVERY(matmul_threaded),
        .scratch = matmul_threaded_scratch,
    },
};

const gop_ladder GOP_LADDER(matmul) = {sizeof ROWS_OF_MATMUL / sizeof ROWS_OF_MATMUL[0],
                                       ROWS_OF_MATMUL};
