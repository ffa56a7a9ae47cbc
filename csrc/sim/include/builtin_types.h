/*
 * builtin_types.h - empty, for kernels that include it: its declarations are always present.
 */
