/*
 * rows.h - one output after the other, leaf by leaf, if its elements are contiguous in memory
 * or are reordered first.
 *
 * Outputs of a run take turns, one leaf each. So short outputs share the cost of a run, and
 * outputs whose elements are in several places walk through these together.
 */
#ifndef GOP_CPU_REDUCE_ROWS_H
#define GOP_CPU_REDUCE_ROWS_H

#include "cpu/reduce/job.h"
#include "cpu/transpose/turn.h"

/* ---- strided elements, which are reordered before the fold ----
 * The sum of a transposed array takes elements that are rows apart: each would fetch a whole
 * cache line and use one item of it. Later positions use the rest of the line, along the
 * reduced axis that is contiguous in memory: the axis `beside`. So the elements of a node are
 * transposed in registers into a buffer, whole lines at a time, and folded from there. */

enum {
    PACK_ROWS = 64, /* rows that are transposed at a time */
    TILE_BYTES = 1 << 14,
    FIRST_STEP = 256,
    SHORT_LINE = 512, /* lines up to this length are folded together if the order is free */
};

/* Fills the offsets of positions [first, first + n) along the axes inside `beside`. */
static void fill_offsets(const reduce_job *job, int64_t first, int64_t n, int64_t *offset)
{
    const gop_reduction *g = job->g;
    const int inner = g->kept + g->reduced - 1;
    const int outer = job->plan->beside + 1;
    int64_t x[GOP_MAX_NDIM];
    gop_unravel(first, inner + 1 - outer, g->extent + outer, x + outer);
    int64_t at = gop_offset(inner + 1 - outer, x + outer, g->in + outer);
    for (int64_t k = 0; k < n; k++) {
        offset[k] = at;
        for (int d = inner; d >= outer; d--) {
            at += g->in[d];
            if (++x[d] < g->extent[d]) break;
            at -= g->extent[d] * g->in[d];
            x[d] = 0;
        }
    }
}

/* Packs at most PACK_ROWS positions from k on, for consecutive lines. They are written from a
 * tile line by line, because one position of all lines may map to one cache set. */
static void pack_rows(const reduce_job *job, const char *in, int64_t lines, int64_t k,
                      char *tile, char *to)
{
    const int64_t item = (int64_t)job->plan->item, span = job->plan->span,
                  room = TILE_BYTES / PACK_ROWS / item;
    const int64_t rows = span - k < PACK_ROWS ? span - k : PACK_ROWS;
    const int64_t ahead = span - k < 2 * PACK_ROWS ? span - k : 2 * PACK_ROWS;
    int64_t offset[2 * PACK_ROWS];
    fill_offsets(job, k, ahead, offset);
    for (int64_t y = PACK_ROWS; y < ahead; y++)
        for (int64_t x = 0; x < lines * item + LINE - 1; x += LINE)
            __builtin_prefetch(in + offset[y] * item + x, 0, 2);
    for (int64_t x = 0; x < lines; x += room) {
        const int64_t nx = lines - x < room ? lines - x : room;
        turn_rows(item, nx, rows, tile, PACK_ROWS, in + x * item, offset);
        for (int64_t l = 0; l < nx; l++)
            memcpy(to + (x + l) * span * item, tile + l * PACK_ROWS * item,
                   (size_t)(rows * item));
    }
}

/* Packs positions [begin, end) of one output in order. Returns NULL if nothing is to be packed.
 */
static const char *pack_node(const reduce_job *job, const reduce_run *run, int64_t begin,
                             int64_t end, char *room)
{
    const reduce_plan *const p = job->plan;
    const gop_reduction *g = job->g;
    const int64_t item = (int64_t)p->item, span = p->span;
    if (span == 0 || begin >= end) return NULL;
    char *const buffer = room + p->room.packed;
    const int64_t extent = g->extent[p->beside];
    const int64_t first = begin / span, last = (end - 1) / span + 1;
    for (int64_t line = first, lines; line < last; line += lines) {
        const int64_t j = line % extent;
        lines = extent - j < last - line ? extent - j : last - line;
        const int64_t outside = locate(g, g->kept, p->beside, line / extent).in;
        const char *const in = run->in + (outside + j) * item;
        char *const to = buffer + (line - first) * span * item;
        for (int64_t k = 0; k < span; k += PACK_ROWS)
            pack_rows(job, in, lines, k, room + p->room.tile, to + k * item);
    }
    return buffer + (begin - first * span) * item;
}

/* ---- leaves ---- */

/* Returns the next elements along the innermost reduced axis, at most n, and moves the cursor.
 */
