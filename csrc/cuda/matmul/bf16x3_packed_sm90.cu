/*
 * bf16x3_packed_sm90.cu - matmul on tensor cores: each float32 as three bfloat16, six products.
 *
 * Tensor cores multiply halves some fifteen times as fast as other units multiply float32. A
 * float32 of 24 bits is the sum of three bfloat16 of 8 bits; of the nine products of two such
 * sums the three smallest lie below float32's last bit. Six products on tensor cores, their
 * sums rounded in float32 registers, are as accurate as a loop of fma and more than twice as
 * fast as any.
 *
 * pack.h splits, engine.h multiplies. The pack notices what pieces cannot hold: infinities,
 * NaNs and numbers near the ends of float32's range. Then blocktiled's kernel, which is always
 * enqueued behind, computes the product; else it returns at once. A complex product is a real
 * one with twice the columns and twice the terms.
 */
#include "cuda/matmul/steps.h"
#include "cuda/common/wgmma.h"

#if GOP_SM90

/* For fp16x2 as well. */
template gop_status matmul_pieces_step<float, 3>(gop_ctx *, const split_plan &,
                                                 const split_step<float> &);

template <typename T, int PIECES>
static gop_status matmul_bf16x3_packed(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const split_plan &plan = *GOP_OWN(const split_plan, task->plan);
    return matmul_pieces_step<T, PIECES>(ctx, plan, split_step_of<T>(task, plan, step));
}

/* The launch for a dtype and a number of pieces. */
static gop_launch launch_of(gop_dtype dtype, int pieces)
{
    if (dtype == GOP_COMPLEX64)
        return pieces == 3 ? matmul_bf16x3_packed<complex64, 3>
                           : matmul_bf16x3_packed<complex64, 1>;
    return pieces == 3 ? matmul_bf16x3_packed<float, 3> : matmul_bf16x3_packed<float, 1>;
}
#endif

static gop_status matmul_bf16x3_packed_plan(const gop_ctx *ctx, const gop_task *task,
                                            gop_plan *plan)
{
    GOP_TRY(gop_has_wgmma(ctx, "matmul: kernel 'bf16x3_packed'"));
    const gop_dtype dtype = task->in[0].dtype;
    const int parts = dtype == GOP_COMPLEX64 ? 2 : 1;
    const gop_gemm &g = task->geometry.gemm;
    GOP_TRY(matmul_takes_batch(g, "bf16x3_packed"));
    const int64_t most = INT64_C(1) << 29;
    if (g.k < 16 || g.m > most || g.n > most || g.k > most)
        return gop_fail(
            GOP_REFUSED,
            "matmul: kernel 'bf16x3_packed' takes sums of at least 16 terms, got (%lld, "
            "%lld) outputs of %lld terms",
            (long long)g.m, (long long)g.n, (long long)g.k);
    if (of_itself(task->call) && task->call->in[0].where.backend == GOP_CPU)
        return gop_fail(GOP_REFUSED,
                        "matmul: kernel 'bf16x3_packed' takes an array and its own "
                        "transpose on the device alone, where it sees that they are one: "
                        "their product is symmetric");
    const int pieces = task->call->params.matmul.precision == GOP_BF16 ? 1 : 3;
    if (pieces == 1) plan->precision = GOP_BF16;
    plan->launch = GOP_NATIVE_LAUNCH(launch_of(dtype, pieces));
    split_plan *p = GOP_OWN(split_plan, plan);
    *p = {};
    split_plan_of(ctx, task, pieces, parts, pieces == 1 ? SINGLE_PACE : SPLIT_PACE, p);
    plan->scratch = p->end;
    plan->steps = p->panels * ((g.batches + p->products - 1) / p->products);
    return GOP_OK;
}

extern const gop_row matmul_bf16x3_packed_row = {
    .name = "bf16x3_packed",
    .note = "a float32 is the sum of three bfloat16: six products on tensor cores, which "
            "multiply halves some fifteen times as fast, added in float32 registers",
    .role = GOP_CONFORMING,
    .plan = matmul_bf16x3_packed_plan,
    GOP_NATIVE_DTYPES(1u << GOP_FLOAT32 | 1u << GOP_COMPLEX64),
    .before = "pieces",
};
