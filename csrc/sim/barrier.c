/*
 * barrier.c - __syncthreads: whether all threads of the block reach the same barrier each time.
 *
 * A barrier is identified by its place in the source. When a lane leaves a statement that
 * contains a barrier, as a branch or a loop, it reports that (gpuops/_compile/barriers.py). A
 * lane that has left the statement more often than a lane that waits inside has skipped that
 * barrier. A lane that returns from inside reports nothing: a GPU does not wait for a thread
 * that has returned.
 */
#include "sim/calls.h"
#include "sim/check.h"

/* ---- statements with barriers in them ---- */

void gop_sim_done_with(int first, int last, int in_kernel)
{
    gop_sim_worker *w = gop_sim_here;
    gop_sim_lane *lane = w->lane;
    w->done = 1;
    for (int i = 0; i < lane->ndone; i++) {
        if (lane->done[i].first != first || lane->done[i].last != last) continue;
        lane->done[i].times++;
        return;
    }
    if (lane->ndone < GOP_SIM_PASTS)
        lane->done[lane->ndone++] = (gop_sim_done){first, last, in_kernel, 1};
}

void gop_sim_forget_done(gop_sim_worker *w)
{
    if (!w->done) return;
    w->done = 0;
    for (int l = 0; l < w->lanes; l++) w->all[l].ndone = 0;
}

/* How often a lane has left the statement. */
static int times_of(const gop_sim_lane *lane, const gop_sim_done *statement)
{
    for (int i = 0; i < lane->ndone; i++)
        if (lane->done[i].first == statement->first && lane->done[i].last == statement->last)
            return lane->done[i].times;
    return 0;
}

/* Whether `ahead` has left a statement in which `behind` still waits. If `ahead` is alive, only
 * statements of the kernel's body count: a function may have been called by some lanes only. */
static int is_past(const gop_sim_lane *ahead, const gop_sim_lane *behind, int has_ended)
{
    const int line = behind->line & 0xffff; /* high bits: which one of that line */
    for (int i = 0; i < ahead->ndone; i++) {
        const gop_sim_done *d = &ahead->done[i];
        if ((has_ended || d->in_kernel) && d->first <= line && line <= d->last &&
            times_of(behind, d) < d->times)
            return 1;
    }
    return 0;
}

/* ---- whether all lanes are at the same barrier ---- */

/* Whether lane l waits at a barrier. */
static int waits(const gop_sim_worker *w, int l)
{
    return (int)(w->warp[l / GOP_SIM_WARP].at_barrier >> l % GOP_SIM_WARP & 1);
}

/* The first lane that waits at a barrier in a line other than `line`; -1: in any line. */
static const gop_sim_lane *waiting(const gop_sim_worker *w, int line)
{
    for (int l = 0; l < w->lanes; l++)
        if (waits(w, l) && w->all[l].line != line) return &w->all[l];
    return NULL;
}

static int passed_by(const gop_sim_worker *w, const gop_sim_lane *behind,
                     const gop_sim_lane *ahead, int has_ended)
{
    const gop_sim_index t = ahead->index;
    char text[512];
    gop_fail(GOP_DEVICE_FAILED,
             "%s waits at a __syncthreads that thread (%u, %u, %u)%s has skipped: a barrier in "
             "divergent code, which CUDA leaves undefined; take it out of the branch or the "
             "loop, so that all threads of the block come to it, each time",
             gop_sim_who(w, behind, behind->site, text), t.x, t.y, t.z,
             has_ended ? ", which has ended," : "");
    return 0;
}

int gop_sim_one_barrier(const gop_sim_worker *w)
{
    char text[512], place[256];
    const gop_sim_lane *one = waiting(w, -1);
    const gop_sim_lane *other = w->checks && one ? waiting(w, one->line) : NULL;
    if (other) {
        const gop_sim_index t = other->index;
        gop_sim_place_of(other->site, place, sizeof place);
        gop_fail(
            GOP_DEVICE_FAILED,
            "%s waits at one __syncthreads and thread (%u, %u, %u) %s at another: a barrier in "
            "divergent code; take it out of the branch, so that all threads of the block come "
            "to the same one",
            gop_sim_who(w, one, one->site, text), t.x, t.y, t.z, place);
        return 0;
    }
    if (!w->checks || !one || !w->done) return 1;
    for (int l = 0; l < w->lanes; l++) {
        const gop_sim_lane *lane = &w->all[l];
        if (is_past(lane, one, !waits(w, l))) return passed_by(w, one, lane, !waits(w, l));
        if (waits(w, l) && is_past(one, lane, 0)) return passed_by(w, lane, one, 0);
    }
    return 1;
}
