/*
 * rdf_tpl.h - bodies of cpu/rdf.c for one dtype: the distances, the bins, and a pair of tiles.
 */
#define INLINE static inline __attribute__((always_inline))

/* The integer nearest to q, ties to even. Where the processor has no such instruction, adding
 * 2^23 (2^52) rounds to integers, and larger numbers are integers already. */
INLINE T FN(nearest)(T q)
{
#if defined(__SSE4_1__) || !defined(__x86_64__)
    return sizeof(T) == 4 ? (T)rintf((float)q) : (T)rint((double)q);
#else
    const T big = sizeof(T) == 4 ? (T)0x1p23 : (T)0x1p52, size = q < 0 ? -q : q;
    const T n = (size + big) - big;
    return size < big ? (q < 0 ? -n : n) : q;
#endif
}

/* r2 of one pair: the definition, in the order of docs/numerics.md. box: 0, 1 or 2. */
INLINE T FN(square)(T dx, T dy, T dz, const T *cell, int box)
{
    if (box) {
        T n = FN(nearest)(dz / cell[8]);
        if (box == 2) {
            dx -= n * cell[6];
            dy -= n * cell[7];
        }
        dz -= n * cell[8];
        n = FN(nearest)(dy / cell[4]);
        if (box == 2) dx -= n * cell[3];
        dy -= n * cell[4];
        n = FN(nearest)(dx / cell[0]);
        dx -= n * cell[0];
    }
    return (dx * dx + dy * dy) + dz * dz;
}

/* The largest k with t[k] <= r2, or -1 where r2 is outside the edges. */
INLINE int64_t FN(bin_of)(T r2, const T *t, int64_t bins)
{
    if (!(r2 >= t[0] && r2 < t[bins])) return -1;
    int64_t low = 0, high = bins; /* t[low] <= r2 < t[high] */
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (r2 < t[middle]) high = middle;
        else low = middle;
    }
    return low;
}

/* ---- naive ---- */

static gop_status FN(rdf_naive)(gop_ctx *ctx, const gop_task *task, int64_t step)
{
    const gop_pairs *p = &task->geometry.pairs;
    const T *points = task->in[0].data, *t = task->in[1].data;
    const T *points2 = p->one_set ? points : task->in[2].data;
    T cell[9];
    (void)ctx, (void)step;
    for (int i = 0; i < 9; i++) cell[i] = (T)p->cell[i];
    clear_counts(task);
    for (int64_t i = 0; i < p->n; i++) {
        const T *a = points + i * p->row;
        GOP_TRY(gop_interrupted());
        for (int64_t j = p->one_set ? i + 1 : 0; j < p->n2; j++) {
            const T *b = points2 + j * p->row2;
            const T r2 = FN(square)(a[0] - b[0], a[p->col] - b[p->col2],
                                    a[2 * p->col] - b[2 * p->col2], cell, p->box);
            const int64_t k = FN(bin_of)(r2, t, p->bins);
            if (k >= 0) ++*count_at(task, pair_row(task, i, j), k);
        }
    }
    return GOP_OK;
}

/* ---- tiles: points gathered by type into x[], y[], z[]; see cpu/rdf.c ---- */

static void FN(gather)(const gop_array *points, int64_t row, int64_t col,
                       const gop_array *types, int64_t *next, void *to)
{
    const int64_t n = points->shape[0];
    const T *from = points->data;
    T *x = to, *y = x + n, *z = y + n;
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = types ? next[type_at(types, i)]++ : i;
        x[at] = from[i * row];
        y[at] = from[i * row + col];
        z[at] = from[i * row + 2 * col];
    }
}

/* r2 from one point to each of a chunk: no branch inside, so that it becomes vector code. */
INLINE void FN(squares)(const T *restrict x, const T *restrict y, const T *restrict z,
                        int count, const T a[3], const T *restrict cell, int box,
                        T *restrict r2)
{
    for (int j = 0; j < count; j++)
        r2[j] = FN(square)(a[0] - x[j], a[1] - y[j], a[2] - z[j], cell, box);
}

