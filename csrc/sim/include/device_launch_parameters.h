/*
 * device_launch_parameters.h - empty, for kernels that include it: its declarations are always
 * present.
 */
