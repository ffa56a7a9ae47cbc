/*
 * transpose.h - what the files of transpose's CUDA ladder share: an index over several axes,
 * and the tile that a permutation comes down to.
 *
 * Whatever the rank, two runs of axes count: X, contiguous in the input, and Y, contiguous in
 * the output. A tile of X times Y is transposed as if both were single axes; every other axis
 * is part of the batch.
 */
#ifndef GOP_CUDA_TRANSPOSE_H
#define GOP_CUDA_TRANSPOSE_H

#include "cuda/device.h"

enum {
    RUN_AXES = 8,   /* axes that X or Y may join */
    BATCH_AXES = 8, /* axes around a tile */
    BRIEF_AXES = 2, /* the same where X and Y are single axes */
};

static inline bool fits_32_bits(int64_t size)
{
    return size < INT64_C(1) << 31;
}

__host__ GOP_DEVICE int64_t min_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t magnitude(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

/* Offsets of the i-th element in the order of the axes. The index type I is 32 bits wide where
 * the size allows: a division then takes a quarter of the instructions. */
template <typename I>
GOP_DEVICE void place(const gop_permutation &p, I i, int64_t *to, int64_t *from)
{
    *to = *from = 0;
    for (int axis = p.rank - 1; axis > 0; axis--) {
        const I extent = (I)p.extent[axis];
        const I outer = i / extent;
        const I at = i - outer * extent;
        *to += (int64_t)at * p.out[axis];
        *from += (int64_t)at * p.in[axis];
        i = outer;
    }
    *to += (int64_t)i * p.out[0];
    *from += (int64_t)i * p.in[0];
}

/* n / d as a product: exact for n below 2^31, and some 20 instructions shorter than a division
 * by a number that the compiler does not know. */
struct divisor {
    uint32_t d, multiplier, shift;
};

__host__ GOP_DEVICE uint32_t quotient(uint32_t n, divisor by)
{
    return (uint32_t)((uint64_t)n * by.multiplier >> by.shift);
}

/* Axes joined to one index, the fastest first. */
template <int AXES> struct run_over {
    int64_t n;            /* below 2^31 where there are several axes */
    int64_t stride[AXES]; /* on the side where the run is not contiguous */
    int rank;
    divisor extent[AXES];
};
template <> struct run_over<1> {
    int64_t n, stride[1];
};
typedef run_over<RUN_AXES> run;

GOP_DEVICE int64_t run_offset(const run &r, int64_t i)
{
    int64_t offset = 0;
#pragma unroll 1
    for (int axis = 0; axis < r.rank - 1; axis++) {
        const uint32_t at = (uint32_t)i, outer = quotient(at, r.extent[axis]);
        offset += (int64_t)(at - outer * r.extent[axis].d) * r.stride[axis];
        i = outer;
    }
    return offset + i * r.stride[r.rank - 1];
}

/* The two runs, the tiles over them, and the batch, its fastest axis first. With more than some
 * 200 bytes of arguments every other launch takes up to a microsecond longer (measured on an
 * H200): so a kernel has a second, brief form. */
template <int AXES, int AROUND> struct tiling_over {
    divisor plane; /* tiles of one batch, */
    divisor up;    /* and of those along Y */
    int batch_rank;
    run_over<AXES> x, y;
    struct {
        divisor extent;
        int64_t in, out;
    } batch[AROUND];
    int64_t tiles; /* of all batches, below 2^31 */
};
typedef tiling_over<RUN_AXES, BATCH_AXES> tiling;
typedef tiling_over<1, BRIEF_AXES> brief_tiling;
template <bool JOINED> using tiling_for =
    tiling_over<JOINED ? RUN_AXES : 1, JOINED ? BATCH_AXES : BRIEF_AXES>;

struct tile_at {
    int64_t x, y;     /* the tile's first element */
    int64_t to, from; /* where its batch starts */
};

/* Blocks go along Y: what they write at the same time follows on in memory. */
template <typename TILING>
GOP_DEVICE tile_at place_tile(const TILING &p, int side_x, int side_y)
{
    uint32_t batch = quotient(blockIdx.x, p.plane);
    const uint32_t tile = blockIdx.x - batch * p.plane.d;
    const uint32_t x = quotient(tile, p.up);
    tile_at t = {(int64_t)x * side_x, (int64_t)(tile - x * p.up.d) * side_y, 0, 0};
#pragma unroll 1 /* code that comes before the first load is waited for */
    for (int axis = 0; axis < p.batch_rank; axis++) {
        const uint32_t outer = quotient(batch, p.batch[axis].extent);
        const int64_t i = batch - outer * p.batch[axis].extent.d;
        t.to += i * p.batch[axis].out;
        t.from += i * p.batch[axis].in;
        batch = outer;
    }
    return t;
}

/* Where the rows of a tile lie on the side where they lie apart: a product if each run is one
 * axis, else JOINED tables, which the block fills together. */
template <int SIDE, bool JOINED> struct tile_rows {
    int64_t x[JOINED ? SIDE : 1], y[JOINED ? SIDE : 1];
};

template <int SIDE, bool JOINED> GOP_DEVICE void
place_rows(tile_rows<SIDE, JOINED> &rows, const tiling_for<JOINED> &p, const tile_at &t)
{
    if constexpr (JOINED) {
        for (int i = threadIdx.x; i < 2 * SIDE; i += blockDim.x) {
            if (i < SIDE) rows.y[i] = run_offset(p.y, t.y + i);
            else rows.x[i - SIDE] = run_offset(p.x, t.x + i - SIDE);
        }
        __syncthreads();
    }
}

template <int SIDE, bool JOINED> GOP_DEVICE int64_t row_y(const tile_rows<SIDE, JOINED> &rows,
                                                          const tiling_for<JOINED> &p,
                                                          const tile_at &t, int y)
{
    return JOINED ? rows.y[y] : (t.y + y) * p.y.stride[0];
}

template <int SIDE, bool JOINED> GOP_DEVICE int64_t row_x(const tile_rows<SIDE, JOINED> &rows,
                                                          const tiling_for<JOINED> &p,
                                                          const tile_at &t, int x)
{
    return JOINED ? rows.x[x] : (t.x + x) * p.x.stride[0];
}

/* The plane of the two axes that count, of any strides, and the batch around it: what the rows
 * that move an item at a time see. Strides in elements. */
struct planes {
    int64_t nx, ny, in_x, in_y, out_x, out_y;
    int64_t tiles;             /* of all batches, below 2^31 */
    divisor across, up, plane; /* tiles along x, along y, and of one batch */
    int rank;                  /* of the batch */
    divisor extent[GOP_MAX_NDIM];
    int64_t in[GOP_MAX_NDIM], out[GOP_MAX_NDIM];
};

GOP_DEVICE tile_at tile_in_batch(const planes &p, uint32_t x, uint32_t y, uint32_t batch,
                                 int side)
{
    tile_at t = {(int64_t)x * side, (int64_t)y * side, 0, 0};
    for (int axis = p.rank - 1; axis >= 0; axis--) {
        const uint32_t outer = quotient(batch, p.extent[axis]);
        const int64_t i = batch - outer * p.extent[axis].d;
        t.to += i * p.out[axis];
        t.from += i * p.in[axis];
        batch = outer;
    }
    return t;
}

/* The block's tile: row by row of the input. */
GOP_DEVICE tile_at tile_of(const planes &p, int side)
{
    const uint32_t batch = quotient(blockIdx.x, p.plane);
    const uint32_t tile = blockIdx.x - batch * p.plane.d;
    const uint32_t y = quotient(tile, p.across);
    return tile_in_batch(p, tile - y * p.across.d, y, batch, side);
}

/* The block's tile: diagonal by diagonal. */
GOP_DEVICE tile_at diagonal_tile_of(const planes &p, int side)
{
    const uint32_t batch = quotient(blockIdx.x, p.plane);
    const uint32_t tile = blockIdx.x - batch * p.plane.d;
    const uint32_t diagonal = quotient(tile, p.up), y = tile - diagonal * p.up.d;
    const uint32_t x = diagonal + y, wraps = quotient(x, p.across);
    return tile_in_batch(p, x - wraps * p.across.d, y, batch, side);
}

/* The 256 bytes around it are fetched into the second-level cache, as whole pieces of memory:
 * for rows that start anywhere, where a block has a part of what its neighbour has the rest of.
 * A hint, for a GPU alone. */
GOP_DEVICE uint4 load_ahead(const uint4 *address)
{
#ifdef __CUDACC__
    uint4 word;
    asm("ld.global.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
        : "l"(__cvta_generic_to_global(address)));
    return word;
#else
    return *address;
#endif
}

/* N by N items of a word together, turned: words along x become words along y. */
GOP_DEVICE void turn_words(uint32_t (&r)[2])
{
    const uint32_t low = __byte_perm(r[0], r[1], 0x5410);
    r[1] = __byte_perm(r[0], r[1], 0x7632);
    r[0] = low;
}

/* Neighbouring rows change bytes, then pairs of rows change halves. */
GOP_DEVICE void turn_words(uint32_t (&r)[4])
{
    const uint32_t a = __byte_perm(r[0], r[1], 0x5140), b = __byte_perm(r[0], r[1], 0x7362);
    const uint32_t c = __byte_perm(r[2], r[3], 0x5140), d = __byte_perm(r[2], r[3], 0x7362);
    r[0] = __byte_perm(a, c, 0x5410);
    r[1] = __byte_perm(a, c, 0x7632);
    r[2] = __byte_perm(b, d, 0x5410);
    r[3] = __byte_perm(b, d, 0x7632);
}

/* N by N items: N rows of 16 bytes. */
template <typename T> struct square {
    enum { N = 16 / (int)sizeof(T) };
    uint32_t word[N][4];
};

template <typename T> GOP_DEVICE square<T> turned(const square<T> &s)
{
    enum { N = square<T>::N, PER_WORD = sizeof(T) < 4 ? 4 / (int)sizeof(T) : 1 };
    square<T> t;
    if constexpr (PER_WORD > 1) {
        /* Squares of PER_WORD words a side change places, and each is turned. */
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                uint32_t words[PER_WORD];
#pragma unroll
                for (int k = 0; k < PER_WORD; k++) words[k] = s.word[j * PER_WORD + k][i];
                turn_words(words);
#pragma unroll
                for (int k = 0; k < PER_WORD; k++) t.word[i * PER_WORD + k][j] = words[k];
            }
    } else {
        enum { WORDS = 4 / N }; /* of an item */
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
            for (int j = 0; j < N; j++)
#pragma unroll
                for (int k = 0; k < WORDS; k++)
                    t.word[i][j * WORDS + k] = s.word[j][i * WORDS + k];
    }
    return t;
}

