/*
 * transpose.cu - the CUDA ladder of transpose: a permuted copy, by the size of an item.
 *
 * Floor: every item read once and written once. What makes it hard: a warp's access is cheap
 * when its 32 threads touch neighbours, and neighbours in the input are far apart in the
 * output. Of all axes only two matter: x, the input's fastest, and y, the output's fastest; the
 * others are a batch of such planes.
 */
#include "cuda/transpose.h"

enum {
    ROWS = 8,           /* warps of a block: they share the rows of a tile */
    THIN = 8,           /* planes with a side shorter than this leave most of a tile empty */
    MAX_GRID = 1 << 30, /* blocks of one launch */
};

/* Size and places of a plane's axes, in elements, and of the batch around it. */
struct planes {
    int64_t nx, ny, in_x, in_y, out_x, out_y;
    int64_t tiles_x, tiles_y, batches;
    int rank; /* of the batch */
    int64_t extent[GOP_MAX_NDIM], in[GOP_MAX_NDIM], out[GOP_MAX_NDIM];
};

/* ---- copy ----
 * The same bytes without the permutation: what a transpose could reach at best. */

template <typename T> __global__ void transpose_copy_kernel(T *out, const T *in, int64_t size)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) out[i] = in[i];
}

template <typename T>
static gop_status transpose_copy(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const int64_t size = task->geometry.permutation.size;
    if (size == 0) return GOP_OK;
    return GOP_LAUNCH(ctx, transpose_copy_kernel<T>, dim3((unsigned)blocks_for(size, 256)), 256,
                      0, (T *)task->out[0].data, (const T *)task->in[0].data, size);
}

static gop_status is_dense(const gop_ctx *, const gop_task *task)
{
    const gop_permutation &p = task->geometry.permutation;
    int64_t in = 1, out = 1; /* elements from the first to the last */
    for (int axis = 0; axis < p.rank; axis++) {
        if (p.in[axis] < 0 || p.out[axis] < 0) in = -1;
        in += (p.extent[axis] - 1) * p.in[axis];
        out += (p.extent[axis] - 1) * p.out[axis];
    }
    if (p.size == 0 || (in == p.size && out == p.size)) return GOP_OK;
    return gop_fail(GOP_REFUSED, "transpose: the copy kernel takes arrays without gaps, got "
                                 "strides that leave some");
}

/* ---- reads, naive ----
 * One element a thread. Neighbouring threads follow the axes in the order they are given: in
 * the input's order reads coalesce and every write is a memory transaction of its own; in the
 * output's order it is the other way round, which costs less, since reads are cached. */

template <typename T, typename I>
__global__ void transpose_naive_kernel(T *out, const T *in, gop_permutation p)
{
    const I i = (I)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (I)p.size) return;
    int64_t to, from;
    place(p, i, &to, &from);
    out[to] = in[from];
}

template <typename T>
static gop_status in_given_order(gop_ctx *ctx, const gop_task *task, const gop_permutation &p)
{
    T *const out = (T *)task->out[0].data;
    const T *const in = (const T *)task->in[0].data;
    if (p.size == 0) return GOP_OK;
    const dim3 grid((unsigned)blocks_for(p.size, 256));
    if (fits_32_bits(p.size))
        return GOP_LAUNCH(ctx, (transpose_naive_kernel<T, uint32_t>), grid, 256, 0, out, in, p);
    return GOP_LAUNCH(ctx, (transpose_naive_kernel<T, uint64_t>), grid, 256, 0, out, in, p);
}

template <typename T>
static gop_status transpose_reads(gop_ctx *ctx, const gop_task *task, int64_t)
{
    gop_permutation p = task->geometry.permutation;
    int64_t *const lists[] = {p.extent, p.in, p.out};
    for (int i = 1; i < p.rank; i++)
        for (int k = i; k > 0 && magnitude(p.in[k]) > magnitude(p.in[k - 1]); k--)
            for (int64_t *values : lists) {
                const int64_t value = values[k];
                values[k] = values[k - 1];
                values[k - 1] = value;
            }
    return in_given_order<T>(ctx, task, p);
}

template <typename T>
static gop_status transpose_naive(gop_ctx *ctx, const gop_task *task, int64_t)
{
    return in_given_order<T>(ctx, task, task->geometry.permutation);
}

/* ---- tiled ----
 * A block moves a tile through shared memory: its warps read rows along x and write columns
 * along y, so both sides coalesce. But the elements of a column lie 32 apart, in one bank of
 * shared memory, and the 32 threads that read it take turns. */

/* Where a block's tile starts; first is the number of blocks in the launches before. */
template <int SIDE, typename I> GOP_DEVICE void
tile_place(const planes &p, I first, int64_t *x, int64_t *y, int64_t *to, int64_t *from)
{
    const I tile = first + blockIdx.x;
    const I stripe = tile / (I)p.tiles_x;
    I batch = stripe / (I)p.tiles_y;
    *x = (int64_t)(tile - stripe * (I)p.tiles_x) * SIDE;
    *y = (int64_t)(stripe - batch * (I)p.tiles_y) * SIDE;
    *to = *from = 0;
    for (int axis = p.rank - 1; axis >= 0; axis--) {
        const I outer = batch / (I)p.extent[axis];
        const I at = batch - outer * (I)p.extent[axis];
        *to += (int64_t)at * p.out[axis];
        *from += (int64_t)at * p.in[axis];
        batch = outer;
    }
}

