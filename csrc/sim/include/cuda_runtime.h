/*
 * cuda_runtime.h - for kernels that include it: on sim it is the language only.
 */
#include "cuda/launch.h"
