/*
 * driver.c - runs every kernel of every ladder on awkward shapes and layouts, without Python.
 *
 *     driver [--cuda <library>] [--every <n>] [--canary] [op]
 *
 * Built with AddressSanitizer and UBSan over core and the CPU kernels; run under
 * compute-sanitizer over the CUDA kernels. It ends with 1 if a kernel fails or two conforming
 * kernels differ. With --canary it reads one byte too many on purpose: a sanitizer that keeps
 * silent there is not at work.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/levels.h"
#include "driver.h"

static void *blocks[64]; /* of the call being made */
static int nblocks;
static int has_cuda, failures;
static long every = 1, calls; /* one call in `every` is made: for slow tools */
static long runs, refusals;

static void *take(size_t bytes)
{
    void *memory = calloc(bytes ? bytes : 1, 1);
    if (!memory || nblocks == 64) abort();
    blocks[nblocks++] = memory;
    return memory;
}

static void free_blocks(void)
{
    while (nblocks > 0) free(blocks[--nblocks]);
}

double random_value(void)
{
    static uint64_t state = 20260101;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)state / 9223372036854775808.0;
}

/* ---- arrays ---- */

static char *item_at(const gop_array *array, int64_t i)
{
    char *at = array->data;
    for (int d = array->ndim - 1; d >= 0; d--) {
        at += i % array->shape[d] * array->strides[d];
        i /= array->shape[d];
    }
    return at;
}

static uint16_t to_f16(double value) /* small values, cut to 10 bits: enough for data */
{
    const float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    const int exponent = (int)(bits >> 23 & 255) - 112;
    const uint32_t sign = bits >> 16 & 0x8000;
    if (exponent <= 0) return (uint16_t)sign;
    return (uint16_t)(sign | (uint32_t)exponent << 10 | (bits >> 13 & 1023));
}

void set_item(const gop_array *array, int64_t i, double value)
{
    char *at = item_at(array, i);
    const size_t size = (size_t)gop_dtype_size(array->dtype);
    const float single[2] = {(float)value, (float)(1 - value)};
    const double wide[2] = {value, 1 - value};
    const int64_t whole = (int64_t)value;
    const uint16_t half = to_f16(value);
    uint32_t bits;
    memcpy(&bits, single, 4);
    const uint16_t brain = (uint16_t)(bits >> 16);
    const char truth = value > 0;
    switch (array->dtype) {
    case GOP_BOOL:
        *at = truth;
        break;
    case GOP_FLOAT16:
        memcpy(at, &half, 2);
        break;
    case GOP_BFLOAT16:
        memcpy(at, &brain, 2);
        break;
    case GOP_FLOAT32:
    case GOP_COMPLEX64:
        memcpy(at, single, size);
        break;
    case GOP_FLOAT64:
    case GOP_COMPLEX128:
        memcpy(at, wide, size);
        break;
    default:
        memcpy(at, &whole, size); /* little end first: the low bytes are the value */
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
    const int64_t first = how == UNALIGNED ? 1 : 0;
    char *memory = take((size_t)(size ? first + (size - 1) * step + item : 0));
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

static void run_ladder(gop_call *call, gop_backend_id id, const char *where, int same_bits,
                       void **expected)
{
    const gop_backend *backend;
    if (gop_backend_get(id, &backend) != GOP_OK) return;
    const gop_ladder *ladder = backend->ladder(call->op);
    const gop_array *out = &call->out[0];
    const size_t bytes = (size_t)gop_array_bytes(out);
    for (int r = 0; r < ladder->count; r++) {
        const gop_row *row = &ladder->rows[r];
        if (row->role == GOP_YARDSTICK) continue;
        memset(out->data, 0x55, bytes);
        const gop_run_options options = {{id, 0}, row->name};
        const gop_status status = gop_run(call, &options);
        runs++;
        refusals += status == GOP_REFUSED;
        if (status == GOP_REFUSED) continue;
        if (status != GOP_OK) failed(call, where, row->name);
        else if (row->role == GOP_CONFORMING && same_bits) {
            if (!*expected) memcpy(*expected = take(bytes), out->data, bytes);
            else if (memcmp(*expected, out->data, bytes) != 0) {
                gop_fail(GOP_INTERNAL, "its bits differ from the first conforming kernel's");
                failed(call, where, row->name);
            }
        }
    }
}

void run_call(gop_call *call, int same_bits)
{
    void *expected = NULL;
    if (calls++ % every != 0) {
        free_blocks();
        return;
    }
    if (gop_infer(call) != GOP_OK) {
        failed(call, "infer", "");
        free_blocks();
        return;
    }
    for (int o = 0; o < call->nout; o++) {
        call->out[o] =
            make_array(call->out[o].dtype, PLAIN, call->out[o].ndim, call->out[o].shape);
    }
    if (has_cuda) run_ladder(call, GOP_CUDA, "cuda", same_bits, &expected);
    for (int level = 0; level < GOP_NLEVELS && !has_cuda; level++) {
        if (!gop_level_supported((gop_level)level)) continue;
        if (gop_level_set(gop_level_names[level]) != GOP_OK) abort();
        run_ladder(call, GOP_CPU, gop_level_names[level], same_bits, &expected);
    }
    free_blocks();
}

/* Reads one byte after an allocation; volatile, so that it is really read. */
static int canary(void)
{
    const volatile char *memory = gop_alloc(64);
    return memory[64];
}

int main(int argc, char **argv)
{
    const char *only = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--canary") == 0) return canary() == 77;
        if (strcmp(argv[i], "--cuda") == 0 && i + 1 < argc) {
            int devices = 0;
            const gop_backend *cuda;
            if (gop_backend_load(GOP_CUDA, argv[++i]) != GOP_OK ||
                gop_backend_get(GOP_CUDA, &cuda) != GOP_OK || cuda->count(&devices) != GOP_OK) {
                printf("%s\n", gop_error_get()->message);
                return 1;
            }
            has_cuda = 1;
        } else if (strcmp(argv[i], "--every") == 0 && i + 1 < argc) every = atol(argv[++i]);
        else only = argv[i];
    }
    gop_threads_set(2);
#define GOP_OP(name, stem)                                                                     \
    if (!only || strcmp(only, #name) == 0 || strcmp(only, #stem) == 0) calls_of_##name();
#include "ops.def"
#undef GOP_OP
    printf("driver: %ld runs, %ld refused, %d failed\n", runs, refusals, failures);
    return failures > 0 || runs == refusals;
}
