/*
 * cl.h - what this backend needs of OpenCL 1.2, declared here: no header and no library of
 * OpenCL has to be there when it is built, nor before a device of it is asked for.
 */
#ifndef GOP_CL_H
#define GOP_CL_H

#include <stddef.h>
#include <stdint.h>

typedef int32_t cl_int;
typedef uint32_t cl_uint, cl_bool;
typedef uint64_t cl_ulong, cl_flags;
typedef struct cl_platform_object *cl_platform;
typedef struct cl_device_object *cl_device;
typedef struct cl_context_object *cl_context;
typedef struct cl_queue_object *cl_queue;
typedef struct cl_mem_object *cl_mem;
typedef struct cl_program_object *cl_program;
typedef struct cl_kernel_object *cl_kernel;
typedef struct cl_event_object *cl_event;

/* What calls can fail with: X(name, number). */
/* clang-format off */
#define GOP_CL_CODES(X) \
    X(DEVICE_NOT_FOUND, -1) X(DEVICE_NOT_AVAILABLE, -2) X(COMPILER_NOT_AVAILABLE, -3) \
    X(MEM_OBJECT_ALLOCATION_FAILURE, -4) X(OUT_OF_RESOURCES, -5) X(OUT_OF_HOST_MEMORY, -6) \
    X(PROFILING_INFO_NOT_AVAILABLE, -7) X(BUILD_PROGRAM_FAILURE, -11) X(MAP_FAILURE, -12) \
    X(INVALID_VALUE, -30) X(INVALID_DEVICE, -33) \
    X(INVALID_CONTEXT, -34) X(INVALID_COMMAND_QUEUE, -36) X(INVALID_HOST_PTR, -37) \
    X(INVALID_MEM_OBJECT, -38) X(INVALID_BINARY, -42) X(INVALID_BUILD_OPTIONS, -43) \
    X(INVALID_PROGRAM, -44) X(INVALID_PROGRAM_EXECUTABLE, -45) X(INVALID_KERNEL_NAME, -46) \
    X(INVALID_KERNEL, -48) X(INVALID_ARG_INDEX, -49) X(INVALID_ARG_VALUE, -50) \
    X(INVALID_ARG_SIZE, -51) X(INVALID_KERNEL_ARGS, -52) X(INVALID_WORK_GROUP_SIZE, -54) \
    X(INVALID_WORK_ITEM_SIZE, -55) X(INVALID_OPERATION, -59) X(INVALID_BUFFER_SIZE, -61) \
    X(INVALID_GLOBAL_WORK_SIZE, -63) X(PLATFORM_NOT_FOUND_KHR, -1001)
/* clang-format on */

enum {
    CL_SUCCESS = 0,
#define X(name, number) CL_##name = number,
    GOP_CL_CODES(X)
#undef X

        CL_PLATFORM_NAME = 0x0902,
    CL_DEVICE_TYPE = 0x1000,
    CL_DEVICE_MAX_COMPUTE_UNITS = 0x1002,
    CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
    CL_DEVICE_MAX_WORK_ITEM_SIZES = 0x1005,
    CL_DEVICE_MAX_CLOCK_FREQUENCY = 0x100C,
    CL_DEVICE_SINGLE_FP_CONFIG = 0x101B,
    CL_DEVICE_GLOBAL_MEM_CACHE_SIZE = 0x101E,
    CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
    CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
    CL_DEVICE_ENDIAN_LITTLE = 0x1026,
    CL_DEVICE_AVAILABLE = 0x1027,
    CL_DEVICE_COMPILER_AVAILABLE = 0x1028,
    CL_DEVICE_NAME = 0x102B,
    CL_DRIVER_VERSION = 0x102D,
    CL_DEVICE_VERSION = 0x102F,
    CL_DEVICE_EXTENSIONS = 0x1030,
    CL_DEVICE_DOUBLE_FP_CONFIG = 0x1032,
    CL_DEVICE_HOST_UNIFIED_MEMORY = 0x1035,

    CL_DEVICE_TYPE_CPU = 1 << 1,
    CL_DEVICE_TYPE_GPU = 1 << 2,
    CL_FP_DENORM = 1 << 0, /* subnormal numbers are kept */
    CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT = 1 << 7,

