/*
 * plane.cl - the plane of the two axes that count, cut into tiles: x is the input's fastest
 * axis, y the output's. All others are a batch of such planes. BATCH is how many axes that
 * has: a constant of the build, with which compilers keep the axes out of memory.
 */
#include "opencl/axes.cl"
#include "opencl/vector.cl"

#define OPERANDS TO(BASE, out), FROM(BASE, in), const struct plane p, const struct axes batch

struct tile {
    long x, y;     /* its first item */
    long to, from; /* where its batch begins */
};

/* Column by column of the input: groups that run together write neighbours; or BY_ROWS. */
static struct tile tile_of(const struct plane *p, const struct axes *batch, long number,
                           int side_x, int side_y)
{
    const INDEX of_plane = (INDEX)(p->across * p->up);
    const INDEX plane = (INDEX)number / of_plane, in_plane = (INDEX)number - plane * of_plane;
#if defined(BY_ROWS)
    const INDEX y = in_plane / (INDEX)p->across, x = in_plane - y * (INDEX)p->across;
#else
    const INDEX x = in_plane / (INDEX)p->up, y = in_plane - x * (INDEX)p->up;
#endif
    long at[2] = {0, 0};
    place(batch, 0, BATCH, plane, 2, at);
    return (struct tile){(long)x * side_x, (long)y * side_y, at[0], at[1]};
}
