/*
 * functions.h - CUDA's numeric functions: conversions, rounding modes, and those missing in
 * math.h.
 *
 * A conversion to an integer saturates. NaN becomes 0 for 32-bit results of a float, otherwise
 * the value of which only the highest bit is set, as in PTX's cvt.
 */
#ifndef GOP_CUDA_FUNCTIONS_H
#define GOP_CUDA_FUNCTIONS_H

#include "sim/rounding.h"

/* ---- minimum and maximum of two integers ---- */

#ifdef GOP_SIM_OWN
#define GOP_SIM_INTEGERS(a_type, b_type, type)                                                 \
    GOP_DEVICE type min(a_type a, b_type b)                                                    \
    {                                                                                          \
        return (type)b < (type)a ? (type)b : (type)a;                                          \
    }                                                                                          \
    GOP_DEVICE type max(a_type a, b_type b)                                                    \
    {                                                                                          \
        return (type)a < (type)b ? (type)b : (type)a;                                          \
    }
#define GOP_SIM_BOTH_SIGNS(type)                                                               \
    GOP_SIM_INTEGERS(type, type, type)                                                         \
    GOP_SIM_INTEGERS(unsigned type, unsigned type, unsigned type)                              \
    GOP_SIM_INTEGERS(type, unsigned type, unsigned type)                                       \
    GOP_SIM_INTEGERS(unsigned type, type, unsigned type)
GOP_SIM_BOTH_SIGNS(int)
GOP_SIM_BOTH_SIGNS(long)
GOP_SIM_BOTH_SIGNS(long long)
#endif

/* ---- what C++ has for integers and CUDA has not: their calls are ambiguous ---- */

#ifdef GOP_SIM_OWN
#define GOP_SIM_OF_ONE(name)                                                                   \
    template <typename T, typename = decltype(T() % T())> double name(T);
GOP_SIM_OF_ONE(acos)
GOP_SIM_OF_ONE(asin)
GOP_SIM_OF_ONE(atan)
GOP_SIM_OF_ONE(cbrt)
GOP_SIM_OF_ONE(ceil)
GOP_SIM_OF_ONE(cos)
GOP_SIM_OF_ONE(cosh)
GOP_SIM_OF_ONE(erf)
GOP_SIM_OF_ONE(exp)
GOP_SIM_OF_ONE(exp2)
GOP_SIM_OF_ONE(fabs)
GOP_SIM_OF_ONE(floor)
GOP_SIM_OF_ONE(log)
GOP_SIM_OF_ONE(log10)
GOP_SIM_OF_ONE(log1p)
GOP_SIM_OF_ONE(log2)
GOP_SIM_OF_ONE(rint)
GOP_SIM_OF_ONE(round)
GOP_SIM_OF_ONE(sin)
GOP_SIM_OF_ONE(sinh)
GOP_SIM_OF_ONE(sqrt)
GOP_SIM_OF_ONE(tan)
GOP_SIM_OF_ONE(tanh)
GOP_SIM_OF_ONE(trunc)
#undef GOP_SIM_OF_ONE
#ifdef __NVCC__ /* not for OpenCL C, which converts the second number */
/* And for two numbers of different types, or two integers: pow alone has these. */
template <typename... T> using gop_sim_if_numbers =
    std::enable_if_t<(std::is_arithmetic<T>::value && ...)>;
#define GOP_SIM_OF_TWO(name)                                                                   \
    template <typename T, typename U, typename = gop_sim_if_numbers<T, U>> double name(T, U);
GOP_SIM_OF_TWO(atan2)
GOP_SIM_OF_TWO(fdim)
GOP_SIM_OF_TWO(fmax)
GOP_SIM_OF_TWO(fmin)
GOP_SIM_OF_TWO(fmod)
GOP_SIM_OF_TWO(hypot)
GOP_SIM_OF_TWO(nextafter)
GOP_SIM_OF_TWO(remainder)
#undef GOP_SIM_OF_TWO
template <typename T, typename U, typename V, typename = gop_sim_if_numbers<T, U, V>>
double fma(T, U, V);
template <typename T, typename = decltype(T() % T())> double ldexp(T, int);
template <typename T, typename = decltype(T() % T())> double scalbn(T, int);
#endif
#endif

