/*
 * lines.h - rows of add, multiply_add and fma: n elements along the innermost axis.
 *
 * A row's loop is written once with the strides as arguments, and expanded for the usual
 * strides: 1, or 0 for a broadcast operand. With constant strides the compiler makes vector
 * loops. Vectors have 32 bytes on AVX-512 too (setup.py): half of the unaligned accesses of 64
 * bytes cross a cache line, and when memory is the bound the others are no faster.
 */
#ifdef D

static ALWAYS_INLINE void FN(add_run)(int64_t n, T *out, int64_t so, const T *a, int64_t sa,
                                      const T *b, int64_t sb)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) out[i * so] = FN(add_one)(a[i * sa], b[i * sb]);
}

static void FN(add_line)(int64_t n, void *const at[4], const int64_t s[4])
{
    T *const out = at[0];
    const T *const a = at[1], *const b = at[2];
    const T a0 = *a, b0 = *b; /* a broadcast operand, in a register */
    if (s[0] == 1 && s[1] == 1 && s[2] == 1) FN(add_run)(n, out, 1, a, 1, b, 1);
    else if (s[0] == 1 && s[1] == 1 && s[2] == 0) FN(add_run)(n, out, 1, a, 1, &b0, 0);
    else if (s[0] == 1 && s[1] == 0 && s[2] == 1) FN(add_run)(n, out, 1, &a0, 0, b, 1);
    else FN(add_run)(n, out, s[0], a, s[1], b, s[2]);
}

