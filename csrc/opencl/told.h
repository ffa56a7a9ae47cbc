/*
 * told.h - the structs that kernels are told by, for C and OpenCL C alike: long is 64 bits in
 * both. Strides are in items.
 */
enum {
    MOST_AXES = 23, /* with four operands all arguments stay below 1 KiB */
    GRID_ROWS = 81, /* of cells that may be near, as core/ops/rdf.h has it */
};

/* ---- any axes: the outermost first ---- */

#if !defined(OPERANDS_TOLD)
#define OPERANDS_TOLD 4
#endif
struct axes {
    long rank, size;
    long extent[MOST_AXES];
    long stride[OPERANDS_TOLD][MOST_AXES]; /* of each operand; the last member of all structs */
};

/* transpose: the plane of the input's fastest axis, x, and the output's, y, in tiles. */
struct plane {
    long nx, ny, in_x, in_y, out_x, out_y;
    long across, up; /* tiles along x, and along y */
    long tiles;      /* of all batches */
};

/* ---- reduce ---- */

/* gop_reduction (core/arrays/geometry.h) of few axes: the kept ones first. */
struct shape {
    long kept, reduced, outputs, count;
    struct axes axes; /* of out, in, where */
};

struct work {
    long leaves, nodes; /* of an output; a node is 2^node_leaves leaves */
    long each;          /* of whatever a work-item takes several */
    long counts;        /* where the numbers of elements are that count; in longs of scratch */
    long initial[2];    /* bits: of the accumulator, or of an extreme the element's */
    long tasks;         /* of tree, as the last row: a task has 2^inner outputs or vectors */
    int node_leaves, turns, flags, has_where, has_initial, is_mean;
    int team, by_rows, inner;
};

/* matmul: begins as gop_gemm (core/arrays/geometry.h) does. Of a whole product it is a part
 * that a launch makes: operands begin with it. */
struct product {
    long m, n, k, a_row, a_col, b_row, b_col, out_row, out_col;
    long first, batches;
    struct axes batch; /* of out, a, b */
};

/* jacobi_step: begins as gop_jacobi does. Rows [first, last) are those of a launch. */
struct system {
    long n, k, a_row, a_col, f_row, f_col, x_row, x_col, out_row, out_col, residual_row,
        residual_col, stored, first, last, extent[3];
    int has_residual, each; /* each: rows of a work-item */
};

/* ---- rdf ---- */

struct call {
    long n, n2, out_row, out_col;
    int bins, types, one_set, counters;
    float scale, shift, slack;
};

/* What a launch meets: points [i0, i1) of the first set and [j0, j1) of the second, in blocks
 * of so many of the first by so many others. */
struct range {
    long i0, i1, j0, j1;
    int blocks, each, others;
};

/* A set of points to be sorted. */
struct set {
    long row, col, type_row;
    int n, room, cells; /* room: numbers from x to y of what is sorted */
};

struct grid {
    int n[3], reach[3], room[2]; /* room: numbers from x to y of each set */
    short first[GRID_ROWS], last[GRID_ROWS];
};

/* How sorting.cl finds a point's cell, by float64. */
#if !defined(__OPENCL_VERSION__) || defined(PLACES)
struct places {
    double row[9], most[3], low[3], per[3];
    int n[3], is_box;
};
#endif
