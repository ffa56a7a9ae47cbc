/*
 * axes.cl - where elements lie, by their indices.
 *
 * INDEX counts elements: uint where 32 bits do, whose divisions take a quarter of the
 * instructions of a long's. Strides are those of OPERANDS_TOLD operands.
 */
#include "opencl/told.h"

/* Adds the offsets of item i, in the C order of axes [first, last), to those of operands. */
static void place(const struct axes *e, int first, int last, INDEX i, int operands,
                  long *offset)
{
    for (int axis = last - 1; axis >= first; axis--) {
        const INDEX extent = (INDEX)e->extent[axis], outer = axis == first ? 0 : i / extent;
        const INDEX x = i - outer * extent;
        for (int o = 0; o < operands; o++) offset[o] += (long)x * e->stride[o][axis];
        i = outer;
    }
}
