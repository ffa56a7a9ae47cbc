/*
 * stencil.cu - jacobi_step of a stencil: no matrix, a point per thread.
 *
 * A warp takes a piece of a line of the grid, and a block neighbouring lines, which find each
 * other's points in the first-level cache.
 */
#include "cuda/jacobi_step/lattice.h"

enum { WARP = 32, WARPS = 8, POINTS = 4, PIECE = WARP * POINTS };

/* A piece all of whose points have all neighbours, of vectors whose items lie side by side. */
template <typename T, int AXES>
GOP_DEVICE void stencil_inside(const jacobi_system<T> &s, const gop_lattice &grid, int64_t i)
{
    enum { COUNT = stencil_terms<AXES>::COUNT };
    const gop_jacobi &g = s.g;
    const T *const x = s.x + i, *const a = s.a + i * g.a_col;
    T item[POINTS][COUNT], f[POINTS], constant[COUNT];
#pragma unroll
    for (int t = 0; t < COUNT; t++) constant[t] = a[t * g.a_row];
#pragma unroll
    for (int p = 0; p < POINTS; p++) {
        f[p] = s.f[i + p * WARP];
        item[p][AXES] = x[p * WARP];
        int64_t apart = 1;
#pragma unroll
        for (int d = AXES - 1; d >= 0; d--) {
            item[p][d] = x[p * WARP - apart];
            item[p][2 * AXES - d] = x[p * WARP + apart];
            apart *= grid.extent[d];
        }
    }
    const bool is_exact = g.a_col == 0 && has_exact_inverse(constant[AXES]);
    const T inverse = is_exact ? divide(number<T>::of(1), constant[AXES]) : positive_zero<T>();
#pragma unroll
    for (int p = 0; p < POINTS; p++) {
        T lane[FOLDED_TERMS], diagonal = constant[AXES];
#pragma unroll
        for (int l = 0; l < FOLDED_TERMS; l++) lane[l] = negative_zero<T>();
#pragma unroll
        for (int t = 0; t < COUNT; t++) {
            const T own = g.a_col == 0 ? constant[t] : a[t * g.a_row + p * WARP];
            if (t == AXES) diagonal = own;
            lane[t] = multiply_add(own, item[p][t], lane[t]);
        }
        const T sum = fold_eight(lane), left = minus(f[p], sum);
        T change;
        if (s.has_alpha) change = minus(sum, f[p]);
        else if (is_exact) change = multiply_add(left, inverse, negative_zero<T>());
        else change = divide(left, diagonal);
        s.out[i + p * WARP] = multiply_add(s.factor, change, item[p][AXES]);
        if (s.residual) s.residual[i + p * WARP] = left;
    }
}

/* Step `first` to `last` of the blocks, each WARPS lines of a piece. */
template <typename T, int AXES> __global__ void __launch_bounds__(WARP *WARPS)
    jacobi_step_stencil_kernel(jacobi_system<T> s, gop_lattice grid, int64_t lines,
                               int64_t pieces, int64_t first, int is_plain)
{
    enum { COUNT = stencil_terms<AXES>::COUNT };
    const gop_jacobi &g = s.g;
    const int64_t block = first + blockIdx.x, length = grid.extent[AXES - 1];
    const int64_t line = block / pieces * WARPS + threadIdx.y;
    if (line >= lines) return;
    const int64_t begin = block % pieces * PIECE;
    int64_t at[AXES], left = line;
    bool is_inside = is_plain && begin > 0 && begin + PIECE < length;
#pragma unroll
    for (int d = AXES - 2; d >= 0; d--) {
        at[d] = left % grid.extent[d];
        left /= grid.extent[d];
        is_inside &= at[d] > 0 && at[d] < grid.extent[d] - 1;
    }
    if (is_inside) return stencil_inside<T, AXES>(s, grid, line * length + begin + threadIdx.x);
    for (int p = 0; p < POINTS; p++) {
        at[AXES - 1] = begin + p * WARP + threadIdx.x;
        if (at[AXES - 1] >= length) return;
        const int64_t i = line * length + at[AXES - 1];
        const stencil_terms<AXES> terms = terms_of<AXES>(grid, at);
        T a[COUNT], diagonal = negative_zero<T>();
#pragma unroll
        for (int t = 0; t < COUNT; t++) {
            a[t] = s.a[t * g.a_row + i * g.a_col];
            if (terms.is_there[t] && terms.distance[t] == 0) diagonal = plus(diagonal, a[t]);
        }
        for (int64_t c = 0; c < g.k; c++) {
            T product[COUNT];
#pragma unroll
            for (int t = 0; t < COUNT; t++) {
                const int64_t k = terms.is_there[t] ? i + terms.distance[t] : i;
                product[t] =
                    multiply_add(a[t], s.x[k * g.x_row + c * g.x_col], negative_zero<T>());
            }
            jacobi_update(s, i, c, fold_terms<T, AXES>(terms, product), diagonal);
        }
    }
}

