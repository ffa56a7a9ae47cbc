/*
 * driver.c - runs every kernel of every ladder on awkward shapes and layouts, without Python.
 *
 *     driver [--cuda <library> | --sim <library>] [--every <n>] [--share <k> <n>] [--pairs]
 *            [--canary] [op ...]
 *
 * Built with AddressSanitizer and UBSan over core and the CPU kernels; run under
 * compute-sanitizer over the CUDA kernels. It ends with 1 if a kernel fails, if two conforming
 * kernels differ, or if a kernel was never run for one of its dtypes: a sanitizer's silence
 * about it would mean nothing. With --pairs a kernel is left out where a call brings it no two
 * properties that it has not met together. With --canary it reads one byte too many on purpose:
 * a sanitizer that keeps silent there is not at work.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/runtime/levels.h"
#include "driver.h"

typedef struct block {
    char *memory;
    size_t bytes;
    layout how;
    void *device; /* a copy of it, or NULL */
} block;

static block blocks[64]; /* of the call being made */
static int nblocks;
static const gop_backend *gpu; /* cuda or sim; NULL: the CPU's kernels */
static gop_ctx *gpu_ctx;
static int failures;
static long every = 1, calls; /* one call in `every` is made: for slow tools */
static int share, shares = 1; /* of the dtypes, every `shares`-th, from number `share` on */
static int pairs;             /* a row runs where it meets something new */
static layout how_in;         /* how the first operand of the call lies in memory */
static long runs, refusals;
static unsigned char ran[GOP_NOPS][64][GOP_NDTYPES]; /* by row */

static void *take(size_t bytes)
{
    void *memory = calloc(bytes ? bytes : 1, 1);
    if (!memory || nblocks == 64) abort();
    blocks[nblocks++] = (block){memory, bytes, PLAIN, NULL};
    return memory;
}

static void free_blocks(void)
{
    while (nblocks > 0) {
        const block *last = &blocks[--nblocks];
        if (last->device) gpu->release(gpu_ctx, last->device);
        free(last->memory);
    }
}

gop_array make_array(gop_dtype dtype, layout how, int ndim, const int64_t *shape)
{
    gop_array array;
    memset(&array, 0, sizeof array);
    array.dtype = dtype;
    array.ndim = ndim;
    const int64_t item = gop_dtype_size(dtype);
    const int64_t step = how == STEPPED ? 3 * item : how == UNALIGNED ? item + 1 : item;
    int64_t stride = step, size = 1;
    for (int d = 0; d < ndim; d++) array.shape[d] = shape[d];
    for (int k = 0; k < ndim; k++) {
        const int d = how == TURNED ? k : ndim - 1 - k;
        array.strides[d] = stride;
        stride *= shape[d] ? shape[d] : 1;
        size *= shape[d];
    }
    const int64_t first = how == UNALIGNED ? 1 : how == LATE ? item : 0;
    char *memory = take((size_t)(size ? first + (size - 1) * step + item : 0));
    blocks[nblocks - 1].how = how;
    array.data = memory + (size ? first : 0);
    for (int d = 0; d < ndim && size > 0 && how == NEGATIVE; d++) {
        array.data = (char *)array.data + (shape[d] - 1) * array.strides[d];
        array.strides[d] = -array.strides[d];
    }
    const int whole = strchr("iu", gop_dtype_kind(dtype)) != NULL;
    for (int64_t i = 0; i < size; i++)
        set_item(&array, i, whole ? 100 * (random_value() + 1) : random_value());
    return array;
}

gop_call new_call(gop_op op)
{
    gop_call call;
    memset(&call, 0, sizeof call);
    call.op = op;
    call.nout = 1;
    return call;
}

void give(gop_call *call, gop_array operand)
{
    call->in[call->nin++] = operand;
}

/* ---- running ---- */

static void failed(const gop_call *call, const char *where, const char *kernel)
{
    failures++;
    printf("FAILED %s %s %s %s: %s\n", gop_descriptor_of(call->op)->name, where, kernel,
           gop_dtype_name(call->in[0].dtype), gop_error_get()->message);
}

static block *block_of(const gop_array *array)
{
    const char *data = array->data;
    block *from = blocks;
    while (data < from->memory || data > from->memory + from->bytes)
        from++; /* the allocator leaves room between blocks, so that only one can match */
    return from;
}

/* A block's bytes, on the host and on the device. */
static void bytes_of(const block *b, gop_array *host, gop_array *device)
{
    memset(host, 0, sizeof *host);
    host->dtype = GOP_UINT8;
    host->ndim = 1;
    host->shape[0] = (int64_t)b->bytes;
    host->strides[0] = 1;
    host->data = b->memory;
    *device = *host;
    device->where = gpu_ctx->device;
    device->data = b->device;
}

static gop_status upload(const block *b)
{
    gop_array host, device;
    bytes_of(b, &host, &device);
    GOP_TRY(gpu->upload(gpu_ctx, &device, &host));
    return gpu->sync(gpu_ctx);
}

