/*
 * cuda_runtime_api.h - empty, for kernels that include it: its declarations are always present.
 */
