/*
 * guessed.cl - rdf by all pairs for GPUs without a branch: the bin of every pair is guessed and
 * counted at once; where the guess is near an edge the count is put right.
 *
 * A work-group has a block of points, POINTS to a work-item in registers, which meet one point
 * of a tile in local memory after the other.
 */
#include "opencl/rdf/near.cl"

/* Point p of the work-item, number i, with point q, number j. ITSELF: only if j comes later. */
#if EVEN
#define AT_ONCE 4
#define MEET(ITSELF)                                                                           \
    {                                                                                          \
        const float4 q = tile[k];                                                              \
        const int j = (int)j0 + k;                                                             \
        uint place[POINTS], at[POINTS];                                                        \
        int doubt = 0, face;                                                                   \
        UNROLLED for (int n = 0; n < POINTS; n++) {                                            \
            place[n] = place_of(guessed_square(p[n], q, &g, &face), &g);                       \
            if (ITSELF && j <= i + n * GROUP) place[n] = g.outside, face = 0;                  \
            doubt |= is_near_edge(place[n], &g) | face;                                        \
            at[n] = (place[n] >> g.shift) * (COPIES * 4) + mine;                               \
            if (TYPES(c) > 1) at[n] += as_uint(p[n].w) + as_uint(q.w);                         \
            atomic_inc(COUNTER(histogram, at[n]));                                             \
        }                                                                                      \
        if (doubt)                                                                             \
            UNROLLED for (int n = 0; n < POINTS; n++) {                                        \
                if (p[n].x != p[n].x || (ITSELF && j <= i + n * GROUP)) continue;              \
                guessed_square(p[n], q, &g, &face);                                            \
                if (!is_near_edge(place[n], &g) && !face) continue;                            \
                const uint was = place[n] >> g.shift, is = DEFINED(n);                         \
                if (is == was) continue;                                                       \
                atomic_dec(COUNTER(histogram, at[n]));                                         \
                atomic_inc(COUNTER(histogram, at[n] + (is - was) * (COPIES * 4)));             \
            }                                                                                  \
    }
#else
#define AT_ONCE 1
#define MEET(ITSELF)                                                                           \
    {                                                                                          \
        const int j = (int)j0 + k;                                                             \
        UNROLLED for (int n = 0; n < POINTS; n++)                                              \
            if (i + n * GROUP < r.i1 && !(ITSELF && j <= i + n * GROUP))                       \
                atomic_inc(COUNTER(histogram, DEFINED(n) * (COPIES * 4) + mine +               \
                                                  as_uint(p[n].w) + as_uint(tile[k].w)));      \
    }
#endif
#define DEFINED(n) settled(square(POINT_A(i + n * GROUP), POINT_B(j), box), t + t_at, c, &g)

__kernel void rdf_guessed_kernel(SETS, const struct guess g, __local uint *histogram)
{
    __local float4 tile[GROUP];
    const int me = (int)get_local_id(0);
    const long i0 = r.i0 + get_group_id(0) % r.blocks * (GROUP * POINTS);
    const long begin = r.j0 + get_group_id(0) / r.blocks * r.others;
    const long end = min(begin + r.others, r.j1), own = i0 + GROUP * POINTS;
    const int i = (int)i0 + me;
    const uint mine = counter_of(0, me, &g);
    float4 p[POINTS];
    if (c.one_set && end <= i0 + 1) return; /* all its pairs are other work-groups' */
    begin_counting(histogram, c, &g);
    UNROLLED for (int n = 0; n < POINTS; n++) {
        p[n] = (float4)(NAN, 0, 0, 0);
        if (i + n * GROUP >= r.i1) continue;
        const struct point held = POINT_A(i + n * GROUP);
        p[n] = narrow(held, box, OF_TYPE(held.type, g) * TYPES(c));
    }
    for (long j0 = c.one_set && i0 > begin ? i0 : begin; j0 < end; j0 += GROUP) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (j0 + me < end) {
            const struct point met = POINT_B(j0 + me);
            tile[me] = narrow(met, box, OF_TYPE(met.type, g));
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        const int tiled = (int)min((long)GROUP, end - j0);
        if (c.one_set && j0 < own)
            for (int k = 0; k < tiled; k++) MEET(1)
        else if (tiled == GROUP)
#pragma unroll AT_ONCE
            for (int k = 0; k < GROUP; k++) MEET(0)
        else
            for (int k = 0; k < tiled; k++) MEET(0)
    }
    end_counting(out + 2 * out_at, histogram, c, &g);
}
