/*
 * paths.c - divergence: where the lanes of a warp take different paths.
 *
 * The compiler calls these functions at every basic block and before every comparison. Each
 * lane records its steps until all lanes of its warp wait at one instruction. Then the records
 * are compared: where they differ, the comparison before was a divergent branch.
 *
 * Recording costs a few instructions, because lanes do not wait at a basic block. The exception
 * is the start of a loop's next iteration: there a lane waits for those that are still in a
 * branch of the body, as on a GPU. It does not wait if no lane can be in such a branch: in a
 * loop of a single basic block, and in the block that held a barrier for all lanes.
 */
#include "sim/counters.h"

#include <string.h>

static void note_step(gop_sim_path *path, uintptr_t step)
{
    path->step[path->steps++] = step;
    path->mixed = (path->mixed ^ step) * UINT64_C(0x9e3779b97f4a7c15);
}

/* Whether this block begins the next iteration of a loop that has branches. */
static int must_wait(const gop_sim_lane *lane, uintptr_t pc)
{
    return pc < lane->passed && !lane->met && pc != lane->entered;
}

static inline void record(gop_sim_worker *w, const void *pc, int compares)
{
    if (!compares) w->lane->entered = (uintptr_t)pc, w->lane->met = 0;
    w->lane->passed = (uintptr_t)pc;
    note_step(w->lane->path, 2 * (uintptr_t)pc + (uintptr_t)compares);
}

/* What a step does rarely. If the lane's path is full, the lane pauses until its whole warp has
 * stopped. */
static __attribute__((noinline)) void wait_and_record(gop_sim_worker *w, const void *pc,
                                                      int compares)
{
    if (must_wait(w->lane, (uintptr_t)pc)) gop_sim_stop_behind(w);
    if (w->lane->path->steps == GOP_SIM_STEPS) gop_sim_pause(w);
    record(w, pc, compares);
}

static __attribute__((noinline)) void rest_and_record(gop_sim_worker *w, const void *pc,
                                                      ptrdiff_t room)
{
    gop_sim_rest(w, pc, room);
    if (w->lane->path) wait_and_record(w, pc, 0);
}

/* Every basic block and every comparison comes here. What is rare is called last, so that the
 * usual way saves no registers. */
static inline void pass(const void *pc, const char *frame, int compares)
{
    gop_sim_worker *w = gop_sim_here;
    if (!w) return;
    const ptrdiff_t room = frame - w->fiber->stack;
    const int rests = !compares && (--w->time_slice < 0 || room < GOP_FIBER_RESERVE);
    const gop_sim_path *path = w->paths ? w->lane->path : NULL; /* a lane is seldom near */
    if (rests) rest_and_record(w, pc, room);
    else if (path && (must_wait(w->lane, (uintptr_t)pc) || path->steps == GOP_SIM_STEPS))
        wait_and_record(w, pc, compares);
    else if (path) record(w, pc, compares);
}

#pragma GCC visibility push(default) /* for kernels that Python compiles */

#define PASSES(name, compares, ...)                                                            \
    void __sanitizer_cov_trace_##name(__VA_ARGS__);                                            \
    void __sanitizer_cov_trace_##name(__VA_ARGS__)                                             \
    {                                                                                          \
        pass(__builtin_return_address(0), __builtin_frame_address(0), compares);               \
    }
#define COMPARES(name, type)                                                                   \
    PASSES(name, 1, type a __attribute__((unused)), type b __attribute__((unused)))
PASSES(pc, 0, void)
COMPARES(cmp1, uint8_t)
COMPARES(cmp2, uint16_t)
COMPARES(cmp4, uint32_t)
COMPARES(cmp8, uint64_t)
COMPARES(const_cmp1, uint8_t)
COMPARES(const_cmp2, uint16_t)
COMPARES(const_cmp4, uint32_t)
COMPARES(const_cmp8, uint64_t)
COMPARES(cmpf, float)
COMPARES(cmpd, double)
PASSES(switch, 1, uint64_t a __attribute__((unused)), void *b __attribute__((unused)))

#pragma GCC visibility pop

/* ---- reading the notes ---- */

static int find_step(const gop_sim_path *path, int from, int end, uintptr_t step)
{
    while (from < end && path->step[from] != step) from++;
    return from;
}

/* Finds where lanes that diverged reconverge, as indices `until` into their paths: at the step
 * for which the farthest lane has the fewest steps to go. (The first common step of all lanes
 * may be one that some lanes reach only in the next iteration.) Returns 0 if there is none;
 * then each lane goes to its end. */
static int meet_again(const gop_sim_path *paths, unsigned lanes, const int *at, const int *end,
                      int *until)
{
    const int one = __builtin_ctz(lanes);
    int best = GOP_SIM_STEPS + 1, here[GOP_SIM_WARP];
    for (int i = at[one]; i < end[one] && i - at[one] < best; i++) {
        int worst = 0;
        for (unsigned m = lanes; m && worst < best; m &= m - 1) {
            const int l = __builtin_ctz(m);
            const int near = end[l] - at[l] < best ? end[l] : at[l] + best;
            here[l] = find_step(&paths[l], at[l], near, paths[one].step[i]);
            if (here[l] == near) worst = best;
            else if (here[l] - at[l] > worst) worst = here[l] - at[l];
        }
        if (worst >= best) continue;
        best = worst;
        memcpy(until, here, sizeof here);
    }
    if (best <= GOP_SIM_STEPS) return 1;
    for (unsigned m = lanes; m; m &= m - 1) until[__builtin_ctz(m)] = end[__builtin_ctz(m)];
    return 0;
}

