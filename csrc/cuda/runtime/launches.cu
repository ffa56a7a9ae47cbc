/*
 * launches.cu - launches kernels; launches that repeat become a graph.
 *
 * For each launch the driver works out again what a kernel needs, which costs more time than a
 * small kernel runs. A graph has that done: to set its kernels' arguments and to launch it
 * costs about half of one launch, and less if the arguments are unchanged. A kernel that
 * another follows in the same step waits for it here, so that both become one graph.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda/runtime/runtime.h"

enum {
    OFTEN = 8, /* launches before a graph is made, which costs as much as several of them */
    NEVER = -1,
    MOST_BYTES = 8192, /* of arguments, of which a kernel has 4096 at most */
    CHAIN = 2,         /* kernels of a graph */
    MOST_KEPT = 16,    /* arguments of a kernel that waits */
    LONG =
        40 << 20, /* bytes of operands that take the GPU longer than a launch takes the host */
    LONG_ADD = 64 << 20, /* the same of add, which finds half of them in the cache */
    UNASKED = 16 * 1024, /* of shared memory: a kernel's own arrays count too, up to 48 KiB */
};

/* A kernel of a graph, as the graph has it; the arguments follow each other. */
struct graph_node {
    cudaGraphNode_t node;
    dim3 grid, block;
    int cluster;
    size_t shared;
};

/* Kernels that this context launches one after the other, and their graph once there is one. */
struct gop_cuda_repeated {
    const void *before, *function; /* NULL and the one, or both */
    int waits; /* the last, for the kernel before, by itself: 1 or -1 once known */
    int times; /* that they were launched, or NEVER: no graph for them */
    graph_node nodes[CHAIN];
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    char arguments[MOST_BYTES];
};

