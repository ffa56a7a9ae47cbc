/*
 * exact_block.h - adds a block of terms to exact sums, in doubles without loss.
 *
 * Consecutive terms go to different lanes; each lane adds the terms of all rows. Terms whose
 * exponents are close add exactly in a double: their bits, and those of their number, fit in
 * 53. Otherwise a term is split at a unit: (x + M) - M rounds x to a multiple of the unit, with
 * M = 1.5 2^52 units. The remainder is exact and is added to another double.
 *
 * One pass adds the terms and finds the exponents. Floats need no unit. The unit of doubles
 * comes from the block before, so it is a guess. If exponents or guess say that the doubles may
 * have lost bits, the block is added again, with units from the pass. A lane whose terms are
 * still too far apart is added term by term. If many lanes of one long sum are, all terms go to
 * bins: an integer for each exponent, to which significands are added, and which is shifted to
 * its place in the sum only at the end. This file includes itself for float and double.
 */
#ifdef R
/* R: the type. I: integers of its size. BIN: the type of a bin. HIDDEN: bits of a fraction.
 * FOLDS: doubles of a lane. */

#define NAME(name) GOP_PASTE(name, R)
#define MAGNITUDE (((((I)1 << (8 * sizeof(I) - 2)) - 1) << 1) + 1)

typedef I NAME(exact_bits) __attribute__((vector_size(VECTOR)));

enum {
    NAME(LANES) = LINE / sizeof(R), /* lanes of a pass */
    NAME(BIAS) = sizeof(R) == 4 ? 127 : 1023,
    /* The highest exponent for which no sum of a block overflows. */
    NAME(HIGHEST) = 2 * NAME(BIAS) - (sizeof(R) == 4 ? 0 : TERM_BITS + 1),
};

/* The state of a pass: the sums and extreme magnitudes of each lane. */
typedef struct NAME(exact_lanes) {
    exact_units units;
    double total[FOLDS][ACROSS];   /* exact if the lane's exponents allow it */
    I most[ACROSS], least[ACROSS]; /* the largest magnitude; the least nonzero one, minus 1 */
} NAME(exact_lanes);

static ALWAYS_INLINE void NAME(exact_clear)(NAME(exact_lanes) * s, int lanes)
{
    for (int f = 0; f < FOLDS; f++) memset(s->total[f], 0, (size_t)lanes * sizeof(double));
    memset(s->most, 0, (size_t)lanes * sizeof(I));
    for (int l = 0; l < lanes; l++) s->least[l] = MAGNITUDE;
}

/* Adds rows to a cache line of lanes from lane l on, and finds their extreme magnitudes. */
static ALWAYS_INLINE void NAME(exact_pass)(NAME(exact_lanes) * s, int l, const R *x,
                                           int64_t pitch, int rows)
{
    enum {
        WIDE = VECTOR / sizeof(R),
        DOUBLES = VECTOR / sizeof(double),
        N = NAME(LANES) / WIDE,
        M = NAME(LANES) / DOUBLES
    };
    typedef NAME(exact_bits) vector;
    typedef R few __attribute__((vector_size(DOUBLES * sizeof(R))));
    vector most[N], least[N];
    exact_doubles sum[FOLDS][M], unit[M];
    /* One by one, so that the arrays stay in registers. */
    STRIP_UNROLL for (int v = 0; v < N; v++)
    {
        memcpy(&most[v], s->most + l + v * WIDE, VECTOR);
        memcpy(&least[v], s->least + l + v * WIDE, VECTOR);
    }
    STRIP_UNROLL for (int v = 0; v < M; v++)
    {
        memcpy(&unit[v], s->units.unit + l + v * DOUBLES, VECTOR);
        for (int f = 0; f < FOLDS; f++)
            memcpy(&sum[f][v], s->total[f] + l + v * DOUBLES, VECTOR);
    }
    for (int r = 0; r < rows; r++, x += pitch) {
        __builtin_prefetch(x + rows * pitch);
        STRIP_UNROLL for (int v = 0; v < N; v++)
        {
            vector size;
            memcpy(&size, x + v * WIDE, sizeof size);
            size &= MAGNITUDE;
            const vector before = (size - 1) & MAGNITUDE; /* for 0 it is the largest */
            const vector more = size > most[v], less = before < least[v];
            most[v] = (size & more) | (most[v] & ~more);
            least[v] = (before & less) | (least[v] & ~less);
        }
        STRIP_UNROLL for (int v = 0; v < M; v++)
        {
            few term;
            memcpy(&term, x + v * DOUBLES, sizeof term);
            exact_doubles left = __builtin_convertvector(term, exact_doubles);
            if (FOLDS > 1) {
                const exact_doubles part = (left + unit[v]) - unit[v];
                sum[0][v] += part;
                left -= part;
            }
            sum[FOLDS - 1][v] += left;
        }
    }
    STRIP_UNROLL for (int v = 0; v < N; v++)
    {
        memcpy(s->most + l + v * WIDE, &most[v], VECTOR);
        memcpy(s->least + l + v * WIDE, &least[v], VECTOR);
    }
    for (int f = 0; f < FOLDS; f++)
        STRIP_UNROLL for (int v = 0; v < M; v++)
            memcpy(s->total[f] + l + v * DOUBLES, &sum[f][v], VECTOR);
}

