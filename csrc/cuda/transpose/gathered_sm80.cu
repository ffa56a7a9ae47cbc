/*
 * gathered_sm80.cu - transpose of any axes by boxes that are read as they lie: thin arrays,
 * short axes, small items in unaligned lines.
 *
 * A box, shaped as in boxed, comes to shared memory by asynchronous copies of 16 bytes, gaps
 * included, while the box before is written. Each thread then gathers the items of aligned
 * words of the output.
 *
 * Lines of the output are cut into equal groups. A thread has the same word of many groups, so
 * that it finds the places of its items once and adds where the group starts. Groups are sorted
 * by their offset from a multiple of 4 bytes.
 */
#include "cuda/common/cp_async.h"
#include "cuda/transpose/gathers.h"

enum {
    LEAST_BOX = 2 * 1024,   /* bytes of a box of a small array, about, */
    MOST_BOX = 16 * 1024,   /* of a large one */
    BLOCKS = 4,             /* of an SM, at least */
    PROCESSOR = 220 * 1024, /* bytes of shared memory */
};

typedef async_copies<uint4, 2 * PIECES> copies;

/* ---- to shared memory ---- */

/* A thread's piece: its offsets from the box's first item in the input and in shared memory. It
 * belongs to the box if the stretch starts at least `least` bytes behind a multiple of 16; 16:
 * never. */
struct own_piece {
    int32_t at;
    uint32_t both; /* place, and `least` in the upper half */
};

GOP_DEVICE own_piece piece_at(const gathering &p, int i)
{
    if (i >= p.pieces) return {0, 16u << 16};
    const int stretch = (int)quotient((uint32_t)i, p.stretch_pieces);
    const int at = 16 * (i - stretch * (int)p.stretch_pieces.d);
    const line_start s = start_of(p.from, p.from_axes, (uint32_t)stretch);
    const int least = at - p.stretch + 1;
    return {(int32_t)s.at + at, (uint32_t)(s.place + at) | (uint32_t)(least < 0    ? 0
                                                                      : least < 16 ? least
                                                                                   : 16)
                                                               << 16};
}

GOP_DEVICE void read_piece(copies &c, char *raw, const char *in, own_piece piece)
{
    const char *const at = in + piece.at;
    const unsigned shift = (unsigned)(uintptr_t)at % 16, ahead = (unsigned)(uintptr_t)in % 16;
    if (shift >= piece.both >> 16)
        c.copy(reinterpret_cast<uint4 *>(raw + (ahead + (piece.both & 0xffff)) / 16 * 16),
               reinterpret_cast<const uint4 *>(at - shift), true);
}

/* Reads a box at the end of the input: pieces that are partly there are read byte by byte. */
GOP_DEVICE void read_last_box(copies &c, char *raw, const char *in, const gathering &p,
                              span whole)
{
#pragma unroll 1
    for (int i = threadIdx.x; i < p.pieces; i += BOX_THREADS) {
        const own_piece piece = piece_at(p, i);
        const uintptr_t at = (uintptr_t)in + (uintptr_t)(intptr_t)piece.at, from = at & ~15;
        if (from >= whole.first && from + 16 <= whole.end) {
            read_piece(c, raw, in, piece);
            continue;
        }
        char *const to = raw + ((uintptr_t)in % 16 + (piece.both & 0xffff)) / 16 * 16;
#pragma unroll 1
        for (int k = 0; k < 16 && at % 16 >= piece.both >> 16; k++)
            if (from + k >= whole.first && from + k < whole.end)
                to[k] = *reinterpret_cast<const char *>(from + k);
    }
}

GOP_DEVICE void read_box(copies &c, char *raw, const char *in, const own_piece (&piece)[PIECES],
                         const gathering &p, span whole)
{
    const uintptr_t first = (uintptr_t)in & ~15, end = ((uintptr_t)in + p.span + 15) & ~15;
    if (first < whole.first || end > whole.end) {
        read_last_box(c, raw, in, p, whole);
    } else {
#pragma unroll
        for (int k = 0; k < PIECES; k++) read_piece(c, raw, in, piece[k]);
    }
    c.commit();
}

