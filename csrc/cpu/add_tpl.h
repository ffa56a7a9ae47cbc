/*
 * add_tpl.h - one element, one line and the rows of add, multiply_add and fma, for the
 * dtype D.
 *
 * A line is n elements along the innermost axis. The simd line is written once with the strides
 * as arguments and expanded for the strides that arrays mostly have there: 1, or 0 where an
 * operand broadcasts. With constants in their place the compiler makes vector loops.
 */

/* ---- one element ---- */

#if IS_COMPLEX

static inline T FN(add_one)(T a, T b)
{
    return (T){a.re + b.re, a.im + b.im};
}

/* a.im is negated instead of subtracting: the same value, and GCC 12 fuses multiplications with
 * an alternating minus and plus in spite of -ffp-contract=off (its bug 107647). */
static inline T FN(multiply_add_one)(T a, T b, T c)
{
    const A turned = {-a.im, a.im};
    return (T){(a.re * b.re + turned.re * b.im) + c.re,
               (a.re * b.im + turned.im * b.re) + c.im};
}

#elif IS_BOOL

static inline T FN(add_one)(T a, T b)
{
    return STORE(LOAD(a) | LOAD(b));
}

static inline T FN(multiply_add_one)(T a, T b, T c)
{
    return STORE((LOAD(a) & LOAD(b)) | LOAD(c));
}

#elif IS_INT

/* Unsigned, so that overflow wraps; at least 32 bits, since C would widen less to int. */
static inline T FN(add_one)(T a, T b)
{
    return sizeof(T) == 8 ? (T)((uint64_t)a + (uint64_t)b) : (T)((uint32_t)a + (uint32_t)b);
}

static inline T FN(multiply_add_one)(T a, T b, T c)
{
    return sizeof(T) == 8 ? (T)((uint64_t)a * (uint64_t)b + (uint64_t)c)
                          : (T)((uint32_t)a * (uint32_t)b + (uint32_t)c);
}

#else

static inline T FN(add_one)(T a, T b)
{
    return STORE(LOAD(a) + LOAD(b));
}

/* The product is rounded to the dtype, then the sum: as NumPy's a*b + c. */
static inline T FN(multiply_add_one)(T a, T b, T c)
{
    const T product = STORE(LOAD(a) * LOAD(b));
    return STORE(LOAD(product) + LOAD(c));
}

#if IS_HALF
/* The product of two halves is exact in double; every rounding but the last is to odd. */
static inline T FN(fma_one)(T a, T b, T c)
{
    return STORE(gop_float_to_odd(gop_fma_to_odd(LOAD(a), LOAD(b), LOAD(c))));
}
#else
static inline T FN(fma_one)(T a, T b, T c)
{
    return sizeof(T) == 4 ? (T)fmaf((float)a, (float)b, (float)c) : (T)fma(a, b, c);
}
#endif
#endif

/* ---- lines ---- */

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
    const T a0 = *a, b0 = *b; /* a broadcast operand, out of memory's way */
    if (s[0] == 1 && s[1] == 1 && s[2] == 1) FN(add_run)(n, out, 1, a, 1, b, 1);
    else if (s[0] == 1 && s[1] == 1 && s[2] == 0) FN(add_run)(n, out, 1, a, 1, &b0, 0);
    else if (s[0] == 1 && s[1] == 0 && s[2] == 1) FN(add_run)(n, out, 1, &a0, 0, b, 1);
    else FN(add_run)(n, out, s[0], a, s[1], b, s[2]);
}

/* nt by ni elements into lines along i, read along t: neighbours are turned in registers, and
 * those that the next tile along t wants are fetched. */
static void FN(pack)(int64_t nt, int64_t ni, void *tile, const void *from, int64_t st,
                     int64_t si)
{
    T *const restrict to = tile;
    const T *const restrict a = from;
    int64_t row[TILE_I];
    for (int64_t i = 0; i < ni; i++) row[i] = i * si;
    if (st == 1) {
        for (int64_t i = 0; i < ni; i++) __builtin_prefetch(a + row[i] + nt, 0, 2);
        turn_rows(sizeof(T), nt, ni, to, TILE_I, a, row);
        return;
    }
    for (int64_t i = 0; i < ni; i++)
        for (int64_t t = 0; t < nt; t++) to[t * TILE_I + i] = a[row[i] + t * st];
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
        else FN(op##_run)(n, out, s[0], a, s[1], b, s[2], c, s[3]);                            \
    }

/* ---- rows ---- */

#define ROWS(op, ...)                                                                          \
    static void FN(op##_element)(void *const at[4], const int64_t o[4])                        \
    {                                                                                          \
        T *const out = at[0];                                                                  \
        const T *const a = at[1], *const b = at[2], *const c = at[3];                          \
        (void)c;                                                                               \
        out[o[0]] = FN(op##_one)(__VA_ARGS__);                                                 \
    }                                                                                          \
                                                                                               \
    static gop_status FN(op##_naive)(gop_ctx * ctx, const gop_task *task, int64_t step)        \
    {                                                                                          \
        (void)ctx, (void)step;                                                                 \
        return every_element(task, FN(op##_element));                                          \
    }                                                                                          \
                                                                                               \
    static gop_status FN(op##_simd)(gop_ctx * ctx, const gop_task *task, int64_t step)         \
    {                                                                                          \
        (void)ctx, (void)step;                                                                 \
        return every_line(task, FN(op##_line), sizeof(T), 0);                                  \
    }                                                                                          \
                                                                                               \
    static gop_status FN(op##_streaming)(gop_ctx * ctx, const gop_task *task, int64_t step)    \
    {                                                                                          \
        (void)ctx, (void)step;                                                                 \
        return every_line(task, FN(op##_line), sizeof(T), 1);                                  \
    }                                                                                          \
                                                                                               \
    static gop_status FN(op##_threaded)(gop_ctx * ctx, const gop_task *task, int64_t step)     \
    {                                                                                          \
        (void)ctx, (void)step;                                                                 \
        return every_line_threaded(task, FN(op##_line), FN(pack), sizeof(T));                  \
    }

ROWS(add, a[o[1]], b[o[2]])
LINE3(multiply_add)
ROWS(multiply_add, a[o[1]], b[o[2]], c[o[3]])
#if IS_FLOAT
LINE3(fma)
ROWS(fma, a[o[1]], b[o[2]], c[o[3]])
#endif
#undef LINE3
#undef ROWS
