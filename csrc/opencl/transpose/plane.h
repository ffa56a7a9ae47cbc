/*
 * plane.h - what the rows of transpose share: the plane of two axes, options, operands.
 */
#ifndef GOP_OPENCL_TRANSPOSE_PLANE_H
#define GOP_OPENCL_TRANSPOSE_PLANE_H

#include "opencl/opencl.h"

/* The struct that plane.cl declares for kernels. */
typedef struct gop_cl_plane {
    int64_t nx, ny, in_x, in_y, out_x, out_y;
    int64_t across, up, tiles;
} gop_cl_plane;

/* A plan of tiles: the plane, and around it the batch. */
typedef struct gop_cl_tiling {
    char options[GOP_CL_OPTIONS];
    gop_cl_plane plane;
    gop_cl_axes batch;
    int side_x, side_y;
    int64_t chunk; /* tiles of a work-item; of rows that have such */
} gop_cl_tiling;

/* Lays tiles over the plane. GOP_REFUSED, with a sentence that names the kernel, where the
 * fastest axis stays in its place, or there are more axes around it than a kernel is told of.
 */
gop_status gop_cl_transpose_tiles(const char *kernel, const gop_task *task, int side_x,
                                  int side_y, gop_cl_tiling *t) GOP_MUST_CHECK;
/* Axes, of which the outermost ones are left out where a kernel is not told of so many. */
void gop_cl_transpose_axes(const gop_permutation *g, gop_cl_axes *axes);
void gop_cl_transpose_options(const gop_task *task, const char *more,
                              char options[GOP_CL_OPTIONS]);
void gop_cl_transpose_operands(const gop_task *task, gop_cl_launch *launch);
/* One launch, or one for each index of the axes that were left out. */
gop_status gop_cl_transpose_launch(gop_ctx *ctx, const gop_task *task, gop_cl_launch *launch,
                                   const gop_cl_axes *axes) GOP_MUST_CHECK;

/* A launch of a work-group of wide by high work-items for each tile. */
gop_status gop_cl_transpose_grouped(gop_ctx *ctx, const gop_task *task, const char *source,
                                    const char *kernel, int64_t wide,
                                    int64_t high) GOP_MUST_CHECK;
/* The plan of tiled.c and padded.c: work-groups of side by rows work-items, their tunables. */
gop_status gop_cl_transpose_grouped_plan(const gop_ctx *ctx, const gop_task *task,
                                         const char *kernel, int padding,
                                         gop_plan *plan) GOP_MUST_CHECK;

#define TRANSPOSE_SIDES                                                                        \
    {                                                                                          \
        "side", 3,                                                                             \
        {                                                                                      \
            32, 16, 64                                                                         \
        }                                                                                      \
    }
#define TRANSPOSE_ROWS                                                                         \
    {                                                                                          \
        "rows", 4,                                                                             \
        {                                                                                      \
            2, 4, 8, 16                                                                        \
        }                                                                                      \
    }

#endif