/* The subset of `lanes` whose next step is that of the lowest lane. */
static unsigned same_step(const gop_sim_path *paths, unsigned lanes, const int *at)
{
    const int one = __builtin_ctz(lanes);
    unsigned same = 0;
    for (unsigned m = lanes; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        if (paths[l].step[at[l]] == paths[one].step[at[one]]) same |= 1u << l;
    }
    return same;
}

/* Lanes of a warp that took the same path are replayed as one lane, which stands for `like`. */
typedef struct playing {
    gop_sim_counters *counters;
    const gop_sim_path *paths;
    unsigned like[GOP_SIM_WARP];
    int tapes, warp; /* tapes: record the steps for the drawing */
} playing;

/* Counts a step that `lanes` take together: a branch, or a basic block. */
static void take_step(const playing *p, uintptr_t step, unsigned lanes, int parted)
{
    gop_sim_counters *c = p->counters;
    if (!(step & 1) && p->tapes && c->steps < GOP_SIM_TAPE)
        c->tape[c->steps++] = (gop_sim_step){(const void *)(step / 2), lanes, p->warp};
    if (!(step & 1) && !parted) return;
    gop_sim_branch *branch = gop_sim_branch_of(c, (const void *)(step / 2));
    branch->passed++;
    branch->lanes += __builtin_popcount(lanes);
    branch->divergent += parted;
}

/* Replays the paths of `lanes` from `at` to `end`, together wherever their steps are equal.
 * `part`: the paths are incomplete, so it stops as soon as one of them ends or has no common
 * step left. */
static void play_paths(const playing *p, unsigned lanes, int *at, const int *end, int part)
{
    const gop_sim_path *paths = p->paths;
    for (;;) {
        unsigned ended = 0;
        for (unsigned m = lanes; m; m &= m - 1)
            if (at[__builtin_ctz(m)] == end[__builtin_ctz(m)]) ended |= m & -m;
        lanes &= ~ended;
        if (!lanes || (ended && part)) return;
        const unsigned same = same_step(paths, lanes, at);
        if (same != lanes) {
            int until[GOP_SIM_WARP];
            if (!meet_again(paths, lanes, at, end, until) && part) return;
            for (unsigned left = lanes; left;) {
                const unsigned group = same_step(paths, left, at);
                play_paths(p, group, at, until, 0);
                left &= ~group;
            }
            continue;
        }
        const int one = __builtin_ctz(lanes);
        const uintptr_t here = paths[one].step[at[one]];
        unsigned going = 0, all = 0;
        for (unsigned m = lanes; m; m &= m - 1) {
            const int l = __builtin_ctz(m);
            if (++at[l] < paths[l].steps) going |= 1u << l;
            all |= p->like[l];
        }
        take_step(p, here, all, going && same_step(paths, going, at) != going);
    }
}

/* The usual case: all lanes took the same path. */
static void play_one(const playing *p, int one)
{
    const gop_sim_path *path = &p->paths[one];
    for (int s = 0; s < path->steps; s++) take_step(p, path->step[s], p->like[one], 0);
}

/* Drops the first `count` steps. */
static void forget_steps(gop_sim_path *path, int count)
{
    const int kept = path->steps - count;
    path->steps = 0;
    path->mixed = 0;
    for (int s = 0; s < kept; s++) note_step(path, path->step[count + s]);
}

void gop_sim_paths_read(gop_sim_worker *w, int warp, int part)
{
    gop_sim_path *paths = &w->paths[warp * GOP_SIM_WARP];
    playing p = {.counters = w->counters, .paths = paths, .warp = warp};
    int at[GOP_SIM_WARP] = {0}, end[GOP_SIM_WARP], like[GOP_SIM_WARP];
    unsigned lanes = 0, ways = 0; /* lanes with steps; one lane of each path */
    int stays = 0;
    p.tapes = (w->block.x | w->block.y | w->block.z) == 0;
    for (int l = 0; l < GOP_SIM_WARP; l++) {
        end[l] = paths[l].steps;
        if (!end[l]) continue;
        lanes |= 1u << l;
        unsigned m = ways;
        while (m && (end[__builtin_ctz(m)] != end[l] ||
                     paths[__builtin_ctz(m)].mixed != paths[l].mixed))
            m &= m - 1;
        like[l] = m ? __builtin_ctz(m) : l;
        if (!m) ways |= 1u << l;
        p.like[like[l]] |= 1u << l;
    }
    if (!lanes) return;
    if ((ways & (ways - 1)) == 0) {
        const int one = __builtin_ctz(ways);
        play_one(&p, one);
        at[one] = end[one];
    } else {
        if (part) play_paths(&p, ways, at, end, 1);
        for (unsigned m = ways; m; m &= m - 1) /* every full path must get some room */
            stays |= end[__builtin_ctz(m)] == GOP_SIM_STEPS && at[__builtin_ctz(m)] == 0;
        if (!part || stays) play_paths(&p, ways, at, end, 0);
    }
    for (unsigned m = lanes; m; m &= m - 1)
        forget_steps(&paths[__builtin_ctz(m)], at[like[__builtin_ctz(m)]]);
}
