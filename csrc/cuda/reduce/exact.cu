/*
 * exact.cu - reduce: sums and means of exact/v1, the real sum of the terms rounded once.
 *
 * The floor is to read every element once. The difficulty is that a lossless sum is as wide as
 * all exponents, too wide for registers. So every thread keeps the words of its own sum in
 * shared memory and adds each term where its exponent says. Integers add in any order: threads,
 * blocks and parts of an output are combined as suits memory, and the bits are those of the
 * CPU. Sums of doubles have 67 digits, but most need only a few: a block adds up, rounds and
 * clears only the digits that its terms reached.
 */
#include <string.h>

#include "cuda/reduce/exact_terms.h"
#include "cuda/reduce/plan.h"

enum {
    HEAD_BITS = 3,   /* of a head that `special` has; above them is how many terms there are */
    RANGE_BITS = 14, /* below both in the head of a part: its digits, from low to high */
    QUOTIENT = 5,    /* words below a sum that a quotient's leading 64 bits may need */
    MERGE = 256,     /* threads that merge the parts of outputs */
    MOST_PARTS = 1024
};

/* ---- outputs ---- */

/* Stores what the call asks for of a sum, whose carried digits stand `stride` apart. */
template <typename G>
GOP_DEVICE void finish_sum(const exact_args<G> &r, int64_t o, int64_t head, gop_exact_line line)
{
    const int64_t at = place_of(r.g, 0, r.g.kept, o).out;
    const int64_t special = head & ((1 << HEAD_BITS) - 1);
    const int64_t count = r.where ? head >> HEAD_BITS : r.g.count;
    if (r.whole_sums) {
        int64_t *const to = static_cast<int64_t *>(r.out) + at;
        to[0] = special;
        to[r.apart] = count;
        for (int w = 0; w < line.words; w++)
            to[(GOP_EXACT_HEAD + w) * r.apart] = line.word[w * line.stride];
        return;
    }
    const gop_exact_format f = gop_exact_format_of(r.out_dtype);
    const uint64_t initial = r.initial[r.is_complex ? o & 1 : 0];
    const uint64_t bits = gop_exact_finish(special, line, r.is_mean ? (uint64_t)count : 1,
                                           r.has_initial ? &initial : nullptr, f);
    gop_exact_store(static_cast<char *>(r.out) + at * (f.bits / 8), bits, f.bits);
}

/* ---- a block's outputs ---- */

template <typename K> constexpr int exact_blocks()
{
    return 1024 / K::THREADS > 6 ? 6 : 1024 / K::THREADS;
}

/* Adds up the threads' words of each output. A thread, or a warp, does a digit of an output,
 * and puts the sum where the first of its threads is, or among the parts of outputs. */
template <typename K, typename G>
GOP_DEVICE void add_digits(const exact_args<G> &r, uint64_t *row, exact_range range,
                           int64_t output0, int beside, int64_t part)
{
    enum { THREADS = K::THREADS, HEAD = K::ROWS };
    const int lanes = r.along < 32 ? 1 : 32, lane = threadIdx.x % lanes;
    const int digits = range.high - range.low + 1;
    for (int i = threadIdx.x / lanes; i < beside * (digits + 1); i += THREADS / lanes) {
        const int d = i / beside, which = i - d * beside;
        const int w = d < digits ? range.low + d : +K::DIGITS;
        const int64_t output = output0 + which;
        uint64_t *const first = row + which % r.near + which / r.near * r.near * r.along;
        int64_t sum = 0;
        int specials = 0;
        for (int j = lane; j < r.along; j += lanes) {
            if (w < K::DIGITS) sum += K::digit(first + j * r.near, w);
            else {
                const int64_t head = (int64_t)first[j * r.near + HEAD * THREADS];
                sum += head >> HEAD_BITS;
                specials |= (int)head & ((1 << HEAD_BITS) - 1);
            }
        }
        for (int d = lanes / 2; d > 0; d /= 2) {
            sum += shuffle_down(sum, d, 32);
            specials |= shuffle_down(specials, d, 32);
        }
        if (lane > 0) continue;
        if (w == K::DIGITS) {
            sum = sum << HEAD_BITS | specials;
            if (r.is_merged) sum = sum << RANGE_BITS | range.low << RANGE_BITS / 2 | range.high;
        }
        if (!r.is_merged) first[(w < K::DIGITS ? K::row(w) : +HEAD) * THREADS] = (uint64_t)sum;
        else if (output < r.g.outputs)
            r.sums[(output * (K::DIGITS + 1) + w) * r.parts + part] = sum;
    }
}

