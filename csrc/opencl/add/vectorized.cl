/*
 * vectorized.cl - add, multiply_add and fma of one contiguous axis, a vector a work-item.
 *
 * A vector type asks memory once for what scalars ask for number by number: float4 is an access
 * of 16 bytes. ALIGNED says that every operand begins where such a vector may: vloadn may not
 * assume that, and compilers then make it of scalars.
 */
#include "opencl/add/element.cl"

#if defined(ALIGNED)
#define LOAD_AT(i, p, at) ((__global const V *)((p) + (at)*PARTS))[i]
#define STORE_AT(v, i, p, at) (((__global V *)((p) + (at)*PARTS))[i] = (v))
#else
#define LOAD_AT(i, p, at) LOAD(i, (p) + (at)*PARTS)
#define STORE_AT(v, i, p, at) STORE(v, i, (p) + (at)*PARTS)
#endif

__kernel void add_vectorized_kernel(OPERANDS, const long size)
{
    const long i = (long)get_global_id(0), first = i * ITEMS;
    if (first + ITEMS <= size) {
        const V sum = of_three(LOAD_AT(i, a, a_at), LOAD_AT(i, b, b_at), LOAD_AT(i, c, c_at));
        STORE_AT(sum, i, out, out_at);
    } else if (first < size) { /* the last ones are fewer than a vector has */
        const int count = (int)(size - first);
        scatter(of_three(gather(a + (a_at + first) * PARTS, 1, count),
                         gather(b + (b_at + first) * PARTS, 1, count),
                         gather(c + (c_at + first) * PARTS, 1, count)),
                out + (out_at + first) * PARTS, 1, count);
    }
}
