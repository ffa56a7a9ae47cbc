/*
 * tiling.h - tiles over two runs of axes, for kernels that move 16 bytes at a time.
 *
 * X is contiguous in the input, Y in the output; each may join several axes. A tile of X times
 * Y is transposed as if both were single axes; every other axis is part of the batch.
 */
#ifndef GOP_CUDA_TRANSPOSE_TILING_H
#define GOP_CUDA_TRANSPOSE_TILING_H

#include "cuda/transpose/index.h"

enum {
    RUN_AXES = 8,   /* axes that X or Y may join */
    BATCH_AXES = 8, /* axes around a tile */
    BRIEF_AXES = 2, /* the same where X and Y are single axes */
};

/* Axes joined to one index, the fastest first. */
template <int AXES> struct run_over {
    int64_t n;            /* below 2^31 where there are several axes */
    int64_t stride[AXES]; /* on the side where the run is not contiguous */
    int rank;
    fast_divisor extent[AXES];
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
 * 200 bytes of arguments about half of all launches are slower, so a kernel has a second form
 * with compact arguments. */
template <int AXES, int AROUND> struct tiling_over {
    fast_divisor plane; /* tiles of one batch, */
    fast_divisor up;    /* and of those along Y */
    int batch_rank;
    run_over<AXES> x, y;
    struct {
        fast_divisor extent;
        int64_t in, out;
    } batch[AROUND];
    int64_t tiles; /* of all batches, below 2^31 */
};
typedef tiling_over<RUN_AXES, BATCH_AXES> tiling;
typedef tiling_over<1, BRIEF_AXES> brief_tiling;
template <bool JOINED> using tiling_for =
    tiling_over<JOINED ? RUN_AXES : 1, JOINED ? BATCH_AXES : BRIEF_AXES>;

/* Blocks go along Y, so that concurrent blocks write neighbours. */
template <typename TILING>
GOP_DEVICE tile_at place_tile(const TILING &p, int side_x, int side_y)
{
    uint32_t batch = quotient(blockIdx.x, p.plane);
    const uint32_t tile = blockIdx.x - batch * p.plane.d;
    const uint32_t x = quotient(tile, p.up);
    tile_at t = {(int64_t)x * side_x, (int64_t)(tile - x * p.up.d) * side_y, 0, 0};
#pragma unroll 1 /* short code: the first load waits for it */
    for (int axis = 0; axis < p.batch_rank; axis++) {
        const uint32_t outer = quotient(batch, p.batch[axis].extent);
        const int64_t i = batch - outer * p.batch[axis].extent.d;
        t.to += i * p.batch[axis].out;
        t.from += i * p.batch[axis].in;
        batch = outer;
    }
    return t;
}

/* The offsets of a tile's rows, on the side where they are apart: products if each run is one
 * axis, else (JOINED) tables, which the block fills together. */
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

/* Loads 16 bytes with a hint to prefetch the 256 bytes around them into L2: blocks with
 * unaligned rows share sectors with their neighbours. The hint needs compute capability 8.0. */
GOP_DEVICE uint4 load_ahead(const uint4 *address)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    uint4 word;
    asm volatile("ld.global.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                 : "l"(__cvta_generic_to_global(address))
                 : "memory");
    return word;
#else
    return *address;
#endif
}

/* ---- on the host ---- */

/* A kernel's tiling, and its compact form if it is simple enough. */
struct tiling_plan {
    tiling all;
    brief_tiling brief;
    bool is_brief; /* runs are single axes and the batch has few */
};
template <bool JOINED> static inline const tiling_for<JOINED> &tiling_of(const tiling_plan &t)
{
    if constexpr (JOINED) return t.all;
    else return t.brief;
}

/* Finds the runs and lays tiles over them, along Y for `more` items than it has. GOP_REFUSED,
 * with a sentence that names the kernel, if X or Y fills less than half a tile. */
gop_status transpose_tiling(const char *kernel, const gop_permutation &g, int side_x,
                            int side_y, int more, tiling_plan *t);
/* The offsets of rows on either side, or-ed together, in items: its lowest bit is their
 * alignment. */
int64_t transpose_offsets_in(const tiling &p);
int64_t transpose_offsets_out(const tiling &p);
/* The share of its tiles that is filled, for choose.cu. */
static inline float transpose_filled(const gop_permutation &g, const tiling_plan &t, int side_x,
                                     int side_y)
{
    return (float)((double)g.size / ((double)t.all.tiles * side_x * side_y));
}
/* GOP_REFUSED, with a sentence that names the kernel, unless all rows of a tiling start and end
 * at multiples of 16 bytes. */
gop_status transpose_rows_of_16(const char *kernel, const gop_task *task, const tiling &p,
                                int item);

#endif
