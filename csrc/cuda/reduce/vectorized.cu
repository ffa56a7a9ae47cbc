/*
 * vectorized.cu - reduce: a warp to a leaf of the tree, 16 bytes a load. Sums, products and
 * means; what is compared is in vectorized_keys.cu.
 */
#include "cuda/reduce/sums.h"
#include "cuda/reduce/vectorized_kernel.h"

extern const gop_row reduce_vectorized_row = {
    .name = "vectorized",
    .note = "16 bytes a load, and a block folds up to 64 leaves before it writes",
    .role = GOP_CONFORMING,
    .plan = reduce_vectorized_plan,
    .dtypes = GOP_EVERY_DTYPE,
};

/* clang-format off */
OF_WHOLE(sum_map) OF_REAL(sum_map) OF_COMPLEX(sum_map)
OF(prod_map<float>) OF(prod_map<double>) OF(mean_map<uint32_t>) OF(mean_map<uint64_t>)
    /* clang-format on */
