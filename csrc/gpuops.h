/*
 * gpuops.h - the public C interface: an array, a call, and the functions that run and time one.
 *
 * No Python, NumPy or CUDA type appears here. Memory is borrowed; nothing prints, exits or
 * aborts. Every function that can fail returns a gop_status and keeps one sentence for the
 * calling thread, to be read with gop_error_get().
 */
#ifndef GPUOPS_H
#define GPUOPS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    GOP_ABI = 17,         /* changes when a struct below or in core/ changes */
    GOP_MAX_NDIM = 64,    /* NumPy's own limit */
    GOP_MAX_INPUTS = 7,   /* jacobi with a CSR matrix and its diagonal takes seven */
    GOP_MAX_OUTPUTS = 2,  /* jacobi_step can give the residual too, jacobi its norms */
    GOP_MAX_TUNABLES = 4, /* named integers of one kernel */
};

/* What went wrong; python/convert.c maps each code to one exception. */
typedef enum gop_status {
    GOP_OK = 0,
    GOP_BAD_ARGUMENT,       /* ValueError */
    GOP_BAD_TYPE,           /* TypeError */
    GOP_BAD_AXIS,           /* numpy.exceptions.AxisError */
    GOP_BAD_BUFFER,         /* BufferError */
    GOP_OVERFLOW,           /* OverflowError */
    GOP_SINGULAR,           /* numpy.linalg.LinAlgError */
    GOP_REFUSED,            /* gpuops.KernelRefusedError: this kernel does not take this call */
    GOP_NO_MEMORY,          /* MemoryError */
    GOP_NO_DEVICE_MEMORY,   /* gpuops.DeviceMemoryError */
    GOP_DEVICE_UNAVAILABLE, /* gpuops.DeviceUnavailableError: not built, no driver, no device */
    GOP_DEVICE_UNSUPPORTED, /* gpuops.UnsupportedDeviceError: a device this build has no code
                               for */
    GOP_DEVICE_FAILED,      /* gpuops.DeviceError */
    GOP_DEVICE_LOST,  /* gpuops.DeviceLostError: the process can no longer use the device */
    GOP_NOT_COMPILED, /* gpuops.CompileError: with the compiler's words */
    GOP_INTERRUPTED,  /* the exception that a signal handler raised */
    GOP_INTERNAL,     /* gpuops.Error: a defect of this library */
} gop_status;

/* The element types, in the order of every per-dtype table: X(enumerator, word, bytes). */
#define GOP_DTYPES(X)                                                                          \
    X(GOP_BOOL, bool, 1)                                                                       \
    X(GOP_INT8, int8, 1)                                                                       \
    X(GOP_INT16, int16, 2)                                                                     \
    X(GOP_INT32, int32, 4)                                                                     \
    X(GOP_INT64, int64, 8)                                                                     \
    X(GOP_UINT8, uint8, 1)                                                                     \
    X(GOP_UINT16, uint16, 2)                                                                   \
    X(GOP_UINT32, uint32, 4)                                                                   \
    X(GOP_UINT64, uint64, 8)                                                                   \
    X(GOP_FLOAT16, float16, 2)                                                                 \
    X(GOP_BFLOAT16, bfloat16, 2)                                                               \
    X(GOP_FLOAT32, float32, 4)                                                                 \
    X(GOP_FLOAT64, float64, 8)                                                                 \
    X(GOP_COMPLEX64, complex64, 8)                                                             \
    X(GOP_COMPLEX128, complex128, 16)

typedef enum gop_dtype {
#define X(enumerator, word, bytes) enumerator,
    GOP_DTYPES(X)
#undef X
        GOP_NDTYPES
} gop_dtype;

/* The operations, from ops.def: GOP_OP_add, GOP_OP_transpose, ... */
typedef enum gop_op {
#define GOP_OP(name, stem) GOP_OP_##name,
#include "ops.def"
#undef GOP_OP
    GOP_NOPS
} gop_op;

/* The backends that have numbers of their own: X(enumerator, name). Others are numbered as they
 * are loaded. */
#define GOP_BACKENDS(X)                                                                        \
    X(GOP_CPU, cpu)                                                                            \
    X(GOP_CUDA, cuda)                                                                          \
    X(GOP_SIM, sim)

typedef enum gop_backend_id {
#define X(enumerator, name) enumerator,
    GOP_BACKENDS(X)
#undef X
        GOP_MAX_BACKENDS = 16
} gop_backend_id;

/* A backend and one of its devices. Host memory lives at {GOP_CPU, 0}. */

typedef struct gop_device {
    gop_backend_id backend;
    int ordinal;
} gop_device;

