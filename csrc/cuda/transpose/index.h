/*
 * index.h - what every CUDA kernel of transpose starts from: items, axes, and indices over
 * them.
 *
 * Whatever the rank, two axes count: x, the fastest of the input, and y, the fastest of the
 * output. All others are a batch of such planes. Bytes are moved, so a kernel is a template
 * over a type of an item's size.
 */
#ifndef GOP_CUDA_TRANSPOSE_INDEX_H
#define GOP_CUDA_TRANSPOSE_INDEX_H

#include "cuda/common/fast_divisor.h"

__host__ GOP_DEVICE int64_t min_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

struct tile_at {
    int64_t x, y;     /* the tile's first item */
    int64_t to, from; /* where its batch starts */
};

/* ---- on the host ---- */

/* Bytes of an item. */
int transpose_item(const gop_task *task);
/* Joins neighbours that stay neighbours to items of up to 16 bytes; returns their size. */
int transpose_widen(const gop_task *task, gop_permutation *g);
/* The axes in the order in which blocks should step along them: axes of short strides on either
 * side come first, so that concurrent blocks are neighbours on both sides. */
void transpose_order(const gop_permutation &g, int *order);
/* The bytes to which all addresses are aligned, and `items` too: the lowest bit set in any of
 * them. */
int64_t transpose_alignment(const gop_task *task, int64_t items, int item);

/* The launch for items of so many bytes, 16 or at most 8: f is a template over their type, and
 * over the further arguments. */
#define TRANSPOSE_BY_ITEM(item, f, ...)                                                        \
    ((item) == 16 ? f<complex128, ##__VA_ARGS__>                                               \
                  : TRANSPOSE_BY_SMALL_ITEM(item, f, ##__VA_ARGS__))
#define TRANSPOSE_BY_SMALL_ITEM(item, f, ...)                                                  \
    ((item) == 1   ? f<uint8_t, ##__VA_ARGS__>                                                 \
     : (item) == 2 ? f<uint16_t, ##__VA_ARGS__>                                                \
     : (item) == 4 ? f<uint32_t, ##__VA_ARGS__>                                                \
                   : f<uint64_t, ##__VA_ARGS__>)

/* The dtypes of items of 1 and 2 bytes, and of 8 and less. */
enum : uint32_t {
    TRANSPOSE_SMALL = 1u << GOP_BOOL | 1u << GOP_INT8 | 1u << GOP_INT16 | 1u << GOP_UINT8 |
                      1u << GOP_UINT16 | 1u << GOP_FLOAT16 | 1u << GOP_BFLOAT16,
    TRANSPOSE_UP_TO_8 = GOP_EVERY_DTYPE & ~(1u << GOP_COMPLEX128),
};

#define TRANSPOSE_LECTURE "matrix transpose"

#endif
