/*
 * cuda.h - empty, for kernels that include it: driver functions are for the host, not for
 * kernels.
 */
