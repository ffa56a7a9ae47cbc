/*
 * lesson.h - the dtypes of lessons, which do not differ by dtype.
 */
#ifndef GOP_CUDA_MATMUL_LESSON_H
#define GOP_CUDA_MATMUL_LESSON_H

#include "cuda/matmul/product.h"

#define MATMUL_LESSONS(f)                                                                      \
    {                                                                                          \
        nullptr, nullptr, nullptr, f(uint32_t), nullptr, nullptr, nullptr, nullptr, nullptr,   \
            nullptr, nullptr, f(float), f(double), nullptr, nullptr                            \
    }

#endif
