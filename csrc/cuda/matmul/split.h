/*
 * split.h - sums that are cut along l: their pieces in scratch, and the adding of them.
 */
#ifndef GOP_CUDA_MATMUL_SPLIT_H
#define GOP_CUDA_MATMUL_SPLIT_H

#include "cuda/matmul/arithmetic.h"
#include "cuda/matmul/product.h"

/* The same product into scratch: piece by piece, each in C order. */
template <typename T>
static inline matmul_product<T> matmul_pieces_of(const matmul_product<T> &p, void *scratch)
{
    matmul_product<T> pieces = p;
    pieces.out = scratch;
    pieces.g.out_row = p.g.n;
    pieces.g.out_col = 1;
    for (int axis = p.g.batch_rank - 1, inner = axis; axis >= 0; axis--)
        pieces.g.out[axis] =
            axis == inner ? p.g.m * p.g.n : pieces.g.out[axis + 1] * p.g.extent[axis + 1];
    return pieces;
}

/* Enqueues the adding of the pieces, in an order that their number decides, into p.out. */
template <typename T>
gop_status matmul_add_pieces(gop_ctx *ctx, const matmul_product<T> &p, const void *pieces);

#endif
