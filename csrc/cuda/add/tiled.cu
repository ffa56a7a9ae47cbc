/*
 * tiled.cu - add, multiply_add and fma of operands in different orders of axes, by tiles in
 * shared memory.
 *
 * Neighbours in the output are far apart in an operand of another order, so accesses would not
 * coalesce. A block has a box of the output with a run of neighbours in every operand. An
 * operand of another order is read along its own run and stored to shared memory in the
 * output's order. Then the box is computed line by line of the output; operands in the output's
 * order are read directly. Rows of a tile are an odd number of words, so that a column lies in
 * different banks. If items are smaller than a word, a thread reads a word of as many lines as
 * a word has items, and transposes this square in registers.
 */
#include "cuda/add/gathered.h"
#include "cuda/add/tiles.h"
#include "cuda/transpose/turn.h"

/* A word of shared memory: an item, or neighbours that fill 4 bytes. */
template <typename T, bool IS_SMALL = sizeof(T) < 4> struct tile_word {
    typedef T type;
    enum {
        N = 1,
        ASKED = sizeof(T) == 4 ? 8 : 4
    }; /* lines whose loads a thread issues at once */
};
template <typename T> struct tile_word<T, true> {
    typedef uint32_t type;
    enum { N = 4 / sizeof(T), ASKED = sizeof(T) };
};
template <typename T> using word_t = typename tile_word<T>::type;

/* `count` of N elements from an address on, `step` apart. */
template <typename T> GOP_DEVICE word_t<T> load_word(const T *from, int64_t step, int count)
{
    enum { N = tile_word<T>::N };
    if constexpr (N == 1) return *from;
    else {
        if (step == 1 && count >= N && (uintptr_t)from % 4 == 0)
            return *reinterpret_cast<const uint32_t *>(from);
        uint32_t word = 0;
#pragma unroll
        for (int k = 0; k < N; k++) {
            if (k >= count) continue;
            uint32_t bits = 0;
            const T item = from[k * step];
            __builtin_memcpy(&bits, &item, sizeof(T));
            word |= bits << 8 * (int)sizeof(T) * k;
        }
        return word;
    }
}

template <typename T> GOP_DEVICE word_t<T> repeated_word(T item)
{
    if constexpr (tile_word<T>::N == 1) return item;
    else {
        uint32_t bits = 0;
        __builtin_memcpy(&bits, &item, sizeof(T));
        return bits * (sizeof(T) == 1 ? 0x01010101u : 0x00010001u);
    }
}

template <typename T> GOP_DEVICE void store_word(T *to, word_t<T> word, int count)
{
    enum { N = tile_word<T>::N };
    if constexpr (N == 1) store_streaming(to, word);
    else {
        if (count >= N && (uintptr_t)to % 4 == 0)
            return store_streaming(reinterpret_cast<uint32_t *>(to), word);
#pragma unroll
        for (int k = 0; k < N; k++) {
            const uint32_t bits = word >> 8 * (int)sizeof(T) * k;
            if (k < count) __builtin_memcpy(to + k, &bits, sizeof(T));
        }
    }
}

template <typename Op, typename T>
GOP_DEVICE word_t<T> result_of(const word_t<T> (&from)[Op::INPUTS])
{
    typedef typename computed_as<Op, T>::type item;
    enum { COUNT = sizeof(word_t<T>) / sizeof(item) };
    item in[Op::INPUTS][COUNT], v[COUNT];
    __builtin_memcpy(in, from, sizeof in);
#pragma unroll
    for (int k = 0; k < COUNT; k++) v[k] = Op::of(in[0][k], in[1][k], in[Op::INPUTS - 1][k]);
    word_t<T> word;
    __builtin_memcpy(&word, v, sizeof word);
    return word;
}

template <int N, typename W> GOP_DEVICE void turn(W (&words)[N])
{
    if constexpr (N > 1) turn_words(words);
}

