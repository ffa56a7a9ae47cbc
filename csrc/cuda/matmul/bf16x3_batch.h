/*
 * bf16x3_batch.h - bf16x3_batch_sm80.cu: a tile, and how its sums leave the blocks that share
 * it.
 */
#ifndef GOP_CUDA_MATMUL_BF16X3_BATCH_H
#define GOP_CUDA_MATMUL_BF16X3_BATCH_H

#include "cuda/matmul/bf16x3_parts.h"
#include "cuda/matmul/tiling.h"

enum { BATCH_SIDE = 64 }; /* of a tile, in reals */

#if GOP_SM80

#include "cuda/common/cluster.h"

/* Rows of a product of an array by its own transpose that a tile begins below the diagonal. */
template <typename T>
GOP_DEVICE int64_t batch_below(const matmul_product<T> &p, const matmul_tile<T> &tile)
{
    return p.part.row + tile.i0 - tile.j0;
}

/* What all blocks are told. */
struct bf16x3_batch_job {
    bool of_itself, a_wide, b_wide;
    int cluster; /* blocks that share a tile: each has `part` terms of it */
    int64_t part;
};

/* Computes a tile anew, term by term. */
template <typename T> GOP_DEVICE void
batch_anew(const matmul_product<T> &p, const matmul_tile<T> &tile, const bf16x3_batch_job &job)
{
    const matmul_geometry &g = p.g;
    T *const out = (T *)p.out + tile.out;
    const int64_t below = batch_below(p, tile);
    for (int at = cluster_rank() * blockDim.x + threadIdx.x; at < tile.rows * tile.columns;
         at += job.cluster * blockDim.x) {
        const int i = at / tile.columns, j = at % tile.columns;
        const T *x = tile.a + i * g.a_row, *y = tile.b + j * g.b_col;
        T total = {};
#pragma unroll 1
        for (int64_t l = 0; l < tile.terms; l++, x += g.a_col, y += g.b_row)
            total = accumulate(*x, *y, total);
        if (job.of_itself && below + i < j) continue;
        out[i * g.out_row + j * g.out_col] = total;
        if (job.of_itself) out[(j - below) * g.out_row + (i + below) * g.out_col] = total;
    }
}

/* A barrier of all that share a tile. */
template <int GROUPS> GOP_DEVICE void batch_meet(const bf16x3_batch_job &job)
{
    if (GROUPS > 1 && job.cluster > 1) cluster_sync();
    else __syncthreads();
}

/* A tile's sums in shared memory, on their way to lines of memory. Each warpgroup of the blocks
 * that share the tile has a part of them. Of a product by its own transpose what is not above
 * the diagonal leaves as it is, or, `mirrored`, that below on its other side. */
