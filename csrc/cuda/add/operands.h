/*
 * operands.h - where the operands of add, multiply_add and fma are, and what their rows share.
 */
#ifndef GOP_CUDA_ADD_OPERANDS_H
#define GOP_CUDA_ADD_OPERANDS_H

#include "cuda/common/item_size.h"
#include "cuda/common/l2_policy.h"
#include "cuda/device.h"

template <typename T> struct operands {
    T *out;
    const T *a, *b, *c;
};

template <typename T> static operands<T> operands_of(const gop_task *task)
{
    return {(T *)task->out[0].data, (const T *)task->in[0].data, (const T *)task->in[1].data,
            (const T *)task->in[task->nin - 1].data};
}

/* Offsets of the i-th element in the order of the axes: out, a, b, c. The index type I is 32
 * bits wide where the size allows: a division then takes a quarter of the instructions. */
template <int OPERANDS, typename I, typename E>
GOP_DEVICE void place(const E &e, I i, int64_t offset[4])
{
    for (int o = 0; o < 4; o++) offset[o] = 0;
    for (int axis = e.rank - 1; axis > 0; axis--) {
        const I extent = (I)e.extent[axis];
        const I outer = i / extent;
        const I x = i - outer * extent;
        for (int o = 0; o < OPERANDS; o++) offset[o] += (int64_t)x * e.stride[o][axis];
        i = outer;
    }
    for (int o = 0; o < OPERANDS; o++) offset[o] += (int64_t)i * e.stride[o][0];
}

/* ---- what the kernels share ---- */

/* The operation's name in messages: one file serves all three. */
static inline const char *add_name(const gop_task *task)
{
    static const char *const names[] = {
#define GOP_OP(name, stem) #name,
#include "ops.def"
#undef GOP_OP
    };
    return names[task->call->op];
}

/* Bytes of an element. */
static inline int item_of(const gop_task *task)
{
    return item_size(task->out[0].dtype);
}

/* Whether all operands together are longer than most of the L2 cache. */
static inline bool add_exceeds_l2(const gop_ctx *ctx, const gop_task *task)
{
    const gop_elementwise &e = task->geometry.elementwise;
    int64_t elements = 0; /* of all operands */
    for (int o = 0; o < e.operands; o++) {
        int64_t own = 1;
        for (int axis = 0; axis < e.rank; axis++)
            if (e.stride[o][axis] != 0) own *= e.extent[axis];
        elements += own;
    }
    return elements * item_of(task) > ctx->info.l2 / 4 * 3;
}

/* f<Op, T> in the order of the dtypes; integers by width, since wrapping sums do not depend on
 * the sign. */
/* clang-format off */
#define ADD_BY_WIDTH(f, Op) \
    {f<Op, boolean>, f<Op, uint8_t>, f<Op, uint16_t>, f<Op, uint32_t>, f<Op, uint64_t>, \
     f<Op, uint8_t>, f<Op, uint16_t>, f<Op, uint32_t>, f<Op, uint64_t>, f<Op, float16>, \
     f<Op, bfloat16>, f<Op, float>, f<Op, double>, f<Op, complex64>, f<Op, complex128>}
#define ADD_BY_FLOAT(f, Op) \
    {GOP_NONE9, f<Op, float16>, f<Op, bfloat16>, f<Op, float>, f<Op, double>}

#define ADD_THREADS {"threads", 4, {128, 256, 512, 1024}} /* of a block */
/* clang-format on */

#endif
