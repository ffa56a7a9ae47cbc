/*
 * shifted.cu - transpose of items of 1 and 2 bytes in unaligned rows.
 *
 * Item by item there would be too many accesses. 16 unaligned bytes lie in two aligned pieces
 * of 16: a thread reads one, the next thread has the other, and they are shifted into place in
 * registers.
 *
 * Rows of the output are moved back to their sector, as in sectored.
 */
#include "cuda/transpose/split.h"
#include "cuda/transpose/tiling.h"
#include "cuda/transpose/turn.h"

/* LANES threads side by side read as many pieces of each of ROWS rows, and have all but the
 * last thread's items of them; if FULL they read the piece behind those too, and have all. Y
 * rows are read, and Y - SECTOR items along y are written. */
template <typename T, bool IS_FULL> struct shifted_tile {
    enum {
        FULL = IS_FULL,
        N = 16 / (int)sizeof(T), /* items of a piece */
        LANES = 8 * (int)sizeof(T),
        X = (LANES - !FULL) * N,
        Y = 256 / (int)sizeof(T),
        ROWS = 8,
        BEHIND = FULL ? 1 : 0, /* pieces of a thread that lie behind a row */
        PARTS = N / ROWS,      /* of a piece along y */
        THREADS = LANES * (Y / ROWS),
        BLOCKS = 4, /* of an SM, at least */
        SECTOR = 32 / (int)sizeof(T),
        ALONG = Y / N,             /* pieces of a row of the output, */
        PIECES = (Y - SECTOR) / N, /* which are written */
        STEP = THREADS / ALONG,    /* rows that are written at once */
        /* FULL tiles are faster once the others need this many tiles, in percent. */
        MANY = sizeof(T) == 1 ? 125 : 150,
    };
    static_assert((int)ROWS <= (int)LANES, "each row's piece behind is some lane's");
};

/* ---- shifted ----
 * Rows of N items are turned in registers, as in vectorized. A row of the tile in shared memory
 * is one x, and its pieces are XORed so that what is stored at once, of
 * rows N apart, lies in different banks. */

template <typename S> GOP_DEVICE int piece_at(uint32_t x, int along)
{
    return x * S::ALONG + (along ^ x / S::N % 8);
}

/* Where the rows of a tile lie on the side where they lie apart, if runs join axes. */
template <typename S, bool JOINED> struct shifted_rows {
    int64_t x[JOINED ? S::X : 1], y[JOINED ? S::Y : 1];
};

/* The part of a tile that exists: x < nx and y0 <= y < ny. */
struct extents {
    int nx, y0, ny;
};

/* The i-th piece of a row of so many bytes, or its last. */
GOP_DEVICE const uint4 *piece_of(const char *row, int bytes, int i)
{
    const int shift = (int)((uintptr_t)row % 16), last = (shift + bytes - 1) / 16;
    return reinterpret_cast<const uint4 *>(row - shift) + min(i, last);
}

GOP_DEVICE bool is_in(const uint4 *piece, pieces whole)
{
    return piece >= whole.first && piece < whole.end;
}

/* The words of the k-th row that follow `mine`: the next lane's, and for the last lane those
 * behind the row, which lane k has. */
template <typename S> GOP_DEVICE uint32_t next_word(uint32_t mine, uint32_t behind, int k)
{
    const uint32_t near = __shfl_down_sync(~0u, mine, 1, S::LANES);
    if (!S::FULL) return near;
    const uint32_t far = __shfl_sync(~0u, behind, k, S::LANES);
    return threadIdx.x % S::LANES == S::LANES - 1 ? far : near;
}
template <typename S> GOP_DEVICE uint4 next_piece(uint4 mine, uint4 behind, int k)
{
    return make_uint4(next_word<S>(mine.x, behind.x, k), next_word<S>(mine.y, behind.y, k),
                      next_word<S>(mine.z, behind.z, k), next_word<S>(mine.w, behind.w, k));
}