/* ---- floats to integers ---- */

template <typename I, typename F> GOP_DEVICE I gop_sim_to_integer(F value)
{
    const int bits = 8 * (int)sizeof(I);
    const bool is_signed = (I)-1 < 0;
    const I top = (I)1 << (bits - 1), least = is_signed ? top : 0, most = (I)~least;
    const F end = (F)(1ull << (bits - 2)) * (is_signed ? 2 : 4);
    if (value != value) return sizeof(F) == 4 && sizeof(I) == 4 ? 0 : top;
    if (value >= end) return most;
    if (is_signed ? value < -end : value <= 0) return least;
    return (I)value;
}
#define GOP_SIM_TO_INTEGER(from, F, to, I, f)                                                  \
    GOP_DEVICE I __##from##2##to##_rn(F value)                                                 \
    {                                                                                          \
        return gop_sim_to_integer<I>(nearbyint##f(value));                                     \
    }                                                                                          \
    GOP_DEVICE I __##from##2##to##_rz(F value)                                                 \
    {                                                                                          \
        return gop_sim_to_integer<I>(trunc##f(value));                                         \
    }                                                                                          \
    GOP_DEVICE I __##from##2##to##_ru(F value)                                                 \
    {                                                                                          \
        return gop_sim_to_integer<I>(ceil##f(value));                                          \
    }                                                                                          \
    GOP_DEVICE I __##from##2##to##_rd(F value)                                                 \
    {                                                                                          \
        return gop_sim_to_integer<I>(floor##f(value));                                         \
    }
#define GOP_SIM_TO_INTEGERS(from, F, f)                                                        \
    GOP_SIM_TO_INTEGER(from, F, int, int, f)                                                   \
    GOP_SIM_TO_INTEGER(from, F, uint, unsigned, f)                                             \
    GOP_SIM_TO_INTEGER(from, F, ll, long long, f)                                              \
    GOP_SIM_TO_INTEGER(from, F, ull, unsigned long long, f)
GOP_SIM_TO_INTEGERS(float, float, f)
GOP_SIM_TO_INTEGERS(double, double, )

/* ---- conversions to floats and operations, with a rounding mode ---- */

#define GOP_SIM_EACH_MODE(make, ...)                                                           \
    make(ru, GOP_SIM_UP, __VA_ARGS__) make(rd, GOP_SIM_DOWN, __VA_ARGS__)                      \
        make(rz, GOP_SIM_TO_ZERO, __VA_ARGS__)
#define GOP_SIM_CONVERT(suffix, mode, name, from, F, convert)                                  \
    GOP_DEVICE F name##_##suffix(from value)                                                   \
    {                                                                                          \
        return convert(mode, value);                                                           \
    }
#define GOP_SIM_CONVERSION(name, from, F, convert)                                             \
    GOP_DEVICE F name##_rn(from value)                                                         \
    {                                                                                          \
        return (F)value;                                                                       \
    }                                                                                          \
    GOP_SIM_EACH_MODE(GOP_SIM_CONVERT, name, from, F, convert)
GOP_SIM_CONVERSION(__int2float, int, float, gop_sim_float_of_signed)
GOP_SIM_CONVERSION(__uint2float, unsigned, float, gop_sim_float_of_unsigned)
GOP_SIM_CONVERSION(__ll2float, long long, float, gop_sim_float_of_signed)
GOP_SIM_CONVERSION(__ull2float, unsigned long long, float, gop_sim_float_of_unsigned)
GOP_SIM_CONVERSION(__ll2double, long long, double, gop_sim_double_of_signed)
GOP_SIM_CONVERSION(__ull2double, unsigned long long, double, gop_sim_double_of_unsigned)
GOP_SIM_CONVERSION(__double2float, double, float, gop_sim_float_of_double)
GOP_DEVICE double __int2double_rn(int value)
{
    return value;
}
GOP_DEVICE double __uint2double_rn(unsigned value)
{
    return value;
}

#define GOP_SIM_BINARY(suffix, mode, name, F, function, operation)                             \
    GOP_DEVICE F name##_##suffix(F a, F b)                                                     \
    {                                                                                          \
        return function(mode, operation, a, b, 0);                                             \
    }
#define GOP_SIM_UNARY(suffix, mode, name, F, function, operation, first)                       \
    GOP_DEVICE F name##_##suffix(F a)                                                          \
    {                                                                                          \
        return function(mode, operation, first, a, 0);                                         \
    }
#define GOP_SIM_TERNARY(suffix, mode, name, F, function)                                       \
    GOP_DEVICE F name##_##suffix(F a, F b, F c)                                                \
    {                                                                                          \
        return function(mode, GOP_SIM_FMA, a, b, c);                                           \
    }
#define GOP_SIM_OPERATIONS(letter, fma_, F, function)                                          \
    GOP_SIM_EACH_MODE(GOP_SIM_BINARY, __##letter##add, F, function, GOP_SIM_ADD)               \
    GOP_SIM_EACH_MODE(GOP_SIM_BINARY, __##letter##sub, F, function, GOP_SIM_SUBTRACT)          \
    GOP_SIM_EACH_MODE(GOP_SIM_BINARY, __##letter##mul, F, function, GOP_SIM_MULTIPLY)          \
    GOP_SIM_EACH_MODE(GOP_SIM_BINARY, __##letter##div, F, function, GOP_SIM_DIVIDE)            \
    GOP_SIM_EACH_MODE(GOP_SIM_UNARY, __##letter##rcp, F, function, GOP_SIM_DIVIDE, 1)          \
    GOP_SIM_EACH_MODE(GOP_SIM_UNARY, __##letter##sqrt, F, function, GOP_SIM_SQRT, 0)           \
    GOP_SIM_EACH_MODE(GOP_SIM_TERNARY, fma_, F, function)
GOP_SIM_OPERATIONS(f, __fmaf, float, gop_sim_rounded_float)
GOP_SIM_OPERATIONS(d, __fma, double, gop_sim_rounded_double)
GOP_DEVICE double __drcp_rn(double a)
{
    return 1 / a;
}

/* ---- halves of words ---- */

GOP_DEVICE int __double2hiint(double value)
{
    return (int)(__double_as_longlong(value) >> 32);
}
GOP_DEVICE int __double2loint(double value)
{
    return (int)__double_as_longlong(value);
}
GOP_DEVICE double __hiloint2double(int high, int low)
{
    return __longlong_as_double((long long)high << 32 | (unsigned)low);
}
GOP_DEVICE unsigned __funnelshift_l(unsigned a, unsigned b, unsigned shift)
{
    return (unsigned)(((uint64_t)b << 32 | a) << (shift & 31) >> 32);
}
GOP_DEVICE unsigned __funnelshift_lc(unsigned a, unsigned b, unsigned shift)
{
    return (unsigned)(((uint64_t)b << 32 | a) << (shift < 32 ? shift : 32) >> 32);
}
GOP_DEVICE unsigned __funnelshift_rc(unsigned a, unsigned b, unsigned shift)
{
    return (unsigned)(((uint64_t)b << 32 | a) >> (shift < 32 ? shift : 32));
}
/* Averages without overflow, rounded down and (r) up; sums of absolute differences. */
GOP_DEVICE int __hadd(int a, int b)
{
    return (int)(((long long)a + b) >> 1);
}
GOP_DEVICE int __rhadd(int a, int b)
{
    return (int)(((long long)a + b + 1) >> 1);
}
GOP_DEVICE unsigned __uhadd(unsigned a, unsigned b)
{
    return (unsigned)(((uint64_t)a + b) >> 1);
}
GOP_DEVICE unsigned __urhadd(unsigned a, unsigned b)
{
    return (unsigned)(((uint64_t)a + b + 1) >> 1);
}
GOP_DEVICE unsigned __sad(int a, int b, unsigned c)
{
    return (a < b ? (unsigned)b - (unsigned)a : (unsigned)a - (unsigned)b) + c;
}
GOP_DEVICE unsigned __usad(unsigned a, unsigned b, unsigned c)
{
    return (a < b ? b - a : a - b) + c;
}

/* c and the products of the four bytes of a and b. */
#define GOP_SIM_DOT(type, byte, four)                                                          \
    GOP_DEVICE type __dp4a(type a, type b, type c)                                             \
    {                                                                                          \
        for (int at = 0; at < 32; at += 8) c += (byte)(a >> at) * (byte)(b >> at);             \
        return c;                                                                              \
    }                                                                                          \
    GOP_DEVICE type __dp4a(four a, four b, type c)                                             \
    {                                                                                          \
        return c + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;                              \
    }
GOP_SIM_DOT(int, signed char, char4)
GOP_SIM_DOT(unsigned, unsigned char, uchar4)

/* ---- functions missing in math.h; as on a GPU they are not correctly rounded ---- */

/* sin(pi x) and cos(pi x), by the quarter that x is in, so that they are exact for integers. */
GOP_DEVICE double sinpi(double x)
{
    const double turn = remainder(x, 2.0),
                 part = fabs(turn) > 0.5 ? copysign(1, turn) - turn : turn;
    return part == 0 ? copysign(0, x) : sin(M_PI * part);
}
GOP_DEVICE double cospi(double x)
{
    return x - x != 0 ? x - x : sinpi(0.5 - fabs(remainder(x, 2.0)));
}
GOP_DEVICE float sinpif(float x)
{
    return (float)sinpi((double)x);
}
GOP_DEVICE float cospif(float x)
{
    return (float)cospi((double)x);
}
GOP_DEVICE void sincospi(double x, double *sine, double *cosine)
{
    *sine = sinpi(x), *cosine = cospi(x);
}
GOP_DEVICE void sincospif(float x, float *sine, float *cosine)
{
    *sine = sinpif(x), *cosine = cospif(x);
}
GOP_DEVICE void gop_sim_sincosf(float x, float *sine, float *cosine)
{
    *sine = sinf(x), *cosine = cosf(x);
}
GOP_DEVICE float gop_sim_exp10f(float x)
{
    return (float)pow(10, (double)x);
}
/* The C library declares these names itself. */
#define __sincosf gop_sim_sincosf
#define __exp10f gop_sim_exp10f
#define exp10f gop_sim_exp10f
GOP_DEVICE float rcbrtf(float x)
{
    return (float)(1 / cbrt((double)x));
}
GOP_DEVICE double rcbrt(double x)
{
    return 1 / cbrt(x);
}
GOP_DEVICE float fdividef(float a, float b)
{
    return a / b;
}
#define GOP_SIM_NORMS(f, F)                                                                    \
    GOP_DEVICE F norm##f(int count, const F *values)                                           \
    {                                                                                          \
        F length = 0;                                                                          \
        for (int i = 0; i < count; i++) length = hypot##f(length, values[i]);                  \
        return length;                                                                         \
    }                                                                                          \
    GOP_DEVICE F rnorm##f(int count, const F *values)                                          \
    {                                                                                          \
        return 1 / norm##f(count, values);                                                     \
    }                                                                                          \
    GOP_DEVICE F norm3d##f(F a, F b, F c)                                                      \
    {                                                                                          \
        return hypot##f(hypot##f(a, b), c);                                                    \
    }                                                                                          \
    GOP_DEVICE F norm4d##f(F a, F b, F c, F d)                                                 \
    {                                                                                          \
        return hypot##f(hypot##f(a, b), hypot##f(c, d));                                       \
    }                                                                                          \
    GOP_DEVICE F rnorm3d##f(F a, F b, F c)                                                     \
    {                                                                                          \
        return 1 / norm3d##f(a, b, c);                                                         \
    }                                                                                          \
    GOP_DEVICE F rnorm4d##f(F a, F b, F c, F d)                                                \
    {                                                                                          \
        return 1 / norm4d##f(a, b, c, d);                                                      \
    }                                                                                          \
    GOP_DEVICE F rhypot##f(F a, F b)                                                           \
    {                                                                                          \
        return 1 / hypot##f(a, b);                                                             \
    }
GOP_SIM_NORMS(f, float)
GOP_SIM_NORMS(, double)

/* ---- probability and Bessel functions, in double; float's are rounded once more ---- */

/* The y of which erfc(y) = q: an estimate, then Halley's steps, which triple its digits. */
GOP_DEVICE double erfcinv(double q)
{
    if (!(q > 0 && q < 2)) return q == 0 ? INFINITY : q == 2 ? -INFINITY : NAN;
    const double least = q > 1 ? 2 - q : q, tail = fmax(-log(least), 0.01);
    double y = least > 0.1 ? (1 - least) / M_2_SQRTPI : sqrt(tail - log(tail * M_PI) / 2);
    for (int i = 0; i < 6; i++) {
        const double apart = (erfc(y) - least) / (M_2_SQRTPI * exp(-y * y));
        y += apart / (1 - y * apart);
    }
    return q > 1 ? -y : y;
}
GOP_DEVICE double erfinv(double x)
{
    if (fabs(x) > 0.5) return x > 0 ? erfcinv(1 - x) : -erfcinv(1 + x);
    double y = x / M_2_SQRTPI;
    for (int i = 0; i < 6; i++) {
        const double apart = (x - erf(y)) / (M_2_SQRTPI * exp(-y * y));
        y += apart / (1 - y * apart);
    }
    return y;
}
/* exp(x * x) * erfc(x): from 25 on by the asymptotic series, as erfc becomes 0. */
GOP_DEVICE double erfcx(double x)
{
    if (!(x >= 25)) return exp(x * x) * erfc(x);
    double term = 1, sum = 1;
    for (int k = 1; k < 9; k++) sum += term *= -(2 * k - 1) / (2 * x * x);
    return sum * M_2_SQRTPI / (2 * x);
}
GOP_DEVICE double normcdf(double x)
{
    return 0.5 * erfc(-x * M_SQRT1_2);
}
GOP_DEVICE double normcdfinv(double p)
{
    return -M_SQRT2 * erfcinv(2 * p);
}
/* The modified Bessel function of order n, by its power series: all terms have one sign. */
GOP_DEVICE double gop_sim_bessel(int n, double x)
{
    if (!(fabs(x) < 720)) return x != x ? x : n == 1 && x < 0 ? -INFINITY : INFINITY;
    double term = n == 1 ? x / 2 : 1, sum = term;
    for (int k = 1; fabs(term) > fabs(sum) * 1e-17; k++)
        sum += term *= x * x / (4.0 * k * (k + n));
    return sum;
}
GOP_DEVICE double cyl_bessel_i0(double x)
{
    return gop_sim_bessel(0, x);
}
GOP_DEVICE double cyl_bessel_i1(double x)
{
    return gop_sim_bessel(1, x);
}
#define GOP_SIM_IN_FLOAT(name)                                                                 \
    GOP_DEVICE float name##f(float x)                                                          \
    {                                                                                          \
        return (float)name((double)x);                                                         \
    }
GOP_SIM_IN_FLOAT(erfcinv)
GOP_SIM_IN_FLOAT(erfinv)
GOP_SIM_IN_FLOAT(erfcx)
GOP_SIM_IN_FLOAT(normcdf)
GOP_SIM_IN_FLOAT(normcdfinv)
GOP_SIM_IN_FLOAT(cyl_bessel_i0)
GOP_SIM_IN_FLOAT(cyl_bessel_i1)

#endif
