/*
 * boxed.cu - transpose of any axes by boxes: thin arrays, short axes, lines of a few items,
 * gaps.
 *
 * A tile of two axes wastes threads if an axis is short. A box spans as many axes as it takes
 * for a long run on both sides, even the same axis for both: 3 by 1024 of a thin array is one
 * run of 3072 items on one side and three runs of 1024 on the other. Words of the input are
 * read at any address; their items are scattered in shared memory to the output's order, and
 * leave in pieces of 16 bytes. A line of the output has the same alignment in shared memory as
 * in memory, so that a piece is aligned on both sides.
 *
 * The place of an item is a sum: a thread always has the same word of a line, so it finds the
 * places in a line once, and adds where the line starts. While a box is stored, the next one is
 * prefetched into L2.
 */
#include "cuda/transpose/squares.h"

enum {
    LEAST_ROOM = 2 * 1024, /* bytes of a box of a small array, */
    MOST_ROOM = 32 * 1024, /* of a large one */
    AT_ONCE = 4,           /* resident blocks per SM, at least */
    HELD = 220 * 1024,     /* bytes of an SM's shared memory for boxes: Hopper has 228 KiB */
    RESERVED = 1024,       /* bytes that CUDA reserves for each block */
    FINEST = 256,          /* bytes of the smallest box that is tried */
};

/* K items of T that a thread loads at once. */
template <typename T, int K> struct word_of {
    typedef T type;
};
template <> struct word_of<uint8_t, 4> {
    typedef uint32_t type;
};
template <> struct word_of<uint16_t, 2> {
    typedef uint32_t type;
};

/* Prefetches a line into L2; sim ignores the hint. */
GOP_DEVICE void fetch_line(const char *address)
{
#if defined(__CUDA_ARCH__)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(address)));
#else
    (void)address;
#endif
}

/* Prefetches the thread's lines of a box; `box` is its lowest address. */
GOP_DEVICE void fetch_lines(const char *box, const int32_t (&line)[FETCHES])
{
#pragma unroll
    for (int k = 0; k < FETCHES; k++)
        if (line[k] >= 0) fetch_line(box + line[k]);
}

/* A word of K items at any address, loaded as the aligned words that hold it. INNER: all of
 * these lie within the input; else the items are loaded one by one. */
template <typename T, int K, bool INNER> struct fetched {
    typename word_of<T, K>::type low, high;
    uint32_t shift;

    GOP_DEVICE void fetch(const char *at)
    {
        if constexpr (K == 1) {
            low = *reinterpret_cast<const decltype(low) *>(at);
        } else if constexpr (INNER) {
            shift = (uint32_t)(uintptr_t)at % 4;
            const uint32_t *const word = reinterpret_cast<const uint32_t *>(at - shift);
            low = word[0];
            high = 0;
            if (shift) high = word[1];
        } else {
            low = 0;
#pragma unroll
            for (int j = 0; j < K; j++)
                low |= (uint32_t) reinterpret_cast<const T *>(at)[j] << 8 * sizeof(T) * j;
        }
    }

    GOP_DEVICE typename word_of<T, K>::type word() const
    {
        if constexpr (K == 1 || !INNER) return low;
        else return __funnelshift_r(low, high, 8 * shift);
    }
};

/* Loads a word of each of N lines and scatters its items to the box. All loads are issued
 * before any result is used. REST: some lines may not exist; they repeat the first. */
template <typename T, int K, bool INNER, bool TURNS, int N, bool REST>
GOP_DEVICE void load_lines(char *box, const char *in, const line_start *from, int line,
                           int step, int lines, const int *place, int turn)
{
    fetched<T, K, INNER> v[N];
    int start[N];
#pragma unroll
    for (int k = 0; k < N; k++) {
        const int i = line + k * step;
        const line_start s = from[REST && i >= lines ? line : i];
        start[k] = s.place;
        v[k].fetch(in + s.at);
    }
#pragma unroll
    for (int k = 0; k < N; k++) {
        const auto word = v[k].word();
#pragma unroll
        for (int j = 0; j < K; j++) {
            const int at = start[k] + place[j];
            char *const to = box + (TURNS ? turned_place(at, turn) : at);
            if constexpr (K == 1) *reinterpret_cast<typename word_of<T, K>::type *>(to) = word;
            else *reinterpret_cast<T *>(to) = (T)(word >> 32 / K * j);
        }
    }
}

