/*
 * fake_devices.c - what the fake runtime says of its devices and its errors.
 */
#include <string.h>

#include "fake_cudart.h"

int fake_devices = 2;
int fake_count_error;    /* of cudaGetDeviceCount */
int fake_driver = 13000; /* CUDA version that the driver serves */
int fake_major = 9, fake_minor;

cudaError_t cudaGetDeviceCount(int *count)
{
    if (fake_count_error)
        return fake_result((cudaError_t)fake_count_error); /* count stays as it is */
    *count = fake_devices;
    return fake_result(cudaSuccess);
}
cudaError_t cudaDriverGetVersion(int *version)
{
    *version = fake_driver;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device)
{
    *device = fake_current();
    return fake_result(cudaSuccess);
}
cudaError_t cudaSetDevice(int device)
{
    fake_make_current(device);
    return fake_result(cudaSuccess);
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr what, int device)
{
    (void)what, (void)device;
    *value = 1;
    return fake_result(cudaSuccess);
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    memset(p, 0, sizeof *p);
    strcpy(p->name, device ? "Fake GPU 1" : "Fake GPU 0");
    p->major = fake_major;
    p->minor = fake_minor;
    p->multiProcessorCount = 4;
    p->maxThreadsPerBlock = 1024;
    p->sharedMemPerBlockOptin = 100000;
    p->warpSize = 32;
    p->totalGlobalMem = fake_capacity;
    p->l2CacheSize = 1 << 20;
    return fake_result(cudaSuccess);
}
const char *cudaGetErrorName(cudaError_t code)
{
    return code == cudaErrorIllegalAddress ? "cudaErrorIllegalAddress" : "cudaErrorFake";
}
const char *cudaGetErrorString(cudaError_t code)
{
    return code == cudaErrorIllegalAddress ? "an illegal memory access" : "a fake error";
}
void *__cudaRegisterFatBinary(void *binary)
{
    return binary;
}
void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}
void __cudaUnregisterFatBinary(void **handle)
{
    (void)handle;
}