/* The words that rounding looks at: those of the sum, two for what is carried out of it, and
 * those of a quotient. A call that wants words, or adds one more number, takes all. */
template <typename G>
GOP_DEVICE exact_range rounded_words(const exact_args<G> &r, exact_range digits, int first)
{
    const int last = gop_exact_words(r.dtype) - 1;
    if (r.whole_sums || r.has_initial) return {0, last};
    const int low = digits.low + first - (r.is_mean ? QUOTIENT : 0),
              high = digits.high + first + 2;
    return {low < 0 ? 0 : low, high > last ? last : high};
}

/* Words [range.low, range.high] of `word` as a line. */
template <typename G>
GOP_DEVICE gop_exact_line line_of(const exact_args<G> &r, int64_t *word, exact_range range)
{
    gop_exact_line line = gop_exact_line_of(word, 1, r.dtype);
    line.first += range.low;
    line.words = range.high - range.low + 1;
    return line;
}

/* Output o, from the digits of the kernel to words of exact/v1. */
template <typename K, typename G> GOP_DEVICE void
finish_digits(const exact_args<G> &r, int64_t o, const int64_t *first, exact_range range)
{
    int64_t word[GOP_EXACT_WIDE];
    const exact_range words = rounded_words(r, range, K::FIRST);
    const gop_exact_line line = line_of(r, word, words);
    int64_t over = 0;
#pragma unroll 1
    for (int w = words.low; w <= words.high; w++) {
        const int d = w - K::FIRST;
        int64_t digit = over;
        if (d >= range.low && d <= range.high) digit += first[K::row(d) * K::THREADS];
        over = digit >> 32;
        if (w < words.high) digit &= 0xffffffff;
        word[w - words.low] = digit << K::LEFT;
    }
    gop_exact_carry(line);
    finish_sum(r, o, first[K::ROWS * K::THREADS], line);
}

/* The digits that any thread of the block has. */
GOP_DEVICE void widen(exact_range *range, exact_range own)
{
    if (own.low > own.high) return;
    atomicMin(&range->low, own.low);
    atomicMax(&range->high, own.high);
}

template <typename K, int HOW, typename G>
__global__ void __launch_bounds__(K::THREADS, exact_blocks<K>())
    reduce_exact_kernel(const __grid_constant__ exact_args<G> r)
{
    enum { THREADS = K::THREADS, HEAD = K::ROWS };
    __shared__ uint64_t row[K::ROWS + 1][THREADS];
    __shared__ exact_range ranges[2]; /* of this item and of the next */
    const exact_range none = {K::DIGITS - 1, 0}, all = {0, K::DIGITS - 1};
    const int t = threadIdx.x, beside = THREADS / r.along; /* outputs of a block */
    const int mine = t % r.near + t / r.near / r.along * r.near;
    const int64_t groups = (r.g.outputs + beside - 1) / beside;
#pragma unroll
    for (int w = 0; w < K::ROWS; w++) row[w][t] = 0;
    if (t < 2) ranges[t] = K::BINS > 0 ? none : all;
    __syncthreads();
    grid_dependency_sync();
    int turn = 0;
#pragma unroll 1
    for (int64_t item = blockIdx.x; item < groups * r.parts; item += gridDim.x) {
        const int64_t group = item / r.parts, part = item - group * r.parts;
        const int64_t o = group * beside + mine;
        const bool is_brief = !r.is_merged && r.g.count <= BRIEF_TERMS;
        exact_own<K> own = {&row[0][t], 0, none, 0, {}, {}};
        int64_t taken = 0;
        if (o < r.g.outputs) {
            typedef exact_reader<K, HOW, G> R;
            const reduce_place at = place_of(r.g, 0, r.g.kept, o);
            const int64_t step = (int64_t)r.along * R::N, batch = R::LOADS * step;
            const int64_t k = part * batch + (int64_t)(t / r.near % r.along) * R::N;
            const int64_t line = HOW == EVEN ? r.g.in[r.g.kept] : HOW == GROUPED;
            R from = {r,
                      static_cast<const typename K::T *>(r.a) + at.in + k * line,
                      at.in,
                      r.where ? r.where + at.where : nullptr,
                      k,
                      r.g.count,
                      step,
                      r.parts * batch,
                      step * line,
                      r.parts * batch * line,
                      0};
            sum_own<K, HOW, G>(from, own, is_brief);
            taken = from.taken;
        }
        row[HEAD][t] = (uint64_t)(taken << HEAD_BITS | own.special);
        if constexpr (K::BINS > 0) widen(&ranges[turn], own.range);
        __syncthreads();
        exact_range range = ranges[turn];
        if (range.low > range.high) range = {0, 0};
        add_digits<K>(r, &row[0][0], range, group * beside, beside, part);
        __syncthreads();
        if (K::BINS > 0 && t == 0) ranges[turn] = none;
        turn ^= 1;
        if (!r.is_merged && t < beside && group * beside + t < r.g.outputs) {
            uint64_t *const first = &row[0][t % r.near + t / r.near * r.near * r.along];
            finish_digits<K>(r, group * beside + t, reinterpret_cast<int64_t *>(first), range);
        }
        __syncthreads();
        if (item + gridDim.x >= groups * r.parts) return;
        if (K::BINS > 0) {
#pragma unroll 1
            for (int w = range.low; w <= range.high; w++) row[w][t] = 0;
        } else {
#pragma unroll
            for (int w = 0; w < K::ROWS; w++) row[w][t] = 0;
        }
    }
}

