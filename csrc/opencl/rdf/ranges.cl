/*
 * ranges.cl - sorted points, and which of them are near a cell.
 */
#include "opencl/rdf/pairs.cl"

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
