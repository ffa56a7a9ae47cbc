/*
 * columns.cl - what the solver does between steps: columns copied, squares of columns summed.
 */
#include "opencl/vector.cl"

#if defined(COMPLEX)
#define T JOIN(BASE, 2)
#else
#define T BASE
#endif

/* n items; zeros where that is said. */
__kernel void jacobi_copy_kernel(FROM(T, from), TO(T, to), const long n, const long from_row,
                                 const long to_row, const int is_zero)
{
    const long i = (long)get_global_id(0);
    if (i < n) to[to_at + i * to_row] = is_zero ? (T)(0) : from[from_at + i * from_row];
}

/* The square of an item, its parts times a power of two; or the larger of its |parts|. */
static double of_item(T item, double scale, int is_largest)
{
#if defined(COMPLEX)
    const double re = item.x * scale, im = item.y * scale;
    if (is_largest) return fabs(im) > fabs(re) ? fabs(im) : fabs(re);
    return re * re + im * im;
#else
    const double re = item * scale;
    return is_largest ? fabs(re) : re * re;
#endif
}

/* Of each leaf of tree/v1 the sum of squares, or the largest part; one column at a time. */
__kernel void jacobi_leaves_kernel(FROM(T, v), TO(double, sums), const long n,
                                   const long leaves, const double scale, const int is_largest)
{
    __local double lane[TREE_LANES];
    const int me = (int)get_local_id(0);
    const long c = (long)get_group_id(0) / leaves, leaf = (long)get_group_id(0) % leaves;
    const long end = min((leaf + 1) * LEAF, n);
    for (int l = me; l < TREE_LANES; l += GROUP) {
        double sum = is_largest ? 0.0 : -0.0;
        for (long i = leaf * LEAF + l; i < end; i += TREE_LANES) {
            const double item = of_item(v[v_at + i + c * n], scale, is_largest);
            if (!is_largest) sum += item;
            else if (item > sum) sum = item;
        }
        lane[l] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int d = TREE_LANES / 2; d > 0; d /= 2) {
        for (int l = me; l < d; l += GROUP) {
            const double other = lane[l + d];
            if (!is_largest) lane[l] += other;
            else if (other > lane[l]) lane[l] = other;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (me == 0) sums[sums_at + (long)get_group_id(0)] = lane[0];
}
