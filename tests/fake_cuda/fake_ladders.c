/*
 * fake_ladders.c - kernels in plain C for the fake CUDA runtime: a transpose that is done at
 * once, and an add of float32 that is launched and done late.
 */
#include <cuda_runtime_api.h>
#include <string.h>

#include "core/choice.h"
#include "fake_cudart.h"

int fake_launches; /* of kernels of the ladders, so far */
int fake_early;    /* whether add waits by itself for the kernel before; 2: if it is long */
int fake_cluster;  /* blocks of a cluster of add's, or 0 */
int fake_followed; /* 1 or 2: add comes after another kernel of its step, one of two */

struct fake_ctx { /* as gop_cuda_ctx begins in cuda/launch.h, which is C++ */
    gop_ctx base;
    cudaStream_t stream;
};

cudaStream_t fake_stream_of(const gop_ctx *ctx)
{
    return ((const struct fake_ctx *)ctx)->stream;
}

static gop_status transpose_plain(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)step;
    fake_launches++;
    cudaStreamSynchronize(fake_stream_of(ctx)); /* uploads come first */
    static const unsigned char sizes[] = {
#define X(enumerator, word, bytes) bytes,
        GOP_DTYPES(X)
#undef X
    };
    const gop_permutation *p = &task->geometry.permutation;
    const int64_t item = sizes[task->in[0].dtype];
    for (int64_t i = 0; i < p->size; i++) {
        const char *from = task->in[0].data;
        char *to = task->out[0].data;
        int64_t rest = i;
        for (int d = p->rank - 1; d >= 0; d--) {
            from += rest % p->extent[d] * p->in[d] * item;
            to += rest % p->extent[d] * p->out[d] * item;
            rest /= p->extent[d];
        }
        memcpy(to, from, (size_t)item);
    }
    return GOP_OK;
}

static gop_status some_scratch(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    (void)ctx, (void)task;
    plan->scratch = 100;
    return GOP_OK;
}

#define F transpose_plain
static const gop_row naive = {
    .name = "naive",
    .note = "the fake runtime's only kernel",
    .launch = {F, F, F, F, F, F, F, F, F, F, F, F, F, F, F},
    .plan = some_scratch,
};
static const gop_row *const rows[] = {&naive};
static const gop_candidate candidates[] = {{.row = &naive}};
static const gop_choice choice = {1, candidates, NULL};
const gop_ladder gop_cuda_transpose = {1, rows, &choice};

static void run_add(void **arguments)
{
    float *out = *(float **)arguments[0];
    const float *a = *(const float **)arguments[1], *b = *(const float **)arguments[2];
    const gop_elementwise *e = arguments[3];
    for (int64_t i = 0; i < e->size; i++) {
        int64_t rest = i, at[3] = {0};
        for (int d = e->rank - 1; d >= 0; d--) {
            for (int o = 0; o < 3; o++) at[o] += rest % e->extent[d] * e->stride[o][d];
            rest /= e->extent[d];
        }
        out[at[0]] = a[at[1]] + b[at[2]];
    }
}

/* What add overwrites: -1 or -2. */
static void run_spoil(void **arguments)
{
    float *out = *(float **)arguments[0];
    const float by = *(const float *)arguments[1];
    for (int64_t i = 0; i < *(const int64_t *)arguments[2]; i++) out[i] = by;
}

gop_status gop_cuda_enqueue(gop_ctx *ctx, const struct gop_cuda_kernel *kernel);
int gop_cuda_first(const gop_ctx *ctx, const gop_task *task, int is_followed);

static gop_status spoil(gop_ctx *ctx, short how, float *out, float by, int64_t size)
{
    static const size_t bytes[] = {8, 4, 8};
    static const fake_kernel kernels[2] = {{"spoil1", run_spoil, 3, {8, 4, 8}},
                                           {"spoil2", run_spoil, 3, {8, 4, 8}}};
    void *arguments[] = {&out, &by, &size};
    const struct gop_cuda_kernel k = {.name = "spoil",
                                      .function = &kernels[fake_followed - 1],
                                      .grid = {1, 1, 1},
                                      .block = {32, 1, 1},
                                      .count = 3,
                                      .arguments = arguments,
                                      .bytes = bytes,
                                      .how = how};
    return gop_cuda_enqueue(ctx, &k);
}

static gop_status add_plain(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    static const size_t bytes[] = {8, 8, 8, sizeof(gop_elementwise)};
    static const fake_kernel add = {"add", run_add, 4, {8, 8, 8, sizeof(gop_elementwise)}};
    (void)step;
    fake_launches++;
    /* What the road leaves unset behind the last axis stays here: it differs from call to call,
     * and a graph would be given the same arguments again. */
    const gop_elementwise *all = &task->geometry.elementwise;
    gop_elementwise e = {.rank = all->rank, .operands = all->operands, .size = all->size};
    for (int d = 0; d < e.rank; d++) {
        e.extent[d] = all->extent[d];
        for (int o = 0; o < 3; o++) e.stride[o][d] = all->stride[o][d];
    }
    void *out = task->out[0].data, *a = task->in[0].data, *b = task->in[1].data;
    void *arguments[] = {&out, &a, &b, &e};
    enum { EARLY = 1, FOLLOWED = 3 }; /* of gop_cuda_how */
    const int long_early = fake_early == 2;
    const int first = long_early      ? gop_cuda_first(ctx, task, fake_followed)
                      : fake_followed ? FOLLOWED
                                      : fake_early;
    if (fake_followed) GOP_TRY(spoil(ctx, (short)first, out, -(float)fake_followed, e.size));
    const struct gop_cuda_kernel k = {.name = "add_plain",
                                      .function = &add,
                                      .grid = {4, 1, 1},
                                      .block = {32, 1, 1},
                                      .count = 4,
                                      .arguments = arguments,
                                      .bytes = bytes,
                                      .how = (short)(!fake_followed ? first
                                                     : long_early   ? EARLY
                                                                    : fake_early),
                                      .cluster = (short)fake_cluster};
    return gop_cuda_enqueue(ctx, &k);
}

static const gop_row add_row = {
    .name = "naive", .note = "launched", .launch = {[GOP_FLOAT32] = add_plain}};
static const gop_row *const add_rows[] = {&add_row};
static const gop_candidate add_candidates[] = {{.row = &add_row}};
static const gop_choice add_choice = {1, add_candidates, NULL};
const gop_ladder gop_cuda_add = {1, add_rows, &add_choice};
const gop_ladder gop_cuda_multiply_add, gop_cuda_fma, gop_cuda_reduce;
const gop_ladder gop_cuda_matmul, gop_cuda_jacobi_step, gop_cuda_jacobi, gop_cuda_rdf;

/* Says nothing: copies are looked at. */
gop_status gop_jacobi_step_look(gop_ctx *ctx, const gop_call *call, int *is_well,
                                int64_t *longest);
gop_status gop_jacobi_step_look(gop_ctx *ctx, const gop_call *call, int *is_well,
                                int64_t *longest)
{
    (void)ctx, (void)call, (void)is_well, (void)longest;
    return GOP_OK;
}
