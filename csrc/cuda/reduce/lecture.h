/*
 * lecture.h - what the lectures' kernels share: the sum of a whole contiguous array.
 *
 * A launch makes a shorter array of partial sums, in one half of scratch or the other, until
 * one is left. Integers are summed as int64. The order of the additions depends on the grid.
 */
#ifndef GOP_CUDA_REDUCE_LECTURE_H
#define GOP_CUDA_REDUCE_LECTURE_H

#include "cuda/reduce/block.h"

template <typename T> struct lecture_sum {
    typedef T type;
};
template <> struct lecture_sum<int32_t> {
    typedef int64_t type;
};
template <typename T> using lecture_sum_t = typename lecture_sum<T>::type;

#define LECTURE_DTYPES (1u << GOP_INT32 | 1u << GOP_FLOAT32 | 1u << GOP_FLOAT64)
/* f<T> for the dtype of a task. */
#define LECTURE_OF_DTYPE(task, f)                                                              \
    ((task)->in[0].dtype == GOP_INT32     ? f<int32_t>                                         \
     : (task)->in[0].dtype == GOP_FLOAT32 ? f<float>                                           \
                                          : f<double>)

#define LECTURE_OWN_ORDER                                                                      \
    "adds in an order of its own: the last bits of a float sum differ from those of tree/v1"
#define LECTURE_NO_ORDER                                                                       \
    "adds in whatever order blocks end: the last bits of a float sum change from run to run"

/* ---- from launch to launch ---- */

/* One launch: n elements become `left` sums, one a block. */
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

/* What a plan decides: a sum for every `group` of elements, but at most `most` sums. */
struct lecture_grid {
    int group;
    int64_t most;
};

template <typename R> static lecture_level<R> lecture_first(const gop_task *task)
{
    const lecture_grid &grid = *GOP_OWN(const lecture_grid, task->plan);
    const int64_t n = task->geometry.reduction.count;
    R *const scratch = static_cast<R *>(task->scratch);
    lecture_level<R> level = {nullptr,
                              nullptr,
                              {scratch, scratch + (n + 1) / 2},
                              static_cast<R *>(task->out[0].data),
                              0,
                              0,
                              grid.most,
                              grid.group};
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

/* Launches `first` on the elements, then `next` on sums until one is left. */
#define LECTURE_LAUNCH(first, next, threads)                                                   \
    do {                                                                                       \
        typedef lecture_sum_t<T> R;                                                            \
        lecture_level<R> l = lecture_first<R>(task);                                           \
        GOP_TRY(GOP_LAUNCH(ctx, first, dim3((unsigned)l.left), dim3(threads), 0,               \
                           lecture_input<T>(task), l.n, l.to));                                \
        while (lecture_next(&l))                                                               \
            GOP_TRY(GOP_LAUNCH(ctx, next, dim3((unsigned)l.left), dim3(threads), 0, l.from,    \
                               l.n, l.to));                                                    \
        return GOP_OK;                                                                         \
    } while (0)

enum { GRID_LIMIT = 0x7fffffff };

/* Blocks of so many threads that are resident at once: a grid of one wave. */
static inline int64_t resident_blocks(const gop_ctx *ctx, int threads)
{
    const gop_device_info &info = ctx->info;
    const int version = 10 * info.major + info.minor;
    const int held = version == 75                                        ? 1024
                     : version == 86 || version == 89 || info.major == 12 ? 1536
                                                                          : 2048;
    return (int64_t)info.processors * (held / threads);
}

/* Refuses all but the sum of a whole contiguous array. */
static inline gop_status lecture_plan(const gop_task *task, int group, int64_t most,
                                      gop_plan *plan)
{
    const gop_reduction &g = task->geometry.reduction;
    const gop_reduce_params &params = task->call->params.reduce;
    if (params.op != GOP_SUM || params.has_where || params.has_initial)
        return gop_fail(GOP_REFUSED, "reduce: this kernel only sums, without where or initial");
    if (g.outputs != 1 || g.count == 0 || g.reduced > 1 || (g.reduced == 1 && g.in[0] != 1))
        return gop_fail(GOP_REFUSED, "reduce: this kernel sums one whole contiguous array that "
                                     "is not empty");
    *GOP_OWN(lecture_grid, plan) = {group, most};
    const size_t n = (size_t)g.count;
    plan->scratch =
        ((n + 1) / 2 + (n + 3) / 4 + 2) * 8; /* the sums of the first two launches */
    return GOP_OK;
}

#endif
