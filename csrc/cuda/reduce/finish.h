/*
 * finish.h - from leaves to the root of an output's tree, and to the element that is stored.
 */
#ifndef GOP_CUDA_REDUCE_FINISH_H
#define GOP_CUDA_REDUCE_FINISH_H

#include "cuda/reduce/fold.h"

/* ---- keys; a NaN comes first whatever the key_flags ---- */

GOP_DEVICE int32_t flip(int32_t key, int key_flags)
{
    return key ^ -(key_flags & FLIP);
}
GOP_DEVICE int64_t flip(int64_t key, int key_flags)
{
    return key ^ -(int64_t)(key_flags & FLIP);
}

template <typename T> GOP_DEVICE decltype(flip(T(), 0)) key_of(T x, int key_flags)
{
    return flip(x, key_flags);
}
GOP_DEVICE int32_t key_of(boolean x, int key_flags)
{
    return flip(x.byte != 0, key_flags);
}
GOP_DEVICE int32_t key_of(uint32_t x, int key_flags)
{
    return flip((int32_t)(x ^ 0x80000000u), key_flags);
}
GOP_DEVICE int64_t key_of(uint64_t x, int key_flags)
{
    return flip((int64_t)(x ^ 1ull << 63), key_flags);
}
GOP_DEVICE int32_t key_of(float x, int key_flags)
{
    const uint32_t bits =
        gop_float_to_bits(key_flags & VALUE ? x + 0.0f : x); /* -0 + 0 is +0 */
    const int32_t key = (int32_t)(bits ^ (bits >> 31 ? 0x7fffffffu : 0u));
    return x != x ? INT32_MIN : flip(key, key_flags);
}
GOP_DEVICE int32_t key_of(float16 x, int key_flags)
{
    return key_of(load(x), key_flags);
}
GOP_DEVICE int32_t key_of(bfloat16 x, int key_flags)
{
    return key_of(load(x), key_flags);
}
GOP_DEVICE int64_t key_of(double x, int key_flags)
{
    const double y = key_flags & VALUE ? x + 0.0 : x;
    uint64_t bits;
    __builtin_memcpy(&bits, &y, 8);
    const int64_t key = (int64_t)(bits ^ (bits >> 63 ? 0x7fffffffffffffffu : 0u));
    return x != x ? INT64_MIN : flip(key, key_flags);
}
/* Complex numbers by real part, then imaginary part; a NaN in either makes a NaN. */
GOP_DEVICE int64_t key_of(complex64 x, int key_flags)
{
    if (x.re != x.re || x.im != x.im) return INT64_MIN;
    const uint32_t im = (uint32_t)key_of(x.im, key_flags | VALUE) ^ 0x80000000u;
    return (int64_t)((uint64_t)(uint32_t)key_of(x.re, key_flags | VALUE) << 32 | im);
}
GOP_DEVICE key128 key_of(complex128 x, int key_flags)
{
    if (x.re != x.re || x.im != x.im) return {INT64_MIN, 0};
    return {key_of(x.re, key_flags | VALUE),
            (uint64_t)key_of(x.im, key_flags | VALUE) ^ 0x8000000000000000u};
}

/* Output o's place, found once for all types that may be stored: a launch waits for its code.
 */
template <typename G> GOP_DEVICE int64_t out_of(const reduce_args_of<G> &r, int64_t o)
{
    return r.dense ? o : place_of(r.g, 0, r.g.kept, o).out;
}
template <typename G, typename T>
GOP_DEVICE void put(const reduce_args_of<G> &r, int64_t at, T value)
{
    static_cast<T *>(r.out)[at] = value;
}

/* ---- sums, products and means ---- */

template <typename R> GOP_DEVICE R divide(R value, int64_t count)
{
    return value / R(count);
}
GOP_DEVICE uint64_t divide(uint64_t value, int64_t)
{
    return value;
} /* never asked for */
template <typename P> GOP_DEVICE complex<P> divide(complex<P> value, int64_t count)
{
    return {value.re / P(count), value.im / P(count)};
}

GOP_DEVICE void take(float &to, const gop_scalar &s)
{
    to = float(s.f[0]);
}
GOP_DEVICE void take(double &to, const gop_scalar &s)
{
    to = s.f[0];
}
GOP_DEVICE void take(uint64_t &to, const gop_scalar &s)
{
    to = s.u;
}
template <typename P> GOP_DEVICE void take(complex<P> &to, const gop_scalar &s)
{
    to = {P(s.f[0]), P(s.f[1])};
}

