/*
 * wgmma_f16.h - what the kernel of wgmma_f16_sm90.cu is told, and how its tiles are cut.
 *
 * Blocks of a cluster have tiles below and beside each other, and share what they fetch. When
 * the last wave would leave SMs idle, its tiles are cut along k: into parts that a second
 * kernel adds; or, where all tiles are few, among the blocks of a cluster, which add what they
 * have.
 */
#ifndef GOP_CUDA_MATMUL_WGMMA_F16_H
#define GOP_CUDA_MATMUL_WGMMA_F16_H

#include "cuda/matmul/straight.h"
#include "cuda/common/tile_scheduler.h"

enum { TILE_K = 64 }; /* terms of a slot of the ring, 128 bytes */

/* A warpgroup multiplies 64 rows at once, `waves` times; the two have a tile together, or
 * one each. */
struct wgmma_f16_shape {
    int waves, columns;
    bool apart;
    constexpr int rows() const { return (apart ? 64 : 128) * waves; }
};
enum { WGMMA_F16_SHAPES = 10 };
static constexpr wgmma_f16_shape wgmma_f16_shapes[WGMMA_F16_SHAPES] = {
    {1, 256, false}, {1, 192, false}, {1, 160, false}, {1, 144, false}, {1, 128, false},
    {1, 64, false},  {2, 128, false}, {2, 112, false}, {2, 64, false},  {1, 64, true},
};

/* A stage is a slot; `down` and `across` count tiles of clusters. Where blocks share, an item
 * is a tile, and all are cut. */
struct matmul_schedule : tile_schedule {
    short shape, below, beside; /* of the list above; blocks of a cluster */
    short sharing; /* blocks of a cluster that have a slice of the same sums each */
    short cluster; /* all of its blocks */
    bool swapped;  /* the transposed product of the transposed operands */
};

/* Microseconds of the least that it does, which no schedule is below. */
static const float WGMMA_F16_LAUNCH = 3.6f;

/* The fastest one, and the call's time in seconds: wgmma_f16_schedule.cu. Where b is a's
 * transpose all sums are cut, or none, so that two that swap their factors stay equal. */
double wgmma_f16_choose(const gop_ctx *ctx, const gop_task *task, matmul_schedule *best);

static inline size_t wgmma_f16_partials_bytes(const matmul_schedule &t)
{
    const wgmma_f16_shape &shape = wgmma_f16_shapes[t.shape];
    if (t.sharing > 1) return 0;
    return (size_t)(t.items - t.whole) * (size_t)t.cluster * (size_t)shape.rows() *
           (size_t)shape.columns * sizeof(float);
}

/* ---- the kernel ---- */

enum { CHUNK = 64 * 64 * 2, RESULTS = 2 * CHUNK }; /* bytes of 64 x 64 results; see below */

/* A block's shared memory: a ring of slots, or one for each warpgroup, and for each warpgroup
 * twice 64 x 64 results on their way out. */
template <int SHAPE> struct wgmma_f16_block {
    static constexpr wgmma_f16_shape OF = wgmma_f16_shapes[SHAPE];
    enum {
        WAVES = OF.waves,
        COLUMNS = OF.columns,
        RINGS = OF.apart ? 2 : 1,
        GROUPS = 2 / RINGS, /* of a ring */
        ROWS = OF.rows(),
        A_BYTES = ROWS * TILE_K * 2,
        BOXES = (COLUMNS + 63) / 64, /* of b, where it is transposed */
        B_BYTES = BOXES * 64 * TILE_K * 2,
        SLOT = A_BYTES + B_BYTES,
        FIT = (227 * 1024 - 2 * RESULTS - 1024 - 256) / SLOT / RINGS,
        SLOTS = FIT < 12 / RINGS ? FIT : 12 / RINGS,
        BYTES = RINGS * SLOTS * (SLOT + 16) + 2 * RESULTS + 1024,
    };
};

struct wgmma_f16_work {
    gop_cuda_tensor_map a, b, out;
    int64_t m, n, out_row, out_col, out_batch;
    int store;       /* 8: the map writes results; else how many are stored as one */
    bool transposed; /* lines of results are columns */
    void *results;
    float *partials;
    int a_batch, b_batch; /* whether the operand differs from product to product */
    matmul_schedule schedule;
    int first, last; /* of its items */
};
/* What a block reads before its first load is within 64 bytes of constants: with eight bytes
 * more small products took .4 us longer on an H200. */
static_assert(sizeof(wgmma_f16_work) == 512,
              "the schedule begins a line of constants, and ends it");

#endif