template <typename T, typename I>
__global__ void transpose_tiled_kernel(T *out, const T *in, planes p, I first)
{
    __shared__ T tile[32][32];
    int64_t x0, y0, to, from;
    tile_place<32>(p, first, &x0, &y0, &to, &from);

    const int64_t x = x0 + threadIdx.x;
    for (int j = threadIdx.y; j < 32; j += ROWS)
        if (x < p.nx && y0 + j < p.ny)
            tile[j][threadIdx.x] = in[from + x * p.in_x + (y0 + j) * p.in_y];
    __syncthreads();
    const int64_t y = y0 + threadIdx.x;
    for (int j = threadIdx.y; j < 32; j += ROWS)
        if (x0 + j < p.nx && y < p.ny)
            out[to + (x0 + j) * p.out_x + y * p.out_y] = tile[threadIdx.x][j];
}

/* Fills the planes; false where the fastest axis is the same on both sides. */
static bool find_planes(const gop_permutation &g, int side, planes *p)
{
    const int y = g.rank - 1;
    int x = y;
    for (int axis = y; axis >= 0; axis--) /* a broadcast axis is read in no order at all */
        if (g.in[axis] != 0 && (g.in[x] == 0 || magnitude(g.in[axis]) < magnitude(g.in[x])))
            x = axis;
    if (x == y) return false;
    p->nx = g.extent[x], p->in_x = g.in[x], p->out_x = g.out[x];
    p->ny = g.extent[y], p->in_y = g.in[y], p->out_y = g.out[y];
    p->tiles_x = blocks_for(p->nx, side);
    p->tiles_y = blocks_for(p->ny, side);
    p->batches = 1;
    p->rank = 0;
    for (int axis = 0; axis < y; axis++) {
        if (axis == x) continue;
        p->extent[p->rank] = g.extent[axis];
        p->in[p->rank] = g.in[axis];
        p->out[p->rank++] = g.out[axis];
        p->batches *= g.extent[axis];
    }
    return true;
}

static int64_t tiles_of(const planes &p)
{
    return p.tiles_x * p.tiles_y * p.batches;
}

/* One block a tile. A grid holds fewer than 2^31 blocks, so thin tiles of a large array may
 * take several launches; a loop over tiles inside the kernel would cost every call. */
template <typename T, typename I>
static gop_status launch_tiles(gop_ctx *ctx, const gop_task *task, const planes &p,
                               void (*transpose_tile_kernel)(T *, const T *, planes, I))
{
    const int64_t tiles = tiles_of(p);
    for (int64_t first = 0; first < tiles; first += MAX_GRID) {
        const int64_t left = tiles - first;
        const dim3 grid((unsigned)(left < MAX_GRID ? left : MAX_GRID));
        GOP_TRY(GOP_LAUNCH(ctx, transpose_tile_kernel, grid, dim3(32, ROWS), 0,
                           (T *)task->out[0].data, (const T *)task->in[0].data, p, (I)first));
    }
    return GOP_OK;
}

template <typename T>
static gop_status transpose_tiled(gop_ctx *ctx, const gop_task *task, int64_t)
{
    planes p;
    if (task->geometry.permutation.size == 0) return GOP_OK;
    find_planes(task->geometry.permutation, 32, &p);
    if (fits_32_bits(tiles_of(p)))
        return launch_tiles(ctx, task, p, transpose_tiled_kernel<T, uint32_t>);
    return launch_tiles(ctx, task, p, transpose_tiled_kernel<T, uint64_t>);
}

static gop_status has_planes(const gop_ctx *, const gop_task *task)
{
    planes p;
    if (find_planes(task->geometry.permutation, 32, &p)) return GOP_OK;
    return gop_fail(GOP_REFUSED, "transpose: the tiled kernel takes permutations that move the "
                                 "fastest axis, got one that leaves it last");
}

/* ---- padded ----
 * A word more per row than the tile needs: the elements of a column then lie in 32 different
 * banks and are read at once. Items of 1 and 2 bytes take a tile of twice the side, so that its
 * rows are not too short for memory. Where a tile would stay mostly empty, or the fastest axis
 * stays the fastest, reading in the output's order is as good. */

template <typename T> struct padded_tile {
    enum { SIDE = sizeof(T) <= 2 ? 64 : 32, PAD = sizeof(T) < 4 ? 4 / sizeof(T) : 1 };
};

