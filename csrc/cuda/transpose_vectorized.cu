/*
 * transpose_vectorized.cu - the transpose row for permutations that leave the fastest axis
 * last: whole lines are copied, 16 bytes a thread.
 */
#include "cuda/transpose.h"

/* p counts vectors and its strides do too. The bytes after the last vector of a one-axis call
 * are copied by as many threads more. */
template <typename I> __global__ void transpose_vectorized_kernel(uint4 *out, const uint4 *in,
                                                                  gop_permutation p, int tail)
{
    const I i = (I)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < (I)p.size) {
        int64_t to, from;
        place(p, i, &to, &from);
        out[to] = __ldcs(in + from);
    } else if (i - (I)p.size < (I)tail) {
        const int64_t k = 16 * p.size + (int64_t)(i - (I)p.size);
        ((uint8_t *)out)[k] = ((const uint8_t *)in)[k];
    }
}

gop_status transpose_vectorized(gop_ctx *ctx, const gop_task *task, int64_t)
{
    gop_permutation p = task->geometry.permutation;
    const int last = p.rank - 1;
    const int64_t n = 16 / transpose_item(task);
    uint4 *const out = (uint4 *)task->out[0].data;
    const uint4 *const in = (const uint4 *)task->in[0].data;
    if (p.size == 0) return GOP_OK;
    const int tail = (int)(p.extent[last] % n) * transpose_item(task); /* 0 unless rank is 1 */
    p.size /= n;
    p.extent[last] /= n;
    for (int axis = 0; axis < last; axis++) p.in[axis] /= n, p.out[axis] /= n;
    const dim3 grid((unsigned)blocks_for(p.size + tail, 256));
    if (fits_32_bits(p.size + tail))
        return GOP_LAUNCH(ctx, transpose_vectorized_kernel<uint32_t>, grid, 256, 0, out, in, p,
                          tail);
    return GOP_LAUNCH(ctx, transpose_vectorized_kernel<uint64_t>, grid, 256, 0, out, in, p,
                      tail);
}

gop_status transpose_takes_vectors(const gop_ctx *ctx, const gop_task *task)
{
    const gop_permutation &p = task->geometry.permutation;
    const int last = p.rank - 1, item = transpose_item(task);
    /* The lowest bit set in any place: what all lines start at a multiple of. */
    int64_t bits = (int64_t)((uintptr_t)task->out[0].data | (uintptr_t)task->in[0].data);
    for (int axis = 0; axis < last; axis++) bits |= (p.in[axis] | p.out[axis]) * item;
    if (last > 0) bits |= p.extent[last] * item;
    if (p.in[last] != 1 || p.out[last] != 1)
        return gop_fail(GOP_REFUSED, "transpose: the vectorized kernel takes permutations that "
                                     "leave the fastest axis last, got one that moves it");
    if (last > 0 && p.extent[last] * item < 128 && transpose_takes_boxed(ctx, task) == GOP_OK)
        return gop_fail(
            GOP_REFUSED,
            "transpose: the vectorized kernel takes lines of 128 bytes or more, got "
            "%d: the boxed kernel makes longer runs of them",
            (int)p.extent[last] * item);
    if (bits % 16 != 0)
        return gop_fail(
            GOP_REFUSED,
            "transpose: the vectorized kernel takes lines of whole 16-byte vectors, "
            "got one that starts or ends at a multiple of %d",
            (int)(bits & -bits));
    return GOP_OK;
}