/* Loads a box: `high` rows of `wide` threads take as many lines at a time, a word a thread. */
template <typename T, int K, bool INNER, bool TURNS, typename P>
GOP_DEVICE void load_box(char *box, const char *in, const line_start *from, const P &p,
                         box_word<K> word, int ahead)
{
    enum { BATCH = sizeof(T) == 16 ? 4 : 8, REST = BATCH / 2 };
    const int wide = box_width(p), high = BOX_THREADS / wide;
    const int row = (int)threadIdx.x / wide;
    if (row >= high) return;
#pragma unroll 1
    for (int w = (int)threadIdx.x - row * wide; w < p.wide; w += wide) {
        if (p.wide > BOX_THREADS) word = word_of_line<K>(p, w);
        const char *const a = in + word.at;
        int place[K], line = row;
#pragma unroll
        for (int j = 0; j < K; j++) place[j] = word.place[j] + ahead;
#pragma unroll 1
        for (; line + (BATCH - 1) * high < p.lines; line += BATCH * high)
            load_lines<T, K, INNER, TURNS, BATCH, false>(box, a, from, line, high, p.lines,
                                                         place, p.turn);
#pragma unroll 1
        for (; line + 2 * high < p.lines; line += REST * high)
            load_lines<T, K, INNER, TURNS, REST, true>(box, a, from, line, high, p.lines, place,
                                                       p.turn);
        if (line < p.lines)
            load_lines<T, K, INNER, TURNS, 2, true>(box, a, from, line, high, p.lines, place,
                                                    p.turn);
    }
}

/* 16 bytes of a box, whose order the swizzle of rows may have changed. */
template <typename T> GOP_DEVICE uint4 piece_of(const char *box, int at, int mask)
{
    const int turn = at >> 5 & mask;
    uint4 v = *reinterpret_cast<const uint4 *>(box + (at ^ (turn & ~15)));
    if (sizeof(T) > 8 || mask % 16 == 0) return v;
    if (sizeof(T) <= 4 && (turn & 4)) v = make_uint4(v.y, v.x, v.w, v.z);
    if (turn & 8) v = make_uint4(v.z, v.w, v.x, v.y);
    return v;
}

/* Stores one P of a piece. Returns its bytes. */
template <typename P> GOP_DEVICE int store_one(char *out, const char *box, int at, int turn)
{
    *reinterpret_cast<P *>(out) = *reinterpret_cast<const P *>(box + turned_place(at, turn));
    return (int)sizeof(P);
}

/* Stores bytes [at, end) of a box, part of one 16-byte piece, by aligned words. */
template <typename T>
GOP_DEVICE void store_part(char *out, const char *box, int at, int end, int turn)
{
    int n = 0;
    if constexpr (sizeof(T) == 8) store_one<uint64_t>(out, box, at, turn);
    if constexpr (sizeof(T) > 4) return;
    if (sizeof(T) == 1 && at % 2 == 1) n = store_one<uint8_t>(out, box, at, turn);
    if (sizeof(T) <= 2 && (at + n) % 4 == 2 && at + n + 2 <= end)
        n += store_one<uint16_t>(out + n, box, at + n, turn);
#pragma unroll
    for (int k = 0; k < 3; k++)
        if ((at + n) % 4 == 0 && at + n + 4 <= end)
            n += store_one<uint32_t>(out + n, box, at + n, turn);
    if (sizeof(T) <= 2 && at + n + 2 <= end)
        n += store_one<uint16_t>(out + n, box, at + n, turn);
    if (sizeof(T) == 1 && at + n < end) store_one<uint8_t>(out + n, box, at + n, turn);
}

/* The next multiple of 16 bytes. */
GOP_DEVICE int next_piece(int place)
{
    return (place + 15) & ~15;
}

/* Stores the whole pieces of lines first and their ends, which go in parts, afterwards:
 * otherwise the threads of a warp would diverge. */
