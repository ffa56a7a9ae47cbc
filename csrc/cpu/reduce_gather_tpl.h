/*
 * reduce_gather_tpl.h - one gather: elements of dtype D into accumulators of type R.
 *
 * Define GATHER (its name), R and TURN(x) before including, and TURN_LINE(to, from, n) if there
 * is something better than a loop; no guard.
 */
static void FN(GATHER)(const reduce_job *job, void *to, int64_t n, const void *in,
                       int64_t stride, const uint8_t *where, int64_t where_stride)
{
    R *const out = to;
    const T *const x = in;
    const int twist = job->twist;
    (void)twist;
    if (where) {
        R none;
        memcpy(&none, job->none, sizeof none);
        for (int64_t i = 0; i < n; i++)
            out[i] = where[i * where_stride] ? (R)TURN(x[i * stride]) : none;
    } else if (stride == 1) {
#ifdef TURN_LINE
        TURN_LINE(out, x, n);
#else
        for (int64_t i = 0; i < n; i++) out[i] = TURN(x[i]);
#endif
    } else {
        for (int64_t i = 0; i < n; i++) out[i] = TURN(x[i * stride]);
    }
}
#undef GATHER
#undef TURN
#undef TURN_LINE