GOP_DEVICE exact_range range_of(int64_t head)
{
    const int mask = (1 << RANGE_BITS / 2) - 1;
    return {(int)head >> RANGE_BITS / 2 & mask, (int)head & mask};
}

/* Adds the parts of an output, digit by digit, by `lanes` threads: a warp or a block. */
template <typename K, typename G> __global__ void __launch_bounds__(MERGE)
    reduce_exact_merge_kernel(const __grid_constant__ exact_args<G> r, int lanes)
{
    enum { WORDS = GOP_EXACT_WIDE, WARPS = MERGE / 32 };
    __shared__ int64_t word[WARPS][WORDS];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    const bool together = lanes > 32;
    const int team = together ? 0 : warp; /* whose output it is */
    const int64_t o = together ? (int64_t)blockIdx.x : blockIdx.x * (int64_t)WARPS + warp;
    grid_dependency_sync();
    for (int i = t; i < WARPS * WORDS; i += MERGE) word[i / WORDS][i % WORDS] = 0;
    __syncthreads();
    exact_range range = {K::DIGITS - 1, 0};
    int64_t count = 0;
    int special = 0;
    const int64_t *const sums = r.sums + o * (K::DIGITS + 1) * r.parts;
    const int64_t *const heads = sums + K::DIGITS * r.parts;
    if (o < r.g.outputs)
        for (int64_t p = lane; p < r.parts; p += 32) {
            const exact_range part = range_of(heads[p]);
            range.low = part.low < range.low ? part.low : range.low;
            range.high = part.high > range.high ? part.high : range.high;
            special |= (int)(heads[p] >> RANGE_BITS) & ((1 << HEAD_BITS) - 1);
            count += heads[p] >> (RANGE_BITS + HEAD_BITS);
        }
    for (int d = 16; d > 0; d /= 2) {
        const int low = shuffle_xor(range.low, d), high = shuffle_xor(range.high, d);
        range.low = low < range.low ? low : range.low;
        range.high = high > range.high ? high : range.high;
        special |= shuffle_xor(special, d);
        count += shuffle_xor(count, d);
    }
    const exact_range words = rounded_words(r, range, K::FIRST);
    for (int w = range.low + (together ? warp : 0); w <= range.high && o < r.g.outputs;
         w += together ? (int)WARPS : 1) {
        int64_t sum = 0;
        for (int64_t p = lane; p < r.parts; p += 32) {
            const exact_range part = range_of(heads[p]);
            if (w >= part.low && w <= part.high) sum += sums[w * r.parts + p];
        }
        for (int d = 16; d > 0; d /= 2) sum += shuffle_down(sum, d, 32);
        if (lane == 0) word[team][K::FIRST + w] = sum << K::LEFT;
    }
    __syncthreads();
    if (lane > 0 || (together && warp > 0) || o >= r.g.outputs) return;
    const gop_exact_line line = line_of(r, word[team] + words.low, words);
    gop_exact_carry(line);
    finish_sum(r, o, count << HEAD_BITS | special, line);
}