/* Blocks in each direction. */
struct stencil_blocks {
    int64_t lines, pieces, count;
};

static stencil_blocks stencil_blocks_of(const gop_task *task)
{
    const gop_lattice *grid = &task->call->params.jacobi_step.grid;
    const int64_t n = task->geometry.jacobi.n, length = grid->extent[grid->axes - 1];
    stencil_blocks b = {n > 0 ? n / length : 0, blocks_for(length, PIECE), 0};
    b.count = blocks_for(b.lines, WARPS) * b.pieces;
    return b;
}

template <typename T>
static gop_status jacobi_step_stencil(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const gop_lattice grid = task->call->params.jacobi_step.grid;
    const jacobi_system<T> s = jacobi_system_of<T>(task, step);
    const stencil_blocks b = stencil_blocks_of(task);
    const int64_t steps = task->plan->steps;
    const int64_t first = b.count / steps * step + b.count % steps * step / steps;
    const int64_t last = b.count / steps * (step + 1) + b.count % steps * (step + 1) / steps;
    const dim3 blocks((unsigned)(last - first)), block(WARP, WARPS);
    const gop_jacobi &g = s.g;
    const int is_plain = g.k == 1 && g.f_row == 1 && g.x_row == 1 && g.out_row == 1 &&
                         g.a_col <= 1 && (!s.residual || g.residual_row == 1);
    if (last == first) return GOP_OK;
    if (grid.axes == 1)
        return GOP_LAUNCH(ctx, (jacobi_step_stencil_kernel<T, 1>), blocks, block, 0, s, grid,
                          b.lines, b.pieces, first, is_plain);
    if (grid.axes == 2)
        return GOP_LAUNCH(ctx, (jacobi_step_stencil_kernel<T, 2>), blocks, block, 0, s, grid,
                          b.lines, b.pieces, first, is_plain);
    return GOP_LAUNCH(ctx, (jacobi_step_stencil_kernel<T, 3>), blocks, block, 0, s, grid,
                      b.lines, b.pieces, first, is_plain);
}

static gop_status jacobi_step_stencil_plan(const gop_ctx *, const gop_task *task,
                                           gop_plan *plan)
{
    if (task->call->params.jacobi_step.grid.axes == 0)
        return gop_fail(GOP_REFUSED, "jacobi_step: the stencil kernel takes a stencil, got a "
                                     "matrix; the warp kernel takes those");
    const int64_t most = 1 << 24; /* blocks of a launch, far below 100 ms */
    plan->steps = blocks_for(stencil_blocks_of(task).count, most);
    if (plan->steps < 1) plan->steps = 1;
    return GOP_OK;
}

extern const gop_row jacobi_step_stencil_row = {
    .name = "stencil",
    .note = "a stencil on a grid, a point per thread: no matrix is read",
    .role = GOP_CONFORMING,
    .launch = JACOBI_LAUNCHES(jacobi_step_stencil),
    .plan = jacobi_step_stencil_plan,
};
