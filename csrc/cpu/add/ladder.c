/*
 * ladder.c - the CPU kernels of add, multiply_add and fma, in reading order. Each is in the
 * file of its name.
 *
 * Floor: every input is read once, the output is written once. The arithmetic is free beside
 * that, so the ladder is about memory: first an index computed per element, then whole rows in
 * vector loops, then streaming stores, which do not read what they overwrite, then several
 * threads, since one core cannot keep enough loads in flight to saturate memory. There is no
 * blocked kernel: no element is used twice, so a cache cannot help.
 */
#include "cpu/runtime/cpu.h"

/* clang-format off */
#define KERNELS(ROW, op) \
    ROW(op, naive) \
    ROW(op, simd) \
    ROW(op, streaming) \
    ROW(op, threaded)
/* clang-format on */

#define FOLDER add
#include "cpu/runtime/each_kernel.inc"

#include "cpu/add/choose.c"

GOP_CPU_LADDER(add, KERNELS);
GOP_CPU_LADDER(multiply_add, KERNELS);
GOP_CPU_LADDER(fma, KERNELS);
