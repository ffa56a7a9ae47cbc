/*
 * levels.c - which instruction-set levels this build and this processor support, and which is
 * used.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/runtime/levels.h"

const char *const gop_level_names[GOP_NLEVELS] = {"baseline", "avx2", "avx512"};

static atomic_int level_set = -1;

#ifdef __x86_64__
#include <cpuid.h>

/* Whether the processor converts float16. Some compilers' __builtin_cpu_supports does not know
 * f16c. */
static int has_f16c(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}

static int processor_has(gop_level level)
{
    __builtin_cpu_init();
    if (level == GOP_BASELINE) return 1;
    const int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                     __builtin_cpu_supports("bmi2") && has_f16c();
    if (level == GOP_AVX2) return avx2;
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}
#else
static int processor_has(gop_level level)
{
    return level == GOP_BASELINE;
}
#endif

int gop_level_supported(gop_level level)
{
    return (GOP_LEVELS >> level & 1) && processor_has(level);
}

gop_status gop_levels_check(void)
{
    char built[64] = "";
    for (int l = 0; l < GOP_NLEVELS; l++) {
        if (gop_level_supported((gop_level)l)) return GOP_OK;
        const size_t used = strlen(built);
        if (GOP_LEVELS >> l & 1)
            snprintf(built + used, sizeof built - used, "%s%s", used ? ", " : "",
                     gop_level_names[l]);
    }
    return gop_fail(GOP_DEVICE_UNSUPPORTED,
                    "gpuops was built for processors with %s, and this one has less: build it "
                    "here, or anywhere with GPUOPS_CPU_LEVELS=all",
                    built);
}

static gop_status level_named(const char *name, const char *from, gop_level *level)
{
    char list[64] = "";
    for (int l = 0; l < GOP_NLEVELS; l++) {
        if (!gop_level_supported((gop_level)l)) continue;
        if (strcmp(name, gop_level_names[l]) == 0) {
            *level = (gop_level)l;
            return GOP_OK;
        }
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", gop_level_names[l]);
    }
    return gop_fail(GOP_BAD_ARGUMENT,
                    "%s is '%s', expected one of %s on this processor, by this build", from,
                    name, list);
}

gop_status gop_level_get(gop_level *level)
{
    const int set = atomic_load(&level_set);
    if (set >= 0) {
        *level = (gop_level)set;
        return GOP_OK;
    }
    const char *name = getenv("GPUOPS_CPU_LEVEL");
    if (name && *name) GOP_TRY(level_named(name, "GPUOPS_CPU_LEVEL", level));
    else
        for (int l = 0; l < GOP_NLEVELS; l++)
            if (gop_level_supported((gop_level)l)) *level = (gop_level)l;
    atomic_store(&level_set, (int)*level);
    return GOP_OK;
}

gop_status gop_level_set(const char *name)
{
    gop_level level = GOP_BASELINE;
    if (name) GOP_TRY(level_named(name, "the CPU level", &level));
    atomic_store(&level_set, name ? (int)level : -1);
    return GOP_OK;
}