/* The exponents of a lane: 0 if all terms are 0. */
static ALWAYS_INLINE void NAME(exact_span)(I most, I least, int *high, int *low)
{
    const int top = (int)(most >> HIDDEN), e = (int)((least + 1) >> HIDDEN);
    *high = most == 0 ? 0 : top ? top : 1;
    *low = most == 0 ? 0 : e ? e : 1;
}

/* Whether 2^TERM_BITS terms of these exponents add exactly in a pass. */
static ALWAYS_INLINE int NAME(exact_fits)(int high, int low, int guess)
{
    enum { SPAN = FOLDS == 1 ? 52 - HIDDEN - TERM_BITS : 54 - 2 * TERM_BITS };
    if (high == 0) return 1;
    if (FOLDS == 1) return high <= NAME(HIGHEST) && high - low <= SPAN;
    return high <= guess && guess - low <= SPAN;
}

/* Sets the unit for the next block, for exponents up to one more than `high`. */
static ALWAYS_INLINE void NAME(exact_guess)(NAME(exact_lanes) * s, int l, int high)
{
    if (FOLDS == 1 || high > NAME(HIGHEST)) return;
    s->units.guess[l] = high < NAME(HIGHEST) ? high + 1 : high;
    s->units.unit[l] = exact_unit(s->units.guess[l], NAME(BIAS), TERM_BITS);
}

/* Computes the sum of at most BLOCK_TERMS terms, or of both parts of complex terms, as doubles
 * that add to it. Returns the number of doubles; 0 if the terms are too far apart. */
static int NAME(exact_total)(void *lanes, const void *terms, int n, int parts,
                             double (*total)[2])
{
    NAME(exact_lanes) *const s = lanes;
    const R *const x = terms;
    const int whole = n / STRIP * STRIP, guess = s->units.guess[0];
    int high, low;
    I most[STRIP], least[STRIP];
    NAME(exact_clear)(s, STRIP);
    for (int l = 0; l < STRIP; l += NAME(LANES))
        NAME(exact_pass)(s, l, x + l, STRIP, n / STRIP);
    if (whole < n) {
        R last[STRIP] = {0};
        memcpy(last, x + whole, (size_t)(n - whole) * sizeof(R));
        for (int l = 0; l < STRIP; l += NAME(LANES)) NAME(exact_pass)(s, l, last + l, STRIP, 1);
    }
    memcpy(most, s->most, sizeof most);
    memcpy(least, s->least, sizeof least);
    STRIP_UNROLL for (int width = STRIP / 2; width > 0; width /= 2)
        STRIP_UNROLL for (int l = 0; l < width; l++)
    {
        most[l] = most[l] > most[l + width] ? most[l] : most[l + width];
        least[l] = least[l] < least[l + width] ? least[l] : least[l + width];
    }
    NAME(exact_span)(*most, *least, &high, &low);
    if (!NAME(exact_fits)(high, low, guess)) {
        for (int l = 0; l < STRIP; l++) NAME(exact_guess)(s, l, high);
        return 0;
    }
    for (int f = 0; f < FOLDS; f++) {
        double *const sum = s->total[f];
        STRIP_UNROLL for (int width = STRIP / 2; width > 1; width /= 2)
            STRIP_UNROLL for (int l = 0; l < width; l++) sum[l] += sum[l + width];
        if (parts == 1) sum[0] += sum[1];
        for (int part = 0; part < parts; part++) total[part][f] = sum[part];
    }
    return FOLDS;
}