/* A kernel that waits for the one that follows it: a copy of what the launch was given. */
struct gop_cuda_kept {
    gop_cuda_kernel kernel;
    void *arguments[MOST_KEPT];
    size_t bytes[MOST_KEPT];
    alignas(16) char values[MOST_BYTES];
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

/* The context's record of these kernels, or NULL. Those that share a place drive each other
 * out. */
static gop_cuda_repeated *record_of(gop_cuda_thread *t, const void *before,
                                    const void *function)
{
    gop_cuda_repeated **place =
        &t->repeated[((uintptr_t)function + 3 * (uintptr_t)before) / 16 % GOP_CUDA_REPEATED];
    if (!*place) {
        *place = (gop_cuda_repeated *)gop_services->alloc(sizeof **place);
        if (!*place) return NULL;
        **place = {};
    }
    if ((*place)->before != before || (*place)->function != function) forget(*place);
    (*place)->before = before;
    (*place)->function = function;
    return *place;
}

/* Takes note of how a kernel is launched; 1 where that is as the last time. */
static int note(graph_node *n, char *arguments, const gop_cuda_kernel *k)
{
    const dim3 is[] = {k->grid, k->block}, was[] = {n->grid, n->block};
    int same = memcmp(is, was, sizeof is) == 0 && n->shared == k->shared;
    for (int i = 0; i < k->count; arguments += k->bytes[i++]) {
        if (memcmp(arguments, k->arguments[i], k->bytes[i]) == 0) continue;
        memcpy(arguments, k->arguments[i], k->bytes[i]);
        same = 0;
    }
    n->grid = k->grid;
    n->block = k->block;
    n->cluster = k->cluster;
    n->shared = k->shared;
    return same;
}

static cudaKernelNodeParams node_of(const gop_cuda_kernel *k)
{
    cudaKernelNodeParams node = {};
    node.func = (void *)(uintptr_t)k->function;
    node.gridDim = k->grid;
    node.blockDim = k->block;
    node.sharedMemBytes = (unsigned)k->shared;
    node.kernelParams = k->arguments;
    return node;
}

static cudaLaunchAttributeValue clusters_of(const gop_cuda_kernel *k)
{
    cudaLaunchAttributeValue value = {};
    value.clusterDim.x = (unsigned)k->cluster;
    value.clusterDim.y = value.clusterDim.z = 1;
    return value;
}

static cudaError_t make_graph(gop_cuda_repeated *r, const gop_cuda_kernel *const *kernels,
                              int count, int early)
{
    cudaError_t code = cudaGraphCreate(&r->graph, 0);
    for (int i = 0; i < count && code == cudaSuccess; i++) {
        const cudaKernelNodeParams node = node_of(kernels[i]);
        code = cudaGraphAddKernelNode(&r->nodes[i].node, r->graph, NULL, 0, &node);
        if (code == cudaSuccess && kernels[i]->cluster > 0) {
            const cudaLaunchAttributeValue clusters = clusters_of(kernels[i]);
            code = cudaGraphKernelNodeSetAttribute(
                r->nodes[i].node, cudaLaunchAttributeClusterDimension, &clusters);
        }
        if (i == 0 || code != cudaSuccess) continue;
        cudaGraphEdgeData edge = {};
        if (early) {
            edge.from_port = cudaGraphKernelNodePortProgrammatic;
            edge.type = cudaGraphDependencyTypeProgrammatic;
        }
        code = cudaGraphAddDependencies(r->graph, &r->nodes[i - 1].node, &r->nodes[i].node,
                                        &edge, 1);
    }
    return code == cudaSuccess ? cudaGraphInstantiate(&r->ready, r->graph, 0) : code;
}

/* 1 if the kernels were launched as a graph; `early`: the second waits by itself. Where no
 * graph can be made each is launched by itself. */
static int launch_repeated(gop_cuda_thread *t, const gop_cuda_kernel *const *kernels, int count,
                           int early)
{
    size_t bytes = 0;
    for (int n = 0; n < count; n++)
        for (int i = 0; i < kernels[n]->count; i++) bytes += kernels[n]->bytes[i];
    if (bytes > MOST_BYTES || t->base.timed || !graphs_wanted()) return 0;
    const void *const before = count > 1 ? kernels[0]->function : NULL;
    gop_cuda_repeated *r = record_of(t, before, kernels[count - 1]->function);
    if (!r || r->times == NEVER || r->times++ < OFTEN) return 0;
    r->times = OFTEN;
    cudaError_t code = cudaSuccess;
    char *arguments = r->arguments;
    const int is_ready = r->ready != NULL;
    for (int n = 0; n < count && code == cudaSuccess; n++) {
        const cudaKernelNodeParams node = node_of(kernels[n]);
        if (is_ready && r->nodes[n].cluster != kernels[n]->cluster) return 0; /* of the graph */
        const int same = note(&r->nodes[n], arguments, kernels[n]);
        if (is_ready && !same)
            code = cudaGraphExecKernelNodeSetParams(r->ready, r->nodes[n].node, &node);
        for (int i = 0; i < kernels[n]->count; i++) arguments += kernels[n]->bytes[i];
    }
    if (!is_ready) code = make_graph(r, kernels, count, early);
    if (code == cudaSuccess) code = cudaGraphLaunch(r->ready, t->stream);
    if (code == cudaSuccess) return 1;
    cudaGetLastError();
    r->times = NEVER;
    return 0;
}

/* Whether the kernel's code waits by itself: code for older architectures does not. */
static int waits(gop_cuda_thread *t, const gop_cuda_kernel *k)
{
    gop_cuda_repeated *r = record_of(t, NULL, k->function);
    if (!r) return 0;
    if (!r->waits) {
        cudaFuncAttributes code;
        r->waits = -1;
        if (cudaFuncGetAttributes(&code, k->function) != cudaSuccess) cudaGetLastError();
        else if (code.ptxVersion >= 90) r->waits = 1;
    }
    return r->waits > 0;
}

/* As a launch by itself; `early`: it waits by itself. */
static cudaError_t launch_alone(gop_cuda_thread *t, const gop_cuda_kernel *k, int early)
{
    cudaLaunchAttribute attributes[3];
    unsigned count = 0;
    if (k->how == GOP_CUDA_TOGETHER) {
        attributes[count].id = cudaLaunchAttributeCooperative;
        attributes[count++].val.cooperative = 1;
    }
    if (early) {
        attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[count++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (k->cluster > 0) {
        attributes[count].id = cudaLaunchAttributeClusterDimension;
        attributes[count++].val = clusters_of(k);
    }
    if (count == 0)
        return cudaLaunchKernel(k->function, k->grid, k->block, k->arguments, k->shared,
                                t->stream);
    cudaLaunchConfig_t how = {};
    how.gridDim = k->grid;
    how.blockDim = k->block;
    how.dynamicSmemBytes = k->shared;
    how.stream = t->stream;
    how.attrs = attributes;
    how.numAttrs = count;
    return cudaLaunchKernelExC(&how, k->function, k->arguments);
}

/* Keeps a launch for the one that follows; 0 where it cannot be kept. */
static int keep(gop_cuda_thread *t, const gop_cuda_kernel *k)
{
    size_t at = 0;
    if (t->base.timed || !graphs_wanted() || k->count > MOST_KEPT) return 0;
    if (!t->kept) t->kept = (gop_cuda_kept *)gop_services->alloc(sizeof *t->kept);
    if (!t->kept) return 0;
    gop_cuda_kept *kept = t->kept;
    for (int i = 0; i < k->count; i++) {
        at = (at + 15) / 16 * 16;
        if (at + k->bytes[i] > sizeof kept->values) return 0;
        kept->bytes[i] = k->bytes[i];
        kept->arguments[i] = memcpy(kept->values + at, k->arguments[i], k->bytes[i]);
        at += k->bytes[i];
    }
    kept->kernel = *k;
    kept->kernel.arguments = kept->arguments;
    kept->kernel.bytes = kept->bytes;
    t->kept_for_next = 1;
    return 1;
}

/* With the device current: a launch, and the one before it that was kept for it. */
static gop_status launch_now(gop_cuda_thread *t, const gop_cuda_kernel *k)
{
    const gop_cuda_kernel *kernels[CHAIN] = {t->kept_for_next ? &t->kept->kernel : k, k};
    const int count = t->kept_for_next ? 2 : 1;
    const int early = k->how == GOP_CUDA_EARLY && waits(t, k);
    if (k->how != GOP_CUDA_TOGETHER && (count == 2 || !early) &&
        launch_repeated(t, kernels, count, early))
        return gop_cuda_launched(k->name, cudaSuccess);
    if (count == 2)
        GOP_TRY(gop_cuda_launched(kernels[0]->name, launch_alone(t, kernels[0], 0)));
    return gop_cuda_launched(k->name, launch_alone(t, k, early));
}

/* Where it is noted which kernel is allowed all shared memory that a block can have. */
static const void **place_of_wide(const gop_ctx *ctx, const void *kernel)
{
    enum { WIDE = 128 };
    static const void *wide[GOP_CUDA_MAX_DEVICES][WIDE];
    return &wide[ctx->device.ordinal][(uintptr_t)kernel / 16 % WIDE];
}

static int is_allowed(const gop_ctx *ctx, const gop_cuda_kernel *k)
{
    return k->shared <= UNASKED ||
           __atomic_load_n(place_of_wide(ctx, k->function), __ATOMIC_ACQUIRE) == k->function;
}

/* Allows it that, once on a device. It never sets less, so that no thread takes back what
 * another one needs. With the device current. */
static gop_status allow_shared(const gop_ctx *ctx, const void *kernel)
{
    const void **const place = place_of_wide(ctx, kernel);
    if (__atomic_load_n(place, __ATOMIC_ACQUIRE) == kernel) return GOP_OK;
    cudaFuncAttributes code;
    GOP_TRY(
        gop_cuda_check(cudaFuncGetAttributes(&code, kernel), "asking for a kernel's limits"));
    const int64_t most = ctx->info.shared_per_block - (int64_t)code.sharedSizeBytes;
    GOP_TRY(gop_cuda_allow_shared(kernel, (size_t)most));
    __atomic_store_n(place, kernel, __ATOMIC_RELEASE);
    return GOP_OK;
}

gop_status gop_cuda_enqueue(gop_ctx *ctx, const gop_cuda_kernel *k)
{
    gop_cuda_thread *t = thread_of(ctx);
    if (k->how == GOP_CUDA_FOLLOWED && !t->kept_for_next && is_allowed(ctx, k) && keep(t, k))
        return GOP_OK;
    const gop_cuda_current current(ctx->device.ordinal);
    gop_status status = current.status;
    if (status == GOP_OK && k->shared > UNASKED) status = allow_shared(ctx, k->function);
    if (status == GOP_OK) status = launch_now(t, k);
    t->kept_for_next = 0;
    return status;
}

/* Two separate launches cost twice as much as one graph. */
gop_cuda_how gop_cuda_first(const gop_ctx *ctx, const gop_task *task, int is_followed)
{
    const gop_op op = task->call->op;
    const int64_t least =
        op == GOP_OP_add || op == GOP_OP_multiply_add || op == GOP_OP_fma ? LONG_ADD : LONG;
    int64_t bytes = gop_services->array_bytes(&task->out[0]);
    for (int i = 0; i < task->nin; i++) bytes += gop_services->array_bytes(&task->in[i]);
    if (ctx->info.major >= 9 && bytes >= (is_followed ? 2 * least : least))
        return GOP_CUDA_EARLY;
    return is_followed ? GOP_CUDA_FOLLOWED : GOP_CUDA_PLAINLY;
}

gop_status gop_cuda_at_once(const gop_ctx *ctx, const void *kernel, int threads, size_t shared,
                            int64_t *blocks)
{
    int each = 0, can = 0;
    *blocks = 0;
    const gop_cuda_current current(ctx->device.ordinal);
    GOP_TRY(current.status);
    if (shared > UNASKED) GOP_TRY(allow_shared(ctx, kernel));
    GOP_TRY(gop_cuda_check(
        cudaDeviceGetAttribute(&can, cudaDevAttrCooperativeLaunch, ctx->device.ordinal),
        "asking whether blocks can wait for each other"));
    GOP_TRY(gop_cuda_check(
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, threads, shared),
        "asking how many blocks of a kernel run at once"));
    if (can) *blocks = (int64_t)each * ctx->info.processors;
    return GOP_OK;
}
