/*
 * loader.c - finding OpenCL: libOpenCL.so.1 is opened on first use, and tried in a child first.
 *
 * Drivers run code of their own while devices are counted, and some end the process there (PoCL
 * where /sys is not mounted). The child meets that in place of this process: what it died of
 * becomes a sentence.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
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

/* ---- the child ---- */

/* Does what this process will do next, and says nothing of a failure: it will fail there too.
 */
static void be_the_child(const char *name, int out)
{
    dup2(out, STDOUT_FILENO); /* what a driver says before it ends the process */
    dup2(out, STDERR_FILENO);
    for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
    if (gop_services->fault("opencl.trial")) abort();
    _exit(open_library(name) != GOP_OK || gop_cl_enumerate() != GOP_OK);
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
    pid_t ended = child < 0 ? child : 0; /* no trial: this process asks at its own risk */
    for (int wait = 0; ended == 0 && wait < PATIENCE * 1000; wait++) {
        usleep(1000);
        ended = waitpid(child, &status, WNOHANG);
    }
    if (out >= 0) {
        read_end(out, said);
        close(out);
    }
    if (ended == 0) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        return gop_fail(GOP_DEVICE_UNAVAILABLE,
                        "opencl: a driver does not answer within %d seconds when its devices "
                        "are counted; OCL_ICD_VENDORS can name a folder with the .icd files of "
                        "other drivers alone",
                        PATIENCE);
    }
    if (!WIFSIGNALED(status)) return GOP_OK;
    return gop_fail(GOP_DEVICE_UNAVAILABLE,
                    "opencl: a driver ends its process (%s) when its devices are counted%s%s; "
                    "PoCL does so where /sys is not mounted; OCL_ICD_VENDORS can name a folder "
                    "with the .icd files of other drivers alone",
                    strsignal(WTERMSIG(status)), said[0] ? ": " : "", said);
}

/* ---- this process ---- */

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

gop_status gop_cl_load(void)
{
    GOP_TRY(gop_cl_usable());
    pthread_mutex_lock(&lock);
    const gop_status status = is_loaded ? GOP_OK : load();
    pthread_mutex_unlock(&lock);
    return status;
}
