/*
 * tree.cl - tree/v1 of docs/numerics.md: nodes of the tree that wait for their neighbours.
 *
 * A build has LEAF, the elements of a leaf, and TREE_LANES, its running sums, of
 * csrc/core/numerics.h; who includes this, what a NODE is and how two fold: FOLD_NODES(a, b).
 */
/* Nodes come one after the other, and equal neighbours merge as a binary counter carries. */
static void push(NODE *node, long number, NODE x)
{
    int level = 0;
    for (; number & 1; number >>= 1, level++) x = FOLD_NODES(node[level], x);
    node[level] = x;
}

/* What `count` of them fold to, the lowest first: what is right of the last changes nothing. */
static NODE root_of(const NODE *node, long count)
{
    int level = 0;
    for (; !(count & 1); count >>= 1) level++;
    NODE root = node[level];
    for (level++, count >>= 1; count; count >>= 1, level++)
        if (count & 1) root = FOLD_NODES(node[level], root);
    return root;
}
