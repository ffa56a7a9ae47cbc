/*
 * reduce_tpl.h - reduce for one dtype: its gathers, its folds, and how an output is finished.
 *
 * R is the accumulator of sums and products, SQUARE_R that of squares, KEY that of minima.
 */
#define SUM GOP_PASTE(sum, SUM_WORD)
#define PROD GOP_PASTE(prod, SUM_WORD)
#if IS_COMPLEX
#define R T
#define ADD(a, b) ((T){(a).re + (b).re, (a).im + (b).im})
#define MULTIPLY(a, b) FN(multiply)(a, b)
#define DIVIDE(a, n) FN(divide)(a, n)
#define SQUARE(x) ((x).re * (x).re + (x).im * (x).im)
#define INITIAL(s) FN(from_scalar)(s)
#elif IS_FLOAT
#define R A
#define ADD(a, b) ((a) + (b))
#define MULTIPLY(a, b) ((a) * (b))
#define DIVIDE(a, n) ((a) / (A)(n))
#define SQUARE(x) (LOAD(x) * LOAD(x))
#define INITIAL(s) ((A)(s).f[0])
#else
#define R uint64_t
#define ADD(a, b) ((a) + (b))
#define MULTIPLY(a, b) ((a) * (b))
#define DIVIDE(a, n) (a) /* never asked for: their means are finished as float64 */
#define SQUARE(x) ((double)LOAD(x) * (double)LOAD(x))
#define INITIAL(s) ((s).u)
#endif

/* ---- sums and products ---- */

#define GATHER term
#define TURN(x) LOAD(x)
#if IS_HALF
#define TURN_LINE(to, from, n) FN(load_line)(to, from, n)
#endif
#include "cpu/reduce_gather_tpl.h"

static void FN(finish_total)(const reduce_job *job, const reduce_run *run, const void *from,
                             const int64_t *number)
{
    const gop_reduce_params *params = &job->task->call->params.reduce;
    const R initial = INITIAL(params->initial);
    const R *const x = from;
    (void)number;
#if IS_BOOL || IS_INT
    uint64_t *const out = (uint64_t *)run->out;
#else
    T *const out = (T *)run->out;
#endif
#if IS_FLOAT
#define RESULT(value) STORE(value)
#else
#define RESULT(value) (value)
#endif
    if (params->op != GOP_MEAN && !params->has_initial && run->out_stride == 1) {
        for (int64_t i = 0; i < run->n; i++) out[i] = RESULT(x[i]); /* vectors */
        return;
    }
    for (int64_t i = 0; i < run->n; i++) {
        R value = x[i];
        if (params->op == GOP_MEAN) value = DIVIDE(value, number[i]);
        else if (params->has_initial)
            value = params->op == GOP_SUM ? ADD(value, initial) : MULTIPLY(value, initial);
        out[i * run->out_stride] = RESULT(value);
    }
}
#undef R
#undef RESULT

/* ---- means of integers, and squares ---- */

#if IS_BOOL || IS_INT
#define R double
#define GATHER real
#define TURN(x) (double)LOAD(x)
#include "cpu/reduce_gather_tpl.h"
#undef R
#endif

#define R SQUARE_R
#define GATHER square
#define TURN(x) SQUARE(x)
#include "cpu/reduce_gather_tpl.h"
#undef R

/* ---- minima, maxima, positions ---- */

#define R KEY
#define GATHER key
#define TURN(x) TO_KEY(x)
#include "cpu/reduce_gather_tpl.h"
#undef R

static void FN(finish_extreme)(const reduce_job *job, const reduce_run *run, const void *from,
                               const int64_t *number)
{
    const gop_reduce_params *params = &job->task->call->params.reduce;
    const int twist = job->twist;
    const KEY *const x = from;
    T *const out = (T *)run->out;
#if IS_COMPLEX
    const T initial = INITIAL(params->initial);
#else
    const T initial = STORE((A)INITIAL(params->initial));
#endif
    const KEY initial_key = TO_KEY(initial);
    for (int64_t i = 0; i < run->n; i++) {
        T *const to = out + i * run->out_stride;
        if (params->has_initial && initial_key <= x[i]) *to = initial;
#if IS_COMPLEX /* read back: a key forgets the signs of zeros and which part was NaN */
        else *to = ((const T *)run->in)[i * run->in_stride + offset_of(job->g, number[i])];
#else
        else *to = FROM_KEY(x[i]);
#endif
    }
#if !IS_COMPLEX
    (void)number;
#endif
}

/* ---- any, all ---- */

#define R int8_t
#define GATHER truth
#define TURN(x) (int8_t)(TRUTH(x) ^ (twist & FLIP))
#include "cpu/reduce_gather_tpl.h"
#undef R

/* ---- what needs no gather: whole numbers in any order, and keys ---- */

#if IS_BOOL || IS_INT
#define R uint64_t
#define DIRECT direct_sum
#define P PARTIAL
#define TURN(x) LOAD(x)
#define JOIN(a, b) ((a) + (b))
#define NONE 0
#include "cpu/reduce_direct_tpl.h"
#define DIRECT direct_prod
#define P uint64_t
#define TURN(x) (uint64_t) LOAD(x)
#define JOIN(a, b) ((a) * (b))
#define NONE 1
#include "cpu/reduce_direct_tpl.h"
#undef R
#endif

#if !IS_COMPLEX
#define DIRECT_FINDS
#define R KEY
#define DIRECT direct_min
#define P KEY
#define TURN(x) TO_KEY(x)
#define JOIN(a, b) ((b) < (a) ? (b) : (a))
#define NONE (KEY)(~(1ull << (8 * sizeof(KEY) - 1)))
#include "cpu/reduce_direct_tpl.h"
#undef R
#undef DIRECT_FINDS
#endif

static const reduce_parts FN(parts) = {
    .item = sizeof(T),
    .term = FN(term),
#if IS_BOOL || IS_INT
    .real = FN(real),
#endif
    .square = FN(square),
    .key = FN(key),
    .truth = FN(truth),
    .sum = &SUM,
    .prod = &PROD,
    .squares = sizeof(SQUARE_R) == 4 ? &sum_float32 : &sum_float64,
    .min = &GOP_PASTE(min, KEY_WORD),
#if IS_BOOL || IS_INT
    .direct_sum = &FN(direct_sum),
    .direct_prod = &FN(direct_prod),
#endif
#if !IS_COMPLEX
    .direct_min = &FN(direct_min),
#endif
    .total = FN(finish_total),
    .extreme = FN(finish_extreme),
};
#undef SUM
#undef PROD
#undef ADD
#undef MULTIPLY
#undef DIVIDE
#undef SQUARE
#undef INITIAL
