/*
 * kinds.h - kinds of rows of a CSR matrix: rows with the same distances to their columns and,
 * if there are few kinds, the same values.
 *
 * The matrix of a grid has a kind of row for its interior and one for each boundary. A row is
 * then a byte, and the kinds are in shared memory. The device finds them: each row looks for an
 * equal one in a hash table, or takes a free slot.
 */
#ifndef GOP_CUDA_JACOBI_KINDS_H
#define GOP_CUDA_JACOBI_KINDS_H

#include "cuda/jacobi/chain.h"
#include "cuda/jacobi_step/system.h"

enum { WIDEST = 8, KINDS = 64 };

/* What a row's byte says of it. */
enum { NOTHING, ITS_COLUMNS, ITS_VALUES_TOO };

struct row_kinds {
    uint8_t *of_row;
    int32_t *like[2]; /* KINDS rows of which each is the first of its kind, or -1 */
    unsigned *many; /* [2]: whether there are more kinds than that; of values too, of columns */
};

template <typename T> struct alignas(16) row_kind {
    int32_t distance[WIDEST]; /* of the column from the diagonal */
    T value[WIDEST], diagonal;
    int32_t length;
};

/* It was checked; see system.h. */
template <typename T, typename I>
GOP_DEVICE csr_row short_row(const csr_arrays<T, I> &a, int64_t i)
{
    csr_row row = {(int64_t)a.indptr[i], (int64_t)a.indptr[i + 1]};
    if (row.begin < 0 || row.end > a.stored) row.begin = row.end = 0;
    if (row.end - row.begin > WIDEST) row.end = row.begin + WIDEST;
    return row;
}

template <typename T> struct words_of {
    unsigned at[sizeof(T) / 4];
    GOP_DEVICE explicit words_of(const T &value) { __builtin_memcpy(at, &value, sizeof at); }
};

template <typename T, typename I>
GOP_DEVICE unsigned hash_of(const csr_arrays<T, I> &a, int64_t i, int has_values)
{
    const csr_row row = short_row(a, i);
    unsigned hash = 2166136261u;
    for (int64_t p = row.begin; p < row.end; p++) {
        hash = (hash ^ (unsigned)((int64_t)a.indices[p] - i)) * 16777619u;
        if (!has_values) continue;
        const words_of<T> word(a.data[p]);
        for (unsigned w = 0; w < sizeof(T) / 4; w++) hash = (hash ^ word.at[w]) * 16777619u;
    }
    return hash ^ hash >> 15 ^ hash >> 23;
}

template <typename T, typename I>
GOP_DEVICE bool are_alike(const csr_arrays<T, I> &a, int64_t i, int64_t other, int has_values)
{
    const csr_row row = short_row(a, i), its = short_row(a, other);
    bool alike = row.end - row.begin == its.end - its.begin;
    for (int64_t p = 0; alike && p < row.end - row.begin; p++) {
        alike =
            (int64_t)a.indices[row.begin + p] - i == (int64_t)a.indices[its.begin + p] - other;
        if (!has_values) continue;
        const words_of<T> word(a.data[row.begin + p]), its_word(a.data[its.begin + p]);
        for (unsigned w = 0; w < sizeof(T) / 4; w++) alike &= word.at[w] == its_word.at[w];
    }
    return alike;
}

__global__ void jacobi_kinds_clear_kernel(row_kinds kinds)
{
    kinds.many[0] = kinds.many[1] = 0;
    for (int k = 0; k < KINDS; k++) kinds.like[0][k] = kinds.like[1][k] = -1;
}

/* The place of the first row like row i; KINDS: there is neither one nor room. */
template <typename T, typename I>
GOP_DEVICE int kind_of(const csr_arrays<T, I> &a, int64_t i, int32_t *like, int has_values)
{
    unsigned place = hash_of(a, i, has_values);
    for (int tried = 0; tried < KINDS; tried++, place++) {
        int32_t *const at = like + place % KINDS;
        int32_t other = peek(at);
        if (other < 0) other = atomicCAS(at, -1, (int32_t)i);
        if (other < 0 || are_alike(a, i, (int64_t)other, has_values))
            return (int)(place % KINDS);
    }
    return KINDS;
}

/* First compares values too; if that makes too many kinds, only columns (ONLY_COLUMNS). */
template <typename T, typename I, int ONLY_COLUMNS>
__global__ void jacobi_kinds_kernel(csr_arrays<T, I> a, row_kinds kinds)
{
    if (ONLY_COLUMNS && !kinds.many[0]) return;
    int32_t *const like = kinds.like[ONLY_COLUMNS];
    unsigned *const many = kinds.many + ONLY_COLUMNS;
    const int64_t step = gridDim.x * (int64_t)blockDim.x;
    const int64_t first = blockIdx.x * (int64_t)blockDim.x, middle = first + blockDim.x / 2;
    /* One thread goes first, so that not all miss and compete for the same slot. */
    if (threadIdx.x == 0 && middle < a.n) kind_of(a, middle, like, !ONLY_COLUMNS);
    __syncthreads();
    for (int64_t i = first + threadIdx.x; i < a.n && !peek(many); i += step) {
        const int kind = kind_of(a, i, like, !ONLY_COLUMNS);
        if (kind == KINDS) atomicExch(many, 1u);
        else kinds.of_row[i] = (uint8_t)kind;
    }
}

GOP_DEVICE int kinds_say(const row_kinds &kinds)
{
    return !kinds.many[0] ? ITS_VALUES_TOO : !kinds.many[1] ? ITS_COLUMNS : NOTHING;
}

/* The kinds as a table, by a block. */
template <typename T, typename I>
GOP_DEVICE void list_kinds(row_kind<T> *to, const csr_arrays<T, I> &a, const row_kinds &kinds)
{
    const int what = kinds_say(kinds);
    for (int k = threadIdx.x; k < KINDS && what != NOTHING; k += blockDim.x) {
        const int64_t i = kinds.like[what == ITS_COLUMNS][k];
        const csr_row row = i < 0 ? csr_row{0, 0} : short_row(a, i);
        row_kind<T> kind = {};
        kind.length = (int32_t)(row.end - row.begin);
        kind.diagonal = negative_zero<T>();
        for (int j = 0; j < kind.length; j++) {
            kind.value[j] = a.data[row.begin + j];
            kind.distance[j] = (int32_t)((int64_t)a.indices[row.begin + j] - i);
            if (kind.distance[j] == 0) kind.diagonal = plus(kind.diagonal, kind.value[j]);
        }
        to[k] = kind;
    }
}

/* What the kinds do not say; all of it where there is no table of them. */
template <typename T, typename I>
__global__ void jacobi_regular_copy_kernel(T *value, int32_t *column, int64_t pitch, int width,
                                           csr_arrays<T, I> a, row_kinds kinds,
                                           row_kind<T> *table)
{
    const int what = table ? kinds_say(kinds) : NOTHING;
    if (table && blockIdx.x == 0) list_kinds(table, a, kinds);
    if (what == ITS_VALUES_TOO) return;
    const int64_t step = gridDim.x * (int64_t)blockDim.x;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < a.n; i += step) {
        const csr_row row = short_row(a, i);
        for (int j = 0; j < width; j++) {
            const int is_term = row.begin + j < row.end;
            const int64_t k = is_term ? (int64_t)a.indices[row.begin + j] : 0;
            value[j * pitch + i] = is_term ? a.data[row.begin + j] : positive_zero<T>();
            if (what == NOTHING)
                column[j * pitch + i] =
                    is_term ? (uint64_t)k < (uint64_t)a.n ? (int32_t)k : 0 : -1;
        }
    }
}

#endif
