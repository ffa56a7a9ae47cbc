/*
 * near.cl - rdf on GPUs: the row of a pair among the counters, by a guess in float32, and
 * counters in local memory.
 *
 * core/ops/rdf_guess.h says how a guess is made and how far it is off. Where it is near an
 * edge, and everywhere if edges are not even (EVEN), the definition decides. Pairs in no bin
 * have a row too, which is never read. COPIES of the counters, side by side, keep neighbours
 * from waiting for each other.
 */
#include "opencl/rdf/pairs.cl"

/* As core/ops/rdf_guess.h has it. */
struct guess {
    float scale, offset;
    uint near, fraction, shift, outside, lowest, base, first;
    int rows, is_log;
    uint row_bytes;
    float ax, bx, by, cx, cy, cz, per_ax, per_by, per_cz, face_y, face_z;
};

#define TYPES(c) (TYPED ? (c).types : 1)
#define OF_TYPE(type, g) (TYPED ? (uint)(type) * (uint)(g).rows * (COPIES * 4) : 0)

/* Relative to the middle of all; with it, where the counters of its type begin. */
static float4 narrow(struct point p, const struct box box, uint of_type)
{
#if defined(DOUBLE)
    p.x -= box.middle_x, p.y -= box.middle_y, p.z -= box.middle_z;
#endif
    return (float4)((float)p.x, (float)p.y, (float)p.z, as_float(of_type));
}

/* A root with an error of 6 * 2^-24 of itself at most. */
static float root_of(float value)
{
#if defined(NVIDIA) /* sqrt takes several instructions there */
    float root;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(value));
    return root;
#else
    return sqrt(value);
#endif
}

static float guessed_image(float d, float per)
{
    return fma(d, per, 0x1.8p23f) - 0x1.8p23f;
}

/* r2 but for roundings; NaN only where it is none of a pair that counts. `face`: of a
 * triclinic box the definition may have taken another image. */
static float guessed_square(const float4 a, const float4 b, const struct guess *g, int *face)
{
    float dx = a.x - b.x, dy = a.y - b.y, dz = a.z - b.z;
    *face = 0;
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

/* Of an r2 that the definition gave. */
static uint settled(BASE r2, __global const BASE *t, const struct call c, const struct guess *g)
{
    if (!EVEN) return (uint)bin_of(r2, t, c.bins, (int)g->outside);
    const uint place = place_of((float)r2, g), row = place >> g->shift;
    return row - (is_near_edge(place, g) && row >= g->first && r2 < t[row - g->first]);
}

#define COUNTER(histogram, at) ((__local uint *)((__local uchar *)(histogram) + (at)))

/* Where work-item `me` has the counter of a row, but for types; modulo 2^32. */
static uint counter_of(uint row, int me, const struct guess *g)
{
    return (row - g->base) * (COPIES * 4) + (uint)(me % COPIES * 4);
}

/* By all work-items of a group, before and after. */
static void begin_counting(__local uint *histogram, const struct call c, const struct guess *g)
{
    const int all = TYPES(c) * TYPES(c) * g->rows * COPIES;
    for (int k = (int)get_local_id(0); k < all; k += GROUP) histogram[k] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
}

static void end_counting(__global uint *out, __local const uint *histogram, const struct call c,
                         const struct guess *g)
{
    const int me = (int)get_local_id(0), types = TYPES(c);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = me; k < types * types * c.bins; k += GROUP) {
        const int bin = k % c.bins, of = k / c.bins;
        const int row = of * g->rows + (int)(g->first - g->base) + bin;
        uint sum = 0;
        for (int copy = 0; copy < COPIES; copy++)
            sum += histogram[row * COPIES + (copy + me) % COPIES];
        if (sum) count(out, c, row_of(of / types, of % types, c.types), bin, sum);
    }
}
