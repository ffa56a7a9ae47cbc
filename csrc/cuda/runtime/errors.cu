/*
 * errors.cu - the runtime's codes as sentences with cause and cure, and the lost state.
 *
 * Most failures leave the device usable. A sticky one does not: every later call of this
 * process would fail with it, so it is kept with the sentence of the call that met it first,
 * and later calls fail at once. Resetting the device would take it from other libraries too.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/runtime/runtime.h"

__thread const char *gop_cuda_last_kernel;

static pthread_mutex_t errors_lock = PTHREAD_MUTEX_INITIALIZER;
static int lost; /* once 1, `first` no longer changes */
static gop_error first;
static int registered, forked;

static void cuda_after_fork(void)
{
    forked = 1;
}

/* Asking for the process's number instead would be a system call in every call. */
void gop_cuda_started(void)
{
    if (!registered) registered = pthread_atfork(NULL, NULL, cuda_after_fork) == 0;
}

int gop_cuda_in_forked_child(void)
{
    return forked;
}

static int is_sticky(cudaError_t code)
{
    switch ((int)code) {
    case 214: /* uncorrectable ECC error */
    case 220: /* uncorrectable NVLink error */
    case 700: /* illegal address */
    case 702: /* launch timeout */
    case 710: /* assert in a kernel */
    case 714: /* hardware stack error */
    case 715: /* illegal instruction */
    case 716: /* misaligned address */
    case 717: /* invalid address space */
    case 718: /* invalid program counter */
    case 719: /* launch failure */
    case 721: /* contained execution failure */
    case 810: /* MPS client terminated */
    case 911: /* device removed */
        return 1;
    default:
        return 0;
    }
}

static gop_status status_of(cudaError_t code)
{
    switch ((int)code) {
    case 209: /* no kernel image for the device */
    case 218: /* invalid PTX */
    case 221: /* no PTX compiler */
    case 222: /* unsupported PTX version */
    case 223: /* PTX compilation disabled */
        return GOP_DEVICE_UNSUPPORTED;
    case 3:   /* initialisation */
    case 34:  /* stub library */
    case 35:  /* no driver, or an old one */
    case 36:  /* the call needs a newer driver */
    case 46:  /* devices busy */
    case 100: /* no device */
    case 101: /* no such device */
    case 802: /* system not ready */
    case 803: /* driver mismatch */
    case 804: /* compatibility not supported */
        return GOP_DEVICE_UNAVAILABLE;
    default:
        return GOP_DEVICE_FAILED;
    }
}

static void add_code(cudaError_t code)
{
    gop_error *error = gop_services->error();
    error->native_code = (int)code;
    snprintf(error->native_name, sizeof error->native_name, "%s", cudaGetErrorName(code));
}

gop_status gop_cuda_check(cudaError_t code, const char *what)
{
    if (code == cudaSuccess) return GOP_OK;
    cudaGetLastError(); /* reported here, so not once more by the next call */
    if (status_of(code) == GOP_DEVICE_UNAVAILABLE) return gop_cuda_unavailable(code);
    if (!is_sticky(code)) {
        const gop_status status =
            gop_fail(status_of(code), "cuda: %s failed: %s (%s, %d)", what,
                     cudaGetErrorString(code), cudaGetErrorName(code), (int)code);
        add_code(code);
        return status;
    }
    const char *kernel = gop_cuda_last_kernel ? gop_cuda_last_kernel : "none";
    const gop_status status = gop_fail(
        GOP_DEVICE_LOST,
        "cuda: %s failed and the device is lost to this process: %s (%s, %d); the kernel "
        "launched last by this thread: %s; host arrays are intact: go on with device='cpu', "
        "or start a new process; device='sim' names the line of a kernel's mistake",
        what, cudaGetErrorString(code), cudaGetErrorName(code), (int)code, kernel);
    add_code(code);
    pthread_mutex_lock(&errors_lock);
    if (!lost) first = *gop_services->error();
    __atomic_store_n(&lost, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&errors_lock);
    return status;
}

