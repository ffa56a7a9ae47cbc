/*
 * matmul_tpl.h - matmul's kernels for one dtype; see cpu/cpu.h for the macros.
 */
#define PACKED GOP_PASTE(PACKED, D)
#define PFN(name) GOP_PASTE(name, PACKED)
#define X PFN(packed)

static inline A FN(madd)(A x, A y, A sum)
{
#if IS_BOOL
    return (A)(sum | (x & y));
#elif IS_INT
    return (A)((uint64_t)sum + (uint64_t)x * (uint64_t)y);
#elif IS_FLOAT
    return sizeof(A) == 4 ? (A)fmaf((float)x, (float)y, (float)sum) : (A)fma(x, y, sum);
#else
    sum.re = FN(madd_part)(x.re, y.re, sum.re);
    sum.re = FN(madd_part)(-x.im, y.im, sum.re);
    sum.im = FN(madd_part)(x.re, y.im, sum.im);
    sum.im = FN(madd_part)(x.im, y.re, sum.im);
    return sum;
#endif
}

/* ---- naive: the definition, one chain of multiply-adds for each output ---- */

static void FN(naive)(const gop_gemm *g, const void *a_data, const void *b_data, void *out_data,
                      int64_t i_begin, int64_t i_end)
{
    const T *a = a_data, *b = b_data;
    T *out = out_data;
    for (int64_t i = i_begin; i < i_end; i++)
        for (int64_t j = 0; j < g->n; j++) {
            A sum = {0};
            for (int64_t l = 0; l < g->k; l++)
                sum = FN(madd)(LOAD(a[i * g->a_row + l * g->a_col]),
                               LOAD(b[l * g->b_row + j * g->b_col]), sum);
            out[i * g->out_row + j * g->out_col] = STORE(sum);
        }
}

/* ---- blocked: a block of b stays in cache while all rows of a pass over it ---- */

#if IS_INT || (IS_FLOAT && !IS_HALF)
static void FN(blocked)(const gop_gemm *g, const void *a_data, const void *b_data,
                        void *out_data, int64_t i_begin, int64_t i_end)
{
    const T *a = a_data;
    for (int64_t j0 = 0; j0 < g->n; j0 += BLOCK) {
        const int width = (int)(g->n - j0 < BLOCK ? g->n - j0 : BLOCK);
        int64_t l0 = 0;
        do {
            const int64_t l_end = g->k - l0 < KC ? g->k : l0 + KC;
            const T *b = (const T *)b_data + j0 * g->b_col;
            for (int64_t i = i_begin; i < i_end; i++) {
                A sum[BLOCK] = {0};
                for (int64_t l = l0; l < l_end; l++) {
                    const A x = a[i * g->a_row + l * g->a_col];
                    const T *row = b + l * g->b_row;
                    if (g->b_col == 1)
                        for (int j = 0; j < width; j++) sum[j] = FN(madd)(x, row[j], sum[j]);
                    else
                        for (int j = 0; j < width; j++)
                            sum[j] = FN(madd)(x, row[j * g->b_col], sum[j]);
                }
                T *out = (T *)out_data + i * g->out_row + j0 * g->out_col;
                for (int j = 0; j < width; j++, out += g->out_col)
                    *out = l0 == 0 ? sum[j] : FN(madd)(1, *out, sum[j]); /* 1 * out is exact */
            }
            l0 = l_end;
        } while (l0 < g->k);
    }
}
#endif

/* ---- simd, threaded: packed panels, a tile of accumulators, a kernel in registers ---- */

static inline void FN(put)(T value, X *to, int plane)
{
#if IS_COMPLEX
    to[0] = value.re;
    to[plane] = value.im;
#else
    (void)plane;
    *to = (X)LOAD(value);
#endif
}

static inline T FN(get)(const X *from, int plane)
{
#if IS_COMPLEX
    return (T){from[0], from[plane]};
#else
    (void)plane;
    return (T)STORE(*from);
#endif
}

/* `here` neighbouring values of one l into a panel of `width`. */
static inline void FN(pack_line)(const T *from, int here, int width, X *to)
{
    for (int x = 0; x < here; x++) FN(put)(from[x], to + x, width);
}

/* Copies `count` vectors of `kc` values into panels of `width` vectors, side by side for each
 * l; what is missing in the last panel becomes 0, which changes accumulators never stored. The
 * source is read along its contiguous direction, whole cache lines at a time. */
