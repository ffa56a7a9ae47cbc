/*
 * chunked.cl - add, multiply_add and fma for CPU devices: a contiguous chunk a work-item.
 *
 * A CPU runs a work-item from its begin to its end before the next one: with neighbouring
 * elements, as on a GPU, each would step through memory in long strides. Lines along the
 * innermost axis go vector by vector, which are the processor's registers. A result that caches
 * could not keep is STREAMED past them: else each store reads the line that it fills.
 */
#include "opencl/add/element.cl"
#include "opencl/axes.cl"

/* From the k-th element of a line on, and so many. */
#define APART(name, o, count) gather(name + (at[o] + k * apart[o]) * PARTS, apart[o], count)
#define SUM_APART(count) of_three(APART(a, 1, count), APART(b, 2, count), APART(c, 3, count))
#define PUT_APART(sum, count)                                                                  \
    scatter(sum, out + (at[0] + k * apart[0]) * PARTS, apart[0], count)
#define PLAIN(name, o) LOAD(0, name + (at[o] + k) * PARTS)

__kernel void add_chunked_kernel(OPERANDS, const struct axes e, const long chunk)
{
    const int inner = (int)e.rank - 1;
    const long apart[4] = {e.stride[0][inner], e.stride[1][inner], e.stride[2][inner],
                           e.stride[3][inner]};
    const int is_plain = apart[0] == 1 && apart[1] == 1 && apart[2] == 1 && apart[3] == 1;
    const long begin = (long)get_global_id(0) * chunk, end = min(begin + chunk, e.size);
    for (long i = begin, count; i < end; i += count) {
        long at[4] = {out_at, a_at, b_at, c_at}, k = 0;
        place(&e, 0, inner + 1, (INDEX)i, 4, at);
        count = min(e.extent[inner] - i % e.extent[inner], end - i);
#if defined(STREAM)
        const size_t past = (size_t)(out + at[0] * PARTS) % sizeof(V);
        const int ahead = (int)((sizeof(V) - past) % sizeof(V) / (sizeof(BASE) * PARTS));
        if (is_plain && ahead < count && past % (sizeof(BASE) * PARTS) == 0) {
            PUT_APART(SUM_APART(ahead), ahead);
            for (k = ahead; k + ITEMS <= count; k += ITEMS)
                STREAM(of_three(PLAIN(a, 1), PLAIN(b, 2), PLAIN(c, 3)),
                       out + (at[0] + k) * PARTS);
        }
#endif
        if (is_plain)
            for (; k + ITEMS <= count; k += ITEMS)
                STORE(of_three(PLAIN(a, 1), PLAIN(b, 2), PLAIN(c, 3)), 0,
                      out + (at[0] + k) * PARTS);
        for (; k + ITEMS <= count; k += ITEMS) {
            const V sum = of_three(apart[1] == 1 ? PLAIN(a, 1) : APART(a, 1, ITEMS),
                                   apart[2] == 1 ? PLAIN(b, 2) : APART(b, 2, ITEMS),
                                   apart[3] == 1 ? PLAIN(c, 3) : APART(c, 3, ITEMS));
            if (apart[0] == 1) STORE(sum, 0, out + (at[0] + k) * PARTS);
            else PUT_APART(sum, ITEMS);
        }
        const int left = (int)(count - k);
        if (left > 0) PUT_APART(SUM_APART(left), left);
    }
}
