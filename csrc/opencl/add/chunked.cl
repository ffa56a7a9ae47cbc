/*
 * chunked.cl - add, multiply_add and fma for CPU devices: a contiguous chunk a work-item.
 *
 * A CPU runs a work-item from its begin to its end before the next one. Where neighbouring
 * work-items take neighbouring elements, as on a GPU, each of them steps through memory in long
 * strides; a chunk is read in order. Within it lines along the innermost axis go vector by
 * vector, which are the processor's own registers.
 */
#include "opencl/add/element.cl"
#include "opencl/axes.cl"

/* ITEMS numbers of a line from its k-th on: neighbours, or the same one, or apart. */
static V load_line(__global const BASE *p, long at, long stride)
{
    BASE lane[LANES];
    if (stride == 1) return LOAD(0, p + at * PARTS);
    for (int k = 0; k < LANES; k++) lane[k] = p[(at + k / PARTS * stride) * PARTS + k % PARTS];
    return LOAD(0, lane);
}

/* The last ones of a line. */
static V load_end(__global const BASE *p, long at, long stride, int count)
{
    BASE lane[LANES];
    for (int k = 0; k < LANES; k++) {
        const int item = k / PARTS < count ? k / PARTS : 0;
        lane[k] = p[(at + item * stride) * PARTS + k % PARTS];
    }
    return LOAD(0, lane);
}

static void store_end(V sum, __global BASE *p, long at, long stride, int count)
{
    BASE lane[LANES];
    STORE(sum, 0, lane);
    for (int k = 0; k < count * PARTS; k++)
        p[(at + k / PARTS * stride) * PARTS + k % PARTS] = lane[k];
}

__kernel void add_chunked_kernel(OUT(out), IN(a), IN(b), IN(c), const struct axes e,
                                 const long chunk)
{
    const int inner = (int)e.rank - 1;
    const long so = e.stride[0][inner], sa = e.stride[1][inner], sb = e.stride[2][inner],
               sc = e.stride[3][inner];
    const int is_plain = so == 1 && sa == 1 && sb == 1 && sc == 1;
    const long begin = (long)get_global_id(0) * chunk, end = min(begin + chunk, e.size);
    for (long i = begin, count; i < end; i += count) {
        long at[4] = {out_at, a_at, b_at, c_at}, k = 0;
        place(&e, (INDEX)i, 4, at);
        count = min(e.extent[inner] - i % e.extent[inner], end - i);
        if (is_plain)
            for (; k + ITEMS <= count; k += ITEMS)
                STORE(of_three(LOAD(0, a + (at[1] + k) * PARTS),
                               LOAD(0, b + (at[2] + k) * PARTS),
                               LOAD(0, c + (at[3] + k) * PARTS)),
                      0, out + (at[0] + k) * PARTS);
        for (; k + ITEMS <= count; k += ITEMS) {
            const V sum = of_three(load_line(a, at[1] + k * sa, sa),
                                   load_line(b, at[2] + k * sb, sb),
                                   load_line(c, at[3] + k * sc, sc));
            if (so == 1) STORE(sum, 0, out + (at[0] + k) * PARTS);
            else store_end(sum, out, at[0] + k * so, so, ITEMS);
        }
        if (k == count) continue;
        const int left = (int)(count - k);
        store_end(of_three(load_end(a, at[1] + k * sa, sa, left),
                           load_end(b, at[2] + k * sb, sb, left),
                           load_end(c, at[3] + k * sc, sc, left)),
                  out, at[0] + k * so, so, left);
    }
}
