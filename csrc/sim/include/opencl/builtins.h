/*
 * builtins.h - OpenCL C's functions: arithmetic of scalars and vectors, conversions, atomics.
 *
 * mad() rounds twice here. Where OpenCL leaves the last bits to the device, they may differ
 * here too.
 */
#ifndef GOP_OPENCL_BUILTINS_H
#define GOP_OPENCL_BUILTINS_H

/* ---- scalars ---- */

GOP_DEVICE void mem_fence(unsigned)
{
    __threadfence_block();
}
GOP_DEVICE void read_mem_fence(unsigned)
{
    __threadfence_block();
}
GOP_DEVICE void write_mem_fence(unsigned)
{
    __threadfence_block();
}

#define GOP_CL_OF_FLOATS(F)                                                                    \
    GOP_DEVICE F mad(F a, F b, F c)                                                            \
    {                                                                                          \
        return a * b + c;                                                                      \
    }                                                                                          \
    GOP_DEVICE F mix(F a, F b, F t)                                                            \
    {                                                                                          \
        return a + (b - a) * t;                                                                \
    }                                                                                          \
    GOP_DEVICE F step(F edge, F x)                                                             \
    {                                                                                          \
        return x < edge ? (F)0 : (F)1;                                                         \
    }                                                                                          \
    GOP_DEVICE F smoothstep(F low, F high, F x)                                                \
    {                                                                                          \
        const F part = (x - low) / (high - low), t = part < 0 ? 0 : part > 1 ? 1 : part;       \
        return t * t * (3 - 2 * t);                                                            \
    }                                                                                          \
    GOP_DEVICE F sign(F x)                                                                     \
    {                                                                                          \
        return x > 0 ? (F)1 : x < 0 ? (F)-1 : x != x ? (F)0 : x;                               \
    }                                                                                          \
    GOP_DEVICE F degrees(F x)                                                                  \
    {                                                                                          \
        return (F)(180 / M_PI) * x;                                                            \
    }                                                                                          \
    GOP_DEVICE F radians(F x)                                                                  \
    {                                                                                          \
        return (F)(M_PI / 180) * x;                                                            \
    }
GOP_CL_OF_FLOATS(float)
GOP_CL_OF_FLOATS(double)
GOP_DEVICE float rsqrt(float x)
{
    return 1 / sqrtf(x);
}
#undef exp10
#define exp10(x) pow((__typeof__((x)*1))10, x)
#define half_sqrt sqrt
#define native_sqrt sqrt
#define native_rsqrt rsqrt
#define native_sin sin
#define native_cos cos
#define native_tan tan
#define native_exp exp
#define native_exp2 exp2
#define native_log log
#define native_log2 log2
#define native_powr pow
#define powr pow
#define half_powr pow
#define native_exp10 exp10
#define half_recip(x) (1 / (x))
#define half_divide(a, b) ((a) / (b))
#define native_recip(x) (1 / (x))
#define native_divide(a, b) ((a) / (b))

#define GOP_CL_OF_INTEGERS(I, U)                                                               \
    GOP_DEVICE U abs_(I x)                                                                     \
    {                                                                                          \
        return x < 0 ? (U)(0 - (U)x) : (U)x;                                                   \
    }                                                                                          \
    GOP_DEVICE U abs_diff_(I a, I b)                                                           \
    {                                                                                          \
        return a < b ? (U)((U)b - (U)a) : (U)((U)a - (U)b);                                    \
    }                                                                                          \
    GOP_DEVICE I clz(I x)                                                                      \
    {                                                                                          \
        int zeros = 8 * (int)sizeof(I);                                                        \
        for (U rest = (U)x; rest; rest = (U)(rest >> 1)) zeros--;                              \
        return (I)zeros;                                                                       \
    }                                                                                          \
    GOP_DEVICE I popcount(I x)                                                                 \
    {                                                                                          \
        return (I)__builtin_popcountl((unsigned long)(U)x);                                    \
    }                                                                                          \
    GOP_DEVICE I rotate(I x, I by)                                                             \
    {                                                                                          \
        const int bits = 8 * (int)sizeof(I), left = (int)((U)by % (U)bits);                    \
        return left ? (I)((U)((U)x << left) | (U)((U)x >> (bits - left))) : x;                 \
    }
