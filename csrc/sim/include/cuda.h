/*
 * cuda.h - for kernels that include it: the driver's functions are the host's, and kernels have
 * none of them.
 */
