/*
 * math_functions.h - for kernels that include it: what it declares is there without it.
 */
