/* A small libnvidia-ml.so.1: two GPUs whose figures come from the environment, so that tests drive the real pynvml.
 *
 *   NVML_STUB_TYPES    names, separated by '|' (default "NVIDIA H100 80GB HBM3|NVIDIA H100 80GB HBM3")
 *   NVML_STUB_BROKEN   index of a GPU whose utilisation and power fail with "GPU is lost" (default none)
 *   NVML_STUB_NVLINK   how many NVLinks each GPU has, of version 4 (default none)
 *   NVML_STUB_NO_INIT  set: there is no driver
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID = 2, DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15 };
typedef struct { unsigned index; } gpu_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned gpu, memory; } utilisation_t;

static gpu_t gpus[2] = {{0}, {1}};
static int broken(const gpu_t *gpu) {
    const char *text = getenv("NVML_STUB_BROKEN");
    return text && (unsigned)atoi(text) == gpu->index;
}
int nvmlInitWithFlags(unsigned flags) { (void)flags; return getenv("NVML_STUB_NO_INIT") ? DRIVER_NOT_LOADED : SUCCESS; }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { return code == GPU_IS_LOST ? "GPU is lost" : code ? "Driver Not Loaded" : "Success"; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, gpu_t **gpu) {
    if (index > 1) return INVALID;
    *gpu = &gpus[index];
    return SUCCESS;
}
int nvmlDeviceGetName(gpu_t *gpu, char *name, unsigned length) {
    const char *types = getenv("NVML_STUB_TYPES");
    if (!types) types = "NVIDIA H100 80GB HBM3|NVIDIA H100 80GB HBM3";
    const char *second = strchr(types, '|');
    if (gpu->index == 1 && second) snprintf(name, length, "%s", second + 1);
    else snprintf(name, length, "%.*s", second ? (int)(second - types) : (int)strlen(types), types);
    return SUCCESS;
}
int nvmlDeviceGetUUID(gpu_t *gpu, char *uuid, unsigned length) { snprintf(uuid, length, "GPU-stub-%u", gpu->index); return SUCCESS; }
int nvmlDeviceGetMemoryInfo(gpu_t *gpu, memory_t *memory) {
    memory->total = 80ULL << 30;
    memory->used = (1000ULL + gpu->index) << 20;
    memory->free = memory->total - memory->used;
    return SUCCESS;
}
int nvmlDeviceGetUtilizationRates(gpu_t *gpu, utilisation_t *rates) {
    if (broken(gpu)) return GPU_IS_LOST;
    rates->gpu = 40 + gpu->index;
    rates->memory = 7;
    return SUCCESS;
}
int nvmlDeviceGetPowerUsage(gpu_t *gpu, unsigned *milliwatts) {
    if (broken(gpu)) return GPU_IS_LOST;
    *milliwatts = 350500;
    return SUCCESS;
}
int nvmlDeviceGetNvLinkState(gpu_t *gpu, unsigned link, unsigned *active) {
    (void)gpu;
    const char *count = getenv("NVML_STUB_NVLINK");
    if (!count || link >= (unsigned)atoi(count)) return INVALID;
    *active = 1;
    return SUCCESS;
}
int nvmlDeviceGetNvLinkVersion(gpu_t *gpu, unsigned link, unsigned *version) { (void)gpu; (void)link; *version = 4; return SUCCESS; }
int nvmlDeviceGetMaxPcieLinkGeneration(gpu_t *gpu, unsigned *generation) { *generation = 5 - gpu->index; return SUCCESS; }
int nvmlDeviceGetMaxPcieLinkWidth(gpu_t *gpu, unsigned *lanes) { (void)gpu; *lanes = 16; return SUCCESS; }