/* Rows that do not exist are read as the nearest one, and the pieces around a row are read with
 * it: so no load waits for a branch, except at the ends of the input. The piece behind the k-th
 * row is the k-th lane's. */
template <typename T, typename S, bool JOINED>
GOP_DEVICE void shifted_load(uint4 *tile, const T *in, const tiling_for<JOINED> &p,
                             const shifted_rows<S, JOINED> &rows, extents n, pieces whole)
{
    const int across = threadIdx.x % S::LANES, part = threadIdx.x / S::LANES % S::PARTS;
    const int along = threadIdx.x / S::LANES / S::PARTS, y = along * S::N + part * S::ROWS;
    const int bytes = n.nx * (int)sizeof(T);
    if (!__any_sync(~0u, along * S::N < n.ny && (along + 1) * S::N > n.y0)) return;
    const auto row_at = [&](int k) {
        const int there = max(n.y0, min(y + k, n.ny - 1));
        return reinterpret_cast<const char *>(in +
                                              (JOINED ? rows.y[there] : there * p.y.stride[0]));
    };
    const uint4 *at[S::ROWS + S::BEHIND];
    int shift[S::ROWS];
    bool is_inside = true;
#pragma unroll
    for (int k = 0; k < S::ROWS; k++) {
        const char *const row = row_at(k);
        shift[k] = (int)((uintptr_t)row % 16);
        at[k] = piece_of(row, bytes, across);
        if (JOINED || k == 0 || k == S::ROWS - 1) /* of a single axis the ends say all */
            is_inside = is_inside && is_in(at[k], whole);
    }
#pragma unroll
    for (int j = 0; j < S::BEHIND; j++) {
        at[S::ROWS + j] = piece_of(row_at(across % S::ROWS), bytes, S::LANES);
        is_inside = is_inside && is_in(at[S::ROWS + j], whole);
    }
    uint4 w[S::ROWS + S::BEHIND];
    if (is_inside) {
#pragma unroll
        for (int k = 0; k < S::ROWS + S::BEHIND; k++) w[k] = load_ahead(at[k]);
    } else {
#pragma unroll
        for (int k = 0; k < S::ROWS + S::BEHIND; k++) {
            const char *const row = row_at(k < S::ROWS ? k : across % S::ROWS);
            const int first = (int)(row - (const char *)at[k]); /* where the row begins */
            w[k] = is_in(at[k], whole) ? *at[k]
                                       : load_bytes((const uint8_t *)at[k], max(first, 0),
                                                    min(first + bytes, 16));
        }
    }
    square<T, S::ROWS> s;
#pragma unroll
    for (int k = 0; k < S::ROWS; k++) {
        const uint4 next = next_piece<S>(w[k], w[S::FULL ? S::ROWS : 0], k);
        const uint4 v = window(w[k], next, shift[k]);
        __builtin_memcpy(s.word[k], &v, 16);
    }
    if (across * S::N >= n.nx || across * S::N >= S::X) return;
    const columns<T, S::ROWS> c = turned(s);
    column<T, S::ROWS> *const to =
        reinterpret_cast<column<T, S::ROWS> *>(tile + piece_at<S>(across * S::N, along));
#pragma unroll
    for (int k = 0; k < S::N; k++) to[k * (S::Y / S::ROWS) + part] = c.at[k];
}

/* Where the pieces of a row begin that is written at `row`: at a sector. */
template <typename S, typename T> GOP_DEVICE int first_piece(const T *row)
{
    return S::SECTOR - (int)((uintptr_t)(row + S::SECTOR) % 32 / sizeof(T));
}

