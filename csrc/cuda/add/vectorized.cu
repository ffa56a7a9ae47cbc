/*
 * vectorized.cu - add, multiply_add and fma of one axis, 16 bytes an access.
 *
 * A quarter of the instructions for the same traffic (a sixteenth for bytes). A thread has one
 * vector of each operand: 2048 threads of a processor ask for 64 KiB before they wait, and more
 * of a thread reads memory in a worse order. Results leave by streaming stores, so that inputs
 * stay in the second-level cache where both do not fit.
 * All operands must be one line, or one element for all.
 */
#include "cuda/add/element.h"
#include "cuda/add/gathered.h"

/* Vectors of all operands, elements after the last one, and which inputs are one element. */
struct vector_line {
    int64_t vectors;
    int tail;
    bool repeats[3];
};

template <typename T> GOP_DEVICE share<T> load_or_repeat(const T *in, int64_t i, bool repeats)
{
    if (!repeats) return load_vector(in + i * vec128<T>::N);
    share<T> v;
    const T value = *in;
#pragma unroll
    for (int k = 0; k < vec128<T>::N; k++) put(v, k, value);
    return v;
}

/* The elements after the last vector are done by as many threads more. */
template <typename Op, typename T>
__global__ void add_vectorized_kernel(operands<T> at, vector_line line)
{
    enum { N = vec128<T>::N };
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const T *const in[3] = {at.a, at.b, at.c};
    if (i < line.vectors) {
        share<T> v[Op::INPUTS];
#pragma unroll
        for (int o = 0; o < Op::INPUTS; o++) v[o] = load_or_repeat(in[o], i, line.repeats[o]);
        __stcs(reinterpret_cast<uint4 *>(at.out + i * N), results_of<Op, T>(v));
    } else if (i - line.vectors < line.tail) {
        const int64_t k = line.vectors * N + (i - line.vectors);
        const T a = at.a[line.repeats[0] ? 0 : k], b = at.b[line.repeats[1] ? 0 : k];
        at.out[k] = Op::of(a, b, Op::INPUTS == 3 ? at.c[line.repeats[2] ? 0 : k] : b);
    }
}

template <typename Op, typename T>
static gop_status add_vectorized(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const vector_line &line = *GOP_OWN(const vector_line, task->plan);
    const int threads = (int)task->tune[0];
    const dim3 grid((unsigned)blocks_for(line.vectors + line.tail, threads));
    return GOP_LAUNCH(ctx, (add_vectorized_kernel<Op, T>), grid, threads, 0,
                      operands_of<T>(task), line);
}

static gop_status add_vectorized_plan(const gop_ctx *, const gop_task *task, gop_plan *plan)
{
    const gop_elementwise &e = task->geometry.elementwise;
    const char *op = add_name(task);
    if (e.rank > 1)
        return gop_fail(
            GOP_REFUSED,
            "%s: the vectorized kernel takes operands whose axes merge into one, got "
            "%d axes that do not",
            op, e.rank);
    vector_line &line = *GOP_OWN(vector_line, plan);
    for (int o = 0; o < e.operands; o++) {
        const int64_t stride = e.stride[o][0];
        if (o > 0) line.repeats[o - 1] = stride == 0;
        if (stride == 0 && o > 0) continue;
        if (stride != 1)
            return gop_fail(
                GOP_REFUSED,
                "%s: the vectorized kernel takes operands that are contiguous, got a "
                "stride of %lld elements",
                op, (long long)stride);
        const gop_array &array = o ? task->in[o - 1] : task->out[0];
        const int64_t bits = (int64_t)(uintptr_t)array.data;
        if (bits % 16 != 0)
            return gop_fail(
                GOP_REFUSED,
                "%s: the vectorized kernel takes operands that start at multiples of "
                "16 bytes, got one that starts at a multiple of %d",
                op, (int)(bits & -bits));
    }
    const int n = 16 / item_of(task);
    line.vectors = e.size / n;
    line.tail = (int)(e.size % n);
    return GOP_OK;
}

#define ROW(op, launches)                                                                      \
    extern const gop_row op##_vectorized_row = {                                               \
        .name = "vectorized",                                                                  \
        .note = "one axis, 16 bytes a thread from each operand: fewer instructions, results "  \
                "that leave inputs in the cache",                                              \
        .role = GOP_CONFORMING,                                                                \
        .launch = launches(add_vectorized, op_##op),                                           \
        .tunables = {{"threads", 4, {512, 128, 256, 1024}}}, /* of a block */                  \
        .plan = add_vectorized_plan,                                                           \
    }
ROW(add, ADD_BY_WIDTH);
ROW(multiply_add, ADD_BY_WIDTH);
ROW(fma, ADD_BY_FLOAT);
