/*
 * numbers.h - OpenCL C's functions of numbers that are seldom used; most have no vectors here.
 */
#ifndef GOP_OPENCL_NUMBERS_H
#define GOP_OPENCL_NUMBERS_H

/* ---- floats ---- */

#define GOP_CL_MORE(F, U)                                                                      \
    GOP_DEVICE F pown(F x, int n)                                                              \
    {                                                                                          \
        return (F)pow((double)x, (double)n);                                                   \
    }                                                                                          \
    GOP_DEVICE F rootn(F x, int n)                                                             \
    {                                                                                          \
        const double root = pow(fabs((double)x), 1.0 / n);                                     \
        return (F)(x < 0 ? n % 2 ? -root : (double)NAN : root);                                \
    }                                                                                          \
    GOP_DEVICE F maxmag(F a, F b)                                                              \
    {                                                                                          \
        return fabs(a) > fabs(b) ? a : fabs(b) > fabs(a) ? b : fmax(a, b);                     \
    }                                                                                          \
    GOP_DEVICE F minmag(F a, F b)                                                              \
    {                                                                                          \
        return fabs(a) < fabs(b) ? a : fabs(b) < fabs(a) ? b : fmin(a, b);                     \
    }                                                                                          \
    GOP_DEVICE F fract(F x, F *whole)                                                          \
    {                                                                                          \
        const F part = x - (*whole = floor(x)), below = nextafter((F)1, (F)0);                 \
        return x == x && part > below ? below : part;                                          \
    }                                                                                          \
    GOP_DEVICE F sincos(F x, F *cosine)                                                        \
    {                                                                                          \
        *cosine = cos(x);                                                                      \
        return sin(x);                                                                         \
    }                                                                                          \
    GOP_DEVICE F gop_cl_nan(U payload)                                                         \
    {                                                                                          \
        (void)payload;                                                                         \
        return (F)NAN;                                                                         \
    }                                                                                          \
    GOP_DEVICE int isordered(F a, F b)                                                         \
    {                                                                                          \
        return a == a && b == b;                                                               \
    }                                                                                          \
    GOP_DEVICE F tanpi(F x)                                                                    \
    {                                                                                          \
        return sinpi(x) / cospi(x);                                                            \
    }                                                                                          \
    GOP_DEVICE F asinpi(F x)                                                                   \
    {                                                                                          \
        return (F)(asin((double)x) / M_PI);                                                    \
    }                                                                                          \
    GOP_DEVICE F acospi(F x)                                                                   \
    {                                                                                          \
        return (F)(acos((double)x) / M_PI);                                                    \
    }                                                                                          \
    GOP_DEVICE F atanpi(F x)                                                                   \
    {                                                                                          \
        return (F)(atan((double)x) / M_PI);                                                    \
    }                                                                                          \
    GOP_DEVICE F atan2pi(F y, F x)                                                             \
    {                                                                                          \
        return (F)(atan2((double)y, (double)x) / M_PI);                                        \
    }
GOP_CL_MORE(float, unsigned)
GOP_CL_MORE(double, unsigned long)
#define nan gop_cl_nan

/* ---- integers ---- */

/* The highest bit is the truth of a number, too. */
#define GOP_CL_TRUE(I)                                                                         \
    GOP_DEVICE int any(I truth)                                                                \
    {                                                                                          \
        return truth < 0;                                                                      \
    }                                                                                          \
    GOP_DEVICE int all(I truth)                                                                \
    {                                                                                          \
        return truth < 0;                                                                      \
    }
GOP_CL_TRUE(char)
GOP_CL_TRUE(short)
GOP_CL_TRUE(int)
GOP_CL_TRUE(long)
#define GOP_CL_BITS(I, U)                                                                      \
    GOP_DEVICE I bitselect(I a, I b, I which)                                                  \
    {                                                                                          \
        return (I)((a & ~which) | (b & which));                                                \
    }                                                                                          \
    GOP_DEVICE I mad_hi(I a, I b, I c)                                                         \
    {                                                                                          \
        return (I)((U)mul_hi(a, b) + (U)c);                                                    \
    }
GOP_CL_INTEGERS(GOP_CL_BITS)
GOP_DEVICE int mad_sat(int a, int b, int c)
{
    const long sum = (long)a * b + c;
    return sum < INT_MIN ? INT_MIN : sum > INT_MAX ? INT_MAX : (int)sum;
}
GOP_DEVICE unsigned mad_sat(unsigned a, unsigned b, unsigned c)
{
    const unsigned long sum = (unsigned long)a * b + c;
    return sum > UINT_MAX ? UINT_MAX : (unsigned)sum;
}
#define GOP_CL_UPSAMPLE(to, high, low)                                                         \
    GOP_DEVICE to upsample(high a, low b)                                                      \
    {                                                                                          \
        return (to)((to)a << 8 * (int)sizeof(low) | b);                                        \
    }
GOP_CL_UPSAMPLE(short, char, uchar)
GOP_CL_UPSAMPLE(ushort, uchar, uchar)
GOP_CL_UPSAMPLE(int, short, ushort)
GOP_CL_UPSAMPLE(unsigned, ushort, ushort)
GOP_CL_UPSAMPLE(long, int, unsigned)
GOP_CL_UPSAMPLE(unsigned long, unsigned, unsigned)

#endif