/* Stores the pieces that are whole; WHOLE: all are. */
template <typename T, typename S, bool JOINED, bool WHOLE>
GOP_DEVICE void shifted_store(T *out, const uint4 *tile, const tiling_for<JOINED> &p,
                              const shifted_rows<S, JOINED> &rows, extents n)
{
    const int first = threadIdx.x / S::ALONG, piece = threadIdx.x % S::ALONG;
    if (piece >= S::PIECES) return;
#pragma unroll(WHOLE ? 2 : 1)
    for (int x = first; x < (WHOLE ? (int)S::X : n.nx); x += S::STEP) {
        T *const row = out + (JOINED ? rows.x[x] : x * p.x.stride[0]);
        const int y = first_piece<S>(row) + piece * S::N;
        if (!WHOLE && (y < n.y0 || y + S::N > n.ny)) continue;
        const int along = y / S::N, shift = y % S::N * (int)sizeof(T);
        *reinterpret_cast<uint4 *>(row + y) = window(
            tile[piece_at<S>(x, along)], tile[piece_at<S>(x, along + (shift > 0))], shift);
    }
}

/* Stores one P of a piece that goes in parts; updates what is left of it. */
template <typename P> GOP_DEVICE void store_part(char *&to, uint4 &v, int &left)
{
    enum { BYTES = sizeof(P) };
    *reinterpret_cast<P *>(to) = (P)((uint64_t)v.y << 32 | v.x);
    to += BYTES, left -= BYTES;
    if constexpr (BYTES == 8) v = make_uint4(v.z, v.w, 0, 0);
    else if constexpr (BYTES == 4) v = make_uint4(v.y, v.z, v.w, 0);
    else v = window(v, make_uint4(0, 0, 0, 0), BYTES);
}

/* The first so many bytes of v, within a piece. */
template <typename T> GOP_DEVICE void store_parts(char *to, uint4 v, int left)
{
    const auto is_at = [&](int odd) { return ((uintptr_t)to & odd) != 0 && left >= odd; };
    if (sizeof(T) == 1 && is_at(1)) store_part<uint8_t>(to, v, left);
    if (is_at(2)) store_part<uint16_t>(to, v, left);
    if (is_at(4)) store_part<uint32_t>(to, v, left);
    if (left >= 8) store_part<uint64_t>(to, v, left);
    if (left >= 4) store_part<uint32_t>(to, v, left);
    if (left >= 2) store_part<uint16_t>(to, v, left);
    if (sizeof(T) == 1 && left > 0) store_part<uint8_t>(to, v, left);
}

/* The parts of pieces at which the output's rows begin, and end: one to a thread, rows of N
 * apart beside each other. */
template <typename T, typename S, bool JOINED>
GOP_DEVICE void shifted_ends(T *out, const uint4 *tile, const tiling_for<JOINED> &p,
                             const shifted_rows<S, JOINED> &rows, extents n)
{
    enum { ACROSS = S::X / S::N };
#pragma unroll 1
    for (int i = threadIdx.x; i < 2 * S::X; i += S::THREADS) {
        const int k = i / 2, x = k % ACROSS * S::N + k / ACROSS;
        if (x >= n.nx) continue;
        T *const row = out + (JOINED ? rows.x[x] : x * p.x.stride[0]);
        const int first = first_piece<S>(row), behind = first + S::PIECES * S::N;
        const int begin = max(first, n.y0), end = min(behind, n.ny);
        const int begins = first + (begin - first) / S::N * S::N, /* the pieces of both */
            ends = first + (end - first) / S::N * S::N;
        const bool is_part = begin > begins;
        int y = is_part ? begin : end, last = min(begins + S::N, end);
        if (i % 2) y = is_part && ends == begins ? end : max(ends, begin), last = end;
        if (y >= last) continue;
        const int along = y / S::N, shift = y % S::N * (int)sizeof(T);
        const int bytes = (last - y) * (int)sizeof(T), next = along + (shift + bytes > 16);
        store_parts<T>(reinterpret_cast<char *>(row + y),
                       window(tile[piece_at<S>(x, along)], tile[piece_at<S>(x, next)], shift),
                       bytes);
    }
}

