/*
 * simd.c - matmul through packed panels and a tile of accumulators in registers.
 *
 * a and b are packed into panels that the kernel in registers (kernel.inc) reads in order. A
 * loaded value is used once per row or column of the tile, so loads no longer decide.
 */
#ifdef D

static inline void FN(put)(T value, X *to, int plane)
{
#if IS_COMPLEX
    to[0] = value.re;
    to[plane] = value.im;
#else
    (void)plane;
    *to = (X)LOAD(value);
#endif
}

static inline T FN(get)(const X *from, int plane)
{
#if IS_COMPLEX
    return (T){from[0], from[plane]};
#else
    (void)plane;
    return (T)STORE(*from);
#endif
}

/* `here` neighbouring values of one l into a panel of `width`. */
static inline void FN(pack_line)(const T *from, int here, int width, X *to)
{
    for (int x = 0; x < here; x++) FN(put)(from[x], to + x, width);
}

/* Copies `count` vectors of `kc` values into panels of `width` vectors, side by side for each
 * l; what is missing in the last panel becomes 0, which changes accumulators never stored. The
 * source is read along its contiguous direction, whole cache lines at a time. */
static void FN(pack)(const T *from, int64_t step, int64_t l_step, int64_t count, int64_t kc,
                     int width, X *to)
{
    enum { LINE = 16 }; /* values of l taken from one vector at a time */
    const int planes = 1 + IS_COMPLEX;
    const int64_t panel = kc * width * planes, full = count / width * width;
    if (full < count) memset(to + full / width * panel, 0, sizeof(X) * (size_t)panel);
    if (step == 1) {
        for (int64_t l = 0; l < kc; l++, from += l_step) {
            X *at = to + l * width * planes;
            int64_t x = 0;
            if (width == PFN(NR)) /* a length known here becomes a few moves */
                for (; x < full; x += PFN(NR), at += panel)
                    FN(pack_line)(from + x, PFN(NR), PFN(NR), at);
            for (; x < count; x += width, at += panel) FN(pack_line)
            (from + x, (int)(count - x < width ? count - x : width), width, at);
        }
        return;
    }
    for (int64_t first = 0; first < count; first += width, to += panel) {
        const int here = (int)(count - first < width ? count - first : width);
        const T *source = from + first * step;
        for (int64_t l0 = 0; l0 < kc; l0 += LINE) {
            const int64_t l_end = kc - l0 < LINE ? kc : l0 + LINE;
            for (int x = 0; x < here; x++)
                for (int64_t l = l0; l < l_end; l++)
                    FN(put)(source[x * step + l * l_step], to + l * width * planes + x, width);
        }
    }
}

/* Writes a strip of accumulators, kept as blocks of mr x NR, into out. */
static void FN(unpack)(const product *p, const X *c, int64_t rows, int64_t cols, T *out)
{
    const int nr = PFN(NR), planes = 1 + IS_COMPLEX;
    for (int64_t i0 = 0; i0 < rows; i0 += p->mr)
        for (int64_t j0 = 0; j0 < cols; j0 += nr, c += p->mr * nr * planes) {
            const int64_t i_end = rows - i0 < p->mr ? rows - i0 : p->mr;
            const int64_t j_end = cols - j0 < nr ? cols - j0 : nr;
            for (int64_t i = 0; i < i_end; i++) {
                T *row = out + (i0 + i) * p->out_row + j0 * p->out_col;
                const X *sum = c + i * nr;
                if (p->out_col == 1)
                    for (int64_t j = 0; j < j_end; j++) row[j] = FN(get)(sum + j, p->mr * nr);
                else
                    for (int64_t j = 0; j < j_end; j++)
                        row[j * p->out_col] = FN(get)(sum + j, p->mr * nr);
            }
        }
}

/* Tiles [begin, end) of the round, for its values of l. */
static void FN(tiles)(void *argument, int64_t begin, int64_t end, int worker)
{
    const rounds *const call = argument;
    const product *const p = call->plan;
    const int nr = PFN(NR), planes = 1 + IS_COMPLEX;
    for (int64_t t = begin; t < end; t++) {
        tile at;
        locate(call, t, worker, &at);
        const T *a = (const T *)call->a + at.a, *b = (const T *)call->b + at.b;
        T *out = (T *)call->out + at.out;
        X *const a_panels = at.a_panels, *const b_panels = at.b_panels;
        int64_t l0 = call->l_begin;
        do {
            const int64_t kc = call->l_end - l0 < KC ? call->l_end - l0 : KC;
            X *c = at.sums;
            FN(pack)(a + l0 * p->a_col, p->a_row, p->a_col, at.rows, kc, p->mr, a_panels);
            for (int64_t j1 = 0; j1 < at.cols; j1 += p->strip) {
                const int64_t cols = at.cols - j1 < p->strip ? at.cols - j1 : p->strip;
                X *const strip = c;
                FN(pack)
                (b + l0 * p->b_row + j1 * p->b_col, p->b_col, p->b_row, cols, kc, nr, b_panels);
                for (int64_t i0 = 0; i0 < at.rows; i0 += p->mr)
                    for (int64_t j0 = 0; j0 < cols; j0 += nr, c += p->mr * nr * planes)
                        PFN(multiply)
                (p->mr, kc, a_panels + i0 * kc * planes, b_panels + j0 * kc * planes, c,
                 l0 == 0);
                if (l0 + kc == p->k) FN(unpack)(p, strip, at.rows, cols, out + j1 * p->out_col);
            }
            l0 += kc;
        } while (l0 < call->l_end);
    }
}

