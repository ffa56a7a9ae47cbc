/*
 * columns.h - the shapes of reduce's columns kernel, and which reductions suit them.
 */
#ifndef GOP_CUDA_REDUCE_COLUMNS_H
#define GOP_CUDA_REDUCE_COLUMNS_H

#include "cuda/reduce/plan.h"

enum {
    BUSY = 128,   /* blocks that keep a device busy */
    ENOUGH = 192, /* and the same for threads that share nothing */
    FEW_OWN = 12, /* contiguous elements of a thread: cache lines that a warp uses at once */
    SECTOR = 32   /* bytes that are read at once */
};

constexpr int log2_of(int n)
{
    return n < 2 ? 0 : 1 + log2_of(n / 2);
}

/* Loads of a thread in flight, as many as registers allow: there is an accumulator for every
 * lane where order matters, else for every column. */
template <typename M, int C> constexpr int columns_at_once()
{
    const int acc = C * sizeof(typename M::F::acc), item = C * sizeof(typename M::T);
    if (M::F::ORDERED) return acc <= 8 ? 16 : 8;
    return C > 4 || C * item >= 64 ? 4 : 8;
}

template <typename M, int C, int SHARE> struct columns_of {
    enum {
        ORDERED = M::F::ORDERED,
        THREADS = SHARE > 8 ? 512 : 256,
        ACROSS = THREADS / SHARE, /* threads side by side */
        WIDTH = ACROSS * C,
        AT_ONCE = columns_at_once<M, C>(),
        OWN = LANES / SHARE,            /* lanes of a thread */
        LEFT = SHARE < 16 ? SHARE : 16, /* that a thread folds from shared memory */
        KEEP = ORDERED ? (AT_ONCE < OWN ? AT_ONCE : OWN) : 1,
        LEVELS = ORDERED ? log2_of(OWN / KEEP) : 0
    };
};

/* Blocks that an SM should hold: as registers allow. */
template <typename M, int C, int SHARE, int LEVELS> struct columns_blocks {
    enum {
        ACC = C * sizeof(typename M::F::acc),
        ALONE = SHARE == 1 && LEVELS == 0 && ACC <= 16,
        N = ALONE || (ACC == 4 && SHARE <= 8) ? 4 : 2
    };
};

/* ---- the plan's questions ---- */

/* Whether a warp uses whole cache lines: outputs lie in long lines; or in short ones, of which
 * it reads all few elements; or an output's elements are contiguous and few. */
static bool are_near(const gop_reduction &g, size_t item)
{
    if (g.kept == 0) return false;
    if (g.reduced == 1 && g.in[g.kept] == 1) return g.count <= FEW_OWN;
    const int64_t line = g.extent[g.kept - 1], step = gop_magnitude(g.in[g.kept - 1]);
    if (g.count <= LANES) return step == 1 || step * (int64_t)item <= SECTOR;
    return step == 1 && (line >= 32 || (line >= 8 && line * item >= 2 * SECTOR));
}

/* Whether groups of columns are aligned to their length, in the array or in the result. */
static bool in_groups(const gop_task *task, int together, int item, bool out)
{
    const gop_reduction &g = task->geometry.reduction;
    const int64_t *const stride = out ? g.out : g.in;
    const void *const data = out ? task->out[0].data : task->in[0].data;
    int64_t bits = g.extent[g.kept - 1];
    for (int d = g.kept; d < g.kept + g.reduced && !out; d++) bits |= g.in[d];
    for (int d = 0; d < g.kept - 1; d++) bits |= stride[d];
    return stride[g.kept - 1] == 1 && bits % together == 0 &&
           (uintptr_t)data % (together * item) == 0;
}

/* Whether there are enough outputs for a thread each; more are needed the more often a thread
 * waits for loads. */
template <typename M, int C> static bool are_enough(const gop_reduction &g)
{
    enum { AT_ONCE = columns_at_once<M, 1>() };
    if (!M::F::ORDERED && C == 1)
        return g.count <= LANES && g.outputs >= g.count * BUSY * 32 / AT_ONCE;
    return g.count <= LANES / 2 && g.outputs >= g.count * BUSY * 64 / AT_ONCE;
}

/* Whether the last wave of blocks, whose threads have a long column each, would be long and
 * mostly empty. */
template <typename M, int C> static bool are_uneven(const gop_reduction &g, int processors)
{
    typedef columns_of<M, C, 1> S;
    const int64_t held = columns_blocks<M, C, 1, S::LEVELS>::N * (int64_t)processors;
    const int64_t blocks = blocks_for(g.outputs, S::WIDTH), turns = blocks_for(blocks, held);
    return S::ORDERED && g.count > 4 * S::AT_ONCE && turns <= 4 &&
           5 * blocks < 4 * turns * held;
}

/* Whether columns are so long, in lines so short, that a thread with a column of its own loses
 * a line from the cache before it comes to the line's next element. Only for sums: minima and
 * positions are slower to share. */
template <typename M> static bool are_short_lines(const gop_reduction &g)
{
    enum { ITEM = sizeof(typename M::T) };
    const int64_t bytes = g.extent[g.kept - 1] * ITEM;
    if (!M::F::ORDERED) return false;
    return bytes <= SECTOR ? g.count > (ITEM <= 2 ? 48 : 32)
                           : bytes < 4 * SECTOR && g.count > LANES / 2;
}

/* Whether much more is stored than read, so that one column to a thread is better: then stores
 * coalesce. */
template <typename M> static bool are_wide_results(const gop_reduction &g)
{
    return g.count <= 4 && sizeof(typename M::T) <= 2 && sizeof(typename M::F::acc) == 8;
}

/* Whether half as many columns to a thread are faster: their elements are all in flight at
 * once; or, where order does not matter, there are so many that more warps are worth more than
 * longer loads. */
template <typename M, int C> static bool half_is_better(const gop_reduction &g)
{
    typedef columns_of<M, C, 1> S;
    enum { HALF = C / 2 };
    if (g.count <= S::AT_ONCE || g.count > LANES || g.outputs < ENOUGH * S::ACROSS * HALF)
        return false;
    return g.count <= columns_at_once<M, HALF>() || (!S::ORDERED && g.count > LANES / 4);
}

#endif
