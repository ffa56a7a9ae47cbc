/*
 * tree_tpl.h - the summation tree tree/v1 for one accumulator type; see docs/numerics.md.
 *
 * Define R (the accumulator type), TREE(name) and TREE_ADD(a, b) before including; no guard.
 * A leaf is 2048 elements in 128 lanes; leaves fold as a complete binary tree, left + right.
 */

/* The leaves so far: node[j] holds a full subtree of 2^j leaves where bit j of `leaves` is set.
 */
typedef struct TREE(nodes) {
    uint64_t leaves;
    R node[64];
} TREE(nodes);

/* Folds the 128 lanes of a leaf: l += l + d for d = 64 .. 1. Destroys them. Unrolled, so that
 * each d is a constant and its loop vectors. */
static inline R TREE(fold_lanes)(R lane[128])
{
#pragma GCC unroll 7
    for (int d = 64; d > 0; d /= 2)
        for (int l = 0; l < d; l++) lane[l] = TREE_ADD(lane[l], lane[l + d]);
    return lane[0];
}

/* Appends the next leaf: merges equal-sized neighbours, as a binary counter carries. */
static inline void TREE(push)(TREE(nodes) * tree, R leaf)
{
    int level = 0;
    for (uint64_t n = tree->leaves++; n & 1; n >>= 1, level++)
        leaf = TREE_ADD(tree->node[level], leaf);
    tree->node[level] = leaf;
}

/* The root. The padding leaves are the identity, so what is left folds lowest first. */
static inline R TREE(root)(const TREE(nodes) * tree, R empty)
{
    int any = 0;
    R root = empty;
    for (int level = 0; level < 64; level++)
        if (tree->leaves >> level & 1) {
            root = any ? TREE_ADD(tree->node[level], root) : tree->node[level];
            any = 1;
        }
    return root;
}
