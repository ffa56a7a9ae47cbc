/*
 * dmma.h - how float64 products are cut for the tensor cores, and a product of complex128 as
 * one of float64: a's numbers are pairs of terms, and each number of b is copied as the matrix
 * (re, im; -im, re).
 */
#ifndef GOP_CUDA_MATMUL_DMMA_H
#define GOP_CUDA_MATMUL_DMMA_H

#include "cuda/common/tile_scheduler.h"
#include "cuda/matmul/product.h"
#include "cuda/matmul/straight.h"

/* ---- tiles ---- */

enum { DMMA_K = 16, DMMA_LINE = DMMA_K * 8 }; /* terms of a stage; bytes of a line of it */

/* A tile and that of a warp, blocks that an SM holds, how much longer than the tensor cores'
 * best its products take. */
#define DMMA_WAYS(WAY)                                                                         \
    WAY(64, 64, 32, 32, 3, 1.21f)                                                              \
    WAY(64, 32, 32, 16, 4, 1.43f)                                                              \
    WAY(32, 64, 16, 32, 4, 1.48f)                                                              \
    WAY(32, 32, 16, 16, 4, 1.69f)                                                              \
    WAY(128, 16, 32, 16, 3, 1.96f)                                                             \
    WAY(16, 128, 16, 32, 3, 2.10f)                                                             \
    WAY(16, 16, 16, 8, 12, 3.30f)                                                              \
    WAY(64, 96, 32, 48, 2, 1.24f)                                                              \
    WAY(96, 64, 48, 32, 2, 1.28f)

struct dmma_tile {
    int m, n, held;
    float slower;
};
#define DMMA_TILE(M, N, WARP_M, WARP_N, HELD, SLOWER) {M, N, HELD, SLOWER},
static const dmma_tile dmma_tiles[] = {DMMA_WAYS(DMMA_TILE)};
enum { DMMA_TILES = sizeof dmma_tiles / sizeof *dmma_tiles };

/* How an operand is copied: item by item along terms or across lines, or 16 bytes of terms. */
enum dmma_mode { DMMA_ACROSS, DMMA_ALONG, DMMA_WIDE };

/* How a call is cut: a tile, blocks of a cluster, which share sums; pieces of a sum, which a
 * second kernel adds, their terms, and those of a block. */
struct dmma_schedule {
    int way, cluster, a_mode, b_mode;
    int64_t split, chunk, part;
};

static const double DMMA_LAUNCH = 2.7; /* microseconds of a launch */
/* Seconds of the best; `whole`: no sum is cut. */
double dmma_choose(const gop_ctx *ctx, const gop_task *task, bool whole, dmma_schedule *best);

/* ---- tiles that TMA fetches, for dmma_tma ---- */

/* A tile and that of a warp, of which an SM has eight; how much longer than the tensor cores'
 * best its products take, where groups of warps share a tile and where each has its own. */
#define DMMA_TMA_WAYS(WAY)                                                                     \
    WAY(128, 128, 64, 32, 0.91f, 1.00f)                                                        \
    WAY(64, 128, 64, 32, 0.98f, 1.02f)                                                         \
    WAY(96, 64, 48, 32, 0.97f, 0.91f)                                                          \
    WAY(64, 96, 32, 48, 1.00f, 0.95f)                                                          \
    WAY(64, 64, 32, 32, 1.00f, 0.98f)                                                          \
    WAY(64, 32, 32, 32, 1.02f, 1.33f)                                                          \
    WAY(32, 64, 32, 32, 1.04f, 1.18f)

struct dmma_tma_tiling {
    int m, n, groups;
    float shared, apart;
};
#define DMMA_TMA_TILING(M, N, WARP_M, WARP_N, SHARED, APART)                                   \
    {M, N, 8 / (M / WARP_M * (N / WARP_N)), SHARED, APART},
static const dmma_tma_tiling dmma_tma_tilings[] = {DMMA_TMA_WAYS(DMMA_TMA_TILING)};
enum { DMMA_TMA_TILINGS = sizeof dmma_tma_tilings / sizeof *dmma_tma_tilings };

/* How a call is cut: a tiling, the items of its blocks, and rings of stages in shared memory,
 * one that groups of warps share or one for each. */
struct dmma_tma_schedule : tile_schedule {
    int way, rings;
};

/* Seconds of the best; no sum is cut where `a @ a.T` has to be symmetric. */
double dmma_tma_choose(const gop_ctx *ctx, const gop_task *task, dmma_tma_schedule *best);

/* ---- complex numbers ---- */

struct dmma_pairs {
    int complex_kind, a_copied; /* complex: b is copied, a perhaps */
    size_t b_at, a_at;          /* in scratch */
};

/* The copies lie in scratch from `at` on; returns where they end. */
static inline size_t dmma_plan_pairs(const gop_task *task, size_t at, dmma_pairs *pairs)
{
    const gop_gemm &g = task->geometry.gemm;
    *pairs = {};
    if (task->in[0].dtype != GOP_COMPLEX128) return at;
    pairs->complex_kind = 1;
    pairs->a_copied = g.a_col != 1 && g.k > 1;
    pairs->b_at = (at + 255) / 256 * 256;
    pairs->a_at = pairs->b_at + (size_t)(g.batches * g.k * g.n * 32);
    return pairs->a_at + (size_t)(pairs->a_copied ? g.batches * g.m * g.k * 16 : 0);
}

/* The geometry of the real product that a complex one is. */
static inline gop_gemm dmma_geometry(const gop_task *task, const dmma_pairs &pairs)
{
    gop_gemm g = task->geometry.gemm;
    if (!pairs.complex_kind) return g;
    const int64_t m = g.m, n = g.n, k = g.k;
    g.n = 2 * n;
    g.k = 2 * k;
    g.a_row *= 2;
    g.a_col = 1;
    g.out_row *= 2;
    g.out_col = 1;
    g.b_row = 2 * n;
    g.b_col = 1;
    if (pairs.a_copied) g.a_row = 2 * k;
    int64_t before = 1; /* products that a step of the axis passes, in C order */
    for (int axis = g.batch_rank - 1; axis >= 0; before *= g.extent[axis--]) {
        g.a[axis] = pairs.a_copied ? before * m * 2 * k : 2 * g.a[axis];
        g.b[axis] = before * 4 * k * n;
        g.out[axis] *= 2;
    }
    return g;
}

/* The operands of the real product as dmma_tma has them fetched. */
struct dmma_tma_operands {
    straight_operand a, b;
};
static inline dmma_tma_operands dmma_tma_operands_of(const gop_task *task, const gop_gemm &g,
                                                     const dmma_pairs &pairs)
{
    const void *const aligned = (const void *)(uintptr_t)256; /* as copies in scratch are */
    return {straight_operand_of(g, g.a, pairs.a_copied ? aligned : task->in[0].data, g.m,
                                g.a_row, g.a_col, 8),
            straight_operand_of(g, g.b, pairs.complex_kind ? aligned : task->in[1].data, g.n,
                                g.b_col, g.b_row, 8)};
}

/* The real product, its copies enqueued if this is the first step. In dmma_schedule.cu. */
gop_status dmma_product(gop_ctx *ctx, const gop_task *task, int64_t step,
                        const matmul_part &part, const dmma_pairs &pairs,
                        matmul_product<double> *p);

#endif