static void FN(pack)(const T *from, int64_t step, int64_t l_step, int64_t count, int64_t kc,
                     int width, X *to)
{
    enum { LINE = 16 }; /* values of l taken from one vector at a time */
    const int planes = 1 + IS_COMPLEX;
    const int64_t panel = kc * width * planes, full = count / width * width;
    if (full < count) memset(to + full / width * panel, 0, sizeof(X) * (size_t)panel);
    if (step == 1) {
        for (int64_t l = 0; l < kc; l++, from += l_step) {
            X *at = to + l * width * planes;
            int64_t x = 0;
            if (width == PFN(NR)) /* a length known here becomes a few moves */
                for (; x < full; x += PFN(NR), at += panel)
                    FN(pack_line)(from + x, PFN(NR), PFN(NR), at);
            for (; x < count; x += width, at += panel) FN(pack_line)
            (from + x, (int)(count - x < width ? count - x : width), width, at);
        }
        return;
    }
    for (int64_t first = 0; first < count; first += width, to += panel) {
        const int here = (int)(count - first < width ? count - first : width);
        const T *source = from + first * step;
        for (int64_t l0 = 0; l0 < kc; l0 += LINE) {
            const int64_t l_end = kc - l0 < LINE ? kc : l0 + LINE;
            for (int x = 0; x < here; x++)
                for (int64_t l = l0; l < l_end; l++)
                    FN(put)(source[x * step + l * l_step], to + l * width * planes + x, width);
        }
    }
}

/* Writes a strip of accumulators, kept as blocks of mr x NR, into out. */
static void FN(unpack)(const product *p, const X *c, int64_t rows, int64_t cols, T *out)
{
    const int nr = PFN(NR), planes = 1 + IS_COMPLEX;
    for (int64_t i0 = 0; i0 < rows; i0 += p->mr)
        for (int64_t j0 = 0; j0 < cols; j0 += nr, c += p->mr * nr * planes) {
            const int64_t i_end = rows - i0 < p->mr ? rows - i0 : p->mr;
            const int64_t j_end = cols - j0 < nr ? cols - j0 : nr;
            for (int64_t i = 0; i < i_end; i++) {
                T *row = out + (i0 + i) * p->out_row + j0 * p->out_col;
                const X *sum = c + i * nr;
                if (p->out_col == 1)
                    for (int64_t j = 0; j < j_end; j++) row[j] = FN(get)(sum + j, p->mr * nr);
                else
                    for (int64_t j = 0; j < j_end; j++)
                        row[j * p->out_col] = FN(get)(sum + j, p->mr * nr);
            }
        }
}

/* Tiles [begin, end) of the round, for its values of l. */
static void FN(tiles)(void *argument, int64_t begin, int64_t end, int worker)
{
    product *const p = argument;
    const int nr = PFN(NR), planes = 1 + IS_COMPLEX, part = scratch_take(p, worker);
    for (int64_t t = begin; t < end; t++) {
        tile at;
        locate(p, t, part, &at);
        const T *a = (const T *)p->a + at.a, *b = (const T *)p->b + at.b;
        T *out = (T *)p->out + at.out;
        X *const a_panels = at.a_panels, *const b_panels = at.b_panels;
        int64_t l0 = p->l_begin;
        do {
            const int64_t kc = p->l_end - l0 < KC ? p->l_end - l0 : KC;
            X *c = at.sums;
            FN(pack)(a + l0 * p->a_col, p->a_row, p->a_col, at.rows, kc, p->mr, a_panels);
            for (int64_t j1 = 0; j1 < at.cols; j1 += p->strip) {
                const int64_t cols = at.cols - j1 < p->strip ? at.cols - j1 : p->strip;
                X *const strip = c;
                FN(pack)
                (b + l0 * p->b_row + j1 * p->b_col, p->b_col, p->b_row, cols, kc, nr, b_panels);
                for (int64_t i0 = 0; i0 < at.rows; i0 += p->mr)
                    for (int64_t j0 = 0; j0 < cols; j0 += nr, c += p->mr * nr * planes)
                        PFN(multiply)
                (p->mr, kc, a_panels + i0 * kc * planes, b_panels + j0 * kc * planes, c,
                 l0 == 0);
                if (l0 + kc == p->k) FN(unpack)(p, strip, at.rows, cols, out + j1 * p->out_col);
            }
            l0 += kc;
        } while (l0 < p->l_end);
    }
    scratch_give(p, part);
}

#undef PACKED
#undef PFN
#undef X