/* Loads an operand's part of the box into its tile: words along its run, of N lines each; ASKED
 * loads are issued before any result is used. */
template <typename T> GOP_DEVICE void load_tile(word_t<T> *tile, const T *in,
                                                const tiled_line *lines, int o,
                                                const tiled_boxes &p, const box_start &s)
{
    enum { N = tile_word<T>::N, ASKED = tile_word<T>::ASKED };
    const box_walk &walk = p.in[o];
    const int row = (int)quotient(threadIdx.x, walk.wide), wide = (int)walk.wide.d * N;
    const int end = row < walk.high ? run_left(p, walk, s) : 0;
#pragma unroll 1
    for (int x = (int)threadIdx.x * N - row * wide; x < end; x += wide) {
        const T *const from = in + x * walk.step;
        int32_t place[N];
#pragma unroll
        for (int k = 0; k < N; k++) {
            place[k] = 0;
            along_axes(p, walk, s, 0, walk.run_axes, x + k,
                       [&](const box_axis &axis, int32_t i) { place[k] += i * axis.place[o]; });
            place[k] /= N;
        }
#pragma unroll 1
        for (int line = row * N; line < walk.lines; line += ASKED * N * walk.high) {
            word_t<T> v[ASKED][N];
            int32_t to[ASKED];
#pragma unroll
            for (int a = 0; a < ASKED; a++) {
                const int first = line + a * N * walk.high;
                to[a] = -1;
                if (first >= walk.lines) continue;
#pragma unroll
                for (int k = 0; k < N; k++) {
                    const tiled_line l = lines[first + k];
                    if (k == 0) to[a] = l.place;
                    v[a][k] = word_t<T>{};
                    if (l.place >= 0) v[a][k] = load_word(from + l.at, walk.step, end - x);
                }
            }
#pragma unroll
            for (int a = 0; a < ASKED; a++) {
                if (to[a] < 0) continue;
                turn<N>(v[a]);
#pragma unroll
                for (int k = 0; k < N; k++)
                    if (x + k < end) tile[place[k] + to[a]] = v[a][k];
            }
        }
    }
}

/* Fills the tables of lines: those of the output, and of each tile. */
template <typename Op, typename T>
GOP_DEVICE void fill_tables(char *room, const tiled_boxes &p, const box_start &s)
{
    enum { INPUTS = Op::INPUTS };
    box_line<INPUTS> *const out = reinterpret_cast<box_line<INPUTS> *>(room);
    for (int i = threadIdx.x; i < p.out.lines; i += TILE_THREADS) {
        box_line<INPUTS> line;
#pragma unroll
        for (int o = 0; o <= INPUTS; o++)
            line.at[o] = o && p.by[o - 1] == THROUGH_TILE ? 0 : s.at[o];
        const bool there = along_line(p, p.out, s, i, [&](const box_axis &axis, int32_t x) {
#pragma unroll
            for (int o = 0; o <= INPUTS; o++)
                line.at[o] += o && p.by[o - 1] == THROUGH_TILE
                                  ? x * axis.place[o - 1] / tile_word<T>::N
                                  : x * axis.at[o];
        });
        if (!there) line.at[0] = box_line<INPUTS>::NONE;
        out[i] = line;
    }
#pragma unroll
    for (int o = 0; o < INPUTS; o++) {
        if (p.by[o] != THROUGH_TILE) continue;
        tiled_line *const in = reinterpret_cast<tiled_line *>(room + p.table[o]);
        for (int i = threadIdx.x; i < p.in[o].lines; i += TILE_THREADS) {
            tiled_line line = {s.at[o + 1], 0};
            const bool there =
                along_line(p, p.in[o], s, i, [&](const box_axis &axis, int32_t x) {
                    line.at += x * axis.at[o + 1];
                    line.place += x * axis.place[o];
                });
            line.place = there ? line.place / tile_word<T>::N : -1;
            in[i] = line;
        }
    }
}