#define GOP_CL_INTEGERS(make)                                                                  \
    make(char, uchar) make(uchar, uchar) make(short, ushort) make(ushort, ushort)              \
        make(int, unsigned) make(unsigned, unsigned) make(long, unsigned long)                 \
            make(unsigned long, unsigned long)
GOP_CL_INTEGERS(GOP_CL_OF_INTEGERS)
GOP_DEVICE int mul24(int a, int b)
{
    return __mul24(a, b);
}
GOP_DEVICE unsigned mul24(unsigned a, unsigned b)
{
    return __umul24(a, b);
}
template <typename I> GOP_DEVICE I mad24(I a, I b, I c)
{
    return mul24(a, b) + c;
}
#define GOP_CL_MUL_HI(I, U)                                                                    \
    GOP_DEVICE I mul_hi(I a, I b)                                                              \
    {                                                                                          \
        const int bits = 8 * (int)sizeof(I);                                                   \
        return (I)-1 < 0 ? (I)((__int128)a * b >> bits)                                        \
                         : (I)((unsigned __int128)a * b >> bits);                              \
    }
GOP_CL_INTEGERS(GOP_CL_MUL_HI)
/* Sums and differences that end at the type's bounds; averages, rounded down and (r) up. */
#define GOP_CL_SATURATED(I, U)                                                                 \
    GOP_DEVICE I add_sat(I a, I b)                                                             \
    {                                                                                          \
        I sum;                                                                                 \
        if (!__builtin_add_overflow(a, b, &sum)) return sum;                                   \
        return (I)-1 > 0 ? (I) ~(I)0 : (I)((U)((U) ~(U)0 >> 1) + (a < 0));                     \
    }                                                                                          \
    GOP_DEVICE I sub_sat(I a, I b)                                                             \
    {                                                                                          \
        I rest;                                                                                \
        if (!__builtin_sub_overflow(a, b, &rest)) return rest;                                 \
        return (I)-1 > 0 ? (I)0 : (I)((U)((U) ~(U)0 >> 1) + (a < 0));                          \
    }                                                                                          \
    GOP_DEVICE I hadd(I a, I b)                                                                \
    {                                                                                          \
        return (I)((a >> 1) + (b >> 1) + (a & b & 1));                                         \
    }                                                                                          \
    GOP_DEVICE I rhadd(I a, I b)                                                               \
    {                                                                                          \
        return (I)((a >> 1) + (b >> 1) + ((a | b) & 1));                                       \
    }
GOP_CL_INTEGERS(GOP_CL_SATURATED)
/* 1 of numbers, -1 of the elements of vectors. C's macros of these names are functions there.
 */
#define GOP_CL_RELATION(name, relation)                                                        \
    GOP_DEVICE int name(float a, float b)                                                      \
    {                                                                                          \
        return relation;                                                                       \
    }                                                                                          \
    GOP_DEVICE int name(double a, double b)                                                    \
    {                                                                                          \
        return relation;                                                                       \
    }                                                                                          \
    template <typename T, int N>                                                               \
    GOP_DEVICE auto name(gop_vec<T, N> a, gop_vec<T, N> b)->decltype(a == b)                   \
    {                                                                                          \
        return relation;                                                                       \
    }
GOP_CL_RELATION(gop_cl_isequal, a == b)
GOP_CL_RELATION(gop_cl_isnotequal, a != b)
GOP_CL_RELATION(gop_cl_isless, a < b)
GOP_CL_RELATION(gop_cl_islessequal, a <= b)
GOP_CL_RELATION(gop_cl_isgreater, a > b)
GOP_CL_RELATION(gop_cl_isgreaterequal, a >= b)
GOP_CL_RELATION(gop_cl_islessgreater, (a < b) | (a > b))
#define isequal gop_cl_isequal
#define isnotequal gop_cl_isnotequal
#define isless gop_cl_isless
#define islessequal gop_cl_islessequal
#define isgreater gop_cl_isgreater
#define isgreaterequal gop_cl_isgreaterequal
#define islessgreater gop_cl_islessgreater
#define abs(x) abs_(x)
#define abs_diff(a, b) abs_diff_(a, b)

#define GOP_CL_CLAMP(T, U)                                                                     \
    GOP_DEVICE T clamp(T x, T low, T high)                                                     \
    {                                                                                          \
        return x < low ? low : high < x ? high : x;                                            \
    }                                                                                          \
    GOP_DEVICE T select(T no, T yes, U which)                                                  \
    {                                                                                          \
        return which ? yes : no;                                                               \
    }
