/*
 * indexed.cu - add, multiply_add and fma of operands of any strides: 16 bytes of the output a
 * thread.
 *
 * Small items: the output has no gaps, so a thread's 16 bytes of it are contiguous, whatever
 * axes they cross. An operand with the output's layout is read by vectors, or, if it is not
 * aligned, by words that are shifted into place. Only the others need an offset: it is computed
 * once for a thread's first element, with multiplications for divisions. Then
 * `add_indexed_kernel` reads the rest of the line and the beginning of the next one;
 * `add_gathered_kernel`, for threads whose elements are in many lines, steps from element to
 * element and carries into the axes that end.
 *
 * Large items, or short lines: a step costs more than a new offset, so a thread's elements need
 * not be neighbours (`add_apart_kernel`).
 */
#include "cuda/add/element.h"
#include "cuda/add/gathered.h"

enum {
    MOST_THREADS = 256,
    MOST_ELEMENTS = 1 << 30, /* of a launch */
};

/* Element i, if it exists. The threads after those with 16 bytes each take one element each. */
template <typename Op, typename T>
GOP_DEVICE void add_element(const operands<T> &at, const gathered_axes &p, uint32_t i)
{
    grid_dependency_sync();
    if (i >= p.size) return;
    const gathered_place place = place_gathered<Op::INPUTS>(p, i);
    const T a = at.a[(int32_t)place.at[0]], b = at.b[(int32_t)place.at[1]];
    at.out[i] = Op::of(a, b, Op::INPUTS == 3 ? at.c[(int32_t)place.at[2]] : b);
}

/* A thread's elements are a block apart, so that accesses coalesce. One element a thread would
 * be slower: the rate at which a GPU starts blocks is limited. */
template <typename Op, typename T> __global__ void __launch_bounds__(MOST_THREADS)
    add_apart_kernel(operands<T> at, const __grid_constant__ gathered_axes p)
{
    enum { N = vec128<T>::N, INPUTS = Op::INPUTS };
    const T *const in[3] = {at.a, at.b, at.c};
    const uint32_t first = l2_block(p.reverse) * (blockDim.x * N) + threadIdx.x;
    uint32_t i[N];
#pragma unroll
    for (int k = 0; k < N; k++) { /* beyond the end, the last element again */
        i[k] = first + k * blockDim.x;
        if (i[k] >= p.size) i[k] = p.size - 1;
    }
    gathered_place place[N];
    place_gathered<INPUTS, N>(p, i, place);
    grid_dependency_sync();
    T x[INPUTS][N];
#pragma unroll
    for (int k = 0; k < N; k++)
#pragma unroll
        for (int o = 0; o < INPUTS; o++) x[o][k] = in[o][(int32_t)place[k].at[o]];
#pragma unroll
    for (int k = 0; k < N; k++) {
        const uint32_t to = first + k * blockDim.x;
        if (to < p.size)
            store_streaming(at.out + to, Op::of(x[0][k], x[1][k], x[INPUTS - 1][k]));
    }
}

/* One element for each line: of the line where a thread begins, and of the next. */
template <typename T> struct two_lines {
    T here, next;
};

