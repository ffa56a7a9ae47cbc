/*
 * item.cl - an item that transpose moves: bytes, of which no bit changes.
 *
 * The build defines BYTES, of an item: 1, 2, 4, 8 or 16; INDEX, as in axes.cl.
 */
#define OPERANDS_TOLD 2
#include "opencl/axes.cl"

#if BYTES == 1
typedef uchar item;
#elif BYTES == 2
typedef ushort item;
#elif BYTES == 4
typedef uint item;
#elif BYTES == 8
typedef ulong item;
#else
typedef ulong2 item;
#endif
