/*
 * add.cu - the CUDA ladders of add, multiply_add and fma.
 *
 * Floor: every input read once, the output written once. The arithmetic hides behind the memory
 * traffic, so what counts is how many bytes are on their way at any moment and how few
 * instructions stand between them. What makes it hard: operands that broadcast or lie strided
 * in memory, where an element's place costs a division per axis, which a GPU does in software.
 */
#include "cuda/add.h"

/* ---- naive ----
 * One element a thread, any strides. Neighbouring threads take neighbouring elements of the
 * output, so a warp's accesses fall into few memory transactions wherever the layout allows. */

template <typename Op, typename T, typename I>
__global__ void add_naive_kernel(operands<T> at, gop_elementwise e)
{
    const I i = (I)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (I)e.size) return;
    int64_t o[4];
    place<Op::INPUTS + 1, I>(e, i, o);
    const T a = at.a[o[1]], b = at.b[o[2]];
    at.out[o[0]] = Op::of(a, b, Op::INPUTS == 3 ? at.c[o[3]] : b);
}

template <typename Op, typename T>
static gop_status add_naive(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const gop_elementwise &e = task->geometry.elementwise;
    const int threads = (int)task->tune[0];
    if (e.size == 0) return GOP_OK;
    const dim3 grid((unsigned)blocks_for(e.size, threads));
    if (fits_32_bits(e.size))
        return GOP_LAUNCH(ctx, (add_naive_kernel<Op, T, uint32_t>), grid, threads, 0,
                          operands_of<T>(task), e);
    return GOP_LAUNCH(ctx, (add_naive_kernel<Op, T, uint64_t>), grid, threads, 0,
                      operands_of<T>(task), e);
}

/* ---- vectorized ----
 * 16 bytes a thread from each operand: a quarter of the instructions for the same traffic (a
 * sixteenth for bytes), and four times as many bytes in flight. The innermost axis must be
 * contiguous in the output, and contiguous or broadcast in the inputs. */

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
__global__ void add_vectorized_kernel(operands<T> at, few_axes e, int tail)
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

template <typename Op, typename T>
static gop_status add_vectorized(gop_ctx *ctx, const gop_task *task, int64_t)
{
    enum { N = vec128<T>::N };
    const gop_elementwise &all = task->geometry.elementwise;
    const int threads = (int)task->tune[0];
    const int inner = all.rank - 1;
    if (all.size == 0) return GOP_OK;
    const int tail = (int)(all.extent[inner] % N); /* 0 unless there is one axis */
    few_axes e = {all.rank, all.operands, all.size / N, {}, {}};
    for (int d = 0; d < e.rank; d++) {
        const int by = d == inner ? N : 1;
        e.extent[d] = all.extent[d] / by;
        for (int o = 0; o < e.operands; o++) e.stride[o][d] = all.stride[o][d] * by;
    }
    const dim3 grid((unsigned)blocks_for(e.size + tail, threads));
    if (fits_32_bits(e.size + tail))
        return GOP_LAUNCH(ctx, (add_vectorized_kernel<Op, T, uint32_t>), grid, threads, 0,
                          operands_of<T>(task), e, tail);
    return GOP_LAUNCH(ctx, (add_vectorized_kernel<Op, T, uint64_t>), grid, threads, 0,
                      operands_of<T>(task), e, tail);
}

static const char *const op_names[] = {
#define GOP_OP(name, stem) #name,
#include "ops.def"
#undef GOP_OP
};

/* Every vector must start at a multiple of 16 bytes: operand by operand, unless it is broadcast
 * along the innermost axis. */
