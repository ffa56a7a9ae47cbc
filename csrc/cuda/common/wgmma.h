/*
 * wgmma.h - wgmma: a warpgroup multiplies matrices, from compute capability 9.0 on.
 *
 * Four warps (a warpgroup) multiply a 64 x 16 tile of a by a 16 x 128 tile of b, both halves in
 * shared memory, and add to 64 x 128 float32 sums in their registers, 64 of each thread. The
 * instruction is asynchronous: fence, multiply, commit, wait. Only compute capability 9.0 has
 * it, later ones neither.
 */
#ifndef GOP_CUDA_COMMON_WGMMA_H
#define GOP_CUDA_COMMON_WGMMA_H

#include "cuda/common/sm90.h"

/* Refuses, for `who`, where there is no such instruction. */
static inline gop_status gop_has_wgmma(const gop_ctx *ctx, const char *who)
{
    return gop_has_sm90(ctx, who, "whose warpgroups multiply matrices in shared memory");
}

#if GOP_SM90

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define GOP_WGMMA 1
#else
#define GOP_WGMMA 0
#endif

/* A block of specialised warpgroups: one fetches (producers), two multiply (consumers). */
enum { GROUP_THREADS = 128, PRODUCERS = 128, CONSUMERS = 256, BLOCK_THREADS = 384 };

/* Sets the registers of a thread of this warpgroup from here on: a multiple of 8. */
template <int REGISTERS> GOP_DEVICE void setmaxnreg_inc(void)
{
#if GOP_WGMMA
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
#endif
}
template <int REGISTERS> GOP_DEVICE void setmaxnreg_dec(void)
{
#if GOP_WGMMA
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
#endif
}