template <typename T, int GROUPS> struct batch_sums {
    enum { PARTS = sizeof(T) / 4, SIDE = BATCH_SIDE };
    enum { ROW = SIDE + 8, COLUMN = SIDE * PARTS + 4 * PARTS, PART = SIDE * ROW };
    float *memory;
    int64_t row_apart, column_apart;
    bool by_rows, mirrored;

    GOP_DEVICE batch_sums(float *memory, const matmul_geometry &g, bool mirrored)
        : memory(memory), row_apart(mirrored ? g.out_col : g.out_row),
          column_apart(mirrored ? g.out_row : g.out_col),
          by_rows(llabs(column_apart) <= llabs(row_apart)), mirrored(mirrored)
    {
    }
    GOP_DEVICE void keep(const float (&sum)[32]) const
    {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        float *const part = memory + warp / 4 * PART;
#pragma unroll
        for (int e = 0; e < 32; e += 2) {
            const int row = warp % 4 * 16 + lane / 4 + e / 2 % 2 * 8;
            const int column = e / 4 * 8 + lane % 4 * 2; /* and the next */
            if (PARTS == 1 && !by_rows) {
                part[column * COLUMN + row] = sum[e];
                part[(column + 1) * COLUMN + row] = sum[e + 1];
            } else {
                float *const at =
                    part + (by_rows ? row * ROW + column : column / 2 * COLUMN + row * 2);
                *reinterpret_cast<float2 *>(at) = make_float2(sum[e], sum[e + 1]);
            }
        }
    }
    /* What all warpgroups have at a place, in their order. */
    GOP_DEVICE float total(const float *at, int cluster) const
    {
        float all = 0;
#pragma unroll 4
        for (int rank = 0; rank < cluster; rank++) {
            const float *const there = cluster > 1 ? map_shared_rank(at, rank) : at;
#pragma unroll
            for (int group = 0; group < GROUPS; group++) all += there[group * PART];
        }
        return all;
    }
    GOP_DEVICE void store(const matmul_product<T> &p, const matmul_tile<T> &tile,
                          const bf16x3_batch_job &job) const
    {
        const int lane = threadIdx.x % 32, block_warps = blockDim.x / 32;
        const int cluster = GROUPS > 1 ? job.cluster : 1, warps = cluster * block_warps;
        const int warp = (cluster > 1 ? cluster_rank() * block_warps : 0) + threadIdx.x / 32;
        const int64_t below = batch_below(p, tile);
        const int lines = by_rows ? tile.rows : tile.columns;
        const int length = (by_rows ? tile.columns : tile.rows) * PARTS;
        const int64_t far = by_rows ? row_apart : column_apart;
        const int64_t near = by_rows ? column_apart : row_apart;
        T *out = (T *)p.out + tile.out + warp * far + lane / PARTS * near;
        if (mirrored) out += below * (p.g.out_col - p.g.out_row);
        const float *from = memory + warp * (by_rows ? ROW : COLUMN) + lane;
        const auto put = [&](int f, auto wanted) {
            for (; f < lines; f += warps) {
                float value[SIDE * PARTS / 32];
#pragma unroll
                for (int x = 0; x < SIDE * PARTS; x += 32)
                    value[x / 32] = GROUPS > 1 ? total(from + x, cluster) : from[x];
#pragma unroll
                for (int x = 0; x < SIDE * PARTS; x += 32)
                    if (lane + x < length && wanted(f, (lane + x) / PARTS))
                        ((float *)(out + x / PARTS * near))[lane % PARTS] = value[x / 32];
                out += warps * far, from += warps * (by_rows ? ROW : COLUMN);
            }
        };
        if (job.of_itself)
            put(warp,
                [&](int f, int n) { return below + (by_rows ? f - n : n - f) >= mirrored; });
        else put(warp, [](int, int) { return true; });
    }
};

/* Whether one of the blocks that share a tile has a flag that is set. */
GOP_DEVICE bool batch_any(const int *flag, int cluster)
{
    int any = 0;
    for (int rank = 0; rank < cluster; rank++) any |= *map_shared_rank(flag, rank);
    return any != 0;
}

/* Stores a tile's sums, or computes it anew where it is `beyond` what bfloat16 hold, or a sum
 * is. */
template <int GROUPS, typename T>
GOP_DEVICE void batch_finish(const matmul_product<T> &p, const matmul_tile<T> &tile,
                             const bf16x3_batch_job &job, const float (&sum)[32], bool beyond,
                             float *memory)
{
    const bool shared = GROUPS > 1 && job.cluster > 1;
    typedef batch_sums<T, GROUPS> sums_type;
    const sums_type sums(memory, p.g, false);
    const float largest = GROUPS > 1 ? IMAGE_LARGEST / (GROUPS * CLUSTERED) : IMAGE_LARGEST;
#pragma unroll
    for (int e = 0; e < 32; e++) beyond |= !(fabsf(sum[e]) <= largest);
    beyond = __syncthreads_or(beyond);
    int *const flag = (int *)(memory + GROUPS * sums_type::PART);
    if (shared && threadIdx.x == 0) *flag = beyond;
    sums.keep(sum);
    batch_meet<GROUPS>(job);
    if (shared) beyond = batch_any(flag, job.cluster);
    if (beyond) {
        batch_anew(p, tile, job);
    } else {
        sums.store(p, tile, job);
        if (job.of_itself) {
            const sums_type others(memory, p.g, true);
            batch_meet<GROUPS>(job);
            others.keep(sum);
            batch_meet<GROUPS>(job);
            others.store(p, tile, job);
        }
    }
    if (shared) cluster_sync(); /* another block may still read from this one */
}

#endif
#endif
