/*
 * add.c - the CPU ladders of add, multiply_add and fma.
 *
 * Floor: every input read once, the output written once. The arithmetic is free beside that, so
 * the ladder is about walking memory: an index computed per element, then whole lines that the
 * compiler turns into vector loops, then several threads, since one core cannot keep enough
 * loads in flight to fill the memory bus.
 */
#include "cpu/cpu.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))

/* No element is read after another was written: an input may be the output's own memory, but
 * then element by element. The compiler cannot know, and would check at run time instead. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* at[] and offsets or strides in elements: out, then the inputs. */
typedef void (*element_fn)(void *const at[4], const int64_t offset[4]);
typedef void (*line_fn)(int64_t n, void *const at[4], const int64_t stride[4]);

static void operands(const gop_task *task, void *at[4])
{
    at[0] = task->out[0].data;
    for (int k = 1; k < 4; k++) at[k] = k <= task->nin ? task->in[k - 1].data : NULL;
}

/* ---- naive: element by element, each index taken apart axis by axis ---- */

enum { HEAR = 1 << 16 }; /* elements between two looks for Ctrl-C */

static gop_status every_element(const gop_task *task, element_fn element)
{
    const gop_elementwise *e = &task->geometry.elementwise;
    void *at[4];
    operands(task, at);
    for (int64_t i = 0; i < e->size; i++) {
        int64_t offset[4] = {0, 0, 0, 0};
        int64_t rest = i;
        for (int axis = e->rank - 1; axis >= 0; axis--) {
            const int64_t x = rest % e->extent[axis];
            rest /= e->extent[axis];
            for (int o = 0; o < e->operands; o++) offset[o] += x * e->stride[o][axis];
        }
        element(at, offset);
        if (i % HEAR == HEAR - 1) GOP_TRY(gop_interrupted());
    }
    return GOP_OK;
}

/* ---- simd: line by line along the innermost axis ---- */

typedef struct walk {
    const gop_elementwise *e;
    line_fn line;
    int64_t item;
    void *at[4];
} walk;

/* Elements [begin, end), counted in the order of the axes: the index is taken apart once, and
 * then advanced like an odometer. */
static void walk_lines(void *argument, int64_t begin, int64_t end, int worker)
{
    const walk *w = argument;
    const gop_elementwise *e = w->e;
    const int inner = e->rank - 1;
    int64_t index[GOP_MAX_NDIM], stride[4] = {0, 0, 0, 0};
    char *at[4] = {w->at[0], w->at[1], w->at[2], w->at[3]};
    int64_t rest = begin;
    (void)worker;
    for (int axis = inner; axis >= 0; axis--) {
        index[axis] = rest % e->extent[axis];
        rest /= e->extent[axis];
        for (int o = 0; o < e->operands; o++)
            at[o] += index[axis] * e->stride[o][axis] * w->item;
    }
    for (int o = 0; o < e->operands; o++) stride[o] = e->stride[o][inner];

    int64_t left = end - begin;
    int64_t n = e->extent[inner] - index[inner]; /* the first line may start in its middle */
    for (;;) {
        if (n > left) n = left;
        w->line(n, (void *const[4]){at[0], at[1], at[2], at[3]}, stride);
        left -= n;
        if (left == 0) return;
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

static gop_status every_line(const gop_task *task, line_fn line, int64_t item)
{
    walk w = {.e = &task->geometry.elementwise, .line = line, .item = item};
    operands(task, w.at);
    for (int64_t i = 0; i < w.e->size; i += HEAR) {
        walk_lines(&w, i, i + HEAR < w.e->size ? i + HEAR : w.e->size, 0);
        GOP_TRY(gop_interrupted());
    }
    return GOP_OK;
}

/* ---- threaded: the same lines, dealt to the thread pool ---- */

static gop_status every_line_threaded(const gop_task *task, line_fn line, int64_t item)
{
    walk w = {.e = &task->geometry.elementwise, .line = line, .item = item};
    operands(task, w.at);
    if (w.e->size == 0) return GOP_OK;
    return gop_parallel(w.e->size, HEAR, walk_lines, &w);
}

/* ---- the bodies, once per dtype, and the tables ---- */

#define GOP_TPL "cpu/add_tpl.h"
#include "cpu/each_dtype.h"

#define ROWS(op, table)                                                                        \
    static const gop_row op##_rows[] = {                                                       \
        {                                                                                      \
            .name = "naive",                                                                   \
            .note =                                                                            \
                "one element at a time; its place in each array by division, axis by axis",    \
            .launch = table(op##_naive),                                                       \
        },                                                                                     \
        {                                                                                      \
            .name = "simd",                                                                    \
            .note = "whole lines along the innermost axis: vector registers do 16 to 64 "      \
                    "bytes at once",                                                           \
            .launch = table(op##_simd),                                                        \
        },                                                                                     \
        {                                                                                      \
            .name = "threaded",                                                                \
            .note = "lines dealt to all cores: one core alone cannot fill the memory bus",     \
            .launch = table(op##_threaded),                                                    \
        },                                                                                     \
    };                                                                                         \
    const gop_ladder GOP_LADDER(op) = {sizeof op##_rows / sizeof *op##_rows, op##_rows}

ROWS(add, GOP_FN_ALL);
ROWS(multiply_add, GOP_FN_ALL);
ROWS(fma, GOP_FN_FLOATS);