template <typename Op, typename T>
__global__ void __launch_bounds__(MOST_THREADS, Op::INPUTS == 3 ? 3 : 4)
    add_indexed_kernel(operands<T> at, const __grid_constant__ gathered_axes p)
{
    enum { N = vec128<T>::N, INPUTS = Op::INPUTS, IS_SMALL = sizeof(T) <= 2 };
    const uint32_t t = l2_block(p.reverse) * blockDim.x + threadIdx.x;
    const uint32_t whole = p.size / N, first = t * N;
    if (t >= whole) return add_element<Op, T>(at, p, whole * N + (t - whole));
    const T *const in[3] = {at.a, at.b, at.c};
    const gathered_place here = place_gathered<INPUTS>(p, first);
    const uint32_t left = p.axis[0].n.d - here.x; /* of the line */
    const bool ends = left < N;
    const gathered_place next = ends ? place_gathered<INPUTS>(p, first + left) : here;

    /* All loads are issued before any result is used, except those that take a register an
     * item. */
    grid_dependency_sync();
    share<T> v[INPUTS];
    five_words five[INPUTS];
    two_lines<T> line[INPUTS];
#pragma unroll
    for (int o = 0; o < INPUTS; o++) {
        const T *const from = in[o] + (int32_t)here.at[o];
        if (p.by[o] == VECTORS) v[o] = load_vector(from);
        else if (p.by[o] == REPEATED) line[o] = {*from, in[o][(int32_t)next.at[o]]};
        else if (IS_SMALL && p.by[o] != STEPPED) {
            const int end = p.by[o] == LINES && ends ? (int)left : (int)N;
            five[o] = load_words(from, 0, end, p.first[o], p.words[o]);
        } else if (!IS_SMALL)
            v[o] = load_stepped<T>(in[o], p.axis[0].stride[o], left, here.at[o], next.at[o]);
    }
#pragma unroll
    for (int o = 0; o < INPUTS; o++) {
        if (p.by[o] == REPEATED) {
#pragma unroll
            for (int k = 0; k < N; k++)
                put(v[o], k, (uint32_t)k < left ? line[o].here : line[o].next);
        }
        if constexpr (IS_SMALL) {
            if (p.by[o] == STEPPED)
                v[o] =
                    load_stepped<T>(in[o], p.axis[0].stride[o], left, here.at[o], next.at[o]);
            if (p.by[o] == WORDS || p.by[o] == LINES) v[o] = shifted<T>(five[o]);
            if (p.by[o] == LINES && ends) {
                const T *const then = in[o] + (int32_t)next.at[o] - (int)left;
                const five_words five = load_words(then, (int)left, N, p.first[o], p.words[o]);
                v[o] = joined(v[o], shifted<T>(five), (int)left);
            }
        }
    }
    store_streaming(reinterpret_cast<uint4 *>(at.out + first), results_of<Op, T>(v));
}

template <typename Op, typename T>
__global__ void __launch_bounds__(MOST_THREADS, Op::INPUTS == 3 ? 2 : 3)
    add_gathered_kernel(operands<T> at, const __grid_constant__ gathered_axes p)
{
    enum { N = vec128<T>::N, INPUTS = Op::INPUTS, OF_WORD = 4 / sizeof(T) };
    const uint32_t t = blockIdx.x * blockDim.x + threadIdx.x, whole = p.size / N, first = t * N;
    if (t >= whole) return add_element<Op, T>(at, p, whole * N + (t - whole));
    const T *const in[3] = {at.a, at.b, at.c};
    grid_dependency_sync();
    share<T> v[INPUTS];
    five_words five[INPUTS];
#pragma unroll
    for (int o = 0; o < INPUTS; o++) {
        if (p.by[o] == VECTORS) v[o] = load_vector(in[o] + first);
        if (p.by[o] == WORDS) five[o] = load_words(in[o] + first, 0, N, p.first[o], p.words[o]);
    }
    stepped_place place = place_stepped<INPUTS>(p, first);
#pragma unroll
    for (int word = 0; word < N; word += OF_WORD) {
        T x[INPUTS][OF_WORD]; /* all loads are issued before any result is used */
#pragma unroll
        for (int k = 0; k < OF_WORD; k++) {
            if (word + k) step_gathered<INPUTS>(p, first + word + k, place);
#pragma unroll
            for (int o = 0; o < INPUTS; o++)
                if (p.by[o] == STEPPED) x[o][k] = in[o][(int32_t)place.at[o]];
        }
#pragma unroll
        for (int o = 0; o < INPUTS; o++)
#pragma unroll
            for (int k = 0; k < OF_WORD; k++)
                if (p.by[o] == STEPPED) put(v[o], word + k, x[o][k]);
    }
#pragma unroll
    for (int o = 0; o < INPUTS; o++)
        if (p.by[o] == WORDS) v[o] = shifted<T>(five[o]);
    store_streaming(reinterpret_cast<uint4 *>(at.out + first), results_of<Op, T>(v));
}

/* What a plan keeps: addresses come with the launch. A launch takes as many rows of the
 * outermost axis as have MOST_ELEMENTS, the last one what is left. */
struct gathered_part {
    gathered_axes axes;
    unsigned blocks;
    int64_t low[3], high[3]; /* bytes of an input, from its first element's on */
};
struct gathered_plan {
    gathered_part part, last;
    int64_t steps, step[4]; /* bytes from one to the next, of out and inputs */
    bool has_lines;         /* as long as a thread's share, or longer */
    bool alternates;
};

