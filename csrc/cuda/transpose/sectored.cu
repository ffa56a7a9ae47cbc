/*
 * sectored.cu - transpose of items of 4 bytes and more in unaligned rows.
 *
 * If the pitch is odd, rows are not aligned to 16 bytes, only to items. A thread issues many
 * loads of an item before it uses the first, so that as many bytes are in flight as with wider
 * accesses.
 *
 * Memory moves sectors of 32 bytes. To read a part of one costs little, since the rest comes
 * with it and is needed soon; to write it in two parts may cost two reads and two writes. So
 * each row that a tile writes begins at the sector before, and the tile reads as many more rows
 * as a sector has items.
 */
#include "cuda/transpose/tiling.h"

/* SIDE by SIDE items are read; if rows are moved back, SIDE - SECTOR along y are written. */
template <typename T> struct sectored_tile {
    enum {
        SIDE = sizeof(T) <= 8 ? 64 : 32,
        THREADS = 256,
        WARPS = THREADS / 32,
        SECTOR = 32 / (int)sizeof(T),
        PARTS = SIDE / 32,           /* of a row of the input: a warp's */
        UNITS = SIDE * PARTS / WARPS /* parts that a warp reads */
    };
};

/* A warp reads a part of a row and writes it to one column of the tile, then reads a row of the
 * tile. Rows are an item longer than needed: a column then meets 32 different banks. */

/* `back` is SECTOR, or 0 where every row starts at a sector anyway. */
template <typename T, bool JOINED> __global__ void __launch_bounds__(sectored_tile<T>::THREADS)
    transpose_sectored_kernel(T *out, const T *in, const __grid_constant__ tiling_for<JOINED> p,
                              int back)
{
    typedef sectored_tile<T> S;
    __shared__ T tile[S::SIDE][S::SIDE + 1];
    __shared__ tile_rows<S::SIDE, JOINED> rows;
    tile_at t = place_tile(p, S::SIDE, S::SIDE - back);
    t.y -= back; /* the first column of the tile; y < 0 does not exist */
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int nx = (int)min_of(p.x.n - t.x, S::SIDE), ny = (int)min_of(p.y.n - t.y, S::SIDE);
    const int y0 = t.y < 0 ? (int)-t.y : 0;
    place_rows(rows, p, t);

    grid_dependency_sync();
    T items[S::UNITS];
    in += t.from + t.x;
#pragma unroll
    for (int i = 0; i < S::UNITS; i++) {
        const int part = warp + i * S::WARPS;
        const int x = part % S::PARTS * 32 + lane, y = part / S::PARTS;
        items[i] = {};
        if (x < nx && y >= y0 && y < ny) items[i] = in[row_y(rows, p, t, y) + x];
    }
#pragma unroll
    for (int i = 0; i < S::UNITS; i++) {
        const int part = warp + i * S::WARPS;
        tile[part % S::PARTS * 32 + lane][part / S::PARTS] = items[i];
    }
    __syncthreads();

    out += t.to + t.y;
#pragma unroll 4
    for (int x = warp; x < nx; x += S::WARPS) {
        T *const row = out + row_x(rows, p, t, x);
        const int first = back - (int)((uintptr_t)(row + back) % 32 / sizeof(T));
#pragma unroll
        for (int i = lane; i < S::SIDE; i += 32) {
            const int y = first + i;
            if (i < S::SIDE - back && y >= y0 && y < ny) row[y] = tile[x][y];
        }
    }
}

struct sectored_plan {
    tiling_plan tiles;
    int back;
};

template <typename T, bool JOINED>
static gop_status transpose_sectored(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const sectored_plan &s = *GOP_OWN(const sectored_plan, task->plan);
    return GOP_LAUNCH_FIRST(ctx, task, 0, (transpose_sectored_kernel<T, JOINED>),
                            dim3((unsigned)s.tiles.all.tiles), sectored_tile<T>::THREADS, 0,
                            (T *)task->out[0].data, (const T *)task->in[0].data,
                            tiling_of<JOINED>(s.tiles), s.back);
}

template <typename T>
static gop_status plan_sectored(const gop_task *task, const gop_permutation &g, gop_plan *plan)
{
    typedef sectored_tile<T> S;
    sectored_plan &s = *GOP_OWN(sectored_plan, plan);
    s.back = S::SECTOR;
    GOP_TRY(transpose_tiling("sectored", g, S::SIDE, S::SIDE, 0, &s.tiles));
    if (transpose_offsets_out(s.tiles.all) % S::SECTOR == 0 &&
        (uintptr_t)task->out[0].data % 32 == 0)
        s.back = 0;
    if (s.back)
        GOP_TRY(
            transpose_tiling("sectored", g, S::SIDE, S::SIDE - s.back, s.back - 1, &s.tiles));
    plan->launch =
        s.tiles.is_brief ? transpose_sectored<T, false> : transpose_sectored<T, true>;
    plan->cost = transpose_filled(g, s.tiles, S::SIDE, S::SIDE);
    return GOP_OK;
}

static gop_status transpose_sectored_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    gop_permutation g = task->geometry.permutation;
    const int item = transpose_widen(task, &g);
    if (item < 4)
        return gop_fail(GOP_REFUSED,
                        "transpose: the sectored kernel takes items of 4 bytes and more, or "
                        "neighbours that move together as such, got %d",
                        item);
    return item == 4   ? plan_sectored<uint32_t>(task, g, plan)
           : item == 8 ? plan_sectored<uint64_t>(task, g, plan)
                       : plan_sectored<complex128>(task, g, plan);
}

extern const gop_row transpose_sectored_row = {
    .name = "sectored",
    .note = "unaligned rows: each write starts at a sector, so that none is "
            "written in two parts",
    .role = GOP_CONFORMING,
    .plan = transpose_sectored_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
