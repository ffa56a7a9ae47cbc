/*
 * vectorized.h - what the plan of reduce's vectorized kernel and its launches share.
 */
#ifndef GOP_CUDA_REDUCE_VECTORIZED_H
#define GOP_CUDA_REDUCE_VECTORIZED_H

#include "cuda/reduce/arguments.h"

enum {
    GROUP = 64, /* leaves of an output that a block folds at most */
    LINE = 16,  /* elements that a line has at least: a shorter one costs more to find */
    SHARED = 8  /* threads that share a short row: each has several loads in flight */
};

/* How blocks fold leaves. A subtree of an output has 2^levels leaves, of which `leaves` exist.
 * A block has 2^across subtrees: one, or the only ones of several outputs. */
struct leaf_groups {
    int levels, across, leaves, leaf; /* elements of a leaf */
    int subtrees;                     /* of all outputs; r.leaves of each */
    int last;                         /* the last block's first subtree */
    float kept;                       /* the share of the array that the cache keeps */
};

/* What a plan keeps for the launch. */
struct vectorized_grid {
    leaf_groups groups;
    unsigned blocks;
};
template <typename A> struct vectorized_launch : vectorized_grid {
    A r;
};

/* The launches of a map, and what the plan needs to know of it. `shared`: with SHARED threads
 * to a row, or NULL. Lines are read in groups of `n` neighbours, the longest first. */
struct vectorized_kernels {
    int item;
    bool ordered;
    int blocks; /* resident per SM */
    gop_launch whole, unaligned, shared;
    struct {
        int n;
        gop_launch alone, shared;
    } lines[3];
};
/* Those of map M: in vectorized.cu, vectorized_keys.cu. */
template <typename M> struct vectorized_of {
    static const vectorized_kernels kernels;
};

gop_status reduce_vectorized_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan);

#endif
