/*
 * transpose_tpl.h - copying lines and transposing tiles of items D (u8 u16 u32 u64 u128) wide.
 */

/* ---- naive ---- */
static void FN(element)(void *out, int64_t to, const void *in, int64_t from)
{
    ((T *)out)[to] = ((const T *)in)[from];
}

static gop_status FN(transpose_naive)(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)ctx, (void)step;
    return every_element(task, FN(element));
}

/* ---- lines: n elements along one axis ---- */
static void FN(line)(int64_t n, void *restrict out, int64_t so, const void *restrict in,
                     int64_t si)
{
    T *restrict const to = out;
    const T *restrict const from = in;
    if (so == 1 && si == 1) {
        if (n * (int64_t)sizeof(T) >= 64) memcpy(to, from, (size_t)n * sizeof(T));
        else
            for (int64_t i = 0; i < n; i++) to[i] = from[i];
    } else if (so == 1)
        for (int64_t i = 0; i < n; i++) to[i] = from[i * si];
    else
        for (int64_t i = 0; i < n; i++) to[i * so] = from[i * si];
}

/* ---- blocked ---- */

/* A tile of nx by ny elements, any strides: reads and writes stay within cached lines. */
static void FN(tile)(const plane *p, void *restrict out, const void *restrict in, int64_t nx,
                     int64_t ny)
{
    T *restrict const to = out;
    const T *restrict const from = in;
    for (int64_t x = 0; x < nx; x++)
        for (int64_t y = 0; y < ny; y++)
            to[x * p->out_x + y * p->out_y] = from[x * p->in_x + y * p->in_y];
}

static gop_status FN(transpose_blocked)(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)ctx, (void)step;
    return blocked(task, sizeof(T), FN(line), FN(tile));
}

/* ---- threaded ---- */

/* LANES by LANES elements in registers. Zipping row k with row k + LANES/2, once for every bit
 * of the lane number, swaps that bit of the row number with one of the lane number. */
static inline void FN(square)(T *restrict out, int64_t out_x, const T *restrict in,
                              int64_t in_y)
{
#if LANES > 1
    VEC v[LANES], w[LANES];
    for (int y = 0; y < LANES; y++) memcpy(&v[y], in + y * in_y, 16);
    for (int bit = 1; bit < LANES; bit *= 2) {
        for (int k = 0; k < LANES / 2; k++) {
            w[2 * k] = ZIP_LOW(v[k], v[k + LANES / 2]);
            w[2 * k + 1] = ZIP_HIGH(v[k], v[k + LANES / 2]);
        }
        memcpy(v, w, sizeof v);
    }
    for (int x = 0; x < LANES; x++) memcpy(out + x * out_x, &v[x], 16);
#else
    (void)out_x, (void)in_y;
    *out = *in;
#endif
}

/* A tile whose x neighbours are neighbours in `in` and whose y neighbours are neighbours in
 * `out`. It is turned inside the first-level cache, so that memory sees whole lines both ways
 * even where the strides are powers of two and all rows fall into the same cache set. */
static void FN(turned)(const plane *p, void *restrict out, const void *restrict in, int64_t nx,
                       int64_t ny)
{
    _Alignas(64) T turned[TILE_BYTES / sizeof(T)];
    T *restrict const to = out;
    const T *restrict const from = in;
    const int64_t x_whole = nx - nx % LANES, y_whole = ny - ny % LANES;
    for (int64_t y = 0; y < y_whole; y += LANES)
        for (int64_t x = 0; x < x_whole; x += LANES)
            FN(square)(turned + x * ny + y, ny, from + y * p->in_y + x, p->in_y);
    for (int64_t x = 0; x < nx; x++) /* what is left at the two edges */
        for (int64_t y = x < x_whole ? y_whole : 0; y < ny; y++)
            turned[x * ny + y] = from[y * p->in_y + x];
    for (int64_t x = 0; x < nx; x++)
        copy_out(to + x * p->out_x, turned + x * ny, (size_t)ny * sizeof(T), p->stream);
}

static gop_status FN(transpose_threaded)(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)ctx, (void)step;
    return threaded(task, sizeof(T), FN(line), FN(tile), FN(turned));
}