template <typename Op, typename T>
static gop_status add_indexed(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const gathered_plan &own = *GOP_OWN(const gathered_plan, task->plan);
    const gathered_part &part = step < own.steps - 1 ? own.part : own.last;
    const int threads = (int)task->tune[0];
    gathered_axes axes = part.axes;
    axes.reverse = own.alternates ? l2_reverse<GOP_OP_add>() : 0;
    const char *in[3] = {};
    for (int o = 0; o < Op::INPUTS; o++) {
        in[o] = (const char *)task->in[o].data + step * own.step[o + 1];
        const uint64_t begin = (uint64_t)(uintptr_t)in[o] + (uint64_t)part.low[o];
        axes.first[o] = (begin + 3) & ~UINT64_C(3);
        const int64_t bytes = part.high[o] - part.low[o] - (int64_t)(axes.first[o] - begin);
        axes.words[o] = bytes >= 20 ? (uint32_t)(bytes / 4 - 4) : 0;
    }
    const operands<T> at = {(T *)((char *)task->out[0].data + step * own.step[0]),
                            (const T *)in[0], (const T *)in[1], (const T *)in[2]};
    if constexpr (sizeof(T) <= 4)
        if (own.has_lines)
            return GOP_LAUNCH_FIRST(ctx, task, 0, (add_indexed_kernel<Op, T>), part.blocks,
                                    threads, 0, at, axes);
    if constexpr (sizeof(T) <= 2)
        return GOP_LAUNCH_FIRST(ctx, task, 0, (add_gathered_kernel<Op, T>), part.blocks,
                                threads, 0, at, axes);
    else
        return GOP_LAUNCH_FIRST(ctx, task, 0, (add_apart_kernel<Op, T>), part.blocks, threads,
                                0, at, axes);
}

/* ---- plan ---- */

/* Whether operand o's elements are neighbours in the output's order, as the output's are. */
static bool is_flat(const gop_elementwise &e, int o)
{
    int64_t run = 1;
    for (int axis = e.rank - 1; axis >= 0; run *= e.extent[axis--])
        if (e.stride[o][axis] != run) return false;
    return true;
}

/* Merges the axes again, innermost first, now that only operands that are not flat count. */
static gop_status merge_gathered(const gop_elementwise &e, const bool *flat, const char *op,
                                 gathered_axes &p)
{
    int64_t run = 1, extent[gathered_axes::MOST];
    int rank = 0;
    for (int axis = e.rank - 1; axis >= 0; axis--) {
        bool merges = rank > 0;
        for (int o = 1; o < e.operands && merges; o++)
            merges = flat[o] || e.stride[o][axis] == e.stride[o][axis + 1] * e.extent[axis + 1];
        if (merges) extent[rank - 1] *= e.extent[axis];
        else {
            if (rank == gathered_axes::MOST)
                return gop_fail(
                    GOP_REFUSED,
                    "%s: the indexed kernel takes at most %d axes that do not merge", op,
                    gathered_axes::MOST);
            extent[rank] = e.extent[axis];
            for (int o = 1; o < e.operands; o++)
                p.axis[rank].stride[o - 1] = (uint32_t)(flat[o] ? run : e.stride[o][axis]);
            rank++;
        }
        run *= e.extent[axis];
    }
    p.outermost = rank - 1;
    for (int o = 0; o < 3; o++) p.outer[o] = p.axis[rank - 1].stride[o];
    for (int axis = 0; axis < rank; axis++) p.axis[axis].n = make_fast_divisor(extent[axis]);
    for (int axis = rank; axis < gathered_axes::FLAT; axis++) {
        p.axis[axis] = {};
        p.axis[axis].n.d = INT32_MAX; /* never divided by */
    }
    return GOP_OK;
}

/* How operand o is read, with `n` elements a thread. */
static gathering gathering_of(const gop_elementwise &e, int o, bool flat, int n, int64_t bits,
                              int64_t line)
{
    const bool small = n >= 8;
    const int64_t stride = e.stride[o][e.rank - 1];
    if (flat) return bits % 16 == 0 ? VECTORS : small ? WORDS : STEPPED;
    if (line < n) return STEPPED;
    if (stride == 0) return REPEATED;
    if (stride != 1) return STEPPED;
    for (int axis = 0; axis < e.rank - 1; axis++) bits |= e.stride[o][axis] * (16 / n);
    if (line % n == 0 && bits % 16 == 0) return VECTORS;
    return !small ? STEPPED : line % n == 0 ? WORDS : LINES;
}