template <typename T> GOP_DEVICE void store_box(char *out, const char *box,
                                                const line_start *to, const box_form &p,
                                                int ahead, int skip)
{
    const int words = p.to_lines * (int)p.to_pieces.d, bytes = p.to_bytes - skip;
    out -= ahead; /* byte 0 of the box is at a line's `at` in memory */
    ahead += skip;
#pragma unroll 2
    for (int i = threadIdx.x; i < words; i += BOX_THREADS) {
        const int line = (int)quotient(i, p.to_pieces), w = i - line * (int)p.to_pieces.d;
        const line_start s = to[line];
        const int start = s.place + ahead, at = next_piece(start) + 16 * w;
        if (at + 16 <= start + bytes)
            *reinterpret_cast<uint4 *>(out + s.at + at) = piece_of<T>(box, at, p.turn);
    }
    for (int i = threadIdx.x; p.has_ends && i < 2 * p.to_lines; i += BOX_THREADS) {
        const line_start s = to[i / 2];
        const int start = s.place + ahead, last = start + bytes, whole = next_piece(start);
        int first = start, end = whole < last ? whole : last;
        if (i % 2) first = (last & ~15) > end ? last & ~15 : end, end = last;
        if (first < end) store_part<T>(out + s.at + first, box, first, end, p.turn);
    }
}

/* Stores a box item by item, if the output's fastest axis has gaps. */
template <typename T>
GOP_DEVICE void store_items(char *out, const char *box, const line_start *to, const box_form &p)
{
    const int items = p.to_lines * (int)p.to_pieces.d;
#pragma unroll 2
    for (int i = threadIdx.x; i < items; i += BOX_THREADS) {
        const int line = (int)quotient(i, p.to_pieces), x = i - line * (int)p.to_pieces.d;
        const line_start s = to[line];
        *reinterpret_cast<T *>(out + s.at + s.place + x * p.to_step) =
            *reinterpret_cast<const T *>(box +
                                         turned_place(s.place + x * (int)sizeof(T), p.turn));
    }
}

template <typename T, int K, bool IN_SQUARES, typename P>
__global__ void __launch_bounds__(BOX_THREADS, AT_ONCE)
    transpose_boxed_kernel(char *out, const char *in, const __grid_constant__ P p, span whole)
{
    extern __shared__ uint4 storage[];
    __shared__ box_start start[2]; /* of this box and the next */
    char *const box = reinterpret_cast<char *>(storage);
    line_start *const to = reinterpret_cast<line_start *>(box + p.bytes);
    line_start *const from = to + p.to_lines;
    int4 *const lines_of = reinterpret_cast<int4 *>(from);
    const square_starts squares = {lines_of, reinterpret_cast<uint32_t *>(lines_of + p.lines)};
    /* Prefetches before anything else. All boxes have the same shape, and so have a thread's
     * lines. */
    const char *const lowest = in + p.least;
    int32_t own_line[FETCHES];
    box_start first;
    place_box(p, blockIdx.x, first);
#pragma unroll
    for (int k = 0; k < FETCHES; k++) {
        const int i = (int)threadIdx.x + k * BOX_THREADS;
        own_line[k] = i < p.fetches ? line_ahead(p, i) : -1;
    }
    fetch_lines(lowest + first.in, own_line);
    /* by the warp with the fewest table entries to fill */
    if (threadIdx.x == BOX_THREADS - 1) {
        start[0] = first;
        if (blockIdx.x + (int64_t)gridDim.x < p.boxes)
            place_box(p, blockIdx.x + gridDim.x, start[1]);
    }
    if constexpr (IN_SQUARES) place_squares<T>(squares, p, box);
    for (int i = threadIdx.x; !IN_SQUARES && i < p.lines; i += BOX_THREADS) {
        const line_start s = line_read(p, i);
        from[i].at = s.at, from[i].place = s.place;
    }
    for (int i = threadIdx.x; i < p.to_lines; i += BOX_THREADS) {
        const line_start s = start_of(p.to, p.to_axes, i);
        to[i].at = s.at - s.place, to[i].place = s.place;
    }
    const box_word<K> word = word_of_line<K>(p, (int)threadIdx.x % box_width(p));
    /* Main loop: load and scatter a box, prefetch the next one, store. */
    int now = 0;
    grid_dependency_sync();
#pragma unroll 1
    for (int64_t b = blockIdx.x; b < p.boxes; b += gridDim.x, now ^= 1) {
        __syncthreads(); /* the tables are there, the box before has been written */
        const char *const a = in + start[now].in;
        char *const o = out + start[now].out;
        const int skip = start[now].skip, ahead = p.to_bytes ? (int)((uintptr_t)o % 16) : 0;
        const bool is_inner = (uintptr_t)(a + p.least) / 4 * 4 >= whole.first &&
                              ((uintptr_t)(a + p.most) + 4) / 4 * 4 <= whole.end;
        if constexpr (IN_SQUARES) load_in_squares<T>(box, a, squares, p, word, ahead, is_inner);
        else if (K > 1 && !is_inner) load_box<T, K, false, true>(box, a, from, p, word, ahead);
        else if (p.turn) load_box<T, K, true, true>(box, a, from, p, word, ahead);
        else load_box<T, K, true, false>(box, a, from, p, word, ahead);
        __syncthreads();
        if (b + gridDim.x < p.boxes) fetch_lines(lowest + start[now ^ 1].in, own_line);
        if (threadIdx.x == BOX_THREADS - 1 && b + 2 * (int64_t)gridDim.x < p.boxes)
            place_box(p, (uint32_t)(b + 2 * (int64_t)gridDim.x), start[now]);
        if (p.to_bytes) store_box<T>(o, box, to, p, ahead, skip);
        else store_items<T>(o, box, to, p);
    }
}

