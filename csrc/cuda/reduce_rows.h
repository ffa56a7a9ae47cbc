/*
 * reduce_rows.h - the rows of the ladder that keep tree/v1, for one map.
 */
#ifndef GOP_CUDA_REDUCE_ROWS_H
#define GOP_CUDA_REDUCE_ROWS_H

#include "cuda/reduce_columns.h"
#include "cuda/reduce_short.h"
#include "cuda/reduce_vectorized.h"

template <typename M> constexpr reduce_launchers reduce_launchers_of = {
    reduce_tree_task<M>,       reduce_vectorized_task<M>, reduce_few_task<M>,
    reduce_short_task<M>,      reduce_columns_task<M>,    reduce_thin_task<M>,
    sizeof(typename M::F::acc)};

/* Of what is rarely asked for: the row that takes everything. */
template <typename M> constexpr reduce_launchers reduce_tree_only = {reduce_tree_task<M>};

#endif
