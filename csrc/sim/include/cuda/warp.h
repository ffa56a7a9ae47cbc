/*
 * warp.h - CUDA's built-in functions: barriers, shuffles, votes, atomics, arithmetic.
 */
#ifndef GOP_CUDA_WARP_H
#define GOP_CUDA_WARP_H

/* ---- barriers and fences; `line` is the call's own ---- */

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

/* ---- shuffles: `width` lanes, a power of two, are a group of their own ---- */

template <typename T> GOP_DEVICE T gop_sim_shuffle(unsigned mask, T value, unsigned source)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    bits = gop_sim_meet(GOP_SIM_SHUFFLE, mask, bits, source);
    __builtin_memcpy(&value, &bits, sizeof(T));
    return value;
}
template <typename T>
GOP_DEVICE T __shfl_sync(unsigned mask, T value, int from, int width = GOP_SIM_WARP)
{
    const unsigned lane = gop_sim_lane_of_warp(), group = lane & ~(unsigned)(width - 1);
    return gop_sim_shuffle(mask, value, group + ((unsigned)from & (unsigned)(width - 1)));
}
template <typename T>
GOP_DEVICE T __shfl_up_sync(unsigned mask, T value, unsigned d, int width = GOP_SIM_WARP)
{
    const unsigned lane = gop_sim_lane_of_warp(), within = lane & (unsigned)(width - 1);
    return gop_sim_shuffle(mask, value, within >= d ? lane - d : lane);
}
template <typename T>
GOP_DEVICE T __shfl_down_sync(unsigned mask, T value, unsigned d, int width = GOP_SIM_WARP)
{
    const unsigned lane = gop_sim_lane_of_warp(), within = lane & (unsigned)(width - 1);
    return gop_sim_shuffle(mask, value, within + d < (unsigned)width ? lane + d : lane);
}
template <typename T>
GOP_DEVICE T __shfl_xor_sync(unsigned mask, T value, int with, int width = GOP_SIM_WARP)
{
    const unsigned lane = gop_sim_lane_of_warp(), from = lane ^ (unsigned)with;
    const bool inside = (from | (unsigned)(width - 1)) <= (lane | (unsigned)(width - 1));
    return gop_sim_shuffle(mask, value, inside ? from : lane);
}

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
/* CUDA promises no more than that the caller is among them. */
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

/* *address = change(*address); returns what was there before. */
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

/* The second argument takes any type that converts, as CUDA's overloads do. */
template <typename T> struct gop_sim_same {
    typedef T type;
};
#define GOP_SIM_ATOMIC(name, expression)                                                       \
    template <typename T> GOP_DEVICE T name(T *address, typename gop_sim_same<T>::type value)  \
    {                                                                                          \
        return gop_sim_atomic(address, [=](T old) -> T { return expression; });                \
    }
GOP_SIM_ATOMIC(atomicAdd, old + value)
GOP_SIM_ATOMIC(atomicSub, old - value)
GOP_SIM_ATOMIC(atomicExch, (void(old), value))
GOP_SIM_ATOMIC(atomicMin, value < old ? value : old)
GOP_SIM_ATOMIC(atomicMax, old < value ? value : old)
GOP_SIM_ATOMIC(atomicAnd, old &value)
GOP_SIM_ATOMIC(atomicOr, old | value)
GOP_SIM_ATOMIC(atomicXor, old ^ value)
GOP_SIM_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
GOP_SIM_ATOMIC(atomicDec, old == 0 || old > value ? value : old - 1)
template <typename T> GOP_DEVICE T atomicCAS(T *address, typename gop_sim_same<T>::type compare,
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

template <typename A, typename B> GOP_DEVICE auto min(A a, B b) -> decltype(true ? A(0) : B(0))
{
    return b < a ? b : a;
}
template <typename A, typename B> GOP_DEVICE auto max(A a, B b) -> decltype(true ? A(0) : B(0))
{
    return a < b ? b : a;
}
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
/* Four bytes of the eight of b and a, lowest first; a digit of the selector names one. */
GOP_DEVICE unsigned __byte_perm(unsigned a, unsigned b, unsigned selector)
{
    const uint64_t bytes = (uint64_t)b << 32 | a;
    unsigned word = 0;
    for (int i = 0; i < 4; i++)
        word |= (unsigned)(bytes >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
    return word;
}
/* The low word of b and a shifted right. */
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
