/*
 * device_functions.h - empty, for kernels that include it: its declarations are always present.
 */
