/*
 * simd.c - transpose tile by tile, in squares that are transposed in vector registers.
 *
 * It reads and writes 16 bytes at a time, while the blocked kernel loads and stores single
 * elements. A transposed tile is kept in a buffer in the L1 cache before it is written.
 */
#ifdef D /* an item of u8 u16 u32 u64 u128, LANES of which fill 16 bytes */

/* Splits m groups of n contiguous items, `step` apart, into n rows. n is two to four and a
 * constant, so that the compiler shuffles whole vectors. */
static ALWAYS_INLINE void FN(part)(int n, int64_t step, int64_t m, T *restrict out,
                                   int64_t pitch, const T *restrict in)
{
    for (int64_t i = 0; i < m; i++)
        for (int k = 0; k < n; k++) out[k * pitch + i] = in[i * step + k];
}

/* The same for any n if `step` is at most four; else for n of two or three. */
static void FN(parts)(int64_t n, int64_t step, int64_t m, T *restrict out, int64_t pitch,
                      const T *restrict in)
{
    if (step == 2) FN(part)(2, 2, m, out, pitch, in);
    else if (step == 3) FN(part)(3, 3, m, out, pitch, in);
    else if (step == 4) FN(part)(4, 4, m, out, pitch, in);
    else if (n == 2) FN(part)(2, step, m, out, pitch, in);
    else FN(part)(3, step, m, out, pitch, in);
}

/* Interleaves n rows of m items: item i of each, then item i + 1. n is two to four and a
 * constant. */
static ALWAYS_INLINE void FN(join)(int n, int64_t m, T *restrict out, const T *restrict in,
                                   const int64_t *in_y)
{
    const T *restrict const row[4] = {in, in + in_y[1], in + in_y[n > 2 ? 2 : 1],
                                      in + in_y[n > 3 ? 3 : 1]};
    for (int64_t i = 0; i < m; i++)
        for (int k = 0; k < n; k++) out[i * n + k] = row[k][i];
}

/* Transposes rows shorter than a vector. It reads whole vectors, beyond the end of a row; the
 * excess comes after the nx columns. Returns the number of rows done: those before the first
 * whose vector would end behind the tile. */
static inline int64_t FN(narrow)(T *restrict buffer, int64_t pitch, const T *restrict in,
                                 const int64_t *restrict in_y, int64_t nx, int64_t ny)
{
    int64_t end = 0, y = 0;
    for (int64_t k = 0; k < ny; k++) end = in_y[k] > end ? in_y[k] : end;
    for (; y + LANES <= ny; y += LANES) {
        int64_t last = in_y[y];
        for (int k = 1; k < LANES; k++) last = in_y[y + k] > last ? in_y[y + k] : last;
        if (last + LANES > end + nx) break;
        FN(square)(buffer + y, pitch, in, in_y + y);
    }
    return y;
}

/* Fills the buffer from rows of every second item: gathers some items of each row, then
 * transposes them. */
__attribute__((noinline)) static void FN(fill_halves)(T *restrict buffer, int64_t pitch,
                                                      const T *restrict from,
                                                      const int64_t *restrict in_y, int64_t nx,
                                                      int64_t ny)
{
    enum { MOST = 128 };
    T some[LANES * MOST] = {0};
    int64_t row[LANES]; /* the last row again if there are no more */
    for (int64_t y = (ny - 1) / LANES * LANES; y >= 0;
         y -= LANES) { /* from the end: see fill */
        for (int k = 0; k < LANES; k++) row[k] = gop_smaller(k, ny - 1 - y) * MOST;
        for (int64_t x = 0; x < nx; x += MOST) {
            const int64_t first = gop_smaller(x, nx - LANES), n = gop_smaller(nx - first, MOST);
            for (int k = 0; k < LANES && y + k < ny; k++)
                FN(line)(n, some + row[k], 1, from + 2 * first + in_y[y + k], 2);
            FN(turn)(buffer + first * pitch + y, pitch, some, row, n, NULL);
        }
    }
}

/* Whether the tile spans an axis of two to four contiguous items, perhaps with small gaps. */
static inline int FN(is_part)(const tiling *t, int64_t nx)
{
    const int64_t step = t->y.far[0];
    return t->x.near == 1 && t->y.rank == 1 && nx >= 2 && nx <= 4 &&
           (step == nx || (step > nx && nx < LANES && (step <= 4 || 4 * nx < LANES)));
}

/* Fills the buffer from such a tile. Small gaps are read too, but not behind the last group,
 * whose items are copied one by one. The items of gaps come after the nx rows. */
static inline void FN(fill_part)(const tiling *t, const tile *at, T *restrict to, int64_t pitch)
{
    const T *restrict const from = at->from;
    const int64_t nx = at->nx, ny = at->ny, step = t->y.far[0];
    const int64_t last = step > nx && step <= 4 ? ny - 1 : ny;
    FN(parts)(nx, step, last, to, pitch, from);
    for (int64_t x = 0; last < ny && x < nx; x++) to[x * pitch + last] = from[last * step + x];
}

/* Fills the buffer by interleaving the two to four rows of the tile. */
static inline void FN(fill_joined)(const tile *at, T *restrict to)
{
    if (at->ny == 2) FN(join)(2, at->nx, to, at->from, at->in_y);
    else if (at->ny == 3) FN(join)(3, at->nx, to, at->from, at->in_y);
    else FN(join)(4, at->nx, to, at->from, at->in_y);
}

