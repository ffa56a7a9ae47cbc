/*
 * ticket.cu - reduce: the last block adds what the others left.
 *
 * A block writes its sum, then draws a ticket; the block that draws the last one knows that all
 * sums are there. The fence between writing and drawing makes them visible. The order of the
 * additions depends only on the grid: the same bits in every run on a device.
 */
#include "cuda/reduce/block.h"
#include "cuda/reduce/lecture.h"

template <typename T, typename R> __global__ void
reduce_ticket_kernel(const T *a, int64_t n, R *partial, unsigned *ticket, R *out)
{
    __shared__ bool last;
    R sum = fold_block(add_own_wide<R>(a, n));
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
        last = atomicAdd(ticket, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    sum = 0;
    for (int i = threadIdx.x; i < gridDim.x; i += BLOCK) sum += __ldcg(partial + i);
    sum = fold_block(sum);
    if (threadIdx.x == 0) *out = sum;
}

template <typename T>
static gop_status reduce_ticket(gop_ctx *ctx, const gop_task *task, int64_t)
{
    typedef lecture_sum_t<T> R;
    const lecture_level<R> l = lecture_first<R>(task);
    unsigned *const ticket = reinterpret_cast<unsigned *>(l.half[0]);
    GOP_TRY(GOP_LAUNCH(ctx, reduce_atomic_clear_kernel<unsigned>, dim3(1), dim3(1), 0, ticket));
    return GOP_LAUNCH(ctx, (reduce_ticket_kernel<T, R>), dim3((unsigned)l.left), dim3(BLOCK), 0,
                      lecture_input<T>(task), l.n, l.half[0] + 1, ticket, l.out);
}

static gop_status reduce_ticket_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    return lecture_plan(task, 16 * BLOCK, resident_blocks(ctx, BLOCK), plan);
}

extern const gop_row reduce_ticket_row = {
    .name = "ticket",
    .note = "the block that draws the last ticket adds the others' sums: one launch, one order",
    .role = GOP_TEACHING,
    .caveat = LECTURE_OWN_ORDER,
    .launch = GOP_LAUNCH_TEACHING(reduce_ticket),
    .plan = reduce_ticket_plan,
};