/* ---- to the output ---- */

template <typename T, int N> GOP_DEVICE uint32_t word_of(const char *raw, const int (&place)[N])
{
    uint32_t word = 0;
#pragma unroll
    for (int j = 0; j < N; j++)
        word |= (uint32_t) * reinterpret_cast<const T *>(raw + place[j])
                << 8 * (int)sizeof(T) * j;
    return word;
}

/* A word of each of COUNT groups. */
template <typename T, int COUNT, int N>
GOP_DEVICE void write_some(char *out, const char *raw, const group_start *group, int step,
                           const int (&place)[N])
{
    uint32_t word[COUNT];
    group_start s[COUNT];
#pragma unroll
    for (int k = 0; k < COUNT; k++) s[k] = group[k * step];
#pragma unroll
    for (int k = 0; k < COUNT; k++) word[k] = word_of<T>(raw + s[k].place, place);
#pragma unroll
    for (int k = 0; k < COUNT; k++) *reinterpret_cast<uint32_t *>(out + s[k].at) = word[k];
}

/* A thread's team, its row in the team, and its first word along the row, or one past the end
 * if it has none. */
struct own_words {
    int team, row, first;
};

GOP_DEVICE own_words words_of(const gathering &p)
{
    const int team = (int)threadIdx.x * p.teams / BOX_THREADS;
    const int member = (int)threadIdx.x - team * p.team;
    const int row = (int)quotient((uint32_t)member, p.wide);
    return {team, row, row < p.at_once ? member - row * (int)p.wide.d : p.words};
}

/* Writes a team's groups: those before `last`, then those that end a line and so have fewer
 * words. They start `shift` bytes before a multiple of a word. */
template <typename T> GOP_DEVICE void write_words(char *out, const char *raw,
                                                  const group_start *group, int last,
                                                  int groups, int shift, const uint16_t *places,
                                                  own_words own, const gathering &p)
{
    enum { N = 4 / (int)sizeof(T), BATCH = 4 };
    const int high = p.at_once;
#pragma unroll 1
    for (int w = own.first; w < p.words; w += (int)p.wide.d) {
        const int x = 4 * w + shift, end = x + 4 <= p.last_bytes ? groups : last;
        int place[N], g = own.row;
#pragma unroll
        for (int j = 0; j < N; j++) place[j] = places[x / (int)sizeof(T) + j];
#pragma unroll 1
        for (; g + (BATCH - 1) * high < end; g += BATCH * high)
            write_some<T, BATCH>(out + x, raw, group + g, high, place);
#pragma unroll 1
        for (; g < end; g += high) write_some<T, 1>(out + x, raw, group + g, high, place);
    }
}

/* How many boxes follow along the axis that cuts lines, if the last reaches back into the one
 * before; else 2: it does not matter. */
GOP_DEVICE int boxes_behind(const gathering &p, uint32_t box)
{
    if (p.cut < 0 || p.axis[p.cut].back == 0) return 2;
#pragma unroll 1
    for (int k = 0; k < p.cut; k++) box = quotient(box, p.axis[k].count);
    const fast_divisor count = p.axis[p.cut].count;
    return (int)(count.d - 1 - (box - quotient(box, count) * count.d));
}

/* Writes the items before a line's first word and behind its last, except those in words of a
 * box that reaches back, or of the box before it. */
template <typename T>
GOP_DEVICE void write_ends(char *out, const char *raw, const group_start *line,
                           const uint16_t *places, const gathering &p, int behind)
{
    enum { N = 4 / (int)sizeof(T), SIZE = (int)sizeof(T) };
    const int lines = (int)p.lines.d, more = p.groups / lines - 1;
#pragma unroll 1
    for (int i = threadIdx.x; i < lines * 2; i += BOX_THREADS) {
        if (i % 2 == behind) continue;
        group_start s = line[i / 2];
        int x = 0, end = (int)(-((uintptr_t)out + s.at) % 4);
        if (i % 2) { /* the last group's end */
            s.at += more * p.group_bytes, s.place += more * p.group_place;
            end = p.last_bytes;
            x = end - (int)(((uintptr_t)out + s.at + end) % 4);
        }
#pragma unroll
        for (int k = 0; k < N - 1; k++, x += SIZE)
            if (x < end)
                *reinterpret_cast<T *>(out + s.at + x) =
                    *reinterpret_cast<const T *>(raw + s.place + places[x / SIZE]);
    }
}

