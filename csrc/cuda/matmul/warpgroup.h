/*
 * warpgroup.h - which products 'warpgroup' takes, and that other rows leave it halves.
 */
#ifndef GOP_CUDA_MATMUL_WARPGROUP_H
#define GOP_CUDA_MATMUL_WARPGROUP_H

#include "cuda/matmul/product.h"
#include "cuda/wgmma.h"

static inline gop_status warpgroup_takes(const gop_ctx *ctx, const gop_gemm &g)
{
    GOP_TRY(gop_has_wgmma(ctx, "matmul: kernel 'warpgroup'"));
    if (g.m <= 32 || g.n <= 32 || g.k < 32 || g.m > INT32_MAX / 2 || g.n > INT32_MAX / 2 ||
        g.k > INT32_MAX / 2 || g.batches > INT32_MAX / 32)
        return gop_fail(GOP_REFUSED,
                        "matmul: kernel 'warpgroup' takes products of more than 32 rows and "
                        "columns, of at least 32 terms, got (%lld, %lld) of %lld terms",
                        (long long)g.m, (long long)g.n, (long long)g.k);
    if (uniform_batch(g, g.out) < 0)
        return gop_fail(GOP_REFUSED, "matmul: kernel 'warpgroup' takes an output whose "
                                     "products lie one stride apart");
    const double tiles = (double)((g.m + 127) / 128) * (double)((g.n + 127) / 128);
    if (tiles * (double)g.batches > 1e8)
        return gop_fail(GOP_REFUSED, "matmul: kernel 'warpgroup' takes at most 10^8 tiles of "
                                     "128 x 128 results");
    return GOP_OK;
}

/* Refuses, for `who` if it was not asked for, halves that 'warpgroup' takes: from 33 rows and
 * columns on nothing else is as fast. */
static inline gop_status warpgroup_has_halves(const gop_ctx *ctx, const gop_task *task,
                                              const char *who)
{
    const gop_dtype dtype = task->in[0].dtype;
    if (task->named || (dtype != GOP_FLOAT16 && dtype != GOP_BFLOAT16) ||
        warpgroup_takes(ctx, task->geometry.gemm) != GOP_OK)
        return GOP_OK;
    return gop_fail(GOP_REFUSED,
                    "matmul: kernel '%s' leaves halves with more than 32 rows and columns to "
                    "'warpgroup', which takes this",
                    who);
}

#endif
