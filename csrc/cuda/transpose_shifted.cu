/*
 * transpose_shifted.cu - the transpose row for rows that start at any item.
 *
 * Where the pitch is odd, 16 bytes of a row have no address to be read from. A warp then reads
 * a row in neighbouring items of 4 bytes or more; of smaller items it reads the aligned words
 * that hold them and shifts pairs of words into place, on the way out likewise.
 */
#include "cuda/transpose.h"

enum { THREADS = 256, WARPS = THREADS / 32 };

template <typename T> struct shifted_tile {
    enum {
        SIDE = sizeof(T) <= 2   ? 128
               : sizeof(T) <= 8 ? 64
                                : 32,
        ROWS = sizeof(T) < 4 ? 4 / (int)sizeof(T) : 1, /* that make a cell */
        CELLS = SIDE / ROWS,                           /* of a row */
        PARTS = CELLS / 32,                            /* of a row: a warp moves one */
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

/* ---- a row of the tile to any address ---- */

/* Where the cell of column `at` in row x lies. A warp writes one column of 32 neighbouring
 * x / ROWS and reads 32 columns of one x: XOR of the two makes both 32 different banks. */
template <typename T> GOP_DEVICE int cell_of(int x, int at)
{
    typedef shifted_tile<T> S;
    return x * S::CELLS + (at ^ (x / S::ROWS % 32));
}

template <typename T, typename C>
GOP_DEVICE void store_items(T *to, const C *tile, int x, int64_t left, int lane)
{
#pragma unroll
    for (int i = lane; i < shifted_tile<T>::CELLS; i += 32)
        if (i < left) to[i] = tile[cell_of<T>(x, i)];
}

/* The words that lie in the row whole; then its first and last bytes, which are less than a
 * word each. */
template <typename T>
GOP_DEVICE void store_words(T *to, const uint32_t *tile, int x, int64_t left, int lane)
{
    typedef shifted_tile<T> S;
    const int shift = (int)((uintptr_t)to & 3);
    const int bytes = (int)(left < S::SIDE ? left : S::SIDE) * (int)sizeof(T);
    uint8_t *const row = reinterpret_cast<uint8_t *>(to);
    uint32_t *const words = reinterpret_cast<uint32_t *>(row - shift);
#pragma unroll
    for (int i = lane; i < S::CELLS; i += 32) {
        if (4 * i < shift || 4 * i - shift + 4 > bytes) continue;
        const uint32_t high = tile[cell_of<T>(x, i)];
        const uint32_t low = shift ? tile[cell_of<T>(x, i - 1)] : 0;
        words[i] = shift ? (uint32_t)(((uint64_t)high << 32 | low) >> (32 - 8 * shift)) : high;
    }
    const int head = shift ? 4 - shift : 0, tail = (bytes + shift) / 4 * 4 - shift;
    const int byte = lane < 4 ? lane : tail + lane - 4;
    if (lane < 4 ? byte < head && byte < bytes : lane < 8 && byte >= head && byte < bytes)
        row[byte] = (uint8_t)(tile[cell_of<T>(x, byte / 4)] >> 8 * (byte % 4));
}

template <typename T, bool JOINED> __global__ void __launch_bounds__(THREADS)
    transpose_shifted_kernel(T *out, const T *in, tiling p)
{
    typedef shifted_tile<T> S;
    typedef typename cell<T>::type C;
    __shared__ C tile[S::SIDE * S::CELLS];
    __shared__ tile_rows<S::SIDE, JOINED> rows;
    const tile_at t = place_tile(p, S::SIDE, S::SIDE);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
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
                if (t.y + y + j < p.y.n)
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
#pragma unroll 4
    for (int x = warp; x < S::SIDE; x += WARPS)
        if (t.x + x < p.x.n) {
            T *const to = out + row_x(rows, p, t, x);
            if constexpr (sizeof(T) < 4) store_words(to, tile, x, p.y.n - t.y, lane);
            else store_items(to, tile, x, p.y.n - t.y, lane);
        }
}

template <typename T>
static gop_status shifted(gop_ctx *ctx, const gop_task *task, const tiling &p)
{
    if (p.tiles == 0) return GOP_OK;
    const dim3 grid((unsigned)p.tiles);
    T *const out = (T *)task->out[0].data;
    const T *const in = (const T *)task->in[0].data;
    if (p.x.rank == 1 && p.y.rank == 1)
        return GOP_LAUNCH(ctx, (transpose_shifted_kernel<T, false>), grid, THREADS, 0, out, in,
                          p);
    return GOP_LAUNCH(ctx, (transpose_shifted_kernel<T, true>), grid, THREADS, 0, out, in, p);
}

static gop_status plan_shifted(const gop_task *task, int64_t rows, tiling *p, int *item)
{
    gop_permutation g = task->geometry.permutation;
    *item = transpose_widen(task, &g);
    const int side = *item <= 2 ? 128 : *item <= 8 ? 64 : 32;
    return transpose_tiling("shifted", g, side, side, rows, p);
}

gop_status transpose_shifted(gop_ctx *ctx, const gop_task *task, int64_t)
{
    tiling p;
    int item;
    GOP_TRY(plan_shifted(task, task->tune[0], &p, &item));
    switch (item) {
    case 1:
        return shifted<uint8_t>(ctx, task, p);
    case 2:
        return shifted<uint16_t>(ctx, task, p);
    case 4:
        return shifted<uint32_t>(ctx, task, p);
    case 8:
        return shifted<uint64_t>(ctx, task, p);
    default:
        return shifted<complex128>(ctx, task, p);
    }
}

gop_status transpose_takes_shifted(const gop_ctx *ctx, const gop_task *task)
{
    tiling p;
    int item;
    GOP_TRY(plan_shifted(task, 1, &p, &item));
    /* Sub-words cost a shift each here; vectorized turns them in registers, 16 bytes at a time.
     */
    if (item >= 4 || transpose_takes_vectors(ctx, task) != GOP_OK) return GOP_OK;
    return gop_fail(
        GOP_REFUSED,
        "transpose: the shifted kernel leaves %d-byte items whose rows start and end "
        "at multiples of 16 bytes to the vectorized kernel",
        item);
}
