/*
 * count.c - counts the memory requests of warps, by a device's rules.
 */
#include "sim/counters.h"
#include "sim/record.h"

static size_t counter_place(const void *pc)
{
    return ((uintptr_t)pc * UINT64_C(0x9e3779b97f4a7c15)) >> 48;
}

gop_sim_counter *gop_sim_counter_of(gop_sim_counters *counters, const void *pc, int kind,
                                    int space)
{
    size_t at = counter_place(pc);
    for (int tries = 0; tries < GOP_SIM_COUNTERS; tries++, at++) {
        gop_sim_counter *c = &counters->at[at % GOP_SIM_COUNTERS];
        if (c->pc && (c->pc != pc || c->kind != kind || c->space != space)) continue;
        if (c->pc) return c;
        c->pc = pc;
        c->kind = kind;
        c->space = space;
        counters->at_used[counters->used++] = (int16_t)(at % GOP_SIM_COUNTERS);
        return c;
    }
    return &counters->at[GOP_SIM_COUNTERS - 1];
}

gop_sim_branch *gop_sim_branch_of(gop_sim_counters *counters, const void *pc)
{
    size_t at = counter_place(pc);
    for (int tries = 0; tries < GOP_SIM_COUNTERS; tries++, at++) {
        gop_sim_branch *b = &counters->branch[at % GOP_SIM_COUNTERS];
        if (b->pc && b->pc != pc) continue;
        if (b->pc) return b;
        b->pc = pc;
        counters->branch_used[counters->branches_used++] = (int16_t)(at % GOP_SIM_COUNTERS);
        return b;
    }
    return &counters->branch[GOP_SIM_COUNTERS - 1];
}

static int count_global(const gop_sim_rules *rules, gop_sim_counter *c,
                        const gop_sim_request *r)
{
    gop_sim_piece pieces[GOP_SIM_PIECES];
    int ideal, least;
    const int count = gop_sim_transactions(rules, r, pieces, &ideal, &least);
    for (int p = 0; p < count; p++) {
        c->moved += pieces[p].bytes;
        for (int s = 0; s < pieces[p].bytes / GOP_SIM_SECTOR; s++)
            c->map[__builtin_popcount(pieces[p].used[s])]++;
        if (rules->partitions)
            c->load[pieces[p].address / GOP_SIM_PARTITION_BYTES %
                    (uintptr_t)rules->partitions] += pieces[p].bytes;
    }
    c->parts += count;
    c->ideal += ideal;
    c->excess += count - least;
    c->each[count < GOP_SIM_MOST ? count : GOP_SIM_MOST]++;
    return count;
}

static int count_shared(const gop_sim_rules *rules, gop_sim_counter *c,
                        const gop_sim_request *r)
{
    int ideal;
    const int turns = gop_sim_wavefronts(rules, r, c->map, &ideal);
    c->moved += (int64_t)turns * rules->banks * 4;
    c->parts += turns;
    c->ideal += ideal;
    c->excess += turns - ideal;
    c->each[turns < GOP_SIM_MOST ? turns : GOP_SIM_MOST]++;
    return turns;
}

int gop_sim_is_better(const gop_sim_sample *a, const gop_sim_sample *b)
{
    if (a->count != b->count) return a->count > b->count;
    if (a->parts != b->parts) return a->parts > b->parts;
    return a->block < b->block;
}

static void keep_sample(const gop_sim_worker *w, gop_sim_sample *kept, const gop_sim_request *r,
                        int parts, uintptr_t base)
{
    const gop_sim_index b = w->block, grid = w->launch->grid;
    gop_sim_sample s = {.count = r->count, .parts = parts, .bytes = r->bytes};
    s.block = ((int64_t)b.z * grid.y + b.y) * grid.x + b.x;
    if (!gop_sim_is_better(&s, kept)) return;
    for (int i = 0; i < r->count; i++) s.lane[i] = r->lane[i], s.at[i] = r->at[i] - base;
    *kept = s;
}

static int is_shared(const gop_sim_worker *w, uintptr_t address)
{
    return address - (uintptr_t)w->memory < sizeof w->memory;
}

void gop_sim_count(gop_sim_worker *w, const gop_sim_warp *warp, unsigned group)
{
    const gop_sim_lane *lanes = &w->all[(warp - w->warp) * GOP_SIM_WARP];
    const gop_sim_access *one = &lanes[__builtin_ctz(group)].access;
    if (lanes[__builtin_ctz(group)].place & 1) return; /* no access: a jump back */
    gop_sim_request requests[GOP_SIM_NSPACES];
    requests[0].count = requests[1].count = 0;
    for (unsigned m = group; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        gop_sim_request *r = &requests[is_shared(w, lanes[l].access.address)];
        r->lane[r->count] = l;
        r->at[r->count++] = lanes[l].access.address;
    }
    for (int space = 0; space < GOP_SIM_NSPACES; space++) {
        gop_sim_request *r = &requests[space];
        if (!r->count) continue;
        r->bytes = one->bytes;
        r->kind = one->kind;
        gop_sim_counter *c = gop_sim_counter_of(w->counters, one->pc, one->kind, space);
        gop_sim_note_request(w, (int)(warp - w->warp), one, r);
        c->requests++;
        c->lanes += r->count;
        c->bytes += (int64_t)r->count * r->bytes;
        const int parts =
            (space == GOP_SIM_GLOBAL ? count_global : count_shared)(w->rules, c, r);
        keep_sample(w, &c->sample, r, parts,
                    space == GOP_SIM_GLOBAL ? 0 : (uintptr_t)w->memory);
    }
}
