/*
 * tiling.cu - which axes a tile spans, found on the host for the kernels that move tiles.
 */
#include "core/arrays/widen.h"
#include "cuda/transpose/planes.h"
#include "cuda/common/item_size.h"
#include "cuda/transpose/tiling.h"

enum { THIN = 8 }; /* the least side of a plane for tiles */

int transpose_item(const gop_task *task)
{
    return item_size(task->in[0].dtype);
}

/* Wider items need fewer instructions, and there is an axis less. */
int transpose_widen(const gop_task *task, gop_permutation *g)
{
    return gop_permutation_widen(&task->out[0], &task->in[0], transpose_item(task), g);
}

int64_t transpose_alignment(const gop_task *task, int64_t items, int item)
{
    const int64_t bits =
        items * item | (int64_t)((uintptr_t)task->out[0].data | (uintptr_t)task->in[0].data);
    return bits & -bits;
}

static uint64_t nearer(const gop_permutation &g, int axis)
{
    const uint64_t in = gop_magnitude(g.in[axis]), out = gop_magnitude(g.out[axis]);
    return in < out ? in : out;
}

void transpose_order(const gop_permutation &g, int *order)
{
    for (int i = 0; i < g.rank; i++) {
        const int axis = g.rank - 1 - i;
        int k = i;
        for (; k > 0 && nearer(g, axis) < nearer(g, order[k - 1]); k--) order[k] = order[k - 1];
        order[k] = axis;
    }
}

/* Joins the next contiguous axis in `along` to a run; false if there is none. */
static bool extend(run *r, const gop_permutation &g, const int64_t *along,
                   const int64_t *across, bool *taken)
{
    if (r->rank == RUN_AXES) return false;
    for (int axis = g.rank - 1; axis >= 0; axis--) {
        if (taken[axis] || along[axis] != r->n) continue;
        if (r->rank > 0 && g.extent[axis] > INT32_MAX / r->n) return false;
        taken[axis] = true;
        r->n *= g.extent[axis];
        r->extent[r->rank] = make_fast_divisor(g.extent[axis]);
        r->stride[r->rank++] = across[axis];
        return true;
    }
    return false;
}

/* The share of its tiles that a run fills. */
static double filled(const run &r, int side)
{
    const int64_t tiles = (r.n + side - 1) / side;
    return (double)r.n / (double)(tiles * side);
}

/* Tiles of one batch and of all. */
static bool count_tiles(const gop_permutation &g, int side_x, int side_y, int more, tiling *p)
{
    const int64_t tiles_x = (p->x.n + side_x - 1) / side_x;
    const int64_t tiles_y = (p->y.n + more + side_y - 1) / side_y;
    if (tiles_x > INT32_MAX / tiles_y) return false;
    p->plane = make_fast_divisor(tiles_x * tiles_y);
    p->up = make_fast_divisor(tiles_y);
    const int64_t batches = g.size / p->x.n / p->y.n;
    p->tiles = tiles_x * tiles_y;
    if (batches > INT32_MAX / p->tiles) return false;
    p->tiles *= batches;
    return true;
}

static bool is_brief(const tiling &p, brief_tiling *brief)
{
    if (p.x.rank > 1 || p.y.rank > 1 || p.batch_rank > BRIEF_AXES) return false;
    *brief = {p.plane, p.up,   p.batch_rank, {p.x.n, {p.x.stride[0]}}, {p.y.n, {p.y.stride[0]}},
              {},      p.tiles};
    for (int k = 0; k < p.batch_rank; k++)
        brief->batch[k] = {p.batch[k].extent, p.batch[k].in, p.batch[k].out};
    return true;
}

gop_status transpose_tiling(const char *kernel, const gop_permutation &g, int side_x,
                            int side_y, int more, tiling_plan *t)
{
    bool taken[GOP_MAX_NDIM] = {};
    tiling *const p = &t->all;
    *p = {};
    t->is_brief = false;
    p->x.n = p->y.n = 1;
    if (!extend(&p->x, g, g.in, g.out, taken) || !extend(&p->y, g, g.out, g.in, taken))
        return gop_fail(GOP_REFUSED,
                        "transpose: the %s kernel takes permutations that move the fastest "
                        "axis, between arrays where it has no gaps; the permutation of this "
                        "call leaves it in its place, or an array has gaps",
                        kernel);
    /* The run that leaves more of its tiles empty takes the next axis. */
    for (bool grows = true; grows;) {
        const double x = filled(p->x, side_x), y = filled(p->y, side_y);
        grows = false;
        if (x < 0.9 && x <= y) grows = extend(&p->x, g, g.in, g.out, taken);
        if (y < 0.9 && !grows) grows = extend(&p->y, g, g.out, g.in, taken);
        if (x < 0.9 && !grows) grows = extend(&p->x, g, g.in, g.out, taken);
    }
    if (filled(p->x, side_x) < 0.5 || filled(p->y, side_y) < 0.5)
        return gop_fail(GOP_REFUSED,
                        "transpose: the %s kernel takes runs that fill half a tile of %d by "
                        "%d, got %lld by %lld",
                        kernel, side_x, side_y, (long long)p->x.n, (long long)p->y.n);

    bool fits = count_tiles(g, side_x, side_y, more, p);
    int order[GOP_MAX_NDIM];
    transpose_order(g, order);
    for (int k = 0; k < g.rank && fits; k++) {
        const int axis = order[k];
        if (taken[axis]) continue;
        fits = p->batch_rank < BATCH_AXES;
        if (!fits) break;
        p->batch[p->batch_rank++] = {make_fast_divisor(g.extent[axis]), g.in[axis],
                                     g.out[axis]};
    }
    t->is_brief = fits && is_brief(*p, &t->brief);
    if (fits) return GOP_OK;
    return gop_fail(GOP_REFUSED,
                    "transpose: the %s kernel takes at most %d axes around a tile and 2^31 - 1 "
                    "tiles; this call needs more",
                    kernel, BATCH_AXES);
}

