/*
 * launch.h - CUDA's language for a C++ compiler. device.h includes it here instead of nvcc's
 * headers.
 *
 * `__shared__` is not here, because gpuops/_compile/simt.py rewrites it before this file is
 * compiled.
 */
#ifndef GOP_CUDA_LAUNCH_H
#define GOP_CUDA_LAUNCH_H

#include <math.h>

#define gop_sim_index uint3 /* the name in compilers' messages */
#include "core/arrays/half.h"
#include "sim/simt.h"
#undef gop_sim_index

#define gop_fail gop_services->fail

#ifndef GOP_SIM_OWN /* own kernels: gpuops/_compile/device_code.py removes them */
#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#endif
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __restrict__ __restrict
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))
/* Always inlined, because two files may have different functions of one name, as nvcc allows.
 */
#define GOP_DEVICE inline __attribute__((always_inline))

/* ---- types ---- */

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 i) : x(i.x), y(i.y), z(i.z) {}
};

/* The number in `float4 v = {0};`: CUDA's vectors are aggregates, where `float4 v = 0;` is
 * none.
 */
template <typename T> struct gop_sim_first {
    T value;
    constexpr gop_sim_first(T value) : value(value) {}
};

/* A copy of a vector type is one access of all its bytes, as on a GPU. So it is made by a load
 * of that width, not member by member. */
#define GOP_SIM_VECTOR(name, item, count, members)                                             \
    struct __align__(sizeof(item) * count) name                                                \
    {                                                                                          \
        typedef item whole __attribute__((vector_size(sizeof(item) * count), may_alias));      \
        item members;                                                                          \
        name() = default;                                                                      \
        GOP_DEVICE name(const name &from)                                                      \
        {                                                                                      \
            *(whole *)this = *(const whole *)&from;                                            \
        }                                                                                      \
        GOP_DEVICE name &operator=(const name &from)                                           \
        {                                                                                      \
            *(whole *)this = *(const whole *)&from;                                            \
            return *this;                                                                      \
        }
#define GOP_SIM_VECTOR2(name, item)                                                            \
    GOP_SIM_VECTOR(name, item, 2, x; item y)                                                   \
    constexpr GOP_DEVICE name(item x, item y) : x(x), y(y) {}                                  \
    constexpr GOP_DEVICE name(gop_sim_first<item> x) : name(x.value, 0) {}                     \
    }                                                                                          \
    ;                                                                                          \
    GOP_DEVICE name make_##name(item x, item y)                                                \
    {                                                                                          \
        return name(x, y);                                                                     \
    }
#define GOP_SIM_VECTOR4(name, item)                                                            \
    GOP_SIM_VECTOR(name, item, 4, x; item y; item z; item w)                                   \
    constexpr GOP_DEVICE name(item x, item y, item z = 0, item w = 0) : x(x), y(y), z(z), w(w) \
    {                                                                                          \
    }                                                                                          \
    constexpr GOP_DEVICE name(gop_sim_first<item> x) : name(x.value, 0) {}                     \
    }                                                                                          \
    ;                                                                                          \
    GOP_DEVICE name make_##name(item x, item y, item z, item w)                                \
    {                                                                                          \
        return name(x, y, z, w);                                                               \
    }
/* Three members are accessed one by one, as on a GPU. */
#define GOP_SIM_VECTOR3(name, item)                                                            \
    struct name {                                                                              \
        item x, y, z;                                                                          \
        name() = default;                                                                      \
        GOP_DEVICE name(const name &from) : x(from.x), y(from.y), z(from.z) {}                 \
        constexpr GOP_DEVICE name(item x, item y, item z = 0) : x(x), y(y), z(z) {}            \
        constexpr GOP_DEVICE name(gop_sim_first<item> x) : name(x.value, 0) {}                 \
        GOP_DEVICE name &operator=(const name &from)                                           \
        {                                                                                      \
            x = from.x, y = from.y, z = from.z;                                                \
            return *this;                                                                      \
        }                                                                                      \
    };                                                                                         \
    GOP_DEVICE name make_##name(item x, item y, item z)                                        \
    {                                                                                          \
        return name(x, y, z);                                                                  \
    }
/* A vector of 32 bytes takes more than one access. */
#define GOP_SIM_VECTOR32(name, item)                                                           \
    struct __align__(16) name                                                                  \
    {                                                                                          \
        item x, y, z, w;                                                                       \
    };                                                                                         \
    GOP_DEVICE name make_##name(item x, item y, item z, item w)                                \
    {                                                                                          \
        return {x, y, z, w};                                                                   \
    }
#define GOP_SIM_VECTOR1(name, item)                                                            \
    struct name {                                                                              \
        item x;                                                                                \
    };                                                                                         \
    GOP_DEVICE name make_##name(item x)                                                        \
    {                                                                                          \
        return {x};                                                                            \
    }