#define LINE3(op)                                                                              \
    static ALWAYS_INLINE void FN(op##_run)(int64_t n, T * out, int64_t so, const T *a,         \
                                           int64_t sa, const T *b, int64_t sb, const T *c,     \
                                           int64_t sc)                                         \
    {                                                                                          \
        INDEPENDENT                                                                            \
        for (int64_t i = 0; i < n; i++)                                                        \
            out[i * so] = FN(op##_one)(a[i * sa], b[i * sb], c[i * sc]);                       \
    }                                                                                          \
                                                                                               \
    static void FN(op##_line)(int64_t n, void *const at[4], const int64_t s[4])                \
    {                                                                                          \
        T *const out = at[0];                                                                  \
        const T *const a = at[1], *const b = at[2], *const c = at[3];                          \
        const T a0 = *a, b0 = *b, c0 = *c;                                                     \
        const int unit =                                                                       \
            s[0] == 1 ? (int)(s[1] == 1) << 2 | (s[2] == 1) << 1 | (s[3] == 1) : 0;            \
        const int zero = (int)(s[1] == 0) << 2 | (s[2] == 0) << 1 | (s[3] == 0);               \
        if (unit == 7) FN(op##_run)(n, out, 1, a, 1, b, 1, c, 1);                              \
        else if (unit == 6 && zero == 1) FN(op##_run)(n, out, 1, a, 1, b, 1, &c0, 0);          \
        else if (unit == 5 && zero == 2) FN(op##_run)(n, out, 1, a, 1, &b0, 0, c, 1);          \
        else if (unit == 3 && zero == 4) FN(op##_run)(n, out, 1, &a0, 0, b, 1, c, 1);          \
        else if (unit == 4 && zero == 3) FN(op##_run)(n, out, 1, a, 1, &b0, 0, &c0, 0);        \
        else if (unit == 2 && zero == 5) FN(op##_run)(n, out, 1, &a0, 0, b, 1, &c0, 0);        \
        else if (unit == 1 && zero == 6) FN(op##_run)(n, out, 1, &a0, 0, &b0, 0, c, 1);        \
        else FN(op##_run)(n, out, s[0], a, s[1], b, s[2], c, s[3]);                            \
    }

LINE3(multiply_add)
#if IS_FLOAT
LINE3(fma)
#endif
#undef LINE3

#elif !defined(GOP_CPU_ADD_LINES_H)
#define GOP_CPU_ADD_LINES_H

#include "cpu/add/element.h"
#include "cpu/transpose/gather.h"

/* Tells the compiler that iterations are independent, which it would check at run time. An
 * input may be the output's own memory, but then only element by element. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

#define GOP_TPL "cpu/add/lines.h"
#include "cpu/runtime/each_dtype.inc"

/* Computes a row. at[] and stride[], in elements, are of the output, then the inputs. */
typedef void (*line_fn)(int64_t n, void *const at[4], const int64_t stride[4]);

/* What all threads need to compute rows. The fields that each row uses are in two cache lines.
 */
typedef struct walk {
    _Alignas(LINE) line_fn line;
    int64_t item;
    int operands, rank;
    void *at[4];
    int stream;        /* use streaming stores */
    int fresh;         /* the output's pages are zeroed at their first write */
    int64_t lead;      /* elements between the output's first page and its first element */
    int64_t stride[4]; /* along the innermost axis */
    const gop_elementwise *e;
} walk;

enum {
    PIECE = 256,      /* bytes of the streaming buffer: small, so that reads hardly pause */
    ALIGN_FROM = 512, /* rows of at least these bytes start at a cache line */
    PICKED = 2048,    /* bytes of a strided operand that are gathered at a time */
};

/* Computes a contiguous row piece by piece into a buffer in the L1 cache, and streams it from
 * there. */
static void stream_line(const walk *w, int64_t n, char *const at[4], const int64_t stride[4])
{
    _Alignas(LINE) char buffer[PIECE];
    int64_t m = (PIECE - (int64_t)((uintptr_t)at[0] % LINE)) / w->item;
    for (int64_t i = 0; i < n; i += m, m = PIECE / w->item) {
        void *from[4] = {buffer};
        if (m > n - i) m = n - i;
        for (int o = 1; o < w->operands; o++) from[o] = at[o] + i * stride[o] * w->item;
        w->line(m, from, stride);
        stream_copy(at[0] + i * w->item, buffer, (size_t)(m * w->item));
    }
}

/* Computes a row with plain stores. After the first piece, no vector store crosses a cache
 * line. */
static void plain_line(const walk *w, int64_t n, char *const at[4], const int64_t stride[4])
{
    int64_t i = 0;
    if (stride[0] == 1 && n * w->item >= ALIGN_FROM)
        i = (int64_t)(-(uintptr_t)at[0] % LINE) / w->item;
    if (i) w->line(i, (void *const[4]){at[0], at[1], at[2], at[3]}, stride);
    void *rest[4] = {at[0], at[1], at[2], at[3]};
    for (int o = 0; i && o < w->operands; o++) rest[o] = at[o] + i * stride[o] * w->item;
    w->line(n - i, rest, stride);
}

static void line_of_neighbours(const walk *w, int64_t n, char *const at[4],
                               const int64_t stride[4])
{
    if (w->stream && stride[0] == 1 && n * w->item >= STREAM_BUFFER)
        stream_line(w, n, at, stride);
    else plain_line(w, n, at, stride);
}

/* Computes a row piece by piece: gathers the strided operands, one bit each in `apart`, into
 * buffers. */
static __attribute__((noinline)) void picked_line(const walk *w, int64_t n, char *const at[4],
                                                  const int64_t stride[4], int apart)
{
    _Alignas(LINE) char buffers[3][PICKED];
    int64_t step[4], m = PICKED / w->item;
    for (int o = 0; o < 4; o++) step[o] = apart >> o & 1 ? 1 : stride[o];
    for (int64_t i = 0; i < n; i += m) {
        char *from[4];
        if (m > n - i) m = n - i;
        for (int o = 0; o < w->operands; o++) {
            from[o] = at[o] + i * stride[o] * w->item;
            if (!(apart >> o & 1)) continue;
            pick(w->item, m, buffers[o - 1], from[o], stride[o]);
            from[o] = buffers[o - 1];
        }
        line_of_neighbours(w, m, from, step);
    }
}

/* Computes a row. Strided operands are gathered first, so that the loop is vectorized. */
static void one_line(const walk *w, int64_t n, char *const at[4], const int64_t stride[4])
{
    int apart = 0;
    for (int o = 1; o < w->operands; o++)
        if (stride[o] != 0 && stride[o] != 1) apart |= 1 << o;
    if (apart && stride[0] == 1 && n * w->item >= LINE) picked_line(w, n, at, stride, apart);
    else line_of_neighbours(w, n, at, stride);
}

/* Computes elements [begin, end) in index order. The index is decomposed once, and then
 * advanced like an odometer. */
static void walk_axes(const walk *w, int64_t begin, int64_t end)
{
    const gop_elementwise *e = w->e;
    const int inner = e->rank - 1;
    const int64_t *const stride = w->stride;
    int64_t index[GOP_MAX_NDIM];
    char *at[4] = {w->at[0], w->at[1], w->at[2], w->at[3]};
    gop_unravel(begin, e->rank, e->extent, index);
    for (int o = 0; o < e->operands; o++)
        at[o] += gop_offset(e->rank, index, e->stride[o]) * w->item;
    int64_t left = end - begin;
    int64_t n = e->extent[inner] - index[inner]; /* the first row may start in its middle */
    for (;;) {
        if (n > left) n = left;
        one_line(w, n, at, stride);
        left -= n;
        if (left == 0) break;
        for (int o = 0; o < e->operands; o++) at[o] -= index[inner] * stride[o] * w->item;
        index[inner] = 0;
        n = e->extent[inner];
        for (int axis = inner - 1; axis >= 0; axis--) {
            const int wraps = ++index[axis] == e->extent[axis];
            const int64_t steps = wraps ? 1 - e->extent[axis] : 1;
            for (int o = 0; o < e->operands; o++) at[o] += steps * e->stride[o][axis] * w->item;
            if (!wraps) break;
            index[axis] = 0;
        }
    }
}

static void walk_lines(void *argument, int64_t begin, int64_t end, int worker)
{
    const walk *w = argument;
    (void)worker;
    begin = begin > w->lead ? begin - w->lead : 0;
    end -= w->lead;
    if (begin >= end) return;
    if (w->rank == 1) {
        char *at[4] = {0};
        for (int o = 0; o < w->operands; o++)
            at[o] = (char *)w->at[o] + begin * w->stride[o] * w->item;
        one_line(w, end - begin, at, w->stride);
    } else {
        walk_axes(w, begin, end);
    }
    if (w->stream) stream_end();
}

/* Whether the output is also an input: then it is in the caches when it is written. */
static int is_input(const gop_task *task)
{
    for (int k = 0; k < task->nin; k++)
        if (task->in[k].data == task->out[0].data) return 1;
    return 0;
}

static walk walk_of(const gop_task *task, line_fn line, int stream)
{
    const int64_t bytes = gop_array_bytes(&task->out[0]);
    const gop_elementwise *const e = &task->geometry.elementwise;
    walk w = {.e = e, .line = line, .operands = e->operands, .rank = e->rank};
    w.item = gop_dtype_size(task->in[0].dtype);
    for (int o = 0; o < e->operands; o++) w.stride[o] = e->stride[o][e->rank - 1];
    if (bytes >= HUGE_FROM) {
        w.fresh = gop_is_fresh(task->out[0].data, bytes);
        w.stream = stream && gop_streams(bytes) && !w.fresh && !is_input(task);
    }
    operands(task, w.at);
    return w;
}

/* Runs pieces on threads. If the work takes milliseconds, sleeping threads are woken at once.
 */
static gop_status by_threads(const walk *w, int workers, int64_t items, int64_t grain,
                             gop_body body, void *argument)
{
    if (w->e->size * w->item >= HUGE_FROM)
        return gop_parallel_by(workers, items, grain, body, argument);
    return gop_parallel_brief(workers, items, grain, body, argument);
}

/* Runs all rows on one thread, which checks for Ctrl-C between pieces. */
static gop_status every_line(const gop_task *task, line_fn line, int stream)
{
    walk w = walk_of(task, line, stream);
    for (int64_t i = 0; i < w.e->size; i += GOP_HEAR) {
        walk_lines(&w, i, i + GOP_HEAR < w.e->size ? i + GOP_HEAR : w.e->size, 0);
        GOP_TRY(gop_interrupted());
    }
    return GOP_OK;
}

#endif
