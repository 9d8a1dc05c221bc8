// Asks NVML, the driver's management library, which is loaded by name: a machine without a driver
// has none.
#include "bench/gpu_use.h"

#include <dlfcn.h>
#include <stddef.h>
#include <unistd.h>

// As in nvml.h, version 3 of the call.
typedef struct ProcessInfo {
    unsigned int pid;
    unsigned long long used_bytes;
    unsigned int gpu_instance, compute_instance;
} ProcessInfo;

#define MAX_PROCESSES 256

typedef int (*InitFunction)(void);
typedef int (*HandleFunction)(unsigned int index, void **device);
typedef int (*ProcessesFunction)(void *device, unsigned int *count, ProcessInfo *infos);

// A function of the library as the type at `target`; dlsym's object pointer is copied, not cast.
static int find(void *library, const char *name, void **target) {
    *target = dlsym(library, name);
    return *target != NULL;
}

int es_gpu_other_processes(int index) {
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (library == NULL) {
        return -1;
    }
    int n_others = -1;
    union {
        void *object;
        InitFunction call;
    } init, shutdown;
    union {
        void *object;
        HandleFunction call;
    } handle;
    union {
        void *object;
        ProcessesFunction call;
    } processes;
    if (find(library, "nvmlInit_v2", &init.object) &&
        find(library, "nvmlShutdown", &shutdown.object) &&
        find(library, "nvmlDeviceGetHandleByIndex_v2", &handle.object) &&
        find(library, "nvmlDeviceGetComputeRunningProcesses_v3", &processes.object) &&
        init.call() == 0) {
        void *device = NULL;
        ProcessInfo infos[MAX_PROCESSES];
        unsigned int count = MAX_PROCESSES;
        if (handle.call((unsigned int)index, &device) == 0 &&
            processes.call(device, &count, infos) == 0) {
            n_others = 0;
            for (unsigned int i = 0; i < count; i++) {
                n_others += infos[i].pid != (unsigned int)getpid();
            }
        }
        shutdown.call();
    }
    dlclose(library);
    return n_others;
}
