/*
 * cast.h - casts of rows of elements from one dtype to another.
 *
 * Each element is rounded once, to nearest even, except integers to bfloat16: they go through
 * float32, as in ml_dtypes.
 *
 * A step converts contiguous elements, so it is vectorized. A cast is at most three steps (as
 * int64, float32, float16) through buffers in the L1 cache. Strided elements are gathered first
 * or scattered last, and bytes are swapped there.
 */
#ifndef GOP_CPU_CAST_H
#define GOP_CPU_CAST_H

#include "core/arrays/cast.h"
#include "cpu/runtime/cpu.h"
#include "cpu/runtime/halves.h"

enum { CAST_LINE = 128, WIDEST = 16 };

typedef void (*cast_step)(void *to, const void *from, int64_t n);

/* ---- steps ---- */

#define STEP(name, to_type, from_type, value)                                                  \
    static void name(void *to, const void *from, int64_t n)                                    \
    {                                                                                          \
        to_type *restrict const y = to;                                                        \
        const from_type *restrict const x = from;                                              \
        for (int64_t i = 0; i < n; i++) y[i] = (to_type)(value);                               \
    }

/* Casts between integers depend only on their widths. */
#define WHOLE_NUMBERS(X)                                                                       \
    X(GOP_BOOL, bool, uint8_t, x[i] != 0)                                                      \
    X(GOP_INT8, int8, int8_t, x[i])                                                            \
    X(GOP_INT16, int16, int16_t, x[i])                                                         \
    X(GOP_INT32, int32, int32_t, x[i])                                                         \
    X(GOP_INT64, int64, int64_t, x[i])                                                         \
    X(GOP_UINT8, uint8, uint8_t, x[i])                                                         \
    X(GOP_UINT16, uint16, uint16_t, x[i])                                                      \
    X(GOP_UINT32, uint32, uint32_t, x[i])                                                      \
    X(GOP_UINT64, uint64, uint64_t, x[i])
