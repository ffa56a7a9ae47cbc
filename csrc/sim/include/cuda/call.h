/*
 * call.h - kernels that Python compiles and calls: what their parameters are, and the call.
 */
#ifndef GOP_CUDA_CALL_H
#define GOP_CUDA_CALL_H

#include "cuda/launch.h"
#include "cuda/parameters.h"

/* The code of parameter `i`, -1 behind the last. */
template <int... codes> static int gop_sim_describe(gop_codes<codes...>, unsigned i)
{
    const int all[] = {codes..., -1};
    return i < sizeof...(codes) ? all[i] : -1;
}

/* Becomes the value it points to, of whatever type the kernel takes. */
struct gop_sim_argument {
    const void *value;
    template <typename T> operator T() const { return *static_cast<const T *>(value); }
};

struct gop_sim_place {
    unsigned grid[3], block[3];
    size_t shared;
    int device; /* of sim's */
};

/* The arguments become what the kernel takes before any lane runs. */
template <typename... P>
static gop_status gop_sim_call(const char *name, void (*kernel)(P...), const gop_sim_place *p,
                               typename gop_sim_same<P>::type... arguments)
{
    const dim3 grid(p->grid[0], p->grid[1], p->grid[2]);
    const dim3 block(p->block[0], p->block[1], p->block[2]);
    return gop_sim_launch_(p->device, name, kernel, grid, block, p->shared, arguments...);
}

#define GOP_SIM_EXPORT extern "C" __attribute__((visibility("default")))
#define GOP_SIM_KERNEL(kernel, ...)                                                            \
    GOP_SIM_EXPORT int gop_describe_##kernel(unsigned i)                                       \
    {                                                                                          \
        return gop_sim_describe(gop_codes_of<decltype(&kernel)>::type(), i);                   \
    }                                                                                          \
    GOP_SIM_EXPORT int gop_call_##kernel(const gop_sim_place *place, void **a)                 \
    {                                                                                          \
        (void)a;                                                                               \
        return gop_sim_call(#kernel, kernel, __VA_ARGS__);                                     \
    }

#endif
