// Creates the work of a run within the memory that the machine has.
#include "cli/run_memory.h"

#include <stdio.h>

#include "cli/frame.h"

// not counted: the program's own pages, stacks, SQLite, texts, and gaps of the allocator. A fixed
// part, and a share of the available memory.
#define MARGIN_BYTES ((uint64_t)64 << 20)
#define MARGIN_SHARE 20

// "1.5 GiB", below one "512.0 MiB".
static const char *write_bytes(double bytes, char text[32]) {
    double mib = bytes / (1 << 20);
    snprintf(text, 32, mib < 1024 ? "%.1f MiB" : "%.1f GiB", mib < 1024 ? mib : mib / 1024);
    return text;
}

// Bytes that the work may take; 0: no known limit.
static size_t usable_bytes(const EsMemoryAvailable *available) {
    if (available->bytes >= SIZE_MAX / 2) {
        return 0;
    }
    uint64_t margin = available->bytes / MARGIN_SHARE + MARGIN_BYTES;
    return available->bytes > margin ? (size_t)(available->bytes - margin) : 1;
}

// The memory of a work, and of the run beside it.
typedef struct Taken {
    EsAllocation allocation;
    double sure_bytes, peak_bytes;
} Taken;

// MEMORY with allocation.is_refused when it does not fit.
static EsStatus create_within(const EsRunMaker *maker, size_t limit_bytes, void **work,
                              Taken *taken) {
    size_t beside = maker->run_need.sure_bytes;
    size_t limit_of_work = limit_bytes > beside ? limit_bytes - beside : 1;
    EsRunNeed need = {0};
    es_allocation_begin(limit_bytes > 0 ? limit_of_work : 0);
    EsStatus status = maker->create(maker->settings, work);
    if (status == ES_STATUS_OK && maker->find_need != NULL) {
        status = maker->find_need(*work, &need);
    }
    taken->allocation = es_allocation_end();
    double held = (double)taken->allocation.held_bytes, peak = (double)taken->allocation.peak_bytes;
    taken->sure_bytes = ES_MAX(peak, held + (double)need.sure_bytes) + (double)beside;
    taken->peak_bytes =
        ES_MAX(peak, held + (double)need.peak_bytes) + (double)maker->run_need.peak_bytes;
    if (status == ES_STATUS_OK && limit_bytes > 0 && taken->sure_bytes > (double)limit_bytes) {
        taken->allocation.is_refused = 1;
        status = ES_STATUS_MEMORY; // reported by fail_memory
    }
    if (status != ES_STATUS_OK) {
        maker->destroy(*work);
        *work = NULL;
    }
    return status;
}

// Bytes for n environments; 0 when they do not fit either.
static double measure(const EsRunMaker *maker, int n_envs, size_t limit_bytes) {
    void *work = NULL;
    Taken taken;
    *maker->n_envs = n_envs;
    EsStatus status = create_within(maker, limit_bytes, &work, &taken);
    maker->destroy(work);
    return status == ES_STATUS_OK ? taken.sure_bytes : 0;
}

// About the most environments that fit, up to `guess`: a guess from two small counts overshoots
// where more environments bring another part with them, as held-out episodes with hosts of their
// own.
static int find_fitting(const EsRunMaker *maker, int n_known, int guess, size_t limit_bytes) {
    if (guess <= n_known || measure(maker, guess, limit_bytes) > 0) {
        return guess;
    }
    int low = n_known, high = guess; // fits, does not fit
    while (high - low > 1 + low / 16) {
        int middle = low + (high - low) / 2;
        if (measure(maker, middle, limit_bytes) > 0) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

// Two small counts show the need of all, and how many fit. Each thread has room of its
// own for one environment, so both have at least one for every thread where that fits.
static EsStatus fail_memory(const EsRunMaker *maker, const EsMemoryAvailable *available,
                            size_t limit_bytes, double least_bytes) {
    char needed[32], there[32];
    int n_envs = *maker->n_envs;
    int n = ES_MIN(es_processor_count(), n_envs / 2);
    double some = 0, twice = 0;
    while (n > 0 && twice <= 0) {
        some = measure(maker, n, limit_bytes);
        twice = some > 0 ? measure(maker, 2 * n, limit_bytes) : 0;
        n = twice > 0 ? n : n / 2;
    }
    write_bytes((double)available->bytes, there);
    if (twice <= some) {
        *maker->n_envs = n_envs;
        write_bytes(least_bytes, needed);
        return ES_FAIL(CONFIG,
                       "the run needs more than %s of memory, and %s has %s left; %s takes less",
                       needed, available->limited_by, there, maker->smaller);
    }
    double per_env = (twice - some) / n;
    double guess = n + ((double)limit_bytes - some) / per_env;
    int n_fitting = find_fitting(maker, 2 * n, (int)ES_MIN(guess, n_envs - 1.0), limit_bytes);
    *maker->n_envs = n_envs;
    write_bytes(ES_MAX(least_bytes, some + per_env * (n_envs - n)), needed);
    return ES_FAIL(CONFIG,
                   "the run needs about %s of memory, and %s has %s left; --envs %d would fit "
                   "instead of %d, and %s takes less",
                   needed, available->limited_by, there, n_fitting, n_envs, maker->smaller);
}

// A run that fits as far as is sure, and perhaps not at its peak.
static void note_peak(const EsRunMaker *maker, const EsMemoryAvailable *available,
                      double peak_bytes) {
    char needed[32], there[32];
    es_message("note: the run may come to %s of memory at its peak, and %s has %s left; if it does "
               "not fit, a smaller --envs or %s takes less\n",
               write_bytes(peak_bytes, needed), available->limited_by,
               write_bytes((double)available->bytes, there), maker->smaller);
}

EsStatus es_run_memory_create(const EsRunMaker *maker, void **work, EsRunMemory *memory) {
    EsMemoryAvailable available = es_memory_available("");
    size_t limit_bytes = usable_bytes(&available);
    double resident_bytes = (double)es_run_resident_bytes();
    Taken taken;
    EsStatus status = create_within(maker, limit_bytes, work, &taken);
    if (status == ES_STATUS_MEMORY && taken.allocation.is_refused) {
        return fail_memory(maker, &available, limit_bytes, taken.sure_bytes);
    }
    if (status == ES_STATUS_OK && limit_bytes > 0 && taken.peak_bytes > (double)limit_bytes) {
        note_peak(maker, &available, taken.peak_bytes);
    }
    if (memory != NULL) {
        *memory = (EsRunMemory){available, (size_t)taken.sure_bytes,
                                (size_t)(taken.peak_bytes + ES_MAX(resident_bytes, 0))};
    }
    return status;
}

void es_run_memory_print(const EsRunMemory *memory) {
    char needed[32], peak[32], there[32] = "an unknown amount";
    if (memory->available.bytes != UINT64_MAX) {
        write_bytes((double)memory->available.bytes, there);
    }
    printf("# in all      at least %s of memory; %s has %s left; about %s at the peak\n",
           write_bytes((double)memory->sure_bytes, needed), memory->available.limited_by, there,
           write_bytes((double)memory->peak_bytes, peak));
}
