/*
 * rounding.c - operations with a rounding mode other than to nearest.
 *
 * The mode belongs to the CPU thread, and no other lane runs before it is restored. Values go
 * through volatile variables, because compilers ignore the mode.
 */
#include "sim/rounding.h"

#include <fenv.h>
#include <math.h>

static const int mode_of[] = {
    [GOP_SIM_UP] = FE_UPWARD,
    [GOP_SIM_DOWN] = FE_DOWNWARD,
    [GOP_SIM_TO_ZERO] = FE_TOWARDZERO,
};

#define ROUNDED(F, f)                                                                          \
    F gop_sim_rounded_##F(gop_sim_mode mode, gop_sim_operation operation, F a, F b, F c)       \
    {                                                                                          \
        const int before = fegetround();                                                       \
        fesetround(mode_of[mode]);                                                             \
        const volatile F x = a, y = b, z = c;                                                  \
        volatile F result = 0;                                                                 \
        switch (operation) {                                                                   \
        case GOP_SIM_ADD:                                                                      \
            result = x + y;                                                                    \
            break;                                                                             \
        case GOP_SIM_SUBTRACT:                                                                 \
            result = x - y;                                                                    \
            break;                                                                             \
        case GOP_SIM_MULTIPLY:                                                                 \
            result = x * y;                                                                    \
            break;                                                                             \
        case GOP_SIM_DIVIDE:                                                                   \
            result = x / y;                                                                    \
            break;                                                                             \
        case GOP_SIM_SQRT:                                                                     \
            result = sqrt##f(y);                                                               \
            break;                                                                             \
        case GOP_SIM_FMA:                                                                      \
            result = fma##f(x, y, z);                                                          \
            break;                                                                             \
        }                                                                                      \
        fesetround(before);                                                                    \
        return result;                                                                         \
    }
ROUNDED(float, f)
ROUNDED(double, )

#define CONVERTED(name, F, from)                                                               \
    F name(gop_sim_mode mode, from value)                                                      \
    {                                                                                          \
        const int before = fegetround();                                                       \
        fesetround(mode_of[mode]);                                                             \
        const volatile from x = value;                                                         \
        const volatile F result = (F)x;                                                        \
        fesetround(before);                                                                    \
        return result;                                                                         \
    }
CONVERTED(gop_sim_float_of_signed, float, long long)
CONVERTED(gop_sim_float_of_unsigned, float, unsigned long long)
CONVERTED(gop_sim_float_of_double, float, double)
CONVERTED(gop_sim_double_of_signed, double, long long)
CONVERTED(gop_sim_double_of_unsigned, double, unsigned long long)
