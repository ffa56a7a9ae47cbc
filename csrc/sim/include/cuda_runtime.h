/*
 * cuda_runtime.h - for kernels that include it: on sim the language is all there is of it.
 */
#include "cuda/launch.h"
