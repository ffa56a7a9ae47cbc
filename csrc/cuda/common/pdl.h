/*
 * pdl.h - programmatic dependent launch: the next kernel begins before this one has ended.
 *
 * The next kernel waits by grid_dependency_sync (launch.h).
 */
#ifndef GOP_CUDA_COMMON_PDL_H
#define GOP_CUDA_COMMON_PDL_H

#include "cuda/common/sm90.h"

#if GOP_SM90

/* Dependent kernels may be scheduled from here on (the PDL trigger). */
GOP_DEVICE void launch_dependents(void)
{
#if GOP_CODE_SM90
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

#endif
#endif
