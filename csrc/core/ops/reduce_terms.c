/*
 * reduce_terms.c - one result of more terms than a device has memory for, piece after piece.
 *
 * A piece of 2048 * 2^k terms that begins at a multiple of its length is a subtree of tree/v1:
 * its root is a node of the whole tree. Roots are kept in the accumulator's dtype and fold by
 * pairs. Folding a pair, and finishing the last root, are reductions of two elements and of one
 * on the CPU: so NaN, zeros and complex numbers follow the kernels' rules.
 */
#include <string.h>

#include "core/arrays/half.h"
#include "core/host/memory.h"
#include "core/numerics.h"
#include "core/ops/reduce.h"

enum {
    MOST = LEAF << 13, /* terms of a piece that is copied on the host */
    LEVELS = 64,
};

/* A finished piece: its root, or where its extreme element is. */
typedef struct node {
    _Alignas(16) unsigned char root[16];
    int64_t position;
} node;

typedef struct terms {
    const gop_call *call;
    const gop_run_options *options;
    gop_runner run;
    gop_array a, where; /* of one shape; of one axis where the elements lie so */
    gop_reduce_op op;   /* of the pieces */
    gop_dtype as;       /* of the pieces' elements */
    gop_dtype node;     /* of their roots */
    int64_t count, piece;
    void *copy, *wide, *mask; /* of a piece whose terms do not lie so, or are converted */
    gop_call part;            /* the one that runs: a call is large, so all share it */
} terms;

static int is_position(const terms *t)
{
    return t->op == GOP_ARGMIN || t->op == GOP_ARGMAX;
}

/* ---- reductions of a few elements, on the CPU ---- */

static void as_line(gop_array *array, void *data, gop_dtype dtype, int64_t count)
{
    array->data = data;
    array->dtype = dtype;
    array->stored = 0;
    array->where = (gop_device){GOP_CPU, 0};
    array->ndim = 1;
    array->shape[0] = count;
    array->strides[0] = gop_dtype_size(dtype);
}

/* A call that reduces the line in[0] to one result, whose sum, if it is one, is not finished: a
 * root of -0.0 stays. */
static gop_call *begin_terms(terms *t, gop_reduce_op op, gop_dtype result, void *out)
{
    gop_call *const call = &t->part;
    gop_reduce_params *params = &call->params.reduce;
    memset(params, 0, sizeof *params);
    call->op = GOP_OP_reduce;
    call->nin = call->nout = 1;
    call->ntunables = 0;
    params->op = op;
    as_line(&call->out[0], out, result, 1);
    call->out[0].ndim = 0;
    if (op == GOP_SUM && strchr("fc", gop_dtype_kind(result))) {
        params->has_initial = 1;
        params->initial.f[0] = params->initial.f[1] = -0.0;
    }
    return call;
}

static gop_status on_cpu(const terms *t)
{
    const gop_run_options cpu = {.device = {GOP_CPU, 0}};
    return t->run(&t->part, &cpu);
}

/* left = left + right, whatever + is. */
static gop_status fold_two(terms *t, node *left, const node *right)
{
    _Alignas(16) unsigned char pair[32];
    gop_call *call;
    int64_t which;
    if (is_position(t)) {
        const size_t item = (size_t)gop_dtype_size(t->as);
        gop_pack_c_order(&t->a, left->position, 1, pair);
        gop_pack_c_order(&t->a, right->position, 1, pair + item);
        call = begin_terms(t, t->op, GOP_INT64, &which);
        as_line(&call->in[0], pair, t->as, 2);
        GOP_TRY(on_cpu(t));
        if (which) *left = *right;
        return GOP_OK;
    }
    const size_t item = (size_t)gop_dtype_size(t->node);
    memcpy(pair, left->root, item);
    memcpy(pair + item, right->root, item);
    call = begin_terms(t, t->op, t->node, left->root);
    as_line(&call->in[0], pair, t->node, 2);
    return on_cpu(t);
}

/* ---- pieces ---- */

