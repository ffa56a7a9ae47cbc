/*
 * stencil.cu - jacobi_step of a stencil: no matrix, a point per thread.
 *
 * A warp takes a piece of a line of the grid, and a block neighbouring lines, which find each
 * other's points in L1.
 */
#include "core/ops/jacobi.h"
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

struct stencil_plan {
    int64_t lines, pieces, count; /* blocks in each direction, and all */
    int is_plain;                 /* vectors are one column whose items lie side by side */
};

template <typename T, int AXES>
static gop_status jacobi_step_stencil(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const stencil_plan &p = *GOP_OWN_OF_STEP(const stencil_plan, task->plan);
    const gop_lattice grid = task->call->params.jacobi_step.grid;
    const int64_t steps = task->plan->steps;
    const int64_t first = jacobi_before(p.count, steps, step);
    const int64_t last = jacobi_before(p.count, steps, step + 1);
    if (last == first) return GOP_OK;
    return GOP_LAUNCH(ctx, (jacobi_step_stencil_kernel<T, AXES>), (unsigned)(last - first),
                      dim3(WARP, WARPS), 0, jacobi_system_of<T>(task, step), grid, p.lines,
                      p.pieces, first, p.is_plain);
}

template <typename T> static gop_launch launch_of(int axes)
{
    return axes == 1   ? jacobi_step_stencil<T, 1>
           : axes == 2 ? jacobi_step_stencil<T, 2>
                       : jacobi_step_stencil<T, 3>;
}

static gop_status jacobi_step_stencil_plan(const gop_ctx *, const gop_task *task,
                                           gop_plan *plan)
{
    const gop_lattice &grid = task->call->params.jacobi_step.grid;
    if (grid.axes == 0)
        return gop_fail(GOP_REFUSED, "jacobi_step: the stencil kernel takes a stencil, got a "
                                     "matrix; the warp kernel takes those");
    const gop_jacobi &g = task->geometry.jacobi;
    const int64_t length = grid.extent[grid.axes - 1];
    stencil_plan *const p = GOP_OWN_OF_STEP(stencil_plan, plan);
    p->lines = g.n > 0 ? g.n / length : 0;
    p->pieces = blocks_for(length, PIECE);
    p->count = blocks_for(p->lines, WARPS) * p->pieces;
    p->is_plain = g.k == 1 && g.f_row == 1 && g.x_row == 1 && g.out_row == 1 && g.a_col <= 1 &&
                  (task->nout == 1 || g.residual_row == 1);
    const int64_t most = 1 << 24; /* blocks of a launch, far below 100 ms */
    plan->steps = blocks_for(p->count, most);
    if (plan->steps < 1) plan->steps = 1;
    plan->launch = JACOBI_BY_DTYPE(task->in[0].dtype, launch_of)(grid.axes);
    return GOP_OK;
}

extern const gop_row jacobi_step_stencil_row = {
    .name = "stencil",
    .note = "a stencil on a grid, a point per thread: no matrix is read",
    .role = GOP_CONFORMING,
    .plan = jacobi_step_stencil_plan,
    .dtypes = JACOBI_DTYPES,
};
