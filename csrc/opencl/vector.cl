/*
 * vector.cl - V: LANES numbers of type BASE, which is BASE itself where LANES is 1.
 *
 * What is written for V is written for every width: OpenCL's operators and functions take
 * vectors, and a comparison gives a mask that ?: chooses by, lane by lane.
 */
#ifndef VECTOR_CL
#define VECTOR_CL

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

#endif
