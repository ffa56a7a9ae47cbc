/*
 * language.h - OpenCL C on top of the CUDA headers, for kernels that Python compiles for sim.
 *
 * gpuops/_compile/opencl_c.py has rewritten what C++ cannot express: address spaces, vector
 * literals, parts of vectors, the names of vector types (float4 is cl_float4).
 */
#ifndef GOP_OPENCL_LANGUAGE_H
#define GOP_OPENCL_LANGUAGE_H

#include <float.h>
#include <limits.h>

#define GOP_SIM_SHIFTS_WRAP /* OpenCL C takes a distance modulo the width, as x86 does */
#include "cuda/call.h"

#define __OPENCL_VERSION__ 120
#define __OPENCL_C_VERSION__ 120
#define CL_VERSION_1_0 100
#define CL_VERSION_1_1 110
#define CL_VERSION_1_2 120
#define __ENDIAN_LITTLE__ 1
#define cl_khr_fp64 1
#define cl_khr_int64_base_atomics 1
#define CLK_LOCAL_MEM_FENCE 1u
#define CLK_GLOBAL_MEM_FENCE 2u
#define MAXFLOAT 3.402823466e+38f
#define M_PI_F 3.14159274101257f
#define M_PI_2_F 1.57079637050629f
#define M_E_F 2.71828174591064f
#define M_SQRT2_F 1.41421353816986f
#define restrict __restrict

typedef unsigned char uchar; /* the C library has ushort, uint and ulong */
/* Read and written by vload_half and vstore_half; OpenCL 1.2 has no arithmetic with it. */
struct __half {
    uint16_t bits;
};
typedef __half half;

/* ---- a work-item's indices ---- */

GOP_DEVICE size_t get_local_id(unsigned axis)
{
    return axis < 3 ? gop_sim_thread((int)axis) : 0;
}
GOP_DEVICE size_t get_group_id(unsigned axis)
{
    return axis < 3 ? gop_sim_block((int)axis) : 0;
}
GOP_DEVICE size_t get_local_size(unsigned axis)
{
    return axis < 3 ? gop_sim_block_size((int)axis) : 1;
}
GOP_DEVICE size_t get_num_groups(unsigned axis)
{
    return axis < 3 ? gop_sim_grid_size((int)axis) : 1;
}
GOP_DEVICE size_t get_global_id(unsigned axis)
{
    return get_group_id(axis) * get_local_size(axis) + get_local_id(axis);
}
GOP_DEVICE size_t get_global_size(unsigned axis)
{
    return get_num_groups(axis) * get_local_size(axis);
}
GOP_DEVICE size_t get_global_offset(unsigned)
{
    return 0;
}

/* ---- local memory that is passed at the launch ---- */

/* A parameter that points to local memory: a byte offset from the start of the block's. */
template <typename T> struct gop_cl_local {
    int64_t at;
    GOP_DEVICE operator T *() const
    {
        return reinterpret_cast<T *>(static_cast<char *>(gop_sim_dynamic()) + at);
    }
};

#include "opencl/vectors.h"

/* ---- parameters: codes as in cuda/parameters.h, plus 1024 for local memory, plus 65536 for
 * each element of a vector ---- */

template <typename T, int N> struct gop_parameter<gop_vec<T, N> *> {
    enum { value = gop_letter<T>::value + 256 + 65536 * N };
};
template <typename T, int N> struct gop_parameter<const gop_vec<T, N> *> {
    enum { value = gop_letter<T>::value + 256 + 512 + 65536 * N };
};
template <typename T> struct gop_parameter<gop_cl_local<T>> {
    enum { value = gop_parameter<T *>::value + 1024 };
};

#include "opencl/builtins.h"

#endif
