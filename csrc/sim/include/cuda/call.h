/*
 * call.h - kernels that Python compiles and calls: what their parameters are, and the call.
 */
#ifndef GOP_CUDA_CALL_H
#define GOP_CUDA_CALL_H

#include "cuda/launch.h"

/* A parameter's type as NumPy writes it; "" for what Python cannot pass. */
template <typename T> struct gop_sim_type {
    static const char *name() { return ""; }
};
#define GOP_SIM_TYPE(type, text)                                                               \
    template <> struct gop_sim_type<type> {                                                    \
        static const char *name() { return text; }                                             \
    };
GOP_SIM_TYPE(bool, "?")
GOP_SIM_TYPE(char, "i1")
GOP_SIM_TYPE(signed char, "i1")
GOP_SIM_TYPE(unsigned char, "u1")
GOP_SIM_TYPE(short, "i2")
GOP_SIM_TYPE(unsigned short, "u2")
GOP_SIM_TYPE(int, "i4")
GOP_SIM_TYPE(unsigned, "u4")
GOP_SIM_TYPE(long, "i8")
GOP_SIM_TYPE(unsigned long, "u8")
GOP_SIM_TYPE(long long, "i8")
GOP_SIM_TYPE(unsigned long long, "u8")
GOP_SIM_TYPE(float, "f4")
GOP_SIM_TYPE(double, "f8")

template <typename T> struct gop_sim_parameter {
    enum { pointer = 0, constant = 0 };
    typedef T item;
};
template <typename T> struct gop_sim_parameter<const T> : gop_sim_parameter<T> {
};
template <typename T> struct gop_sim_parameter<T *> {
    enum { pointer = 1, constant = 0 };
    typedef T item;
};
template <typename T> struct gop_sim_parameter<const T *> {
    enum { pointer = 1, constant = 1 };
    typedef T item;
};
template <typename T> struct gop_sim_parameter<volatile T *> : gop_sim_parameter<T *> {
};
template <typename T> struct gop_sim_parameter<const volatile T *>
    : gop_sim_parameter<const T *> {
};

/* Parameter `i`: bit 0 tells a pointer, bit 1 that what it points to is const; NULL ends. */
template <typename... P>
static const char *gop_sim_describe(void (*)(P...), unsigned i, int *pointer)
{
    const int bits[] = {gop_sim_parameter<P>::pointer + 2 * gop_sim_parameter<P>::constant...,
                        0};
    const char *const names[] = {gop_sim_type<typename gop_sim_parameter<P>::item>::name()...,
                                 nullptr};
    if (i >= sizeof...(P)) return nullptr;
    *pointer = bits[i];
    return names[i];
}

/* Becomes the value it points to, of whatever type the kernel takes. */
struct gop_sim_argument {
    const void *value;
    template <typename T> operator T() const { return *static_cast<const T *>(value); }
};

struct gop_sim_place {
    unsigned grid[3], block[3];
    size_t shared;
};

/* The arguments become what the kernel takes before any lane runs. */
template <typename... P>
static gop_status gop_sim_call(const char *name, void (*kernel)(P...), const gop_sim_place *p,
                               typename gop_sim_same<P>::type... arguments)
{
    const dim3 grid(p->grid[0], p->grid[1], p->grid[2]);
    const dim3 block(p->block[0], p->block[1], p->block[2]);
    return gop_sim_launch_(name, kernel, grid, block, p->shared, arguments...);
}

#define GOP_SIM_EXPORT extern "C" __attribute__((visibility("default")))
#define GOP_SIM_KERNEL(kernel, ...)                                                            \
    GOP_SIM_EXPORT const char *gop_describe_##kernel(unsigned i, int *pointer)                 \
    {                                                                                          \
        return gop_sim_describe(kernel, i, pointer);                                           \
    }                                                                                          \
    GOP_SIM_EXPORT int gop_call_##kernel(const gop_sim_place *place, void **a)                 \
    {                                                                                          \
        (void)a;                                                                               \
        return gop_sim_call(#kernel, kernel, __VA_ARGS__);                                     \
    }

#endif
