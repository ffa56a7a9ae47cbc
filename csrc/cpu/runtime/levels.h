/*
 * levels.h - the instruction-set level that CPU kernels run at.
 */
#ifndef GOP_LEVELS_H
#define GOP_LEVELS_H

#include "core/core.h"

typedef enum gop_level { GOP_BASELINE, GOP_AVX2, GOP_AVX512, GOP_NLEVELS } gop_level;

/* The levels that this build has kernels for, one bit each: see _build/levels.py. */
#ifndef GOP_LEVELS
#define GOP_LEVELS (1 << GOP_BASELINE)
#endif

extern const char *const gop_level_names[GOP_NLEVELS];

int gop_level_supported(gop_level level); /* by this build and this processor */
/* Fails if this build has no kernels for this processor. */
gop_status gop_levels_check(void) GOP_MUST_CHECK;
/* The level in use: that of gop_level_set, else of GPUOPS_CPU_LEVEL, else the best supported.
 */
gop_status gop_level_get(gop_level *level) GOP_MUST_CHECK;
gop_status gop_level_set(const char *name) GOP_MUST_CHECK; /* NULL: the default */

#endif