/* Floats of every width have words of the same weights: one kernel merges them all. */
template <typename K> struct merged_as {
    typedef K type;
};
template <typename T> struct merged_as<exact_floats<T>> {
    typedef exact_floats<float> type;
};

/* ---- the plan ---- */

template <typename G> struct exact_launch {
    exact_args<G> r;
    unsigned blocks;
};

template <typename K, int HOW, typename G>
static gop_status reduce_exact(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const exact_launch<G> &own = *GOP_OWN(const exact_launch<G>, task->plan);
    exact_args<G> r = own.r;
    r.a = task->in[0].data;
    r.where = task->nin > 1 ? static_cast<const uint8_t *>(task->in[1].data) : nullptr;
    r.out = task->out[0].data;
    r.sums = static_cast<int64_t *>(task->scratch);
    GOP_TRY(GOP_LAUNCH_FIRST(ctx, task, r.is_merged, (reduce_exact_kernel<K, HOW, G>),
                             dim3(own.blocks), dim3(K::THREADS), 0, r));
    if (!r.is_merged) return GOP_OK;
    const int lanes = r.g.outputs < 1024 ? (int)MERGE : 32;
    const int64_t blocks = blocks_for(r.g.outputs, MERGE / lanes);
    return GOP_LAUNCH_EARLY(ctx, (reduce_exact_merge_kernel<typename merged_as<K>::type, G>),
                            dim3((unsigned)blocks), dim3(MERGE), 0, r, lanes);
}

/* Makes complex numbers pairs of reals along one more kept axis. */
static void split_parts(const gop_task *task, gop_reduction *g)
{
    const gop_array *out = &task->out[0];
    const bool sums = task->call->params.reduce.exact == GOP_EXACT_SUMS;
    for (int d = g->kept + g->reduced; d > g->kept; d--) {
        g->extent[d] = g->extent[d - 1];
        g->in[d] = 2 * g->in[d - 1];
        g->where[d] = g->where[d - 1];
    }
    for (int d = 0; d < g->kept; d++) {
        g->in[d] *= 2;
        if (!sums) g->out[d] *= 2;
    }
    g->extent[g->kept] = 2;
    g->in[g->kept] = 1;
    g->where[g->kept] = 0;
    g->out[g->kept] =
        sums ? out->strides[out->ndim - 1] / 8 * gop_exact_numbers(task->in[0].dtype) : 1;
    g->kept++;
    g->outputs *= 2;
}

static bool are_columns(const gop_reduction &g)
{
    if (g.kept == 0 || g.reduced == 0) return g.kept > 0;
    return gop_magnitude(g.in[g.kept - 1]) < gop_magnitude(g.in[g.kept + g.reduced - 1]);
}

/* Whether groups of n neighbours are aligned and divide all lines. */
static bool are_grouped(const gop_task *task, const gop_reduction &g, int n)
{
    if (g.reduced != 1 || g.in[g.kept] != 1 || are_columns(g)) return false;
    int64_t bits = g.count;
    for (int d = 0; d < g.kept; d++) bits |= g.in[d];
    return bits % n == 0 && (uintptr_t)task->in[0].data % 16 == 0;
}

/* Chooses how threads share outputs, and how many parts these are cut into. */
template <typename G> static void share(const gop_reduction &g, int threads, int64_t resident,
                                        int neighbours, exact_args<G> *r)
{
    enum {
        SHORTEST = 64, /* elements of a thread in a part */
        FEW_BESIDE = 8 /* outputs of a block, below which another kernel rounds them */
    };
    /* Elements that are worth a thread: more if a block has fewer threads, since each then has
     * more words. And threads that read whole sectors. */
    const int enough = 16384 / threads, least = neighbours > 1 ? 2 : 4;
    const bool columns = are_columns(g);
    r->near = 1;
    while (columns && r->near < g.extent[g.kept - 1] && r->near < threads) r->near *= 2;
    const int most = threads / r->near;
    r->along = !columns && least < most ? least : 1;
    while (2 * r->along <= most &&
           (g.count >= 2 * (int64_t)r->along * enough ||
            (g.outputs * r->along < resident && g.count >= 2 * (int64_t)r->along * neighbours)))
        r->along *= 2;
    const int64_t blocks = blocks_for(g.outputs, threads / r->along);
    int64_t parts = blocks ? resident / threads / blocks : 1;
    if (parts > g.count / (r->along * (int64_t)SHORTEST))
        parts = g.count / (r->along * (int64_t)SHORTEST);
    if (parts > MOST_PARTS) parts = MOST_PARTS;
    r->parts = parts < 1 ? 1 : parts;
    r->is_merged = r->parts > 1 || threads / r->along < FEW_BESIDE;
}

