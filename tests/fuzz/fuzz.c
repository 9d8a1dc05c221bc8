// The list of targets, what they share, and the entry points that libFuzzer calls.
#include "fuzz.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/macros.h"
#include "esper/log.h"

static const FuzzTarget targets[] = {
#define X(name, way) {#name, fuzz_##name, fuzz_mutate_##way},
    FUZZ_TARGETS(X)
#undef X
};

static int64_t counts[FUZZ_N_VERDICTS];
static uint8_t *accepted; // the last input that was; owned
static size_t accepted_bytes;
static char folder[256]; // "" until a path is asked for

const FuzzTarget *fuzz_find_target(const char *name) {
    for (size_t i = 0; i < ES_COUNT_OF(targets); i++) {
        if (strcmp(targets[i].name, name) == 0) {
            return &targets[i];
        }
    }
    return NULL;
}

int64_t fuzz_count(FuzzVerdict verdict) { return counts[verdict]; }

FuzzVerdict fuzz_run(const FuzzTarget *target, const uint8_t *data, size_t bytes) {
    // exactly as many bytes as there are, so that a sanitizer sees a step beyond
    uint8_t *exact = malloc(bytes);
    FUZZ_CHECK(exact != NULL || bytes == 0);
    if (bytes > 0) {
        memcpy(exact, data, bytes);
    }
    FuzzVerdict verdict = target->run(exact, bytes);
    counts[verdict]++;
    if (verdict == FUZZ_ACCEPTED) {
        free(accepted);
        accepted = exact;
        accepted_bytes = bytes;
    } else {
        free(exact);
    }
    return verdict;
}

FuzzVerdict fuzz_judge(EsStatus status) {
    if (status == ES_STATUS_OK) {
        return FUZZ_ACCEPTED;
    }
    FUZZ_CHECK(status == ES_STATUS_INPUT || status == ES_STATUS_CONFIG ||
               status == ES_STATUS_ARGUMENT || status == ES_STATUS_UNSUPPORTED ||
               status == ES_STATUS_NUMERIC);
    FUZZ_CHECK(es_status_detail()[0] != '\0');
    return FUZZ_REFUSED;
}

void fuzz_fail(const char *what, const char *file, int line) {
    fprintf(stderr, "%s:%d: finding: not %s (last failure: %s)\n", file, line, what,
            es_status_detail());
    abort();
}

// --- files ---

static void remove_folder(void) { es_folder_remove(folder); }

const char *fuzz_path(const char *name) {
    static struct { char name[64], path[384]; } known[32];
    size_t i = 0;
    if (folder[0] == '\0') {
        const char *base = getenv("TMPDIR");
        base = base != NULL ? base : access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
        snprintf(folder, sizeof folder, "%s/esper-fuzz-XXXXXX", base);
        FUZZ_CHECK(mkdtemp(folder) != NULL);
        atexit(remove_folder);
    }
    for (; i < ES_COUNT_OF(known) && known[i].name[0] != '\0'; i++) {
        if (strcmp(known[i].name, name) == 0) {
            return known[i].path;
        }
    }
    FUZZ_CHECK(i < ES_COUNT_OF(known) && strlen(name) < sizeof known[i].name);
    snprintf(known[i].name, sizeof known[i].name, "%s", name);
    snprintf(known[i].path, sizeof known[i].path, "%s/%s", folder, name);
    return known[i].path;
}

const char *fuzz_file(const char *name, const void *data, size_t bytes) {
    const char *path = fuzz_path(name);
    int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FUZZ_CHECK(descriptor >= 0);
    for (size_t done = 0; done < bytes;) {
        ssize_t n = write(descriptor, (const char *)data + done, bytes - done);
        FUZZ_CHECK(n > 0);
        done += (size_t)n;
    }
    FUZZ_CHECK(close(descriptor) == 0);
    return path;
}

char *fuzz_text(const uint8_t *data, size_t bytes) {
    char *text = malloc(bytes + 1);
    FUZZ_CHECK(text != NULL);
    for (size_t i = 0; i < bytes; i++) {
        text[i] = data[i] != 0 ? (char)data[i] : ' ';
    }
    text[bytes] = '\0';
    return text;
}

const char *fuzz_seed_path(const char *seeds, const char *target) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", seeds, target);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/start", seeds, target);
    return path;
}

// --- libFuzzer ---

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t max_bytes, unsigned seed);

static const FuzzTarget *chosen;

static void print_counts(void) {
    fprintf(stderr, "fuzz: %s: %lld unfit, %lld refused, %lld accepted\n", chosen->name,
            (long long)counts[FUZZ_UNFIT], (long long)counts[FUZZ_REFUSED],
            (long long)counts[FUZZ_ACCEPTED]);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    const char *name = getenv("ES_FUZZ_TARGET");
    chosen = name != NULL ? fuzz_find_target(name) : NULL;
    if (chosen == NULL) {
        fprintf(stderr, "ES_FUZZ_TARGET must name a target:");
        for (size_t i = 0; i < ES_COUNT_OF(targets); i++) {
            fprintf(stderr, " %s", targets[i].name);
        }
        fprintf(stderr, "\n");
        exit(2);
    }
    es_log_set_handler(NULL, NULL, ES_LOG_ERROR);
    atexit(print_counts);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    fuzz_run(chosen, data, bytes);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t max_bytes, unsigned seed) {
    // what a fuzzer keeps are mostly inputs that were refused early, each for a reason of its own;
    // most of the time begin with one that was not
    if (seed % 4 != 0 && accepted != NULL && accepted_bytes <= max_bytes) {
        memcpy(data, accepted, accepted_bytes);
        bytes = accepted_bytes;
    }
    return chosen->mutate(data, bytes, max_bytes, seed / 4);
}
