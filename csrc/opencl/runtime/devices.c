/*
 * devices.c - finding OpenCL: libOpenCL.so.1 is opened on first use, and tried in a child
 * first; and the devices of all platforms, GPUs before CPUs, else in the loader's order.
 *
 * Drivers run code of their own while devices are counted, and some end the process there (PoCL
 * where /sys is not mounted). The child meets that in place of this process: what it died of
 * becomes a sentence.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "opencl/runtime/runtime.h"

gop_cl_table gop_cl;

enum { PATIENCE = 60, SAID = 400 }; /* seconds; bytes that are kept of a driver's last words */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int is_loaded, is_forked;

static void after_fork(void)
{
    is_forked = is_loaded;
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

gop_status gop_cl_usable(void)
{
    if (!is_forked) return GOP_OK;
    return gop_fail(GOP_DEVICE_UNAVAILABLE,
                    "opencl: this process was forked from one that had used OpenCL, whose "
                    "drivers do not survive that; use multiprocessing's 'spawn' start method, "
                    "or device='cpu' in this process");
}

/* Opens a library and fills the table, or says what is missing. */
static gop_status open_library(const char *name)
{
    void *const library =
        gop_services->fault("opencl.load") ? NULL : dlopen(name, RTLD_NOW | RTLD_LOCAL);
    const char *const reason = library ? NULL : dlerror();
    if (!library)
        return gop_fail(GOP_DEVICE_UNAVAILABLE,
                        "opencl: the loader %s does not open (%s); install it, as Debian's "
                        "package ocl-icd-libopencl1, or name another in GPUOPS_OPENCL_LIBRARY",
                        name, reason ? reason : "no reason given");
#define X(result, function, arguments)                                                         \
    *(void **)&gop_cl.function = dlsym(library, #function);                                    \
    if (!gop_cl.function)                                                                      \
        return gop_fail(GOP_DEVICE_UNAVAILABLE,                                                \
                        "opencl: %s has no function " #function ", expected an OpenCL 1.2 "    \
                        "loader",                                                              \
                        name);
    GOP_CL_FUNCTIONS(X)
#undef X
    return GOP_OK;
}

enum { PLATFORMS = 32, DEVICES = GOP_CL_DEVICES };

static gop_cl_device devices[DEVICES];
static int device_count;
static int is_known;

static void ask_text(cl_device id, cl_uint what, char *text, size_t room)
{
    static char said[1 << 14]; /* with the lock held */
    if (gop_cl.clGetDeviceInfo(id, what, sizeof said - 1, said, NULL) != CL_SUCCESS) *said = 0;
    snprintf(text, room, "%.*s", (int)room - 1, said);
}

/* A number of four bytes, or of eight. */
static cl_ulong ask(cl_device id, cl_uint what)
{
    cl_ulong value = 0;
    if (gop_cl.clGetDeviceInfo(id, what, GOP_CL_ANSWER(value)) != CL_SUCCESS) return 0;
    return value;
}

/* Fills a device, or returns 0 for one that kernels cannot be built for. */
static int learn(cl_device id, const char *platform, gop_cl_device *d)
{
    static char extensions[1 << 14]; /* with the lock held */
    char version[64];
    gop_device_info *const info = &d->info;
    if (!ask(id, CL_DEVICE_AVAILABLE) || !ask(id, CL_DEVICE_COMPILER_AVAILABLE) ||
        !ask(id, CL_DEVICE_ENDIAN_LITTLE))
        return 0;
    *d = (gop_cl_device){.id = id};
    const cl_ulong floats = ask(id, CL_DEVICE_SINGLE_FP_CONFIG);
    if (ask(id, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) d->facts |= GOP_CL_CPU;
    if (ask(id, CL_DEVICE_DOUBLE_FP_CONFIG) && !gop_services->fault("opencl.double"))
        d->facts |= GOP_CL_DOUBLE;
    if (floats & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT &&
        !gop_services->fault("opencl.quotients"))
        d->facts |= GOP_CL_QUOTIENTS;
    ask_text(id, CL_DEVICE_EXTENSIONS, extensions, sizeof extensions);
    if (strstr(extensions, "cl_nv_compiler_options")) d->facts |= GOP_CL_REGISTERS;
    d->keeps_subnormals = floats & CL_FP_DENORM && !gop_services->fault("opencl.subnormals");
    d->shares_memory = d->facts & GOP_CL_CPU && ask(id, CL_DEVICE_HOST_UNIFIED_MEMORY) &&
                       !gop_services->fault("opencl.sharing");
    /* PoCL keeps what it has compiled, and compiles all kernels of a program once more for its
     * bytes, which doubles the time of a first call. */
    const char *const cache = getenv("POCL_KERNEL_CACHE");
    d->keeps_programs = strcmp(platform, "Portable Computing Language") == 0 &&
                        !(cache && strcmp(cache, "0") == 0);
    ask_text(id, CL_DRIVER_VERSION, d->driver, sizeof d->driver);
    ask_text(id, CL_DEVICE_VERSION, version, sizeof version);
    ask_text(id, CL_DEVICE_NAME, info->name, sizeof info->name);
    info->processors = (int)ask(id, CL_DEVICE_MAX_COMPUTE_UNITS);
    info->max_threads_per_block =
        (int)gop_larger((int64_t)ask(id, CL_DEVICE_MAX_WORK_GROUP_SIZE), 1);
    info->shared_per_block = (int64_t)ask(id, CL_DEVICE_LOCAL_MEM_SIZE);
    info->memory = (int64_t)ask(id, CL_DEVICE_GLOBAL_MEM_SIZE);
    info->memory_free = -1;
    if (!gop_services->fault("opencl.caches"))
        info->l2 = (int64_t)ask(id, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE);
    info->clock = 1e6 * (double)ask(id, CL_DEVICE_MAX_CLOCK_FREQUENCY);
    snprintf(info->detail, sizeof info->detail, "%s of %.100s, driver %s, %s%s",
             d->facts & GOP_CL_CPU ? "CPU" : "GPU", platform, d->driver, version,
             d->facts & GOP_CL_DOUBLE ? "" : ", no float64");
    return 1;
}

static void add_devices_of(cl_platform platform, cl_flags type)
{
    cl_device found[DEVICES];
    cl_uint count = 0;
    char name[256] = "";
    gop_cl.clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
    if (gop_cl_fault("opencl.clGetDeviceIDs") ||
        gop_cl.clGetDeviceIDs(platform, type, DEVICES, found, &count) != CL_SUCCESS)
        return;
    for (cl_uint i = 0; i < count && i < DEVICES && device_count < DEVICES; i++)
        device_count += learn(found[i], name, &devices[device_count]);
}

/* Learns which devices there are; where nobody else does meanwhile. */
static gop_status enumerate(void)
{
    cl_platform platforms[PLATFORMS];
    cl_uint count = 0;
    static const cl_flags types[] = {CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_CPU};
    cl_int code = CL_OUT_OF_RESOURCES;
    if (!gop_cl_fault("opencl.clGetPlatformIDs"))
        code = gop_cl.clGetPlatformIDs(PLATFORMS, platforms, &count);
    for (int t = 0; t < 2 && code == CL_SUCCESS; t++)
        for (cl_uint p = 0; p < count && p < PLATFORMS; p++)
            add_devices_of(platforms[p], types[t]);
    is_known = device_count > 0;
    if (is_known) return GOP_OK;
    if (code != CL_SUCCESS && code != CL_PLATFORM_NOT_FOUND_KHR)
        return gop_cl_check(code, "clGetPlatformIDs");
    const char *const folder = getenv("OCL_ICD_VENDORS");
    return gop_fail(
        GOP_DEVICE_UNAVAILABLE,
        "opencl: the loader finds no driver with a GPU or a CPU in %s; install one, "
        "as Debian's pocl-opencl-icd for the CPU; where NVIDIA's driver is there "
        "and a container hides its file, write libnvidia-opencl.so.1 into "
        "/etc/OpenCL/vendors/nvidia.icd",
        folder && *folder ? folder : "/etc/OpenCL/vendors");
}

/* Does what this process will do next, and says nothing: the failure comes there too. */
static void be_the_child(const char *name, int out)
{
    dup2(out, STDOUT_FILENO); /* what a driver says before it ends the process */
    dup2(out, STDERR_FILENO);
    for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    alarm(PATIENCE); /* which ends a child whose driver does not answer */
    if (gop_services->fault("opencl.trial")) abort();
    _exit(open_library(name) != GOP_OK || enumerate() != GOP_OK);
}

/* The last that was written, in one line. */
static void read_end(int file, char said[SAID])
{
    const off_t all = lseek(file, 0, SEEK_END), from = all > SAID ? all - SAID : 0;
    ssize_t length = pread(file, said, SAID - 1, from);
    while (length > 0 && (said[length - 1] == '\n' || said[length - 1] == ' ')) length--;
    said[length > 0 ? length : 0] = '\0';
    for (char *c = said; *c; c++)
        if ((unsigned char)*c < ' ') *c = ' ';
}

/* A driver that ends or stops its process does it to a child. */
static gop_status try_in_child(const char *name)
{
    int status = 0;
    char said[SAID] = "";
    const int out = memfd_create("gpuops", MFD_CLOEXEC);
    const pid_t child = fork();
    if (child == 0) be_the_child(name, out);
    if (child < 0) return GOP_OK; /* no trial: this process asks at its own risk */
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (out >= 0) {
        read_end(out, said);
        close(out);
    }
    if (!WIFSIGNALED(status)) return GOP_OK;
    if (WTERMSIG(status) == SIGALRM)
        return gop_fail(GOP_DEVICE_UNAVAILABLE,
                        "opencl: a driver does not answer within %d seconds when its devices "
                        "are counted; OCL_ICD_VENDORS can name a folder with the .icd files of "
                        "other drivers alone",
                        PATIENCE);
    return gop_fail(GOP_DEVICE_UNAVAILABLE,
                    "opencl: a driver ends its process (%s) when its devices are counted%s%s; "
                    "PoCL does so where /sys is not mounted; OCL_ICD_VENDORS can name a folder "
                    "with the .icd files of other drivers alone",
                    strsignal(WTERMSIG(status)), said[0] ? ": " : "", said);
}

static gop_status load(void)
{
    const char *name = getenv("GPUOPS_OPENCL_LIBRARY");
    if (!name || !*name) name = "libOpenCL.so.1";
    if (strcmp(name, "disabled") == 0)
        return gop_fail(GOP_DEVICE_UNAVAILABLE,
                        "opencl: it is disabled by GPUOPS_OPENCL_LIBRARY=disabled");
    GOP_TRY(try_in_child(name));
    GOP_TRY(open_library(name));
    pthread_atfork(NULL, NULL, after_fork);
    is_loaded = 1;
    return GOP_OK;
}

gop_status gop_cl_count(int *count)
{
    GOP_TRY(gop_cl_usable());
    pthread_mutex_lock(&lock);
    gop_status status = is_loaded ? GOP_OK : load();
    if (status == GOP_OK && !is_known) status = enumerate();
    *count = device_count;
    pthread_mutex_unlock(&lock);
    return status;
}

gop_status gop_cl_info(int ordinal, gop_device_info *info)
{
    *info = devices[ordinal].info;
    return GOP_OK;
}

/* Whether the host sees what a device has written to the host's memory, once its queue is done.
 * These are no steps of the caller's: a trace has none of them. With the lock held. */
static int is_coherent(const gop_cl_device *d)
{
    static _Alignas(128) unsigned char memory[512];
    const unsigned char one = 1;
    int is_seen = 0;
    cl_int code;
    const cl_queue queue = gop_cl.clCreateCommandQueue(d->context, d->id, 0, &code);
    const cl_mem buffer = gop_cl.clCreateBuffer(
        d->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, sizeof memory, memory, &code);
    memset(memory, 0, sizeof memory);
    if (queue && buffer &&
        !gop_cl.clEnqueueFillBuffer(queue, buffer, &one, 1, 0, sizeof memory, 0, NULL, NULL))
        is_seen = !gop_cl.clFinish(queue) && memory[0] && memory[sizeof memory - 1];
    if (buffer) gop_cl.clReleaseMemObject(buffer);
    if (queue) gop_cl.clReleaseCommandQueue(queue);
    return is_seen;
}

/* With the lock held. A device that flushes subnormal numbers would break the promises of
 * docs/numerics.md in every kernel, so none runs there. */
static gop_status open_device(gop_cl_device *d)
{
    if (d->context) return GOP_OK;
    if (!d->keeps_subnormals)
        return gop_fail(
            GOP_DEVICE_UNSUPPORTED,
            "opencl: %s sets subnormal numbers to zero, expected a device that keeps "
            "them; use another device",
            d->info.name);
    if (GOP_CL_MAKE(d->context, clCreateContext, NULL, 1, &d->id, NULL, NULL) == GOP_OK) {
        d->shares_memory = d->shares_memory && is_coherent(d); /* else as a GPU */
        return GOP_OK;
    }
    const gop_status status =
        gop_fail(GOP_DEVICE_UNAVAILABLE,
                 "opencl: %s makes no context (%s, %d); PoCL needs a folder that it can write: "
                 "set POCL_CACHE_DIR to one",
                 d->info.name, gop_cl_error_name(gop_cl_code), gop_cl_code);
    return gop_cl_with_code(status, gop_cl_code);
}

gop_status gop_cl_use_device(int ordinal, gop_cl_device **device)
{
    *device = &devices[ordinal];
    pthread_mutex_lock(&lock);
    const gop_status status = open_device(*device);
    pthread_mutex_unlock(&lock);
    return status;
}
