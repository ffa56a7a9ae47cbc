/*
 * reduce_square.cu - sums of squares |x|^2, for norms; and means of integers, as float64.
 */
#include "cuda/reduce_rows.h"

GOP_DEVICE float square(float x)
{
    return x * x;
}
GOP_DEVICE double square(double x)
{
    return x * x;
}
GOP_DEVICE float square(float16 x)
{
    return square(load(x));
}
GOP_DEVICE float square(bfloat16 x)
{
    return square(load(x));
}
GOP_DEVICE double square(boolean x)
{
    return x.byte != 0;
}
template <typename P> GOP_DEVICE P square(complex<P> x)
{
    return x.re * x.re + x.im * x.im;
}
template <typename T> GOP_DEVICE double square(T x)
{
    return square((double)x);
}

template <typename E> struct square_map {
    typedef E T;
    typedef sum_fold<decltype(square(E()))> F;
    static GOP_DEVICE typename F::acc turn(E x, int64_t, int) { return square(x); }
};

template <typename T> constexpr reduce_launchers reduce_square =
    reduce_tree_only<square_map<T>>;

const reduce_launchers reduce_square_of[GOP_NDTYPES] = GOP_LAUNCH_ALL(reduce_square);

GOP_DEVICE double real(boolean x)
{
    return x.byte != 0;
}
template <typename T> GOP_DEVICE double real(T x)
{
    return (double)x;
}

template <typename E> struct mean_map {
    typedef E T;
    typedef sum_fold<double> F;
    static GOP_DEVICE double turn(E x, int64_t, int) { return real(x); }
};

template <typename T> constexpr reduce_launchers reduce_mean = reduce_launchers_of<mean_map<T>>;

const reduce_launchers reduce_mean_of[GOP_NDTYPES] = {
    reduce_mean<boolean>,  reduce_mean<int8_t>,   reduce_mean<int16_t>,
    reduce_mean<int32_t>,  reduce_mean<int64_t>,  reduce_mean<uint8_t>,
    reduce_mean<uint16_t>, reduce_mean<uint32_t>, reduce_mean<uint64_t>,
};
