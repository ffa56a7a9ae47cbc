/*
 * guessed.cl - rdf by all pairs for GPUs without a branch: the bin of every pair is guessed in
 * float32 and counted at once (core/ops/rdf_guess.h); where the guess is near an edge, the
 * definition is computed and the count put right.
 *
 * A work-group has a block of points, POINTS to a work-item in registers, which meet one point
 * of a tile in local memory after the other. Pairs in no bin count in a row that is never read.
 * COPIES of the counters, side by side, keep neighbours from waiting for each other.
 */
#include "opencl/rdf/pairs.cl"

/* As opencl/rdf/ladder.c has it. */
struct guess {
    float scale, offset;
    uint near, fraction, shift, outside, lowest, base, first;
    int rows, is_log;
    uint row_bytes;
    float ax, bx, by, cx, cy, cz, per_ax, per_by, per_cz, face_y, face_z;
};

/* A root with an error of 6 * 2^-24 of itself at most. */
static float root_of(float value)
{
#if defined(NV)
    float root;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(value));
    return root;
#else
    return sqrt(value);
#endif
}

static float guessed_image(float d, float per)
{
    const float big = 0x1.8p23f;
    return fma(d, per, big) - big;
}

/* r2 but for roundings; NaN only where it is none of a pair that counts. */
static float guessed_square(const float4 a, const float4 b, const struct guess *g, int *face)
{
    float dx = a.x - b.x, dy = a.y - b.y, dz = a.z - b.z;
#if BOX > 0
    const float nz = guessed_image(dz, g->per_cz);
    if (BOX == 2) dx = fma(-nz, g->cx, dx), dy = fma(-nz, g->cy, dy);
    dz = fma(-nz, g->cz, dz);
    const float ny = guessed_image(dy, g->per_by);
    if (BOX == 2) dx = fma(-ny, g->bx, dx);
    dy = fma(-ny, g->by, dy);
    dx = fma(-guessed_image(dx, g->per_ax), g->ax, dx);
    if (BOX == 2) *face = (fabs(dz) >= g->face_z) | (fabs(dy) >= g->face_y);
#endif
    return fma(dz, dz, fma(dy, dy, dx * dx));
}

/* The place among the edges; floats above 0 are ordered as their bits are. */
static uint place_of(float r2, const struct guess *g)
{
    return min(as_uint(fma(root_of(r2), g->scale, g->offset)), g->outside);
}

static int is_near_edge(uint place, const struct guess *g)
{
    return (place & g->fraction) < g->near;
}

#define COUNTER(at) ((__local uint *)((__local uchar *)histogram + (at)))

/* The points of a work-item, the first of which is number i, with number j. ITSELF: only those
 * before it. */
#define MEET(ITSELF)                                                                           \
    {                                                                                          \
        const float4 q = tile[k];                                                              \
        const int j = (int)j0 + k;                                                             \
        uint place[POINTS], at[POINTS];                                                        \
        int doubt = 0;                                                                         \
        _Pragma("unroll") for (int n = 0; n < POINTS; n++)                                     \
        {                                                                                      \
            int face = 0;                                                                      \
            place[n] = place_of(guessed_square(p[n], q, &g, &face), &g);                       \
            if (ITSELF && j <= i + n * GROUP) place[n] = g.outside, face = 0;                  \
            doubt |= is_near_edge(place[n], &g) | face;                                        \
            at[n] = (place[n] >> g.shift) * (COPIES * 4) + mine;                               \
            if (IS_TYPED) at[n] += as_uint(p[n].w) + as_uint(q.w);                             \
            atomic_inc(COUNTER(at[n]));                                                        \
        }                                                                                      \
        if (doubt)                                                                             \
            _Pragma("unroll") for (int n = 0; n < POINTS; n++)                                 \
                if (p[n].x == p[n].x && !(ITSELF && j <= i + n * GROUP))                       \
                    SETTLE(i + n * GROUP, j, p[n], q, place[n], at[n])                         \
    }
