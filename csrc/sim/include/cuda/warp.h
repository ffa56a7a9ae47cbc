/*
 * warp.h - CUDA's built-in functions: barriers, shuffles, votes, atomics, arithmetic.
 */
#ifndef GOP_CUDA_WARP_H
#define GOP_CUDA_WARP_H

/* ---- barriers and fences; `line` is the source line of the call ---- */

GOP_DEVICE void __syncthreads(int line = __builtin_LINE())
{
    gop_sim_barrier(0, line);
}
GOP_DEVICE int __syncthreads_count(int value, int line = __builtin_LINE())
{
    return gop_sim_barrier(value, line);
}
GOP_DEVICE int __syncthreads_or(int value, int line = __builtin_LINE())
{
    return gop_sim_barrier(value, line) != 0;
}
GOP_DEVICE int __syncthreads_and(int value, int line = __builtin_LINE())
{
    return gop_sim_barrier(!value, line) == 0;
}
GOP_DEVICE void __syncwarp(unsigned mask = 0xffffffffu)
{
    gop_sim_meet(GOP_SIM_SYNC, mask, 0, 0);
}
GOP_DEVICE void __threadfence()
{
    gop_sim_fence(1);
}
GOP_DEVICE void __threadfence_block()
{
    gop_sim_fence(0);
}
GOP_DEVICE void __threadfence_system()
{
    gop_sim_fence(1);
}

/* ---- shuffles: each group of `width` lanes, a power of two, shuffles separately ---- */

template <typename T> GOP_DEVICE T gop_sim_shuffle(unsigned mask, T value, unsigned source)
{
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    bits = gop_sim_meet(GOP_SIM_SHUFFLE, mask, bits, source);
    __builtin_memcpy(&value, &bits, sizeof(T));
    return value;
}
template <typename T>
GOP_DEVICE T gop_sim_shuffle_from(unsigned mask, T value, int from, int width)
{
    const unsigned lane = gop_sim_lane_of_warp(), group = lane & ~(unsigned)(width - 1);
    return gop_sim_shuffle(mask, value, group + ((unsigned)from & (unsigned)(width - 1)));
}
template <typename T>
GOP_DEVICE T gop_sim_shuffle_up(unsigned mask, T value, unsigned d, int width)
{
    const unsigned lane = gop_sim_lane_of_warp(), within = lane & (unsigned)(width - 1);
    return gop_sim_shuffle(mask, value, within >= d ? lane - d : lane);
}
template <typename T>
GOP_DEVICE T gop_sim_shuffle_down(unsigned mask, T value, unsigned d, int width)
{
    const unsigned lane = gop_sim_lane_of_warp(), within = lane & (unsigned)(width - 1);
    return gop_sim_shuffle(mask, value, within + d < (unsigned)width ? lane + d : lane);
}
template <typename T>
GOP_DEVICE T gop_sim_shuffle_xor(unsigned mask, T value, int with, int width)
{
    const unsigned lane = gop_sim_lane_of_warp(), from = lane ^ (unsigned)with;
    const bool inside = (from | (unsigned)(width - 1)) <= (lane | (unsigned)(width - 1));
    return gop_sim_shuffle(mask, value, inside ? from : lane);
}
/* For the types that CUDA supports; smaller ones become int. */
#define GOP_SIM_SHUFFLE_ONE(name, kind, type, by)                                              \
    GOP_DEVICE type name(unsigned mask, type value, by number, int width = GOP_SIM_WARP)       \
    {                                                                                          \
        return gop_sim_shuffle_##kind(mask, value, number, width);                             \
    }
#define GOP_SIM_SHUFFLES(type)                                                                 \
    GOP_SIM_SHUFFLE_ONE(__shfl_sync, from, type, int)                                          \
    GOP_SIM_SHUFFLE_ONE(__shfl_up_sync, up, type, unsigned)                                    \
    GOP_SIM_SHUFFLE_ONE(__shfl_down_sync, down, type, unsigned)                                \
    GOP_SIM_SHUFFLE_ONE(__shfl_xor_sync, xor, type, int)
