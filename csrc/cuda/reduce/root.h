/*
 * root.h - folds the leaves of an output to its root, for the kernels that have several.
 */
#ifndef GOP_CUDA_REDUCE_ROOT_H
#define GOP_CUDA_REDUCE_ROOT_H

#include "cuda/reduce/finish.h"

/* Folds r.leaves leaves to an output, which stand in r.partial, into the outputs: compiled once
 * for all, in root.cu. */
template <typename F, typename G>
gop_status reduce_fold_leaves(gop_ctx *ctx, reduce_args_of<G> r);

#endif