static void widen(gop_dtype from, const void *values, int64_t count, void *result)
{
#define EACH(type, to, value)                                                                  \
    {                                                                                          \
        const type *const x = values;                                                          \
        to *const wide = result;                                                               \
        for (int64_t i = 0; i < count; i++) wide[i] = value;                                   \
        return;                                                                                \
    }
    switch (from) {
    case GOP_FLOAT16:
        EACH(uint16_t, float, gop_f16_load(x[i]))
    case GOP_BFLOAT16:
        EACH(uint16_t, float, gop_bf16_load(x[i]))
    case GOP_BOOL:
    case GOP_UINT8:
        EACH(uint8_t, double, (double)x[i])
    case GOP_INT8:
        EACH(int8_t, double, (double)x[i])
    case GOP_INT16:
        EACH(int16_t, double, (double)x[i])
    case GOP_UINT16:
        EACH(uint16_t, double, (double)x[i])
    case GOP_INT32:
        EACH(int32_t, double, (double)x[i])
    case GOP_UINT32:
        EACH(uint32_t, double, (double)x[i])
    case GOP_INT64:
        EACH(int64_t, double, (double)x[i])
    default:
        EACH(uint64_t, double, (double)x[i])
    }
#undef EACH
}

/* Terms [first, first + count) of a mask or of the array: a view, or a copy in C order. */
static void view(const gop_array *all, void *copy, int64_t first, int64_t count,
                 gop_array *line)
{
    as_line(line, copy, all->dtype, count);
    if (copy) {
        gop_pack_c_order(all, first, count, copy);
        return;
    }
    line->data = (char *)all->data + first * all->strides[0];
    line->strides[0] = all->strides[0];
}

static gop_status reduce_piece(terms *t, int64_t first, int64_t count, node *made)
{
    const gop_reduce_params *whole = &t->call->params.reduce;
    const int extreme = t->op == GOP_MIN || t->op == GOP_MAX;
    void *const result = is_position(t) ? (void *)&made->position : made->root;
    gop_call *const call = begin_terms(t, t->op, t->node, result);
    made->position = 0;
    view(&t->a, t->copy, first, count, &call->in[0]);
    if (t->wide) {
        widen(t->a.dtype, t->copy, count, t->wide);
        as_line(&call->in[0], t->wide, t->as, count);
    }
    if (whole->has_where) {
        call->nin = 2;
        call->params.reduce.has_where = 1;
        view(&t->where, t->mask, first, count, &call->in[1]);
    }
    if (extreme && whole->has_initial) { /* counts as often as it likes */
        call->params.reduce.has_initial = 1;
        call->params.reduce.initial = whole->initial;
    }
    GOP_TRY(t->run(call, t->options));
    made->position += first;
    return GOP_OK;
}

/* Nodes wait for their right neighbours, one a level of the tree at most. */
static gop_status reduce_all(terms *t, node *root)
{
    node waiting[LEVELS];
    const int64_t pieces = (t->count + t->piece - 1) / t->piece;
    for (int64_t p = 0; p < pieces; p++) {
        const int64_t first = p * t->piece, left = t->count - first;
        int level = 0;
        node made;
        GOP_TRY(reduce_piece(t, first, left < t->piece ? left : t->piece, &made));
        for (; p >> level & 1; level++) {
            GOP_TRY(fold_two(t, &waiting[level], &made));
            made = waiting[level];
        }
        waiting[level] = made;
    }
    /* What is to the right of the last ones changes nothing. */
    int found = 0;
    for (int level = 0; level < LEVELS - 1; level++) {
        if (!(pieces >> level & 1)) continue;
        if (found++) GOP_TRY(fold_two(t, &waiting[level], root));
        *root = waiting[level];
    }
    return GOP_OK;
}

/* ---- the result ---- */

/* Counts the elements that the mask selects. */
static gop_status number_of_terms(terms *t, int64_t *taken)
{
    const gop_array *where = &t->call->in[1];
    *taken = t->count;
    if (!t->call->params.reduce.has_where) return GOP_OK;
    gop_call *const call = begin_terms(t, GOP_SUM, GOP_INT64, taken);
    gop_array_assign(&call->in[0], where);
    GOP_TRY(on_cpu(t));
    *taken *= t->count / gop_array_size(where);
    return GOP_OK;
}

static void divide_terms(gop_dtype dtype, void *root, int64_t count)
{
    const int parts = gop_dtype_kind(dtype) == 'c' ? 2 : 1;
    for (int p = 0; p < parts; p++)
        if (dtype == GOP_FLOAT64 || dtype == GOP_COMPLEX128)
            ((double *)root)[p] /= (double)count;
        else ((float *)root)[p] /= (float)count;
}

