/*
 * cp_async.h - asynchronous copies from memory to shared memory, from compute capability 8.0
 * on.
 *
 * They need no register, and the thread goes on while they are in flight.
 */
#ifndef GOP_CUDA_COMMON_CP_ASYNC_H
#define GOP_CUDA_COMMON_CP_ASYNC_H

#include "cuda/common/sm80.h"

#if GOP_SM80

GOP_DEVICE uint32_t address_in_shared(const void *at)
{
    return (uint32_t)__cvta_generic_to_shared(at);
}

/* Copies BYTES bytes (4, 8 or 16, aligned), or stores zeros if nothing exists there. By default
 * 16 bytes pass L1 by; what all blocks copy should not (CACHED), since one
 * place of the L2 cache would serve them one after the other. */
template <int BYTES, bool CACHED = false>
GOP_DEVICE void cp_async(uint32_t to, const void *from, bool exists)
{
#if GOP_CODE_SM80
    const int bytes = exists ? BYTES : 0;
    if constexpr (BYTES == 16 && !CACHED)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                     "r"(bytes)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from),
                     "n"(BYTES), "r"(bytes)
                     : "memory");
#endif
}

/* Ends a group of copies. */
GOP_DEVICE void cp_async_commit_group(void)
{
#if GOP_CODE_SM80
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Waits until all groups of this thread but the last N have arrived. */
template <int N> GOP_DEVICE void cp_async_wait_group(void)
{
#if GOP_CODE_SM80
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}

#endif

/* A thread's copies of items of 4, 8 or 16 bytes; at most MOST are in flight, in at most 8
 * groups. On sim each arrives as late as possible, when it is waited for; until then its place
 * holds NaN. */
template <typename T, int MOST> struct async_copies {
#if GOP_SM80
    GOP_DEVICE void copy(T *to, const T *from, bool exists, bool is_cached = false)
    {
        if (is_cached) cp_async<sizeof(T), true>(address_in_shared(to), from, exists);
        else cp_async<sizeof(T)>(address_in_shared(to), from, exists);
    }
    GOP_DEVICE void commit(void)
    {
        cp_async_commit_group();
    }
    template <int N> GOP_DEVICE void wait(void)
    {
        cp_async_wait_group<N>();
    }
#else
    T *places[MOST], values[MOST];
    unsigned begun = 0, arrived = 0, groups = 0, awaited = 0, end[8];

    GOP_DEVICE void copy(T *to, const T *from, bool exists, bool = false)
    {
        T none, zero = {};
        __builtin_memset(&none, 0xff, sizeof none);
        *to = none;
        places[begun % MOST] = to;
        values[begun++ % MOST] = exists ? *from : zero;
    }
    GOP_DEVICE void commit(void)
    {
        end[groups++ % 8] = begun;
    }
    template <int N> GOP_DEVICE void wait(void)
    {
        for (; groups - awaited > N; awaited++) arrive(end[awaited % 8]);
    }
    /* Not counted: the store was, when the copy began. */
    __attribute__((noinline, no_sanitize("thread"))) void arrive(unsigned until)
    {
        for (; arrived != until; arrived++) *places[arrived % MOST] = values[arrived % MOST];
    }
#endif
};

#endif
