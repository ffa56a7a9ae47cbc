/*
 * reduce_prod.cu - products.
 */
#include "cuda/reduce_rows.h"

template <typename E> struct prod_map {
    typedef E T;
    typedef prod_fold<typename sum_of<E>::type> F;
    static GOP_DEVICE typename F::acc turn(E x, int64_t, int) { return widen(x); }
};

template <typename T> constexpr reduce_launchers whole = reduce_tree_only<prod_map<T>>;
template <typename T> constexpr reduce_launchers real = reduce_launchers_of<prod_map<T>>;

const reduce_launchers reduce_prod_of[GOP_NDTYPES] = {
    whole<boolean>, whole<int8_t>,   whole<int16_t>,  whole<int32_t>,  whole<int64_t>,
    whole<uint8_t>, whole<uint16_t>, whole<uint32_t>, whole<uint64_t>, real<float16>,
    real<bfloat16>, real<float>,     real<double>,    real<complex64>, real<complex128>,
};
