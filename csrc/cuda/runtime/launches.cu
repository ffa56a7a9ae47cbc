/*
 * launches.cu - launching a kernel; one that comes again and again is launched as a graph.
 *
 * For each launch the driver works out anew what a kernel needs, and that takes it longer than
 * a small kernel runs. In a graph of one node that is done: to give it other arguments and to
 * launch it takes about half as long, and less where the arguments are those of the last time.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda/runtime/runtime.h"

enum {
    OFTEN = 8, /* launches before a graph is made, which takes as long as some of them */
    NEVER = -1,
    MOST_BYTES = 4096,   /* of arguments */
    UNASKED = 16 * 1024, /* of shared memory: a kernel's own arrays count too, up to 48 KiB */
};

/* A kernel that this context launches, and its graph once there is one. */
struct gop_cuda_repeated {
    const void *function;
    int waits; /* for the kernel before, by itself: 1 or -1 once known */
    int times; /* that it was launched, or NEVER: no graph for it */
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    cudaGraphNode_t node;
    dim3 grid, block; /* as the graph has them, the arguments too */
    size_t shared;
    char arguments[MOST_BYTES];
};

/* GPUOPS_CUDA_GRAPHS=0: every launch by itself, for tools that watch launches. */
static int graphs_wanted(void)
{
    static int wanted = -1;
    if (wanted < 0) {
        const char *wish = getenv("GPUOPS_CUDA_GRAPHS");
        wanted = !wish || strcmp(wish, "0") != 0;
    }
    return wanted;
}

static void forget(gop_cuda_repeated *r)
{
    if (r->ready) cudaGraphExecDestroy(r->ready); /* what is under way ends first */
    if (r->graph) cudaGraphDestroy(r->graph);
    *r = {};
}

/* The context's record of a kernel, or NULL. Kernels that share a place drive each other out.
 */
static gop_cuda_repeated *record_of(gop_cuda_thread *t, const void *function)
{
    gop_cuda_repeated **place = &t->repeated[(uintptr_t)function / 16 % GOP_CUDA_REPEATED];
    if (!*place) {
        *place = (gop_cuda_repeated *)gop_services->alloc(sizeof **place);
        if (!*place) return NULL;
        **place = {};
    }
    if ((*place)->function != function) forget(*place);
    (*place)->function = function;
    return *place;
}

/* Takes note of how the kernel is launched; 1 where that is as the last time. */
static int note(gop_cuda_repeated *r, const gop_cuda_kernel *k)
{
    const dim3 is[] = {k->grid, k->block}, was[] = {r->grid, r->block};
    int same = memcmp(is, was, sizeof is) == 0 && r->shared == k->shared;
    char *at = r->arguments;
    for (int i = 0; i < k->count; at += k->bytes[i++]) {
        if (memcmp(at, k->arguments[i], k->bytes[i]) == 0) continue;
        memcpy(at, k->arguments[i], k->bytes[i]);
        same = 0;
    }
    r->grid = k->grid;
    r->block = k->block;
    r->shared = k->shared;
    return same;
}

static cudaError_t make_graph(gop_cuda_repeated *r, const cudaKernelNodeParams *node)
{
    cudaError_t code = cudaGraphCreate(&r->graph, 0);
    if (code == cudaSuccess) code = cudaGraphAddKernelNode(&r->node, r->graph, NULL, 0, node);
    return code == cudaSuccess ? cudaGraphInstantiate(&r->ready, r->graph, 0) : code;
}