/* A root that nothing else is added to. */
template <typename R> GOP_DEVICE R plus_zero(R value, float zero)
{
    return add(value, R(zero));
}
template <typename P> GOP_DEVICE complex<P> plus_zero(complex<P> value, float zero)
{
    return add(value, {P(zero), P(zero)});
}

template <typename G, typename R>
GOP_DEVICE R total(const reduce_args_of<G> &r, int64_t o, R value)
{
    if (!r.has_initial) value = plus_zero(value, r.zero);
    if (r.op == GOP_MEAN) return divide(value, r.counts ? r.counts[o] : r.g.count);
    if (!r.has_initial) return value;
    R initial;
    take(initial, r.initial);
    return r.op == GOP_PROD ? multiply(value, initial) : add(value, initial);
}

template <typename G, typename R>
GOP_DEVICE void finish(const reduce_args_of<G> &r, int64_t o, R value)
{
    if (r.as_is) put(r, o, plus_zero(value, r.zero));
    else put(r, out_of(r, o), total(r, o, value));
}
template <typename G> GOP_DEVICE void finish(const reduce_args_of<G> &r, int64_t o, float value)
{
    if (r.as_is) {
        put(r, o, plus_zero(value, r.zero));
        return;
    }
    const float rounded = total(r, o, value);
    const int64_t at = out_of(r, o);
    if (r.out_dtype == GOP_FLOAT16) put(r, at, store<float16>(rounded));
    else if (r.out_dtype == GOP_BFLOAT16) put(r, at, store<bfloat16>(rounded));
    else put(r, at, rounded);
}

/* ---- minima, maxima, any, all: back from keys ---- */

GOP_DEVICE float from_key(int32_t key, int key_flags)
{
    const uint32_t bits = (uint32_t)flip(key, key_flags);
    return gop_bits_to_float(key == INT32_MIN ? 0x7fc00000u
                                              : bits ^ (bits >> 31 ? 0x7fffffffu : 0u));
}
GOP_DEVICE double from_key(int64_t key, int key_flags)
{
    uint64_t bits = (uint64_t)flip(key, key_flags);
    bits =
        key == INT64_MIN ? 0x7ff8000000000000u : bits ^ (bits >> 63 ? 0x7fffffffffffffffu : 0u);
    double x;
    __builtin_memcpy(&x, &bits, 8);
    return x;
}

template <typename G> GOP_DEVICE void finish(const reduce_args_of<G> &r, int64_t o, int32_t key)
{
    const int64_t at = out_of(r, o);
    if (r.op == GOP_ANY || r.op == GOP_ALL) {
        put(r, at, (uint8_t)((key == 0) == (r.op == GOP_ANY)));
        return;
    }
    const bool half = r.dtype == GOP_FLOAT16 || r.dtype == GOP_BFLOAT16;
    if (half || r.dtype == GOP_FLOAT32) {
        float initial = float(r.initial.f[0]);
        if (r.dtype == GOP_FLOAT16) initial = load(store<float16>(initial));
        if (r.dtype == GOP_BFLOAT16) initial = load(store<bfloat16>(initial));
        if (r.has_initial) key = min_fold<int32_t>::fold(key, key_of(initial, r.key_flags));
        const float value = from_key(key, r.key_flags);
        if (r.dtype == GOP_FLOAT16) put(r, at, store<float16>(value));
        else if (r.dtype == GOP_BFLOAT16) put(r, at, store<bfloat16>(value));
        else put(r, at, value);
        return;
    }
    const int32_t offset = r.dtype == GOP_UINT32 ? INT32_MIN : 0;
    const int32_t initial = r.dtype == GOP_BOOL ? r.initial.u != 0 : (int32_t)r.initial.u;
    if (r.has_initial) key = min_fold<int32_t>::fold(key, flip(initial ^ offset, r.key_flags));
    const int32_t value = flip(key, r.key_flags) ^ offset;
    if (r.dtype == GOP_INT32 || r.dtype == GOP_UINT32) put(r, at, value);
    else if (r.dtype == GOP_INT16 || r.dtype == GOP_UINT16) put(r, at, (int16_t)value);
    else put(r, at, (int8_t)value);
}

