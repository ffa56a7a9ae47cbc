/*
 * rdf_points.h - the points of rdf, frame by frame: whether they are finite, and their bounds.
 */
#ifndef GOP_CORE_RDF_POINTS_H
#define GOP_CORE_RDF_POINTS_H

#include "core/core.h"
#include "core/ops/rdf.h"

/* Where the operands of a call stand in call->in; -1: not given. With has_box 2 the last is a
 * box for each frame, (frames, 9) float64 on the host. Points may be (frames, n, 3): then the
 * counters of all frames follow one another, (frames * pairs of types, bins). */
typedef struct gop_rdf_operands {
    int points2, types, types2, boxes, count;
} gop_rdf_operands;

gop_rdf_operands gop_rdf_operands_of(const gop_rdf_params *params);

/* The number of frames, 1 without such an axis; and the points of a frame. */
int64_t gop_rdf_frames(const gop_call *call);
int64_t gop_rdf_count(const gop_array *points);

/* Checks that points on the host are finite, and that labels, wherever they are, are below
 * ntypes. */
gop_status gop_rdf_check_points(const gop_call *call, gop_arena *arena);

/* The box of a frame, rounded to the points' dtype as kernels see it. */
void gop_rdf_cell(const gop_call *call, int64_t frame, double cell[9]);

/* Fills in the box of the first frame, the kind of all boxes, the bounds of all points and what
 * a guess in float32 is off by. Points on a device are reduced there, where they are found to
 * be finite too. If there is one frame, estimates how many pairs are near along open axes. */
gop_status gop_rdf_survey(const gop_call *call, double r_max, gop_frames *f, gop_arena *arena);

#endif