/* ---- on the host ---- */

/* Bytes of an item. */
int transpose_item(const gop_task *task);
/* Joins neighbours that stay neighbours to items of up to 16 bytes; returns their size. */
int transpose_widen(const gop_task *task, gop_permutation *g);
divisor transpose_divisor(int64_t d);
/* The axes in the order in which blocks should step along them: what is near on either side
 * comes first, so that both sides have neighbours at work together. */
void transpose_order(const gop_permutation &g, int *order);
/* Finds the runs and lays tiles over them, along Y for `more` items than it has. GOP_REFUSED,
 * with a sentence that names the kernel, where X or Y fills less than half a tile. */
gop_status transpose_tiling(const char *kernel, const gop_permutation &g, int side_x,
                            int side_y, int more, tiling *p);
/* Whether the runs are single axes and the batch has few; then the same, for a kernel that is
 * not JOINED. */
bool transpose_is_brief(const tiling &p, brief_tiling *brief);
/* What rows start at multiples of, on either side: their offsets, or-ed together, in items. */
int64_t transpose_offsets_in(const tiling &p);
int64_t transpose_offsets_out(const tiling &p);
/* GOP_REFUSED, with a sentence that names the kernel, unless all rows of a tiling start and end
 * at multiples of 16 bytes. */
gop_status transpose_rows_of_16(const char *kernel, const gop_task *task, const tiling &p,
                                int item);
