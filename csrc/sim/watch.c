/*
 * watch.c - slow blocks: where their lanes are, for a warning and after Ctrl-C.
 *
 * A lane reads the clock now and then (paths.c). The calling thread, which may be another
 * thread than the block's, reports what the lane found.
 */
#define _GNU_SOURCE /* clock_gettime, strdup */
#include "sim/calls.h"
#include "sim/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double patience; /* seconds */
static gop_sim_tell *tell;
static __thread char *stopped_at; /* where the last launch of this thread was stopped */

void gop_sim_watch(double seconds, gop_sim_tell *told)
{
    patience = seconds;
    tell = told;
}

const char *gop_sim_stopped_at(void)
{
    return stopped_at;
}

/* Whether this thread is the first, and so may write the text. */
static int begin_text(int *said)
{
    int none = GOP_SIM_NO_TEXT;
    return __atomic_compare_exchange_n(said, &none, GOP_SIM_WRITING, 0, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

static void end_text(int *said)
{
    __atomic_store_n(said, GOP_SIM_TEXT_DONE, __ATOMIC_RELEASE);
}

static int is_there(const int *said)
{
    return __atomic_load_n(said, __ATOMIC_ACQUIRE) == GOP_SIM_TEXT_DONE;
}

void gop_sim_watch_lane(gop_sim_worker *w, const void *pc)
{
    gop_sim_crew *crew = w->crew;
    char text[512];
    const int touched = w->accesses != w->looked_accesses || w->looked_lane != w->lane;
    w->looked_accesses = w->accesses;
    w->looked_lane = w->lane;
    w->looked_at = pc;
    if (!w->launch->own || !tell) return;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const double now = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    if (w->since == 0) w->since = now;
    if (now - w->since < patience || !begin_text(&crew->slow)) return;
    snprintf(crew->slow_text, sizeof crew->slow_text,
             "%s: this block has run for %.0f s and goes on; %s; Ctrl-C stops it",
             gop_sim_who(w, w->lane, pc, text), now - w->since,
             touched ? "if a loop there has no end, look at its condition"
                     : "the loop there touches no memory: if it waits for what another thread "
                       "stores, declare that volatile, else look at the loop's condition");
    end_text(&crew->slow);
}

void gop_sim_note_stop(gop_sim_worker *w)
{
    char text[512];
    if (!w->looked_at || !begin_text(&w->crew->at)) return;
    snprintf(w->crew->at_text, sizeof w->crew->at_text, "%s",
             gop_sim_who(w, w->lane, w->looked_at, text));
    end_text(&w->crew->at);
}

int gop_sim_watch_tells(gop_sim_crew *crew)
{
    if (!is_there(&crew->slow)) return 1;
    crew->slow = GOP_SIM_WRITING; /* so that it is reported once */
    return tell(crew->slow_text) == 0;
}

void gop_sim_watch_ends(const gop_sim_crew *crew)
{
    free(stopped_at);
    stopped_at = is_there(&crew->at) ? strdup(crew->at_text) : NULL;
}
