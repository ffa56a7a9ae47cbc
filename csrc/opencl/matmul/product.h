/*
 * product.h - what the rows of matmul share: the product, its parts, options, operands.
 */
#ifndef GOP_OPENCL_MATMUL_PRODUCT_H
#define GOP_OPENCL_MATMUL_PRODUCT_H

#include "opencl/opencl.h"

enum { MATMUL_AXES = 24 };

/* The structs that product.cl declares for kernels. */
typedef struct gop_cl_product {
    int64_t m, n, k, a_row, a_col, b_row, b_col, out_row, out_col, rank;
    int64_t extent[MATMUL_AXES], a[MATMUL_AXES], b[MATMUL_AXES], out[MATMUL_AXES];
} gop_cl_product;
typedef struct gop_cl_product_part {
    int64_t batch, batches, row, rows, column, columns;
} gop_cl_product_part;

/* A plan: the product in parts, which are steps. */
typedef struct gop_cl_multiplying {
    const gop_cl_names *names;
    char options[GOP_CL_OPTIONS];
    gop_cl_product product;
    gop_cl_product_part part; /* the first one, which is the largest */
    int64_t batches;
    int group, down, across; /* work-items of a group; rows and columns of its outputs */
    int dimensions;          /* of the group, which is a square in two */
} gop_cl_multiplying;

/* Bytes of a number in sums. */
int64_t gop_cl_matmul_sum(gop_dtype dtype);
int gop_cl_matmul_parts(gop_dtype dtype);
/* Fills a plan of groups that have tiles of outputs, in vectors of so many numbers, cut into
 * parts that take about 100 ms of a kernel so many times slower than the best. */
gop_status gop_cl_matmul_plan(const gop_ctx *ctx, const gop_task *task,
                              const gop_cl_names *names, int lanes, double slower,
                              const char *more, gop_plan *plan) GOP_MUST_CHECK;
gop_cl_product_part gop_cl_matmul_part(const gop_cl_multiplying *own, int64_t step);
/* A launch of so many work-items over out, a and b, which the caller may change before it runs.
 */
gop_cl_launch gop_cl_matmul_launch(const gop_task *task, const gop_cl_product_part *part,
                                   int64_t items);

/* ---- the plans of rows ---- */

#define PLAN(by)                                                                               \
    gop_status gop_cl_matmul_##by(const gop_ctx *ctx, const gop_task *task,                    \
                                  const gop_cl_names *names, gop_plan *plan) GOP_MUST_CHECK
PLAN(by_items);         /* an output a work-item; tunable "group" */
PLAN(by_tiles);         /* and its neighbours in a square; tunable "tile" */
PLAN(by_private_tiles); /* several outputs a work-item; tunables "side" and "rows" */
PLAN(thin);
PLAN(packed);
#undef PLAN

#endif