template <typename G> GOP_DEVICE void finish(const reduce_args_of<G> &r, int64_t o, int64_t key)
{
    const int64_t at = out_of(r, o);
    if (r.dtype == GOP_FLOAT64) {
        const double initial = r.initial.f[0];
        if (r.has_initial) key = min_fold<int64_t>::fold(key, key_of(initial, r.key_flags));
        put(r, at, from_key(key, r.key_flags));
        return;
    }
    const int64_t offset = r.dtype == GOP_UINT64 ? INT64_MIN : 0;
    const int64_t initial = flip(r.initial.i ^ offset, r.key_flags);
    if (r.has_initial) key = min_fold<int64_t>::fold(key, initial);
    put(r, at, flip(key, r.key_flags) ^ offset);
}

/* ---- positions; complex minima and maxima are read back from where they were found ---- */

template <typename T, typename G, typename K>
GOP_DEVICE void finish_complex(const reduce_args_of<G> &r, int64_t o, best<K> found)
{
    T value;
    take(value, r.initial);
    const K initial = key_of(value, r.key_flags);
    /* NumPy compares initial first: it wins where equal. */
    if (!r.has_initial || (found.k != INT64_MAX && found.key < initial))
        value = static_cast<const T *>(
            r.a)[place_of(r.g, 0, r.g.kept, o).in +
                 place_of(r.g, r.g.kept, r.g.kept + r.g.reduced, found.k).in];
    put(r, out_of(r, o), value);
}

template <typename G>
GOP_DEVICE void finish(const reduce_args_of<G> &r, int64_t o, best<int64_t> found)
{
    if (r.op == GOP_ARGMIN || r.op == GOP_ARGMAX) put(r, out_of(r, o), found.k);
    else finish_complex<complex64>(r, o, found);
}
template <typename G>
GOP_DEVICE void finish(const reduce_args_of<G> &r, int64_t o, best<key128> found)
{
    if (r.op == GOP_ARGMIN || r.op == GOP_ARGMAX) put(r, out_of(r, o), found.k);
    else finish_complex<complex128>(r, o, found);
}

/* ---- N outputs side by side: stored at once where r.grouped allows ---- */

template <int N, typename R>
GOP_DEVICE void finish_each(const reduce_args &r, int64_t o, const R (&value)[N])
{
#pragma unroll 1
    for (int c = 0; c < N; c++) finish(r, o + c, pick<N>(value, c));
}

template <int N, typename T>
GOP_DEVICE void put_group(const reduce_args &r, int64_t o, const T (&value)[N])
{
    enum { PIECE = 16 / sizeof(T) < N ? 16 / sizeof(T) : N };
    T *const out = static_cast<T *>(r.out) + out_of(r, o);
#pragma unroll
    for (int i = 0; i < N; i += PIECE) {
        group_of<T, PIECE> v;
#pragma unroll
        for (int c = 0; c < PIECE; c++) v.at[c] = value[i + c];
        store_group(out + i, v);
    }
}

template <typename T, int N, typename R>
GOP_DEVICE void put_totals(const reduce_args &r, int64_t o, const R (&value)[N])
{
    T v[N];
#pragma unroll
    for (int c = 0; c < N; c++) v[c] = store<T>(total(r, o + c, value[c]));
    put_group(r, o, v);
}

/* Keys of 8 bytes and up; complex minima and maxima. */
template <int N, typename R>
GOP_DEVICE void finish_group(const reduce_args &r, int64_t o, const R (&value)[N])
{
    finish_each(r, o, value);
}
template <int N>
GOP_DEVICE void finish_group(const reduce_args &r, int64_t o, const float (&value)[N])
{
    if (!r.grouped) finish_each(r, o, value);
    else if (r.out_dtype == GOP_FLOAT16) put_totals<float16>(r, o, value);
    else if (r.out_dtype == GOP_BFLOAT16) put_totals<bfloat16>(r, o, value);
    else put_totals<float>(r, o, value);
}
template <int N>
GOP_DEVICE void finish_group(const reduce_args &r, int64_t o, const double (&value)[N])
{
    if (r.grouped) put_totals<double>(r, o, value);
    else finish_each(r, o, value);
}
template <int N>
GOP_DEVICE void finish_group(const reduce_args &r, int64_t o, const uint64_t (&value)[N])
{
    if (r.grouped) put_totals<uint64_t>(r, o, value);
    else finish_each(r, o, value);
}
template <int N, typename P>
GOP_DEVICE void finish_group(const reduce_args &r, int64_t o, const complex<P> (&value)[N])
{
    if (r.grouped) put_totals<complex<P>>(r, o, value);
    else finish_each(r, o, value);
}
template <int N>
GOP_DEVICE void finish_group(const reduce_args &r, int64_t o, const int32_t (&key)[N])
{
    const bool extreme = r.op == GOP_MIN || r.op == GOP_MAX;
    if (!r.grouped || !extreme || r.dtype != GOP_FLOAT32 || r.has_initial)
        return finish_each(r, o, key);
    float v[N];
#pragma unroll
    for (int c = 0; c < N; c++) v[c] = from_key(key[c], r.key_flags);
    put_group(r, o, v);
}
template <int N, typename K>
GOP_DEVICE void finish_group(const reduce_args &r, int64_t o, const best<K> (&found)[N])
{
    if (!r.grouped || (r.op != GOP_ARGMIN && r.op != GOP_ARGMAX))
        return finish_each(r, o, found);
    int64_t k[N];
#pragma unroll
    for (int c = 0; c < N; c++) k[c] = found[c].k;
    put_group(r, o, k);
}

