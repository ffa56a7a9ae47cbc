/*
 * chunked.cl - rdf for CPU devices: a chunk of points a work-item, with counters of its own.
 *
 * A work-group is a work-item, whose counters are its local memory: no atomic but at the end.
 * WIDTH pairs at a time are vectors; their increments go to COPIES of the counters by turns,
 * since an increment waits for the one before of the same counter. Images and bins are guessed:
 * a vector of which a lane is in doubt is done again by the definition.
 */
#include "opencl/rdf/pairs.cl"

#define VECTOR JOIN(BASE, WIDTH)
#define VECTOR_LOAD(p) JOIN(vload, WIDTH)(0, p)
#define INTS JOIN(int, WIDTH)
#define FLOATS JOIN(float, WIDTH)
#define AS_INTS JOIN(convert_int, WIDTH)
#define AS_FLOATS JOIN(convert_float, WIDTH)
#if defined(DOUBLE)
#define MASK JOIN(long, WIDTH)
#else
#define MASK INTS
#endif

enum { TILE = 2048 }; /* points of the second set that a chunk meets before the next ones */

__constant int numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* The guess of image_of; sets lanes of *doubt where the product does not decide. */
static VECTOR images_of(VECTOR d, BASE reciprocal, MASK *doubt)
{
    const VECTOR q = d * reciprocal, n = (q + BIG) - BIG;
    *doubt |= (MASK)(!((fabs(q - n) <= CERTAIN) & (fabs(q) <= 16)));
    return n;
}
#define GUESSED_IMAGES(d, length, reciprocal) images_of(d, reciprocal, doubt)

static VECTOR squares(const struct point a, VECTOR x, VECTOR y, VECTOR z, const struct box s,
                      MASK *doubt)
{
    VECTOR dx = a.x - x, dy = a.y - y, dz = a.z - z;
    TO_NEAREST_IMAGE(VECTOR, dx, dy, dz, s, GUESSED_IMAGES)
    return (dx * dx + dy * dy) + dz * dz;
}

struct others {
    __global const BASE *p;
    __global const int *types;
    int room;
};

/* Bins of pairs by the definition; number c.bins: none. */
static void settle(const struct point a, const struct others b, int j, int width,
                   __global const BASE *t, const struct call c, const struct box box, int *bin)
{
    for (int l = 0; l < width; l++) {
        const BASE r2 = square(a, point_at(b.p, b.room, b.types, j + l), box);
        bin[l] = bin_of(r2, t, c.bins, c.bins);
    }
}

/* Point a with points [j, j1) of the others. */
static void meet(const struct point a, const struct others b, int j, int j1,
                 __global const BASE *t, const struct call c, const struct box box,
                 __local uint *histogram)
{
    const int size = (c.counters / c.bins) * (c.bins + 1); /* of a copy */
    const BASE first = t[0], last = t[c.bins];
    int bin[WIDTH];
    for (; j < j1; j += WIDTH) {
        __global const BASE *const p = b.p + j;
        MASK doubt = 0;
        const VECTOR r2 = squares(a, VECTOR_LOAD(p), VECTOR_LOAD(p + b.room),
                                  VECTOR_LOAD(p + 2 * b.room), box, &doubt);
        const INTS is_there = JOIN(vload, WIDTH)(0, numbers) < j1 - j;
#if EVEN
        const INTS inside = AS_INTS((r2 >= first) & (r2 < last)) & is_there;
        const FLOATS x = sqrt(AS_FLOATS(r2)) * c.scale + c.shift;
        const FLOATS edge = (x + 0x1.8p23f) - 0x1.8p23f, past = x - edge;
        const INTS k = AS_INTS(edge) + (past < 0);
        const INTS unsure = AS_INTS(doubt) | (inside & (fabs(past) <= c.slack));
        JOIN(vstore, WIDTH)(inside ? k : (INTS)(c.bins), 0, bin);
        if (any(unsure & is_there)) settle(a, b, j, min(WIDTH, j1 - j), t, c, box, bin);
#else
        BASE of[WIDTH];
        JOIN(vstore, WIDTH)(r2, 0, of);
        for (int l = 0; l < WIDTH; l++)
            bin[l] = l < j1 - j ? bin_of(of[l], t, c.bins, c.bins) : c.bins;
        if (any(AS_INTS(doubt) & is_there))
            settle(a, b, j, min(WIDTH, j1 - j), t, c, box, bin);
#endif
        UNROLLED for (int l = 0; !TYPED && l < WIDTH; l++)
            histogram[l % COPIES * size + bin[l]]++;
        for (int l = 0; TYPED && l < min(WIDTH, j1 - j); l++)
            histogram[l % COPIES * size + bin[l] +
                      row_of(a.type, b.types[j + l], c.types) * (c.bins + 1)]++;
    }
}

/* r.each of the first set's points a work-item. */
__kernel void rdf_chunked_kernel(SETS, __local uint *histogram)
{
    const int size = (c.counters / c.bins) * (c.bins + 1);
    const int begin = (int)min(r.i0 + (long)get_global_id(0) * r.each, r.i1);
    const int end = (int)min((long)begin + r.each, r.i1);
    const struct others others = {b + b_at, b_types + b_types_at, grid.room[1]};
    t += t_at;
    for (int k = 0; k < COPIES * size; k++) histogram[k] = 0;
#if ONE
    for (int tile = c.one_set ? begin : 0; tile < c.n2; tile += TILE)
        for (int i = begin; i < end; i++) {
            const int j = c.one_set ? max(tile, i + 1) : tile;
            meet(POINT_A(i), others, j,
                 min(tile + TILE, (int)c.n2), t, c, box, histogram);
        }
#else
    for (int i = begin; i < end; i++) {
        const struct point p = POINT_A(i);
        const int cell = key[key_at + i];
        FOR_RUNS(grid, cell, start + start_at, j, j1)
        {
            if (c.one_set && j <= i) j = i + 1;
            meet(p, others, j, j1, t, c, box, histogram);
        }
    }
#endif
    for (int k = 0; k < c.counters; k++) {
        const int row = k / c.bins, bin = k % c.bins;
        uint sum = 0;
        for (int copy = 0; copy < COPIES; copy++)
            sum += histogram[copy * size + row * (c.bins + 1) + bin];
        if (sum) count(out + 2 * out_at, c, row, bin, sum);
    }
}