GOP_CL_INTEGERS(GOP_CL_CLAMP)
GOP_CL_CLAMP(float, int)
GOP_CL_CLAMP(double, long)
/* C's comparisons are ints, C++'s are bools. */
GOP_DEVICE int select(int no, int yes, bool which)
{
    return which ? yes : no;
}
GOP_DEVICE unsigned select(unsigned no, unsigned yes, bool which)
{
    return which ? yes : no;
}
#include "opencl/numbers.h"

/* ---- the same for each element of vectors ---- */

#define GOP_CL_EACH(...)                                                                       \
    {                                                                                          \
        gop_vec<T, N> made;                                                                    \
        for (int i = 0; i < N; i++) made.v[i] = __VA_ARGS__;                                   \
        return made;                                                                           \
    }
#define GOP_CL_ONE(f)                                                                          \
    template <typename T, int N> GOP_DEVICE gop_vec<T, N> f(gop_vec<T, N> a)                   \
        GOP_CL_EACH(f(a.v[i]))
#define GOP_CL_TWO(f)                                                                          \
    template <typename T, int N> GOP_DEVICE gop_vec<T, N> f(gop_vec<T, N> a, gop_vec<T, N> b)  \
        GOP_CL_EACH(f(a.v[i], b.v[i])) template <typename T, int N>                            \
        GOP_DEVICE gop_vec<T, N> f(gop_vec<T, N> a, typename gop_cl_itself<T>::type b)         \
            GOP_CL_EACH(f(a.v[i], b))
#define GOP_CL_THREE(f)                                                                        \
    template <typename T, int N>                                                               \
    GOP_DEVICE gop_vec<T, N> f(gop_vec<T, N> a, gop_vec<T, N> b, gop_vec<T, N> c)              \
        GOP_CL_EACH(f(a.v[i], b.v[i], c.v[i]))
#define GOP_CL_BOUNDS(f)                                                                       \
    template <typename T, int N>                                                               \
    GOP_DEVICE gop_vec<T, N> f(gop_vec<T, N> a, typename gop_cl_itself<T>::type b,             \
                               typename gop_cl_itself<T>::type c) GOP_CL_EACH(f(a.v[i], b, c))
/* Where some operands are numbers, which OpenCL's compilers widen. */
#define GOP_CL_ITSELF typename gop_cl_itself<T>::type
#define GOP_CL_LAST(f)                                                                         \
    template <typename T, int N>                                                               \
    GOP_DEVICE gop_vec<T, N> f(gop_vec<T, N> a, gop_vec<T, N> b, GOP_CL_ITSELF c)              \
        GOP_CL_EACH(f(a.v[i], b.v[i], c))
#define GOP_CL_MIDDLE(f)                                                                       \
    template <typename T, int N>                                                               \
    GOP_DEVICE gop_vec<T, N> f(gop_vec<T, N> a, GOP_CL_ITSELF b, gop_vec<T, N> c)              \
        GOP_CL_EACH(f(a.v[i], b, c.v[i]))
#define GOP_CL_FIRST(f)                                                                        \
    template <typename T, int N>                                                               \
    GOP_DEVICE gop_vec<T, N> f(GOP_CL_ITSELF a, gop_vec<T, N> b, gop_vec<T, N> c)              \
        GOP_CL_EACH(f(a, b.v[i], c.v[i]))
#define GOP_CL_AT(f)                                                                           \
    template <typename T, int N> GOP_DEVICE gop_vec<T, N> f(GOP_CL_ITSELF a, gop_vec<T, N> b)  \
        GOP_CL_EACH(f(a, b.v[i]))
#define GOP_CL_BETWEEN(f)                                                                      \
    template <typename T, int N>                                                               \
    GOP_DEVICE gop_vec<T, N> f(GOP_CL_ITSELF a, GOP_CL_ITSELF b, gop_vec<T, N> c)              \
        GOP_CL_EACH(f(a, b, c.v[i]))