static gop_status download(const block *b)
{
    gop_array host, device;
    bytes_of(b, &host, &device);
    GOP_TRY(gpu->download(gpu_ctx, &host, &device));
    return gpu->sync(gpu_ctx);
}

/* The same array in the device's memory, gaps and all; what is not aligned stays where it is.
 */
static gop_status to_device(gop_array *array)
{
    block *from = block_of(array);
    if (!gop_array_is_item_aligned(array) || from->bytes == 0) return GOP_OK;
    GOP_TRY(gpu->alloc(gpu_ctx, from->bytes, &from->device));
    array->where = gpu_ctx->device;
    array->data = (char *)from->device + ((char *)array->data - from->memory);
    return upload(from);
}

/* Every other call takes the kernel's tunables at their defaults, the others at each value in
 * turn. */
static void tune(gop_call *call, const gop_row *row, long turn)
{
    call->ntunables = 0;
    for (int t = 0; turn % 2 && t < GOP_MAX_TUNABLES && row->tunables[t].name; t++) {
        const gop_tunable *tunable = &row->tunables[t];
        const int64_t value = tunable->values[(turn / 2 + t) % tunable->count];
        call->tunables[call->ntunables++] = (gop_tunable_value){tunable->name, value};
    }
}

/* Runs one row into memory that no other has left its answer in. Yardsticks give no answer:
 * they can only be timed. */
static gop_status run_row(const gop_call *call, const gop_row *row, const gop_backend *backend,
                          const block *out)
{
    gop_run_options options = {.kernel = row->name};
    gop_times times;
    gop_explanation said;
    int none = 0; /* of the kernels that could be chosen */
    gop_backend_find(backend->name, &options.device.backend);
    if (row->role != GOP_YARDSTICK)
        GOP_TRY(gop_explain(call, &options, NULL, &said, NULL, &none));
    memset(out->memory, 0x55, out->bytes);
    if (out->device) GOP_TRY(upload(out));
    if (row->role == GOP_YARDSTICK) return gop_time(call, &options, 0, 1, 0, &times, &said);
    GOP_TRY(gop_run(call, &options));
    return out->device ? download(out) : GOP_OK;
}

/* Whether a row's bits should be those of the others. */
static int keeps_bits(const gop_row *row)
{
    return row->role == GOP_CONFORMING || row->role == GOP_CANDIDATE;
}

/* Runs one row, if its kernel takes the call; 1 if it gave an answer to compare with others. */
static int try_row(gop_call *call, const gop_backend *backend, const char *where, int r,
                   const block *out, void **expected)
{
    const gop_row *row = backend->ladder(call->op)->rows[r];
    const gop_status status = run_row(call, row, backend, out);
    runs++;
    refusals += status == GOP_REFUSED;
    if (status == GOP_REFUSED) return 0;
    new_pairs(call, how_in, where, r, 1);
    ran[call->op][r][call->in[0].dtype] |= out->bytes > 0;
    if (status != GOP_OK) failed(call, where, row->name);
    if (status != GOP_OK || !keeps_bits(row) || !expected) return 0;
    if (!*expected) memcpy(*expected = take(out->bytes), out->memory, out->bytes);
    else if (!same_items(call->out[0].dtype, *expected, out->memory, out->bytes)) {
        gop_fail(GOP_INTERNAL, "its bits differ from the first conforming kernel's");
        failed(call, where, row->name);
    }
    return 1;
}

/* How many answers were compared; where they are the first, `alone` is the row of one. */
static int run_ladder(gop_call *call, const gop_backend *backend, const char *where,
                      const block *out, void **expected, int *alone)
{
    const gop_ladder *ladder = backend->ladder(call->op);
    int answers = 0;
    for (int r = 0; r < ladder->count; r++) {
        tune(call, ladder->rows[r], calls / every);
        if (pairs && !new_pairs(call, how_in, where, r, 0)) continue;
        if (!try_row(call, backend, where, r, out, expected)) continue;
        answers++;
        *alone = r;
    }
    return answers;
}

/* An answer that nothing was compared with, as no other row met anything new: with the last. */
static void run_another(gop_call *call, const gop_backend *backend, const char *where,
                        int alone, const block *out, void **expected)
{
    const gop_ladder *ladder = backend->ladder(call->op);
    for (int r = ladder->count - 1; r >= 0; r--) {
        if (r == alone || !keeps_bits(ladder->rows[r])) continue;
        tune(call, ladder->rows[r], calls / every);
        if (try_row(call, backend, where, r, out, expected)) return;
    }
}

static int is_of_share(gop_dtype dtype)
{
    return (int)dtype % shares == share;
}

