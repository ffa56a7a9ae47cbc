/*
 * transpose_shifted.cu - the transpose row for rows that start at any item.
 *
 * Where the pitch is odd, 16 bytes of a row have no address to be read from. A warp then reads
 * a row in neighbouring items of 4 bytes or more; of smaller items it reads the aligned words
 * that hold them and shifts pairs of words into place, on the way out likewise.
 *
 * Memory keeps sectors of 32 bytes. A part of one costs little to read, since the rest comes
 * with it and is wanted soon; written in two parts it may cost two reads and two writes. So
 * each row that a tile writes is moved back to the sector before, and the tile reads as many
 * rows more as a sector has items.
 */
#include "cuda/transpose.h"

enum { THREADS = 256, WARPS = THREADS / 32 };

/* X by Y items are read; where rows are moved back, Y - SECTOR along y are written. */
template <typename T> struct shifted_tile {
    enum {
        X = sizeof(T) <= 2   ? 128
            : sizeof(T) <= 8 ? 64
                             : 32,
        Y = sizeof(T) == 1   ? 256
            : sizeof(T) == 2 ? 128
            : sizeof(T) <= 8 ? 64
                             : 32,
        SIDE = X > Y ? X : Y,
        SECTOR = 32 / (int)sizeof(T),
        ROWS = sizeof(T) < 4 ? 4 / (int)sizeof(T) : 1, /* that make a cell */
        CELLS = Y / ROWS,                              /* of a row of the tile: one x */
        PARTS = X / ROWS / 32,                         /* of a row of the input: a warp's */
        UNITS = CELLS * PARTS / WARPS, /* a warp reads: a part of ROWS rows each */
        /* of which so many are in flight at once: 16 registers a thread */
        BATCH = UNITS * ROWS * (int)sizeof(typename cell<T>::type) <= 64
                    ? UNITS
                    : 64 / (ROWS * (int)sizeof(typename cell<T>::type)),
    };
};

/* ---- cells from rows at any address; `left` items are left of the row ---- */

template <typename T> GOP_DEVICE T load_cell(const T *from, int64_t left)
{
    T v = {};
    if (left > 0) v = *from;
    return v;
}

/* Two words hold the four bytes at any address. At the end of a row the second may be nobody's:
 * there the bytes are read one by one. */
GOP_DEVICE uint32_t load_word(const uint8_t *from, int64_t left)
{
    const unsigned shift = (unsigned)((uintptr_t)from & 3);
    const uint32_t *words = reinterpret_cast<const uint32_t *>(from - shift);
    if (left >= 8) {
        const uint32_t low = words[0];
        uint32_t high = 0;
        if (shift) high = words[1];
        return (uint32_t)(((uint64_t)high << 32 | low) >> 8 * shift);
    }
    uint32_t word = 0;
    for (int i = 0; i < 4 && i < left; i++) word |= (uint32_t)from[i] << 8 * i;
    return word;
}

GOP_DEVICE uint32_t load_cell(const uint8_t *from, int64_t left)
{
    return load_word(from, left);
}

GOP_DEVICE uint32_t load_cell(const uint16_t *from, int64_t left)
{
    return load_word(reinterpret_cast<const uint8_t *>(from), 2 * left);
}

/* ---- a row of the tile to memory ---- */

/* Where the cell of column `at` in row x lies. A warp writes one column of 32 neighbouring
 * x / ROWS and reads 32 columns of one x: XOR of the two makes both 32 different banks. */
template <typename T> GOP_DEVICE int cell_of(int x, int at)
{
    typedef shifted_tile<T> S;
    return x * S::CELLS + (at ^ (x / S::ROWS % 32));
}

/* What of a tile's columns lies in the array, in items. */
struct span {
    int first, end;
};

/* `to` is where column `at` goes; `count` of them are written, as far as they are there. */
template <typename T, typename C>
GOP_DEVICE void store_row(T *to, const C *tile, int x, int at, int count, span there, int lane)
{
#pragma unroll
    for (int i = lane; i < shifted_tile<T>::Y; i += 32) {
        const int y = at + i;
        if (i < count && y >= there.first && y < there.end) to[i] = tile[cell_of<T>(x, y)];
    }
}

/* The same of bytes: words at multiples of 4, each from the two cells that have its bytes. Of
 * the array's own first and last word only some bytes may be there. */
template <typename T> GOP_DEVICE void store_bytes(T *to, const uint32_t *tile, int x, int at,
                                                  int count, span there, int lane)
{
    typedef shifted_tile<T> S;
    enum { BYTES = (int)sizeof(T) };
    uint8_t *const row = reinterpret_cast<uint8_t *>(to);
#pragma unroll
    for (int i = 4 * lane; i < S::Y * BYTES; i += 128) {
        const int byte = at * BYTES + i, shift = byte % 4;
        if (i >= count * BYTES || byte + 4 <= there.first * BYTES || byte >= there.end * BYTES)
            continue;
        uint32_t word = tile[cell_of<T>(x, byte / 4)];
        if (shift) {
            const int next = byte / 4 + 1 < S::CELLS ? byte / 4 + 1 : S::CELLS - 1;
            word = __funnelshift_r(word, tile[cell_of<T>(x, next)], 8 * shift);
        }
        if (byte >= there.first * BYTES && byte + 4 <= there.end * BYTES)
            *reinterpret_cast<uint32_t *>(row + i) = word;
        else
            for (int k = 0; k < 4; k++)
                if (byte + k >= there.first * BYTES && byte + k < there.end * BYTES)
                    row[i + k] = (uint8_t)(word >> 8 * k);
    }
}