/* Finds the plane and lays tiles over it. GOP_REFUSED, with a sentence, where the permutation
 * leaves the fastest axis in its place or a side of the plane is much shorter than a tile. */
gop_status transpose_planes(const gop_permutation &g, int side, planes *p);

/* f<T>(...) for the type of an item's size: bytes are all that counts. */
#define TRANSPOSE_BY_ITEM(item, f, ...)                                                        \
    switch (item) {                                                                            \
    case 1:                                                                                    \
        return f<uint8_t>(__VA_ARGS__);                                                        \
    case 2:                                                                                    \
        return f<uint16_t>(__VA_ARGS__);                                                       \
    case 4:                                                                                    \
        return f<uint32_t>(__VA_ARGS__);                                                       \
    case 8:                                                                                    \
        return f<uint64_t>(__VA_ARGS__);                                                       \
    default:                                                                                   \
        return f<complex128>(__VA_ARGS__);                                                     \
    }

/* Launchers for every size of item, with their predicates. */
gop_status transpose_copy(gop_ctx *ctx, const gop_task *task, int64_t step);
gop_status transpose_streamed(gop_ctx *ctx, const gop_task *task, int64_t step);
gop_status transpose_staged(gop_ctx *ctx, const gop_task *task, int64_t step);
gop_status transpose_strided(gop_ctx *ctx, const gop_task *task, int64_t step);
gop_status transpose_is_dense(const gop_ctx *ctx, const gop_task *task);
gop_status transpose_is_dense_planes(const gop_ctx *ctx, const gop_task *task);
gop_status transpose_is_dense_vectors(const gop_ctx *ctx, const gop_task *task);
gop_status transpose_tiled(gop_ctx *ctx, const gop_task *task, int64_t step);
gop_status transpose_padded(gop_ctx *ctx, const gop_task *task, int64_t step);
gop_status transpose_diagonal(gop_ctx *ctx, const gop_task *task, int64_t step);
gop_status transpose_swizzled(gop_ctx *ctx, const gop_task *task, int64_t step);
gop_status transpose_takes_planes(const gop_ctx *ctx, const gop_task *task);
gop_status transpose_packed(gop_ctx *ctx, const gop_task *task, int64_t step);
gop_status transpose_takes_words(const gop_ctx *ctx, const gop_task *task);
gop_status transpose_bulk(gop_ctx *ctx, const gop_task *task, int64_t step);
gop_status transpose_takes_bulk(const gop_ctx *ctx, const gop_task *task);
gop_status transpose_few(gop_ctx *ctx, const gop_task *task, int64_t step);
gop_status transpose_takes_few(const gop_ctx *, const gop_task *task);
gop_status transpose_lines(gop_ctx *ctx, const gop_task *task, int64_t step);
gop_status transpose_takes_lines(const gop_ctx *, const gop_task *task);
gop_status transpose_pixels(gop_ctx *ctx, const gop_task *task, int64_t step);
gop_status transpose_takes_pixels(const gop_ctx *, const gop_task *task);
gop_status transpose_interleaved(gop_ctx *ctx, const gop_task *task, int64_t step);
gop_status transpose_takes_interleaved(const gop_ctx *, const gop_task *task);
gop_status transpose_boxed(gop_ctx *ctx, const gop_task *task, int64_t step);
gop_status transpose_takes_boxed(const gop_ctx *ctx, const gop_task *task);
gop_status transpose_sectored(gop_ctx *ctx, const gop_task *task, int64_t step);
gop_status transpose_takes_sectored(const gop_ctx *ctx, const gop_task *task);
gop_status transpose_shifted(gop_ctx *ctx, const gop_task *task, int64_t step);
gop_status transpose_takes_shifted(const gop_ctx *ctx, const gop_task *task);
gop_status transpose_vectorized(gop_ctx *ctx, const gop_task *task, int64_t step);
gop_status transpose_takes_vectors(const gop_ctx *ctx, const gop_task *task);

#endif