/* How elements lie in memory where that is not as the array's dtype says: 1 + the dtype that
 * they have there, with GOP_SWAPPED if its bytes are in the other order. */
enum { GOP_SWAPPED = 1 << 8 };

/* Borrowed memory. Strides are in bytes and may be anything: negative, zero, not aligned. */
typedef struct gop_array {
    void *data;
    gop_dtype dtype;
    int stored; /* 0: the elements lie there as dtype says; else they are cast on their way */
    int ndim;
    gop_device where;
    int64_t shape[GOP_MAX_NDIM];
    int64_t strides[GOP_MAX_NDIM];
} gop_array;

/* One number in the widest form of its kind: integers in i or u, reals in f[0], complex in f.
 */
typedef union gop_scalar {
    int64_t i;
    uint64_t u;
    double f[2];
} gop_scalar;

/* ---- parameters, one struct per op ---- */

/* `given` 0 means all axes for reduce, reversed axes for transpose. Negative axes count from
 * the end. */
typedef struct gop_axes {
    int given;
    int count;
    int64_t axis[GOP_MAX_NDIM];
} gop_axes;

typedef struct gop_transpose_params {
    gop_axes axes;
} gop_transpose_params;

typedef enum gop_reduce_op {
    GOP_SUM,
    GOP_PROD,
    GOP_MIN,
    GOP_MAX,
    GOP_MEAN,
    GOP_ANY,
    GOP_ALL,
    GOP_ARGMIN,
    GOP_ARGMAX,
    GOP_SUMSQ, /* the tree over squares |x|^2, real: for norms */
    GOP_NREDUCE
} gop_reduce_op;

/* exact/v1: what a call of a sum or a mean has of it. */
typedef enum gop_exactness {
    GOP_EXACT_NOT,     /* the sum is that of tree/v1 */
    GOP_EXACT_ROUNDED, /* the real sum, or quotient, rounded once */
    GOP_EXACT_SUMS,    /* the sum itself, as the int64 numbers of core/exact.h along one more
                          axis, those of an imaginary part after those of the real one */
} gop_exactness;

/* inputs: a, then the bool array `where` if has_where. */
typedef struct gop_reduce_params {
    gop_reduce_op op;
    gop_axes axes;
    int keepdims;
    int has_where;
    int has_initial;
    gop_scalar initial; /* of the output's kind */
    gop_exactness exact;
} gop_reduce_params;

/* Classes of precision, best first: the least that a call accepts, and what a row gives. */
typedef enum gop_precision {
    GOP_HIGHEST, /* the dtype's own: bound like a sequential loop */
    GOP_FAST,    /* factors of 22 bits: even x * 1 may lose two bits of x */
    GOP_TF32,    /* factors of 11 bits, sums of float32 */
    GOP_BF16,    /* factors of 8 bits, sums of float32 */
    GOP_NPRECISION
} gop_precision;

typedef struct gop_matmul_params {
    gop_precision precision;
} gop_matmul_params;

/* inputs: dense A, f, x; or with csr: data, indices, indptr, f, x[, diagonal]. Second output: f
 * - A x, optional. */
enum { GOP_MAX_LATTICE = 3 };
typedef enum gop_boundary {
    GOP_DIRICHLET, /* a neighbour beyond the grid is no term */
    GOP_PERIODIC,  /* it is the point at the other end */
    GOP_NEUMANN,   /* it is the point itself */
} gop_boundary;

/* A grid in C order; the terms of a point are the neighbours down each axis, first to last, the
 * point itself, and the neighbours up each axis, last to first. */
typedef struct gop_lattice {
    int axes; /* 0: there is none */
    int bc;   /* gop_boundary */
    int64_t extent[GOP_MAX_LATTICE];
} gop_lattice;

typedef struct gop_jacobi_step_params {
    int csr;
    gop_lattice grid; /* A is a stencil: its coefficients (2 axes + 1,) or (2 axes + 1, n) */
    int64_t n;        /* rows of A, for csr */
    int64_t columns;  /* columns of A, for csr */
    int has_alpha;    /* 1: x + alpha (A x - f); 0: x + omega (f - A x) / d */
    gop_scalar alpha; /* real in f[0], imaginary in f[1] */
    gop_scalar omega;
    int checked;  /* 1: structure and diagonal were checked by an earlier call on the same A */
    int diagonal; /* which input is the diagonal of the CSR matrix, 0: none; found before, or,
                     without checked, host memory that the check of this call fills */
    int64_t longest; /* with checked: no row of the CSR matrix has more terms; 0: not known */
} gop_jacobi_step_params;

