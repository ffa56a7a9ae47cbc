/*
 * reduce_strip_tpl.h - a strip of W vectors V of several rows, folded in registers in the order
 * of the tree.
 *
 * Define STRIP (its name), V, W and what reduce_fold_tpl.h has before including; no guard.
 * Written in vectors: of a loop over an array the compiler would keep the strip in memory.
 */

/* Items from number i on of `lanes` lanes, each of `rows` rows that lie one after the other.
 * The lanes come in the order in which the tree adds them: neighbours meet first, as a binary
 * counter carries. */
static ALWAYS_INLINE void TREE(STRIP)(R *to, const void *const *row, int lanes, int rows,
                                      int64_t i)
{
    enum { ITEMS = sizeof(V) / sizeof(R) };
    V node[STACK_LEVELS][W];
    for (int lane = 0; lane < lanes; lane++) {
        V strip[W];
        const R *x = (const R *)*row++ + i;
        fetch_ahead(x, sizeof strip);
        STRIP_UNROLL for (int k = 0; k < W; k++) strip[k] = *(const V *)(x + k * ITEMS);
        for (int r = 1; r < rows; r++) {
            x = (const R *)*row++ + i;
            fetch_ahead(x, sizeof strip);
            STRIP_UNROLL for (int k = 0; k < W; k++)
            {
                strip[k] = TREE_ADD(strip[k], *(const V *)(x + k * ITEMS));
            }
        }
        int level = 0;
        for (int bits = lane; bits & 1; bits >>= 1, level++)
            STRIP_UNROLL for (int k = 0; k < W; k++)
            {
                strip[k] = TREE_ADD(node[level][k], strip[k]);
            }
        V *const left = lane == lanes - 1 ? (V *)(to + i) : node[level];
        STRIP_UNROLL for (int k = 0; k < W; k++) left[k] = strip[k];
    }
}
#undef STRIP
#undef V
#undef W