    CL_QUEUE_PROFILING_ENABLE = 1 << 1,
    CL_MEM_READ_WRITE = 1 << 0,
    CL_MEM_USE_HOST_PTR = 1 << 3,
    CL_PROGRAM_BINARY_SIZES = 0x1165,
    CL_PROGRAM_BINARIES = 0x1166,
    CL_PROGRAM_NUM_KERNELS = 0x1167,
    CL_PROGRAM_KERNEL_NAMES = 0x1168,
    CL_PROGRAM_BUILD_LOG = 0x1183,
    CL_KERNEL_NUM_ARGS = 0x1191,
    CL_KERNEL_ARG_ADDRESS_QUALIFIER = 0x1196,
    CL_KERNEL_ARG_TYPE_NAME = 0x1198,
    CL_KERNEL_ARG_TYPE_QUALIFIER = 0x1199,
    CL_KERNEL_ARG_ADDRESS_LOCAL = 0x119C,
    CL_KERNEL_ARG_ADDRESS_PRIVATE = 0x119E,
    CL_KERNEL_ARG_TYPE_CONST = 1 << 0,
    CL_KERNEL_WORK_GROUP_SIZE = 0x11B0,
    CL_KERNEL_COMPILE_WORK_GROUP_SIZE = 0x11B1,
    CL_KERNEL_LOCAL_MEM_SIZE = 0x11B2,
    CL_PROFILING_COMMAND_END = 0x1283,
};

/* How the arguments end of functions that ask, and of those that fill a queue; a function that
 * is called back, with its argument: always NULL here. */
#define ASKED cl_uint, size_t, void *, size_t *
#define EVENTS cl_uint, const cl_event *, cl_event *
#define CALLED void (*)(void), void *

/* Every entry point: X(result, name, arguments). */
#define GOP_CL_FUNCTIONS(X)                                                                    \
    X(cl_int, clGetPlatformIDs, (cl_uint, cl_platform *, cl_uint *))                           \
    X(cl_int, clGetPlatformInfo, (cl_platform, ASKED))                                         \
    X(cl_int, clGetDeviceIDs, (cl_platform, cl_flags, cl_uint, cl_device *, cl_uint *))        \
    X(cl_int, clGetDeviceInfo, (cl_device, ASKED))                                             \
    X(cl_context, clCreateContext,                                                             \
      (const intptr_t *, cl_uint, const cl_device *, CALLED, cl_int *))                        \
    X(cl_queue, clCreateCommandQueue, (cl_context, cl_device, cl_flags, cl_int *))             \
    X(cl_int, clReleaseCommandQueue, (cl_queue))                                               \
    X(cl_int, clFinish, (cl_queue))                                                            \
    X(cl_mem, clCreateBuffer, (cl_context, cl_flags, size_t, void *, cl_int *))                \
    X(cl_int, clRetainMemObject, (cl_mem))                                                     \
    X(cl_int, clReleaseMemObject, (cl_mem))                                                    \
    X(cl_int, clEnqueueReadBuffer,                                                             \
      (cl_queue, cl_mem, cl_bool, size_t, size_t, void *, EVENTS))                             \
    X(cl_int, clEnqueueWriteBuffer,                                                            \
      (cl_queue, cl_mem, cl_bool, size_t, size_t, const void *, EVENTS))                       \
    X(cl_int, clEnqueueFillBuffer,                                                             \
      (cl_queue, cl_mem, const void *, size_t, size_t, size_t, EVENTS))                        \
    X(cl_int, clEnqueueMarkerWithWaitList, (cl_queue, EVENTS))                                 \
    X(cl_int, clGetEventProfilingInfo, (cl_event, ASKED))                                      \
    X(cl_int, clReleaseEvent, (cl_event))                                                      \
    X(cl_program, clCreateProgramWithSource,                                                   \
      (cl_context, cl_uint, const char **, const size_t *, cl_int *))                          \
    X(cl_program, clCreateProgramWithBinary,                                                   \
      (cl_context, cl_uint, const cl_device *, const size_t *, const unsigned char **,         \
       cl_int *, cl_int *))                                                                    \
    X(cl_int, clBuildProgram, (cl_program, cl_uint, const cl_device *, const char *, CALLED))  \
    X(cl_int, clGetProgramInfo, (cl_program, ASKED))                                           \
    X(cl_int, clGetProgramBuildInfo, (cl_program, cl_device, ASKED))                           \
    X(cl_int, clReleaseProgram, (cl_program))                                                  \
    X(cl_kernel, clCreateKernel, (cl_program, const char *, cl_int *))                         \
    X(cl_int, clReleaseKernel, (cl_kernel))                                                    \
    X(cl_int, clGetKernelInfo, (cl_kernel, ASKED))                                             \
    X(cl_int, clGetKernelArgInfo, (cl_kernel, cl_uint, ASKED))                                 \
    X(cl_int, clGetKernelWorkGroupInfo, (cl_kernel, cl_device, ASKED))                         \
    X(cl_int, clSetKernelArg, (cl_kernel, cl_uint, size_t, const void *))                      \
    X(cl_int, clEnqueueNDRangeKernel,                                                          \
      (cl_queue, cl_kernel, cl_uint, const size_t *, const size_t *, const size_t *, EVENTS))

typedef struct gop_cl_table {
#define X(result, name, arguments) result(*name) arguments;
    GOP_CL_FUNCTIONS(X)
#undef X
} gop_cl_table;

#endif
