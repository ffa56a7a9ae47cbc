/*
 * driver.h - calls without Python: what driver.c lends to the files of calls.
 */
#ifndef GOP_DRIVER_H
#define GOP_DRIVER_H

#include "core/core.h"

/* How an operand lies in memory. Its allocation ends with its last byte, so that a sanitizer
 * sees a kernel that reads or writes one item too many. */
typedef enum layout { PLAIN, STEPPED, NEGATIVE, TURNED, UNALIGNED, LATE, NLAYOUTS } layout;

/* An array of small random values; freed with the call by run_call. */
gop_array make_array(gop_dtype dtype, layout how, int ndim, const int64_t *shape);

/* Value i of the array, in C order, from a double. */
void set_item(const gop_array *array, int64_t i, double value);

/* Whether two results have the same bits, where any NaN is as good as any other. */
int same_items(gop_dtype dtype, const void *a, const void *b, size_t bytes);

/* Infers the outputs, runs every row of every ladder, and frees the operands. Conforming rows
 * must agree bit for bit where `same_bits`. A call that infer refuses is an error. */
void run_call(gop_call *call, int same_bits);

gop_call new_call(gop_op op);
void give(gop_call *call, gop_array operand);
double random_value(void); /* in [-1, 1] */

/* How many pairs of properties (dtype, layout, shape, parameters, tunables) this call brings
 * that the kernel, a row of the ladder `where`, has not met; `meet` makes them met. In pairs.c.
 */
long new_pairs(const gop_call *call, layout how, const char *where, int row, int meet);
long pairs_met(void);

/* One function per op of ops.def, in calls.c. */
#define GOP_OP(name, stem) void calls_of_##name(void);
#include "ops.def"
#undef GOP_OP

#endif
