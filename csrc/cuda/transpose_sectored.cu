/*
 * transpose_sectored.cu - the transpose row for items of 4 bytes and more whose rows start
 * anywhere.
 *
 * Where the pitch is odd, 16 bytes of a row have no address to be read from, but an item has. A
 * thread asks for many of them before it uses the first, so that as many bytes are in flight as
 * with wider accesses.
 *
 * Memory keeps sectors of 32 bytes. A part of one costs little to read, since the rest comes
 * with it and is wanted soon; written in two parts it may cost two reads and two writes. So
 * each row that a tile writes is moved back to the sector before, and the tile reads as many
 * rows more as a sector has items.
 */
#include "cuda/transpose.h"

/* SIDE by SIDE items are read; where rows are moved back, SIDE - SECTOR along y are written. */
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

/* ---- sectored ----
 * A warp reads a part of a row and writes it to one column of the tile, then reads a row of the
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
    t.y -= back; /* the first column of the tile; y < 0 is not there */
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int nx = (int)min_of(p.x.n - t.x, S::SIDE), ny = (int)min_of(p.y.n - t.y, S::SIDE);
    const int y0 = t.y < 0 ? (int)-t.y : 0;
    place_rows(rows, p, t);

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

template <typename T>
static gop_status sectored(gop_ctx *ctx, const gop_task *task, const gop_permutation &g)
{
    typedef sectored_tile<T> S;
    tiling p;
    brief_tiling brief;
    T *const out = (T *)task->out[0].data;
    const T *const in = (const T *)task->in[0].data;
    GOP_TRY(transpose_tiling("sectored", g, S::SIDE, S::SIDE, 0, &p));
    if (p.tiles == 0) return GOP_OK;
    const bool is_aligned =
        transpose_offsets_out(p) % S::SECTOR == 0 && (uintptr_t)out % 32 == 0;
    const int back = is_aligned ? 0 : S::SECTOR;
    if (back) GOP_TRY(transpose_tiling("sectored", g, S::SIDE, S::SIDE - back, back - 1, &p));
    const dim3 grid((unsigned)p.tiles);
    if (transpose_is_brief(p, &brief))
        return GOP_LAUNCH(ctx, (transpose_sectored_kernel<T, false>), grid, S::THREADS, 0, out,
                          in, brief, back);
    return GOP_LAUNCH(ctx, (transpose_sectored_kernel<T, true>), grid, S::THREADS, 0, out, in,
                      p, back);
}

gop_status transpose_sectored(gop_ctx *ctx, const gop_task *task, int64_t)
{
    gop_permutation g = task->geometry.permutation;
    switch (transpose_widen(task, &g)) {
    case 4:
        return sectored<uint32_t>(ctx, task, g);
    case 8:
        return sectored<uint64_t>(ctx, task, g);
    default:
        return sectored<complex128>(ctx, task, g);
    }
}

/* Both ways to lay tiles: what is accepted here must not be refused there. */
template <typename T> static gop_status fits(const gop_permutation &g)
{
    typedef sectored_tile<T> S;
    tiling p;
    GOP_TRY(transpose_tiling("sectored", g, S::SIDE, S::SIDE, 0, &p));
    return transpose_tiling("sectored", g, S::SIDE, S::SIDE - S::SECTOR, S::SECTOR - 1, &p);
}

gop_status transpose_takes_sectored(const gop_ctx *, const gop_task *task)
{
    gop_permutation g = task->geometry.permutation;
    const int item = transpose_widen(task, &g);
    switch (item) {
    case 4:
        return fits<uint32_t>(g);
    case 8:
        return fits<uint64_t>(g);
    case 16:
        return fits<complex128>(g);
    default:
        return gop_fail(GOP_REFUSED,
                        "transpose: the sectored kernel takes items of 4 bytes and more, or "
                        "neighbours that move together as such, got %d",
                        item);
    }
}