static gop_status plan_part(const gop_task *task, const gop_elementwise &e, const bool *flat,
                            gathered_part &part)
{
    const int item = item_of(task);
    gathered_axes &p = part.axes;
    p.size = (uint32_t)e.size;
    GOP_TRY(merge_gathered(e, flat, add_name(task), p));
    for (int o = 1; o < e.operands; o++) {
        int64_t low = 0, high = 0;
        for (int axis = 0; axis < e.rank; axis++) {
            const int64_t far = e.stride[o][axis] * (e.extent[axis] - 1);
            (far < 0 ? low : high) += far;
        }
        if (-low > INT32_MAX || high > INT32_MAX)
            return gop_fail(GOP_REFUSED,
                            "%s: the indexed kernel takes operands whose elements lie within "
                            "2^31 of each other",
                            add_name(task));
        part.low[o - 1] = low * item;
        part.high[o - 1] = (high + 1) * item;
        const int64_t bits = (int64_t)(uintptr_t)task->in[o - 1].data;
        p.by[o - 1] = gathering_of(e, o, flat[o], 16 / item, bits, p.axis[0].n.d);
    }
    return GOP_OK;
}

/* Plans several steps: each takes `rows` of the outermost axis, the last one what is left. */
static gop_status plan_parts(const gop_task *task, int64_t rows, const bool *flat,
                             gathered_plan &own)
{
    gop_elementwise part = task->geometry.elementwise;
    const int64_t row = part.size / part.extent[0], all = part.extent[0];
    part.extent[0] = rows;
    part.size = rows * row;
    GOP_TRY(plan_part(task, part, flat, own.part));
    part.extent[0] = all - (own.steps - 1) * rows;
    part.size = part.extent[0] * row;
    return plan_part(task, part, flat, own.last);
}

/* Blocks for n elements a thread. The remainder gets a thread per element or, where elements
 * are apart, one thread for all. */
static unsigned blocks_of_part(const gathered_axes &p, bool is_apart, int n, int64_t threads)
{
    const uint32_t left = p.size % (uint32_t)n;
    return (unsigned)blocks_for(p.size / (uint32_t)n + (is_apart ? left != 0 : left), threads);
}

static gop_status add_indexed_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    const gop_elementwise &e = task->geometry.elementwise;
    const int item = item_of(task), n = 16 / item;
    if (!is_flat(e, 0) || (uintptr_t)task->out[0].data % 16 != 0)
        return gop_fail(GOP_REFUSED,
                        "%s: the indexed kernel takes outputs without gaps that start at a "
                        "multiple of 16 bytes",
                        add_name(task));
    const int64_t row = e.size / e.extent[0];
    int64_t rows = e.extent[0];
    if (e.size > MOST_ELEMENTS) {
        rows = MOST_ELEMENTS / row;
        if (row % n != 0) rows -= rows % n; /* every part begins with a vector */
    }
    if (rows == 0)
        return gop_fail(GOP_REFUSED,
                        "%s: the indexed kernel takes outputs of which %d rows along the "
                        "outermost axis have at most %lld elements, got %lld a row",
                        add_name(task), n, (long long)MOST_ELEMENTS, (long long)row);
    gathered_plan &own = *GOP_OWN(gathered_plan, plan);
    own = {};
    bool flat[4];
    for (int o = 0; o < e.operands; o++) {
        flat[o] = is_flat(e, o);
        own.step[o] = rows * e.stride[o][0] * item;
    }
    own.steps = plan->steps = (e.extent[0] + rows - 1) / rows;
    if (own.steps == 1) GOP_TRY(plan_part(task, e, flat, own.last));
    else GOP_TRY(plan_parts(task, rows, flat, own));
    const gathered_part &first = own.steps == 1 ? own.last : own.part;
    own.has_lines = first.axes.axis[0].n.d >= (uint32_t)n;
    const bool is_apart = item > 4 || (item == 4 && !own.has_lines);
    own.part.blocks = blocks_of_part(own.part.axes, is_apart, n, task->tune[0]);
    own.last.blocks = blocks_of_part(own.last.axes, is_apart, n, task->tune[0]);
    /* add_gathered_kernel is slower than memory, whichever end it begins at. */
    own.alternates = (own.has_lines || item >= 4) && add_exceeds_l2(ctx, task);
    return GOP_OK;
}

#define ROW(op, launches)                                                                      \
    extern const gop_row op##_indexed_row = {                                                  \
        .name = "indexed",                                                                     \
        .note = "any axes, 16 bytes of the output a thread: a place is found once for all of " \
                "them, by products in place of divisions",                                     \
        .role = GOP_CONFORMING,                                                                \
        .launch = launches(add_indexed, op_##op),                                              \
        .tunables = {{"threads", 2, {128, MOST_THREADS}}}, /* of a block */                    \
        .plan = add_indexed_plan,                                                              \
    }
ROW(add, ADD_BY_WIDTH);
ROW(multiply_add, ADD_BY_WIDTH);
ROW(fma, ADD_BY_FLOAT);
