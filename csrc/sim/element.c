/*
 * element.c - which variable or array an access touches, and where in it.
 */
#include "sim/check.h"

#include <stdio.h>

static gop_sim_element of_shared(const gop_sim_worker *w, int at, int bytes)
{
    gop_sim_element e = {0, at - GOP_SIM_STATIC, bytes, 1};
    if (at >= GOP_SIM_STATIC) return e;
    /* Variables are in the order of their sites: take the last one that begins at or before
     * `at`. */
    for (int s = 0; s < w->sites; s++) {
        const int begin = (int)((char *)w->site[s].memory - w->memory);
        if (begin > at) break;
        e.of = w->site[s].site;
        e.offset = at - begin;
    }
    return e;
}

gop_sim_element gop_sim_element_of(const gop_sim_worker *w, const gop_sim_access *a)
{
    const uintptr_t at = a->address - (uintptr_t)w->memory;
    if (at < sizeof w->memory) return of_shared(w, (int)at, a->bytes);
    const gop_sim_arrays *arrays = w->arrays;
    gop_sim_element e = {0, 0, a->bytes, 0};
    for (int i = 0; arrays && i < arrays->count; i++) {
        if (a->address < arrays->at[i].begin || a->address >= arrays->at[i].end) continue;
        e.of = arrays->at[i].begin;
        e.offset = (int64_t)(a->address - arrays->at[i].begin);
    }
    return e;
}

const char *gop_sim_element_text(const gop_sim_element *e, char text[64])
{
    snprintf(text, 64, "{%c%llx+%lld:%d}", e->is_shared ? 's' : 'g', (unsigned long long)e->of,
             (long long)e->offset, e->bytes);
    return text;
}