/* The sums may be used by the next product. */
GOP_DEVICE void wgmma_fence(void)
{
#if GOP_WGMMA
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

/* The products issued so far are a group. */
GOP_DEVICE void wgmma_commit(void)
{
#if GOP_WGMMA
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

/* Until all groups but the last N are in the sums. */
template <int N = 0> GOP_DEVICE void wgmma_wait(void)
{
#if GOP_WGMMA
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
#endif
}

GOP_DEVICE void wgmma_finish(void)
{
    wgmma_commit();
    wgmma_wait();
}

/* The descriptor of a tile in shared memory. `lead` and `stride` are bytes between its groups
 * of rows in the two directions; the swizzle is that of rows of 128 bytes (1) or of 64 (2). */
GOP_DEVICE uint64_t make_smem_desc(uint32_t address, int lead, int stride, int swizzle)
{
    return (uint64_t)(address >> 4 & 0x3fff) | (uint64_t)(lead >> 4) << 16 |
           (uint64_t)(stride >> 4) << 32 | (uint64_t)swizzle << 62;
}

#define GOP_SUMS8(s, i)                                                                        \
    "+f"(s[i]), "+f"(s[i + 1]), "+f"(s[i + 2]), "+f"(s[i + 3]), "+f"(s[i + 4]),                \
        "+f"(s[i + 5]), "+f"(s[i + 6]), "+f"(s[i + 7])
#define GOP_SUMS16(i) GOP_SUMS8(sum, i), GOP_SUMS8(sum, i + 8)
#define GOP_SUMS32(i) GOP_SUMS16(i), GOP_SUMS16(i + 16)
#define GOP_SUMS64(i) GOP_SUMS32(i), GOP_SUMS32(i + 32)
#define GOP_SUMS56(i) GOP_SUMS32(i), GOP_SUMS16(i + 32), GOP_SUMS8(sum, i + 48)
#define GOP_SUMS72(i) GOP_SUMS64(i), GOP_SUMS8(sum, i + 64)
#define GOP_SUMS80(i) GOP_SUMS64(i), GOP_SUMS16(i + 64)
#define GOP_SUMS96(i) GOP_SUMS64(i), GOP_SUMS32(i + 64)
#define GOP_SUMS128(i) GOP_SUMS64(i), GOP_SUMS64(i + 64)
/* Numbers of operands in the text of an instruction, some at a time. */
#define GOP_TEN(t)                                                                             \
    ", %" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, %" #t   \
    "8, %" #t "9"
#define GOP_TEXT32 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9" GOP_TEN(1) GOP_TEN(2) ", %30, %31"
#define GOP_TEXT40 GOP_TEXT32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define GOP_TEXT56 GOP_TEXT40 GOP_TEN(4) ", %50, %51, %52, %53, %54, %55"
#define GOP_TEXT60 GOP_TEXT40 GOP_TEN(4) GOP_TEN(5)
#define GOP_TEXT64 GOP_TEXT60 ", %60, %61, %62, %63"
#define GOP_TEXT72 GOP_TEXT60 GOP_TEN(6) ", %70, %71"
#define GOP_TEXT80 GOP_TEXT60 GOP_TEN(6) GOP_TEN(7)
#define GOP_TEXT90 GOP_TEXT60 GOP_TEN(6) GOP_TEN(7) GOP_TEN(8)
#define GOP_TEXT96 GOP_TEXT90 ", %90, %91, %92, %93, %94, %95"
#define GOP_TEXT128                                                                            \
    GOP_TEXT90 GOP_TEN(9) GOP_TEN(10) GOP_TEN(11) ", %120, %121, %122, %123, %124, %125, "     \
                                                  "%126, %127"
/* Multiplies n columns into half as many sums; operands a, b, on and the orders follow them. */
#define GOP_WGMMA_(type, n, text, sums, a_at, b_at, on_at, a_order, b_order)                   \
    asm volatile("{\n"                                                                         \
                 ".reg .pred on;\n"                                                            \
                 "setp.ne.b32 on, %" on_at ", 0;\n"                                            \
                 "wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " {" text      \
                 "}, %" a_at ", %" b_at ", on, 1, 1, %" a_order ", %" b_order ";\n"            \
                 "}"                                                                           \
                 : sums                                                                        \
                 : "l"(a), "l"(b), "r"(on), "n"(A_TRANSPOSED), "n"(B_TRANSPOSED))
#define GOP_WGMMA_OF(type)                                                                     \
    if constexpr (SUMS == 32)                                                                  \
        GOP_WGMMA_(type, "64", GOP_TEXT32, GOP_SUMS32(0), "32", "33", "34", "35", "36");       \
    else if constexpr (SUMS == 56)                                                             \
        GOP_WGMMA_(type, "112", GOP_TEXT56, GOP_SUMS56(0), "56", "57", "58", "59", "60");      \
    else if constexpr (SUMS == 64)                                                             \
        GOP_WGMMA_(type, "128", GOP_TEXT64, GOP_SUMS64(0), "64", "65", "66", "67", "68");      \
    else if constexpr (SUMS == 72)                                                             \
        GOP_WGMMA_(type, "144", GOP_TEXT72, GOP_SUMS72(0), "72", "73", "74", "75", "76");      \
    else if constexpr (SUMS == 80)                                                             \
        GOP_WGMMA_(type, "160", GOP_TEXT80, GOP_SUMS80(0), "80", "81", "82", "83", "84");      \
    else if constexpr (SUMS == 96)                                                             \
        GOP_WGMMA_(type, "192", GOP_TEXT96, GOP_SUMS96(0), "96", "97", "98", "99", "100");     \
    else GOP_WGMMA_(type, "256", GOP_TEXT128, GOP_SUMS128(0), "128", "129", "130", "131", "132")

/* sum += a b, or sum = a b where `on` is 0, of 64 rows and 2 SUMS columns. HALF: float16, else
 * bfloat16. A tile of a lies by rows, or transposed by columns; one of b by columns, or
 * transposed by rows. */
template <bool HALF, int A_TRANSPOSED = 0, int B_TRANSPOSED = 1, int SUMS>
GOP_DEVICE void wgmma_add(float (&sum)[SUMS], uint64_t a, uint64_t b, int on)
{
#if GOP_WGMMA
    if constexpr (HALF) {
        GOP_WGMMA_OF("f16");
    } else {
        GOP_WGMMA_OF("bf16");
    }
#endif
}

/* The same with a tile of a in the warpgroup's registers, of whose 16 rows a warp's lane has
 * factors as for mma_sync (mma.h). */
#define GOP_WGMMA_A_(shape, type, text, sums, a_at, b_at, on_at, order)                        \
    asm volatile("{\n"                                                                         \
                 ".reg .pred on;\n"                                                            \
                 "setp.ne.b32 on, %" on_at ", 0;\n"                                            \
                 "wgmma.mma_async.sync.aligned." shape ".f32." type "." type " {" text         \
                 "}, {" a_at "}, %" b_at ", on, 1, 1" order ";\n"                              \
                 "}"                                                                           \
                 : sums                                                                        \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(on),                \
                   "n"(B_TRANSPOSED))

/* bfloat16, and 64 or 128 columns. */
template <int B_TRANSPOSED = 1, int SUMS>
GOP_DEVICE void wgmma_add(float (&sum)[SUMS], const uint32_t (&a)[4], uint64_t b, int on)
{
#if GOP_WGMMA
    if constexpr (SUMS == 32)
        GOP_WGMMA_A_("m64n64k16", "bf16", GOP_TEXT32, GOP_SUMS32(0), "%32, %33, %34, %35", "36",
                     "37", ", %38");
    else
        GOP_WGMMA_A_("m64n128k16", "bf16", GOP_TEXT64, GOP_SUMS64(0), "%64, %65, %66, %67",
                     "68", "69", ", %70");
#endif
}

/* float32 cut to 11 bits (TF32), b's items contiguous along k: 64 x 8 by 8 x 256. */
GOP_DEVICE void wgmma_add_tf32(float (&sum)[128], const uint32_t *a, uint64_t b, int on)
{
#if GOP_WGMMA
    constexpr int B_TRANSPOSED = 0; /* not one of its operands */
    GOP_WGMMA_A_("m64n256k8", "tf32", GOP_TEXT128, GOP_SUMS128(0), "%128, %129, %130, %131",
                 "132", "133", "");
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

#undef GOP_WGMMA_A_
#undef GOP_WGMMA_OF
#undef GOP_WGMMA_
#undef GOP_TEXT128
#undef GOP_TEXT96
#undef GOP_TEXT90
#undef GOP_TEXT64
#undef GOP_TEXT80
#undef GOP_TEXT72
#undef GOP_TEXT60
#undef GOP_TEXT56
#undef GOP_TEXT40
#undef GOP_TEXT32
#undef GOP_TEN
#undef GOP_SUMS128
#undef GOP_SUMS96
#undef GOP_SUMS64
#undef GOP_SUMS80
#undef GOP_SUMS72
#undef GOP_SUMS56
#undef GOP_SUMS32
#undef GOP_SUMS16
#undef GOP_SUMS8

#endif
#endif
