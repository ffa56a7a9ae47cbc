/*
 * profile.c - keeping counters between start and stop, over all threads and launches.
 */
#define _GNU_SOURCE /* dladdr */
#include "sim/counters.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct kernel_profile {
    const void *function;
    char name[96];
    int64_t launches, blocks, threads;
    gop_sim_counters counters;
    struct kernel_profile *next;
} kernel_profile;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int on;
static kernel_profile *kernels;
static char *text; /* of the profile that ended last */

/* "(add_naive_kernel<Op, T, uint32_t>)" is add_naive_kernel. */
static void plain_name(const char *from, char *to, size_t room)
{
    size_t n = 0;
    for (from += *from == '('; *from && !strchr("<) ", *from) && n + 1 < room; from++)
        to[n++] = *from;
    to[n] = 0;
}

/* With the lock held. */
static kernel_profile *kernel_of(const gop_sim_launch *launch)
{
    kernel_profile **end = &kernels;
    for (; *end; end = &(*end)->next)
        if ((*end)->function == launch->function) return *end;
    *end = calloc(1, sizeof **end);
    if (!*end) return NULL;
    (*end)->function = launch->function;
    plain_name(launch->kernel, (*end)->name, sizeof(*end)->name);
    return *end;
}

void gop_sim_counting_begin(gop_sim_worker *w)
{
    w->counters = NULL;
    if (__atomic_load_n(&on, __ATOMIC_ACQUIRE)) w->counters = calloc(1, sizeof *w->counters);
}

static void add(gop_sim_counters *to, const gop_sim_counter *from)
{
    gop_sim_counter *c = gop_sim_counter_of(to, from->pc, from->kind, from->space);
    c->requests += from->requests;
    c->lanes += from->lanes;
    c->bytes += from->bytes;
    c->parts += from->parts;
    c->ideal += from->ideal;
}

void gop_sim_counting_end(gop_sim_worker *w, int64_t blocks)
{
    if (!w->counters) return;
    const gop_sim_index b = w->launch->block;
    pthread_mutex_lock(&lock);
    kernel_profile *k = on ? kernel_of(w->launch) : NULL;
    if (k) {
        k->blocks += blocks;
        k->threads += blocks * (int64_t)b.x * b.y * b.z;
        for (int i = 0; i < GOP_SIM_COUNTERS; i++)
            if (w->counters->at[i].pc) add(&k->counters, &w->counters->at[i]);
    }
    pthread_mutex_unlock(&lock);
    free(w->counters);
    w->counters = NULL;
}

void gop_sim_counting_launch(const gop_sim_launch *launch)
{
    if (!__atomic_load_n(&on, __ATOMIC_ACQUIRE)) return;
    pthread_mutex_lock(&lock);
    kernel_profile *k = kernel_of(launch);
    if (k) k->launches++;
    pthread_mutex_unlock(&lock);
}

/* ---- as JSON ---- */

static void write_counter(FILE *file, const gop_sim_counter *c, const char *base)
{
    static const char *const kinds[] = {"load", "store", "atomic"};
    static const char *const spaces[] = {"global", "shared"};
    fprintf(file,
            "{\"offset\":%lld,\"space\":\"%s\",\"kind\":\"%s\",\"requests\":%lld,"
            "\"lanes\":%lld,\"bytes\":%lld,\"parts\":%lld,\"ideal\":%lld}",
            (long long)((const char *)c->pc - base), spaces[c->space], kinds[c->kind],
            (long long)c->requests, (long long)c->lanes, (long long)c->bytes,
            (long long)c->parts, (long long)c->ideal);
}

/* Addresses are offsets into the library that holds the kernel. */
static void write_kernel(FILE *file, const kernel_profile *k)
{
    Dl_info library = {"", NULL, NULL, NULL};
    dladdr(k->function, &library);
    const char *base = library.dli_fbase;
    fprintf(
        file,
        "{\"name\":\"%s\",\"library\":\"%s\",\"offset\":%lld,\"launches\":%lld,\"blocks\":%lld,"
        "\"threads\":%lld,\"instructions\":[",
        k->name, library.dli_fname, (long long)((const char *)k->function - base),
        (long long)k->launches, (long long)k->blocks, (long long)k->threads);
    const char *comma = "";
    for (int i = 0; i < GOP_SIM_COUNTERS; i++) {
        if (!k->counters.at[i].pc) continue;
        fputs(comma, file);
        write_counter(file, &k->counters.at[i], base);
        comma = ",";
    }
    fputs("]}", file);
}

/* With the lock held: the text, and the kernels are gone. */
static void finish(void)
{
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    if (file) fputs("[", file);
    while (kernels) {
        kernel_profile *next = kernels->next;
        if (file) write_kernel(file, kernels);
        if (file && next) fputs(",", file);
        free(kernels);
        kernels = next;
    }
    if (file) fputs("]", file);
    if (file) fclose(file);
}

const char *gop_sim_profile(int start)
{
    pthread_mutex_lock(&lock);
    free(text);
    text = NULL;
    finish();
    if (start) {
        free(text);
        text = NULL;
    }
    __atomic_store_n(&on, start, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
    return text;
}
