/*
 * coalesced.cu - jacobi_step of a CSR matrix, its rows short: products through shared memory.
 *
 * With a warp per row, a row of 5 terms keeps 5 threads busy; with a thread per row, neighbours
 * read 5 terms apart. So all threads of a block first multiply the terms of all its rows as
 * they stand in memory, whatever row they belong to; then each thread folds a row of its own
 * out of shared memory. A row of up to 128 terms has one term a lane, so its tree needs nothing
 * but the products. A block with a longer row, or with more terms than fit, takes a warp per
 * row instead.
 */
#include "core/ops/jacobi.h"
#include "cuda/jacobi_step/tree.h"

enum { THREADS = 256, PRODUCTS = 2048 };

/* The diagonal of one row by one thread: duplicates add up in stored order. */
template <typename T>
GOP_DEVICE T thread_diagonal(const jacobi_system<T> &s, int64_t i, csr_row row)
{
    T sum = negative_zero<T>();
    if (s.has_alpha) return sum;
    for (int64_t p = row.begin; p < row.end; p++)
        if (index_at(s.indices, s.g.index64, p) == i) sum = plus(sum, s.a[p]);
    return sum;
}

/* `rows` rows a block, at most THREADS; the host chooses it so that their terms mostly fit. */
template <typename T> __global__ void __launch_bounds__(THREADS)
    jacobi_step_coalesced_kernel(jacobi_system<T> s, int64_t rows)
{
    __shared__ T product[PRODUCTS];
    __shared__ int64_t begin; /* of the block's terms */
    __shared__ int terms, too_long;
    const gop_jacobi &g = s.g;
    const int thread = threadIdx.y * WARP + threadIdx.x;
    const int64_t i0 = s.first + blockIdx.x * rows;
    const int64_t i1 = s.last - i0 < rows ? s.last : i0 + rows;
    const int has_row = i0 + thread < i1;
    /* Each row is read once: what was checked is what is used, whatever is written meanwhile.
     */
    const csr_row row = has_row ? row_of(s, i0 + thread) : csr_row{0, 0};

    if (thread == 0) begin = row.begin;
    if (thread == 0) too_long = 0;
    __syncthreads();
    if (has_row &&
        (row.end - row.begin > LANES || row.end - begin > PRODUCTS || row.begin < begin))
        too_long = 1;
    if (i0 + thread == i1 - 1) terms = (int)(row.end - begin);
    __syncthreads();
    if (too_long) {
        for (int64_t i = i0 + threadIdx.y; i < i1; i += THREADS / WARP) warp_csr_update(s, i);
        return;
    }

    const int mine = (int)(row.begin - begin), m = (int)(row.end - row.begin);
    const T diagonal = has_row ? thread_diagonal(s, i0 + thread, row) : negative_zero<T>();
    for (int64_t c = 0; c < g.k; c++) {
        const T *x = s.x + c * g.x_col;
        for (int p = thread; p < terms; p += THREADS)
            product[p] = multiply_add(s.a[begin + p], x[column_at(s, begin + p) * g.x_row],
                                      negative_zero<T>());
        __syncthreads();
        if (has_row)
            jacobi_update(s, i0 + thread, c,
                          m > 0 ? fold_in_place(product + mine, m) : positive_zero<T>(),
                          diagonal);
        __syncthreads();
    }
}

struct staged_rows {
    int64_t of_a_block;
};

template <typename T>
static gop_status jacobi_step_coalesced(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const jacobi_system<T> s = jacobi_system_of<T>(task, step);
    const int64_t rows = GOP_OWN_OF_STEP(const staged_rows, task->plan)->of_a_block;
    return GOP_LAUNCH(ctx, jacobi_step_coalesced_kernel<T>,
                      dim3((unsigned)blocks_for(s.last - s.first, rows)),
                      dim3(WARP, THREADS / WARP), 0, s, rows);
}

static gop_status jacobi_step_coalesced_plan(const gop_ctx *ctx, const gop_task *task,
                                             gop_plan *plan)
{
    if (!task->call->params.jacobi_step.csr)
        return gop_fail(GOP_REFUSED,
                        "jacobi_step: the coalesced kernel takes a CSR matrix, got a "
                        "dense A; the block kernel takes those");
    const int64_t average = task->in[0].shape[0] / task->geometry.jacobi.n + 1;
    int64_t rows = THREADS;
    while (rows > THREADS / WARP && rows * average > PRODUCTS) rows /= 2;
    GOP_OWN_OF_STEP(staged_rows, plan)->of_a_block = rows;
    return jacobi_plan_slices(ctx, task, plan);
}

extern const gop_row jacobi_step_coalesced_row = {
    .name = "coalesced",
    .note = "CSR: a block's products pass through shared memory, so short rows still read "
            "whole sectors",
    .role = GOP_CONFORMING,
    .launch = JACOBI_LAUNCHES(jacobi_step_coalesced),
    .plan = jacobi_step_coalesced_plan,
};
