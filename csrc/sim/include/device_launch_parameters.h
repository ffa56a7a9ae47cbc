/*
 * device_launch_parameters.h - for kernels that include it: what it declares is there without
 * it.
 */