#define X(enumerator, word, type, value)                                                       \
    STEP(word##_1, uint8_t, type, value)                                                       \
    STEP(word##_2, uint16_t, type, value)                                                      \
    STEP(word##_4, uint32_t, type, value)                                                      \
    STEP(word##_8, uint64_t, type, value)                                                      \
    STEP(word##_float32, float, type, value)                                                   \
    STEP(word##_float64, double, type, value)
WHOLE_NUMBERS(X)
#undef X

static const struct {
    cast_step whole[9]; /* by the bytes of an element */
    cast_step float32, float64;
} from_whole[GOP_NDTYPES] = {
#define X(enumerator, word, type, value)                                                       \
    [enumerator] = {{[1] = word##_1, [2] = word##_2, [4] = word##_4, [8] = word##_8},          \
                    word##_float32,                                                            \
                    word##_float64},
    WHOLE_NUMBERS(X)
#undef X
};

STEP(widen, double, float, x[i])
STEP(narrow, float, double, x[i])
STEP(load_bfloat16, float, uint16_t, gop_bf16_load(x[i]))
STEP(store_bfloat16, uint16_t, float, gop_bf16_store(x[i]))
STEP(narrow_float16, uint16_t, double, gop_f16_store(gop_float_to_odd(x[i])))
STEP(narrow_bfloat16, uint16_t, double, gop_bf16_store(gop_float_to_odd(x[i])))

static void load_float16(void *to, const void *from, int64_t n)
{
    load_line_float16(to, from, n);
}

static void store_float16(void *to, const void *from, int64_t n)
{
    store_line_float16(to, from, n);
}

/* Turns real numbers into complex numbers. */
#define SPREAD(name, type)                                                                     \
    static void name(void *to, const void *from, int64_t n)                                    \
    {                                                                                          \
        type *restrict const y = to;                                                           \
        const type *restrict const x = from;                                                   \
        for (int64_t i = 0; i < n; i++) y[2 * i] = x[i], y[2 * i + 1] = 0;                     \
    }
SPREAD(spread_float32, float)
SPREAD(spread_float64, double)

/* ---- a cast ---- */

static int is_half(gop_dtype dtype)
{
    return dtype == GOP_FLOAT16 || dtype == GOP_BFLOAT16;
}

static void add_step(gop_cast *c, cast_step step)
{
    c->steps[c->count++] = step;
}

/* Adds the steps from one real dtype to another. */
static void add_real(gop_cast *c, gop_dtype from, gop_dtype to)
{
    const int to_float16 = to == GOP_FLOAT16;
    if (from == to) return;
    if (gop_dtype_kind(to) != 'f') {
        add_step(c, from_whole[from].whole[gop_dtype_size(to)]);
        return;
    }
    if (from == GOP_FLOAT64 && is_half(to)) {
        add_step(c, to_float16 ? narrow_float16 : narrow_bfloat16);
        return;
    }
    if (gop_dtype_kind(from) != 'f') {
        const int is_double = to == GOP_FLOAT64;
        add_step(c, is_double ? from_whole[from].float64 : from_whole[from].float32);
        if (is_double) return;
    } else if (from == GOP_FLOAT64) {
        add_step(c, narrow);
    } else if (is_half(from)) {
        add_step(c, from == GOP_FLOAT16 ? load_float16 : load_bfloat16);
    }
    if (to == GOP_FLOAT64) add_step(c, widen);
    else if (is_half(to)) add_step(c, to_float16 ? store_float16 : store_bfloat16);
}

static void find_steps(gop_cast *c, gop_dtype from, gop_dtype to)
{
    if (gop_dtype_kind(from) == 'c') {
        if (from != to) add_step(c, to == GOP_COMPLEX128 ? widen : narrow);
    } else if (gop_dtype_kind(to) == 'c') {
        const int is_double = to == GOP_COMPLEX128;
        add_real(c, from, is_double ? GOP_FLOAT64 : GOP_FLOAT32);
        add_step(c, is_double ? spread_float64 : spread_float32);
    } else {
        add_real(c, from, to);
    }
}

static void take_steps(const gop_cast *c, void *to, const void *from, int64_t n)
{
    _Alignas(64) char between[2][CAST_LINE * WIDEST];
    for (int s = 0; s < c->count; s++) {
        void *const made = s == c->count - 1 ? to : between[s % 2];
        c->steps[s](made, from, n * c->parts);
        from = made;
    }
}

/* Swaps bytes. `to` may be `from`. */
static void swap(void *to, const void *from, int64_t n, int64_t bytes)
{
#define SWAP(type, swapped)                                                                    \
    {                                                                                          \
        type *const y = to;                                                                    \
        const type *const x = from;                                                            \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) y[i] = swapped(x[i]);             \
        return;                                                                                \
    }
    switch (bytes) {
    case 2:
        SWAP(uint16_t, __builtin_bswap16)
    case 4:
        SWAP(uint32_t, __builtin_bswap32)
    case 8:
        SWAP(uint64_t, __builtin_bswap64)
    default:
        if (to != from) memcpy(to, from, (size_t)n);
    }
#undef SWAP
}

static int is_line(const void *at, int64_t stride, int64_t item)
{
    return stride == item && (uintptr_t)at % (uint64_t)item == 0;
}

/* Casts elements that are strided, byte-swapped or need several steps, a row at a time. */
static __attribute__((noinline)) void in_pieces(const gop_cast *c, void *to, const void *from,
                                                int64_t stride, int64_t n)
{
    const int in_line = is_line(from, stride, c->from);
    _Alignas(64) char line[CAST_LINE * WIDEST];
    const int64_t piece = n < CAST_LINE ? n : CAST_LINE;
    for (int64_t i = 0, m; i < n; i += m) {
        const void *x = (const char *)from + i * stride;
        char *const made = (char *)to + i * c->to;
        m = n - i < piece ? n - i : piece;
        if (!in_line) {
            gop_copy_row(line, c->from, x, stride, c->from, m);
            x = line;
        }
        if (c->swapped) {
            void *const native = c->count ? line : made;
            swap(native, x, m * c->parts, c->from / c->parts);
            x = native;
        }
        if (c->count) take_steps(c, made, x, m);
        else if (!c->swapped) memcpy(made, x, (size_t)(m * c->to));
    }
}

static void run_in(const gop_cast *c, void *to, const void *from, int64_t stride, int64_t n)
{
    const int in_line = is_line(from, stride, c->from);
    if (in_line && !c->swapped && c->count == 1) c->steps[0](to, from, n * c->parts);
    else if (in_line && c->swapped && !c->count)
        swap(to, from, n * c->parts, c->from / c->parts);
    else in_pieces(c, to, from, stride, n);
}

static void run_out(const gop_cast *c, void *to, const void *from, int64_t stride, int64_t n)
{
    const int in_line = is_line(to, stride, c->to);
    _Alignas(64) char line[CAST_LINE * WIDEST];
    const int64_t piece = n < CAST_LINE ? n : CAST_LINE;
    for (int64_t i = 0, m; i < n; i += m) {
        const void *x = (const char *)from + i * c->from;
        char *const at = (char *)to + i * stride, *const made = in_line ? at : line;
        m = n - i < piece ? n - i : piece;
        if (c->count) {
            take_steps(c, made, x, m);
            x = made;
        }
        if (c->swapped) swap(made, x, m * c->words, c->to / c->words);
        else if (!c->count) memcpy(made, x, (size_t)(m * c->to));
        if (!in_line) gop_copy_row(at, stride, made, c->to, c->to, m);
    }
}

gop_cast GOP_LADDER(cast)(int stored, gop_dtype dtype, int is_out)
{
    const gop_dtype there = (gop_dtype)((stored & ~GOP_SWAPPED) - 1);
    const gop_dtype from = is_out ? dtype : there, to = is_out ? there : dtype;
    gop_cast c = {.run = is_out ? run_out : run_in,
                  .from = gop_dtype_size(from),
                  .to = gop_dtype_size(to),
                  .parts = gop_dtype_kind(from) == 'c' ? 2 : 1,
                  .words = gop_dtype_kind(to) == 'c' ? 2 : 1,
                  .swapped = (stored & GOP_SWAPPED) != 0};
    find_steps(&c, from, to);
    return c;
}

#endif
