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

static void write_counter(FILE *file, const gop_sim_counter *c, const char *base)
{
    static const char *const kinds[] = {"load", "store", "atomic"};
    static const char *const spaces[] = {"global", "shared"};
    fprintf(file,
            "{\"offset\":%lld,\"space\":\"%s\",\"kind\":\"%s\",\"requests\":%lld,"
            "\"lanes\":%lld,\"bytes\":%lld,\"parts\":%lld,\"ideal\":%lld,\"moved\":%lld,"
            "\"carried\":%lld,\"busiest\":%lld",
            (long long)((const char *)c->pc - base), spaces[c->space], kinds[c->kind],
            (long long)c->requests, (long long)c->lanes, (long long)c->bytes,
            (long long)c->parts, (long long)c->ideal, (long long)c->moved,
            (long long)c->carried, (long long)c->busiest);
    write_list(file, "each", c->each, GOP_SIM_MOST + 1);
    write_list(file, "map", c->map, GOP_SIM_SECTOR + 1);
    fputs("}", file);
}

static void write_branch(FILE *file, const gop_sim_branch *b, const char *base)
{
    fprintf(file, "{\"offset\":%lld,\"passed\":%lld,\"divergent\":%lld,\"lanes\":%lld}",
            (long long)((const char *)b->pc - base), (long long)b->passed,
            (long long)b->divergent, (long long)b->lanes);
}

/* Addresses are offsets into the library that holds the kernel. */
static void write_kernel(FILE *file, const gop_sim_kernel *k)
{
    Dl_info library = {"", NULL, NULL, NULL};
    dladdr(k->function, &library);
    const char *base = library.dli_fbase;
    fprintf(file,
            "{\"name\":\"%s\",\"library\":\"%s\",\"offset\":%lld,\"device\":%d,"
            "\"launches\":%lld,\"blocks\":%lld,\"threads\":%lld,\"grid\":%lld,\"wave\":%lld,"
            "\"partitions\":%d,\"instructions\":[",
            k->name, library.dli_fname, (long long)((const char *)k->function - base),
            k->device, (long long)k->launches, (long long)k->blocks, (long long)k->threads,
            (long long)k->grid, (long long)k->unit, gop_sim_rules_of[k->device].partitions);
    const gop_sim_counters *c = &k->counters;
    for (int u = 0; u < c->used; u++) {
        if (u) fputs(",", file);
        write_counter(file, &c->at[c->at_used[u]], base);
    }
    fputs("],\"branches\":[", file);
    for (int u = 0; u < c->branches_used; u++) {
        if (u) fputs(",", file);
        write_branch(file, &c->branch[c->branch_used[u]], base);
    }
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
