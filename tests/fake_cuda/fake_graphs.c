/*
 * fake_graphs.c - graphs of the fake runtime: one kernel each, with copies of its arguments.
 */
#include <stdlib.h>
#include <string.h>

#include "fake_cudart.h"

int fake_graphs;       /* that are there now */
int fake_graph_starts; /* launches of graphs */
int fake_graph_sets;   /* times that one was given arguments */
int fake_graph_error;  /* of the next launch of a graph */

struct CUgraphExec_st {
    const fake_kernel *kernel;
    char arguments[3000];
};

static void set(cudaGraphExec_t ready, const struct cudaKernelNodeParams *node)
{
    char *at = ready->arguments;
    ready->kernel = node->func;
    for (int i = 0; i < ready->kernel->count; at += ready->kernel->bytes[i++])
        memcpy(at, node->kernelParams[i], ready->kernel->bytes[i]);
}

/* A graph, its node and what is made of it are one and the same here. */
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
    (void)before, (void)count;
    set((cudaGraphExec_t)graph, kernel);
    *node = (cudaGraphNode_t)graph;
    return fake_result(cudaSuccess);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *ready, cudaGraph_t graph,
                                 unsigned long long flags)
{
    (void)flags;
    *ready = (cudaGraphExec_t)graph;
    return fake_result(cudaSuccess);
}
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t ready, cudaGraphNode_t node,
                                             const struct cudaKernelNodeParams *kernel)
{
    (void)node;
    fake_graph_sets++;
    set(ready, kernel);
    return fake_result(cudaSuccess);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t ready, cudaStream_t stream)
{
    const int code = fake_graph_error;
    void *addresses[8];
    char *at = ready->arguments;
    fake_graph_error = 0;
    if (code) return fake_result((cudaError_t)code);
    fake_graph_starts++;
    for (int i = 0; i < ready->kernel->count; at += ready->kernel->bytes[i++])
        addresses[i] = at;
    return fake_enqueue_kernel(stream, ready->kernel, addresses);
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
