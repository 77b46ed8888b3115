/* A small libnvidia-ml.so.1 whose GPUs' figures come from the environment, so that tests drive the real pynvml.
 *
 *   NVML_STUB_TYPES    names, separated by '|' (default "NVIDIA H100 80GB HBM3|NVIDIA H100 80GB HBM3")
 *   NVML_STUB_COUNT    how many GPUs (default 2, at most 16)
 *   NVML_STUB_BROKEN   index of a GPU whose utilisation and power fail with "GPU is lost" (default none)
 *   NVML_STUB_NVLINK   how many NVLinks each GPU has, of version 4 (default none)
 *   NVML_STUB_NO_INIT  set: there is no driver; "mismatch": the kernel's is of another version; "hang": it never answers
 *   NVML_STUB_PCIE     "64": byte counters, which grow by 1 MiB a call; "32": they are too narrow; else there are none
 *   NVML_STUB_RESERVED MiB of each GPU that the driver keeps (default 0): the old call counts them as used
 *   NVML_STUB_MIG      how many instances GPU 0 is cut into (default: it is not), at the places 0, 2, 4 ...; "0": cut, without any
 *   NVML_STUB_PROFILES  names of the instances' profiles, separated by '|' (default: all are 1g.10gb); "-": the driver gives no
 *                      name but the whole GPU's
 *   NVML_STUB_DIR      a directory that tests write to while the program runs:
 *     lost       index of a GPU of which every call fails with "GPU is lost" from now on
 *     xid        "INDEX CODE": told once, and removed
 *     ecc        uncorrected errors of GPU 0
 *     hot        temperature of GPU 0
 *     wraps      while it is there every look at a byte counter finds less than the one before
 *     processes  lines of "INDEX PID MIB SM"
 *
 * Built with -DOLD_DRIVER it lacks the functions that came later than 2012.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3, TOO_SMALL = 7, DRIVER_NOT_LOADED = 9, TIMEOUT = 10, GPU_IS_LOST = 15,
       MISMATCH = 18 };
enum { MOST = 16 };
typedef struct { unsigned index; } gpu_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2_t;
typedef struct { unsigned gpu, memory; } utilisation_t;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } process_t;
typedef struct { unsigned pid; unsigned long long at; unsigned sm, memory, encoder, decoder; } use_t;
typedef struct { gpu_t *gpu; unsigned long long type, data; unsigned gpu_instance, compute_instance; } event_t;
typedef struct {
    unsigned field, scope; long long at, latency; unsigned type, code;
    union { double d; unsigned u; unsigned long ul; unsigned long long ull; } value;
} field_t;

enum { NOT_FOUND = 6, INSTANCE = 32, INSTANCES = 7 };
static gpu_t gpus[MOST], instances[INSTANCES];
static int is_instance(const gpu_t *gpu) { return gpu->index >= INSTANCE; }
#ifndef OLD_DRIVER
static unsigned long long calls, sent = 1ULL << 40;
#endif

static FILE *told(const char *name, char *path, size_t size) {
    const char *directory = getenv("NVML_STUB_DIR");
    if (!directory) return NULL;
    snprintf(path, size, "%s/%s", directory, name);
    return fopen(path, "r");
}
static int number(const char *name, unsigned *first, unsigned *second) {
    char path[512];
    FILE *file = told(name, path, sizeof path);
    int found = 0;
    if (file) {
        found = fscanf(file, "%u %u", first, second);
        fclose(file);
    }
    return found;
}
static unsigned count(void) {
    const char *text = getenv("NVML_STUB_COUNT");
    unsigned found = text ? (unsigned)atoi(text) : 2;
    return found > MOST ? MOST : found;
}
static int lost(const gpu_t *gpu) {
    unsigned index, none;
    return number("lost", &index, &none) > 0 && index == gpu->index;
}
static int broken(const gpu_t *gpu) {
    const char *text = getenv("NVML_STUB_BROKEN");
    return (text && (unsigned)atoi(text) == gpu->index) || lost(gpu);
}
int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    const char *text = getenv("NVML_STUB_NO_INIT");
    for (unsigned i = 0; i < MOST; i++) gpus[i].index = i;
    while (text && !strcmp(text, "hang")) pause();
    return text ? strcmp(text, "mismatch") ? DRIVER_NOT_LOADED : MISMATCH : SUCCESS;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) {
    return code == GPU_IS_LOST ? "GPU is lost" : code == NOT_SUPPORTED ? "Not Supported" : code == MISMATCH ? "Driver/library version mismatch" :
           code ? "Driver Not Loaded" : "Success";
}
int nvmlDeviceGetCount_v2(unsigned *found) { *found = count(); return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, gpu_t **gpu) {
    if (index >= count()) return INVALID;
    *gpu = &gpus[index];
    return SUCCESS;
}
int nvmlDeviceGetIndex(gpu_t *gpu, unsigned *index) { *index = gpu->index; return lost(gpu) ? GPU_IS_LOST : SUCCESS; }
static void profile_of(const gpu_t *gpu, char *profile, size_t size) {
    const char *found = getenv("NVML_STUB_PROFILES");
    if (!found) found = "1g.10gb";
    for (unsigned place = (gpu->index - INSTANCE) / 2; place && strchr(found, '|'); place--) found = strchr(found, '|') + 1;
    snprintf(profile, size, "%.*s", (int)strcspn(found, "|"), found);
}
static unsigned gigabytes(const gpu_t *gpu) {
    char profile[32];
    if (!is_instance(gpu)) return 80;
    profile_of(gpu, profile, sizeof profile);
    return *profile == '-' ? 10 : (unsigned)atoi(strrchr(profile, '.') + 1);
}
int nvmlDeviceGetName(gpu_t *gpu, char *name, unsigned length) {
    if (is_instance(gpu)) {
        char profile[32];
        profile_of(gpu, profile, sizeof profile);
        snprintf(name, length, *profile == '-' ? "NVIDIA H100 80GB HBM3" : "NVIDIA H100 80GB HBM3 MIG %s", profile);
        return SUCCESS;
    }
    const char *types = getenv("NVML_STUB_TYPES");
    if (!types) types = "NVIDIA H100 80GB HBM3|NVIDIA H100 80GB HBM3";
    const char *second = strchr(types, '|');
    if (gpu->index && second) snprintf(name, length, "%s", second + 1);
    else snprintf(name, length, "%.*s", second ? (int)(second - types) : (int)strlen(types), types);
    return SUCCESS;
}
int nvmlDeviceGetUUID(gpu_t *gpu, char *uuid, unsigned length) {
    snprintf(uuid, length, is_instance(gpu) ? "MIG-stub-%u" : "GPU-stub-%u", gpu->index % INSTANCE);
    return SUCCESS;
}
static unsigned long long reserved(void) {
    const char *text = getenv("NVML_STUB_RESERVED");
    return (text ? strtoull(text, NULL, 10) : 0) << 20;
}
int nvmlDeviceGetMemoryInfo(gpu_t *gpu, memory_t *memory) {
    if (lost(gpu)) return GPU_IS_LOST;
    memory->total = (unsigned long long)gigabytes(gpu) << 30;
    memory->used = ((1000ULL + gpu->index % INSTANCE) << 20) + reserved();
    memory->free = memory->total - memory->used;
    return SUCCESS;
}
#ifndef OLD_DRIVER
int nvmlDeviceGetMemoryInfo_v2(gpu_t *gpu, memory_v2_t *memory) {
    memory_t all;
    int code = nvmlDeviceGetMemoryInfo(gpu, &all);
    if (code) return code;
    if (memory->version != 0x02000028) return INVALID;
    memory->total = all.total;
    memory->free = all.free;
    memory->reserved = reserved();
    memory->used = all.used - memory->reserved;
    return SUCCESS;
}
#endif
int nvmlDeviceGetUtilizationRates(gpu_t *gpu, utilisation_t *rates) {
    if (is_instance(gpu)) return INVALID;
    if (broken(gpu)) return GPU_IS_LOST;
    rates->gpu = 40 + gpu->index;
    rates->memory = 7;
    return SUCCESS;
}
int nvmlDeviceGetPowerUsage(gpu_t *gpu, unsigned *milliwatts) {
    if (is_instance(gpu)) return NOT_SUPPORTED;
    if (broken(gpu)) return GPU_IS_LOST;
    *milliwatts = 350500;
    return SUCCESS;
}
int nvmlDeviceGetTemperature(gpu_t *gpu, unsigned sensor, unsigned *degrees) {
    unsigned none;
    (void)sensor;
    if (is_instance(gpu)) return INVALID;
    if (lost(gpu)) return GPU_IS_LOST;
    if (gpu->index || number("hot", degrees, &none) < 1) *degrees = 61;
    return SUCCESS;
}
int nvmlDeviceGetTemperatureThreshold(gpu_t *gpu, unsigned kind, unsigned *degrees) {
    (void)gpu;
    *degrees = kind ? 89 : 92;
    return SUCCESS;
}
int nvmlDeviceGetClockInfo(gpu_t *gpu, unsigned kind, unsigned *mhz) {
    if (is_instance(gpu)) return INVALID;
    if (lost(gpu)) return GPU_IS_LOST;
    *mhz = kind == 2 ? 2619 : 1980;
    return SUCCESS;
}
int nvmlDeviceGetMigMode(gpu_t *gpu, unsigned *current, unsigned *pending) {
    const char *cut = getenv("NVML_STUB_MIG");
    if (!cut || is_instance(gpu)) return NOT_SUPPORTED;
    *current = *pending = gpu->index == 0;
    return SUCCESS;
}
int nvmlDeviceGetMaxMigDeviceCount(gpu_t *gpu, unsigned *most) { (void)gpu; *most = INSTANCES; return SUCCESS; }
int nvmlDeviceGetMigDeviceHandleByIndex(gpu_t *gpu, unsigned place, gpu_t **instance) {
    (void)gpu;
    if (place % 2 || place / 2 >= (unsigned)atoi(getenv("NVML_STUB_MIG"))) return NOT_FOUND;
    instances[place].index = INSTANCE + place;
    *instance = &instances[place];
    return SUCCESS;
}
typedef struct {
    unsigned multiprocessors, copy, decoder, encoder, jpeg, ofa, gpu_slices, compute_slices;
    unsigned long long memory_mib;
} attributes_t;
int nvmlDeviceGetAttributes_v2(gpu_t *gpu, attributes_t *attributes) {
    if (!is_instance(gpu)) return NOT_SUPPORTED;
    memset(attributes, 0, sizeof *attributes);
    attributes->gpu_slices = 2;
    attributes->compute_slices = 1;
    attributes->memory_mib = 9856;
    return SUCCESS;
}
int nvmlDeviceGetMaxPcieLinkGeneration(gpu_t *gpu, unsigned *generation) { *generation = 5 - gpu->index; return SUCCESS; }
int nvmlDeviceGetMaxPcieLinkWidth(gpu_t *gpu, unsigned *lanes) { (void)gpu; *lanes = 16; return SUCCESS; }

#ifndef OLD_DRIVER
int nvmlDeviceGetTotalEnergyConsumption(gpu_t *gpu, unsigned long long *millijoules) {
    if (is_instance(gpu)) return NOT_SUPPORTED;
    if (lost(gpu)) return GPU_IS_LOST;
    *millijoules = 123456789;
    return SUCCESS;
}
int nvmlDeviceGetCurrentClocksEventReasons(gpu_t *gpu, unsigned long long *reasons) {
    if (is_instance(gpu)) return NOT_SUPPORTED;
    if (lost(gpu)) return GPU_IS_LOST;
    *reasons = 4;
    return SUCCESS;
}
int nvmlDeviceGetTotalEccErrors(gpu_t *gpu, unsigned kind, unsigned counter, unsigned long long *errors) {
    unsigned found = 0, none;
    (void)counter;
    if (lost(gpu)) return GPU_IS_LOST;
    if (kind && !gpu->index) number("ecc", &found, &none);
    *errors = kind ? found : 3;
    return SUCCESS;
}
int nvmlDeviceGetPcieThroughput(gpu_t *gpu, unsigned kind, unsigned *kilobytes) {
    if (is_instance(gpu)) return NOT_SUPPORTED;
    if (lost(gpu)) return GPU_IS_LOST;
    *kilobytes = kind ? 2000 : 1000;
    return SUCCESS;
}
int nvmlDeviceGetFieldValues(gpu_t *gpu, int length, field_t *values) {
    const char *width = getenv("NVML_STUB_PCIE");
    if (lost(gpu)) return GPU_IS_LOST;
    char path[512];
    FILE *wraps = told("wraps", path, sizeof path);
    sent += wraps ? -(1ULL << 20) : 1 << 20;
    if (wraps) fclose(wraps);
    for (int i = 0; i < length; i++) {
        values[i].code = width ? SUCCESS : NOT_SUPPORTED;
        values[i].type = width && !strcmp(width, "64") ? 3 : 1;
        values[i].value.ull = sent;
    }
    return SUCCESS;
}
static unsigned listed(const gpu_t *gpu, process_t *processes, use_t *uses, unsigned room) {
    char path[512];
    unsigned found = 0, index, pid, mib, sm;
    FILE *file = told("processes", path, sizeof path);
    if (!file) return 0;
    while (fscanf(file, "%u %u %u %u", &index, &pid, &mib, &sm) == 4) {
        if (index != gpu->index) continue;
        if (found < room && processes) processes[found] = (process_t){pid, (unsigned long long)mib << 20, -1U, -1U};
        if (found < room && uses) uses[found] = (use_t){pid, ++calls, sm, 0, 0, 0};
        found++;
    }
    fclose(file);
    return found;
}
int nvmlDeviceGetComputeRunningProcesses_v3(gpu_t *gpu, unsigned *length, process_t *processes) {
    if (lost(gpu)) return GPU_IS_LOST;
    unsigned room = *length;
    *length = listed(gpu, processes, NULL, room);
    return *length > room ? TOO_SMALL : SUCCESS;
}
int nvmlDeviceGetProcessUtilization(gpu_t *gpu, use_t *uses, unsigned *length, unsigned long long since) {
    (void)since;
    if (lost(gpu)) return GPU_IS_LOST;
    unsigned room = uses ? *length : 0;
    *length = listed(gpu, NULL, uses, room);
    return *length > room ? TOO_SMALL : SUCCESS;
}
#endif

int nvmlEventSetCreate(void **set) { *set = &gpus; return SUCCESS; }
int nvmlDeviceRegisterEvents(gpu_t *gpu, unsigned long long types, void *set) {
    (void)types;
    (void)set;
    return is_instance(gpu) ? INVALID : SUCCESS;
}
int nvmlEventSetWait_v2(void *set, event_t *event, unsigned timeout_ms) {
    unsigned index, code;
    char path[512];
    (void)set;
    (void)timeout_ms;
    if (number("xid", &index, &code) < 2) return TIMEOUT;
    snprintf(path, sizeof path, "%s/xid", getenv("NVML_STUB_DIR"));
    unlink(path);
    *event = (event_t){&gpus[index], 8, code, -1U, -1U};
    return SUCCESS;
}
int nvmlDeviceGetNvLinkState(gpu_t *gpu, unsigned link, unsigned *active) {
    const char *links = getenv("NVML_STUB_NVLINK");
    if (is_instance(gpu) || !links || link >= (unsigned)atoi(links)) return INVALID;
    *active = 1;
    return SUCCESS;
}
int nvmlDeviceGetNvLinkVersion(gpu_t *gpu, unsigned link, unsigned *version) { (void)gpu; (void)link; *version = 4; return SUCCESS; }