GOP_CL_TWO(maxmag)
GOP_CL_TWO(minmag)
GOP_CL_THREE(bitselect)
GOP_CL_ONE(degrees)
GOP_CL_ONE(radians)
GOP_CL_ONE(sqrt)
GOP_CL_ONE(rsqrt)
GOP_CL_ONE(fabs)
GOP_CL_ONE(floor)
GOP_CL_ONE(ceil)
GOP_CL_ONE(trunc)
GOP_CL_ONE(rint)
GOP_CL_ONE(round)
GOP_CL_ONE(exp)
GOP_CL_ONE(exp2)
GOP_CL_ONE(log)
GOP_CL_ONE(log2)
GOP_CL_ONE(log10)
GOP_CL_ONE(sin)
GOP_CL_ONE(cos)
GOP_CL_ONE(tan)
GOP_CL_ONE(sign)
GOP_CL_ONE(clz)
GOP_CL_ONE(popcount)
GOP_CL_TWO(min)
GOP_CL_TWO(max)
GOP_CL_TWO(fmin)
GOP_CL_TWO(fmax)
GOP_CL_TWO(fmod)
GOP_CL_TWO(pow)
GOP_CL_TWO(atan2)
GOP_CL_TWO(hypot)
GOP_CL_TWO(step)
GOP_CL_TWO(mul24)
GOP_CL_TWO(rotate)
GOP_CL_TWO(mul_hi)
GOP_CL_TWO(add_sat)
GOP_CL_TWO(sub_sat)
GOP_CL_TWO(hadd)
GOP_CL_TWO(rhadd)
GOP_CL_THREE(fma)
GOP_CL_THREE(mad)
GOP_CL_THREE(mix)
GOP_CL_THREE(clamp)
GOP_CL_THREE(mad24)
GOP_CL_THREE(smoothstep)
GOP_CL_BOUNDS(clamp)
GOP_CL_BOUNDS(fma)
GOP_CL_BOUNDS(mad)
GOP_CL_LAST(fma)
GOP_CL_LAST(mad)
GOP_CL_MIDDLE(fma)
GOP_CL_MIDDLE(mad)
GOP_CL_FIRST(fma)
GOP_CL_FIRST(mad)
GOP_CL_AT(step)
GOP_CL_BETWEEN(smoothstep)

/* abs and abs_diff have unsigned results. */
#define GOP_CL_SIZES(I, U)                                                                     \
    template <int N> GOP_DEVICE gop_vec<U, N> abs_(gop_vec<I, N> x)                            \
    {                                                                                          \
        gop_vec<U, N> made;                                                                    \
        for (int i = 0; i < N; i++) made.v[i] = abs_(x.v[i]);                                  \
        return made;                                                                           \
    }                                                                                          \
    template <int N> GOP_DEVICE gop_vec<U, N> abs_diff_(gop_vec<I, N> a, gop_vec<I, N> b)      \
    {                                                                                          \
        gop_vec<U, N> made;                                                                    \
        for (int i = 0; i < N; i++) made.v[i] = abs_diff_(a.v[i], b.v[i]);                     \
        return made;                                                                           \
    }
GOP_CL_INTEGERS(GOP_CL_SIZES)

/* The highest bit of a vector's element is its truth, and unsigned elements have one too. */
template <typename M> GOP_DEVICE bool gop_cl_is_true(M element)
{
    return element >> (8 * (int)sizeof(M) - 1) & 1;
}
template <typename T, int N, typename M>
GOP_DEVICE gop_vec<T, N> select(gop_vec<T, N> no, gop_vec<T, N> yes, gop_vec<M, N> which)
    GOP_CL_EACH(gop_cl_is_true(which.v[i]) ? yes.v[i] : no.v[i]) template <typename T, int N>
    GOP_DEVICE gop_vec<T, N> mix(gop_vec<T, N> a, gop_vec<T, N> b,
                                 typename gop_cl_itself<T>::type t)
        GOP_CL_EACH(mix(a.v[i], b.v[i], t)) template <typename M, int N>
        GOP_DEVICE int any(gop_vec<M, N> truths)
{
    int found = 0;
    for (int i = 0; i < N; i++) found |= gop_cl_is_true(truths.v[i]);
    return found;
}
template <typename M, int N> GOP_DEVICE int all(gop_vec<M, N> truths)
{
    int found = 1;
    for (int i = 0; i < N; i++) found &= gop_cl_is_true(truths.v[i]);
    return found;
}

