// Every fuzz target on its corpus and on mutations of it, the same ones each time: a regression
// test in any build. Of each corpus at least one input is accepted, else it has gone stale.
//
// usage: fuzz_replay_test TARGET [INPUT ...]    (default: all of ES_FUZZ_CORPUS/TARGET)
//        fuzz_replay_test --write-seeds FOLDER
#include "fuzz.h"

#include "base/file.h"
#include "base/folder.h"
#include "base/memory.h"
#include "base/random_rules.h"
#include "esper/log.h"

#define MAX_INPUT_BYTES ((size_t)1 << 17)
#define N_MUTATIONS     20 // of every input

static uint32_t n_drawn;

static uint32_t draw(uint32_t n) {
    EsRandom4 r = es_random_draw(16, n_drawn++, ES_PURPOSE_EVALUATION, 0, 0);
    return es_random_below(r.word[0], n);
}

// A byte changed, taken out, put in, or the rest cut off.
size_t LLVMFuzzerMutate(uint8_t *data, size_t bytes, size_t max_bytes) {
    size_t at = bytes > 0 ? draw((uint32_t)bytes) : 0;
    switch (draw(4)) {
    case 0:
        if (bytes > 0) {
            memmove(data + at, data + at + 1, bytes - at - 1);
        }
        return bytes > 0 ? bytes - 1 : 0;
    case 1:
        if (bytes < max_bytes) {
            memmove(data + at + 1, data + at, bytes - at);
            data[at] = (uint8_t)draw(256);
        }
        return bytes + (bytes < max_bytes);
    case 2:
        return at;
    default:
        if (bytes > 0) {
            data[at] ^= (uint8_t)(1u << draw(8));
        }
        return bytes;
    }
}

static int replay(const FuzzTarget *target, const char *path) {
    void *input = NULL;
    size_t bytes = 0;
    uint8_t *changed = malloc(MAX_INPUT_BYTES);
    FUZZ_CHECK(changed != NULL);
    if (es_file_read_all(path, MAX_INPUT_BYTES, &input, &bytes) != ES_STATUS_OK) {
        printf("%s\n", es_status_detail());
        exit(1);
    }
    // a crash comes after the name of its input
    printf("%s\n", path);
    fflush(stdout);
    int is_accepted = fuzz_run(target, input, bytes) == FUZZ_ACCEPTED;
    for (int i = 0; i < N_MUTATIONS; i++) {
        memcpy(changed, input, bytes);
        fuzz_run(target, changed, target->mutate(changed, bytes, MAX_INPUT_BYTES, draw(1u << 31)));
    }
    free(changed);
    es_release(input);
    return is_accepted;
}

int main(int argc, char **argv) {
    const FuzzTarget *target = argc > 1 ? fuzz_find_target(argv[1]) : NULL;
    EsFolderEntry *entries = NULL;
    int n_entries = 0, n_accepted = 0;
    char folder[512], path[1024];
    es_log_set_handler(NULL, NULL, ES_LOG_ERROR);
    if (argc == 3 && strcmp(argv[1], "--write-seeds") == 0) {
        fuzz_write_tensor_seeds(argv[2]);
        fuzz_write_state_seeds(argv[2]);
        fuzz_write_data_seeds(argv[2]);
        return 0;
    }
    if (target == NULL) {
        printf("usage: fuzz_replay_test TARGET [INPUT ...] | --write-seeds FOLDER\n");
        return 2;
    }
    for (int i = 2; i < argc; i++) {
        replay(target, argv[i]);
    }
    if (argc > 2) {
        return 0;
    }
    snprintf(folder, sizeof folder, "%s/%s", ES_FUZZ_CORPUS, target->name);
    if (es_folder_list(folder, &entries, &n_entries) != ES_STATUS_OK) {
        printf("%s\n", es_status_detail());
        return 1;
    }
    for (int i = 0; i < n_entries; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, entries[i].name);
        n_accepted += replay(target, path);
    }
    es_release(entries);
    printf("%d of %d inputs accepted; with their mutations %lld unfit, %lld refused, %lld "
           "accepted\n",
           n_accepted, n_entries, (long long)fuzz_count(FUZZ_UNFIT),
           (long long)fuzz_count(FUZZ_REFUSED), (long long)fuzz_count(FUZZ_ACCEPTED));
    return n_accepted == 0;
}
