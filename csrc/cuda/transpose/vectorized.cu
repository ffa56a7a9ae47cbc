/*
 * vectorized.cu - transpose with accesses of 16 bytes only, to global and to shared memory.
 *
 * 16 bytes are N items along x. A thread reads them from N rows and transposes the N by N
 * square in registers, by a few byte permutations or by mere renaming, and so has N times 16
 * bytes along y. Shared memory only reorders whole squares.
 */
#include "cuda/transpose/tiling.h"
#include "cuda/transpose/turn.h"

/* The most threads that every SM of the generation holds. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
static constexpr int HELD = 1024;
#else
static constexpr int HELD = 1536;
#endif

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
        /* The fewest resident blocks per SM: small items need many registers. */
        WANTED = sizeof(T) == 1   ? 3
                 : sizeof(T) == 2 ? 5
                                  : 1,
        BLOCKS = WANTED * THREADS <= HELD ? WANTED : HELD / THREADS,
    };
    static_assert(UNITS * THREADS == ACROSS * ALONG, "every thread has as many squares");
    static_assert(ALONG % 8 == 0, "a row of 128 bytes or more fills all banks");
};

/* All loads of the thread are issued before any result is used. AHEAD: each prefetches the 256
 * bytes around it, which another block loads soon. */
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

    grid_dependency_sync();
    square<T> s[V::UNITS];
    in += t.from + t.x;
    if (ahead) load_squares<V, true>(s, in, p, t, rows, nx, ny);
    else load_squares<V, false>(s, in, p, t, rows, nx, ny);

        /* turn */
#pragma unroll
    for (int unit = 0; unit < V::UNITS; unit++) {
        const int at = threadIdx.x + unit * THREADS;
        const int across = at % V::ACROSS, along = at / V::ACROSS;
        const columns<T, V::N> v = turned(s[unit]);
#pragma unroll
        for (int k = 0; k < V::N; k++) {
            uint4 row;
            __builtin_memcpy(&row, v.at[k].word, 16);
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

struct vectorized_plan {
    tiling_plan tiles;
    bool ahead;
};

template <typename T, int SIDE, int THREADS, bool JOINED>
static gop_status transpose_vectorized(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const vectorized_plan &v = *GOP_OWN(const vectorized_plan, task->plan);
    return GOP_LAUNCH_FIRST(ctx, task, 0,
                            (transpose_vectorized_kernel<T, SIDE, SIDE, THREADS, JOINED>),
                            dim3((unsigned)v.tiles.all.tiles), THREADS, SIDE * SIDE * sizeof(T),
                            (T *)task->out[0].data, (const T *)task->in[0].data,
                            tiling_of<JOINED>(v.tiles), v.ahead);
}

/* The tiles: bytes of an item, items on a side, and the launches for runs that are single axes
 * and for joined ones. */
/* clang-format off */
#define TILE(T, side, threads) \
    {sizeof(T), side, transpose_vectorized<T, side, threads, false>, \
     transpose_vectorized<T, side, threads, true>}
/* clang-format on */
static const struct {
    int item, side;
    gop_launch single, joined;
} tiles[] = {
    TILE(uint8_t, 128, 64),    TILE(uint8_t, 256, 256), TILE(uint16_t, 64, 64),
    TILE(uint16_t, 128, 256),  TILE(uint32_t, 32, 64),  TILE(uint32_t, 64, 256),
    TILE(uint32_t, 128, 512),  TILE(uint64_t, 32, 256), TILE(uint64_t, 64, 512),
    TILE(complex128, 32, 512),
};

static gop_status plan_tiles(const gop_permutation &g, int item, int side, gop_plan *plan)
{
    vectorized_plan &v = *GOP_OWN(vectorized_plan, plan);
    for (const auto &tile : tiles) {
        if (tile.item != item || tile.side != side) continue;
        GOP_TRY(transpose_tiling("vectorized", g, side, side, 0, &v.tiles));
        plan->launch = v.tiles.is_brief ? tile.single : tile.joined;
        plan->cost = transpose_filled(g, v.tiles, side, side);
        return GOP_OK;
    }
    return gop_fail(
        GOP_REFUSED,
        "transpose: the vectorized kernel has no tiles of %d items of %d bytes on a side", side,
        item);
}

/* Unless a side was given, runs may be shorter than the tile, but must fill half of it. */
static gop_status transpose_vectorized_plan(const gop_ctx *, const gop_task *task,
                                            gop_plan *plan)
{
    gop_permutation g = task->geometry.permutation;
    vectorized_plan &v = *GOP_OWN(vectorized_plan, plan);
    const int item = transpose_widen(task, &g), asked = (int)task->tune[0];
    const int side = item == 1 ? 256 : item == 2 ? 128 : item == 4 ? 64 : 32;
    gop_status status = plan_tiles(g, item, asked ? asked : side, plan);
    if (status == GOP_REFUSED && !asked && side > 32)
        status = plan_tiles(g, item, side / 2, plan);
    GOP_TRY(status);
    const tiling &p = v.tiles.all;
    v.ahead =
        (transpose_offsets_in(p) * item | (int64_t)(uintptr_t)task->in[0].data) % 256 != 0;
    return transpose_rows_of_16("vectorized", task, p, item);
}

extern const gop_row transpose_vectorized_row = {
    .name = "vectorized",
    .note = "16 bytes an access in memory and in shared memory: a thread turns a square "
            "of items in registers",
    .role = GOP_CONFORMING,
    .tunables = {{"side", 5, {0, 32, 64, 128, 256}}}, /* items along a tile; 0: by their size */
    .plan = transpose_vectorized_plan,
    .dtypes = GOP_EVERY_DTYPE,
    .before = "bulk",
};