GOP_SIM_SHUFFLES(int)
GOP_SIM_SHUFFLES(unsigned)
GOP_SIM_SHUFFLES(long)
GOP_SIM_SHUFFLES(unsigned long)
GOP_SIM_SHUFFLES(long long)
GOP_SIM_SHUFFLES(unsigned long long)
GOP_SIM_SHUFFLES(float)
GOP_SIM_SHUFFLES(double)

/* ---- votes ---- */

GOP_DEVICE unsigned __ballot_sync(unsigned mask, int value)
{
    return (unsigned)gop_sim_meet(GOP_SIM_BALLOT, mask, value != 0, 0);
}
GOP_DEVICE int __any_sync(unsigned mask, int value)
{
    return __ballot_sync(mask, value) != 0;
}
GOP_DEVICE int __all_sync(unsigned mask, int value)
{
    return __ballot_sync(mask, !value) == 0;
}
/* CUDA guarantees only that the caller is in the mask. */
GOP_DEVICE unsigned __activemask()
{
    return 1u << gop_sim_lane_of_warp();
}

/* ---- atomics ---- */

GOP_DEVICE int gop_sim_swap(uint32_t *at, uint32_t *expected, uint32_t desired)
{
    return gop_sim_swap32(at, expected, desired);
}
GOP_DEVICE int gop_sim_swap(uint64_t *at, uint64_t *expected, uint64_t desired)
{
    return gop_sim_swap64(at, expected, desired);
}
GOP_DEVICE uint32_t gop_sim_begin(uint32_t *at)
{
    return gop_sim_begin32(at);
}
GOP_DEVICE uint64_t gop_sim_begin(uint64_t *at)
{
    return gop_sim_begin64(at);
}
template <int BYTES> struct gop_sim_word;
template <> struct gop_sim_word<4> {
    typedef uint32_t type;
};
template <> struct gop_sim_word<8> {
    typedef uint64_t type;
};

/* *address = change(*address). Returns the old value. */
template <typename T, typename F>
GOP_DEVICE T gop_sim_atomic(T *address, F change, bool compares = false)
{
    typedef typename gop_sim_word<sizeof(T)>::type word;
    word *at = reinterpret_cast<word *>(address), before = gop_sim_begin(at), after;
    T value;
    if (compares) gop_sim_compares(at);
    do {
        __builtin_memcpy(&value, &before, sizeof value);
        const T changed = change(value);
        __builtin_memcpy(&after, &changed, sizeof after);
    } while (!gop_sim_swap(at, &before, after));
    return value;
}

/* The second argument may be of any type that converts, as with CUDA's overloads. */
template <typename T> struct gop_sim_same {
    typedef T type;
};
/* The types that CUDA has an atomic for, as bits. */
enum {
    GOP_SIM_I = 1,
    GOP_SIM_U = 2,
    GOP_SIM_LL = 4,
    GOP_SIM_ULL = 8,
    GOP_SIM_F = 16,
    GOP_SIM_D = 32,
};
template <typename T> struct gop_sim_type {
    enum { bit = 0 };
};
#define GOP_SIM_TYPE(type, name)                                                               \
    template <> struct gop_sim_type<type> {                                                    \
        enum { bit = name };                                                                   \
    };
GOP_SIM_TYPE(int, GOP_SIM_I)
GOP_SIM_TYPE(unsigned, GOP_SIM_U)
GOP_SIM_TYPE(long long, GOP_SIM_LL)
GOP_SIM_TYPE(unsigned long long, GOP_SIM_ULL)
GOP_SIM_TYPE(float, GOP_SIM_F)
GOP_SIM_TYPE(double, GOP_SIM_D)
template <typename T, bool is_one> struct gop_sim_if {
};
template <typename T> struct gop_sim_if<T, true> {
    typedef T type;
};
#define GOP_SIM_ONE_OF(types)                                                                  \
    typename gop_sim_if<T, ((types) & (int)gop_sim_type<T>::bit) != 0>::type
#define GOP_SIM_ATOMIC_OF(name, types, expression)                                             \
    template <typename T> GOP_DEVICE GOP_SIM_ONE_OF(types)                                     \
        name(T *address, typename gop_sim_same<T>::type value)                                 \
    {                                                                                          \
        return gop_sim_atomic(address, [=](T old) -> T { return expression; });                \
    }