template <typename G, typename R>
GOP_DEVICE void conclude(const reduce_args_of<G> &r, int64_t o, int64_t leaf, R value)
{
    if (r.leaves == 1) finish(r, o, value);
    else static_cast<R *>(r.partial)[o * r.leaves + leaf] = value;
}

/* ---- tree, leaves: neighbours fold ------------------------------------------------------
 * A thread folds 32 bytes of neighbours, then a warp what its threads have, then a block what
 * its warps have. Where one warp is enough for an output a block has eight outputs. */

template <typename F> constexpr int leaves_of_thread = SLOT / sizeof(typename F::acc);

template <typename F, typename G> __global__ void __launch_bounds__(1024)
    reduce_tree_leaves_kernel(const __grid_constant__ reduce_args_of<G> r,
                              const typename F::acc *leaf, int64_t leaves, int warps)
{
    typedef typename F::acc R;
    enum { OWN = leaves_of_thread<F> };
    __shared__ R node[32];
    const int t = threadIdx.x % 32, warp = threadIdx.x / 32;
    const bool together = warps > 1;
    const int64_t item = together ? blockIdx.x : blockIdx.x * (int64_t)(blockDim.x / 32) + warp;
    const int64_t o = r.leaves == 1 ? item : item / r.leaves; /* r.leaves: after this fold */
    const int64_t part = item - o * r.leaves;
    const int64_t from = ((together ? part * warps + warp : part) * 32 + t) * OWN;
    const int64_t left = item < r.g.outputs * r.leaves ? leaves - from : 0;
    const int n = left < OWN ? (int)left : OWN;
    const R *own = leaf + o * leaves + from;
    R value[OWN];
    gop_wait_for_kernel_before();
#pragma unroll
    for (int i = 0; i < OWN; i++) value[i] = i < n ? own[i] : F::none();
    fold_neighbours<F, OWN>(value);
    R mine = value[0];
    for (int d = 1; d < 32; d *= 2) mine = F::fold(mine, shuffle_down(mine, d, 32));
    if (together) {
        if (t == 0) node[warp] = mine;
        __syncthreads();
        if (warp > 0) return;
        mine = t < warps ? node[t] : F::none();
        for (int d = 1; d < 32; d *= 2) mine = F::fold(mine, shuffle_down(mine, d, 32));
    }
    if (t == 0 && n > 0) conclude(r, o, part, mine);
}

/* Folds r.leaves leaves to an output, which stand in r.partial, into the outputs. */
template <typename F, typename G>
static gop_status reduce_fold_leaves(gop_ctx *ctx, reduce_args_of<G> r)
{
    enum { OF_WARP = 32 * leaves_of_thread<F> };
    char *const scratch[2] = {(char *)r.partial,
                              (char *)r.partial + r.g.outputs * r.leaves * SLOT};
    for (int from = 0; r.leaves > 1; from ^= 1) {
        const int64_t leaves = r.leaves;
        const int warps = leaves < 32 * OF_WARP ? (int)blocks_for(leaves, OF_WARP) : 32;
        r.leaves = blocks_for(leaves, warps * OF_WARP);
        r.partial = scratch[from ^ 1];
        const int64_t items = r.g.outputs * r.leaves;
        GOP_TRY(GOP_LAUNCH_EARLY(ctx, (reduce_tree_leaves_kernel<F, G>),
                                 dim3((unsigned)blocks_for(items, warps == 1 ? 8 : 1)),
                                 dim3(warps == 1 ? 256 : 32 * warps), 0, r,
                                 (const typename F::acc *)scratch[from], leaves, warps));
    }
    return GOP_OK;
}

#endif
