/*
 * group.cl - jacobi_step for GPUs, HELD rows a work-group: neighbouring work-items read
 * neighbouring elements, and the lanes of a leaf fold in local memory.
 *
 * A team of work-items takes a leaf. Where a dense matrix allows it (VECTORS) a work-item has
 * WIDTH lanes of several rows, which one read of x serves; else it has a lane of one row.
 */
#include "opencl/jacobi_step/system.cl"

enum { TEAM = TREE_LANES / WIDTH, TEAMS = GROUP / TEAM };

#if defined(VECTORS)
#define LANE JOIN(BASE, WIDTH)
#define READ(p) (*(__global const LANE *)(p))

/* `batch` terms of each lane: the loads are under way before any is waited for. */
static void add_terms(__global const T *const row[HELD], __global const T *x, int batch,
                      LANE sum[HELD])
{
    LANE a[BATCH][HELD], of_x[BATCH];
    UNROLLED for (int b = 0; b < batch; b++) {
        UNROLLED for (int r = 0; r < HELD; r++) a[b][r] = READ(row[r] + b * TREE_LANES);
        of_x[b] = READ(x + b * TREE_LANES);
    }
    UNROLLED for (int b = 0; b < batch; b++)
        UNROLLED for (int r = 0; r < HELD; r++) sum[r] = fma(a[b][r], of_x[b], sum[r]);
}

static T within(LANE sum)
{
    T lane[WIDTH];
    JOIN(vstore, WIDTH)(sum, 0, lane);
    for (int d = WIDTH / 2; d > 0; d /= 2)
        for (int l = 0; l < d; l++) lane[l] += lane[l + d];
    return lane[0];
}
#else
#define LANE T
#define within(sum) (sum)
#endif

/* Of column c of x the lanes of `count` rows from `row` on, which begin at term `begin`. */
static void add_lanes(const struct operands o, const struct system s, const struct row row,
                      long begin, long c, LANE sum[HELD])
{
#if defined(VECTORS)
    __global const T *x = o.x + c * s.x_col + begin, *from[HELD];
    int terms = (int)min(begin / LEAF * LEAF + LEAF, s.n) - (int)begin; /* from the first on */
    UNROLLED for (int r = 0; r < HELD; r++) {
        from[r] = o.a + min(row.i + r, s.last - 1) * s.a_row + begin;
        sum[r] = NOTHING;
    }
    for (int batch; terms >= WIDTH; terms -= batch * TREE_LANES, x += batch * TREE_LANES) {
        batch = terms >= (BATCH - 1) * TREE_LANES + WIDTH ? BATCH : 1;
        if (batch == BATCH) add_terms(from, x, BATCH, sum);
        else add_terms(from, x, 1, sum);
        UNROLLED for (int r = 0; r < HELD; r++) from[r] += batch * TREE_LANES;
    }
    if (terms <= 0) return; /* fewer than a vector has */
    UNROLLED for (int r = 0; r < HELD; r++) {
        T lane[WIDTH];
        JOIN(vstore, WIDTH)(sum[r], 0, lane);
        UNROLLED for (int l = 0; l < WIDTH; l++)
            if (l < terms) lane[l] = fma(from[r][l], x[l], lane[l]);
        sum[r] = JOIN(vload, WIDTH)(0, lane);
    }
#else
    const long end = min(begin / LEAF * LEAF + LEAF, row.count);
    sum[0] = NOTHING;
    for (; begin < end; begin += TREE_LANES) sum[0] = add_term(o, s, row, begin, c, sum[0]);
#endif
}

__kernel void jacobi_step_group_kernel(SYSTEM)
{
    const struct operands o = OPERANDS;
    const int me = (int)get_local_id(0), t = me % TEAM, team = me / TEAM;
    __local LANE lane[HELD][GROUP];
    T node[LEVELS]; /* of the row whose number in the group is `me` */
    struct row row;
    find_row(o, s, s.first + (long)get_group_id(0) * HELD, &row);
    const long leaves = (row.count + LEAF - 1) / LEAF;
    for (long c = 0; c < s.k; c++) {
        for (long first = 0; first < leaves; first += TEAMS) {
            LANE sum[HELD];
            add_lanes(o, s, row, (first + team) * LEAF + t * WIDTH, c, sum);
            UNROLLED for (int r = 0; r < HELD; r++) lane[r][me] = sum[r];
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int d = TEAM / 2; d > 0; d /= 2) {
                for (int r = 0; t < d && r < HELD; r++) lane[r][me] += lane[r][me + d];
                barrier(CLK_LOCAL_MEM_FENCE);
            }
            for (long l = 0; me < HELD && l < min((long)TEAMS, leaves - first); l++)
                push(node, first + l, within(lane[me][l * TEAM]));
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        if (me < HELD && row.i + me < s.last) {
            struct row own = row;
            own.i += me;
            update(o, s, factor, own.i, c, item_of(o, s, own.i, c), sum_of_leaves(node, leaves),
                   diagonal_of(o, s, own));
        }
    }
}
