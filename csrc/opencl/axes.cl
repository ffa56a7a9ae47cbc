/*
 * axes.cl - where elements lie: the struct that opencl/opencl.h has too, and indices over it.
 *
 * INDEX counts elements: uint where 32 bits do, since a division then takes a quarter of the
 * instructions of a long's.
 */
#ifndef AXES_CL
#define AXES_CL

#define AXES 16

/* The outermost axis first; strides of each operand are in items. */
struct axes {
    long rank, size;
    long extent[AXES];
    long stride[4][AXES];
};

/* Adds the offsets of the i-th element, in the order of the axes, to those of each operand. */
static void place(const struct axes *e, INDEX i, int operands, long offset[4])
{
    for (int axis = (int)e->rank - 1; axis > 0; axis--) {
        const INDEX extent = (INDEX)e->extent[axis];
        const INDEX outer = i / extent;
        const INDEX x = i - outer * extent;
        for (int o = 0; o < operands; o++) offset[o] += (long)x * e->stride[o][axis];
        i = outer;
    }
    for (int o = 0; o < operands; o++) offset[o] += (long)i * e->stride[o][0];
}

#endif
