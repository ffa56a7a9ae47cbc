/*
 * ladder.c - the CPU kernels of add, multiply_add and fma, in the order of reading. Each is in
 * the file of its name.
 *
 * Floor: every input read once, the output written once. The arithmetic is free beside that, so
 * the ladder is about walking memory: an index computed per element, then whole lines that the
 * compiler turns into vector loops, then stores that do not read what they overwrite, then
 * several threads, since one core cannot keep enough loads in flight to fill the memory bus.
 * There is no blocked kernel: nothing is used twice, so no cache could help.
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
