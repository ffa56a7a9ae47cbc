/*
 * turn_tpl.h - rows of items D (u8 u16 u32 u64 u128) wide into columns; LANES of them fill 16
 * bytes.
 */

/* LANES by LANES elements in registers. Zipping row k with row k + LANES/2, once for every bit
 * of the lane number, swaps that bit of the row number with one of the lane number. Unrolled
 * by force: in loops the vectors would live in memory. */
static inline void FN(square)(T *restrict out, int64_t pitch, const T *restrict in,
                              const int64_t *restrict in_y)
{
#if LANES > 1
    VEC v[LANES], w[LANES];
    UNROLL for (int y = 0; y < LANES; y++) memcpy(&v[y], in + in_y[y], 16);
    UNROLL for (int bit = 1; bit < LANES; bit *= 2)
    {
        UNROLL for (int k = 0; k < LANES / 2; k++)
        {
            w[2 * k] = ZIP_LOW(v[k], v[k + LANES / 2]);
            w[2 * k + 1] = ZIP_HIGH(v[k], v[k + LANES / 2]);
        }
        UNROLL for (int k = 0; k < LANES; k++) v[k] = w[k];
    }
    UNROLL for (int x = 0; x < LANES; x++) memcpy(out + x * pitch, &v[x], 16);
#else
    (void)pitch;
    *out = in[*in_y];
#endif
}

/* LANES rows of a tile, as many columns of the buffer; nx is at least LANES. The last squares
 * overlap, so that none reads beyond its row. */
static inline void FN(turn)(T *restrict buffer, int64_t pitch, const T *restrict in,
                            const int64_t *restrict in_y, int64_t nx, const void *next)
{
    for (int y = 0; next && y < LANES; y++) {
        const char *const row = (const char *)((const T *)next + in_y[y]);
        for (int64_t k = 0; k < nx * (int64_t)sizeof(T); k += LINE)
            __builtin_prefetch(row + k, 0, 2);
        __builtin_prefetch(row + nx * (int64_t)sizeof(T) - 1, 0, 2);
    }
    int64_t x = 0;
    for (; x + LANES <= nx; x += LANES) FN(square)(buffer + x * pitch, pitch, in + x, in_y);
    if (x < nx) FN(square)(buffer + (nx - LANES) * pitch, pitch, in + nx - LANES, in_y);
}

/* Any number of rows: element x of row y to out[x * pitch + y]. */
static inline void FN(turn_rows)(int64_t nx, int64_t ny, void *out, int64_t pitch,
                                 const void *in, const int64_t *in_y)
{
    T *const to = out;
    const T *const from = in;
    int64_t y = 0;
    if (nx >= LANES)
        for (; y + LANES <= ny; y += LANES) FN(turn)(to + y, pitch, from, in_y + y, nx, NULL);
    for (; y < ny; y++)
        for (int64_t x = 0; x < nx; x++) to[x * pitch + y] = from[in_y[y] + x];
}
