/*
 * blocked.c - matmul with a block of b that stays in cache while all rows of a are multiplied
 * by it.
 *
 * A vector instruction computes several neighbouring columns.
 */
#ifdef D

#if IS_INT || (IS_FLOAT && !IS_HALF)
static gop_status FN(blocked)(const gop_gemm *g, const void *a_data, const void *b_data,
                              void *out_data, int64_t i_begin, int64_t i_end)
{
    const T *a = a_data;
    int64_t since = 0; /* multiply-adds since the last check for Ctrl-C */
    for (int64_t j0 = 0; j0 < g->n; j0 += BLOCK) {
        const int width = (int)(g->n - j0 < BLOCK ? g->n - j0 : BLOCK);
        int64_t l0 = 0;
        do {
            const int64_t l_end = g->k - l0 < KC ? g->k : l0 + KC;
            const T *b = (const T *)b_data + j0 * g->b_col;
            for (int64_t i = i_begin; i < i_end; i++) {
                A sum[BLOCK] = {0};
                GOP_TRY(look_after((l_end - l0) * width, &since));
                for (int64_t l = l0; l < l_end; l++) {
                    const A x = a[i * g->a_row + l * g->a_col];
                    const T *row = b + l * g->b_row;
                    if (g->b_col == 1)
                        for (int j = 0; j < width; j++) sum[j] = FN(madd)(x, row[j], sum[j]);
                    else
                        for (int j = 0; j < width; j++)
                            sum[j] = FN(madd)(x, row[j * g->b_col], sum[j]);
                }
                T *out = (T *)out_data + i * g->out_row + j0 * g->out_col;
                for (int j = 0; j < width; j++, out += g->out_col)
                    *out = l0 == 0 ? sum[j] : FN(madd)(1, *out, sum[j]); /* 1 * out is exact */
            }
            l0 = l_end;
        } while (l0 < g->k);
    }
    return GOP_OK;
}
#endif

#else
#include "cpu/matmul/rows.h"

enum { BLOCK = 256 }; /* columns of a block of b, which has KC rows */

#define GOP_TPL "cpu/matmul/blocked.c"
#include "cpu/runtime/each_dtype.inc"

static const panel_fn BLOCKED[GOP_NDTYPES] = {
    [GOP_INT8] = blocked_int8,       [GOP_INT16] = blocked_int16,
    [GOP_INT32] = blocked_int32,     [GOP_INT64] = blocked_int64,
    [GOP_UINT8] = blocked_uint8,     [GOP_UINT16] = blocked_uint16,
    [GOP_UINT32] = blocked_uint32,   [GOP_UINT64] = blocked_uint64,
    [GOP_FLOAT32] = blocked_float32, [GOP_FLOAT64] = blocked_float64,
};

static gop_status matmul_blocked(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)ctx;
    return each_panel(task, step, BLOCKED[task->out[0].dtype]);
}

static const gop_row matmul_blocked_row = {
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
    .plan = plan_rows,
};

#endif