/* ---- on the host ---- */

struct boxed_plan {
    boxing boxes;
    unsigned blocks;
};

template <typename T, int K, bool IN_SQUARES, typename P>
static gop_status launch_boxed(gop_ctx *ctx, const gop_task *task, unsigned blocks, const P &p)
{
    return GOP_LAUNCH_FIRST(ctx, task, 0, (transpose_boxed_kernel<T, K, IN_SQUARES, P>),
                            dim3(blocks), BOX_THREADS, box_shared(p), (char *)task->out[0].data,
                            (const char *)task->in[0].data, p, span_of(task));
}

template <typename T, int K, bool IN_SQUARES = false>
static gop_status transpose_boxed(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const boxed_plan &p = *GOP_OWN(const boxed_plan, task->plan);
    brief_boxing brief;
    return transpose_brief_boxes(p.boxes, &brief)
               ? launch_boxed<T, K, IN_SQUARES>(ctx, task, p.blocks, brief)
               : launch_boxed<T, K, IN_SQUARES>(ctx, task, p.blocks, p.boxes);
}

/* A small array is cut finer, so that every SM has two boxes if there are enough bytes. */
static gop_status transpose_boxed_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    gop_permutation g = task->geometry.permutation;
    boxed_plan &own = *GOP_OWN(boxed_plan, plan);
    const boxing &p = own.boxes;
    const int item = transpose_widen(task, &g);
    int64_t room = MOST_ROOM;
    while (room > LEAST_ROOM && g.size * item < room * 2 * ctx->info.processors) room /= 2;
    bool fits = g.size > 1;
    while (fits && !transpose_boxes(task, g, item, room, &own.boxes))
        fits = (room /= 2) >= FINEST;
    if (!fits)
        return gop_fail(GOP_REFUSED,
                        "transpose: the boxed kernel takes arrays of several items and at most "
                        "%d axes that do not merge; this call has %lld items and %d axes",
                        COUNTED, (long long)g.size, g.rank);
    plan->launch =
        p.rows ? item == 1 ? transpose_boxed<uint8_t, SIDE, true>
                           : transpose_boxed<uint16_t, SIDE, true>
        : item == 1
            ? p.per_word == 4 ? transpose_boxed<uint8_t, 4> : transpose_boxed<uint8_t, 1>
        : item == 2
            ? p.per_word == 2 ? transpose_boxed<uint16_t, 2> : transpose_boxed<uint16_t, 1>
        : item == 4 ? transpose_boxed<uint32_t, 1>
        : item == 8 ? transpose_boxed<uint64_t, 1>
                    : transpose_boxed<uint4, 1>;
    const int64_t at_once = min_of(HELD / (int64_t)(box_shared(p) + RESERVED), AT_ONCE);
    const int64_t each = blocks_for(p.boxes, at_once * ctx->info.processors); /* of a block */
    own.blocks = (unsigned)blocks_for(p.boxes, each);
    /* The first box waits for its own prefetches, which two boxes do not make up for. */
    if (each < 3) own.boxes.fetches = 0;
    return GOP_OK;
}

extern const gop_row transpose_boxed_row = {
    .name = "boxed",
    .note = "a box of as many axes as make long runs on both sides: items of words that start "
            "anywhere are scattered in shared memory, and leave in pieces of 16 bytes",
    .role = GOP_CONFORMING,
    .plan = transpose_boxed_plan,
    .dtypes = GOP_EVERY_DTYPE,
};
