/*
 * reduce_lecture.h - what the lectures' kernels share: the sum of a whole contiguous array.
 *
 * A launch makes a shorter array of partial sums, in one half of scratch or the other, until
 * one is left. Integers are summed as int64. The order of the additions depends on the grid.
 */
#ifndef GOP_CUDA_REDUCE_LECTURE_H
#define GOP_CUDA_REDUCE_LECTURE_H

#include "cuda/device.h"

enum { BLOCK = 256 };

template <typename T> struct lecture_sum {
    typedef T type;
};
template <> struct lecture_sum<int32_t> {
    typedef int64_t type;
};
template <typename T> using lecture_sum_t = typename lecture_sum<T>::type;

/* The rows of reduce_lecture.cu and of reduce_passes.cu. */
#define LECTURE_STEPS(X)                                                                       \
    X(reduce_naive)                                                                            \
    X(reduce_interleaved)                                                                      \
    X(reduce_strided)                                                                          \
    X(reduce_sequential)                                                                       \
    X(reduce_loaded)                                                                           \
    X(reduce_unrolled)                                                                         \
    X(reduce_complete)                                                                         \
    X(reduce_cascaded)
#define LECTURE_PASSES(X)                                                                      \
    X(reduce_multipass)                                                                        \
    X(reduce_shuffled)                                                                         \
    X(reduce_wide)                                                                             \
    X(reduce_atomic)                                                                           \
    X(reduce_ticket)

#define LECTURE_DECLARE(row)                                                                   \
    template <typename T> gop_status row(gop_ctx *ctx, const gop_task *task, int64_t);
LECTURE_STEPS(LECTURE_DECLARE)
LECTURE_PASSES(LECTURE_DECLARE)

/* Compiles a row for the dtypes of teaching rows. */
#define LECTURE_DTYPES(row)                                                                    \
    template gop_status row<int32_t>(gop_ctx *, const gop_task *, int64_t);                    \
    template gop_status row<float>(gop_ctx *, const gop_task *, int64_t);                      \
    template gop_status row<double>(gop_ctx *, const gop_task *, int64_t);

/* ---- from launch to launch ---- */

/* One launch: from n elements to `left` sums, one a block. */
template <typename R> struct lecture_level {
    const R *from; /* NULL: the array itself */
    R *to, *half[2], *out;
    int64_t n, left, most;
    int group;
};

template <typename R> static void lecture_step(lecture_level<R> *level, int64_t n)
{
    level->n = n;
    level->left = n / level->group + (n % level->group != 0);
    if (level->left > level->most) level->left = level->most;
    level->from = level->to;
    level->to =
        level->left == 1 ? level->out : level->half[level->from == level->half[0] ? 1 : 0];
}

/* The first launch: a sum for every `group` of elements, but at most `most` sums. */
template <typename R>
static lecture_level<R> lecture_first(const gop_task *task, int group, int64_t most)
{
    const int64_t n = task->geometry.reduction.count;
    R *const scratch = static_cast<R *>(task->scratch);
    lecture_level<R> level = {nullptr,
                              nullptr,
                              {scratch, scratch + (n + 1) / 2},
                              static_cast<R *>(task->out[0].data),
                              0,
                              0,
                              most,
                              group};
    lecture_step(&level, n);
    return level;
}

/* False after the launch that left one sum. */
template <typename R> static bool lecture_next(lecture_level<R> *level)
{
    if (level->left == 1) return false;
    lecture_step(level, level->left);
    return true;
}

template <typename T> static const T *lecture_input(const gop_task *task)
{
    return static_cast<const T *>(task->in[0].data);
}

/* Launches kernel<T, R, ...> on the elements, then kernel<R, R, ...> on sums until one is left.
 */
#define LECTURE_LAUNCH(kernel, threads, group, most, ...)                                      \
    do {                                                                                       \
        typedef lecture_sum_t<T> R;                                                            \
        lecture_level<R> l = lecture_first<R>(task, group, most);                              \
        GOP_TRY(GOP_LAUNCH(ctx, (kernel<T, R, ##__VA_ARGS__>), dim3((unsigned)l.left),         \
                           dim3(threads), 0, lecture_input<T>(task), l.n, l.to));              \
        while (lecture_next(&l))                                                               \
            GOP_TRY(GOP_LAUNCH(ctx, (kernel<R, R, ##__VA_ARGS__>), dim3((unsigned)l.left),     \
                               dim3(threads), 0, l.from, l.n, l.to));                          \
        return GOP_OK;                                                                         \
    } while (0)

enum { GRID_LIMIT = 0x7fffffff };

/* Blocks of so many threads that a device holds at once: a grid that leaves nobody waiting. */
static inline int64_t resident_blocks(const gop_ctx *ctx, int threads)
{
    const gop_device_info &info = ctx->info;
    const int version = 10 * info.major + info.minor;
    const int held = version == 75                                        ? 1024
                     : version == 86 || version == 89 || info.major == 12 ? 1536
                                                                          : 2048;
    return (int64_t)info.processors * (held / threads);
}

#endif
