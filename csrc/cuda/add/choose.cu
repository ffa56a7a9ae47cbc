/*
 * choose.cu - which kernel adds: the first of these that takes the call. add, multiply_add and
 * fma have the same kernels and the same table.
 *
 * An H200 does one axis at the speed of memory whatever kernel; what differs is what several
 * axes cost: how often memory is asked for what the caches have lost, and what finding an
 * element's place takes.
 */
#include "core/choice.h"
#include "cuda/add/tiles.h"

enum {
    PIECE = 2048,  /* bytes of the output that a block without tiles has */
    FEW = 1 << 20, /* elements of an output that are done before tiles begin */
};

/* How many bytes memory gives for each that is used, where a piece of an operand is read in the
 * output's order: sectors, of which neighbours share those that lie near. */
static double bytes_fetched(const gop_elementwise &e, int o, int item)
{
    const near_axes near = add_nearest_first(e, o);
    int64_t part[GOP_MAX_NDIM] = {}, left = PIECE / item, span = item;
    double used = item, sectors = 1;
    for (int axis = e.rank - 1; axis >= 0 && left > 1; axis--) {
        part[axis] = e.extent[axis] < left ? e.extent[axis] : left;
        left = (left + e.extent[axis] - 1) / e.extent[axis];
    }
    for (int k = 0; k < near.count; k++) {
        const int64_t n = part[near.axis[k]];
        const int64_t step = (int64_t)gop_magnitude(e.stride[o][near.axis[k]]) * item;
        if (n <= 1) continue;
        used *= (double)n;
        if (step < SECTOR + span) span += step * (n - 1);
        else sectors *= (double)n;
    }
    return sectors * (double)((span + SECTOR - 1) / SECTOR) * SECTOR / used;
}

/* From half of the worst that the caches leave on. */
static int are_worth_tiles(const gop_ctx *, const gop_task *task)
{
    const gop_elementwise &e = task->geometry.elementwise;
    const int item = item_of(task);
    const double least = item <= 2 ? 8 : item <= 8 ? 4 : 2;
    if (e.size < FEW) return 0;
    for (int o = 1; o < e.operands; o++)
        if (bytes_fetched(e, o, item) >= least) return 1;
    return 0;
}

/* clang-format off */
#define TABLE(op)                                                                              \
    extern const gop_row op##_vectorized_row, op##_tiled_row, op##_indexed_row, op##_naive_row;\
    static const gop_candidate op##_candidates[] = {                                           \
        {.row = &op##_vectorized_row,                                                          \
         .why = "one axis: 0.997 to 1.14 of PyTorch's speed from 38 MiB on: H200, 2026-11-23"},\
        {.row = &op##_tiled_row,                                                               \
         .suits = are_worth_tiles,                                                             \
         .when = "2^20 elements or more, of which caches hold too little in the output's "     \
                 "order: memory gives 8 bytes (of items of 1 and 2), 4 or 2 (16) for each "    \
                 "that is used",                                                               \
         .why = "1172 random permutations from 32 MiB on: tiled alone takes 1.4 times as "     \
                "long as the better of both, indexed 1.31, by this condition 1.04: H200, "     \
                "2026-11-28"},                                                                 \
        {.row = &op##_indexed_row,                                                             \
         .why = "operands that broadcast, are sliced or unaligned: bytes of which one "        \
                "array begins a byte further 11.5 us, PyTorch 12.6, naive 101: H200, "         \
                "2026-11-23"},                                                                 \
        {.row = &op##_naive_row,                                                               \
         .why = "takes all that is left: outputs with gaps, or that do not start at a "        \
                "multiple of 16 bytes, and are not worth tiles"},                              \
    };                                                                                         \
    extern const gop_choice op##_choice;                                                       \
    const gop_choice op##_choice = {sizeof op##_candidates / sizeof *op##_candidates,          \
                                    op##_candidates, nullptr}
/* clang-format on */
TABLE(add);
TABLE(multiply_add);
TABLE(fma);
