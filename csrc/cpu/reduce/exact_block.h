/*
 * exact_block.h - a block of terms added to exact sums, by doubles that lose nothing.
 *
 * Neighbours are lanes, rows go on in each. Terms whose exponents are near each other add up
 * exactly in a double: the bits of all of them, and of their number, fit in 53. Where they do
 * not, a term is split at a unit for which they do: (x + M) - M rounds x to a multiple of it,
 * with M = 1.5 2^52 units, and what is left is exact and goes to another double. A lane whose
 * terms are still further apart is added term by term. Where many lanes of one long sum are,
 * all terms go to bins: an integer for each exponent, to which significands add, and which is
 * shifted to its place in the sum at the end only. Includes itself for float and double.
 */
#ifdef R /* the type; I: integers of its size, BIN: of a bin; HIDDEN: bits of a fraction;      \
            FOLDS: doubles */

#define NAME(name) GOP_PASTE(name, R)
#define MAGNITUDE (((((I)1 << (8 * sizeof(I) - 2)) - 1) << 1) + 1)

typedef I NAME(exact_bits) __attribute__((vector_size(VECTOR)));

/* The largest exponent of each lane, 0 where all terms are 0, and the least of the others. */
static ALWAYS_INLINE void NAME(exact_scan)(const R *x, int64_t pitch, int rows, int *high,
                                           int *low)
{
    enum { WIDE = VECTOR / sizeof(R), N = STRIP / WIDE };
    typedef NAME(exact_bits) vector;
    vector most[N], least[N];
    for (int v = 0; v < N; v++) most[v] = (vector){0}, least[v] = most[v] + MAGNITUDE;
    for (int r = 0; r < rows; r++, x += pitch) STRIP_UNROLL for (int v = 0; v < N; v++)
        {
            vector size;
            memcpy(&size, x + v * WIDE, sizeof size);
            size &= MAGNITUDE;
            const vector before = (size - 1) & MAGNITUDE; /* of 0 it is the largest */
            const vector more = size > most[v], less = before < least[v];
            most[v] = (size & more) | (most[v] & ~more);
            least[v] = (before & less) | (least[v] & ~less);
        }
    for (int l = 0; l < STRIP; l++) {
        const I last = most[l / WIDE][l % WIDE], first = least[l / WIDE][l % WIDE];
        const int top = (int)(last >> HIDDEN), e = (int)((first + 1) >> HIDDEN);
        high[l] = last == 0 ? 0 : top ? top : 1;
        low[l] = last == 0 ? 0 : e ? e : 1;
    }
}

/* total[f][l]: lane l's sum, in parts that `magic` splits. */
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

