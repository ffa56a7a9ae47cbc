/*
 * chunked.cl - axes in another order for CPU devices, a contiguous chunk of the output a
 * work-item: where the fastest axis stays in its place, lines are copied whole.
 */
#include "opencl/axes.cl"
#include "opencl/vector.cl"

__kernel void transpose_chunked_kernel(__global BASE *restrict out, long out_at,
                                       __global const BASE *restrict in, long in_at,
                                       const struct axes p, const long chunk)
{
    const int inner = (int)p.rank - 1;
    const long to = p.stride[0][inner], from = p.stride[1][inner];
    const long begin = (long)get_global_id(0) * chunk, end = min(begin + chunk, p.size);
    for (long i = begin, count; i < end; i += count) {
        long at[2] = {out_at, in_at};
        place(&p, 0, inner + 1, (INDEX)i, 2, at);
        count = min(p.extent[inner] - i % p.extent[inner], end - i);
        __global BASE *const line = out + at[0];
        __global const BASE *const source = in + at[1];
        if (to == 1 && from == 1)
            for (long k = 0; k < count; k++) line[k] = source[k];
        else
            for (long k = 0; k < count; k++) line[k * to] = source[k * from];
    }
}
