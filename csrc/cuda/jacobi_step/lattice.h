/*
 * lattice.h - the terms of a point of a stencil: docs/numerics.md states their order.
 */
#ifndef GOP_CUDA_JACOBI_STEP_LATTICE_H
#define GOP_CUDA_JACOBI_STEP_LATTICE_H

#include "cuda/jacobi_step/system.h"

/* The terms of a stencil of AXES axes: the neighbours before the point, first axis to last, the
 * point itself, and those behind it, last to first. */
template <int AXES> struct stencil_terms {
    enum { COUNT = 2 * AXES + 1 };
    int64_t distance[COUNT]; /* items of x */
    bool is_there[COUNT], all;
};

template <int AXES>
GOP_DEVICE stencil_terms<AXES> terms_of(const gop_lattice &grid, const int64_t (&at)[AXES])
{
    stencil_terms<AXES> terms;
    terms.all = true;
    terms.distance[AXES] = 0;
    terms.is_there[AXES] = true;
    int64_t apart = 1;
#pragma unroll
    for (int d = AXES - 1; d >= 0; d--) {
        const int64_t last = grid.extent[d] - 1;
#pragma unroll
        for (int up = 0; up < 2; up++) {
            const int t = up ? 2 * AXES - d : d;
            const bool beyond = at[d] == (up ? last : 0);
            const int64_t step = up ? apart : -apart;
            terms.distance[t] = !beyond ? step : grid.bc == GOP_PERIODIC ? -step * last : 0;
            terms.is_there[t] = !beyond || grid.bc != GOP_DIRICHLET;
            terms.all &= terms.is_there[t];
        }
        apart *= grid.extent[d];
    }
    return terms;
}

/* Whether to divide by it is to multiply by its inverse: powers of two far from the ends. */
GOP_DEVICE bool has_exact_inverse(float d)
{
    const uint32_t bits = gop_float_to_bits(d) & 0x7fffffffu;
    return (bits & 0x7fffffu) == 0 && bits > 0x08000000u && bits < 0x78000000u;
}
template <typename T> GOP_DEVICE bool has_exact_inverse(T)
{
    return false;
}

/* Products that are not there leave their places to those after them. */
template <typename T, int COUNT>
GOP_DEVICE void close_up(T (&lane)[FOLDED_TERMS], const bool (&is_there)[COUNT])
{
#pragma unroll
    for (int t = COUNT - 1; t >= 0; t--) /* in registers: no index that is not a constant */
#pragma unroll
        for (int l = t; l < COUNT; l++) {
            const T after = l < COUNT - 1 ? lane[l + 1] : negative_zero<T>();
            lane[l] = is_there[t] ? lane[l] : after;
        }
}

/* The fold of the products that are there, as of a row of so many: COUNT at most. */
template <typename T, int AXES>
GOP_DEVICE T fold_terms(const stencil_terms<AXES> &terms,
                        const T (&product)[stencil_terms<AXES>::COUNT])
{
    enum { COUNT = stencil_terms<AXES>::COUNT };
    T lane[FOLDED_TERMS];
#pragma unroll
    for (int l = 0; l < FOLDED_TERMS; l++)
        lane[l] = l < COUNT ? product[l] : negative_zero<T>();
    if (!terms.all) close_up<T, COUNT>(lane, terms.is_there);
    return fold_eight(lane);
}

#endif
