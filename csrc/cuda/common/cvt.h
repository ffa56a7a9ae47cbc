/*
 * cvt.h - two numbers rounded to halves by one instruction.
 */
#ifndef GOP_CUDA_COMMON_CVT_H
#define GOP_CUDA_COMMON_CVT_H

#include "cuda/common/sm80.h"

#if GOP_SM80

/* To nearest even, the first in the lower half of the word; of NaNs one that is the same. */
GOP_DEVICE uint32_t cvt_rn_two(float low, float high, float16)
{
    uint32_t word = 0;
#if GOP_CODE_SM80
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
#endif
    return word;
}
GOP_DEVICE uint32_t cvt_rn_two(float low, float high, bfloat16)
{
    uint32_t word = 0;
#if GOP_CODE_SM80
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
#endif
    return word;
}

#endif
#endif
