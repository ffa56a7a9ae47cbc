/*
 * by_map.h - tables of what there is for each map, by reduction and dtype.
 */
#ifndef GOP_CUDA_REDUCE_BY_MAP_H
#define GOP_CUDA_REDUCE_BY_MAP_H

#include "cuda/reduce/extremes.h"
#include "cuda/reduce/sums.h"

/* f<M> by the map that a call asks for: reduce_of_call. */
template <typename F> struct reduce_by_map {
    F sum[GOP_NDTYPES], prod[GOP_NDTYPES], square[GOP_NDTYPES], mean[GOP_NDTYPES],
        extreme[GOP_NDTYPES], position[GOP_NDTYPES], truth[GOP_NDTYPES];
};

/* Dtypes of one size share what the key_flags can tell apart. */
/* clang-format off */
#define REDUCE_SIZES(f, map) f<map<uint8_t>>, f<map<uint16_t>>, f<map<uint32_t>>, f<map<uint64_t>>
#define REDUCE_WHOLE(f, map) f<map<uint8_t>>, REDUCE_SIZES(f, map), REDUCE_SIZES(f, map)
#define REDUCE_REAL(f, map) f<map<float16>>, f<map<bfloat16>>, f<map<float>>, f<map<double>>
#define REDUCE_FLOATS(f, map) REDUCE_REAL(f, map), f<map<complex64>>, f<map<complex128>>
#define REDUCE_LONG(mean32, mean64) \
    nullptr, nullptr, nullptr, mean32, mean64, nullptr, nullptr, mean32, mean64
#define REDUCE_LIST(...) __VA_ARGS__
#define REDUCE_TABLE(f, products, squares, means, truth128) \
    {{REDUCE_WHOLE(f, sum_map), REDUCE_FLOATS(f, sum_map)}, \
     {products}, \
     {squares}, \
     {means}, \
     {REDUCE_WHOLE(f, extreme_map), REDUCE_REAL(f, extreme_map)}, \
     {REDUCE_WHOLE(f, position_map), REDUCE_FLOATS(f, position_map)}, \
     {REDUCE_WHOLE(f, extreme_map), f<extreme_map<uint16_t>>, f<extreme_map<uint16_t>>, \
      f<extreme_map<uint32_t>>, f<extreme_map<uint64_t>>, f<extreme_map<uint64_t>>, truth128}}
/* Maps for every call, and the list without rare ones, which `tree` does: of products it keeps
 * those of float32 and float64, with or without means of over 2^21 numbers of four bytes. */
#define REDUCE_EVERY_MAP(f) \
    REDUCE_TABLE(f, REDUCE_LIST(REDUCE_WHOLE(f, prod_map), REDUCE_FLOATS(f, prod_map)), \
                 REDUCE_LIST(REDUCE_WHOLE(f, square_map), REDUCE_FLOATS(f, square_map)), \
                 REDUCE_LIST(REDUCE_WHOLE(f, mean_map)), f<extreme_map<word128>>)
#define REDUCE_BY_MAP(f, mean32) \
    REDUCE_TABLE(f, REDUCE_LIST(GOP_NONE9, nullptr, nullptr, f<prod_map<float>>, \
                                f<prod_map<double>>), \
                 nullptr, REDUCE_LIST(REDUCE_LONG(mean32, f<mean_map<uint64_t>>)), \
                 f<extreme_map<word128>>)
/* clang-format on */

#endif