template <typename T, typename S, bool JOINED>
__global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    transpose_shifted_kernel(T *out, const T *in, const __grid_constant__ tiling_for<JOINED> p,
                             pieces whole)
{
    __shared__ uint4 tile[S::X * S::ALONG];
    __shared__ shifted_rows<S, JOINED> rows;
    tile_at t = place_tile(p, S::X, S::Y - S::SECTOR);
    t.y -= S::SECTOR; /* the first column of the tile; y < 0 is not there */
    const extents n = {(int)min_of(p.x.n - t.x, S::X), t.y < 0 ? (int)-t.y : 0,
                       (int)min_of(p.y.n - t.y, S::Y)};
    const bool has_ends = n.y0 > 0 || n.ny < S::Y;
    in += t.from + t.x;
    out += t.to + t.y;
    if constexpr (JOINED) {
        for (int i = threadIdx.x; i < S::X + S::Y; i += S::THREADS)
            if (i < S::Y) rows.y[i] = run_offset(p.y, t.y + i);
            else rows.x[i - S::Y] = run_offset(p.x, t.x + i - S::Y);
        __syncthreads();
    } else {
        in += t.y * p.y.stride[0];
        out += t.x * p.x.stride[0];
    }

    grid_dependency_sync();
    shifted_load<T, S, JOINED>(tile, in, p, rows, n, whole);
    __syncthreads();

    if (has_ends) shifted_ends<T, S, JOINED>(out, tile, p, rows, n);
    if (!has_ends && n.nx == S::X) shifted_store<T, S, JOINED, true>(out, tile, p, rows, n);
    else shifted_store<T, S, JOINED, false>(out, tile, p, rows, n);
}

template <typename T, typename S, bool JOINED>
static gop_status transpose_shifted(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const tiling_plan &t = *GOP_OWN(const tiling_plan, task->plan);
    return GOP_LAUNCH_FIRST(ctx, task, 0, (transpose_shifted_kernel<T, S, JOINED>),
                            dim3((unsigned)t.all.tiles), S::THREADS, 0, (T *)task->out[0].data,
                            (const T *)task->in[0].data, tiling_of<JOINED>(t), pieces_of(task));
}

template <typename T, typename S>
static gop_status plan_tile(const gop_permutation &g, gop_plan *plan)
{
    tiling_plan &t = *GOP_OWN(tiling_plan, plan);
    GOP_TRY(transpose_tiling("shifted", g, S::X, S::Y - S::SECTOR, S::SECTOR - 1, &t));
    /* Computed places let all loads of a thread follow each other at once. For 2-byte items
     * that is slower, so they always use the tables. */
    plan->launch = transpose_shifted<T, S, true>;
    if constexpr (sizeof(T) == 1)
        if (t.is_brief) plan->launch = transpose_shifted<T, S, false>;
    /* with the sector by which tiles overlap */
    plan->cost = transpose_filled(g, t, S::X, S::Y);
    return GOP_OK;
}

template <typename T> static gop_status plan_shifted(const gop_permutation &g, gop_plan *plan)
{
    typedef shifted_tile<T, true> full;
    typedef shifted_tile<T, false> some;
    GOP_TRY((plan_tile<T, some>(g, plan)));
    const int64_t x = GOP_OWN(tiling_plan, plan)->all.x.n;
    if (100 * blocks_for(x, some::X) >= full::MANY * blocks_for(x, full::X))
        return plan_tile<T, full>(g, plan);
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
    return item == 1 ? plan_shifted<uint8_t>(g, plan) : plan_shifted<uint16_t>(g, plan);
}

extern const gop_row transpose_shifted_row = {
    .name = "shifted",
    .note = "the same of small items: 16 bytes at any address, shifted into place from "
            "two aligned pieces",
    .role = GOP_CONFORMING,
    .plan = transpose_shifted_plan,
    .dtypes = TRANSPOSE_SMALL,
};