/* Finishes the result: initial, the mean's division and the one rounding. */
static gop_status finish_terms(terms *t, const node *root)
{
    const gop_reduce_params *whole = &t->call->params.reduce;
    const gop_array *out = &t->call->out[0];
    _Alignas(16) unsigned char last[16], from[16];
    float value;
    uint16_t half;
    if (is_position(t)) {
        gop_unpack(out, 0, 1, &root->position);
        return GOP_OK;
    }
    memcpy(from, root->root, sizeof from);
    gop_call *const call = begin_terms(t, t->op, t->node, last);
    call->params.reduce.has_initial = whole->has_initial;
    call->params.reduce.initial = whole->initial;
    as_line(&call->in[0], from, t->node, 1);
    GOP_TRY(on_cpu(t));
    if (whole->op == GOP_MEAN) {
        int64_t taken;
        GOP_TRY(number_of_terms(t, &taken));
        divide_terms(t->node, last, taken);
    }
    if (out->dtype != t->node) {
        memcpy(&value, last, sizeof value);
        half = out->dtype == GOP_FLOAT16 ? gop_f16_store(value) : gop_bf16_store(value);
        memcpy(last, &half, sizeof half);
    }
    gop_unpack(out, 0, 1, last);
    return GOP_OK;
}

/* ---- the whole ---- */

/* 1 where the elements, in C order, lie at equal distances. */
static int merge(gop_array *array)
{
    int64_t *const strides[] = {array->strides};
    array->ndim = gop_merge_axes(array->ndim, array->shape, 1, strides);
    return array->ndim == 1;
}

static void broadcast_where(const gop_array *where, const gop_array *a, gop_array *all)
{
    gop_array_assign(all, a);
    all->data = where->data;
    all->dtype = where->dtype;
    all->stored = where->stored;
    for (int d = 0; d < a->ndim; d++) {
        const int own = d - (a->ndim - where->ndim);
        all->strides[d] = own < 0 || where->shape[own] == 1 ? 0 : where->strides[own];
    }
}

/* Halves are summed as float32, means of integers as float64. */
static gop_dtype widened(gop_reduce_op op, gop_dtype dtype)
{
    const int adds = op == GOP_SUM || op == GOP_PROD || op == GOP_MEAN;
    if (adds && (dtype == GOP_FLOAT16 || dtype == GOP_BFLOAT16)) return GOP_FLOAT32;
    if (op == GOP_MEAN && strchr("biu", gop_dtype_kind(dtype))) return GOP_FLOAT64;
    return dtype;
}

static gop_status take_terms(const terms *t, gop_dtype dtype, void **memory)
{
    const size_t bytes = (size_t)(t->piece * gop_dtype_size(dtype));
    *memory = gop_alloc(bytes);
    return *memory ? GOP_OK
                   : gop_no_memory(gop_reduction_name(t->call->params.reduce.op), bytes);
}

gop_status gop_reduce_by_terms(const gop_call *call, const gop_run_options *options,
                               gop_runner run)
{
    const gop_reduce_params *params = &call->params.reduce;
    const gop_array *a = &call->in[0];
    terms t;
    node root;
    if (params->exact) return gop_reduce_exactly_by_terms(call, options, run);
    memset(&t, 0, offsetof(terms, part));
    t.call = call;
    t.options = options;
    t.run = run;
    t.op = params->op == GOP_MEAN ? GOP_SUM : params->op;
    t.piece = LEAF;
    t.count = gop_array_size(a);
    if (t.count <= LEAF || params->op == GOP_SUMSQ) return GOP_NO_DEVICE_MEMORY;
    t.as = widened(params->op, a->dtype);
    t.node = gop_reduction_dtype(t.op, t.as);
    gop_array_assign(&t.a, a);
    const int copies_a = !merge(&t.a) || t.as != a->dtype || a->stored;
    if (params->has_where) broadcast_where(&call->in[1], a, &t.where);
    const int copies_where = params->has_where && !merge(&t.where);
    const int64_t most = copies_a || copies_where ? MOST : INT64_MAX;
    while (2 * t.piece < t.count && t.piece < most) t.piece *= 2;
    gop_status status = GOP_OK;
    if (copies_a) status = take_terms(&t, a->dtype, &t.copy);
    if (status == GOP_OK && t.as != a->dtype) status = take_terms(&t, t.as, &t.wide);
    if (status == GOP_OK && copies_where) status = take_terms(&t, GOP_BOOL, &t.mask);
    if (status == GOP_OK) status = reduce_all(&t, &root);
    if (status == GOP_OK) status = finish_terms(&t, &root);
    gop_release(t.copy);
    gop_release(t.wide);
    gop_release(t.mask);
    return status;
}