/* 1 if the kernel was launched as a graph. Where none can be made it is launched by itself. */
static int launch_repeated(gop_cuda_thread *t, const gop_cuda_kernel *k)
{
    size_t bytes = 0;
    for (int i = 0; i < k->count; i++) bytes += k->bytes[i];
    if (bytes > MOST_BYTES || t->cuda.base.timed || !graphs_wanted()) return 0;
    gop_cuda_repeated *r = record_of(t, k->function);
    if (!r || r->times == NEVER || r->times++ < OFTEN) return 0;
    r->times = OFTEN;
    cudaKernelNodeParams node = {};
    node.func = (void *)(uintptr_t)k->function;
    node.gridDim = k->grid;
    node.blockDim = k->block;
    node.sharedMemBytes = (unsigned)k->shared;
    node.kernelParams = k->arguments;
    const int same = note(r, k);
    cudaError_t code = cudaSuccess;
    if (!r->ready) code = make_graph(r, &node);
    else if (!same) code = cudaGraphExecKernelNodeSetParams(r->ready, r->node, &node);
    if (code == cudaSuccess) code = cudaGraphLaunch(r->ready, t->cuda.stream);
    if (code == cudaSuccess) return 1;
    cudaGetLastError();
    r->times = NEVER;
    return 0;
}

/* Whether the kernel's code has its waiting in it: no older architecture's has. */
static int waits(gop_cuda_thread *t, const gop_cuda_kernel *k)
{
    gop_cuda_repeated *r = record_of(t, k->function);
    if (!r) return 0;
    if (!r->waits) {
        cudaFuncAttributes code;
        r->waits = -1;
        if (cudaFuncGetAttributes(&code, k->function) != cudaSuccess) cudaGetLastError();
        else if (code.ptxVersion >= 90) r->waits = 1;
    }
    return r->waits > 0;
}

/* As a launch by itself: a graph of one kernel has none before it. */
static cudaError_t launch_with_attribute(gop_cuda_thread *t, const gop_cuda_kernel *k)
{
    cudaLaunchAttribute attribute;
    if (k->how == GOP_CUDA_TOGETHER) {
        attribute.id = cudaLaunchAttributeCooperative;
        attribute.val.cooperative = 1;
    } else {
        attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute.val.programmaticStreamSerializationAllowed = 1;
    }
    cudaLaunchConfig_t how = {};
    how.gridDim = k->grid;
    how.blockDim = k->block;
    how.dynamicSmemBytes = k->shared;
    how.stream = t->cuda.stream;
    how.attrs = &attribute;
    how.numAttrs = 1;
    return cudaLaunchKernelExC(&how, k->function, k->arguments);
}

gop_status gop_cuda_enqueue(gop_ctx *ctx, const gop_cuda_kernel *k)
{
    gop_cuda_thread *t = thread_of(ctx);
    gop_status status = GOP_OK;
    int previous;
    GOP_TRY(gop_cuda_enter(ctx->device.ordinal, &previous));
    if (k->shared > UNASKED) status = gop_cuda_allow_shared(k->function, k->shared);
    if (status == GOP_OK) {
        cudaError_t code = cudaSuccess;
        if (k->how == GOP_CUDA_TOGETHER || (k->how == GOP_CUDA_EARLY && waits(t, k)))
            code = launch_with_attribute(t, k);
        else if (!launch_repeated(t, k))
            code = cudaLaunchKernel(k->function, k->grid, k->block, k->arguments, k->shared,
                                    t->cuda.stream);
        status = gop_cuda_launched(k->name, code);
    }
    gop_cuda_leave(ctx->device.ordinal, previous);
    return status;
}

gop_status gop_cuda_at_once(const gop_ctx *ctx, const void *kernel, int threads, size_t shared,
                            int64_t *blocks)
{
    int previous, each = 0, can = 0;
    *blocks = 0;
    GOP_TRY(gop_cuda_enter(ctx->device.ordinal, &previous));
    gop_status status = GOP_OK;
    if (shared > UNASKED) status = gop_cuda_allow_shared(kernel, shared);
    if (status == GOP_OK)
        status = gop_cuda_check(
            cudaDeviceGetAttribute(&can, cudaDevAttrCooperativeLaunch, ctx->device.ordinal),
            "asking whether blocks can wait for each other");
    if (status == GOP_OK)
        status = gop_cuda_check(
            cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, threads, shared),
            "asking how many blocks of a kernel run at once");
    gop_cuda_leave(ctx->device.ordinal, previous);
    if (can) *blocks = (int64_t)each * ctx->info.processors;
    return status;
}