static const char *next_line(const reduce_job *job, const reduce_run *run, reduce_cursor *c,
                             int64_t n, int64_t *line)
{
    const gop_reduction *g = job->g;
    const int inner = g->kept + g->reduced - 1;
    const char *in = run->in + c->at.in * (int64_t)job->plan->item;
    const int64_t left = g->reduced ? g->extent[inner] - c->x[inner] : 1;
    *line = left < n ? left : n;
    if (g->reduced) cursor_move(c, g, *line);
    return in;
}

/* Gathers the next n elements by the table, as accumulators. */
static const void *tabled_elements(const reduce_job *job, const reduce_run *run,
                                   reduce_cursor *c, int64_t n, char *buffer)
{
    const reduce_plan *const p = job->plan;
    const reduce_table *const t = &p->table;
    for (int64_t done = 0, line; done < n; done += line) {
        const int64_t row = c->x[t->axis] / t->within, at = c->x[t->axis] % t->within;
        const int64_t step = row * job->task->geometry.reduction.in[t->axis];
        const char *const in = run->in + (c->at.in + step) * (int64_t)p->item;
        line = gop_smaller(job->g->extent[t->axis] - c->x[t->axis], t->size - at);
        line = gop_smaller(line, n - done);
        p->gather(job, buffer + done * (int64_t)p->fold->bytes, line, in, 0, job->table + at,
                  NULL, 0);
        cursor_move(c, job->g, line);
    }
    return buffer;
}

/* Returns the next n elements as accumulators: in place, or gathered into the buffer. */
static const void *next_elements(const reduce_job *job, const reduce_run *run, reduce_cursor *c,
                                 int64_t n, char *buffer)
{
    const reduce_plan *const p = job->plan;
    const gop_reduction *g = job->g;
    const int inner = g->kept + g->reduced - 1;
    const int64_t stride = g->reduced ? g->in[inner] : 1;
    if (job->table) return tabled_elements(job, run, c, n, buffer);
    for (int64_t done = 0, line; done < n; done += line) {
        const uint8_t *where = run->where ? run->where + c->at.where : NULL;
        const char *in = next_line(job, run, c, n - done, &line);
        if (p->in_place && line == n && stride == 1) return in;
        p->gather(job, buffer + done * (int64_t)p->fold->bytes, line, in, stride, NULL, where,
                  g->reduced ? g->where[inner] : 0);
    }
    return buffer;
}

/* blocked: computes a leaf by its definition, one element at a time. */
static void plain_leaf(const reduce_fold *fold, void *to, const char *x, int64_t n)
{
    _Alignas(16) char lane[LANES][16];
    for (int l = 0; l < LANES; l++) fold->fill(lane[l], 1);
    for (int64_t k = 0; k < n; k++)
        fold->merge(lane[k % LANES], x + k * (int64_t)fold->bytes, 1);
    for (int d = LANES / 2; d > 0; d /= 2)
        for (int l = 0; l < d; l++) fold->merge(lane[l], lane[l + d], 1);
    memcpy(to, lane[0], fold->bytes);
}

/* any, all: whether none of the n truths is 0; masked ones have more bits than one. */
static int8_t all_of(const int8_t *x, int64_t n)
{
    int8_t all = INT8_MAX;
    for (int64_t i = 0; i < n; i++) all &= x[i];
    return all;
}

/* From byte i on: where the first word of eight begins that holds one that is 0, or is not, or
 * where they end. */
static ALWAYS_INLINE int64_t first_word(const int is_zero, const char *x, int64_t i, int64_t n)
{
    const uint64_t ones = ~UINT64_C(0) / 255;
    for (uint64_t word; i + 8 <= n; i += 8) {
        memcpy(&word, x + i, sizeof word);
        if (is_zero ? (word - ones) & ~word & ones << 7 : word) break;
    }
    return i;
}

/* The first of n bytes that is 0, or is not, or n. What does not come soon is looked for in
 * whole vectors. */
static ALWAYS_INLINE int64_t first_byte(const int is_zero, const char *x, int64_t n)
{
    enum { SOON = 64, BLOCK = 256 };
    int64_t i = first_word(is_zero, x, 0, gop_smaller(n, SOON));
    if (i == SOON && is_zero) {
        const char *const zero = memchr(x + i, 0, (size_t)(n - i));
        return zero ? zero - x : n;
    }
    if (i == SOON) {
        for (; i + BLOCK <= n; i += BLOCK) {
            char any = 0;
            KEEP_LOOP for (int l = 0; l < BLOCK; l++) any |= x[i + l];
            if (any) break;
        }
        i = first_word(is_zero, x, i, n);
    }
    while (i < n && (x[i] == 0) != is_zero) i++;
    return i;
}

