/*
 * packed.cu - transpose of items of 1 and 2 bytes, packed into words.
 *
 * With an item a thread, a warp's row of bytes is 32 bytes, and shared memory, whose banks are
 * words, moves a quarter of what it could. So a thread reads a word of as many rows as a word
 * has items and transposes this small square in registers: words along x become words along y.
 * From there on everything moves in words, in a tile swizzled as in the swizzled kernel: a warp
 * writes one column of it and reads one row.
 */
#include "cuda/transpose/planes.h"
#include "cuda/transpose/turn.h"

template <typename T> __global__ void transpose_packed_kernel(T *out, const T *in, planes p)
{
    enum { N = 4 / (int)sizeof(T), SIDE = 32 * N };
    __shared__ uint32_t tile[SIDE][32];
    const tile_at t = tile_of(p, SIDE);
    const int i = threadIdx.x;
    /* Load squares of N by N items, transpose them, and write words along y to the tile. */
    for (int j = threadIdx.y; j < 32; j += blockDim.y) {
        uint32_t words[N] = {};
        const T *const from = in + t.from + (t.y + N * j) * p.in_y + t.x + N * i;
        if (t.x + N * i < p.nx && t.y + N * j < p.ny)
            for (int k = 0; k < N; k++)
                words[k] = *reinterpret_cast<const uint32_t *>(from + k * p.in_y);
        turn_words(words);
        for (int k = 0; k < N; k++) tile[N * i + k][j ^ i] = words[k];
    }
    __syncthreads();
    /* Store rows of the output. */
    for (int j = threadIdx.y; j < SIDE; j += blockDim.y) {
        T *const to = out + t.to + (t.x + j) * p.out_x + t.y + N * i;
        if (t.x + j < p.nx && t.y + N * i < p.ny)
            *reinterpret_cast<uint32_t *>(to) = tile[j][i ^ j / N];
    }
}

template <typename T>
static gop_status transpose_packed(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const planes &p = *GOP_OWN(const planes, task->plan);
    return GOP_LAUNCH(ctx, transpose_packed_kernel<T>, dim3((unsigned)p.tiles), dim3(32, 8), 0,
                      (T *)task->out[0].data, (const T *)task->in[0].data, p);
}

static gop_status transpose_packed_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    planes &p = *GOP_OWN(planes, plan);
    const int item = transpose_item(task);
    plan->launch = item == 1 ? transpose_packed<uint8_t> : transpose_packed<uint16_t>;
    GOP_TRY(transpose_planes(task->geometry.permutation, 128 / item, &p));
    if (p.in_x != 1 || p.out_y != 1)
        return gop_fail(GOP_REFUSED, "transpose: the packed kernel takes arrays whose fastest "
                                     "axes have no gaps; one of this call has");
    int64_t items = p.nx | p.ny | p.in_y | p.out_x;
    for (int axis = 0; axis < p.rank; axis++) items |= p.in[axis] | p.out[axis];
    const int64_t multiple = transpose_alignment(task, items, item);
    if (multiple % 4 == 0) return GOP_OK;
    return gop_fail(GOP_REFUSED,
                    "transpose: the packed kernel takes rows that start and end at multiples "
                    "of 4 bytes, got a multiple of %d",
                    (int)multiple);
}

extern const gop_row transpose_packed_row = {
    .name = "packed",
    .note = "words of 2 or 4 small items, turned in registers: banks and accesses are words",
    .role = GOP_CONFORMING,
    .plan = transpose_packed_plan,
    .dtypes = TRANSPOSE_SMALL,
};
