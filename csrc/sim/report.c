/*
 * report.c - a profile as JSON, which gpuops/profiling.py reads.
 */
#define _GNU_SOURCE /* dladdr */
#include "sim/report.h"

#include <dlfcn.h>
#include <stdio.h>

static void write_list(FILE *file, const char *name, const int64_t *items, int count)
{
    fprintf(file, ",\"%s\":[", name);
    for (int i = 0; i < count; i++) fprintf(file, "%s%lld", i ? "," : "", (long long)items[i]);
    fputs("]", file);
}

/* Writes the lanes and addresses of one request. */
static void write_sample(FILE *file, const gop_sim_sample *s, int space,
                         const gop_sim_rules *rules)
{
    gop_sim_request r = {.count = s->count, .bytes = s->bytes};
    gop_sim_piece pieces[GOP_SIM_PIECES];
    int ideal, least, count = 0;
    int64_t lane[GOP_SIM_WARP], at[GOP_SIM_WARP];
    for (int i = 0; i < s->count; i++) {
        lane[i] = r.lane[i] = s->lane[i];
        at[i] = (int64_t)(r.at[i] = s->at[i]);
    }
    if (space == GOP_SIM_GLOBAL && s->count)
        count = gop_sim_transactions(rules, &r, pieces, &ideal, &least);
    fputs(",\"pieces\":[", file);
    for (int p = 0; p < count; p++)
        fprintf(file, "%s[%lld,%d]", p ? "," : "", (long long)pieces[p].address,
                pieces[p].bytes);
    fputs("]", file);
    fprintf(file, ",\"width\":%d,\"most\":%d", s->bytes, s->parts);
    write_list(file, "lane", lane, s->count);
    write_list(file, "at", at, s->count);
}

static void write_counter(FILE *file, const gop_sim_counter *c, const char *base,
                          const gop_sim_rules *rules)
{
    static const char *const kinds[] = {"load", "store", "atomic"};
    static const char *const spaces[] = {"global", "shared"};
    fprintf(file,
            "{\"offset\":%lld,\"space\":\"%s\",\"kind\":\"%s\",\"requests\":%lld,"
            "\"lanes\":%lld,\"bytes\":%lld,\"parts\":%lld,\"ideal\":%lld,\"moved\":%lld,"
            "\"carried\":%lld,\"busiest\":%lld,\"excess\":%lld",
            (long long)((const char *)c->pc - base), spaces[c->space], kinds[c->kind],
            (long long)c->requests, (long long)c->lanes, (long long)c->bytes,
            (long long)c->parts, (long long)c->ideal, (long long)c->moved,
            (long long)c->carried, (long long)c->busiest, (long long)c->excess);
    write_list(file, "each", c->each, GOP_SIM_MOST + 1);
    write_list(file, "map", c->map, GOP_SIM_SECTOR + 1);
    write_sample(file, &c->sample, c->space, rules);
    fputs("}", file);
}

static void write_branch(FILE *file, const gop_sim_branch *b, const char *base)
{
    fprintf(file, "{\"offset\":%lld,\"passed\":%lld,\"divergent\":%lld,\"lanes\":%lld}",
            (long long)((const char *)b->pc - base), (long long)b->passed,
            (long long)b->divergent, (long long)b->lanes);
}

/* Writes a kernel. Addresses become offsets into its library. */
static void write_kernel(FILE *file, const gop_sim_kernel *k)
{
    Dl_info library = {"", NULL, NULL, NULL};
    dladdr(k->function, &library);
    const char *base = library.dli_fbase;
    fprintf(file,
            "{\"name\":\"%s\",\"library\":\"%s\",\"offset\":%lld,\"device\":%d,"
            "\"launches\":%lld,\"shared\":%d,\"blocks\":%lld,\"threads\":%lld,\"grid\":%lld,"
            "\"wave\":%lld,"
            "\"partitions\":%d,\"instructions\":[",
            k->name, library.dli_fname, (long long)((const char *)k->function - base),
            k->device, (long long)k->launches, k->shared, (long long)k->blocks,
            (long long)k->threads, (long long)k->grid, (long long)k->unit,
            gop_sim_rules_of[k->device].partitions);
    const gop_sim_counters *c = &k->counters;
    for (int u = 0; u < c->used; u++) {
        if (u) fputs(",", file);
        write_counter(file, &c->at[c->at_used[u]], base, &gop_sim_rules_of[k->device]);
    }
    fputs("],\"branches\":[", file);
    for (int u = 0; u < c->branches_used; u++) {
        if (u) fputs(",", file);
        write_branch(file, &c->branch[c->branch_used[u]], base);
    }
    fputs("],\"steps\":[", file);
    for (int s = 0; s < c->steps; s++)
        fprintf(file, "%s[%lld,%u,%d]", s ? "," : "",
                (long long)((const char *)c->tape[s].pc - base), c->tape[s].lanes,
                c->tape[s].warp);
    fputs("]}", file);
}

char *gop_sim_report(const gop_sim_kernel *kernels)
{
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    if (!file) return NULL;
    fputs("[", file);
    for (const gop_sim_kernel *k = kernels; k; k = k->next) {
        write_kernel(file, k);
        if (k->next) fputs(",", file);
    }
    fputs("]", file);
    fclose(file);
    return text;
}