/* Computes total[f][l], the sum of lane l, in parts that `magic` splits. */
static ALWAYS_INLINE void NAME(exact_fold)(const R *x, int64_t pitch, int rows, const int folds,
                                           double (*magic)[STRIP], double (*total)[STRIP])
{
    enum { WIDE = VECTOR / sizeof(double), N = STRIP / WIDE };
    typedef exact_doubles vector;
    vector sum[3][N], unit[2][N];
    memset(sum, 0, sizeof sum);
    memcpy(unit, magic, sizeof unit);
    for (int r = 0; r < rows; r++, x += pitch) {
        for (size_t b = 0; b < STRIP * sizeof(R); b += LINE) /* of the next block */
            __builtin_prefetch((const char *)(x + rows * pitch) + b);
        STRIP_UNROLL for (int v = 0; v < N; v++)
        {
            typedef R few __attribute__((vector_size(WIDE * sizeof(R))));
            few term;
            memcpy(&term, x + v * WIDE, sizeof term);
            vector left = __builtin_convertvector(term, vector);
            for (int f = 0; f < folds - 1; f++) {
                const vector part = (left + unit[f][v]) - unit[f][v];
                sum[f][v] += part;
                left -= part;
            }
            sum[folds - 1][v] += left;
        }
    }
    memcpy(total, sum, sizeof sum);
}

/* Adds n terms to bins. They belong alternately to `parts` sums. */
static void NAME(exact_bin)(exact_bins *bins, const void *terms, int n, int parts)
{
    enum { EXPONENTS = sizeof(R) == 4 ? 256 : 2048 };
    const R *const x = terms;
    const I fraction = ((I)1 << HIDDEN) - 1;
    BIN *const bin = bins->NAME(in);
    for (int i = 0; i < n; i++) {
        I bits;
        memcpy(&bits, x + i, sizeof bits);
        const int e = (int)(bits >> HIDDEN & (EXPONENTS - 1)), part = i & (parts - 1);
        const I size = (bits & fraction) | (I)(e != 0) << HIDDEN, minus = -(bits < 0);
        if (e < EXPONENTS - 1) bin[part * EXPONENTS + e] += (size ^ minus) - minus;
        else bins->special[part] |= gop_exact_special(bits_of_double((double)x[i]));
    }
    bins->used = 1;
}

/* Adds the bins to the sums and clears them. No word gets more than 128 times 2^32. */
static void NAME(exact_empty)(exact_bins *bins, const exact_job *job, int64_t *const *sum)
{
    enum {
        EXPONENTS = sizeof(R) == 4 ? 256 : 2048,
        WORDS = sizeof(R) == 4 ? 2 : 3, /* words of a shifted bin below its last */
    };
    for (int part = 0; part < job->plan->parts; part++) {
        const gop_exact_line line = line_of(job, sum[part]);
        *sum[part] |= bins->special[part];
        for (int e = 0; e < EXPONENTS - 1; e++) {
            const int exponent = (e ? e : 1) - EXPONENTS / 2 + 1 - HIDDEN;
            const int place = exponent - GOP_EXACT_LOW - 32 * line.first;
            int64_t *const word = line.word + (place >> 5);
            gop_i128 bin = bins->NAME(in)[part * EXPONENTS + e];
            if (bin == 0) continue;
            bin *= (int64_t)1 << (place & 31);
            for (int i = 0; i < WORDS; i++, bin >>= 32) word[i] += (int64_t)(bin & 0xffffffff);
            word[WORDS] += (int64_t)bin;
        }
    }
    memset(bins->NAME(in), 0, sizeof bins->NAME(in));
    memset(bins->special, 0, sizeof bins->special);
    bins->used = 0;
}