/* Transposes the tile into the buffer. */
static inline void FN(fill)(const tiling *t, const tile *at, T *restrict buffer, int64_t pitch)
{
    const T *restrict const from = at->from;
    const int64_t nx = at->nx, ny = at->ny;
    if (FN(is_part)(t, nx)) {
        FN(fill_part)(t, at, buffer, pitch);
    } else if (t->x.near == 2 && nx >= HALVES && LANES > 1) {
        FN(fill_halves)(buffer, pitch, from, at->in_y, nx, ny);
    } else if (t->x.near == 1 && pitch == ny && ny >= 2 && ny <= 4) {
        FN(fill_joined)(at, buffer);
    } else if (t->x.near != 1 || nx < LANES) {
        int64_t done = 0; /* rows */
        if (t->x.near == 1 && 4 * nx >= LANES)
            done = FN(narrow)(buffer, pitch, from, at->in_y, nx, ny);
        for (int64_t x = 0; x < nx; x++)
            for (int64_t y = done; y < ny; y++)
                buffer[x * pitch + y] = from[x * t->x.near + at->in_y[y]];
    } else {
        /* From the end: the excess of a row is overwritten by the next one. */
        int64_t y = ny - ny % LANES;
        int64_t in_y[LANES]; /* the last row again if there are no more */
        for (int k = 0; k < LANES; k++) in_y[k] = at->in_y[y + k < ny ? y + k : ny - 1];
        if (y < ny) FN(turn)(buffer + y, pitch, from, in_y, nx, at->next);
        while ((y -= LANES) >= 0) FN(turn)(buffer + y, pitch, from, at->in_y + y, nx, at->next);
    }
}

/* Whether copying single elements is as fast as squares: few wide items fit in a square, so the
 * excess of one counts. */
static inline int FN(is_few)(int64_t near, int64_t nx, int cached)
{
    if (near != 1) return LANES <= 2 && cached;
    return LANES == 2 ? nx < 8 : LANES == 4 && nx < 7 && !cached;
}

/* Writes a tile directly to the output, if that has few rows, or if the caches hold all that
 * the tile touches. Returns whether it did. */
static inline int FN(is_written)(const tiling *t, const tile *at)
{
    T *restrict const to = at->to;
    const T *restrict const from = at->from;
    const int64_t nx = at->nx, ny = at->ny, pitch = t->x.far[0];
    const int apart = nx <= WAYS || pitch * (int64_t)sizeof(T) % SAME_SET != 0;
    const int cached = t->small || (t->cached && apart);
    const int64_t step = t->y.far[0];
    if (t->stream || t->x.rank != 1) return 0;
    if (FN(is_part)(t, nx) && (step == nx || step > 4)) FN(fill_part)(t, at, to, pitch);
    else if (t->x.near == 1 && pitch == ny && ny >= 2 && ny <= 4) FN(fill_joined)(at, to);
    else if (t->y.rank == 1 && FN(is_few)(t->x.near, nx, cached))
        for (int64_t x = 0; x < nx; x++)
            FN(line)(ny, to + x * pitch, 1, from + x * t->x.near, step);
    else if (t->x.near == 1 && nx >= LANES && (cached || LANES == 1))
        FN(turn_rows)(nx, ny, to, pitch, from, at->in_y, t->cached ? NULL : at->next);
    else return 0;
    return 1;
}

/* Transposes a tile in the L1 cache and writes it row by row, so that memory sees whole cache
 * lines on both sides, even if strides are powers of two and all rows map to one cache set. The
 * next tile is prefetched meanwhile, because hardware cannot predict its rows. Rows shorter
 * than a vector are stored as whole vectors; the next row overwrites the excess. */
static void FN(turned)(const tiling *t, const tile *given)
{
    const tile own = *given, *const at = &own; /* so that no store aliases it */
    T *restrict const buffer = (T *)at->buffer, *restrict const to = at->to;
    const int64_t nx = at->nx, ny = at->ny;
    const int run = t->x.rank == 1 && t->x.far[0] == ny; /* contiguous in the output */
    const int follows = t->x.far[0] == ny; /* rows are contiguous along x's first axis */
    const int64_t pitch =
        ny < LANES || ny <= 4 || follows ? ny : (ny + LANES - 1) / LANES * LANES;
    if (t->y.near != 1) {
        FN(tile)(t, given);
        return;
    }
    if (FN(is_written)(t, at)) return;
    FN(fill)(t, at, buffer, pitch);
    const int64_t rows = run ? 1 : nx, row = run ? nx * ny : ny;
    for (int64_t x = 0, n = 1; x < rows; x += n) {
        if (follows && !run)
            n = gop_smaller(nx - x, t->x.extent[0] - (at->x + x) % t->x.extent[0]);
        const size_t bytes = (size_t)(n * row) * sizeof(T);
        if (t->stream) stream_copy(to + at->out_x[x], buffer + x * pitch, bytes);
        else memcpy(to + at->out_x[x], buffer + x * pitch, bytes);
    }
}

static gop_status FN(transpose_simd)(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    (void)ctx, (void)step;
    return alone(task, FN(line), FN(turned));
}

#else
#include "cpu/transpose/lines.h"
#include "cpu/transpose/turn.h"

enum {
    HALVES = 32,        /* fewest items of a row of every second item that are gathered first */
    SAME_SET = 1 << 11, /* at multiples of these bytes, lines share one or two cache sets */
    WAYS = 6,           /* lines of one set that fit in a cache, beside those that are read */
};

#define GOP_TPL "cpu/transpose/simd.c"
#include "cpu/transpose/each_item.inc"

static const gop_row transpose_simd_row = {
    .name = "simd",
    .note = "squares of a tile turned in vector registers: 16 bytes in, 16 bytes out",
    .role = GOP_CONFORMING,
    .launch = BY_SIZE(transpose_simd),
    .plan = plan_alone,
};

#endif