gop_status gop_cuda_usable(void)
{
    if (gop_cuda_in_forked_child())
        return gop_fail(GOP_DEVICE_UNAVAILABLE,
                        "cuda: Cannot re-initialize CUDA in forked subprocess; to use the GPU "
                        "with multiprocessing, use the 'spawn' start method, or device='cpu' "
                        "in this process");
    if (!__atomic_load_n(&lost, __ATOMIC_ACQUIRE)) return GOP_OK;
    gop_fail(GOP_DEVICE_LOST, "%s", first.message);
    gop_error *error = gop_services->error();
    error->native_code = first.native_code;
    memcpy(error->native_name, first.native_name, sizeof error->native_name);
    return GOP_DEVICE_LOST;
}

/* ---- why there is no usable device ---- */

static gop_status old_or_no_driver(void)
{
    int serves = 0;
    cudaDriverGetVersion(&serves); /* 0 where there is none; never fails */
    if (serves == 0)
        return gop_fail(GOP_DEVICE_UNAVAILABLE,
                        "cuda: no NVIDIA driver on this machine (libcuda.so.1 does not load); "
                        "with an NVIDIA GPU: install the driver, start a container with "
                        "--gpus all, in WSL put /usr/lib/wsl/lib on LD_LIBRARY_PATH");
    return gop_fail(GOP_DEVICE_UNAVAILABLE,
                    "cuda: the NVIDIA driver is too old: it serves CUDA %d.%d, expected at "
                    "least %d.%d; update the driver, or build gpuops with an older nvcc",
                    serves / 1000, serves % 1000 / 10, CUDART_VERSION / 1000,
                    CUDART_VERSION % 1000 / 10);
}

static gop_status no_device(void)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible)
        return gop_fail(GOP_DEVICE_UNAVAILABLE,
                        "cuda: no GPU is visible: CUDA_VISIBLE_DEVICES is '%.80s'; unset it, "
                        "or name a GPU that nvidia-smi lists",
                        visible);
    return gop_fail(GOP_DEVICE_UNAVAILABLE,
                    "cuda: the driver is there but sees no GPU; nvidia-smi should list one; in "
                    "a container start it with --gpus all, on a cluster ask for a GPU node");
}

gop_status gop_cuda_unavailable(cudaError_t code)
{
    static const struct {
        int code;
        const char *sentence;
    } causes[] = {
        {3, "CUDA does not start; see whether nvidia-smi runs and /dev/nvidia-uvm exists"},
        {34, "the libcuda.so.1 found first is the toolkit's stub, not a driver; take the stubs "
             "folder out of LD_LIBRARY_PATH"},
        {36, "the NVIDIA driver is too old for this build; update the driver"},
        {46, "every GPU is busy or held exclusively by another process; nvidia-smi names it"},
        {101, "the GPU asked for does not exist; nvidia-smi lists those that do"},
        {802, "the GPUs are not ready yet; on machines with NVSwitch the fabric manager must "
              "run: systemctl status nvidia-fabricmanager"},
        {803, "the driver's kernel module and its library are of different versions, as after "
              "an update; reboot"},
        {804, "a compatibility libcuda is in use that this GPU does not support; take the "
              "cuda-compat folder out of LD_LIBRARY_PATH"},
        {999, "the driver reports an unknown error; see whether nvidia-smi runs, else reboot"},
    };
    gop_status status = GOP_OK;
    if (code == cudaErrorInsufficientDriver) status = old_or_no_driver();
    else if (code == cudaErrorNoDevice) status = no_device();
    for (size_t i = 0; i < sizeof causes / sizeof *causes && status == GOP_OK; i++)
        if (causes[i].code == (int)code)
            status = gop_fail(GOP_DEVICE_UNAVAILABLE, "cuda: %s (%s, %d)", causes[i].sentence,
                              cudaGetErrorName(code), (int)code);
    cudaGetLastError();
    if (status == GOP_OK) return gop_cuda_check(code, "looking for devices");
    add_code(code);
    return status;
}

/* ---- launches ---- */

gop_status gop_cuda_launched(const char *kernel, cudaError_t code)
{
    gop_cuda_last_kernel = kernel;
    if (gop_services->fault("cuda.launch")) code = cudaErrorLaunchOutOfResources;
    return code == cudaSuccess ? GOP_OK : gop_cuda_check(code, kernel);
}

gop_status gop_cuda_allow_shared(const void *kernel, size_t bytes)
{
    return gop_cuda_check(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
        "asking for more shared memory");
}
