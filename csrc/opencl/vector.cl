/*
 * vector.cl - V: LANES numbers of type BASE, which is BASE itself where LANES is 1.
 *
 * What is written for V is written for every width: OpenCL's operators and functions take
 * vectors, and a comparison gives a mask that ?: chooses by, lane by lane. Nothing is contracted;
 * where the build defines DOUBLE there is float64. Of COMPLEX a number has two parts.
 */
#ifndef VECTOR_CL
#define VECTOR_CL

#pragma OPENCL FP_CONTRACT OFF
#if defined(DOUBLE)
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#if defined(COMPLEX)
#define PARTS 2
#else
#define PARTS 1
#endif

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#if LANES == 1
#define OF(type) type
#define LOAD(i, p) (p)[i]
#define STORE(v, i, p) ((p)[i] = (v))
#else
#define OF(type) JOIN(type, LANES)
#define LOAD(i, p) JOIN(vload, LANES)(i, p)
#define STORE(v, i, p) JOIN(vstore, LANES)(v, i, p)
#endif
#define CONVERT(type) OF(JOIN(convert_, type))
#define AS(type) OF(JOIN(as_, type))
#define V OF(BASE)

/* The same of any width, which is a number: WIDE(4, float). */
#define WIDE_1(type) type
#define WIDE_2(type) type##2
#define WIDE_4(type) type##4
#define WIDE_8(type) type##8
#define WIDE_16(type) type##16
#define WIDE(n, type) JOIN(WIDE_, n)(type)

#endif
