/*
 * shifted.cu - transpose of items of 1 and 2 bytes whose rows start anywhere.
 *
 * Item by item there would be too many accesses. 16 bytes that start anywhere lie in two
 * aligned pieces of 16: these are read, and shifted into place in registers. Half of what is
 * asked for so is asked for twice, but by neighbours and at the same time, so it comes from the
 * first-level cache.
 *
 * Rows of the output are moved back to their sector, as in sectored.
 */
#include "cuda/transpose/split.h"
#include "cuda/transpose/tiling.h"
#include "cuda/transpose/turn.h"

/* Boxes are faster where less of the tiles is there. */
static constexpr double LEAST_FILLED = 0.5;

/* X by Y items are read, and Y - SECTOR along y are written, by THREADS. */
template <typename T> struct shifted_tile {
    enum {
        N = 16 / (int)sizeof(T), /* items of a piece */
        X = 128,
        Y = sizeof(T) == 1 ? 256 : 128,
        THREADS = sizeof(T) == 1 ? 128 : 256,
        BLOCKS = sizeof(T) == 1 ? 4 : 3, /* of a processor, at least */
        SECTOR = 32 / (int)sizeof(T),
        ACROSS = X / N, /* squares */
        ALONG = Y / N,
        UNITS = ACROSS * ALONG / THREADS, /* squares of a thread */
        BATCH = 8,                        /* rows of a square that are asked for at once */
        PIECES = (Y - SECTOR) / N,        /* of a row that is written */
        /* Rows by a sum each, not a product; of 2-byte items that takes registers which three
         * blocks do not have. */
        ADDS = sizeof(T) == 1,
    };
};

/* ---- shifted ----
 * Squares of N by N items are turned in registers, as in vectorized, with the same swizzle of
 * the tile in shared memory. Most tiles are whole: their code has no branches, so that all
 * loads of a batch are on their way at once. */

GOP_DEVICE split load_split(const uint8_t *from)
{
    const int shift = (int)((uintptr_t)from % 16);
    const uint4 *const piece = reinterpret_cast<const uint4 *>(from - shift);
    return {load_ahead(piece), load_ahead(piece + (shift > 0)), shift};
}

/* What of a tile is there: x < nx and y0 <= y < ny. */
struct extents {
    int nx, y0, ny;
};

/* WHOLE: all rows are there, and the pieces on either side of them too. */
template <typename T, bool JOINED, bool WHOLE> GOP_DEVICE void
shifted_load(uint4 *tile, const T *in, const tiling_for<JOINED> &p, const tile_at &t,
             const tile_rows<shifted_tile<T>::Y, JOINED> &rows, extents n, pieces whole)
{
    typedef shifted_tile<T> S;
#pragma unroll
    for (int unit = 0; unit < S::UNITS; unit++) {
        const int at = threadIdx.x + unit * S::THREADS;
        const int across = at % S::ACROSS, along = at / S::ACROSS;
        const int left = (n.nx - across * S::N) * (int)sizeof(T); /* bytes of a row */
        const T *row = in + row_y(rows, p, t, along * S::N) + across * S::N;
        square<T> s;
#pragma unroll
        for (int first = 0; first < S::N; first += S::BATCH) {
            split v[S::BATCH];
#pragma unroll
            for (int k = 0; k < S::BATCH; k++) {
                const int y = along * S::N + first + k;
                if (JOINED || !S::ADDS) row = in + row_y(rows, p, t, y) + across * S::N;
                const uint8_t *const from = reinterpret_cast<const uint8_t *>(row);
                const int there = y < n.y0 || y >= n.ny ? 0 : left < 16 ? left : 16;
                v[k] = WHOLE ? load_split(from) : load_split(from, 0, there, whole);
                row += p.y.stride[0];
            }
#pragma unroll
            for (int k = 0; k < S::BATCH; k++) {
                const uint4 w = window(v[k]);
                __builtin_memcpy(s.word[first + k], &w, 16);
            }
        }
        const square<T> v = turned(s);
#pragma unroll
        for (int k = 0; k < S::N; k++) {
            uint4 w;
            __builtin_memcpy(&w, v.word[k], 16);
            tile[(across * S::N + k) * S::ALONG + (along ^ across % 8)] = w;
        }
    }
}

/* WHOLE: every x and y is there. */
template <typename T, bool JOINED, bool WHOLE>
GOP_DEVICE void shifted_store(T *out, const uint4 *tile, const tiling_for<JOINED> &p,
                              const tile_at &t,
                              const tile_rows<shifted_tile<T>::Y, JOINED> &rows, extents n)
{
    typedef shifted_tile<T> S;
#pragma unroll 2
    for (int piece = threadIdx.x; piece < S::X * S::PIECES; piece += S::THREADS) {
        const int x = piece / S::PIECES, swizzle = x / S::N % 8;
        if (!WHOLE && x >= n.nx) continue;
        T *const row = out + row_x(rows, p, t, x);
        const int back = (int)((uintptr_t)(row + S::SECTOR) % 32 / sizeof(T));
        const int y = S::SECTOR - back + piece % S::PIECES * S::N, along = y / S::N;
        const int shift = y % S::N * (int)sizeof(T);
        if (!WHOLE && (y + S::N <= n.y0 || y >= n.ny)) continue;
        const uint4 v = window(tile[x * S::ALONG + (along ^ swizzle)],
                               tile[x * S::ALONG + ((along + (shift > 0)) ^ swizzle)], shift);
        if (WHOLE || (y >= n.y0 && y + S::N <= n.ny)) {
            *reinterpret_cast<uint4 *>(row + y) = v;
            continue;
        }
        T items[S::N]; /* an end of the output's row */
        __builtin_memcpy(items, &v, 16);
#pragma unroll
        for (int k = 0; k < S::N; k++)
            if (y + k >= n.y0 && y + k < n.ny) row[y + k] = items[k];
    }
}

