/*
 * reduce_extreme.cu - min and max; any and all, which are the max and min of truth.
 */
#include "cuda/reduce_rows.h"

template <typename E> struct extreme_map {
    typedef E T;
    typedef min_fold<decltype(key_of(E(), 0))> F;
    static GOP_DEVICE typename F::acc turn(E x, int64_t, int twist) { return key_of(x, twist); }
};

template <typename T> constexpr reduce_launchers reduce_extreme =
    reduce_launchers_of<extreme_map<T>>;

/* Complex ones are read back from their positions: reduce_position.cu. */
const reduce_launchers reduce_extreme_of[GOP_NDTYPES] = {
    reduce_extreme<boolean>,  reduce_extreme<int8_t>,   reduce_extreme<int16_t>,
    reduce_extreme<int32_t>,  reduce_extreme<int64_t>,  reduce_extreme<uint8_t>,
    reduce_extreme<uint16_t>, reduce_extreme<uint32_t>, reduce_extreme<uint64_t>,
    reduce_extreme<float16>,  reduce_extreme<bfloat16>, reduce_extreme<float>,
    reduce_extreme<double>,
};

/* ---- any, all: an element is true unless its bits, without the signs of zeros, are 0 ---- */

struct word128 {
    uint64_t half[2];
};
GOP_DEVICE bool is_true(uint64_t bits, uint64_t mask)
{
    return (bits & mask) != 0;
}
GOP_DEVICE bool is_true(word128 bits, uint64_t mask)
{
    return ((bits.half[0] | bits.half[1]) & mask) != 0;
}

/* By the bytes of an element, and of each real number in it: its sign does not count. */
template <typename W, int REAL> struct truth_map {
    typedef W T;
    typedef min_fold<int32_t> F;
    static GOP_DEVICE int32_t turn(W x, int64_t, int twist)
    {
        const uint64_t mask = REAL == 0   ? ~0ull
                              : REAL == 2 ? 0x7fff7fff7fff7fffull
                              : REAL == 4 ? 0x7fffffff7fffffffull
                                          : 0x7fffffffffffffffull;
        return is_true(x, mask) ^ (twist & FLIP);
    }
};

template <typename W, int REAL> constexpr reduce_launchers reduce_truth =
    reduce_launchers_of<truth_map<W, REAL>>;

const reduce_launchers reduce_truth_of[GOP_NDTYPES] = {
    reduce_truth<uint8_t, 0>,  reduce_truth<uint8_t, 0>,  reduce_truth<uint16_t, 0>,
    reduce_truth<uint32_t, 0>, reduce_truth<uint64_t, 0>, reduce_truth<uint8_t, 0>,
    reduce_truth<uint16_t, 0>, reduce_truth<uint32_t, 0>, reduce_truth<uint64_t, 0>,
    reduce_truth<uint16_t, 2>, reduce_truth<uint16_t, 2>, reduce_truth<uint32_t, 4>,
    reduce_truth<uint64_t, 8>, reduce_truth<uint64_t, 4>, reduce_truth<word128, 8>,
};