/* `back` is SECTOR, or 0 where every row starts at a sector anyway. */
template <typename T, bool JOINED> __global__ void __launch_bounds__(THREADS)
    transpose_shifted_kernel(T *out, const T *in, tiling p, int back)
{
    typedef shifted_tile<T> S;
    typedef typename cell<T>::type C;
    extern __shared__ uint4 storage[];
    C *const tile = reinterpret_cast<C *>(storage);
    __shared__ tile_rows<S::SIDE, JOINED> rows;
    tile_at t = place_tile(p, S::X, S::Y - back);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    t.y -= back; /* the first column of the tile; y < 0 is not there */
    const span there = {t.y < 0 ? (int)-t.y : 0, (int)min_of(p.y.n - t.y, S::Y)};
    place_rows(rows, p, t);

    in += t.from + t.x;
#pragma unroll
    for (int first = 0; first < S::UNITS; first += S::BATCH) {
        C row[S::BATCH][S::ROWS];
#pragma unroll
        for (int i = 0; i < S::BATCH; i++) {
            const int at = warp + (first + i) * WARPS;
            const int x = (at % S::PARTS * 32 + lane) * S::ROWS, y = at / S::PARTS * S::ROWS;
#pragma unroll
            for (int j = 0; j < S::ROWS; j++) {
                row[i][j] = {};
                if (y + j >= there.first && y + j < there.end)
                    row[i][j] = load_cell(in + row_y(rows, p, t, y + j) + x, p.x.n - t.x - x);
            }
        }
#pragma unroll
        for (int i = 0; i < S::BATCH; i++) {
            const int at = warp + (first + i) * WARPS;
            const int x = (at % S::PARTS * 32 + lane) * S::ROWS;
            if constexpr (S::ROWS > 1) turn_words(row[i]);
#pragma unroll
            for (int j = 0; j < S::ROWS; j++)
                tile[cell_of<T>(x + j, at / S::PARTS)] = row[i][j];
        }
    }
    __syncthreads();

    out += t.to + t.y;
#pragma unroll 2
    for (int x = warp; x < S::X; x += WARPS)
        if (t.x + x < p.x.n) {
            T *const first = out + row_x(rows, p, t, x);
            const int at = back - (int)((uintptr_t)(first + back) % 32 / sizeof(T));
            if constexpr (sizeof(T) < 4)
                store_bytes(first + at, tile, x, at, S::Y - back, there, lane);
            else store_row(first + at, tile, x, at, S::Y - back, there, lane);
        }
}

template <typename T>
static gop_status shifted(gop_ctx *ctx, const gop_task *task, const gop_permutation &g)
{
    typedef shifted_tile<T> S;
    tiling p;
    T *const out = (T *)task->out[0].data;
    const T *const in = (const T *)task->in[0].data;
    GOP_TRY(transpose_tiling("shifted", g, S::X, S::Y, 0, task->tune[0], &p));
    if (p.tiles == 0) return GOP_OK;
    int64_t places = 0; /* where rows of the output start, in items */
    for (int k = 0; k < p.x.rank; k++) places |= p.x.stride[k];
    for (int k = 0; k < p.batch_rank; k++) places |= p.out[k];
    const bool is_aligned = places % S::SECTOR == 0 && (uintptr_t)out % 32 == 0;
    const int back = is_aligned ? 0 : S::SECTOR;
    if (back)
        GOP_TRY(transpose_tiling("shifted", g, S::X, S::Y - back, back - 1, task->tune[0], &p));
    const dim3 grid((unsigned)p.tiles);
    const size_t bytes = S::X * S::Y * sizeof(T);
    if (p.x.rank == 1 && p.y.rank == 1)
        return GOP_LAUNCH(ctx, (transpose_shifted_kernel<T, false>), grid, THREADS, bytes, out,
                          in, p, back);
    return GOP_LAUNCH(ctx, (transpose_shifted_kernel<T, true>), grid, THREADS, bytes, out, in,
                      p, back);
}

gop_status transpose_shifted(gop_ctx *ctx, const gop_task *task, int64_t)
{
    gop_permutation g = task->geometry.permutation;
    const int item = transpose_widen(task, &g);
    TRANSPOSE_BY_ITEM(item, shifted, ctx, task, g);
}

/* Both ways to lay tiles: what is chosen here must not be refused there. */
template <typename T> static gop_status fits(const gop_permutation &g, tiling *p)
{
    typedef shifted_tile<T> S;
    GOP_TRY(transpose_tiling("shifted", g, S::X, S::Y, 0, 1, p));
    return transpose_tiling("shifted", g, S::X, S::Y - S::SECTOR, S::SECTOR, 1, p);
}

static gop_status fits_shifted(int item, const gop_permutation &g, tiling *p)
{
    TRANSPOSE_BY_ITEM(item, fits, g, p);
}

gop_status transpose_takes_shifted(const gop_ctx *ctx, const gop_task *task)
{
    tiling p;
    gop_permutation g = task->geometry.permutation;
    const int item = transpose_widen(task, &g);
    GOP_TRY(fits_shifted(item, g, &p));
    /* Sub-words cost a shift each here; vectorized turns them in registers, 16 bytes at a
     * time. */
    if (item >= 4 || transpose_takes_vectors(ctx, task) != GOP_OK) return GOP_OK;
    return gop_fail(
        GOP_REFUSED,
        "transpose: the shifted kernel leaves %d-byte items whose rows start and end "
        "at multiples of 16 bytes to the vectorized kernel",
        item);
}
