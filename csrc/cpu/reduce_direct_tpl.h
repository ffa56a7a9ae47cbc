/*
 * reduce_direct_tpl.h - one reduce_direct: elements of dtype D folded where they lie, into
 * accumulators of type R, by an operator whose order is free.
 *
 * Define DIRECT (its name), R, P (of partial results, of up to 256 elements), TURN(x) from T to
 * P, JOIN(a, b) and NONE before including; no guard.
 */
#define NAME(part) GOP_PASTE(FN(DIRECT), part)

/* Not inlined: interleaved with the next row it would read memory out of order. */
__attribute__((noinline)) static void NAME(row)(int twist, P *restrict part,
                                                const T *restrict x, int64_t n)
{
    (void)twist;
    for (int64_t i = 0; i < n; i++) part[i] = (P)JOIN(part[i], TURN(x[i]));
}

/* Items [first, first + n) of rows that go by one after the other, as memory lies, while their
 * partial results stay in the first-level cache. */
static void NAME(some_rows)(int twist, R *restrict out, const void *const *row, int rows,
                            int64_t first, int64_t n)
{
    _Alignas(64) P part[SHORT_ROW / sizeof(T)];
    for (int64_t i = 0; i < n; i++) part[i] = NONE;
    for (int r = 0; r < rows; r++) NAME(row)(twist, part, (const T *)row[r] + first, n);
    for (int64_t i = 0; i < n; i++) out[first + i] = JOIN(out[first + i], (R)part[i]);
}

/* Of long rows eight go by at once: to read and write an output for each of them would cost
 * more than the row. */
static void NAME(eight_rows)(int twist, R *restrict out, const void *const *row, int64_t n)
{
    const T *restrict const a = row[0], *restrict const b = row[1], *restrict const c = row[2],
                            *restrict const d = row[3], *restrict const e = row[4],
                            *restrict const f = row[5], *restrict const g = row[6],
                            *restrict const h = row[7];
    (void)twist;
    for (int64_t i = 0; i < n; i++) {
        P x = TURN(a[i]), y;
        y = TURN(b[i]), x = (P)JOIN(x, y);
        y = TURN(c[i]), x = (P)JOIN(x, y);
        y = TURN(d[i]), x = (P)JOIN(x, y);
        y = TURN(e[i]), x = (P)JOIN(x, y);
        y = TURN(f[i]), x = (P)JOIN(x, y);
        y = TURN(g[i]), x = (P)JOIN(x, y);
        y = TURN(h[i]), x = (P)JOIN(x, y);
        out[i] = JOIN(out[i], (R)x);
    }
}

static void NAME(rows)(const reduce_job *job, void *to, const void *const *row, int rows,
                       int64_t n)
{
    enum { MOST = SHORT_ROW / sizeof(T) };
    if (n > MOST)
        for (; rows >= 8; rows -= 8, row += 8) NAME(eight_rows)(job->twist, to, row, n);
    for (int64_t i = 0; rows > 0 && i < n; i += MOST)
        NAME(some_rows)(job->twist, to, row, rows, i, n - i < MOST ? n - i : MOST);
}

static ALWAYS_INLINE R NAME(leaf)(int twist, const T *x, int64_t n)
{
    enum { SOME = 16, MANY = 512 / sizeof(P) }; /* DIRECT_LEAF is 256 times 128 */
    const T *const end = x + n;
    const int width = n >= MANY ? MANY : SOME;
    _Alignas(64) P lane[MANY];
    R all = NONE;
    (void)twist;
    KEEP_LOOP for (int l = 0; l < width; l++) lane[l] = NONE;
    for (; end - x >= MANY; x += MANY)
        for (int l = 0; l < MANY; l++) lane[l] = (P)JOIN(lane[l], TURN(x[l]));
    for (; end - x >= SOME; x += SOME)
        KEEP_LOOP for (int l = 0; l < SOME; l++) lane[l] = (P)JOIN(lane[l], TURN(x[l]));
    const int left = (int)(end - x);
    if (left)
        KEEP_LOOP for (int l = 0; l < SOME; l++) if (l < left) lane[l] =
            (P)JOIN(lane[l], TURN(x[l]));
    KEEP_LOOP for (int l = 0; l < width; l++) all = JOIN(all, (R)lane[l]);
    return all;
}

static void NAME(leaves)(const reduce_job *job, void *to, const void *x, int64_t n,
                         int64_t pitch, int64_t outputs)
{
    R *const out = to;
    for (int64_t i = 0; i < outputs; i++)
        out[i] = NAME(leaf)(job->twist, (const T *)x + i * pitch, n);
}

#ifdef DIRECT_FINDS
static int64_t NAME(find)(const reduce_job *job, const void *from, int64_t n, const void *best)
{
    enum { BLOCK = 64 };
    const int twist = job->twist;
    const R key = *(const R *)best;
    const T *const x = from;
    int64_t i = 0;
    (void)twist;
    for (; i + BLOCK <= n; i += BLOCK) {
        R at = BLOCK;
        for (int l = 0; l < BLOCK; l++) {
            const R here = TURN(x[i + l]) == key ? (R)l : BLOCK;
            at = here < at ? here : at;
        }
        if (at < BLOCK) return i + at;
    }
    while (TURN(x[i]) != key) i++;
    return i;
}
#endif

static const reduce_direct FN(DIRECT) = {
    .rows = NAME(rows),
    .leaves = NAME(leaves),
#ifdef DIRECT_FINDS
    .find = NAME(find),
#endif
};
#undef NAME
#undef DIRECT
#undef P
#undef TURN
#undef JOIN
#undef NONE