/* ---- tables ---- */

/* Where lines start, and the places of a group's items and of some more. */
template <typename T>
GOP_DEVICE void place_lines(group_start *line, uint16_t *places, const gathering &p)
{
    const int items = p.group_bytes / (int)sizeof(T) + 4;
    const int last = p.line_bytes / (int)sizeof(T) - 1;
    for (int i = threadIdx.x; i < items; i += BOX_THREADS)
        places[i] = (uint16_t)start_of(p.line, p.line_axes, i < last ? i : last).place;
    for (int i = threadIdx.x; i < (int)p.lines.d; i += BOX_THREADS) {
        const line_start s = start_of(p.to, p.to_axes, i);
        line[i] = {(uint32_t)s.at, s.place};
    }
}

/* Sorts groups by their offset from a multiple of 4 bytes; groups that end lines come last.
 * first[] has where each kind starts. */
enum { KINDS = 8 };
template <typename T> GOP_DEVICE void sort_groups(group_start *group, const group_start *line,
                                                  int (&count)[KINDS], int (&first)[KINDS + 1],
                                                  const gathering &p)
{
    const int lines = (int)p.lines.d, last = p.groups - lines;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        for (int i = threadIdx.x; i < p.groups; i += BOX_THREADS) {
            const int k = (int)quotient((uint32_t)i, p.lines);
            group_start s = line[i - k * lines];
            s.at += k * p.group_bytes, s.place += k * p.group_place;
            const int kind = (int)(s.at % 4 * 2) + (i >= last);
            const int n = atomicAdd(&count[kind], 1);
            if (pass) group[n] = s;
        }
        __syncthreads();
        if (threadIdx.x == 0 && pass == 0)
            for (int k = 0, n = 0; k <= KINDS; k++) {
                first[k] = n;
                if (k < KINDS) n += count[k], count[k] = first[k];
            }
        __syncthreads();
    }
}

template <typename T> __global__ void __launch_bounds__(BOX_THREADS, BLOCKS)
    transpose_gathered_kernel(char *out, const char *in, const __grid_constant__ gathering p,
                              span whole)
{
    extern __shared__ uint4 storage[];
    __shared__ box_start start[2]; /* of this box and the next */
    __shared__ int count[KINDS], first[KINDS + 1];
    char *const raw = reinterpret_cast<char *>(storage);
    group_start *const group = reinterpret_cast<group_start *>(raw + 2 * p.raw);
    group_start *const line = group + p.groups;
    uint16_t *const places = reinterpret_cast<uint16_t *>(line + p.lines.d);
    own_piece piece[PIECES];
    box_start now;
    copies c;
    place_box(p, blockIdx.x, now);
    if (threadIdx.x == BOX_THREADS - 1) start[0] = now;
#pragma unroll
    for (int k = 0; k < PIECES; k++) {
        piece[k] = {0, 16u << 16};
        if (k * BOX_THREADS < p.pieces)
            piece[k] = piece_at(p, (int)threadIdx.x + k * BOX_THREADS);
    }
    if (threadIdx.x < KINDS) count[threadIdx.x] = 0;
    const own_words own = words_of(p);
    int turn = 1;
    const int64_t step = gridDim.x;
    grid_dependency_sync();
    /* Box b is read while the one before is written. */
#pragma unroll 1
    for (int64_t b = blockIdx.x; b < p.boxes + step; b += step) {
        turn ^= 1;
        if (b < p.boxes) {
            const int64_t at = b == blockIdx.x ? now.in : start[turn].in;
            read_box(c, raw + turn * p.raw, in + at, piece, p, whole);
        }
        if (b == blockIdx.x) {
            if (threadIdx.x == BOX_THREADS - 1 && b + step < p.boxes)
                place_box(p, (uint32_t)(b + step), start[1]);
            place_lines<T>(line, places, p);
            __syncthreads();
            sort_groups<T>(group, line, count, first, p);
            continue;
        }
        const box_start s = start[turn ^ 1];
        const char *const from = raw + (turn ^ 1) * p.raw + (uintptr_t)(in + s.in) % 16;
        char *const o = out + s.out;
        if (b < p.boxes) c.template wait<1>();
        else c.template wait<0>();
        __syncthreads(); /* all pieces are there, and the start is read */
        if (threadIdx.x == BOX_THREADS - 1 && b + step < p.boxes)
            place_box(p, (uint32_t)(b + step), start[turn ^ 1]);
#pragma unroll 1
        for (int kind = own.team * p.apart; kind < 4; kind += p.teams * p.apart) {
            const int at = first[2 * kind], end = first[2 * kind + 2];
            const int shift = (int)(-((uintptr_t)o + kind) % 4);
            write_words<T>(o, from, group + at, first[2 * kind + 1] - at, end - at, shift,
                           places, own, p);
        }
        if (p.has_ends)
            write_ends<T>(o, from, line, places, p, boxes_behind(p, (uint32_t)(b - step)));
        __syncthreads(); /* the box is written */
    }
}

