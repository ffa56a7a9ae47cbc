/*
 * rounding.h - operations with a rounding mode other than to nearest.
 */
#ifndef GOP_SIM_ROUNDING_H
#define GOP_SIM_ROUNDING_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* for kernels that Python compiles */

typedef enum gop_sim_mode { GOP_SIM_UP, GOP_SIM_DOWN, GOP_SIM_TO_ZERO } gop_sim_mode;

typedef enum gop_sim_operation {
    GOP_SIM_ADD,
    GOP_SIM_SUBTRACT,
    GOP_SIM_MULTIPLY,
    GOP_SIM_DIVIDE,
    GOP_SIM_SQRT, /* of b */
    GOP_SIM_FMA,
} gop_sim_operation;

float gop_sim_rounded_float(gop_sim_mode mode, gop_sim_operation operation, float a, float b,
                            float c);
double gop_sim_rounded_double(gop_sim_mode mode, gop_sim_operation operation, double a,
                              double b, double c);
float gop_sim_float_of_signed(gop_sim_mode mode, long long value);
float gop_sim_float_of_unsigned(gop_sim_mode mode, unsigned long long value);
float gop_sim_float_of_double(gop_sim_mode mode, double value);
double gop_sim_double_of_signed(gop_sim_mode mode, long long value);
double gop_sim_double_of_unsigned(gop_sim_mode mode, unsigned long long value);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
