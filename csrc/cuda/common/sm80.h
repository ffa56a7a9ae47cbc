/*
 * sm80.h - the gate of compute capability 8.0.
 *
 * Files that use its instructions (mma.h, cp_async.h) are named *_sm80.cu; a build for several
 * architectures compiles them for 8.0 and later only. Their rows refuse on older GPUs, by
 * gop_has_code, and on sim, where no such code can be made and GOP_SM80 is 0.
 */
#ifndef GOP_CUDA_COMMON_SM80_H
#define GOP_CUDA_COMMON_SM80_H

#include "cuda/device.h"

#ifdef __CUDACC__
#define GOP_SM80 1
#else
#define GOP_SM80 0
#endif

/* Whether the code that is compiled right now is for such a GPU. */
#if GOP_SM80 && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800)
#define GOP_CODE_SM80 1
#else
#define GOP_CODE_SM80 0
#endif

#endif