/* Adds rows of STRIP terms, `pitch` apart, after a pass over them: lane l to sum[l], with any
 * exponents. Or adds them to bins, if there are any. Returns the most terms that it added to a
 * lane since the carry of the words. */
static int NAME(exact_block)(const exact_job *job, const void *lanes, int first,
                             const void *terms, int64_t pitch, int rows, int64_t *const *sum,
                             exact_bins *bins)
{
    enum {
        FEW_ALONE = 2, /* most lanes that are added term by term rather than all to bins */
        SPAN = 52 - ROW_BITS - HIDDEN + (FOLDS - 1) * FOLD, /* of exponents */
    };
    const NAME(exact_lanes) *const s = lanes;
    const R *const x = terms;
    int high[STRIP], low[STRIP], apart = 0;
    double magic[2][STRIP] = {{0}}, total[3][STRIP];
    unsigned alone = 0;
    for (int l = 0; l < STRIP; l++) {
        NAME(exact_span)(s->most[first + l], s->least[first + l], &high[l], &low[l]);
        if (high[l] - low[l] > SPAN + FOLD || high[l] > NAME(HIGHEST)) alone |= 1u << l;
        else if (high[l] - low[l] > apart) apart = high[l] - low[l];
    }
    if (bins && __builtin_popcount(alone) > FEW_ALONE) {
        NAME(exact_bin)(bins, x, rows * STRIP, job->plan->parts);
        return 0;
    }
    const int folds = apart > SPAN ? FOLDS + 1 : FOLDS;
    for (int f = 0; f < folds - 1; f++)
        for (int l = 0; l < STRIP; l++) {
            magic[f][l] = exact_unit(high[l] - f * FOLD, NAME(BIAS), ROW_BITS);
        }
    if (folds == FOLDS) NAME(exact_fold)(x, pitch, rows, FOLDS, magic, total);
    else NAME(exact_fold)(x, pitch, rows, FOLDS + 1, magic, total);
    for (int l = 0; l < STRIP; l++) {
        const gop_exact_line line = line_of(job, sum[l]);
        for (int f = 0; f < folds && !(alone >> l & 1); f++)
            gop_exact_add(line, bits_of_double(total[f][l]));
        if (!(alone >> l & 1)) continue;
        if (rows > FEW_ROWS) gop_exact_carry(line);
        for (int r = 0; r < rows; r++)
            gop_exact_take(sum[l], line, bits_of_double((double)x[r * pitch + l]));
        if (rows > FEW_ROWS) gop_exact_carry(line);
    }
    return alone && rows <= FEW_ROWS && rows > folds ? rows : folds;
}

/* Adds rows of n terms, a multiple of STRIP, lane l to sum[l]. Returns the same as exact_block.
 */
