/*
 * divide.cl - quotients rounded correctly, which OpenCL promises of double and not of float.
 *
 * The build asks for them where the device has them; else it defines BY_DOUBLE: a quotient of
 * floats that is rounded to double and then to float is rounded as if once.
 */
#include "opencl/vector.cl"

/* Of vectors of n floats or doubles. */
#if defined(BY_DOUBLE) && !defined(DOUBLE)
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define QUOTIENT(n, a, b)                                                                      \
    WIDE(n, convert_float)(WIDE(n, convert_double)(a) / WIDE(n, convert_double)(b))
#else
#define QUOTIENT(n, a, b) ((a) / (b))
#endif
#define quotient(a, b) QUOTIENT(1, a, b)