/* Block, device and system scope are the same here. */
#define GOP_SIM_ATOMIC(name, types, expression)                                                \
    GOP_SIM_ATOMIC_OF(name, types, expression)                                                 \
    GOP_SIM_ATOMIC_OF(name##_block, types, expression)                                         \
    GOP_SIM_ATOMIC_OF(name##_system, types, expression)
#define GOP_SIM_BITWISE (GOP_SIM_I | GOP_SIM_U | GOP_SIM_ULL)
GOP_SIM_ATOMIC(atomicAdd, GOP_SIM_BITWISE | GOP_SIM_F | GOP_SIM_D, old + value)
GOP_SIM_ATOMIC(atomicSub, GOP_SIM_I | GOP_SIM_U, old - value)
GOP_SIM_ATOMIC(atomicExch, GOP_SIM_BITWISE | GOP_SIM_F, (void(old), value))
GOP_SIM_ATOMIC(atomicMin, GOP_SIM_BITWISE | GOP_SIM_LL, value < old ? value : old)
GOP_SIM_ATOMIC(atomicMax, GOP_SIM_BITWISE | GOP_SIM_LL, old < value ? value : old)
GOP_SIM_ATOMIC(atomicAnd, GOP_SIM_BITWISE, old &value)
GOP_SIM_ATOMIC(atomicOr, GOP_SIM_BITWISE, old | value)
GOP_SIM_ATOMIC(atomicXor, GOP_SIM_BITWISE, old ^ value)
GOP_SIM_ATOMIC(atomicInc, GOP_SIM_U, old >= value ? 0 : old + 1)
GOP_SIM_ATOMIC(atomicDec, GOP_SIM_U, old == 0 || old > value ? value : old - 1)
template <typename T> GOP_DEVICE GOP_SIM_ONE_OF(GOP_SIM_BITWISE)
    atomicCAS(T *address, typename gop_sim_same<T>::type compare,
              typename gop_sim_same<T>::type value)
{
    return gop_sim_atomic(
        address, [=](T old) -> T { return old == compare ? value : old; }, true);
}

/* ---- loads with a hint about caches ---- */

template <typename T> GOP_DEVICE T __ldg(const T *address)
{
    return *address;
}
template <typename T> GOP_DEVICE T __ldcs(const T *address)
{
    return *address;
}
template <typename T> GOP_DEVICE T __ldcg(const T *address)
{
    return *address;
}
template <typename T> GOP_DEVICE void __stcg(T *address, T value)
{
    *address = value;
}
template <typename T> GOP_DEVICE void __stcs(T *address, T value)
{
    *address = value;
}

/* ---- arithmetic ---- */

#ifndef GOP_SIM_OWN /* else dialect.h has CUDA's overloads */
template <typename A, typename B> GOP_DEVICE auto min(A a, B b) -> decltype(true ? A(0) : B(0))
{
    return b < a ? b : a;
}
template <typename A, typename B> GOP_DEVICE auto max(A a, B b) -> decltype(true ? A(0) : B(0))
{
    return a < b ? b : a;
}
#endif
GOP_DEVICE float rsqrtf(float x)
{
    return 1 / sqrtf(x);
}
GOP_DEVICE double rsqrt(double x)
{
    return 1 / sqrt(x);
}
GOP_DEVICE float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}
GOP_DEVICE float __fmul_rn(float a, float b)
{
    return a * b;
}
GOP_DEVICE float __fadd_rn(float a, float b)
{
    return a + b;
}
/* Selects four of the eight bytes of b and a, lowest first; each digit of the selector names
 * one. */
GOP_DEVICE unsigned __byte_perm(unsigned a, unsigned b, unsigned selector)
{
    const uint64_t bytes = (uint64_t)b << 32 | a;
    unsigned word = 0;
    for (int i = 0; i < 4; i++)
        word |= (unsigned)(bytes >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
    return word;
}
/* The low word of b:a shifted right. */
GOP_DEVICE unsigned __funnelshift_r(unsigned a, unsigned b, unsigned shift)
{
    return (unsigned)(((uint64_t)b << 32 | a) >> (shift & 31));
}
GOP_DEVICE int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
GOP_DEVICE int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}
GOP_DEVICE int __ffs(int x)
{
    return __builtin_ffs(x);
}

#endif
