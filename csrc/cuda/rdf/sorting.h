/*
 * sorting.h - points sorted into a grid of cells (core/ops/rdf.h) on the device.
 */
#ifndef GOP_CUDA_RDF_SORTING_H
#define GOP_CUDA_RDF_SORTING_H

#include "core/ops/rdf.h"
#include "cuda/rdf/arguments.h"

/* A set of points in the order of cells. */
template <typename T> struct cell_set {
    point_set<T> from;
    point<T> *points;
    float4 *packed;  /* the same in float32, with their types as bits; of floats, the points */
    int *key, *rank; /* of the points as given: the cell, and the place in it */
    int *sorted_key; /* of the points in order */
    int *start;      /* of each cell, and the end */
};

/* The rows of a box, for places; is_box 0: there is none. */
struct box_rows {
    double row[9];
    int is_box;
};

enum { SCAN_THREADS = 1024 };

/* Each point's cell, and how many came to that cell before. */
template <typename T>
__global__ void rdf_place_kernel(cell_set<T> set, box_rows box, gop_grid grid)
{
    const int64_t stride = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < set.from.count;
         i += stride) {
        const point<T> p = point_at(set.from, i);
        double s[3];
        gop_fractions(box.is_box ? box.row : nullptr, p.x, p.y, p.z, s);
        const int key = (int)gop_grid_cell(&grid, s);
        set.key[i] = key;
        set.rank[i] = atomicAdd(&set.start[key], 1);
    }
}

/* Numbers of points become where cells begin: one block, each thread a stretch of cells. */
template <typename T> __global__ void __launch_bounds__(SCAN_THREADS)
    rdf_scan_kernel(cell_set<T> set, int cells)
{
    __shared__ int sums[SCAN_THREADS];
    const int t = threadIdx.x, each = cells / SCAN_THREADS + 1;
    const int begin = min(t * each, cells), end = min(begin + each, cells);
    int sum = 0;
    for (int k = begin; k < end; k++) sum += set.start[k];
    sums[t] = sum;
    __syncthreads();
    for (int d = 1; d < SCAN_THREADS; d *= 2) {
        const int before = t >= d ? sums[t - d] : 0;
        __syncthreads();
        sums[t] += before;
        __syncthreads();
    }
    int at = sums[t] - sum;
    for (int k = begin; k < end; k++) {
        const int count = set.start[k];
        set.start[k] = at;
        at += count;
    }
    if (t == SCAN_THREADS - 1) set.start[cells] = at;
}

/* Coordinates of float64 are packed relative to the middle of all. */
template <typename T>
__global__ void rdf_scatter_kernel(cell_set<T> set, double mx, double my, double mz)
{
    const int64_t stride = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < set.from.count;
         i += stride) {
        const int key = set.key[i], to = set.start[key] + set.rank[i];
        const point<T> p = point_at(set.from, i);
        to_tile(&set.points[to], p);
        if (sizeof(T) == 8) {
            float4 q;
            q.x = (float)(p.x - mx);
            q.y = (float)(p.y - my);
            q.z = (float)(p.z - mz);
            q.w = gop_bits_to_float((uint32_t)p.type);
            set.packed[to] = q;
        }
        set.sorted_key[to] = key;
    }
}

/* Sets the numbers of points, and the queue's counters, to 0. */
__global__ void rdf_zero_kernel(int *numbers, int64_t count)
{
    const int64_t stride = (int64_t)gridDim.x * blockDim.x;
    for (int64_t k = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; k < count; k += stride)
        numbers[k] = 0;
}

#endif