template <typename T, typename I>
__global__ void transpose_padded_kernel(T *out, const T *in, planes p, I first)
{
    enum { SIDE = padded_tile<T>::SIDE, PAD = padded_tile<T>::PAD };
    __shared__ T tile[SIDE][SIDE + PAD];
    int64_t x0, y0, to, from;
    tile_place<SIDE>(p, first, &x0, &y0, &to, &from);

#pragma unroll
    for (int j = threadIdx.y; j < SIDE; j += ROWS)
        for (int i = threadIdx.x; i < SIDE; i += 32)
            if (x0 + i < p.nx && y0 + j < p.ny)
                tile[j][i] = in[from + (x0 + i) * p.in_x + (y0 + j) * p.in_y];
    __syncthreads();
#pragma unroll
    for (int j = threadIdx.y; j < SIDE; j += ROWS)
        for (int i = threadIdx.x; i < SIDE; i += 32)
            if (x0 + j < p.nx && y0 + i < p.ny)
                out[to + (x0 + j) * p.out_x + (y0 + i) * p.out_y] = tile[i][j];
}

template <typename T>
static gop_status transpose_padded(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const gop_permutation &g = task->geometry.permutation;
    planes p;
    if (!find_planes(g, padded_tile<T>::SIDE, &p) || p.nx < THIN || p.ny < THIN)
        return in_given_order<T>(ctx, task, g);
    if (fits_32_bits(tiles_of(p)))
        return launch_tiles(ctx, task, p, transpose_padded_kernel<T, uint32_t>);
    return launch_tiles(ctx, task, p, transpose_padded_kernel<T, uint64_t>);
}

/* ---- the table ---- */

/* In the order of the dtypes: bytes are all that counts. */
#define BY_SIZE(f)                                                                             \
    {                                                                                          \
        f<uint8_t>, f<uint8_t>, f<uint16_t>, f<uint32_t>, f<uint64_t>, f<uint8_t>,             \
            f<uint16_t>, f<uint32_t>, f<uint64_t>, f<uint16_t>, f<uint16_t>, f<uint32_t>,      \
            f<uint64_t>, f<uint64_t>, f<complex128>                                            \
    }
#define EVERY(f)                                                                               \
    {                                                                                          \
        f, f, f, f, f, f, f, f, f, f, f, f, f, f, f                                            \
    }

#define ROW(name, note, role, launch, accepts)                                                 \
    {                                                                                          \
        name, note, role, nullptr, nullptr, launch, accepts, nullptr, nullptr, {}              \
    }

/* Rows of tiles that are at work together. */
#define BANDS                                                                                  \
    {                                                                                          \
        "band", 8,                                                                             \
        {                                                                                      \
            16, 1, 2, 4, 8, 32, 64, 1 << 20                                                    \
        }                                                                                      \
    }
/* Items along the tile; 0: by their size, halved where tiles would be too few. */
#define SIDES                                                                                  \
    {                                                                                          \
        "side", 4,                                                                             \
        {                                                                                      \
            0, 32, 64, 128                                                                     \
        }                                                                                      \
    }
#define TUNED(name, note, launch, accepts, ...)                                                \
    {                                                                                          \
        name, note, GOP_CONFORMING, nullptr, nullptr, EVERY(launch), accepts, nullptr,         \
            nullptr,                                                                           \
        {                                                                                      \
            __VA_ARGS__                                                                        \
        }                                                                                      \
    }

static const gop_row rows[] = {
    ROW("copy", "the same bytes without the permutation: what a transpose could reach at best",
        GOP_YARDSTICK, BY_SIZE(transpose_copy), is_dense),
    ROW("reads",
        "one element a thread in the input's order: reads coalesce, every write is a "
        "transaction",
        GOP_CONFORMING, BY_SIZE(transpose_reads), nullptr),
    ROW("naive",
        "one element a thread in the output's order: writes coalesce, reads at least are "
        "cached",
        GOP_CONFORMING, BY_SIZE(transpose_naive), nullptr),
    ROW("tiled", "a tile through shared memory: both sides coalesce, but a column is one bank",
        GOP_CONFORMING, BY_SIZE(transpose_tiled), has_planes),
    ROW("padded", "one word more per row of the tile: a column lies in 32 different banks",
        GOP_CONFORMING, BY_SIZE(transpose_padded), nullptr),
    ROW("vectorized", "lines that stay lines are copied 16 bytes a thread", GOP_CONFORMING,
        EVERY(transpose_vectorized), transpose_takes_vectors),
    ROW("boxed",
        "a box of as many axes as make long runs on both sides: thin arrays and short axes too",
        GOP_CONFORMING, EVERY(transpose_boxed), transpose_takes_boxed),
    TUNED("wide",
          "16 bytes a thread on both sides, transposed in registers, swizzled in shared memory",
          transpose_wide, transpose_takes_wide, BANDS, SIDES),
    TUNED("shifted",
          "words of a row at any address, shifted into place: sub-words fill shared memory, "
          "several reads are in flight a thread",
          transpose_shifted, transpose_takes_shifted, BANDS),
};

extern "C" {
extern const gop_ladder gop_cuda_transpose;
const gop_ladder gop_cuda_transpose = {sizeof rows / sizeof *rows, rows};
}