template <typename K, int HOW, typename G> static void
plan_how(const gop_ctx *ctx, const gop_task *task, const gop_reduction &g, gop_plan *plan)
{
    typedef exact_reader<K, HOW, G> R;
    const gop_reduce_params &params = task->call->params.reduce;
    const gop_array &out = task->out[0];
    exact_launch<G> &own = *GOP_OWN(exact_launch<G>, plan);
    exact_args<G> &r = own.r;
    memset(&own, 0, sizeof own);
    reduce_fill_axes(g, &r.g);
    r.is_mean = params.op == GOP_MEAN;
    r.whole_sums = params.exact == GOP_EXACT_SUMS;
    r.has_initial = params.has_initial;
    memcpy(r.initial, params.initial.f, sizeof r.initial);
    r.dtype = task->in[0].dtype;
    r.out_dtype = out.dtype;
    r.is_complex = r.dtype == GOP_COMPLEX64 || r.dtype == GOP_COMPLEX128;
    r.apart = r.whole_sums ? out.strides[out.ndim - 1] / 8 : 0;
    share(g, K::THREADS, (int64_t)K::THREADS * exact_blocks<K>() * ctx->info.processors, R::N,
          &r);
    const int64_t items = blocks_for(g.outputs, K::THREADS / r.along) * r.parts;
    const int64_t resident = (int64_t)exact_blocks<K>() * ctx->info.processors;
    own.blocks = (unsigned)(K::BINS > 0 && items > resident ? resident : blocks_for(items, 1));
    if (r.is_merged)
        plan->scratch = (size_t)(g.outputs * (K::DIGITS + 1) * r.parts) * sizeof(int64_t);
    plan->launch = reduce_exact<K, HOW, G>;
}

typedef void (*exact_planner)(const gop_ctx *ctx, const gop_task *task, const gop_reduction &g,
                              gop_plan *plan);

template <typename K> static void plan_reals(const gop_ctx *ctx, const gop_task *task,
                                             const gop_reduction &g, gop_plan *plan)
{
    if (task->nin > 1 || g.reduced > 1 || g.kept + g.reduced > BRIEF)
        plan_how<K, ANYWHERE, gop_reduction>(ctx, task, g, plan);
    else if (are_grouped(task, g, 16 / sizeof(typename K::T)))
        plan_how<K, GROUPED, reduce_axes<BRIEF>>(ctx, task, g, plan);
    else plan_how<K, EVEN, reduce_axes<BRIEF>>(ctx, task, g, plan);
}

static gop_status reduce_exact_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    static const exact_planner floats[] = {
        plan_reals<exact_floats<float16>>, plan_reals<exact_floats<bfloat16>>,
        plan_reals<exact_floats<float>>,   plan_reals<exact_doubles>,
        plan_reals<exact_floats<float>>,   plan_reals<exact_doubles>,
    };
    const gop_dtype dtype = task->in[0].dtype;
    gop_reduction g = task->geometry.reduction;
    if (dtype == GOP_COMPLEX64 || dtype == GOP_COMPLEX128) split_parts(task, &g);
    if (dtype >= GOP_FLOAT16) floats[dtype - GOP_FLOAT16](ctx, task, g, plan);
    else plan_how<exact_whole, ANYWHERE, gop_reduction>(ctx, task, g, plan);
    return GOP_OK;
}

extern const gop_row reduce_exact_row = {
    .name = "exact",
    .note = "integers that no order changes: every thread has the words of its sum in shared "
            "memory, where no two lanes meet",
    .role = GOP_CONFORMING,
    .plan = reduce_exact_plan,
    .dtypes = GOP_EVERY_DTYPE,
    .exact = 1,
};