/* Whether a piece on either side of a tile's rows lies in the input. Of joined runs only the
 * rows themselves are known to go on there. */
template <typename T, bool JOINED>
GOP_DEVICE bool goes_on(const T *in, const tiling_for<JOINED> &p, const tile_at &t,
                        const tile_rows<shifted_tile<T>::Y, JOINED> &rows, pieces whole)
{
    typedef shifted_tile<T> S;
    if (JOINED) return t.x > 0 && t.x + S::X + S::N <= p.x.n;
    const T *const a = in + row_y(rows, p, t, 0), *const b = in + row_y(rows, p, t, S::Y - 1);
    return (uintptr_t)(a < b ? a : b) >= (uintptr_t)whole.first &&
           (uintptr_t)((a < b ? b : a) + S::X + S::N) <= (uintptr_t)whole.end;
}

template <typename T, bool JOINED>
__global__ void __launch_bounds__(shifted_tile<T>::THREADS, shifted_tile<T>::BLOCKS)
    transpose_shifted_kernel(T *out, const T *in, const __grid_constant__ tiling_for<JOINED> p,
                             pieces whole)
{
    typedef shifted_tile<T> S;
    __shared__ uint4 tile[S::X * S::ALONG];
    __shared__ tile_rows<S::Y, JOINED> rows;
    tile_at t = place_tile(p, S::X, S::Y - S::SECTOR);
    t.y -= S::SECTOR; /* the first column of the tile; y < 0 is not there */
    const extents n = {(int)min_of(p.x.n - t.x, S::X), t.y < 0 ? (int)-t.y : 0,
                       (int)min_of(p.y.n - t.y, S::Y)};
    const bool is_whole = n.nx == S::X && n.y0 == 0 && n.ny == S::Y;
    place_rows(rows, p, t);

    in += t.from + t.x;
    if (is_whole && goes_on(in, p, t, rows, whole))
        shifted_load<T, JOINED, true>(tile, in, p, t, rows, n, whole);
    else shifted_load<T, JOINED, false>(tile, in, p, t, rows, n, whole);
    __syncthreads();

    out += t.to + t.y;
    if (is_whole) shifted_store<T, JOINED, true>(out, tile, p, t, rows, n);
    else shifted_store<T, JOINED, false>(out, tile, p, t, rows, n);
}

template <typename T, bool JOINED>
static gop_status transpose_shifted(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const tiling_plan &t = *GOP_OWN(const tiling_plan, task->plan);
    return GOP_LAUNCH(ctx, (transpose_shifted_kernel<T, JOINED>), dim3((unsigned)t.all.tiles),
                      shifted_tile<T>::THREADS, 0, (T *)task->out[0].data,
                      (const T *)task->in[0].data, tiling_of<JOINED>(t), pieces_of(task));
}

/* The share of its tiles' items that a permutation fills, with the sector by which tiles of
 * rows reach into each other. */
template <typename T> static double filled(const gop_permutation &g, const tiling &p)
{
    typedef shifted_tile<T> S;
    return (double)g.size / ((double)p.tiles * S::X * S::Y);
}

template <typename T>
static gop_status plan_shifted(const gop_task *task, const gop_permutation &g, gop_plan *plan)
{
    typedef shifted_tile<T> S;
    tiling_plan &t = *GOP_OWN(tiling_plan, plan);
    GOP_TRY(transpose_tiling("shifted", g, S::X, S::Y - S::SECTOR, S::SECTOR - 1, &t));
    if (!task->named && filled<T>(g, t.all) < LEAST_FILLED)
        return gop_fail(GOP_REFUSED,
                        "transpose: the shifted kernel takes runs that fill half of all its "
                        "tiles of %d by %d, got %lld by %lld",
                        S::X, S::Y, (long long)t.all.x.n, (long long)t.all.y.n);
    plan->launch = t.is_brief ? transpose_shifted<T, false> : transpose_shifted<T, true>;
    return GOP_OK;
}

static gop_status transpose_shifted_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    gop_permutation g = task->geometry.permutation;
    const int item = transpose_widen(task, &g);
    if (item > 2)
        return gop_fail(GOP_REFUSED,
                        "transpose: the shifted kernel takes items of 1 and 2 bytes, got "
                        "neighbours that move together as %d",
                        item);
    return item == 1 ? plan_shifted<uint8_t>(task, g, plan)
                     : plan_shifted<uint16_t>(task, g, plan);
}

extern const gop_row transpose_shifted_row = {
    .name = "shifted",
    .note = "the same of small items: 16 bytes at any address, shifted into place from "
            "two aligned pieces",
    .role = GOP_CONFORMING,
    .plan = transpose_shifted_plan,
    .dtypes = TRANSPOSE_SMALL,
};
