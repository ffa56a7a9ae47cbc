/*
 * transpose_vectorized.cu - the transpose row whose every access, of memory and of shared
 * memory, is of 16 bytes.
 *
 * 16 bytes are N items along x. A thread reads them from N rows, turns the N by N square in
 * registers, where it costs a few permutations of bytes or nothing but names, and so has N
 * times 16 bytes along y. All that is left for shared memory is to bring squares that lie side
 * by side along x together with those that lie side by side along y.
 */
#include "cuda/transpose.h"

/* A block of so many threads moves a tile of X by Y items. */
template <typename T, int X, int Y, int BLOCK, bool IS_JOINED> struct vector_tile {
    enum {
        THREADS = BLOCK,
        JOINED = IS_JOINED,
        N = 16 / (int)sizeof(T),
        ACROSS = X / N, /* squares */
        ALONG = Y / N,
        UNITS = ACROSS * ALONG / THREADS, /* squares of a thread */
        STEP = THREADS / ALONG,           /* rows that are written at once */
        ROWS = X > Y ? X : Y,
        /* Of a processor, at least: squares of small items leave few registers for more. */
        BLOCKS = sizeof(T) == 1   ? 3
                 : sizeof(T) == 2 ? 5
                                  : 1,
    };
    static_assert(UNITS * THREADS == ACROSS * ALONG, "every thread has as many squares");
    static_assert(ALONG % 8 == 0, "a row of 128 bytes or more fills all banks");
};

/* All that the thread will move is asked for before any of it is used. AHEAD: with what follows
 * or goes before up to 256 bytes, which another block asks for soon. */
template <typename V, bool AHEAD, typename T, typename TILING, typename ROWS>
GOP_DEVICE void load_squares(square<T> *s, const T *in, const TILING &p, const tile_at &t,
                             const ROWS &rows, int nx, int ny)
{
#pragma unroll
    for (int unit = 0; unit < V::UNITS; unit++) {
        const int at = threadIdx.x + unit * V::THREADS;
        const int x = at % V::ACROSS * V::N, y = at / V::ACROSS * V::N;
        const T *from = V::JOINED ? in : in + x + row_y(rows, p, t, y);
#pragma unroll
        for (int k = 0; k < V::N; k++) {
            uint4 row = make_uint4(0, 0, 0, 0);
            if (V::JOINED) from = in + x + row_y(rows, p, t, y + k);
            const uint4 *const piece = reinterpret_cast<const uint4 *>(from);
            if (x < nx && y < ny) row = AHEAD ? load_ahead(piece) : *piece;
            from += p.y.stride[0]; /* a sum for each row, not a product */
            __builtin_memcpy(s[unit].word[k], &row, 16);
        }
    }
}

/* A row of the tile in shared memory is one x and ALONG pieces of 16 bytes along y. The 8
 * threads that write together have neighbouring x, N rows apart and so in the same banks: the
 * piece is XORed with the number of the square. The 8 that read together read one row, whose
 * pieces fill all banks in any order. */
template <typename T, int X, int Y, int THREADS, bool JOINED>
__global__ void __launch_bounds__(THREADS, vector_tile<T, X, Y, THREADS, JOINED>::BLOCKS)
    transpose_vectorized_kernel(T *out, const T *in,
                                const __grid_constant__ tiling_for<JOINED> p, bool ahead)
{
    typedef vector_tile<T, X, Y, THREADS, JOINED> V;
    extern __shared__ uint4 tile[];
    __shared__ tile_rows<V::ROWS, JOINED> rows;
    const tile_at t = place_tile(p, X, Y);
    const int nx = (int)min_of(p.x.n - t.x, X), ny = (int)min_of(p.y.n - t.y, Y);
    place_rows(rows, p, t);

    square<T> s[V::UNITS];
    in += t.from + t.x;
    if (ahead) load_squares<V, true>(s, in, p, t, rows, nx, ny);
    else load_squares<V, false>(s, in, p, t, rows, nx, ny);

        /* turn */
#pragma unroll
    for (int unit = 0; unit < V::UNITS; unit++) {
        const int at = threadIdx.x + unit * THREADS;
        const int across = at % V::ACROSS, along = at / V::ACROSS;
        const square<T> v = turned(s[unit]);
#pragma unroll
        for (int k = 0; k < V::N; k++) {
            uint4 row;
            __builtin_memcpy(&row, v.word[k], 16);
            tile[(across * V::N + k) * V::ALONG + (along ^ across % 8)] = row;
        }
    }
    __syncthreads();

    /* store */
    const int first = threadIdx.x / V::ALONG, along = threadIdx.x % V::ALONG;
    out += t.to + t.y + along * V::N;
    T *to = out + row_x(rows, p, t, first);
    if (along * V::N >= ny) return;
#pragma unroll
    for (int i = 0; i < X / V::STEP; i++) {
        const int x = first + i * V::STEP;
        if (JOINED) to = out + row_x(rows, p, t, x);
        if (x < nx)
            *reinterpret_cast<uint4 *>(to) = tile[x * V::ALONG + (along ^ x / V::N % 8)];
        to += V::STEP * p.x.stride[0];
    }
}

