/*
 * geometry.h - what a kernel needs to know of its operands' layouts, the same on every device.
 *
 * Filled by the op's `plan` from staged arrays: element strides (never bytes), axes of extent 1
 * dropped, neighbouring axes merged wherever every operand allows it, outermost axis first.
 * Plain structs of integers: they travel to CUDA kernels by value.
 */
#ifndef GOP_GEOMETRY_H
#define GOP_GEOMETRY_H

#include "gpuops.h"

/* add, multiply_add, fma: operand 0 is out, 1 to 3 are the inputs; stride 0 broadcasts. */
typedef struct gop_elementwise {
    int rank;
    int operands; /* out and the inputs */
    int64_t size;
    int64_t extent[GOP_MAX_NDIM];
    int64_t stride[4][GOP_MAX_NDIM];
} gop_elementwise;

/* transpose: axes in the output's order; out is written with its own strides. */
typedef struct gop_permutation {
    int rank;
    int64_t size;
    int64_t extent[GOP_MAX_NDIM];
    int64_t in[GOP_MAX_NDIM];
    int64_t out[GOP_MAX_NDIM];
} gop_permutation;

/* reduce: `kept` axes index outputs, `reduced` axes, in the C order of the logical array, the
 * elements of one output. Kept axes come first in every array, then the reduced ones. */
typedef struct gop_reduction {
    int kept, reduced; /* numbers of axes */
    int64_t outputs;   /* product of the kept extents */
    int64_t count;     /* product of the reduced extents */
    int64_t extent[GOP_MAX_NDIM];
    int64_t in[GOP_MAX_NDIM];
    int64_t where[GOP_MAX_NDIM]; /* 0 everywhere if there is no mask */
    int64_t out[GOP_MAX_NDIM];   /* of the kept axes */
} gop_reduction;

/* matmul: out[batch, i, j] = sum over l of a[batch, i, l] b[batch, l, j]. */
typedef struct gop_gemm {
    int64_t m, n, k;
    int64_t a_row, a_col, b_row, b_col, out_row, out_col;
    int batch_rank;
    int64_t batches; /* product of the batch extents */
    int64_t extent[GOP_MAX_NDIM];
    int64_t a[GOP_MAX_NDIM], b[GOP_MAX_NDIM], out[GOP_MAX_NDIM];
} gop_gemm;

/* jacobi_step: A is n by n, f and x are n by k (k = 1 for vectors). CSR arrays are contiguous.
 */
typedef struct gop_jacobi {
    int64_t n, k;
    int64_t a_row, a_col;
    int64_t f_row, f_col, x_row, x_col, out_row, out_col, residual_row, residual_col;
    int index64; /* CSR indices are int64, else int32 */
} gop_jacobi;

/* rdf: the prepared edges are thresholds on r*r in the points' own dtype, bins + 1 of them. */
typedef struct gop_pairs {
    int64_t n, n2; /* n2: points of the second set, or n when there is one set */
    int64_t bins;
    int64_t row, col, row2, col2; /* strides of points and points2 */
    int one_set;                  /* pairs i < j of one set, else all of n times n2 */
    int types;                    /* 0, or the number of types */
    int box;                      /* 0 none, 1 orthorhombic, 2 triclinic */
    int uniform; /* edges are evenly spaced: a guess by multiplication lands near */
    double guess_origin, guess_scale; /* bin is near (r - origin) * scale */
    double guess_slack;               /* within this of it, computed in float */
    double cell[9];
    double last;            /* the last threshold */
    int bounded;            /* 1: the bounds that follow are known, of both sets together */
    double largest;         /* |coordinate| */
    double low[3], high[3]; /* of gop_fractions (core/ops/rdf.h) */
} gop_pairs;

typedef union gop_geometry {
    gop_elementwise elementwise;
    gop_permutation permutation;
    gop_reduction reduction;
    gop_gemm gemm;
    gop_jacobi jacobi;
    gop_pairs pairs;
} gop_geometry;

#endif
