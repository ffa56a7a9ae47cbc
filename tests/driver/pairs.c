/*
 * pairs.c - which calls bring a kernel something new: two properties that it has not yet met in
 * one call.
 *
 * Faults come from one property of a call, or from two that meet; those of three are rare.
 * Calls that bring no new pair are left to the runs that make all of them.
 */
#include <stdlib.h>
#include <string.h>

#include "driver.h"

enum { NPROPERTIES = 5, SLOTS = 1 << 21 };

static uint64_t met[SLOTS]; /* hashes of (kernel, two properties), 0: free */
static long count;

static uint64_t hash(uint64_t from, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    uint64_t h = from ^ 14695981039346656037u;
    for (size_t i = 0; i < bytes; i++) h = (h ^ at[i]) * 1099511628211u;
    return h ^ h >> 29;
}

/* Where the hash is, or belongs. */
static uint64_t *slot_of(uint64_t key)
{
    uint64_t at = key % SLOTS;
    while (met[at] && met[at] != key) at = (at + 1) % SLOTS;
    return &met[at];
}

long new_pairs(const gop_call *call, layout how, const char *where, int row, int meet)
{
    const gop_array *first = &call->in[0];
    /* Kernels have nothing to do on empty outputs: what they met there is yet to be met. */
    const uint64_t kernel[] = {call->op, (uint64_t)row, hash(6, where, strlen(where)),
                               gop_array_size(&call->out[0]) == 0};
    uint64_t h[NPROPERTIES], tuned = 0;
    for (int t = 0; t < call->ntunables; t++)
        tuned = hash(tuned, &call->tunables[t].value, sizeof call->tunables[t].value);
    h[0] = hash(0, &first->dtype, sizeof first->dtype);
    h[1] = hash(1, &how, sizeof how);
    h[2] = hash(2, first->shape, (size_t)first->ndim * sizeof *first->shape);
    h[3] = hash(3, &call->params, sizeof call->params);
    h[4] = hash(4, &tuned, sizeof tuned);
    long found = 0;
    for (int i = 0; i < NPROPERTIES; i++)
        for (int j = 0; j < i; j++) {
            const uint64_t pair[] = {h[i], h[j]};
            const uint64_t key = hash(hash(5, kernel, sizeof kernel), pair, sizeof pair) | 1;
            uint64_t *slot = slot_of(key);
            if (*slot == key) continue;
            found++;
            if (!meet) continue;
            if (++count > SLOTS / 2) abort();
            *slot = key;
        }
    return found;
}

long pairs_met(void)
{
    return count;
}