/* Adds n terms, in turn of so many sums, to bins. */
static void NAME(exact_bin)(exact_bins *bins, const R *x, int n, int parts)
{
    enum { EXPONENTS = sizeof(R) == 4 ? 256 : 2048 };
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

/* Adds what bins have to the sums, which can take it: no word gets more than 128 times 2^32. */
static void NAME(exact_empty)(exact_bins *bins, const exact_job *job, int64_t *const *sum)
{
    enum {
        EXPONENTS = sizeof(R) == 4 ? 256 : 2048,
        WORDS = sizeof(R) == 4 ? 2 : 3, /* that a shifted bin has below its last */
    };
    for (int part = 0; part < job->plan->parts; part++) {
        const gop_exact_line line = line_of(job, sum[part]);
        *sum[part] |= bins->special[part];
        for (int e = 0; e < EXPONENTS - 1; e++) {
            const int exponent = (e ? e : 1) - EXPONENTS / 2 + 1 - HIDDEN;
            const int place = exponent - GOP_EXACT_LOW - 32 * line.first;
            int64_t *const word = line.word + (place >> 5);
            gop_i128 bin = bins->NAME(in)[part * EXPONENTS + e];
            bin *= (int64_t)1 << (place & 31);
            for (int i = 0; i < WORDS; i++, bin >>= 32) word[i] += (int64_t)(bin & 0xffffffff);
            word[WORDS] += (int64_t)bin;
        }
    }
    memset(bins, 0, sizeof *bins);
}

/* Adds rows of STRIP neighbours, `pitch` apart, lane l to sum[l], or to bins, if there are
 * any. Returns how many terms it adds for a lane at most before the words are carried. */
static int NAME(exact_block)(const exact_job *job, const void *terms, int64_t pitch, int rows,
                             int64_t *const *sum, exact_bins *bins)
{
    enum {
        FEW_ALONE = 2, /* lanes that are added term by term for less than all go to bins */
        BIAS = sizeof(R) == 4 ? 127 : 1023,
        SPAN = 52 - ROW_BITS - HIDDEN + (FOLDS - 1) * FOLD,      /* of exponents */
        HIGHEST = 2 * BIAS - (sizeof(R) == 4 ? 0 : ROW_BITS + 1) /* that no sum overflows */
    };
    const R *const x = terms;
    int high[STRIP], low[STRIP], apart = 0;
    double magic[2][STRIP] = {{0}}, total[3][STRIP];
    unsigned alone = 0;
    NAME(exact_scan)(x, pitch, rows, high, low);
    for (int l = 0; l < STRIP; l++) {
        if (high[l] - low[l] > SPAN + FOLD || high[l] > HIGHEST) alone |= 1u << l;
        else if (high[l] - low[l] > apart) apart = high[l] - low[l];
    }
    if (bins && __builtin_popcount(alone) > FEW_ALONE) {
        NAME(exact_bin)(bins, x, rows * STRIP, job->plan->parts);
        return 0;
    }
    const int folds = apart > SPAN ? FOLDS + 1 : FOLDS;
    for (int f = 0; f < folds - 1; f++)
        for (int l = 0; l < STRIP; l++) {
            /* 1.5 2^52 units, of which rows of the largest exponent are 2^53 at most. Below
             * float64's own exponents a term is whole units anyway. */
            const int e = high[l] - BIAS + ROW_BITS - f * FOLD + 1023;
            magic[f][l] = double_of_bits(e > 0 ? ((uint64_t)e << 1 | 1) << 51 : 0);
        }
    if (folds == FOLDS) NAME(exact_fold)(x, pitch, rows, FOLDS, magic, total);
    else NAME(exact_fold)(x, pitch, rows, FOLDS + 1, magic, total);
    for (int l = 0; l < STRIP; l++) {
        const gop_exact_line line = line_of(job, sum[l]);
        for (int f = 0; f < folds && !(alone >> l & 1); f++)
            gop_exact_add(line, bits_of_double(total[f][l]));
        if (!(alone >> l & 1)) continue;
        gop_exact_carry(line);
        for (int r = 0; r < rows; r++)
            gop_exact_take(sum[l], line, bits_of_double((double)x[r * pitch + l]));
        gop_exact_carry(line);
    }
    return folds;
}

#undef NAME
#undef MAGNITUDE

#elif !defined(GOP_CPU_EXACT_BLOCK_H)
#define GOP_CPU_EXACT_BLOCK_H

#include "core/exact.h"
#include "cpu/reduce/job.h"

enum {
    VECTOR = 32,  /* bytes; the compiler makes two of one where registers are shorter */
    STRIP = 16,   /* lanes */
    ROW_BITS = 7, /* of the number of rows of a block */
    BLOCK_ROWS = 1 << ROW_BITS,
    BLOCK_TERMS = STRIP * BLOCK_ROWS,
    FOLD = 54 - ROW_BITS, /* exponents for which another double is enough */
};

typedef double exact_doubles __attribute__((vector_size(VECTOR)));
typedef struct exact_job exact_job;
/* The sum of the significands of each exponent, for either part of a complex number. A float's
 * 2^24 terms of 24 bits fit in 64, a double's in 128. */
typedef struct exact_bins {
    int used;
    int64_t special[2];
    union {
        int64_t in_float[2 * 256];
        gop_i128 in_double[2 * 2048];
    };
} exact_bins;

typedef int (*exact_block)(const exact_job *job, const void *terms, int64_t pitch, int rows,
                           int64_t *const *sum, exact_bins *bins);
typedef void (*exact_empty)(exact_bins *bins, const exact_job *job, int64_t *const *sum);
/* Makes terms of n elements, a stride apart; +0.0 of those that a mask leaves out, and counts
 * the others, which belong to sums `beside` numbers apart. */
typedef void (*exact_gather)(void *to, int64_t n, const void *from, int64_t stride,
                             const uint8_t *where, int64_t where_stride, int64_t *count,
                             int64_t beside);

struct exact_job {
    const gop_task *task;
    const gop_reduction *g;
    const struct exact_plan *plan;
    char *rooms; /* one a worker */
};

typedef struct exact_plan {
    exact_gather gather;
    exact_block block;
    exact_empty empty;     /* NULL: no bins */
    gop_cast cast;         /* of elements that are stored otherwise */
    size_t item, term;     /* bytes of an element where it lies, and of a term */
    int parts;             /* terms of an element: 2 of complex ones */
    int in_place;          /* elements are terms already */
    int columns;           /* outputs side by side */
    int64_t line, width;   /* outputs that runs cut; of a run */
    int64_t blocks, runs;  /* runs of a line; and in all */
    int64_t pieces, piece; /* of an output's elements, and how many they are */
    int numbers;           /* of the sums of an output */
    int workers;
    size_t room; /* bytes of a worker */
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

/* Whole numbers, as 64 bits with their sign, or those of uint64. */
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

static int exact_block_int64_t(const exact_job *job, const void *terms, int64_t pitch, int rows,
                               int64_t *const *sum, exact_bins *bins)
{
    (void)job, (void)bins;
    return whole_block(terms, pitch, rows, sum, 1);
}

static int exact_block_uint64_t(const exact_job *job, const void *terms, int64_t pitch,
                                int rows, int64_t *const *sum, exact_bins *bins)
{
    (void)job, (void)bins;
    return whole_block(terms, pitch, rows, sum, 0);
}

#endif