static int NAME(exact_across)(const exact_job *job, void *lanes, const void *terms,
                              int64_t pitch, int rows, int n, int64_t *const *sum)
{
    enum { AT_ONCE = 4 }; /* rows of a pass: streams of memory */
    NAME(exact_lanes) *const s = lanes;
    const R *const x = terms;
    int added = FOLDS;
    NAME(exact_clear)(s, n);
    for (int r = 0; r < rows; r += AT_ONCE)
        for (int l = 0; l < n; l += NAME(LANES)) {
            const R *const at = x + r * pitch + l;
            if (r + AT_ONCE <= rows) NAME(exact_pass)(s, l, at, pitch, AT_ONCE);
            else NAME(exact_pass)(s, l, at, pitch, rows - r);
        }
    for (int l = 0, fit; l < n; l += STRIP) {
        fit = 1;
        for (int i = l; i < l + STRIP; i++) {
            int high, low;
            NAME(exact_span)(s->most[i], s->least[i], &high, &low);
            if (NAME(exact_fits)(high, low, s->units.guess[i])) continue;
            NAME(exact_guess)(s, i, high);
            fit = 0;
        }
        if (!fit) {
            const int more = NAME(exact_block)(job, s, l, x + l, pitch, rows, sum + l, NULL);
            if (more > added) added = more;
            continue;
        }
        for (int i = l; i < l + STRIP; i++)
            for (int f = 0; f < FOLDS; f++)
                gop_exact_add(line_of(job, sum[i]), bits_of_double(s->total[f][i]));
    }
    return added;
}

static const exact_kind NAME(exact_kind) = {NAME(exact_block), NAME(exact_total),
                                            NAME(exact_across), NAME(exact_bin),
                                            NAME(exact_empty)};

#undef NAME
#undef MAGNITUDE

#elif !defined(GOP_CPU_EXACT_BLOCK_H)
#define GOP_CPU_EXACT_BLOCK_H

#include "core/exact.h"
#include "cpu/reduce/job.h"

enum {
    VECTOR = 32,  /* bytes; the compiler splits it if registers are shorter */
    STRIP = 16,   /* lanes */
    ACROSS = 256, /* most lanes */
    ROW_BITS = 7, /* log2 of the rows of a block */
    BLOCK_ROWS = 1 << ROW_BITS,
    FEW_ROWS = 16, /* rows that all lanes may add to one sum between carries */
    TERM_BITS = ROW_BITS + 4,
    BLOCK_TERMS = 1 << TERM_BITS, /* STRIP lanes of BLOCK_ROWS */
    FOLD = 54 - ROW_BITS,         /* exponents that another double covers */
};

typedef double exact_doubles __attribute__((vector_size(VECTOR)));
typedef struct exact_job exact_job;
/* What splits the terms of each lane, and the largest exponent for which it works. Initially 0,
 * which leaves terms of 0 unchanged and works for no others. */
typedef struct exact_units {
    int guess[ACROSS];
    double unit[ACROSS];
} exact_units;

/* The sums of the significands of each exponent, for both parts of complex numbers. 2^24 terms
 * of a float (24 bits) fit in 64 bits, those of a double in 128. */
typedef struct exact_bins {
    int used;
    int64_t special[2];
    union {
        int64_t in_float[2 * 256];
        gop_i128 in_double[2 * 2048];
    };
} exact_bins;

/* How terms of a type are added. Integers have `block` only. */
typedef struct exact_kind {
    int (*block)(const exact_job *job, const void *lanes, int first, const void *terms,
                 int64_t pitch, int rows, int64_t *const *sum, exact_bins *bins);
    int (*total)(void *lanes, const void *terms, int n, int parts, double (*total)[2]);
    int (*across)(const exact_job *job, void *lanes, const void *terms, int64_t pitch, int rows,
                  int n, int64_t *const *sum);
    void (*bin)(exact_bins *bins, const void *terms, int n, int parts);
    void (*empty)(exact_bins *bins, const exact_job *job, int64_t *const *sum);
} exact_kind;

/* Makes terms of n elements, which are `stride` apart. Elements that a mask leaves out become
 * +0.0; the others are counted, in sums that are `beside` numbers apart. */
typedef void (*exact_gather)(void *to, int64_t n, const void *from, int64_t stride,
                             const uint8_t *where, int64_t where_stride, int64_t *count,
                             int64_t beside);

struct exact_job {
    const gop_task *task;
    const gop_reduction *g;
    const struct exact_plan *plan;
    char *rooms; /* one for each worker */
};