#else
#include "cpu/matmul/tiles.h"

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
#include "cpu/matmul/kernel.inc"
#define P u16
#define P_SCALAR uint16_t
#define P_COMPLEX 0
#define P_MADD(a, b, c) ((b) * (a) + (c))
#define P_ADD(a, b) ((a) + (b))
#include "cpu/matmul/kernel.inc"
#define P u32
#define P_SCALAR uint32_t
#define P_COMPLEX 0
#define P_MADD(a, b, c) ((b) * (a) + (c))
#define P_ADD(a, b) ((a) + (b))
#include "cpu/matmul/kernel.inc"
#define P u64
#define P_SCALAR uint64_t
#define P_COMPLEX 0
#define P_MADD(a, b, c) ((b) * (a) + (c))
#define P_ADD(a, b) ((a) + (b))
#include "cpu/matmul/kernel.inc"
#define P f32
#define P_SCALAR float
#define P_COMPLEX 0
#define P_MADD(a, b, c) vector_fma_f32(VECTOR_SPLAT(vector_f32, a), b, c)
#define P_ADD(a, b) ((a) + (b))
#include "cpu/matmul/kernel.inc"
#define P f64
#define P_SCALAR double
#define P_COMPLEX 0
#define P_MADD(a, b, c) vector_fma_f64(VECTOR_SPLAT(vector_f64, a), b, c)
#define P_ADD(a, b) ((a) + (b))
#include "cpu/matmul/kernel.inc"
#define P c32
#define P_SCALAR float
#define P_COMPLEX 1
#define P_MADD(a, b, c) vector_fma_f32(VECTOR_SPLAT(vector_f32, a), b, c)
#define P_ADD(a, b) ((a) + (b))
#include "cpu/matmul/kernel.inc"
#define P c64
#define P_SCALAR double
#define P_COMPLEX 1
#define P_MADD(a, b, c) vector_fma_f64(VECTOR_SPLAT(vector_f64, a), b, c)
#define P_ADD(a, b) ((a) + (b))
#include "cpu/matmul/kernel.inc"

#define PFN(name) GOP_PASTE(name, GOP_PASTE(PACKED, D))
#define X PFN(packed)
#define GOP_TPL "cpu/matmul/simd.c"
#include "cpu/runtime/each_dtype.inc"
#undef PFN
#undef X

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

/* The tiles of one round. */
static gop_status product_round(rounds *call, const gop_task *task, int64_t count)
{
    const product *const p = call->plan;
    const gop_body body = PACKINGS[task->out[0].dtype].body;
    const int64_t work = p->tile_rows * p->tile_cols * (call->l_end - call->l_begin + 1);
    const int64_t grain = 1 + ((int64_t)1 << 18) / work;
    if (p->workers > 1) return gop_parallel_by(p->workers, count, grain, body, call);
    for (int64_t t = 0; t < count; t += grain) {
        GOP_TRY(gop_interrupted());
        body(call, t, count - t < grain ? count : t + grain, 0);
    }
    return GOP_OK;
}

static gop_status product_run(const gop_task *task)
{
    const product *const p = GOP_OWN(const product, task->plan);
    rounds call = {.plan = p,
                   .gemm = &task->geometry.gemm,
                   .a = task->in[p->is_swapped].data,
                   .b = task->in[!p->is_swapped].data,
                   .out = task->out[0].data,
                   .scratch = task->scratch};
    for (; call.first < p->tiles; call.first += p->group) {
        const int64_t left = p->tiles - call.first;
        call.l_end = 0;
        do {
            call.l_begin = call.l_end;
            call.l_end = p->k - call.l_begin < p->round_k ? p->k : call.l_begin + p->round_k;
            GOP_TRY(product_round(&call, task, left < p->group ? left : p->group));
        } while (call.l_end < p->k);
    }
    return GOP_OK;
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
