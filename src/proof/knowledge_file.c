#include "proof/knowledge_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "proof/knowledge_text.h"

#define PATH_BYTES     4096
#define MAX_FILE_BYTES ((size_t)1 << 32)

static const char *const split_names[ES_KG_N_SPLITS] = {"train", "valid", "test"};

typedef char Path[PATH_BYTES];

typedef struct Content {
    Path path;
    void *text; // owned
    size_t bytes;
} Content;

static EsStatus join_path(Path path, const char *folder, const char *stem, const char *ending) {
    int length = snprintf(path, PATH_BYTES, "%s/%s%s", folder, stem, ending);
    if (length < 0 || length >= PATH_BYTES) {
        return ES_FAIL(INPUT, "the path of %s%s in \"%.100s...\" is longer than %d bytes", stem,
                       ending, folder, PATH_BYTES - 1);
    }
    return ES_STATUS_OK;
}

static int is_present(const char *path) { return access(path, F_OK) == 0; }

static EsStatus read_content(Content *content) {
    return es_file_read_all(content->path, MAX_FILE_BYTES, &content->text, &content->bytes);
}

static EsStatus check_folder(const char *folder) {
    struct stat facts;
    if (stat(folder, &facts) != 0) {
        return ES_FAIL(INPUT, "%s: %s; expected a folder with train.txt and rules.txt", folder,
                       strerror(errno));
    }
    if (!S_ISDIR(facts.st_mode)) {
        return ES_FAIL(INPUT, "%s: not a folder; expected one with train.txt and rules.txt",
                       folder);
    }
    return ES_STATUS_OK;
}

// --- before the graph exists ---

static EsStatus read_split(EsKgBuilder *builder, const char *folder, EsKgSplit split) {
    Content content = {.text = NULL};
    ES_TRY(join_path(content.path, folder, split_names[split], ".txt"));
    if (!is_present(content.path)) {
        ES_TRY(join_path(content.path, folder, split_names[split], ".tsv"));
    }
    if (!is_present(content.path)) {
        return split == ES_KG_SPLIT_TRAIN
                   ? ES_FAIL(INPUT, "%s: neither train.txt nor train.tsv, which hold the facts",
                             folder)
                   : ES_STATUS_OK;
    }
    ES_TRY(read_content(&content));
    int32_t n_read;
    EsStatus status =
        es_kg_text_read_triples(builder, split, content.path, content.text, content.bytes, &n_read);
    es_release(content.text);
    if (status == ES_STATUS_OK && n_read == 0 && split == ES_KG_SPLIT_TRAIN) {
        return ES_FAIL(INPUT, "%s: no facts in it", content.path);
    }
    return status;
}

static EsStatus read_rules(EsKgBuilder *builder, const char *folder, const char *rules) {
    Content content = {.text = NULL};
    if (rules != NULL && strchr(rules, '/') != NULL) {
        if (strlen(rules) >= sizeof content.path) {
            return ES_FAIL(INPUT, "the path of the rules is longer than %d bytes", PATH_BYTES - 1);
        }
        memcpy(content.path, rules, strlen(rules) + 1);
    } else {
        ES_TRY(join_path(content.path, folder, rules != NULL ? rules : "rules.txt", ""));
    }
    if (!is_present(content.path)) {
        return ES_FAIL(INPUT, "%s: there is no such file of rules", content.path);
    }
    ES_TRY(read_content(&content));
    int32_t n_read;
    EsStatus status =
        es_kg_text_read_rules(builder, content.path, content.text, content.bytes, &n_read);
    es_release(content.text);
    if (status == ES_STATUS_OK && n_read == 0) {
        return ES_FAIL(INPUT, "%s: no rules in it", content.path);
    }
    return status;
}

// --- once it exists ---

static EsStatus read_depths(EsKnowledgeGraph *graph, const char *folder, EsKgSplit split) {
    Content content = {.text = NULL};
    ES_TRY(join_path(content.path, folder, split_names[split], "_depths.txt"));
    if (!is_present(content.path)) {
        return ES_STATUS_OK;
    }
    ES_TRY(read_content(&content));
    EsStatus status =
        es_kg_text_read_depths(graph, split, content.path, content.text, content.bytes);
    es_release(content.text);
    return status;
}

static EsStatus read_domains(EsKnowledgeGraph *graph, const char *folder) {
    Content content = {.text = NULL};
    ES_TRY(join_path(content.path, folder, "domain2constants", ".txt"));
    if (!is_present(content.path)) {
        return ES_STATUS_OK;
    }
    ES_TRY(read_content(&content));
    EsStatus status = es_kg_text_read_domains(graph, content.path, content.text, content.bytes);
    es_release(content.text);
    return status;
}

EsStatus es_kg_load(const char *folder, const char *rules, EsKnowledgeGraph **graph) {
    *graph = NULL;
    EsKgBuilder *builder = NULL;
    EsKnowledgeGraph *made = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(check_folder(folder));
    ES_TRY(es_kg_builder_create(&builder));
    for (int split = 0; split < ES_KG_N_SPLITS; split++) {
        ES_TRY_GOTO(read_split(builder, folder, (EsKgSplit)split));
    }
    ES_TRY_GOTO(read_rules(builder, folder, rules));
    ES_TRY_GOTO(es_kg_builder_finish(builder, &made));
    for (int split = 0; split < ES_KG_N_SPLITS; split++) {
        ES_TRY_GOTO(read_depths(made, folder, (EsKgSplit)split));
    }
    ES_TRY_GOTO(read_domains(made, folder));
    *graph = made;
    made = NULL;
done:
    es_kg_builder_destroy(builder);
    es_kg_destroy(made);
    return status;
}