/* The key of n bytes that are truths: `least` where one of them has it, and its place, else the
 * next one and 0. Nothing behind the first is looked at. */
static int64_t fold_bytes(const reduce_plan *p, const char *x, int64_t n, char *key)
{
    const int64_t at = p->key_flags & FLIP ? first_byte(0, x, n) : first_byte(1, x, n);
    *key = (char)(p->least + (at == n));
    return at == n ? 0 : at;
}

/* Takes `value`, the minimum of the accumulators x from position k on, if it is less. */
static void take_better(const reduce_fold *fold, char *to, int64_t *number, const char *value,
                        const void *x, int64_t k)
{
    _Alignas(16) char before[16];
    memcpy(before, to, fold->bytes);
    fold->merge(to, value, 1);
    if (memcmp(before, to, fold->bytes) != 0) *number = k + fold->find(x, to);
}

/* Folds the next n elements of one output, a leaf from position k on, into `to`; or takes the
 * best of them and its position. `packed` holds the elements, or is NULL; `buffer` has room for
 * a leaf. */
static void fold_leaf(const reduce_job *job, const reduce_run *run, reduce_cursor *c, int64_t k,
                      int64_t n, const char *packed, char *buffer, char *to, int64_t *number)
{
    const reduce_plan *const p = job->plan;
    const reduce_fold *fold = p->fold;
    _Alignas(16) char value[16];
    const void *x = packed;
    if (!packed) x = next_elements(job, run, c, n, buffer);
    else if (!p->in_place) p->gather(job, buffer, n, packed, 1, NULL, NULL, 0), x = buffer;
    if (p->plain) plain_leaf(fold, value, x, n);
    else if (p->stops && !number) *(int8_t *)value = all_of(x, n);
    else fold->leaves(value, x, n, 0, 1);
    if (number) take_better(fold, to, number, value, x, k);
    else memcpy(to, value, fold->bytes);
}

/* Folds the whole lines among the next n elements into `to`, all lines together. Moves the
 * cursor, and returns the number of elements folded. */
static int64_t fold_short_lines(const reduce_job *job, const reduce_run *run, reduce_cursor *c,
                                int64_t n, char *to)
{
    const reduce_plan *const p = job->plan;
    const int inner = job->g->kept + job->g->reduced - 1;
    const int64_t length = job->g->extent[inner], lines = n / length;
    _Alignas(64) char all[SHORT_LINE * 8];
    _Alignas(16) char value[16];
    const void *row[ROWS];
    if (c->x[inner] != 0 || lines < 4) return 0;
    p->fold->fill(all, length);
    for (int64_t done = 0; done < lines;) {
        int rows = 0;
        for (int64_t line; rows < ROWS && done < lines; done++)
            row[rows++] = next_line(job, run, c, length, &line);
        p->direct->rows(job, all, row, rows, length);
    }
    p->fold->leaves(value, all, length, 0, 1);
    p->fold->merge(to, value, 1);
    return lines * length;
}

/* The same for elements that need no gather, line by line. The position is that of the first
 * element of the leaf. */
static void fold_lines(const reduce_job *job, const reduce_run *run, reduce_cursor *c,
                       int64_t k, int64_t n, char *to, int64_t *number)
{
    const reduce_plan *const p = job->plan;
    _Alignas(16) char value[16];
    const int is_short =
        job->g->reduced > 1 && job->g->extent[job->g->kept + job->g->reduced - 1] <= SHORT_LINE;
    if (!number) p->fold->fill(to, 1);
    for (int64_t done = 0, line; done < n; done += line) {
        line = is_short && !number ? fold_short_lines(job, run, c, n - done, to) : 0;
        if (line) continue;
        const char *const x = next_line(job, run, c, n - done, &line);
        int64_t at = k + done;
        if (p->bytes) at += fold_bytes(p, x, line, value);
        else p->direct->leaves(job, value, x, line, 0, 1);
        if (number) p->fold->better(to, number, value, NULL, at, 1);
        else p->fold->merge(to, value, 1);
    }
}

/* Returns the first output's next n elements if those of all outputs can be folded in place,
 * else NULL. Moves the cursor. */