#if defined(TYPED)
#define IS_TYPED 1
#else
#define IS_TYPED 0
#endif

/* By the definition, if the guess is in doubt. */
#define SETTLE(i, j, p, q, place, at)                                                          \
    {                                                                                          \
        int face = 0;                                                                          \
        if (BOX == 2) guessed_square(p, q, &g, &face);                                         \
        if (is_near_edge(place, &g) || face) {                                                 \
            const uint was = place >> g.shift;                                                 \
            const uint is = settled(square(POINT_A(i), POINT_B(j), box), t + t_at, &g);        \
            if (is != was) {                                                                   \
                atomic_dec(COUNTER(at));                                                       \
                atomic_inc(COUNTER(at + (is - was) * (COPIES * 4)));                           \
            }                                                                                  \
        }                                                                                      \
    }

/* The row of an r2 that the definition gave. */
static uint settled(BASE r2, __global const BASE *t, const struct guess *g)
{
    const uint place = place_of((float)r2, g), row = place >> g->shift;
    if (!is_near_edge(place, g) || row < g->first) return row;
    return row - (r2 < t[row - g->first]);
}

/* Relative to the middle of all; with it, where the counters of its type begin. */
static float4 narrow(struct point p, const struct box box, uint per_type)
{
#if defined(DOUBLE)
    p.x -= box.middle_x, p.y -= box.middle_y, p.z -= box.middle_z;
#endif
    return (float4)((float)p.x, (float)p.y, (float)p.z, as_float((uint)p.type * per_type));
}

__kernel void rdf_guessed_kernel(SETS, const struct call c, const struct box box,
                                 const struct range r, const struct guess g, const int blocks,
                                 const int others, __local uint *histogram)
{
    __local float4 tile[GROUP];
    const int me = (int)get_local_id(0);
    const long i0 = r.i0 + get_group_id(0) % blocks * (GROUP * POINTS);
    const long begin = r.j0 + get_group_id(0) / blocks * others;
    const long end = min(begin + others, r.j1), own = i0 + GROUP * POINTS;
    const int i = (int)i0 + me, types = IS_TYPED ? c.types : 1;
    const uint per_type = IS_TYPED ? (uint)g.rows * (COPIES * 4) : 0;
    const uint mine = (uint)(me % COPIES * 4) - g.base * (COPIES * 4); /* modulo 2^32 */
    float4 p[POINTS];
    if (c.one_set && end <= i0 + 1) return; /* all its pairs are other work-groups' */
    for (int k = me; k < types * types * g.rows * COPIES; k += GROUP) histogram[k] = 0;
#pragma unroll
    for (int n = 0; n < POINTS; n++)
        p[n] = i + n * GROUP < r.i1 ? narrow(POINT_A(i + n * GROUP), box, per_type * types)
                                    : (float4)(NAN, 0, 0, 0);
    for (long j0 = c.one_set && i0 > begin ? i0 : begin; j0 < end; j0 += GROUP) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (j0 + me < end) tile[me] = narrow(POINT_B(j0 + me), box, per_type);
        barrier(CLK_LOCAL_MEM_FENCE);
        const int tiled = (int)min((long)GROUP, end - j0);
        if (c.one_set && j0 < own)
            for (int k = 0; k < tiled; k++) MEET(1)
        else if (tiled == GROUP)
#pragma unroll UNROLL
            for (int k = 0; k < GROUP; k++) MEET(0)
        else
            for (int k = 0; k < tiled; k++) MEET(0)
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const int before = (int)(g.first - g.base);
    for (int k = me; k < types * types * c.bins; k += GROUP) {
        const int bin = k % c.bins, of = k / c.bins;
        __local const uint *const from = histogram + (of * g.rows + before + bin) * COPIES;
        uint sum = 0;
        for (int copy = 0; copy < COPIES; copy++) sum += from[(copy + me) % COPIES];
        if (sum) count(out + 2 * out_at, c, row_of(of / types, of % types, c.types), bin, sum);
    }
}
