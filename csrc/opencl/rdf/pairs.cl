/*
 * pairs.cl - points, the definition of r2 for a pair of them, its bin and its counter.
 *
 * Defined by the build: BASE, the points' type; BOX, 0 none, 1 right-angled, 2 triclinic; TYPED,
 * 1 where points have types, else 0. docs/numerics.md states every rounding.
 */
#include "opencl/told.h"
#include "opencl/vector.cl"

struct box {
    BASE ax, bx, by, cx, cy, cz, per_ax, per_by, per_cz, middle_x, middle_y, middle_z;
};

struct point {
    BASE x, y, z;
    int type;
};

/* Of every kernel: both sets as sorting.cl leaves them, with the cells that points of the first
 * are in, and where those of the second begin. */
#define SETS                                                                                   \
    FROM(BASE, a), FROM(int, a_types), FROM(int, key), FROM(BASE, b), FROM(int, b_types),      \
        FROM(int, start), FROM(BASE, t), TO(uint, out), const struct call c,                   \
        const struct box box, const struct range r, const struct grid grid
#define POINT_A(i) point_at(a + a_at, grid.room[0], a_types + a_types_at, i)
#define POINT_B(j) point_at(b + b_at, grid.room[1], b_types + b_types_at, j)

/* x, y and z are `room` apart. */
static struct point point_at(__global const BASE *p, long room, __global const int *types,
                             long i)
{
    return (struct point){p[i], p[i + room], p[i + 2 * room], TYPED ? types[i] : 0};
}

/* 1.5 * 2^23 or 2^52: what is added to it is rounded to an integer. */
#if defined(DOUBLE)
#define BIG 0x1.8p52
#define CERTAIN 0.49999
#else
#define BIG 0x1.8p23f
#define CERTAIN 0.49999f
#endif

/* n = rint(d / length) without the division: where the product with the reciprocal is not near
 * a half, both round to the same integer. NaN fails the test and divides too. */
static BASE image_of(BASE d, BASE length, BASE reciprocal)
{
    const BASE q = d * reciprocal;
    const BASE n = (q + BIG) - BIG;
    if (fabs(q - n) <= CERTAIN && fabs(q) <= 16) return n;
    return rint(quotient(d, length));
}

/* In the order of docs/numerics.md: the differences of V, numbers or vectors of them, become
 * those to the nearest image. IMAGE(d, length, reciprocal) is how many lengths d spans. */
#define TO_NEAREST_IMAGE(V, dx, dy, dz, s, IMAGE)                                              \
    if (BOX > 0) {                                                                             \
        const V nz = IMAGE(dz, s.cz, s.per_cz);                                                \
        if (BOX == 2) dx -= nz * s.cx, dy -= nz * s.cy;                                        \
        dz -= nz * s.cz;                                                                       \
        const V ny = IMAGE(dy, s.by, s.per_by);                                                \
        if (BOX == 2) dx -= ny * s.bx;                                                         \
        dy -= ny * s.by;                                                                       \
        dx -= IMAGE(dx, s.ax, s.per_ax) * s.ax;                                                \
    }

/* The definition. */
static BASE square(const struct point a, const struct point b, const struct box s)
{
    BASE dx = a.x - b.x, dy = a.y - b.y, dz = a.z - b.z;
    TO_NEAREST_IMAGE(BASE, dx, dy, dz, s, image_of)
    return (dx * dx + dy * dy) + dz * dz;
}

/* The largest k with t[k] <= r2, by halving; `none` for r2 outside of the edges. */
static int bin_of(BASE r2, __global const BASE *t, int bins, int none)
{
    int low = 0, high = bins;
    if (!(r2 >= t[0] && r2 < t[bins])) return none;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (r2 < t[middle]) high = middle;
        else low = middle;
    }
    return low;
}

/* Row of the unordered pair of types (s, t) in the order (0,0) (0,1) .. (1,1) .. */
static int row_of(int s, int t, int types)
{
    const int low = min(s, t), high = max(s, t);
    return TYPED ? low * types - low * (low - 1) / 2 + high - low : 0;
}

/* Adds to 64 bits by atomics of 32, which every device has: a low half that wraps carries. */
static void count(__global uint *out, const struct call c, int row, int bin, uint times)
{
    volatile __global uint *const low = out + 2 * (row * c.out_row + bin * c.out_col);
    if (atomic_add(low, times) > 0xffffffffu - times) atomic_inc(low + 1);
}

/* i modulo n, for i from -n to 2*n - 1. */
static int wrapped(int i, int n)
{
    return i < 0 ? i + n : i < n ? i : i - n;
}

/* The near cells of one: rows of them along the axis a, and of each row the points that follow
 * each other, which are at most three runs. */
#define FOR_RUNS(g, cell, start, j, j1)                                                        \
    for (int oz = -(g).reach[2]; oz <= (g).reach[2]; oz++)                                     \
        for (int oy = -(g).reach[1]; oy <= (g).reach[1]; oy++)                                 \
            for (int shift = -(g).n[0], j, j1; shift <= (g).n[0]; shift += (g).n[0])           \
                if (run_of(g, cell, start, oz, oy, shift, &j, &j1))

static int run_of(const struct grid g, int cell, __global const int *start, int oz, int oy,
                  int shift, int *j, int *j1)
{
    const int n = g.n[0], x = cell % n, rest = cell / n;
    const int row = (oz + g.reach[2]) * (2 * g.reach[1] + 1) + oy + g.reach[1];
    const int low = max(x + g.first[row] - shift, 0);
    const int high = min(x + g.last[row] - shift, n - 1);
    if (g.first[row] > g.last[row] || low > high) return 0;
    const int z = wrapped(rest / g.n[1] + oz, g.n[2]), y = wrapped(rest % g.n[1] + oy, g.n[1]);
    const int base = (z * g.n[1] + y) * n;
    *j = start[base + low];
    *j1 = start[base + high + 1];
    return *j < *j1;
}
