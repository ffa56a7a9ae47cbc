/*
 * rdf.h - what kernels of rdf are given: points, sorted or not, bins, counters, which pairs.
 */
#ifndef GOP_OPENCL_RDF_H
#define GOP_OPENCL_RDF_H

#include "core/ops/rdf.h"
#include "opencl/opencl.h"

/* As opencl/rdf/pairs.cl has it. */
typedef struct gop_cl_rdf_call {
    int64_t n, n2, set[3], set2[3], out[2]; /* strides of row, column and label of a point */
    int32_t bins, types, one_set, counters;
    float scale, shift, slack, unused;
} gop_cl_rdf_call;

/* As opencl/rdf/ranges.cl has it. */
typedef struct gop_cl_rdf_grid {
    int32_t n[3], reach[3], room[2]; /* room: numbers from x to y of each set */
    int16_t first[GOP_GRID_ROWS], last[GOP_GRID_ROWS];
} gop_cl_rdf_grid;

/* The options of a build, and what else it defines. */
void gop_cl_rdf_options(const gop_ctx *ctx, const gop_task *task, const char *more,
                        char options[GOP_CL_OPTIONS]);
/* The labels of a set, or what stands for them where there are none. */
const gop_array *gop_cl_rdf_types(const gop_task *task, int second);

/* ---- sorting.c: points sorted into the cells of a grid, in scratch memory ---- */

enum { GOP_CL_RDF_PARTS = 6 }; /* of a set's memory */

/* A part of a plan, and what lies where in scratch. */
typedef struct gop_cl_rdf_sorted {
    gop_grid grid;
    int cells;
    char options[GOP_CL_OPTIONS]; /* of the sorting */
    struct {
        struct {
            size_t at;
            int64_t count;
        } part[GOP_CL_RDF_PARTS];
        int room;
    } set[2];
} gop_cl_rdf_sorted;

/* Plans a grid, or with `one` a single cell; *end grows by what is needed. */
void gop_cl_rdf_sort_plan(const gop_ctx *ctx, const gop_task *task, const gop_grid_costs *costs,
                          int one, gop_cl_rdf_sorted *own, size_t *end);
gop_status gop_cl_rdf_sort(gop_ctx *ctx, const gop_task *task,
                           const gop_cl_rdf_sorted *own) GOP_MUST_CHECK;
gop_cl_rdf_grid gop_cl_rdf_grid_of(const gop_cl_rdf_sorted *own);

/* Gives a launch the operands of kernels that meet sorted points, kept while it runs. */
void gop_cl_rdf_give_sorted(const gop_task *task, const gop_cl_rdf_sorted *own,
                            gop_array kept[GOP_CL_OPERANDS], gop_cl_launch *launch);

/* Room for so many bytes. */
static inline size_t gop_cl_rdf_room(size_t *end, int64_t bytes)
{
    const size_t at = *end;
    *end = (at + (size_t)bytes + 255) / 256 * 256;
    return at;
}

#endif
