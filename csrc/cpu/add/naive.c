/*
 * naive.c - add one element at a time; each index is decomposed axis by axis.
 *
 * One division per axis and element costs many times what the addition does.
 */
#ifdef D

#define OPERANDS_add(a, b, c) a, b
#define OPERANDS_multiply_add(a, b, c) a, b, c
#define OPERANDS_fma(a, b, c) a, b, c
#define NAIVE(op)                                                                              \
    static void FN(op##_element)(void *const at[4], const int64_t o[4])                        \
    {                                                                                          \
        T *const out = at[0];                                                                  \
        const T *const a = at[1], *const b = at[2], *const c = at[3];                          \
        (void)c;                                                                               \
        out[o[0]] = FN(op##_one)(OPERANDS_##op(a[o[1]], b[o[2]], c[o[3]]));                    \
    }                                                                                          \
                                                                                               \
    static gop_status FN(op##_naive)(gop_ctx * ctx, const gop_task *task, int64_t step)        \
    {                                                                                          \
        (void)ctx, (void)step;                                                                 \
        return every_element(task, FN(op##_element));                                          \
    }
EACH_OP(NAIVE)
#undef NAIVE

#else
#include "cpu/add/element.h"

/* Computes an element. at[] and offset[], in elements, are of the output, then the inputs. */
typedef void (*element_fn)(void *const at[4], const int64_t offset[4]);

static gop_status every_element(const gop_task *task, element_fn element)
{
    const gop_elementwise *e = &task->geometry.elementwise;
    void *at[4];
    operands(task, at);
    for (int64_t i = 0; i < e->size; i++) {
        int64_t index[GOP_MAX_NDIM], offset[4] = {0, 0, 0, 0};
        gop_unravel(i, e->rank, e->extent, index);
        for (int o = 0; o < e->operands; o++)
            offset[o] = gop_offset(e->rank, index, e->stride[o]);
        element(at, offset);
        if (i % GOP_HEAR == GOP_HEAR - 1) GOP_TRY(gop_interrupted());
    }
    return GOP_OK;
}

#define GOP_TPL "cpu/add/naive.c"
#include "cpu/runtime/each_dtype.inc"

ADD_ROWS(naive, .note = "one element at a time; its place in each array by division, axis by "
                        "axis");

#endif
