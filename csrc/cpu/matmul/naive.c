/*
 * naive.c - matmul by its definition: one chain of multiply-adds for each output.
 *
 * Each product loads both its factors, those of b a whole row apart.
 */
#ifdef D

static gop_status FN(naive)(const gop_gemm *g, const void *a_data, const void *b_data,
                            void *out_data, int64_t i_begin, int64_t i_end)
{
    const T *a = a_data, *b = b_data;
    T *out = out_data;
    int64_t since = 0; /* multiply-adds since the last check for Ctrl-C */
    for (int64_t i = i_begin; i < i_end; i++)
        for (int64_t j = 0; j < g->n; j++) {
            A sum = {0};
            int64_t l = 0;
            do {
                const int64_t l_end = gop_smaller(g->k, l + LOOK_TERMS);
                GOP_TRY(look_after(l_end - l, &since));
                for (; l < l_end; l++)
                    sum = FN(madd)(LOAD(a[i * g->a_row + l * g->a_col]),
                                   LOAD(b[l * g->b_row + j * g->b_col]), sum);
            } while (l < g->k);
            out[i * g->out_row + j * g->out_col] = STORE(sum);
        }
    return GOP_OK;
}

#else
#include "cpu/matmul/rows.h"

#define GOP_TPL "cpu/matmul/naive.c"
#include "cpu/runtime/each_dtype.inc"

static const panel_fn NAIVE[GOP_NDTYPES] = GOP_FN_ALL(naive);

static gop_status matmul_naive(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)ctx;
    return each_panel(task, step, NAIVE[task->out[0].dtype]);
}

static const gop_row matmul_naive_row = {
    .name = "naive",
    .note = "three loops: each product loads both its factors, b a whole row apart",
    .role = GOP_CONFORMING,
    .launch = GOP_FN_EVERY(matmul_naive),
    .plan = plan_rows,
};

#endif
