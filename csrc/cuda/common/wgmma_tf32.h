/*
 * wgmma_tf32.h - wgmma for float32 factors cut to 11
 * bits (TF32).
 *
 * As wgmma.h, but 64 x 8 by 8 x 256: a thread has 128 of the sums. The instruction takes 4-byte
 * items in shared memory only if they are contiguous along k; the other operand is in
 * registers.
 */
#ifndef GOP_CUDA_COMMON_WGMMA_TF32_H
#define GOP_CUDA_COMMON_WGMMA_TF32_H

#include "cuda/common/wgmma.h"

#if GOP_SM90

/* Waits until the products of all groups but the last are in the sums. */
GOP_DEVICE void wgmma_wait_but_one(void)
{
#if GOP_WGMMA
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
#endif
}

/* Keeps these factors in registers until here: running products read them. */
template <int N> GOP_DEVICE void wgmma_hold(uint32_t (&factors)[N])
{
#if GOP_WGMMA
#pragma unroll
    for (int e = 0; e < N; e++) asm volatile("" : "+r"(factors[e])::"memory");
#endif
}

#define GOP_SUMS8(s, i)                                                                        \
    "+f"(s[i]), "+f"(s[i + 1]), "+f"(s[i + 2]), "+f"(s[i + 3]), "+f"(s[i + 4]),                \
        "+f"(s[i + 5]), "+f"(s[i + 6]), "+f"(s[i + 7])
#define GOP_SUMS32(s, i)                                                                       \
    GOP_SUMS8(s, i), GOP_SUMS8(s, i + 8), GOP_SUMS8(s, i + 16), GOP_SUMS8(s, i + 24)

/* sum += a b, or sum = a b where `on` is 0; a[0] and a[1] are rows g and g + 8 of term q, a[2]
 * and a[3] of term q + 4 (sm80.h), of a warp's 16 rows. */
GOP_DEVICE void wgmma_add_tf32(float (&sum)[128], const uint32_t *a, uint64_t b, int on)
{
#if GOP_WGMMA
    asm volatile("{\n"
                 ".reg .pred on;\n"
                 "setp.ne.b32 on, %133, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "
                 "%30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, "
                 "%44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, "
                 "%58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, "
                 "%72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, "
                 "%86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, "
                 "%100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, "
                 "%111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, "
                 "%122, %123, %124, %125, %126, %127"
                 "}, {%128, %129, %130, %131}, %132, on, 1, 1;\n"
                 "}"
                 : GOP_SUMS32(sum, 0), GOP_SUMS32(sum, 32), GOP_SUMS32(sum, 64),
                   GOP_SUMS32(sum, 96)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(on));
#endif
}

#undef GOP_SUMS8
#undef GOP_SUMS32

#endif
#endif
