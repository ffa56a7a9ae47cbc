/*
 * numerics.h - the numbers of tree/v1 that every device keeps (docs/numerics.md).
 */
#ifndef GOP_NUMERICS_H
#define GOP_NUMERICS_H

enum {
    LEAF = 2048, /* elements of a leaf */
    LANES = 128, /* running sums of a leaf; element k belongs to lane k mod LANES */
};

#endif