/* inputs: those of jacobi_step, x the iterate to start from; then, optional, the float64 norms
 * (k,) of the residual at the solver's very start, where this call goes on from an earlier one.
 * Outputs: x; then, optional, float64 (checks + 2, k): the norms of f; those of the residual at
 * each check, the last repeated; the step after which each column came to its end, or -1. */
typedef struct gop_jacobi_params {
    gop_jacobi_step_params step; /* first: the kernels of jacobi_step read params.jacobi_step */
    double rtol, atol, dtol;
    int64_t steps;       /* the most made */
    int64_t check_every; /* steps between two checks */
    int first;           /* which input are the first norms; 0: none */
} gop_jacobi_params;

/* inputs: points (n, 3), edges (bins + 1,) float64; then points2 if has_points2;
 * then int32 types (n,) [and types2 (n2,)] if ntypes > 0. Output: int64 (pairs of types, bins).
 */
typedef struct gop_rdf_params {
    int has_points2;
    int ntypes; /* 0: no types. Pairs (s, t), s <= t, in the order (0,0) (0,1) .. (1,1) .. */
    int has_box;
    double box[9]; /* rows a, b, c; lower triangular: a = (ax 0 0), b = (bx by 0), c = (cx cy
                      cz) */
} gop_rdf_params;

typedef struct gop_tunable_value {
    const char *name;
    int64_t value;
} gop_tunable_value;

/* What to compute. Says nothing about devices, except where each array lives. */
typedef struct gop_call {
    gop_op op;
    int nin;
    gop_array in[GOP_MAX_INPUTS];
    int nout;
    gop_array out[GOP_MAX_OUTPUTS];
    union {
        gop_transpose_params transpose;
        gop_reduce_params reduce;
        gop_matmul_params matmul;
        gop_jacobi_step_params jacobi_step;
        gop_jacobi_params jacobi;
        gop_rdf_params rdf;
    } params;
    int ntunables; /* asked for by the caller; resolved against the kernel's row by the road */
    gop_tunable_value tunables[GOP_MAX_TUNABLES];
} gop_call;

/* How to run it. */
typedef struct gop_run_options {
    gop_device device;
    const char *kernel; /* NULL: as the choice of the ladder says */
    int fits; /* the output has the dtype and shape that were inferred, so they are not compared
               */
    int made; /* and it is new memory */
} gop_run_options;

/* The cost of running it: estimates and measured times, in seconds. */
typedef struct gop_explanation {
    const char *kernel;
    double bytes;        /* the fewest the operation must move through memory */
    double sector_bytes; /* and with them the rest of the sectors they lie in, and scratch */
    double flops;
    int64_t launches;
    size_t upload_bytes, download_bytes, scratch_bytes;
    gop_precision precision; /* of the result */
} gop_explanation;

/* A candidate for a call. */
typedef struct gop_weighed {
    const char *kernel;
    double seconds;    /* that it is expected to take; 0: the order of the table decides */
    const char *when;  /* the calls that it is for, or NULL */
    const char *why;   /* what was measured, or NULL */
    char refusal[512]; /* why it does not take this one, or "" */
} gop_weighed;

typedef struct gop_times {
    double kernel, upload, download, total;
} gop_times;

/* ---- functions ---- */

/* Checks the operands and fills dtype, ndim and shape of call->out[0 .. nout - 1];
 * device-free. */
gop_status gop_infer(gop_call *call);

struct gop_device_info; /* core/core.h */

/* Chooses the kernel and says what the call will move, without running it. list[0 .. *count -
 * 1] become the kernels that may be chosen, at most *count, in the order in which they are
 * asked: the first without a refusal runs where none was named. `like`: on a GPU that is not
 * there, of which this is all that is known, on the simulator alone; or NULL. */
gop_status gop_explain(const gop_call *call, const gop_run_options *options,
                       const struct gop_device_info *like, gop_explanation *said,
                       gop_weighed *list, int *count);

/* Runs the call: outputs must be set. They are untouched unless the run phase began. */
gop_status gop_run(const gop_call *call, const gop_run_options *options);

/* Runs it n_warmup + n_repeat times and fills times[n_repeat]; cold empties the caches in
 * between. Yardstick rows can be timed here. */
gop_status gop_time(const gop_call *call, const gop_run_options *options, int n_warmup,
                    int n_repeat, int cold, gop_times *times, gop_explanation *said);

/* The calling thread's last failure: code and sentence. */
typedef struct gop_error {
    gop_status code;
    char message[1024];
    int native_code; /* of the device's own runtime, 0 if none */
    char native_name[64];
    int64_t requested, free, total; /* of a failed allocation, in bytes; 0 if not known */
    int axis, ndim;                 /* of GOP_BAD_AXIS */
} gop_error;

const gop_error *gop_error_get(void);

#ifdef __cplusplus
}
#endif
#endif