int64_t transpose_offsets_in(const tiling &p)
{
    int64_t bits = 0;
    for (int k = 0; k < p.y.rank; k++) bits |= p.y.stride[k];
    for (int k = 0; k < p.batch_rank; k++) bits |= p.batch[k].in;
    return bits;
}

int64_t transpose_offsets_out(const tiling &p)
{
    int64_t bits = 0;
    for (int k = 0; k < p.x.rank; k++) bits |= p.x.stride[k];
    for (int k = 0; k < p.batch_rank; k++) bits |= p.batch[k].out;
    return bits;
}

gop_status transpose_rows_of_16(const char *kernel, const gop_task *task, const tiling &p,
                                int item)
{
    const int64_t items = p.x.n | p.y.n | transpose_offsets_in(p) | transpose_offsets_out(p);
    const int64_t multiple = transpose_alignment(task, items, item);
    if (multiple % 16 == 0) return GOP_OK;
    return gop_fail(GOP_REFUSED,
                    "transpose: the %s kernel takes rows that start and end at multiples of 16 "
                    "bytes, got a multiple of %d",
                    kernel, (int)multiple);
}

gop_status transpose_planes(const gop_permutation &g, int side, planes *p)
{
    const int y = g.rank - 1;
    int x = y;
    for (int axis = y; axis >= 0; axis--) /* the order along a broadcast axis does not matter */
        if (g.in[axis] != 0 &&
            (g.in[x] == 0 || gop_magnitude(g.in[axis]) < gop_magnitude(g.in[x])))
            x = axis;
    p->tiles = 0;
    if (x == y)
        return gop_fail(GOP_REFUSED, "transpose: kernels of tiles take permutations that move "
                                     "the fastest axis; that of this call leaves it last");
    p->nx = g.extent[x], p->in_x = g.in[x], p->out_x = g.out[x];
    p->ny = g.extent[y], p->in_y = g.in[y], p->out_y = g.out[y];
    if (p->nx < THIN || p->ny < THIN)
        return gop_fail(GOP_REFUSED,
                        "transpose: kernels of tiles take planes of at least %d by %d items, "
                        "got %lld by %lld, which would leave most of a tile empty",
                        THIN, THIN, (long long)p->ny, (long long)p->nx);
    const int64_t across = blocks_for(p->nx, side), up = blocks_for(p->ny, side);
    const int64_t batches = g.size / p->nx / p->ny;
    if (across > INT32_MAX / up || batches > INT32_MAX / (across * up))
        return gop_fail(GOP_REFUSED,
                        "transpose: kernels of tiles take at most 2^31 - 1 tiles "
                        "of %d by %d; this call needs more",
                        side, side);
    p->tiles = across * up * batches;
    p->across = make_fast_divisor(across);
    p->up = make_fast_divisor(up);
    p->plane = make_fast_divisor(across * up);
    p->rank = 0;
    for (int axis = 0; axis < y; axis++) {
        if (axis == x) continue;
        p->extent[p->rank] = make_fast_divisor(g.extent[axis]);
        p->in[p->rank] = g.in[axis];
        p->out[p->rank++] = g.out[axis];
    }
    return GOP_OK;
}

gop_status transpose_plan_sides(const gop_task *task, gop_launch launch, gop_plan *plan)
{
    const int side = (int)task->tune[0];
    plan->launch = launch;
    GOP_TRY(transpose_planes(task->geometry.permutation, side, GOP_OWN(planes, plan)));
    if (!launch)
        return gop_fail(GOP_REFUSED, "transpose: a tile of 64 by 64 takes items of up to 8 "
                                     "bytes in 48 KiB of shared memory, got items of 16");
    return GOP_OK;
}