void run_call(gop_call *call, int same_bits)
{
    void *bits = NULL, **expected = same_bits ? &bits : NULL;
    const gop_backend *backend = gpu ? gpu : &gop_cpu_backend;
    const char *where = backend->name;
    int answers = 0, alone = 0;
    const long number = calls++;
    if (number % every != 0 || !is_of_share(call->in[0].dtype)) {
        free_blocks();
        return;
    }
    how_in = block_of(&call->in[0])->how;
    gop_status status = gop_infer(call);
    for (int o = 0; o < call->nout && status == GOP_OK; o++) {
        call->out[o] =
            make_array(call->out[o].dtype, PLAIN, call->out[o].ndim, call->out[o].shape);
    }
    const block *out = status == GOP_OK ? block_of(&call->out[0]) : NULL;
    /* Operands of host memory reach a GPU densely packed, so half the calls bring their own;
     * fresh memory of a GPU may hold the last answer, so all bring theirs for the output. */
    const int own_memory = gpu && gpu->facts & GOP_OWN_MEMORY;
    for (int i = 0; own_memory && number / every / 2 % 2 && i < call->nin; i++)
        if (status == GOP_OK) status = to_device(&call->in[i]);
    for (int o = 0; own_memory && o < call->nout; o++)
        if (status == GOP_OK) status = to_device(&call->out[o]);
    if (status != GOP_OK) failed(call, "before a kernel", "");
    else if (gpu) answers = run_ladder(call, gpu, where, out, expected, &alone);
    for (int level = 0; level < GOP_NLEVELS && !gpu && status == GOP_OK; level++) {
        if (!gop_level_supported((gop_level)level)) continue;
        if (gop_level_set(gop_level_names[level]) != GOP_OK) abort();
        where = gop_level_names[level];
        answers += run_ladder(call, backend, where, out, expected, &alone);
    }
    if (pairs && answers == 1) run_another(call, backend, where, alone, out, expected);
    free_blocks();
}

/* Every kernel of an op must have run for each of its dtypes; says how many did. */
static int count_kernels(gop_op op)
{
    const gop_ladder *ladder = (gpu ? gpu : &gop_cpu_backend)->ladder(op);
    int count = 0;
    for (int r = 0; r < ladder->count; r++)
        for (int dtype = 0; dtype < GOP_NDTYPES; dtype++) {
            if (!gop_row_takes(ladder->rows[r], (gop_dtype)dtype)) continue;
            if (!is_of_share((gop_dtype)dtype)) continue;
            count++;
            if (ran[op][r][dtype]) continue;
            failures++;
            printf("FAILED %s %s %s: no call ran it\n", gop_descriptor_of(op)->name,
                   ladder->rows[r]->name, gop_dtype_name((gop_dtype)dtype));
        }
    return count;
}

/* Reads one byte after an allocation; volatile, so that it is really read. */
static int canary(void)
{
    const volatile char *memory = gop_alloc(64);
    return memory[64];
}

static int open_gpu(const char *name, const char *library)
{
    gop_backend_id id;
    int devices = 0;
    if (gop_backend_load(name, library) == GOP_OK && gop_backend_find(name, &id) &&
        gop_backend_get(id, &gpu) == GOP_OK && gpu->count(&devices) == GOP_OK &&
        gpu->context(0, &gpu_ctx) == GOP_OK)
        return 1;
    printf("%s\n", gop_error_get()->message);
    return 0;
}

int main(int argc, char **argv)
{
    int wanted[GOP_NOPS] = {0}, all = 1, kernels = 0;
    static void (*const calls_of[])(void) = {
#define GOP_OP(name, stem) calls_of_##name,
#include "ops.def"
#undef GOP_OP
    };
    for (int i = 1; i < argc; i++) {
        const int last = i + 1 == argc;
        if (strcmp(argv[i], "--canary") == 0) return canary() == 77;
        if (strcmp(argv[i], "--cuda") == 0 && !last) {
            if (!open_gpu("cuda", argv[++i])) return 1;
        } else if (strcmp(argv[i], "--sim") == 0 && !last) {
            if (!open_gpu("sim", argv[++i])) return 1;
        } else if (strcmp(argv[i], "--every") == 0 && !last) every = atol(argv[++i]);
        else if (strcmp(argv[i], "--share") == 0 && i + 2 < argc) {
            share = atoi(argv[++i]);
            shares = atoi(argv[++i]);
            if (shares < 1) return 1;
        } else if (strcmp(argv[i], "--pairs") == 0) pairs = 1;
        else {
            all = 0;
            for (int op = 0; op < GOP_NOPS; op++) {
                const gop_descriptor *known = gop_descriptor_of((gop_op)op);
                wanted[op] |=
                    strcmp(argv[i], known->name) == 0 || strcmp(argv[i], known->stem) == 0;
            }
        }
    }
    gop_threads_set(2);
    for (int op = 0; op < GOP_NOPS; op++) {
        if (!all && !wanted[op]) continue;
        calls_of[op]();
        kernels += count_kernels((gop_op)op);
    }
    printf("driver: %d kernels and dtypes, %ld pairs, %ld runs, %ld refused, %d failed\n",
           kernels, pairs_met(), runs, refusals, failures);
    return failures > 0 || kernels == 0;
}