/* The elements that a mask counts, of one vector or of two. */
template <typename T, int N, typename M, int K>
GOP_DEVICE gop_vec<T, K> shuffle(gop_vec<T, N> a, gop_vec<M, K> mask)
{
    gop_vec<T, K> made;
    for (int i = 0; i < K; i++) made.v[i] = a.v[mask.v[i] & (N - 1)];
    return made;
}
template <typename T, int N, typename M, int K>
GOP_DEVICE gop_vec<T, K> shuffle2(gop_vec<T, N> a, gop_vec<T, N> b, gop_vec<M, K> mask)
{
    gop_vec<T, K> made;
    for (int i = 0; i < K; i++) made.v[i] = (mask.v[i] & N ? b : a).v[mask.v[i] & (N - 1)];
    return made;
}
template <typename T> GOP_DEVICE void prefetch(const T *, size_t) {}

/* ---- geometry ---- */

template <typename T, int N> GOP_DEVICE T dot(gop_vec<T, N> a, gop_vec<T, N> b)
{
    T sum = a.v[0] * b.v[0];
    for (int i = 1; i < N; i++) sum += a.v[i] * b.v[i];
    return sum;
}
template <typename T, int N> GOP_DEVICE T length(gop_vec<T, N> a)
{
    return sqrt(dot(a, a));
}
template <typename T, int N> GOP_DEVICE T distance(gop_vec<T, N> a, gop_vec<T, N> b)
{
    return length(a - b);
}
template <typename T, int N> GOP_DEVICE gop_vec<T, N> normalize(gop_vec<T, N> a)
{
    return a / length(a);
}
#define fast_length length
#define fast_distance distance
#define fast_normalize normalize
template <typename T> GOP_DEVICE gop_vec<T, 3> cross(gop_vec<T, 3> a, gop_vec<T, 3> b)
{
    return gop_vec<T, 3>(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
}
template <typename T> GOP_DEVICE gop_vec<T, 4> cross(gop_vec<T, 4> a, gop_vec<T, 4> b)
{
    return gop_vec<T, 4>(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x,
                         (T)0);
}

/* ---- other types: as_float(x), convert_int4_sat(x), which opencl_c.py rewrites ---- */

template <typename To, typename From> GOP_DEVICE To gop_cl_as(const From &from)
{
    static_assert(sizeof(To) == sizeof(From), "as_type: the types have different sizes");
    To made;
    __builtin_memcpy((void *)&made, (const void *)&from, sizeof made);
    return made;
}
enum gop_cl_mode { gop_cl_rtz, gop_cl_rte, gop_cl_rtp, gop_cl_rtn };
template <typename F> GOP_DEVICE F gop_cl_rounded(gop_cl_mode mode, F x)
{
    return (F)(mode == gop_cl_rte   ? rint((double)x)
               : mode == gop_cl_rtp ? ceil((double)x)
               : mode == gop_cl_rtn ? floor((double)x)
                                    : trunc((double)x));
}
template <typename To, typename From> GOP_DEVICE To gop_cl_float(gop_cl_mode mode, From from)
{
    constexpr bool to_double = sizeof(To) == 8, from_float = (From)0.5f != (From)0;
    const gop_sim_mode way = mode == gop_cl_rtp   ? GOP_SIM_UP
                             : mode == gop_cl_rtn ? GOP_SIM_DOWN
                                                  : GOP_SIM_TO_ZERO;
    if (mode == gop_cl_rte || (from_float && to_double)) return (To)from;
    if constexpr (from_float) return (To)gop_sim_float_of_double(way, from);
    else if constexpr ((From)-1 < 0)
        return to_double ? (To)gop_sim_double_of_signed(way, from)
                         : (To)gop_sim_float_of_signed(way, from);
    else
        return to_double ? (To)gop_sim_double_of_unsigned(way, from)
                         : (To)gop_sim_float_of_unsigned(way, from);
}
template <typename To, typename From>
GOP_DEVICE To gop_cl_number(gop_cl_mode mode, bool saturates, From from)
{
    constexpr bool to_float = (To)0.5f != (To)0, from_float = (From)0.5f != (From)0;
    if constexpr (to_float) return gop_cl_float<To>(mode, from);
    else if constexpr (from_float) {
        const From whole = gop_cl_rounded(mode, from);
        if (!saturates) return (To)whole;
        return whole != whole ? (To)0 : gop_sim_to_integer<To>(whole);
    } else {
        const To most = (To) ~((To)-1 < 0 ? (To)1 << (8 * sizeof(To) - 1) : 0), least = ~most;
        if (saturates && (__int128)from > (__int128)most) return most;
        if (saturates && (__int128)from < (__int128)least) return least;
        return (To)from;
    }
}
template <typename To> struct gop_cl_convert {
    template <typename From> static GOP_DEVICE To from(gop_cl_mode mode, bool saturates, From x)
    {
        return gop_cl_number<To>(mode, saturates, x);
    }
};
template <typename To, int N> struct gop_cl_convert<gop_vec<To, N>> {
    template <typename From>
    static GOP_DEVICE gop_vec<To, N> from(gop_cl_mode mode, bool saturates, gop_vec<From, N> x)
    {
        gop_vec<To, N> made;
        for (int i = 0; i < N; i++) made.v[i] = gop_cl_number<To>(mode, saturates, x.v[i]);
        return made;
    }
};

/* ---- vectors of elements that need no alignment ---- */

#define GOP_CL_LOADS(N)                                                                        \
    template <typename T> GOP_DEVICE auto vload##N(size_t offset, const T *p)                  \
    {                                                                                          \
        gop_vec<T, N> made;                                                                    \
        for (int i = 0; i < N; i++) made.v[i] = p[N * offset + (size_t)i];                     \
        return made;                                                                           \
    }                                                                                          \
    template <typename T> GOP_DEVICE void vstore##N(gop_vec<T, N> from, size_t offset, T *p)   \
    {                                                                                          \
        for (int i = 0; i < N; i++) p[N * offset + (size_t)i] = from.v[i];                     \
    }
GOP_CL_LOADS(2)
GOP_CL_LOADS(3)
GOP_CL_LOADS(4)
GOP_CL_LOADS(8)
GOP_CL_LOADS(16)
GOP_DEVICE float vload_half(size_t offset, const half *p)
{
    return gop_f16_load(p[offset].bits);
}
GOP_DEVICE void vstore_half(float from, size_t offset, half *p)
{
    p[offset].bits = gop_f16_store(from);
}
#define vstore_half_rte vstore_half

/* ---- atomics, of 32 and 64 bits ---- */

template <typename T, bool of_floats> GOP_DEVICE void gop_cl_check_atomic()
{
    static_assert(sizeof(T) >= 4, "an atomic is of 4 or 8 bytes");
    static_assert(of_floats || (T)0.5 == (T)0, "but for atomic_xchg, atomics are of integers");
}
#define GOP_CL_ATOMIC(name, of_floats, ...)                                                    \
    template <typename T>                                                                      \
    GOP_DEVICE T atomic_##name(volatile T *p, typename gop_cl_itself<T>::type value)           \
    {                                                                                          \
        gop_cl_check_atomic<T, of_floats>();                                                   \
        return gop_sim_atomic(const_cast<T *>(p),                                              \
                              [=](T old) -> T { return (T)(__VA_ARGS__); });                   \
    }
GOP_CL_ATOMIC(add, false, old + value)
GOP_CL_ATOMIC(sub, false, old - value)
GOP_CL_ATOMIC(xchg, true, (void(old), value))
GOP_CL_ATOMIC(min, false, value < old ? value : old)
GOP_CL_ATOMIC(max, false, old < value ? value : old)
GOP_CL_ATOMIC(and, false, old &value)
GOP_CL_ATOMIC(or, false, old | value)
GOP_CL_ATOMIC(xor, false, old ^ value)
template <typename T> GOP_DEVICE T atomic_inc(volatile T *p)
{
    return atomic_add(p, (T)1);
}
template <typename T> GOP_DEVICE T atomic_dec(volatile T *p)
{
    return atomic_sub(p, (T)1);
}
template <typename T> GOP_DEVICE T atomic_cmpxchg(volatile T *p,
                                                  typename gop_cl_itself<T>::type compare,
                                                  typename gop_cl_itself<T>::type value)
{
    gop_cl_check_atomic<T, false>();
    return gop_sim_atomic(
        const_cast<T *>(p), [=](T old) -> T { return old == compare ? value : old; }, true);
}
#define atom_add atomic_add
#define atom_sub atomic_sub
#define atom_xchg atomic_xchg
#define atom_min atomic_min
#define atom_max atomic_max
#define atom_and atomic_and
#define atom_or atomic_or
#define atom_xor atomic_xor
#define atom_inc atomic_inc
#define atom_dec atomic_dec
#define atom_cmpxchg atomic_cmpxchg

#endif
