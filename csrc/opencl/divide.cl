/*
 * divide.cl - quotients rounded correctly, which OpenCL promises of double and not of float.
 *
 * The build asks for them where the device has them; else it defines BY_DOUBLE: a quotient of
 * floats that is rounded to double and then to float is rounded as if once.
 */
#ifndef DIVIDE_CL
#define DIVIDE_CL

#include "opencl/vector.cl"

static V quotient(V a, V b)
{
#if defined(BY_DOUBLE) && !defined(DOUBLE)
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
    return CONVERT(float)(CONVERT(double)(a) / CONVERT(double)(b));
#else
    return a / b;
#endif
}

#endif
