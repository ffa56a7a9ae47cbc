/*
 * fake_graphs.c - graphs of the fake runtime: kernels in a row, with copies of their arguments.
 */
#include <stdlib.h>
#include <string.h>

#include "fake_cudart.h"

int fake_graphs;       /* that are there now */
int fake_graph_starts; /* launches of graphs */
int fake_graph_sets;   /* times that one was given arguments */
int fake_graph_error;  /* of the next launch of a graph */

enum { MOST_NODES = 4 };

struct CUgraphNode_st {
    const fake_kernel *kernel;
    int cluster;
    char arguments[3000];
};
struct CUgraphExec_st {
    int count, edges;
    struct CUgraphNode_st nodes[MOST_NODES];
};

static void set(cudaGraphNode_t node, const struct cudaKernelNodeParams *given)
{
    char *at = node->arguments;
    node->kernel = given->func;
    for (int i = 0; i < node->kernel->count; at += node->kernel->bytes[i++])
        memcpy(at, given->kernelParams[i], node->kernel->bytes[i]);
}

/* A graph and what is made of it are one and the same here. */
cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned flags)
{
    (void)flags;
    *graph = calloc(1, sizeof(struct CUgraphExec_st));
    fake_graphs++;
    return fake_result(cudaSuccess);
}
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                   const cudaGraphNode_t *before, size_t count,
                                   const struct cudaKernelNodeParams *kernel)
{
    const cudaGraphExec_t all = (cudaGraphExec_t)graph;
    (void)before, (void)count;
    if (all->count == MOST_NODES) abort();
    *node = &all->nodes[all->count++];
    set(*node, kernel);
    return fake_result(cudaSuccess);
}
cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID what,
                                            const cudaLaunchAttributeValue *value)
{
    if (what != cudaLaunchAttributeClusterDimension) abort();
    node->cluster = (int)value->clusterDim.x;
    return fake_result(cudaSuccess);
}
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                     const cudaGraphNode_t *to, const cudaGraphEdgeData *edges,
                                     size_t count)
{
    (void)edges;
    for (size_t e = 0; e < count; e++)
        if (to[e] != from[e] + 1) abort(); /* they run in the order in which they were added */
    ((cudaGraphExec_t)graph)->edges += (int)count;
    return fake_result(cudaSuccess);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *ready, cudaGraph_t graph,
                                 unsigned long long flags)
{
    (void)flags;
    *ready = (cudaGraphExec_t)graph;
    if ((*ready)->edges != (*ready)->count - 1) abort();
    return fake_result(cudaSuccess);
}
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t ready, cudaGraphNode_t node,
                                             const struct cudaKernelNodeParams *kernel)
{
    (void)ready;
    fake_graph_sets++;
    set(node, kernel);
    return fake_result(cudaSuccess);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t ready, cudaStream_t stream)
{
    const int code = fake_graph_error;
    cudaError_t status = cudaSuccess;
    fake_graph_error = 0;
    if (code) return fake_result((cudaError_t)code);
    fake_graph_starts++;
    for (int n = 0; n < ready->count && status == cudaSuccess; n++) {
        const cudaGraphNode_t node = &ready->nodes[n];
        void *addresses[8];
        char *at = node->arguments;
        for (int i = 0; i < node->kernel->count; at += node->kernel->bytes[i++])
            addresses[i] = at;
        fake_clusters = node->cluster;
        status = fake_enqueue_kernel(stream, node->kernel, addresses);
    }
    return status;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t ready)
{
    (void)ready; /* freed as the graph */
    return fake_result(cudaSuccess);
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    free(graph);
    fake_graphs--;
    return fake_result(cudaSuccess);
}