#define GOP_SIM_VECTORS(name, item)                                                            \
    GOP_SIM_VECTOR1(name##1, item)                                                             \
    GOP_SIM_VECTOR2(name##2, item)                                                             \
    GOP_SIM_VECTOR3(name##3, item)
GOP_DEVICE uint3 make_uint3(unsigned x, unsigned y, unsigned z)
{
    return {x, y, z};
}
GOP_SIM_VECTORS(char, signed char)
GOP_SIM_VECTORS(uchar, unsigned char)
GOP_SIM_VECTORS(short, short)
GOP_SIM_VECTORS(ushort, unsigned short)
GOP_SIM_VECTORS(int, int)
GOP_SIM_VECTOR1(uint1, unsigned)
GOP_SIM_VECTOR2(uint2, unsigned)
GOP_SIM_VECTORS(long, long)
GOP_SIM_VECTORS(ulong, unsigned long)
GOP_SIM_VECTORS(longlong, long long)
GOP_SIM_VECTORS(ulonglong, unsigned long long)
GOP_SIM_VECTORS(float, float)
GOP_SIM_VECTORS(double, double)
GOP_SIM_VECTOR4(char4, signed char)
GOP_SIM_VECTOR4(uchar4, unsigned char)
GOP_SIM_VECTOR4(short4, short)
GOP_SIM_VECTOR4(ushort4, unsigned short)
GOP_SIM_VECTOR4(int4, int)
GOP_SIM_VECTOR4(uint4, unsigned)
GOP_SIM_VECTOR4(float4, float)
GOP_SIM_VECTOR32(long4, long)
GOP_SIM_VECTOR32(ulong4, unsigned long)
GOP_SIM_VECTOR32(longlong4, long long)
GOP_SIM_VECTOR32(ulonglong4, unsigned long long)
GOP_SIM_VECTOR32(double4, double)

/* ---- a thread's indices ---- */

/* The axes are read separately, so that an unused axis is never read, and a used one only once.
 */
#define GOP_SIM_PLACE(name)                                                                    \
    GOP_DEVICE uint3 name()                                                                    \
    {                                                                                          \
        return {name(0), name(1), name(2)};                                                    \
    }
GOP_SIM_PLACE(gop_sim_thread)
GOP_SIM_PLACE(gop_sim_block)
GOP_SIM_PLACE(gop_sim_block_size)
GOP_SIM_PLACE(gop_sim_grid_size)
#define threadIdx gop_sim_thread()
#define blockIdx gop_sim_block()
#define blockDim gop_sim_block_size()
#define gridDim gop_sim_grid_size()
#define warpSize GOP_SIM_WARP

#include "cuda/warp.h"

/* ---- launching ---- */

#define GOP_LAUNCH(ctx, kernel, grid, block, shared, ...)                                      \
    gop_sim_launch_((ctx)->device.ordinal, 0, #kernel, kernel, grid, block, shared, __VA_ARGS__)
/* Here a kernel starts when the one before has ended. */
#define GOP_LAUNCH_FOLLOWED(ctx, is_followed, ...)                                             \
    ((void)(is_followed), GOP_LAUNCH(ctx, __VA_ARGS__))
#define GOP_LAUNCH_FIRST(ctx, task, is_followed, ...)                                          \
    ((void)(task), GOP_LAUNCH_FOLLOWED(ctx, is_followed, __VA_ARGS__))
#define GOP_LAUNCH_EARLY GOP_LAUNCH
GOP_DEVICE void launch_dependents(void) {}
GOP_DEVICE void grid_dependency_sync(void) {}
/* One block ends before the next starts, so a grid with a grid barrier has one block. An
 * imagined GPU is assumed to hold one block per multiprocessor. */
#define GOP_LAUNCH_TOGETHER GOP_LAUNCH
#define GOP_AT_ONCE(ctx, kernel, threads, shared, blocks)                                      \
    ((void)(kernel), *(blocks) = (ctx)->imagined ? (ctx)->info.processors : 1, GOP_OK)
GOP_DEVICE void gop_grid_barrier(unsigned *, unsigned)
{
    __syncthreads();
}

template <typename... P, typename... V>
static inline gop_status gop_sim_launch_(int device, int own, const char *name,
                                         void (*kernel)(P...), dim3 grid, dim3 block,
                                         size_t shared, V... arguments)
{
    auto call = [=]() { kernel(P(arguments)...); };
    const gop_sim_launch launch = {name,
                                   (const void *)kernel,
                                   {grid.x, grid.y, grid.z},
                                   {block.x, block.y, block.z},
                                   shared,
                                   sizeof call,
                                   [](void *c) { (*static_cast<decltype(call) *>(c))(); },
                                   &call,
                                   device,
                                   own};
    return gop_sim_run(&launch);
}

/* Whether this is the simulator of a GPU. */
static inline bool gop_is_sim(void)
{
    return true;
}

/* Whether a*b + c may become an fma here: not on every x86-64. */
static inline bool gop_contracts(void)
{
#ifdef __x86_64__
    return __builtin_cpu_supports("fma");
#else
    return true;
#endif
}

GOP_DEVICE float gop_bits_to_float(uint32_t bits)
{
    return gop_bits_float(bits);
}
GOP_DEVICE uint32_t gop_float_to_bits(float value)
{
    return gop_float_bits(value);
}
GOP_DEVICE float gop_f16_to_float(uint16_t bits)
{
    return gop_f16_load(bits);
}
GOP_DEVICE uint16_t gop_float_to_f16(float value)
{
    return gop_f16_store(value);
}

#endif