/* ---- on the host ---- */

template <typename T>
static gop_status transpose_gathered(gop_ctx *ctx, const gop_task *task, int64_t)
{
    const gathered_plan &p = *GOP_OWN(const gathered_plan, task->plan);
    return GOP_LAUNCH_FIRST(ctx, task, 0, transpose_gathered_kernel<T>, dim3(p.blocks),
                            BOX_THREADS, gather_shared(p.boxes, (int)sizeof(T)),
                            (char *)task->out[0].data, (const char *)task->in[0].data, p.boxes,
                            span_of(task));
}

static gop_status transpose_gathered_plan(const gop_ctx *ctx, const gop_task *task,
                                          gop_plan *plan)
{
    gop_permutation g = task->geometry.permutation;
    gathered_plan &own = *GOP_OWN(gathered_plan, plan);
    const gathering &p = own.boxes;
    const int item = transpose_widen(task, &g);
    if (gop_is_for_gpu(ctx))
        GOP_TRY(gop_has_code(ctx, "transpose: kernel 'gathered'", 8,
                             "whose memory is copied to shared memory by itself"));
    int64_t room = MOST_BOX;
    while (room > LEAST_BOX && g.size * item < room * 2 * ctx->info.processors) room /= 2;
    bool fits = g.size > 1 && item <= 2;
    while (fits && !transpose_gathers(task, g, item, room, &own.boxes))
        fits = (room /= 2) >= 1024;
    if (!fits)
        return gop_fail(GOP_REFUSED,
                        "transpose: the gathered kernel takes items of 1 and 2 bytes in "
                        "lines of 16 bytes and more; this call has items of %d bytes%s",
                        item, item > 2 ? "" : " in lines that it cannot gather");
    plan->cost = (float)transpose_gather_turns(p, item);
    plan->launch = item == 1 ? transpose_gathered<uint8_t> : transpose_gathered<uint16_t>;
    const int64_t at_once =
        min_of(PROCESSOR / (int64_t)(gather_shared(p, item) + 1024), BLOCKS);
    own.blocks = (unsigned)min_of(p.boxes, at_once * ctx->info.processors);
    own.item = item;
    return GOP_OK;
}

extern const gop_row transpose_gathered_row = {
    .name = "gathered",
    .note = "a box read as it lies, in pieces of 16 bytes that no thread waits for; words of "
            "the output are gathered from it",
    .role = GOP_CONFORMING,
    .plan = transpose_gathered_plan,
    .dtypes = TRANSPOSE_SMALL,
};
