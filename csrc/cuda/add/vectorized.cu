/*
 * vectorized.cu - add, multiply_add and fma, 16 bytes a thread from each operand.
 *
 * A quarter of the instructions for the same traffic (a sixteenth for bytes), and four times as
 * many bytes in flight. The innermost axis must be contiguous in the output, and contiguous or
 * broadcast in the inputs.
 */
#include "cuda/add/element.h"
#include "cuda/add/operands.h"

/* gop_elementwise for few axes: 2.6 KB of arguments make a launch longer, here and there. */
struct vector_axes {
    enum { MOST = 8 };
    int rank, operands;
    int64_t size;
    int64_t extent[MOST], stride[4][MOST];
};

template <typename T> GOP_DEVICE vec128<T> load_or_repeat(const T *address, int64_t stride)
{
    if (stride != 0) return load128(address);
    vec128<T> v;
    const T value = *address;
#pragma unroll
    for (int k = 0; k < vec128<T>::N; k++) v.at[k] = value;
    return v;
}

/* e counts vectors, its strides count elements. The `tail` elements after the last vector of a
 * one-axis call are done by as many threads more. */
template <typename Op, typename T, typename I>
__global__ void add_vectorized_kernel(operands<T> at, vector_axes e, int tail)
{
    const I i = (I)blockIdx.x * blockDim.x + threadIdx.x;
    const int inner = e.rank - 1;
    const int64_t sa = e.stride[1][inner], sb = e.stride[2][inner], sc = e.stride[3][inner];
    if (i >= (I)e.size) {
        const int64_t past = (int64_t)(i - (I)e.size);
        if (past >= tail) return;
        const int64_t k = e.size * vec128<T>::N + past;
        const T a = at.a[sa ? k : 0], b = at.b[sb ? k : 0];
        at.out[k] = Op::of(a, b, Op::INPUTS == 3 ? at.c[sc ? k : 0] : b);
        return;
    }
    int64_t o[4];
    place<Op::INPUTS + 1, I>(e, i, o);
    const vec128<T> a = load_or_repeat(at.a + o[1], sa);
    const vec128<T> b = load_or_repeat(at.b + o[2], sb);
    const vec128<T> c = Op::INPUTS == 3 ? load_or_repeat(at.c + o[3], sc) : b;
    vec128<T> out;
#pragma unroll
    for (int k = 0; k < vec128<T>::N; k++) out.at[k] = Op::of(a.at[k], b.at[k], c.at[k]);
    store128(at.out + o[0], out);
}

struct add_vectors {
    vector_axes axes;
    int tail;
};

template <typename Op, typename T>
static gop_status add_vectorized(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const add_vectors &p = *GOP_OWN(const add_vectors, task->plan);
    const int threads = (int)task->tune[0];
    const dim3 grid((unsigned)blocks_for(p.axes.size + p.tail, threads));
    if (fits_32_bits(p.axes.size + p.tail))
        return GOP_LAUNCH(ctx, (add_vectorized_kernel<Op, T, uint32_t>), grid, threads, 0,
                          operands_of<T>(task), p.axes, p.tail);
    return GOP_LAUNCH(ctx, (add_vectorized_kernel<Op, T, uint64_t>), grid, threads, 0,
                      operands_of<T>(task), p.axes, p.tail);
}

/* Every vector must start at a multiple of 16 bytes: operand by operand, unless it is broadcast
 * along the innermost axis. */
static gop_status add_vectorized_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    static const int size_of[GOP_NDTYPES] = {
#define X(enumerator, word, bytes) bytes,
        GOP_DTYPES(X)
#undef X
    };
    const gop_elementwise &e = task->geometry.elementwise;
    const char *op = add_name(task);
    const int inner = e.rank - 1;
    const int n = 16 / size_of[task->out[0].dtype];
    if (e.rank > vector_axes::MOST)
        return gop_fail(GOP_REFUSED,
                        "%s: the vectorized kernel takes at most %d axes that do not merge, "
                        "got %d",
                        op, vector_axes::MOST, e.rank);
    if (e.rank > 1 && e.extent[inner] % n != 0)
        return gop_fail(GOP_REFUSED,
                        "%s: the vectorized kernel takes innermost axes that are a multiple of "
                        "%d elements long, got %lld",
                        op, n, (long long)e.extent[inner]);
    for (int o = 0; o < e.operands; o++) {
        const int64_t stride = e.stride[o][inner];
        if (stride == 0 && o > 0) continue;
        if (stride != 1)
            return gop_fail(
                GOP_REFUSED,
                "%s: the vectorized kernel takes operands that are contiguous along "
                "the output's innermost axis, got a stride of %lld elements",
                op, (long long)stride);
        const gop_array &array = o ? task->in[o - 1] : task->out[0];
        int64_t bits = (int64_t)(uintptr_t)array.data; /* the lowest one set in any place */
        for (int axis = 0; axis < inner; axis++) bits |= e.stride[o][axis] * (16 / n);
        if (bits % 16 != 0)
            return gop_fail(
                GOP_REFUSED,
                "%s: the vectorized kernel takes lines that start at multiples of 16 "
                "bytes, got one that starts at a multiple of %d",
                op, (int)(bits & -bits));
    }
    add_vectors &p = *GOP_OWN(add_vectors, plan);
    p.tail = (int)(e.extent[inner] % n); /* 0 unless there is one axis */
    p.axes = {e.rank, e.operands, e.size / n, {}, {}};
    for (int axis = 0; axis < e.rank; axis++) {
        const int by = axis == inner ? n : 1;
        p.axes.extent[axis] = e.extent[axis] / by;
        for (int o = 0; o < e.operands; o++) p.axes.stride[o][axis] = e.stride[o][axis] * by;
    }
    return GOP_OK;
}

#define ROW(op, launches)                                                                      \
    extern const gop_row op##_vectorized_row = {                                               \
        .name = "vectorized",                                                                  \
        .note = "16 bytes a thread from each operand: fewer instructions, more bytes in "      \
                "flight",                                                                      \
        .role = GOP_CONFORMING,                                                                \
        .launch = launches(add_vectorized, op_##op),                                           \
        .tunables = {ADD_THREADS},                                                             \
        .plan = add_vectorized_plan,                                                           \
    }
ROW(add, ADD_BY_WIDTH);
ROW(multiply_add, ADD_BY_WIDTH);
ROW(fma, ADD_BY_FLOAT);
