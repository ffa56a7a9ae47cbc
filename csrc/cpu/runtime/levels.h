/*
 * levels.h - the instruction-set level that CPU kernels run at.
 */
#ifndef GOP_LEVELS_H
#define GOP_LEVELS_H

#include "core/core.h"

typedef enum gop_level { GOP_BASELINE, GOP_AVX2, GOP_AVX512, GOP_NLEVELS } gop_level;

extern const char *const gop_level_names[GOP_NLEVELS];

int gop_level_supported(gop_level level); /* by this build and this processor */
/* The level in use: set by gop_level_set, else by GPUOPS_CPU_LEVEL, else the best supported. */
gop_status gop_level_get(gop_level *level) GOP_MUST_CHECK;
gop_status gop_level_set(const char *name) GOP_MUST_CHECK; /* NULL: back to the default */

#endif
