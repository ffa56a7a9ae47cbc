/*
 * devices.c - the devices of all platforms: GPUs before CPUs, else in the loader's order.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl/runtime/runtime.h"

enum { PLATFORMS = 32, DEVICES = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static gop_cl_device devices[DEVICES];
static int device_count;
static int is_known;

/* ---- what a device says of itself ---- */

static void ask_text(cl_device id, cl_uint what, char *text, size_t room)
{
    char said[512] = "";
    if (gop_cl.clGetDeviceInfo(id, what, GOP_CL_ANSWER(said)) != CL_SUCCESS) said[0] = '\0';
    said[sizeof said - 1] = '\0';
    snprintf(text, room, "%.*s", (int)room - 1, said);
}

/* A number of four bytes, or of eight. */
static cl_ulong ask(cl_device id, cl_uint what)
{
    cl_ulong value = 0;
    if (gop_cl.clGetDeviceInfo(id, what, GOP_CL_ANSWER(value)) != CL_SUCCESS) return 0;
    return value;
}

static void fill_info(gop_cl_device *d)
{
    gop_device_info *const info = &d->info; /* of zeros */
    const int is_cpu = d->type & CL_DEVICE_TYPE_CPU;
    ask_text(d->id, CL_DEVICE_NAME, info->name, sizeof info->name);
    info->processors = (int)ask(d->id, CL_DEVICE_MAX_COMPUTE_UNITS);
    const int most = (int)ask(d->id, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    info->max_threads_per_block = most ? most : 1;
    info->shared_per_block = (int64_t)ask(d->id, CL_DEVICE_LOCAL_MEM_SIZE);
    info->memory = (int64_t)ask(d->id, CL_DEVICE_GLOBAL_MEM_SIZE);
    info->memory_free = -1;
    if (!gop_services->fault("opencl.caches"))
        info->l2 = (int64_t)ask(d->id, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE);
    info->clock = 1e6 * (double)ask(d->id, CL_DEVICE_MAX_CLOCK_FREQUENCY);
    snprintf(info->detail, sizeof info->detail, "%s of %.100s, driver %s, %s%s",
             is_cpu ? "CPU" : "GPU", d->platform, d->driver, d->version,
             d->has_double ? "" : ", no float64");
}

/* PoCL keeps what it has compiled, and compiles all kernels of a program once more for its
 * bytes, which doubles the time of a first call. */
static int is_kept_by_driver(const char *platform)
{
    const char *const cache = getenv("POCL_KERNEL_CACHE");
    return strcmp(platform, "Portable Computing Language") == 0 &&
           !(cache && strcmp(cache, "0") == 0);
}

/* Fills a device, or returns 0 for one that kernels cannot be built for. */
static int learn(cl_device id, const char *platform, gop_cl_device *d)
{
    memset(d, 0, sizeof *d);
    d->id = id;
    if (!ask(id, CL_DEVICE_AVAILABLE) || !ask(id, CL_DEVICE_COMPILER_AVAILABLE) ||
        !ask(id, CL_DEVICE_ENDIAN_LITTLE))
        return 0;
    static char extensions[1 << 14]; /* with the lock held */
    extensions[0] = '\0';
    gop_cl.clGetDeviceInfo(id, CL_DEVICE_EXTENSIONS, sizeof extensions - 1, extensions, NULL);
    d->limits_registers = strstr(extensions, "cl_nv_compiler_options") != NULL;
    d->type = ask(id, CL_DEVICE_TYPE);
    snprintf(d->platform, sizeof d->platform, "%s", platform);
    ask_text(id, CL_DRIVER_VERSION, d->driver, sizeof d->driver);
    ask_text(id, CL_DEVICE_VERSION, d->version, sizeof d->version);
    d->has_double =
        ask(id, CL_DEVICE_DOUBLE_FP_CONFIG) && !gop_services->fault("opencl.double");
    const cl_ulong floats = ask(id, CL_DEVICE_SINGLE_FP_CONFIG);
    d->keeps_subnormals = floats & CL_FP_DENORM && !gop_services->fault("opencl.subnormals");
    d->divides = floats & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT &&
                 !gop_services->fault("opencl.quotients");
    d->shares_memory = d->type & CL_DEVICE_TYPE_CPU && ask(id, CL_DEVICE_HOST_UNIFIED_MEMORY) &&
                       !gop_services->fault("opencl.sharing"); /* then it is used as a GPU is */
    d->keeps_programs = is_kept_by_driver(platform);
    fill_info(d);
    return 1;
}

static void add_devices_of(cl_platform platform, cl_flags type)
{
    cl_device found[DEVICES];
    cl_uint count = 0;
    char name[256] = "";
    gop_cl.clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
    if (gop_cl_fault("opencl.clGetDeviceIDs", NULL) ||
        gop_cl.clGetDeviceIDs(platform, type, DEVICES, found, &count) != CL_SUCCESS)
        return;
    for (cl_uint i = 0; i < count && i < DEVICES && device_count < DEVICES; i++)
        device_count += learn(found[i], name, &devices[device_count]);
}

/* ---- all of them ---- */

static gop_status none_found(cl_int code)
{
    const char *const folder = getenv("OCL_ICD_VENDORS");
    if (code != CL_SUCCESS && code != CL_PLATFORM_NOT_FOUND_KHR)
        return gop_cl_check(code, "clGetPlatformIDs");
    return gop_fail(
        GOP_DEVICE_UNAVAILABLE,
        "opencl: the loader finds no driver with a GPU or a CPU in %s; install one, "
        "as Debian's pocl-opencl-icd for the CPU; where NVIDIA's driver is there "
        "and a container hides its file, write libnvidia-opencl.so.1 into "
        "/etc/OpenCL/vendors/nvidia.icd",
        folder && *folder ? folder : "/etc/OpenCL/vendors");
}

gop_status gop_cl_enumerate(void)
{
    cl_platform platforms[PLATFORMS];
    cl_uint count = 0;
    static const cl_flags types[] = {CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_CPU};
    cl_int code = CL_OUT_OF_RESOURCES;
    if (!gop_cl_fault("opencl.clGetPlatformIDs", NULL))
        code = gop_cl.clGetPlatformIDs(PLATFORMS, platforms, &count);
    for (int t = 0; t < 2 && code == CL_SUCCESS; t++)
        for (cl_uint p = 0; p < count && p < PLATFORMS; p++)
            add_devices_of(platforms[p], types[t]);
    if (device_count == 0) return none_found(code);
    is_known = 1;
    return GOP_OK;
}

gop_status gop_cl_count(int *count)
{
    GOP_TRY(gop_cl_load());
    pthread_mutex_lock(&lock);
    const gop_status status = is_known ? GOP_OK : gop_cl_enumerate();
    *count = device_count;
    pthread_mutex_unlock(&lock);
    return status;
}

static gop_status check_ordinal(int ordinal)
{
    int count;
    GOP_TRY(gop_cl_count(&count));
    if (ordinal >= 0 && ordinal < count) return GOP_OK;
    return gop_fail(GOP_DEVICE_UNAVAILABLE,
                    "opencl: there is no device opencl:%d, expected one of opencl:0 to "
                    "opencl:%d",
                    ordinal, count - 1);
}

gop_status gop_cl_info(int ordinal, gop_device_info *info)
{
    GOP_TRY(check_ordinal(ordinal));
    *info = devices[ordinal].info;
    return GOP_OK;
}

/* With the lock held. A device that flushes subnormal numbers would break the promises of
 * docs/numerics.md in every kernel, so none runs there. */
static gop_status open_device(gop_cl_device *d)
{
    cl_int code = CL_SUCCESS;
    if (d->context) return GOP_OK;
    if (!d->keeps_subnormals)
        return gop_fail(
            GOP_DEVICE_UNSUPPORTED,
            "opencl: %s sets subnormal numbers to zero, expected a device that keeps "
            "them; use another device",
            d->info.name);
    d->context = GOP_CL_MAKE(&code, clCreateContext, NULL, 1, &d->id, NULL, NULL);
    if (d->context) return GOP_OK;
    const gop_status status =
        gop_fail(GOP_DEVICE_UNAVAILABLE,
                 "opencl: %s makes no context (%s, %d); PoCL needs a folder that it can write: "
                 "set POCL_CACHE_DIR to one",
                 d->info.name, gop_cl_error_name(code), code);
    return gop_cl_with_code(status, code);
}

gop_status gop_cl_use_device(int ordinal, gop_cl_device **device)
{
    GOP_TRY(check_ordinal(ordinal));
    *device = &devices[ordinal];
    pthread_mutex_lock(&lock);
    const gop_status status = open_device(*device);
    pthread_mutex_unlock(&lock);
    return status;
}
