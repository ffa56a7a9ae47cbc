/*
 * places.h - a table of where the elements of a leaf lie, along any axes.
 *
 * Along the inner axes, the elements of every leaf of every output have the same relative
 * offsets. So one table, of a leaf's elements and a period of these axes more, serves all
 * leaves.
 */
#ifndef GOP_CUDA_REDUCE_PLACES_H
#define GOP_CUDA_REDUCE_PLACES_H

#include "cuda/reduce/plan.h"
#include "cuda/reduce/share.h"

/* A leaf begins within a period, which is the axes inside axis `along`, and goes on along this
 * axis. */
struct places {
    int along, entries;    /* of the table */
    int apart;             /* the mask lies otherwise than the array: its table follows */
    int leaves;            /* of an output */
    fast_divisor period;   /* elements */
    int64_t low, mask_low; /* the lowest offset in the table; entries count from there */
};

/* The offsets of item i, in C order of axes [first, last). */
GOP_DEVICE reduce_place placed(const placed_axes &g, int first, int last, uint32_t i)
{
    reduce_place at = {0, 0, 0};
#pragma unroll 1
    for (int d = last - 1; d >= first; d--) {
        const uint32_t above = d > first ? quotient(i, g.by[d]) : 0, x = i - above * g.by[d].d;
        at.in += x * g.in[d];
        at.where += x * g.where[d];
        i = above;
    }
    return at;
}

/* Fills the table: a period by its axes, then further periods `along` the axis. */
template <bool MASKED, int THREADS>
GOP_DEVICE void fill_places(const placed_axes &g, const places &p, uint32_t *place)
{
    uint32_t *const mask_place = MASKED && p.apart ? place + p.entries : nullptr;
    const int period = (int)p.period.d;
    for (int i = threadIdx.x; i < period && i < p.entries; i += THREADS) {
        const reduce_place at = placed(g, p.along + 1, g.kept + g.reduced, i);
        place[i] = (uint32_t)(at.in - p.low);
        if (mask_place) mask_place[i] = (uint32_t)(at.where - p.mask_low);
    }
    __syncthreads();
    for (int i = period + threadIdx.x; i < p.entries; i += THREADS) {
        const int times = (int)quotient(i, p.period), x = i - times * period;
        place[i] = place[x] + (uint32_t)(times * g.in[p.along]);
        if (mask_place) mask_place[i] = mask_place[x] + (uint32_t)(times * g.where[p.along]);
    }
    __syncthreads();
}

/* A leaf's elements before number `turn` lie where the table says, from entry `first` on. There
 * the axis `along` ends: the others start at the table's beginning, `jump` further on. */
template <typename T> struct placed_leaf {
    const T *a;
    const uint8_t *where;
    const uint32_t *place, *mask_place;
    int64_t jump, mask_jump;
    int first, turn, n;
};

template <typename M, bool MASKED>
GOP_DEVICE placed_leaf<typename M::T> leaf_at(const reduce_placed &r, const places &p,
                                              const uint32_t *place, uint32_t o, uint32_t leaf)
{
    const placed_axes &g = r.g;
    reduce_place at = placed(g, 0, g.kept, o);
    placed_leaf<typename M::T> l;
    l.place = place;
    l.mask_place = p.apart ? place + p.entries : place;
    l.jump = l.mask_jump = 0;
    l.first = 0;
    l.n = l.turn = (int)g.count;
    if (p.leaves > 1) {
        const uint32_t k0 = leaf * LEAF, left = (uint32_t)g.count - k0;
        const uint32_t periods = quotient(k0, p.period);
        const uint32_t above = quotient(periods, g.by[p.along]);
        const uint32_t x = periods - above * g.by[p.along].d;
        const reduce_place outer = placed(g, g.kept, p.along, above);
        const int64_t in = outer.in + x * g.in[p.along],
                      where = outer.where + x * g.where[p.along];
        l.n = (int)(left < LEAF ? left : LEAF);
        l.first = (int)(k0 - periods * p.period.d);
        const uint32_t whole = (g.by[p.along].d - x) * p.period.d - (uint32_t)l.first;
        l.turn = (int)(whole < (uint32_t)l.n ? whole : (uint32_t)l.n);
        if (l.turn < l.n) {
            const reduce_place next = placed(g, g.kept, p.along, above + 1);
            l.jump = next.in - in;
            l.mask_jump = next.where - where;
        }
        at.in += in;
        at.where += where;
    }
    l.a = static_cast<const typename M::T *>(r.a) + at.in + p.low;
    l.where = MASKED ? r.where + at.where + p.mask_low : nullptr;
    return l;
}

/* ---- the plan ---- */

/* The lowest and the highest offset of some elements. */
struct reach {
    int64_t low, high;
};
static void extend(reach *to, int64_t distance, int64_t times)
{
    if (distance < 0) to->low += distance * times;
    else to->high += distance * times;
}

/* Fills in the period and the table; returns whether offsets fit its entries. */
static bool plan_places(const placed_axes &g, int leaves, places *p)
{
    int64_t period = 1;
    reach in = {0, 0}, where = {0, 0};
    int d = g.kept + g.reduced - 1;
    for (; d > g.kept && period * g.extent[d] < LEAF; d--) {
        extend(&in, g.in[d], g.extent[d] - 1);
        extend(&where, g.where[d], g.extent[d] - 1);
        period *= g.extent[d];
    }
    p->along = d;
    p->leaves = leaves;
    p->entries = (int)(leaves == 1 ? g.count : LEAF + period - 1);
    p->period = make_fast_divisor(period);
    extend(&in, g.in[d], p->entries / period);
    extend(&where, g.where[d], p->entries / period);
    p->low = in.low;
    p->mask_low = where.low;
    p->apart = 0;
    for (; d < g.kept + g.reduced; d++) p->apart |= g.in[d] != g.where[d];
    return in.high - in.low <= UINT32_MAX && where.high - where.low <= UINT32_MAX;
}

static void reduce_fill_axes(const gop_reduction &g, placed_axes *to)
{
    reduce_copy_axes<reduce_axes<AXES>>(g, to);
    for (int d = 0; d < g.kept + g.reduced; d++) to->where[d] = g.where[d];
    if (g.reduced == 0) { /* an axis along which there is one */
        to->extent[g.kept] = to->reduced = 1;
        to->in[g.kept] = to->where[g.kept] = 0;
    }
    for (int d = 0; d < g.kept + to->reduced; d++) to->by[d] = make_fast_divisor(to->extent[d]);
}

#endif