typedef struct exact_plan {
    exact_gather gather;
    const exact_kind *kind;
    gop_cast cast;         /* of elements that are stored in another dtype */
    size_t item, term;     /* bytes of a stored element; of a term */
    int parts;             /* terms of an element: 2 if complex */
    int in_place;          /* elements need no gather */
    int columns;           /* several outputs at a time */
    int is_short;          /* outputs are contiguous blocks: stored at once */
    int binned;            /* terms far apart go to bins */
    int64_t line, width;   /* outputs of a line, which is cut into runs; of a run */
    int64_t blocks, runs;  /* runs of a line; of all lines */
    int64_t pieces, piece; /* pieces of an output; elements of a piece */
    int numbers;           /* words of an output's sums */
    int workers;
    size_t room; /* bytes of a worker's scratch */
} exact_plan;

static inline uint64_t bits_of_double(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline double double_of_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* 1.5 2^52 units: 2^bits terms of this exponent, split at a unit, are at most 2^53 units. Below
 * the exponents of float64 a term is a whole number of units anyway. */
static inline double exact_unit(int exponent, int bias, int bits)
{
    const int e = exponent - bias + bits + 1023;
    return double_of_bits(e > 0 ? ((uint64_t)e << 1 | 1) << 51 : 0);
}

static inline gop_exact_line line_of(const exact_job *job, int64_t *sum)
{
    return gop_exact_line_of(sum + GOP_EXACT_HEAD, 1, job->task->in[0].dtype);
}

/* clang-format off */
#define R float
#define I int32_t
#define BIN int64_t
#define HIDDEN 23
#define FOLDS 1
#include "cpu/reduce/exact_block.h"
#undef R
#undef I
#undef BIN
#undef HIDDEN
#undef FOLDS
#define R double
#define I int64_t
#define BIN gop_i128
#define HIDDEN 52
#define FOLDS 2
#include "cpu/reduce/exact_block.h"
#undef R
#undef I
#undef BIN
#undef HIDDEN
#undef FOLDS
/* clang-format on */

/* Adds integers: signed, or uint64. */
static ALWAYS_INLINE int whole_block(const void *terms, int64_t pitch, int rows,
                                     int64_t *const *sum, const int is_signed)
{
    const uint64_t *const x = terms;
    int64_t low[STRIP] = {0}, high[STRIP] = {0};
    for (int r = 0; r < rows; r++)
        for (int l = 0; l < STRIP; l++) {
            const uint64_t term = x[r * pitch + l];
            low[l] += (int64_t)(term & 0xffffffff);
            high[l] += is_signed ? (int64_t)term >> 32 : (int64_t)(term >> 32);
        }
    for (int l = 0; l < STRIP; l++) {
        int64_t *const at = sum[l] + GOP_EXACT_HEAD - GOP_EXACT_LOW / 32 - GOP_EXACT_FIRST;
        at[0] += low[l];
        at[1] += high[l];
    }
    return 1;
}

static int exact_block_signed(const exact_job *job, const void *lanes, int first,
                              const void *terms, int64_t pitch, int rows, int64_t *const *sum,
                              exact_bins *bins)
{
    (void)job, (void)lanes, (void)first, (void)bins;
    return whole_block(terms, pitch, rows, sum, 1);
}

static int exact_block_unsigned(const exact_job *job, const void *lanes, int first,
                                const void *terms, int64_t pitch, int rows, int64_t *const *sum,
                                exact_bins *bins)
{
    (void)job, (void)lanes, (void)first, (void)bins;
    return whole_block(terms, pitch, rows, sum, 0);
}

static const exact_kind exact_kind_signed = {.block = exact_block_signed};
static const exact_kind exact_kind_unsigned = {.block = exact_block_unsigned};

/* Lanes of either type. The units are 0 at first; a pass clears the rest. */
typedef union exact_lanes {
    exact_units units;
    exact_lanes_float of_float;
    exact_lanes_double of_double;
} exact_lanes;

#endif