static gop_status takes_vectors(const gop_ctx *, const gop_task *task)
{
    static const int size_of[GOP_NDTYPES] = {
#define X(enumerator, word, bytes) bytes,
        GOP_DTYPES(X)
#undef X
    };
    const gop_elementwise &e = task->geometry.elementwise;
    const char *op = op_names[task->call->op];
    const int inner = e.rank - 1;
    const int n = 16 / size_of[task->out[0].dtype];
    if (e.rank > few_axes::MOST)
        return gop_fail(GOP_REFUSED,
                        "%s: the vectorized kernel takes at most %d axes that do not merge, "
                        "got %d",
                        op, few_axes::MOST, e.rank);
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
    return GOP_OK;
}

/* ---- the tables ---- */

/* In the order of the dtypes; integers by width, since wrapping sums do not depend on the sign.
 */
#define BY_WIDTH(f, Op)                                                                        \
    {                                                                                          \
        f<Op, boolean>, f<Op, uint8_t>, f<Op, uint16_t>, f<Op, uint32_t>, f<Op, uint64_t>,     \
            f<Op, uint8_t>, f<Op, uint16_t>, f<Op, uint32_t>, f<Op, uint64_t>, f<Op, float16>, \
            f<Op, bfloat16>, f<Op, float>, f<Op, double>, f<Op, complex64>, f<Op, complex128>  \
    }
#define BY_FLOAT(f, Op)                                                                        \
    {                                                                                          \
        nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,       \
            f<Op, float16>, f<Op, bfloat16>, f<Op, float>, f<Op, double>, nullptr, nullptr     \
    }

/* Not the bits of the others: see add_contracted.cu. */
static gop_status contracts(const gop_ctx *, const gop_task *task)
{
    if (gop_contracts()) return GOP_OK;
    return gop_fail(GOP_REFUSED,
                    "%s: the contracted kernel needs an instruction that multiplies and adds, "
                    "which this processor lacks",
                    op_names[task->call->op]);
}

/* clang-format off */
#define THREADS {{"threads", 4, {128, 256, 512, 1024}}}
#define ROW(name, note, lecture, launch, accepts)                                              \
    {name, note, GOP_CONFORMING, nullptr, lecture, launch, accepts, nullptr, nullptr, THREADS}
#define NAIVE(op, table)                                                                       \
    ROW("naive",                                                                               \
        "one element a thread, any strides: neighbouring threads write neighbours, so a "      \
        "warp's accesses coalesce",                                                            \
        "vector add", table(add_naive, op_##op), nullptr)
#define VECTORIZED(op, table)                                                                  \
    ROW("vectorized",                                                                          \
        "16 bytes a thread from each operand: fewer instructions, more bytes in flight",       \
        nullptr, table(add_vectorized, op_##op), takes_vectors)
#define NONE4 nullptr, nullptr, nullptr, nullptr
#define CONTRACTED(caveat)                                                                     \
    {"contracted", "the compiler fuses a*b + c by itself: one instruction where two stood",    \
     GOP_TEACHING, caveat, nullptr,                                                            \
     {NONE4, NONE4, nullptr, nullptr, nullptr, add_contracted_float, add_contracted_double},   \
     contracts, nullptr, nullptr, {}}
#define LADDER(op)                                                                             \
    extern "C" {                                                                               \
    extern const gop_ladder gop_cuda_##op;                                                     \
    const gop_ladder gop_cuda_##op = {sizeof op##_rows / sizeof *op##_rows, op##_rows};        \
    }

static const gop_row add_rows[] = {NAIVE(add, BY_WIDTH), VECTORIZED(add, BY_WIDTH)};
LADDER(add)

static const gop_row multiply_add_rows[] = {
    NAIVE(multiply_add, BY_WIDTH),
    CONTRACTED("rounds once where multiply_add rounds twice: the bits of fma, not of NumPy"),
    VECTORIZED(multiply_add, BY_WIDTH),
};
LADDER(multiply_add)

static const gop_row fma_rows[] = {
    NAIVE(fma, BY_FLOAT),
    CONTRACTED("rounds once because of a compiler's option: nothing in the source says so"),
    VECTORIZED(fma, BY_FLOAT),
};
LADDER(fma)
/* clang-format on */
