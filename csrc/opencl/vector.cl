/*
 * vector.cl - V: LANES numbers of type BASE, which is BASE itself where LANES is 1.
 *
 * What is written for V is written for every width: OpenCL's operators and functions take
 * vectors, and a comparison gives a mask that ?: chooses by, lane by lane. Nothing is contracted;
 * where the build defines DOUBLE there is float64.
 *
 * A build says what an element is by one of BOOLEAN, SIGNED, UNSIGNED, HALF, BFLOAT, FLOAT and
 * COMPLEX, which has two parts: real, imaginary.
 */
#pragma OPENCL FP_CONTRACT OFF
#if defined(DOUBLE) || defined(BY_DOUBLE) || defined(PLACES)
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#if defined(SIGNED) || defined(UNSIGNED)
#define INTEGER
#endif
#if defined(COMPLEX)
#define PARTS 2
#else
#define PARTS 1
#endif

/* A loop of constants: its arrays are registers. */
#define UNROLLED _Pragma("unroll")

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

/* The type, or the function, of vectors of n numbers: WIDE(4, float). */
#define WIDE_1(type) type
#define WIDE_2(type) type##2
#define WIDE_4(type) type##4
#define WIDE_8(type) type##8
#define WIDE_16(type) type##16
#define WIDE(n, type) JOIN(WIDE_, n)(type)

#if LANES == 1
#define LOAD(i, p) (p)[i]
#define STORE(v, i, p) ((p)[i] = (v))
#else
#define LOAD(i, p) JOIN(vload, LANES)(i, p)
#define STORE(v, i, p) JOIN(vstore, LANES)(v, i, p)
#endif
#define OF(type) WIDE(LANES, type)
#define CONVERT(type) OF(JOIN(convert_, type))
#define AS(type) OF(JOIN(as_, type))
#define V OF(BASE)

/* Quotients of vectors of n floats or doubles, rounded correctly, which OpenCL promises of
 * double and not of float. A build asks for them where the device has them, else BY_DOUBLE: a
 * quotient of floats that is rounded to double and then to float is rounded as if once. */
#if defined(BY_DOUBLE) && !defined(DOUBLE)
#define QUOTIENT(n, a, b)                                                                      \
    WIDE(n, convert_float)(WIDE(n, convert_double)(a) / WIDE(n, convert_double)(b))
#else
#define QUOTIENT(n, a, b) ((a) / (b))
#endif
#define quotient(a, b) QUOTIENT(1, a, b)

/* What compilers of CPUs have besides: a store past the caches, at a multiple of V's bytes, where
 * the build says STREAMED; and a request for what is read soon. SPIR, which Oclgrind plays, has
 * none of that. */
#if defined(__has_builtin) && !defined(__SPIR__)
#if defined(STREAMED) && __has_builtin(__builtin_nontemporal_store)
#define STREAM(v, p) __builtin_nontemporal_store(v, (__global V *)(p))
#endif
#if __has_builtin(__builtin_prefetch)
#define FETCH(p) __builtin_prefetch((const void *)(size_t)(p))
#endif
#endif

/* An operand of a kernel: a buffer, and the place of its first item in it. */
#define FROM(type, name) __global const type *name, long name##_at
#define TO(type, name) __global type *name, long name##_at

/* A vector of `count` of them; the first one stands for what a vector has beyond. */
static V gather(__global const BASE *p, long apart, int count)
{
    BASE number[LANES];
    for (int k = 0; k < LANES; k++)
        number[k] = p[(k / PARTS < count ? k / PARTS : 0) * apart * PARTS + k % PARTS];
    return LOAD(0, number);
}

static void scatter(V v, __global BASE *p, long apart, int count)
{
    BASE number[LANES];
    STORE(v, 0, number);
    for (int k = 0; k < count * PARTS; k++)
        p[k / PARTS * apart * PARTS + k % PARTS] = number[k];
}