static int whole_side(int item)
{
    return item == 1 ? 256 : item == 2 ? 128 : item == 4 ? 64 : 32;
}

/* The runs may be too short for the whole tile and fill half of it. */
static gop_status plan_vectors(const gop_task *task, int64_t asked, tiling *p, int *item,
                               int *side)
{
    gop_permutation g = task->geometry.permutation;
    *item = transpose_widen(task, &g);
    *side = asked ? (int)asked : whole_side(*item);
    gop_status status = transpose_tiling("vectorized", g, *side, *side, 0, p);
    if (status == GOP_REFUSED && !asked && *side > 32) {
        *side /= 2;
        status = transpose_tiling("vectorized", g, *side, *side, 0, p);
    }
    return status;
}

template <typename T, int SIDE, int THREADS>
static gop_status vectorized(gop_ctx *ctx, const gop_task *task, const tiling &p)
{
    if (p.tiles == 0) return GOP_OK;
    const dim3 grid((unsigned)p.tiles);
    const size_t bytes = SIDE * SIDE * sizeof(T);
    T *const out = (T *)task->out[0].data;
    const T *const in = (const T *)task->in[0].data;
    const int64_t places =
        transpose_offsets_in(p) * (int64_t)sizeof(T) | (int64_t)(uintptr_t)in;
    const bool ahead = places % 256 != 0;
    brief_tiling brief;
    if (transpose_is_brief(p, &brief))
        return GOP_LAUNCH(ctx, (transpose_vectorized_kernel<T, SIDE, SIDE, THREADS, false>),
                          grid, THREADS, bytes, out, in, brief, ahead);
    return GOP_LAUNCH(ctx, (transpose_vectorized_kernel<T, SIDE, SIDE, THREADS, true>), grid,
                      THREADS, bytes, out, in, p, ahead);
}

gop_status transpose_vectorized(gop_ctx *ctx, const gop_task *task, int64_t)
{
    tiling p;
    int item, side;
    GOP_TRY(plan_vectors(task, task->tune[0], &p, &item, &side));
    switch (1000 * item + side) {
    case 1128:
        return vectorized<uint8_t, 128, 64>(ctx, task, p);
    case 1256:
        return vectorized<uint8_t, 256, 256>(ctx, task, p);
    case 2064:
        return vectorized<uint16_t, 64, 64>(ctx, task, p);
    case 2128:
        return vectorized<uint16_t, 128, 256>(ctx, task, p);
    case 4032:
        return vectorized<uint32_t, 32, 64>(ctx, task, p);
    case 4064:
        return vectorized<uint32_t, 64, 256>(ctx, task, p);
    case 4128:
        return vectorized<uint32_t, 128, 512>(ctx, task, p);
    case 8032:
        return vectorized<uint64_t, 32, 256>(ctx, task, p);
    case 8064:
        return vectorized<uint64_t, 64, 512>(ctx, task, p);
    case 16032:
        return vectorized<complex128, 32, 512>(ctx, task, p);
    default:
        return gop_fail(GOP_REFUSED,
                        "transpose: the vectorized kernel has no tiles of %d items of %d bytes "
                        "on a side",
                        side, item);
    }
}

gop_status transpose_takes_vectors(const gop_ctx *, const gop_task *task)
{
    tiling p;
    int item, side;
    GOP_TRY(plan_vectors(task, 0, &p, &item, &side));
    return transpose_rows_of_16("vectorized", task, p, item);
}
