/*
 * vectorized.cu - add, multiply_add and fma of one axis, 16 bytes an access.
 *
 * A quarter of the instructions for the same traffic (a sixteenth for bytes). A thread has one
 * vector of each operand: the 2048 threads of an SM have 64 KiB in flight, and with more
 * vectors a thread, memory would be read in a worse order. Results leave by streaming stores,
 * so that inputs stay in the L2 cache where both do not fit. Every input must be one contiguous
 * line, or one element for all. In an input that is not aligned to 16 bytes, a vector lies
 * across two aligned ones. A thread loads both; the second hits the L1 cache, since it is the
 * next thread's first. This takes more registers, so it is a kernel of its own.
 */
#include <string.h>

#include "cuda/add/element.h"
#include "cuda/add/gathered.h"
#include "cuda/common/window.h"

/* How an input is read. */
enum reading : uint8_t { WHOLE, ACROSS, ONE };

/* The elements, the whole vectors, how each input is read, and from which end. If an input is
 * read across, its first vector counts as remainder too, since it may reach outside. */
struct vector_line {
    int64_t size, vectors;
    bool is_across;
    reading by[3];
    unsigned reverse;
};
struct vector_plan {
    vector_line line;
    unsigned blocks;
    bool alternates;
};

template <typename T> GOP_DEVICE share<T> repeated(const T *in)
{
    share<T> v;
    const T value = *in;
#pragma unroll
    for (int k = 0; k < vec128<T>::N; k++) put(v, k, value);
    return v;
}

/* The remainder is done by further threads, an element each. */
template <typename Op, typename T, bool IS_ACROSS>
__global__ void add_vectorized_kernel(operands<T> at, vector_line line)
{
    enum { N = vec128<T>::N, INPUTS = Op::INPUTS };
    const int64_t t = (int64_t)l2_block(line.reverse) * blockDim.x + threadIdx.x;
    const T *const in[3] = {at.a, at.b, at.c};
    grid_dependency_sync();
    if (t < line.vectors) {
        if (IS_ACROSS && t == 0) return;
        const int64_t first = t * N;
        uint4 low[INPUTS], high[INPUTS];
#pragma unroll
        for (int o = 0; o < INPUTS; o++) {
            if (line.by[o] == ONE) continue;
            const int off = IS_ACROSS ? (int)((uintptr_t)in[o] % 16) : 0;
            const uint4 *const piece = reinterpret_cast<const uint4 *>(
                reinterpret_cast<const char *>(in[o] + first) - off);
            low[o] = piece[0];
            if (IS_ACROSS && line.by[o] == ACROSS) high[o] = piece[1];
        }
        share<T> v[INPUTS];
#pragma unroll
        for (int o = 0; o < INPUTS; o++) {
            if (IS_ACROSS && line.by[o] == ACROSS)
                low[o] = window(low[o], high[o], (int)((uintptr_t)in[o] % 16));
            v[o] = line.by[o] == ONE ? repeated(in[o]) : share_of<T>(low[o]);
        }
        store_streaming(reinterpret_cast<uint4 *>(at.out + first), results_of<Op, T>(v));
        return;
    }
    int64_t k = t - line.vectors;
    if (!IS_ACROSS || k >= N) k += (line.vectors - IS_ACROSS) * N;
    if (k >= line.size) return;
    const T a = at.a[line.by[0] == ONE ? 0 : k];
    const T b = at.b[line.by[1] == ONE ? 0 : k];
    at.out[k] = Op::of(a, b, Op::INPUTS == 3 ? at.c[line.by[2] == ONE ? 0 : k] : b);
}

template <typename Op, typename T>
static gop_status add_vectorized(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const vector_plan &own = *GOP_OWN(const vector_plan, task->plan);
    const int threads = (int)task->tune[0];
    vector_line line = own.line;
    line.reverse = own.alternates ? l2_reverse<GOP_OP_add>() : 0;
    if (line.is_across)
        return GOP_LAUNCH_FIRST(ctx, task, 0, (add_vectorized_kernel<Op, T, true>), own.blocks,
                                threads, 0, operands_of<T>(task), line);
    return GOP_LAUNCH_FIRST(ctx, task, 0, (add_vectorized_kernel<Op, T, false>), own.blocks,
                            threads, 0, operands_of<T>(task), line);
}

static gop_status add_vectorized_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    const gop_elementwise &e = task->geometry.elementwise;
    const char *op = add_name(task);
    if (e.rank > 1)
        return gop_fail(
            GOP_REFUSED,
            "%s: the vectorized kernel takes operands whose axes merge into one, got "
            "%d axes that do not",
            op, e.rank);
    vector_plan &own = *GOP_OWN(vector_plan, plan);
    vector_line &line = own.line;
    memset(&line, 0, sizeof line); /* unused fields too: equal arguments must be equal bytes */
    for (int o = 0; o < e.operands; o++) {
        const int64_t stride = e.stride[o][0];
        const gop_array &array = o ? task->in[o - 1] : task->out[0];
        const int64_t bits = (int64_t)(uintptr_t)array.data;
        if (stride != 1 && (stride != 0 || o == 0))
            return gop_fail(
                GOP_REFUSED,
                "%s: the vectorized kernel takes operands that are contiguous, got a "
                "stride of %lld elements",
                op, (long long)stride);
        if (o == 0 && bits % 16 != 0)
            return gop_fail(
                GOP_REFUSED,
                "%s: the vectorized kernel takes outputs that start at multiples of 16 "
                "bytes, got one that starts at a multiple of %d",
                op, (int)(bits & -bits));
        if (o == 0) continue;
        line.by[o - 1] = stride == 0 ? ONE : bits % 16 == 0 ? WHOLE : ACROSS;
        line.is_across |= line.by[o - 1] == ACROSS;
    }
    line.size = e.size;
    const int n = 16 / item_of(task);
    line.vectors = e.size / n;
    if (line.is_across) line.vectors = line.vectors > 1 ? line.vectors - 1 : 1;
    const int64_t alone = e.size - (line.vectors - line.is_across) * n;
    own.blocks = (unsigned)blocks_for(line.vectors + alone, task->tune[0]);
    own.alternates = add_exceeds_l2(ctx, task);
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
