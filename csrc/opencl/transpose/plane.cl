/*
 * plane.cl - the plane of the two axes that count, cut into tiles: x is the input's fastest
 * axis, y the output's. All others are a batch of such planes.
 */
#ifndef PLANE_CL
#define PLANE_CL

#include "opencl/transpose/item.cl"

/* Of gop_cl_plane (transpose/plan.c). Strides are in items. */
struct plane {
    long nx, ny, in_x, in_y, out_x, out_y;
    long across, up; /* tiles along x, and along y */
    long tiles;      /* of all batches */
};

struct tile {
    long x, y;     /* its first item */
    long to, from; /* where its batch begins */
};

/* Row by row of the input. */
static struct tile tile_of(const struct plane *p, const struct axes *batch, long number,
                           int side_x, int side_y)
{
    const long in_batch = number % (p->across * p->up);
    long at[4] = {0, 0, 0, 0};
    place(batch, (INDEX)(number / (p->across * p->up)), 2, at);
    const struct tile t = {in_batch % p->across * side_x, in_batch / p->across * side_y, at[0],
                           at[1]};
    return t;
}

#endif