template <typename Op, typename T> __global__ void __launch_bounds__(TILE_THREADS)
    add_tiled_kernel(operands<T> at, const __grid_constant__ tiled_boxes p)
{
    enum { N = tile_word<T>::N, INPUTS = Op::INPUTS, ASKED = sizeof(T) > 8 ? 2 : 4 };
    extern __shared__ uint4 room[];
    __shared__ box_start s;
    char *const bytes = reinterpret_cast<char *>(room);
    if (threadIdx.x == 0) find_box<INPUTS>(p, s);
    __syncthreads();
    fill_tables<Op, T>(bytes, p, s);
    __syncthreads();
    grid_dependency_sync();
    const T *const in[3] = {at.a, at.b, at.c};
    word_t<T> *tile[INPUTS];
#pragma unroll
    for (int o = 0; o < INPUTS; o++) {
        tile[o] = reinterpret_cast<word_t<T> *>(bytes + p.tile[o]);
        if (p.by[o] == THROUGH_TILE)
            load_tile(tile[o], in[o], reinterpret_cast<const tiled_line *>(bytes + p.table[o]),
                      o, p, s);
    }
    __syncthreads();

    const box_line<INPUTS> *const lines = reinterpret_cast<const box_line<INPUTS> *>(bytes);
    const int row = (int)quotient(threadIdx.x, p.out.wide), high = p.out.high;
    const int wide = (int)p.out.wide.d * N, end = row < high ? run_left(p, p.out, s) : 0;
#pragma unroll 1
    for (int x = (int)threadIdx.x * N - row * wide; x < end; x += wide)
#pragma unroll 1
        for (int line = row; line < p.out.lines; line += ASKED * high) {
            word_t<T> v[ASKED][INPUTS];
            int64_t to[ASKED];
#pragma unroll
            for (int a = 0; a < ASKED; a++) {
                to[a] = box_line<INPUTS>::NONE;
                if (line + a * high >= p.out.lines) continue;
                const box_line<INPUTS> &l = lines[line + a * high];
                to[a] = l.at[0];
                if (to[a] == box_line<INPUTS>::NONE) continue;
#pragma unroll
                for (int o = 0; o < INPUTS; o++) {
                    const int64_t from = l.at[o + 1];
                    if (p.by[o] == THROUGH_TILE) v[a][o] = tile[o][(int32_t)from + x / N];
                    else if (p.by[o] == IN_PLACE)
                        v[a][o] = load_word(in[o] + from + x, 1, end - x);
                    else v[a][o] = repeated_word(in[o][from]);
                }
            }
#pragma unroll
            for (int a = 0; a < ASKED; a++)
                if (to[a] != box_line<INPUTS>::NONE)
                    store_word(at.out + to[a] + x, result_of<Op, T>(v[a]), end - x);
        }
}

template <typename Op, typename T>
static gop_status add_tiled(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const tiled_plan &own = *GOP_OWN(const tiled_plan, task->plan);
    return GOP_LAUNCH_FIRST(ctx, task, 0, (add_tiled_kernel<Op, T>), own.boxes, TILE_THREADS,
                            own.shared, operands_of<T>(task), own.p);
}

static gop_status add_tiled_plan(const gop_ctx *ctx, const gop_task *task, gop_plan *plan)
{
    return add_tiles(task, ctx->info.processors, GOP_OWN(tiled_plan, plan));
}

#define ROW(op, launches)                                                                      \
    extern const gop_row op##_tiled_row = {                                                    \
        .name = "tiled",                                                                       \
        .note = "operands in another order by way of a tile in shared memory: every one is "   \
                "read along its own run",                                                      \
        .role = GOP_CONFORMING,                                                                \
        .launch = launches(add_tiled, op_##op),                                                \
        .plan = add_tiled_plan,                                                                \
    }
ROW(add, ADD_BY_WIDTH);
ROW(multiply_add, ADD_BY_WIDTH);
ROW(fma, ADD_BY_FLOAT);
