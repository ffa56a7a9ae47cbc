/*
 * vectorized.cl - add, multiply_add and fma of one contiguous axis, a vector a work-item.
 *
 * A vector type asks memory once for what scalars ask for number by number: float4 is an access
 * of 16 bytes. ALIGNED says that every operand begins where such a vector may: vloadn may not
 * assume that, and compilers then make it of scalars. The bits of NUMBERS say which of a, b and c
 * are one number for all.
 */
#include "opencl/add/element.cl"

#define AS_VECTORS(type, p, at) ((__global type *)((p) + (at)*PARTS))
#define LOAD_AT(i, p, at)                                                                      \
    (ALIGNED ? AS_VECTORS(const V, p, at)[i] : LOAD(i, (p) + (at)*PARTS))

#define IS_NUMBER(o) (NUMBERS >> o & 1)
/* Vector i, and the last `count` elements from the first one on. */
#define WHOLE(o, i, p, at)                                                                     \
    (IS_NUMBER(o) ? gather((p) + (at)*PARTS, 0, ITEMS) : LOAD_AT(i, p, at))
#define LAST(o, first, p, at, count)                                                           \
    gather((p) + ((at) + (IS_NUMBER(o) ? 0 : first)) * PARTS, !IS_NUMBER(o), count)

__kernel void add_vectorized_kernel(OPERANDS, const long size)
{
    const long i = (long)get_global_id(0), first = i * ITEMS;
    if (first + ITEMS <= size) {
        const V sum = of_three(WHOLE(0, i, a, a_at), WHOLE(1, i, b, b_at), WHOLE(2, i, c, c_at));
        if (ALIGNED) AS_VECTORS(V, out, out_at)[i] = sum;
        else STORE(sum, i, out + out_at * PARTS);
    } else if (first < size) { /* the last ones are fewer than a vector has */
        const int count = (int)(size - first);
        scatter(of_three(LAST(0, first, a, a_at, count), LAST(1, first, b, b_at, count),
                         LAST(2, first, c, c_at, count)),
                out + (out_at + first) * PARTS, 1, count);
    }
}
