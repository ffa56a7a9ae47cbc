/*
 * exact_block.h - a block of terms added to exact sums, by doubles that lose nothing.
 *
 * Neighbours are lanes, rows go on in each. Terms whose exponents are near each other add up
 * exactly in a double: the bits of all of them, and of their number, fit in 53. Where they do
 * not, a term is split at a unit for which they do: (x + M) - M rounds x to a multiple of it,
 * with M = 1.5 2^52 units, and what is left is exact and goes to another double. A lane whose
 * terms are still further apart is added term by term. Includes itself for float and double.
 */
#ifdef R /* the type; I: integers of its size; HIDDEN: bits of a fraction; FOLDS: doubles */

#define NAME(name) GOP_PASTE(name, R)
#define MAGNITUDE (((((I)1 << (8 * sizeof(I) - 2)) - 1) << 1) + 1)

/* The largest exponent of each lane, 0 where all terms are 0, and the least of the others. */
static ALWAYS_INLINE void NAME(exact_scan)(const R *x, int64_t pitch, int rows, int *high,
                                           int *low)
{
    I most[STRIP], least[STRIP];
    for (int l = 0; l < STRIP; l++) most[l] = 0, least[l] = MAGNITUDE;
    for (int r = 0; r < rows; r++) {
        I bits[STRIP];
        memcpy(bits, x + r * pitch, sizeof bits);
        for (int l = 0; l < STRIP; l++) {
            const I size = bits[l] & MAGNITUDE, before = (size - 1) & MAGNITUDE;
            most[l] = size > most[l] ? size : most[l];
            least[l] = before < least[l] ? before : least[l]; /* that of 0 is the largest */
        }
    }
    for (int l = 0; l < STRIP; l++) {
        const int top = (int)(most[l] >> HIDDEN), e = (int)((least[l] + 1) >> HIDDEN);
        high[l] = most[l] == 0 ? 0 : top ? top : 1;
        low[l] = most[l] == 0 ? 0 : e ? e : 1;
    }
}

/* total[f][l]: lane l's sum, in parts that `magic` splits. */
static ALWAYS_INLINE void NAME(exact_fold)(const R *x, int64_t pitch, int rows, const int folds,
                                           double (*magic)[STRIP], double (*total)[STRIP])
{
    double sum[3][STRIP] = {{0}};
    for (int r = 0; r < rows; r++)
        for (int l = 0; l < STRIP; l++) {
            double left = (double)x[r * pitch + l];
            for (int f = 0; f < folds - 1; f++) {
                const double part = (left + magic[f][l]) - magic[f][l];
                sum[f][l] += part;
                left -= part;
            }
            sum[folds - 1][l] += left;
        }
    memcpy(total, sum, sizeof sum);
}

/* Adds rows of STRIP neighbours, `pitch` apart, lane l to sum[l]. Returns how many terms it
 * adds for a lane at most before the words are carried. */
static int NAME(exact_block)(const exact_job *job, const void *terms, int64_t pitch, int rows,
                             int64_t *const *sum)
{
    enum {
        BIAS = sizeof(R) == 4 ? 127 : 1023,
        SPAN = 52 - ROW_BITS - HIDDEN + (FOLDS - 1) * FOLD,      /* of exponents */
        HIGHEST = 2 * BIAS - (sizeof(R) == 4 ? 0 : ROW_BITS + 1) /* that no sum overflows */
    };
    const R *const x = terms;
    int high[STRIP], low[STRIP], apart = 0;
    double magic[2][STRIP], total[3][STRIP];
    unsigned alone = 0;
    NAME(exact_scan)(x, pitch, rows, high, low);
    for (int l = 0; l < STRIP; l++) {
        if (high[l] - low[l] > SPAN + FOLD || high[l] > HIGHEST) alone |= 1u << l;
        else if (high[l] - low[l] > apart) apart = high[l] - low[l];
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
    STRIP = 16,   /* lanes */
    ROW_BITS = 7, /* of the number of rows of a block */
    BLOCK_ROWS = 1 << ROW_BITS,
    BLOCK_TERMS = STRIP * BLOCK_ROWS,
    FOLD = 54 - ROW_BITS, /* exponents for which another double is enough */
};

typedef struct exact_job exact_job;
typedef int (*exact_block)(const exact_job *job, const void *terms, int64_t pitch, int rows,
                           int64_t *const *sum);
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
#define HIDDEN 23
#define FOLDS 1
#include "cpu/reduce/exact_block.h"
#undef R
#undef I
#undef HIDDEN
#undef FOLDS
#define R double
#define I int64_t
#define HIDDEN 52
#define FOLDS 2
#include "cpu/reduce/exact_block.h"
#undef R
#undef I
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
                               int64_t *const *sum)
{
    (void)job;
    return whole_block(terms, pitch, rows, sum, 1);
}

static int exact_block_uint64_t(const exact_job *job, const void *terms, int64_t pitch,
                                int rows, int64_t *const *sum)
{
    (void)job;
    return whole_block(terms, pitch, rows, sum, 0);
}

#endif