static const char *plain_lines(const reduce_job *job, const reduce_run *run, reduce_cursor *c,
                               int64_t n)
{
    const reduce_plan *const p = job->plan;
    const gop_reduction *g = job->g;
    const int inner = g->kept + g->reduced - 1;
    int64_t line;
    if (run->where || p->plain || p->span || job->table) return NULL;
    if (!p->direct && (!p->in_place || p->position)) return NULL;
    if (g->reduced && (g->in[inner] != 1 || g->extent[inner] - c->x[inner] < n)) return NULL;
    return next_line(job, run, c, n, &line);
}

/* The next n elements of each output: leaves from position k on into the room's `leaf`, or the
 * best into `to` and `number`. */
static void fold_turn(const reduce_job *job, const reduce_run *run, reduce_cursor *c, int64_t k,
                      int64_t n, const char *packed, char *room, char *to, int64_t *number)
{
    const reduce_plan *const p = job->plan;
    const reduce_fold *fold = p->fold;
    char *const value = room + p->room.leaf, *const buffer = room + p->room.gathered;
    const reduce_cursor start = *c;
    const char *const x = plain_lines(job, run, c, n);
    if (x && p->direct && p->bytes) {
        for (int64_t i = 0; i < run->n; i++) {
            const int64_t at = k + fold_bytes(p, x + i * run->in_stride, n, value + i);
            if (p->position && (int8_t)value[i] < (int8_t)to[i])
                to[i] = value[i], number[i] = at;
        }
    } else if (x && p->direct) {
        p->direct->leaves(job, value, x, n, run->in_stride, run->n);
        if (p->position) fold->better(to, number, value, NULL, k, run->n);
    } else if (x) fold->leaves(value, x, n, run->in_stride, run->n);
    for (int64_t i = 0; !x && i < run->n; i++) {
        const reduce_run one = part_of(job, run, i, 1);
        char *const leaf = (p->position ? to : value) + i * (int64_t)fold->bytes;
        int64_t *const at = p->position ? number + i : NULL;
        *c = start;
        if (p->direct) fold_lines(job, &one, c, k, n, leaf, at);
        else fold_leaf(job, &one, c, k, n, packed, buffer, leaf, at);
    }
}

/* Leaves [first, last) of each output of the run into `to`, the positions of the best (with
 * `direct` of the leaf that has it) into `number`. */
static void fold_rows(const reduce_job *job, const reduce_run *run, int64_t first, int64_t last,
                      char *room, char *to, int64_t *number)
{
    const reduce_plan *const p = job->plan;
    const int64_t begin = first * LEAF;
    const int64_t end = last * LEAF < job->g->count ? last * LEAF : job->g->count;
    const int64_t some =
        (p->stops ? 8 * LEAF : DIRECT_LEAF) / (int64_t)p->item; /* found soon */
    const int64_t most = !p->stops && !p->position ? DIRECT_LEAF : some > LEAF ? some : LEAF;
    const int is_scanned = p->bytes && p->direct && p->width > 1 && job->g->reduced == 1;
    const int64_t whole = is_scanned ? end - begin : p->direct && run->n == 1 ? most : LEAF;
    /* Outputs that take turns go on line by line where these are neighbours in memory. */
    const int inner = job->g->kept + job->g->reduced - 1;
    const int by_line =
        p->direct && run->n > 1 && job->g->reduced > 1 && job->g->extent[inner] > SHORT_LINE;
    /* What may stop begins with few elements, where there is room for the nodes of that. */
    int64_t step = p->stops && p->width == 1 ? FIRST_STEP : whole;
    char *const value = room + p->room.leaf;
    reduce_counter counter = {0, p->room.pitch, room + p->room.node};
    reduce_cursor cursor;
    p->fold->fill(to, run->n);
    for (int64_t i = 0; p->position && i < run->n; i++) number[i] = begin;
    if (begin >= end) return;
    const char *const packed = pack_node(job, run, begin, end, room);
    cursor_set(&cursor, job->g, begin);
    for (int64_t k = begin, n; k < end; k += n) {
        n = end - k < step ? end - k : step;
        if (by_line) n = gop_smaller(n, job->g->extent[inner] - cursor.x[inner]);
        step = gop_smaller(2 * step, whole);
        fold_turn(job, run, &cursor, k, n,
                  packed ? packed + (k - begin) * (int64_t)p->item : NULL, room, to, number);
        if (p->stops && run->n == 1 && (int8_t)(p->position ? to : value)[0] == p->least) {
            to[0] = (char)p->least;
            return;
        }
        if (p->position) continue;
        if (p->direct) p->fold->merge(to, value, run->n);
        else push(p->fold, &counter, value, run->n);
    }
    if (!p->position && !p->direct) root(p->fold, &counter, to, run->n);
}

#endif