/*
 * Bins of a chunk by the guess of core/rdf.c: x is the position among the edges to within
 * slack. Adding `magic` rounds it to the nearest edge, an integer in the low bits. Outside the
 * edges: bin number `bins`, which nobody reads. Returns 1 if some x lies within slack of an
 * edge: then the thresholds must decide.
 */
INLINE int FN(guess)(const T *restrict r2, int count, T first, T last, const guess *g,
                     int32_t *restrict bin)
{
    const float magic = 0x1.8p23f, scale = g->scale, shift = g->shift, slack = g->slack;
    const int32_t bins = g->bins;
    int32_t doubtful = 0;
    for (int j = 0; j < count; j++) {
        const int32_t inside = (r2[j] >= first) & (r2[j] < last);
        const float r = sqrtf((float)(inside ? r2[j] : first));
        const float x = r * scale + shift;
        const float edge = (x + magic) - magic;
        const float past = x - edge;
        const int32_t k = (int32_t)edge - (past < 0);
        doubtful |= inside & ((past < 0 ? -past : past) <= slack);
        bin[j] = inside ? k : bins;
    }
    return doubtful;
}

/* Makes every bin of a chunk exact. */
static void FN(settle)(const T *r2, int count, const T *t, int32_t bins, int32_t *bin)
{
    for (int j = 0; j < count; j++) {
        int32_t k = bin[j];
        if (!(r2[j] >= t[0] && r2[j] < t[bins])) continue;
        k = k < 0 ? 0 : k >= bins ? bins - 1 : k;
        while (r2[j] < t[k]) k--;
        while (r2[j] >= t[k + 1]) k++;
        bin[j] = k;
    }
}

/* Counts the pairs of one point with a tile. */
INLINE void FN(count_row)(const sorted *s, const T a[3], const T *x, const T *y, const T *z,
                          int count, const T *cell, int box, int64_t *histogram)
{
    const T *t = s->thresholds;
    const int32_t bins = s->guess.bins;
    const int64_t copy = s->copy;
    const int mask = s->copy_mask;
    T r2[CHUNK];
    int32_t bin[CHUNK];
    for (int first = 0; first < count; first += CHUNK) {
        const int length = count - first < CHUNK ? count - first : CHUNK;
        FN(squares)(x + first, y + first, z + first, length, a, cell, box, r2);
        if (s->uniform) {
            if (FN(guess)(r2, length, t[0], t[bins], &s->guess, bin))
                FN(settle)(r2, length, t, bins, bin);
        } else {
            for (int j = 0; j < length; j++) {
                const int64_t k = FN(bin_of)(r2[j], t, bins);
                bin[j] = k < 0 ? bins : (int32_t)k;
            }
        }
        /* Neighbours go to different copies: a counter is not waited for by the next pair. */
        for (int j = 0; j < length; j++) histogram[(j & mask) * copy + bin[j]]++;
    }
}

INLINE void FN(count_tiles)(const sorted *s, const tile *i, const tile *j, int box,
                            int64_t *histogram)
{
    const T *x1 = (const T *)s->points + i->first, *y1 = x1 + s->n, *z1 = y1 + s->n;
    const T *x2 = (const T *)s->points2 + j->first, *y2 = x2 + s->n2, *z2 = y2 + s->n2;
    T cell[9];
    for (int c = 0; c < 9; c++) cell[c] = (T)s->cell[c];
    for (int a = 0; a < i->count; a++) {
        const T point[3] = {x1[a], y1[a], z1[a]};
        const int from = i == j ? a + 1 : 0; /* of one tile, each pair once */
        FN(count_row)
        (s, point, x2 + from, y2 + from, z2 + from, j->count - from, cell, box, histogram);
    }
}

static void FN(tiles_open)(const sorted *s, const tile *i, const tile *j, int64_t *histogram)
{
    FN(count_tiles)(s, i, j, 0, histogram);
}

static void FN(tiles_right)(const sorted *s, const tile *i, const tile *j, int64_t *histogram)
{
    FN(count_tiles)(s, i, j, 1, histogram);
}

static void FN(tiles_triclinic)(const sorted *s, const tile *i, const tile *j,
                                int64_t *histogram)
{
    FN(count_tiles)(s, i, j, 2, histogram);
}

#undef INLINE
