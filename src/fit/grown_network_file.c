// The two files of a network: network.safetensors has the tensors, network.json all the rest. Both
// come from outside when they are read: nothing is used before it is checked against its range and
// against the sizes at hand.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/range_check.h"
#include "esper/log.h"
#include "fit/grown_network.h"
#include "growth/rules/growth_names.h"
#include "telemetry/text.h"
#include "tensor/safetensors.h"

#define FORMAT         "esper.network.1"
#define PATH_BYTES     4096
#define JSON_BYTES_MAX (64 << 20)

// --- writing ---

static json_t *numbers_json(const float *numbers, int n) {
    json_t *array = json_array();
    for (int i = 0; i < n; i++) {
        json_array_append_new(array, es_json_number((double)numbers[i]));
    }
    return array;
}

static json_t *texts_json(const char *const *texts, int n) {
    json_t *array = json_array();
    for (int i = 0; i < n; i++) {
        json_array_append_new(array, es_text_json(texts[i], strlen(texts[i])));
    }
    return array;
}

static json_t *input_json(const EsGrownSpec *spec) {
    int n = spec->host.image_channels;
    json_t *object = json_object();
    if (spec->kind == ES_INPUT_IMAGES) {
        json_object_set_new(object, "kind", json_string("images"));
        json_object_set_new(object, "channels", json_integer(n));
        json_object_set_new(object, "height", json_integer(spec->host.image_size));
        json_object_set_new(object, "width", json_integer(spec->host.image_size));
        json_object_set_new(object, "letterbox", json_true());
        json_object_set_new(object, "colours", json_string(n == 1 ? "grey" : "rgb"));
    } else {
        json_object_set_new(object, "kind", json_string("rows"));
        json_object_set_new(object, "columns", json_integer(n));
        if (spec->column_names != NULL) {
            json_object_set_new(object, "names", texts_json(spec->column_names, n));
        }
    }
    json_object_set_new(object, "mean", numbers_json(spec->mean, n));
    json_object_set_new(object, "std", numbers_json(spec->std, n));
    return object;
}

static json_t *host_json(const EsGrownSpec *spec) {
    json_t *blocks = json_array();
    for (int i = 0; i < spec->host.n_blocks; i++) {
        const EsHostBlock block = es_host_block(&spec->host, i);
        json_array_append_new(blocks, json_pack("{s:i, s:i, s:b}", "channels", block.n_channels,
                                                "kernel", block.kernel, "pool", block.has_pool));
    }
    json_t *host = json_pack("{s:s, s:s, s:o}", "name", spec->host.name, "kind",
                             spec->kind == ES_INPUT_ROWS ? "dense" : "cnn", "blocks", blocks);
    if (host != NULL && spec->kind == ES_INPUT_ROWS) {
        json_object_set_new(host, "norm_epsilon", json_real((double)spec->norm_epsilon));
    }
    return host;
}

static json_t *seeds_json(const EsGrownSpec *spec) {
    json_t *seeds = json_array();
    for (int i = 0; i < spec->n_seeds; i++) {
        const EsGrownSeed *seed = &spec->seeds[i];
        char slot[24];
        int algorithm = es_grown_seed_algorithm(seed);
        json_array_append_new(seeds,
                              json_pack("{s:s, s:i, s:b, s:s, s:s, s:s, s:f, s:b}", "slot",
                                        es_slot_write(seed->slot.row, seed->slot.column, slot),
                                        "block", seed->slot.column, "after_pool", seed->slot.row,
                                        "blueprint", es_blueprint_name(seed->blueprint), "style",
                                        es_grown_style_name(seed->style), "algorithm",
                                        es_algorithm_name(algorithm), "alpha", (double)seed->alpha,
                                        "gate", algorithm == ES_ALGORITHM_GATE));
    }
    return seeds;
}

static json_t *origin_json(const EsGrownOrigin *origin) {
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:s, s:o, s:o}", "version", origin->version,
                     "command", origin->command, "data", origin->data, "data_sha256",
                     origin->data_sha256, "seed", (json_int_t)origin->seed, "episode",
                     (json_int_t)origin->episode, "policy", origin->policy, "validation_accuracy",
                     es_json_number(origin->validation_accuracy), "test_accuracy",
                     es_json_number(origin->test_accuracy));
}

static EsStatus save_json(const EsGrownNetwork *network, const char *path, const char *hash) {
    const EsGrownSpec *spec = &network->spec;
    char *text = NULL;
    json_t *root = json_object();
    json_object_set_new(root, "format", json_string(FORMAT));
    json_object_set_new(root, "input", input_json(spec));
    json_object_set_new(root, "classes", texts_json(spec->class_names, spec->host.n_classes));
    json_object_set_new(root, "host", host_json(spec));
    json_object_set_new(root, "seeds", seeds_json(spec));
    json_object_set_new(root, "parameters", json_integer((json_int_t)network->n_parameters));
    json_object_set_new(root, ES_TENSORS_HASH, json_string(hash));
    json_object_set_new(root, "made_by", origin_json(&network->origin));
    ES_TRY(es_json_dump(path, root, JSON_INDENT(1) | JSON_REAL_PRECISION(17), &text));
    EsStatus status = es_file_write_all(path, text, strlen(text));
    free(text);
    return status;
}

// A tensor as the file has it: without the axis of environments.
static EsTensor filed_tensor(const EsGrownNetwork *network, EsValueId v) {
    const EsValue *value = &network->single.graph->values[v];
    // read only; tensors have no const
    return es_tensor_view((void *)(uintptr_t)es_grown_network_weights(network, v), ES_DTYPE_F32,
                          NULL, value->rank - 1, value->dim + 1);
}

static int is_filed(const EsValue *value) {
    return value->role == ES_ROLE_PARAMETER || value->role == ES_ROLE_STATE;
}

// The tensors of the file; es_release them.
static EsStatus list_tensors(const EsGrownNetwork *network, EsNamedTensor **tensors, int *n) {
    const EsGraph *graph = network->single.graph;
    *n = 0;
    ES_TRY(es_allocate(sizeof **tensors * (size_t)graph->n_values, (void **)tensors));
    for (EsValueId v = 0; v < graph->n_values; v++) {
        if (is_filed(&graph->values[v])) {
            (*tensors)[(*n)++] = (EsNamedTensor){graph->values[v].name, filed_tensor(network, v)};
        }
    }
    return ES_STATUS_OK;
}

EsStatus es_grown_network_hash(const EsGrownNetwork *network, char hash[ES_SHA256_TEXT_BYTES]) {
    EsNamedTensor *tensors = NULL;
    int n = 0;
    ES_TRY(list_tensors(network, &tensors, &n));
    EsStatus status = es_safetensors_hash(tensors, n, hash);
    es_release(tensors);
    return status;
}

// `hash` receives that of the tensors.
static EsStatus save_tensors(const EsGrownNetwork *network, const char *path,
                             char hash[ES_SHA256_TEXT_BYTES]) {
    const EsMetadata metadata[] = {{"format", FORMAT}, {ES_TENSORS_HASH, hash}};
    EsNamedTensor *tensors = NULL;
    int n = 0;
    ES_TRY(list_tensors(network, &tensors, &n));
    EsStatus status = es_safetensors_hash(tensors, n, hash);
    if (status == ES_STATUS_OK) {
        status = es_safetensors_save(path, tensors, n, metadata, (int)ES_COUNT_OF(metadata));
    }
    es_release(tensors);
    return status;
}

static EsStatus join(const char *folder, const char *name, char path[PATH_BYTES]) {
    int length = snprintf(path, PATH_BYTES, "%s/%s", folder, name);
    return length < PATH_BYTES ? ES_STATUS_OK
                               : ES_FAIL(ARGUMENT, "the path %.100s... is too long", folder);
}

static int has_hash(const EsSafetensors *file, const char *hash) {
    const char *own = es_safetensors_metadata(file, ES_TENSORS_HASH);
    return own != NULL && strcmp(own, hash) == 0;
}

// Do both files belong together? Anything that cannot be read does not.
static int is_pair(const char *json_path, const char *tensors_path) {
    EsSafetensors *file = NULL;
    json_t *root = json_load_file(json_path, 0, NULL);
    const char *hash = json_string_value(json_object_get(root, ES_TENSORS_HASH));
    int is_one = hash != NULL && es_safetensors_open(tensors_path, &file) == ES_STATUS_OK &&
                 has_hash(file, hash);
    es_safetensors_close(file);
    json_decref(root);
    return is_one;
}

EsStatus es_grown_network_write(const EsGrownNetwork *network, const char *folder) {
    char tensors_path[PATH_BYTES], json_path[PATH_BYTES], hash[ES_SHA256_TEXT_BYTES];
    ES_TRY(join(folder, ES_NETWORK_TENSORS_FILE, tensors_path));
    ES_TRY(join(folder, ES_NETWORK_JSON_FILE, json_path));
    ES_TRY(save_tensors(network, tensors_path, hash));
    return save_json(network, json_path, hash);
}

EsStatus es_grown_network_hold(const EsGrownNetwork *network, const char *folder,
                               EsHeldFiles **files) {
    ES_TRY(es_held_files_begin(files));
    EsStatus status = es_grown_network_write(network, folder);
    es_held_files_end();
    if (status != ES_STATUS_OK) {
        es_held_files_destroy(*files);
        *files = NULL;
    }
    return status;
}

// The tensors of the network that is replaced have a second name until both files are new: what is
// killed in between leaves a network, the one before. Where links cannot be made there is none.
EsStatus es_grown_network_replace(const char *folder, const EsHeldFiles *files) {
    char tensors_path[PATH_BYTES], json_path[PATH_BYTES], before_path[PATH_BYTES];
    ES_TRY(join(folder, ES_NETWORK_TENSORS_FILE, tensors_path));
    ES_TRY(join(folder, ES_NETWORK_JSON_FILE, json_path));
    ES_TRY(join(folder, ES_NETWORK_BEFORE_FILE, before_path));
    if (access(before_path, F_OK) == 0 && is_pair(json_path, tensors_path)) {
        (void)unlink(before_path); // of a save that was killed at its end
    }
    if (link(tensors_path, before_path) != 0 && errno != EEXIST && errno != ENOENT) {
        es_log(ES_LOG_DEBUG, "%s: no second name: %s", tensors_path, strerror(errno));
    }
    ES_TRY(es_held_files_write(files));
    (void)unlink(before_path);
    return ES_STATUS_OK;
}

EsStatus es_grown_network_save(const EsGrownNetwork *network, const char *folder) {
    EsHeldFiles *files = NULL;
    ES_TRY(es_grown_network_hold(network, folder, &files));
    EsStatus status = es_grown_network_replace(folder, files);
    es_held_files_destroy(files);
    return status;
}

// --- reading JSON: every getter names file and field ---

typedef struct Reading {
    const char *path;
    EsGrownSpec spec;                         // texts borrowed from the JSON
    float *mean, *std;                        // owned
    const char **class_names, **column_names; // owned arrays of borrowed texts
    char hash[ES_SHA256_TEXT_BYTES];
    EsGrownOrigin origin;
    int64_t n_parameters;
} Reading;

static EsStatus read_integer(const Reading *r, const json_t *object, const char *name,
                             int64_t least, int64_t most, int64_t *value) {
    const json_t *number = json_object_get(object, name);
    if (!json_is_integer(number)) {
        return ES_FAIL(INPUT, "%s: \"%s\" is missing or not a whole number", r->path, name);
    }
    *value = json_integer_value(number);
    return es_check_integer((EsFileField){r->path, name, ES_NO_INDEX}, *value, least, most);
}

static EsStatus read_text(const Reading *r, const json_t *object, const char *name,
                          const char **text) {
    *text = json_string_value(json_object_get(object, name));
    if (*text == NULL) {
        return ES_FAIL(INPUT, "%s: \"%s\" is missing or not a text", r->path, name);
    }
    if (strlen(*text) >= ES_NETWORK_NAME_BYTES) {
        return ES_FAIL(INPUT, "%s: \"%s\" has more than %d bytes", r->path, name,
                       ES_NETWORK_NAME_BYTES - 1);
    }
    return ES_STATUS_OK;
}

static EsStatus read_flag(const Reading *r, const json_t *object, const char *name, int *flag) {
    const json_t *value = json_object_get(object, name);
    if (!json_is_boolean(value)) {
        return ES_FAIL(INPUT, "%s: \"%s\" is missing, or neither true nor false", r->path, name);
    }
    *flag = json_is_true(value);
    return ES_STATUS_OK;
}

static EsStatus read_array(const Reading *r, const json_t *object, const char *name, size_t least,
                           size_t most, const json_t **array) {
    *array = json_object_get(object, name);
    if (!json_is_array(*array)) {
        return ES_FAIL(INPUT, "%s: \"%s\" is missing or not a list", r->path, name);
    }
    size_t n = json_array_size(*array);
    if (n < least || n > most) {
        return ES_FAIL(INPUT, "%s: \"%s\" has %zu entries, must have %zu to %zu", r->path, name, n,
                       least, most);
    }
    return ES_STATUS_OK;
}

static EsStatus read_numbers(const Reading *r, const json_t *object, const char *name, int n,
                             double least, float **numbers) {
    const json_t *array = NULL;
    ES_TRY(read_array(r, object, name, (size_t)n, (size_t)n, &array));
    ES_TRY(es_allocate(sizeof **numbers * (size_t)n, (void **)numbers));
    for (int i = 0; i < n; i++) {
        const json_t *number = json_array_get(array, (size_t)i);
        if (!json_is_number(number)) {
            return ES_FAIL(INPUT, "%s: %s[%d] is not a number", r->path, name, i);
        }
        double value = json_number_value(number);
        ES_TRY(es_check_real((EsFileField){r->path, name, i}, value, least, FLT_MAX));
        (*numbers)[i] = (float)value;
    }
    return ES_STATUS_OK;
}

static EsStatus read_texts(const Reading *r, const json_t *array, const char *name,
                           const char ***texts) {
    size_t n = json_array_size(array);
    ES_TRY(es_allocate(sizeof **texts * n, (void **)texts));
    for (size_t i = 0; i < n; i++) {
        (*texts)[i] = json_string_value(json_array_get(array, i));
        if ((*texts)[i] == NULL || strlen((*texts)[i]) >= ES_NETWORK_NAME_BYTES) {
            return ES_FAIL(INPUT, "%s: %s[%zu] is not a text of at most %d bytes", r->path, name, i,
                           ES_NETWORK_NAME_BYTES - 1);
        }
    }
    return ES_STATUS_OK;
}

// --- reading the parts ---

static EsStatus read_input(Reading *r, const json_t *object) {
    const char *kind = NULL;
    int64_t n = 0, height = 1, width = 1;
    ES_TRY(read_text(r, object, "kind", &kind));
    if (strcmp(kind, "images") == 0) {
        r->spec.kind = ES_INPUT_IMAGES;
        ES_TRY(read_integer(r, object, "channels", 1, ES_DATASET_MAX_CHANNELS, &n));
        ES_TRY(read_integer(r, object, "height", 1, ES_NETWORK_SIDE_MAX, &height));
        ES_TRY(read_integer(r, object, "width", height, height, &width));
    } else if (strcmp(kind, "rows") == 0) {
        const json_t *names = NULL;
        r->spec.kind = ES_INPUT_ROWS;
        ES_TRY(read_integer(r, object, "columns", 1, ES_DATASET_MAX_COLUMNS, &n));
        if (json_object_get(object, "names") != NULL) {
            ES_TRY(read_array(r, object, "names", (size_t)n, (size_t)n, &names));
            ES_TRY(read_texts(r, names, "names", &r->column_names));
            r->spec.column_names = r->column_names;
        }
    } else {
        return ES_FAIL(INPUT, "%s: inputs of kind \"%.40s\"; there are images and rows", r->path,
                       kind);
    }
    r->spec.host.image_channels = (int)n;
    r->spec.host.image_size = (int)height;
    ES_TRY(read_numbers(r, object, "mean", (int)n, -(double)FLT_MAX, &r->mean));
    // of pixel / 255 or of a column; below that its inverse is not finite
    ES_TRY(read_numbers(r, object, "std", (int)n, 1e-30, &r->std));
    r->spec.mean = r->mean;
    r->spec.std = r->std;
    return ES_STATUS_OK;
}

// Files of networks for rows without it are from before it was written, when it was that of images.
static EsStatus read_norm_epsilon(Reading *r, const json_t *object) {
    const json_t *number = json_object_get(object, "norm_epsilon");
    if (number == NULL) {
        r->spec.norm_epsilon = ES_NORM_EPSILON_IMAGES;
        return ES_STATUS_OK;
    }
    if (!json_is_number(number)) {
        return ES_FAIL(INPUT, "%s: \"norm_epsilon\" is not a number", r->path);
    }
    double value = json_number_value(number);
    ES_TRY(es_check_real((EsFileField){r->path, "norm_epsilon", ES_NO_INDEX}, value, 1e-9, 1));
    r->spec.norm_epsilon = (float)value;
    return ES_STATUS_OK;
}

static EsStatus read_host(Reading *r, const json_t *object) {
    const json_t *blocks = NULL;
    EsHostSpec *host = &r->spec.host;
    const char *kind = NULL;
    ES_TRY(read_text(r, object, "name", &host->name));
    ES_TRY(read_text(r, object, "kind", &kind));
    if (strcmp(kind, r->spec.kind == ES_INPUT_ROWS ? "dense" : "cnn") != 0) {
        return ES_FAIL(INPUT, "%s: a host of kind \"%.40s\" does not take these inputs", r->path,
                       kind);
    }
    host->kind = r->spec.kind == ES_INPUT_ROWS ? ES_HOST_DENSE : ES_HOST_CNN;
    ES_TRY(host->kind == ES_HOST_DENSE ? read_norm_epsilon(r, object) : ES_STATUS_OK);
    ES_TRY(read_array(r, object, "blocks", 0, ES_HOST_BLOCKS_MAX, &blocks));
    host->n_blocks = (int)json_array_size(blocks);
    for (int i = 0; i < host->n_blocks; i++) {
        const json_t *block = json_array_get(blocks, (size_t)i);
        int64_t n_channels = 0, kernel = 0;
        int has_pool = 0;
        ES_TRY(read_integer(r, block, "channels", 1, ES_HOST_CHANNELS_MAX, &n_channels));
        ES_TRY(read_integer(r, block, "kernel", 1, 7, &kernel));
        ES_TRY(read_flag(r, block, "pool", &has_pool));
        host->blocks[i] = (EsHostBlock){.n_channels = (int)n_channels,
                                        .kernel = (int)kernel,
                                        .has_pool = has_pool,
                                        .places = ES_HOST_BEFORE_POOL | ES_HOST_AFTER_POOL};
    }
    return ES_STATUS_OK;
}

static EsStatus read_style(const Reading *r, const json_t *object, int *style) {
    static const char *const names[] = {
#define X(name, ramp, algorithm) #name,
        ES_STYLE_LIST(X)
#undef X
    };
    const char *name = NULL;
    ES_TRY(read_text(r, object, "style", &name));
    for (int i = 0; i < (int)ES_COUNT_OF(names); i++) {
        if (strcmp(name, names[i]) == 0) {
            *style = i;
            return ES_STATUS_OK;
        }
    }
    return ES_FAIL(INPUT, "%s: no blend style is called \"%.40s\"", r->path, name);
}

static EsStatus read_seed(Reading *r, const json_t *object, EsGrownSeed *seed) {
    const char *blueprint = NULL, *algorithm = NULL;
    int64_t block = 0;
    int after_pool = 0, has_gate = 0;
    ES_TRY(read_integer(r, object, "block", 0, r->spec.host.n_blocks - 1, &block));
    ES_TRY(read_flag(r, object, "after_pool", &after_pool));
    ES_TRY(read_flag(r, object, "gate", &has_gate));
    ES_TRY(read_text(r, object, "blueprint", &blueprint));
    ES_TRY(read_text(r, object, "algorithm", &algorithm));
    ES_TRY(read_style(r, object, &seed->style));
    if (es_blueprint_parse(blueprint, &seed->blueprint) != ES_STATUS_OK) {
        return ES_FAIL(INPUT, "%s: no blueprint is called \"%.40s\"", r->path, blueprint);
    }
    int known = es_grown_seed_algorithm(seed);
    if (strcmp(algorithm, es_algorithm_name(known)) != 0 ||
        has_gate != (known == ES_ALGORITHM_GATE)) {
        return ES_FAIL(INPUT, "%s: algorithm or gate of a seed do not fit its style %s", r->path,
                       es_grown_style_name(seed->style));
    }
    const json_t *alpha = json_object_get(object, "alpha");
    if (!json_is_number(alpha)) {
        return ES_FAIL(INPUT, "%s: \"alpha\" is missing or not a number", r->path);
    }
    double share = json_number_value(alpha);
    ES_TRY(es_check_real((EsFileField){r->path, "alpha", ES_NO_INDEX}, share, FLT_MIN, 1));
    seed->alpha = (float)share;
    seed->slot = (EsSlot){.row = after_pool,
                          .column = (int)block,
                          .n_channels = es_host_block(&r->spec.host, (int)block).n_channels};
    es_slot_write(after_pool, (int32_t)block, seed->slot.name);
    return ES_STATUS_OK;
}

// Shown to people and never used; a text that is missing is "".
static void read_origin(Reading *r, const json_t *object) {
    EsGrownOrigin *origin = &r->origin;
    const struct {
        const char *name;
        char *to;
        size_t bytes;
    } texts[] = {{"version", origin->version, sizeof origin->version},
                 {"command", origin->command, sizeof origin->command},
                 {"data", origin->data, sizeof origin->data},
                 {"data_sha256", origin->data_sha256, sizeof origin->data_sha256},
                 {"policy", origin->policy, sizeof origin->policy}};
    for (size_t i = 0; i < ES_COUNT_OF(texts); i++) {
        const char *text = json_string_value(json_object_get(object, texts[i].name));
        snprintf(texts[i].to, texts[i].bytes, "%s", text != NULL ? text : "");
    }
    const json_t *validation = json_object_get(object, "validation_accuracy");
    const json_t *test = json_object_get(object, "test_accuracy");
    origin->seed = json_integer_value(json_object_get(object, "seed"));
    origin->episode = json_integer_value(json_object_get(object, "episode"));
    origin->validation_accuracy =
        json_is_number(validation) ? json_number_value(validation) : (double)NAN;
    origin->test_accuracy = json_is_number(test) ? json_number_value(test) : (double)NAN;
}

static EsStatus read_json(Reading *r, const json_t *root) {
    const char *format = NULL, *hash = NULL;
    const json_t *classes = NULL, *seeds = NULL;
    ES_TRY(read_text(r, root, "format", &format));
    if (strcmp(format, FORMAT) != 0) {
        return ES_FAIL(INPUT, "%s has the format \"%.40s\"; this version reads " FORMAT, r->path,
                       format);
    }
    ES_TRY(read_input(r, json_object_get(root, "input")));
    ES_TRY(read_host(r, json_object_get(root, "host")));
    ES_TRY(read_array(r, root, "classes", 1, ES_DATASET_MAX_CLASSES, &classes));
    ES_TRY(read_texts(r, classes, "classes", &r->class_names));
    r->spec.class_names = r->class_names;
    r->spec.host.n_classes = (int)json_array_size(classes);
    ES_TRY(read_array(r, root, "seeds", 0, ES_SLOTS_MAX, &seeds));
    r->spec.n_seeds = (int)json_array_size(seeds);
    for (int i = 0; i < r->spec.n_seeds; i++) {
        ES_TRY(read_seed(r, json_array_get(seeds, (size_t)i), &r->spec.seeds[i]));
    }
    ES_TRY(read_integer(r, root, "parameters", 1, ES_COUNTER_MAX, &r->n_parameters));
    ES_TRY(read_text(r, root, ES_TENSORS_HASH, &hash));
    snprintf(r->hash, sizeof r->hash, "%s", hash);
    read_origin(r, json_object_get(root, "made_by"));
    return ES_STATUS_OK;
}

// --- reading tensors ---

// Every tensor that the description asks for must be there, of its shape, finite.
static EsStatus check_tensors(const EsSafetensors *file, const char *path,
                              const EsGrownNetwork *network) {
    const EsGraph *graph = network->single.graph;
    for (EsValueId v = 0; v < graph->n_values; v++) {
        const EsValue *value = &graph->values[v];
        if (!is_filed(value)) {
            continue;
        }
        EsTensor view,
            wanted = es_tensor_view(NULL, ES_DTYPE_F32, NULL, value->rank - 1, value->dim + 1);
        ES_TRY(es_safetensors_find(file, value->name, &view));
        if (view.dtype != ES_DTYPE_F32 || !es_tensor_same_shape(&view, &wanted)) {
            char found[96], expected[96];
            return ES_FAIL(INPUT, "%s: \"%s\" is %s, the network of %s needs %s", path, value->name,
                           es_tensor_describe(&view, found, sizeof found), ES_NETWORK_JSON_FILE,
                           es_tensor_describe(&wanted, expected, sizeof expected));
        }
        ES_TRY(es_check_finite(path, value->name, view.data, es_tensor_count(&view)));
        const float *numbers = view.data;
        int is_variance = strstr(value->name, "running_variance") != NULL;
        for (int64_t i = 0; is_variance && i < es_tensor_count(&view); i++) {
            ES_TRY(
                es_check_real((EsFileField){path, value->name, i}, (double)numbers[i], 0, FLT_MAX));
        }
    }
    return ES_STATUS_OK;
}

static EsStatus check_hash(const EsSafetensors *file, const char *path, const Reading *r) {
    if (!has_hash(file, r->hash)) {
        return ES_FAIL(INPUT, "%s and %s are not of one network: \"" ES_TENSORS_HASH "\" differs",
                       path, r->path);
    }
    return ES_STATUS_OK;
}

static int count_filed(const EsGraph *graph) {
    int n = 0;
    for (EsValueId v = 0; v < graph->n_values; v++) {
        n += is_filed(&graph->values[v]);
    }
    return n;
}

// The weights of a description, which is as large as the file or refused.
static EsStatus read_network(const Reading *r, const EsSafetensors *file, const char *path,
                             EsDevice *device, EsGrownNetwork **network) {
    int64_t n_numbers = 0;
    for (int i = 0; i < es_safetensors_count(file); i++) {
        EsNamedTensor named = es_safetensors_at(file, i);
        n_numbers += es_tensor_count(&named.tensor);
    }
    ES_TRY(check_hash(file, path, r));
    if (r->n_parameters > n_numbers) {
        return ES_FAIL(INPUT, "%s: %lld parameters, but %s holds %lld numbers", r->path,
                       (long long)r->n_parameters, path, (long long)n_numbers);
    }
    EsStatus status = es_grown_network_create_within(&r->spec, n_numbers, device, network);
    if (status == ES_STATUS_ARGUMENT) {
        return ES_FAIL(INPUT, "%s: %s", r->path, es_status_detail());
    }
    ES_TRY(status);
    const EsGraph *graph = (*network)->single.graph;
    ES_TRY(check_tensors(file, path, *network));
    if ((*network)->n_parameters != r->n_parameters ||
        count_filed(graph) != es_safetensors_count(file)) {
        return ES_FAIL(INPUT,
                       "%s: %lld parameters in %d tensors, but the description has %lld in %d",
                       r->path, (long long)r->n_parameters, es_safetensors_count(file),
                       (long long)(*network)->n_parameters, count_filed(graph));
    }
    for (EsValueId v = 0; v < graph->n_values; v++) {
        if (is_filed(&graph->values[v])) {
            EsTensor view, to = filed_tensor(*network, v);
            ES_TRY(es_safetensors_find(file, graph->values[v].name, &view));
            memcpy(to.data, view.data, es_tensor_bytes(&to));
        }
    }
    (*network)->origin = r->origin;
    return ES_STATUS_OK;
}

// --- paths ---

static int ends_with(const char *text, const char *end) {
    size_t n = strlen(text), n_end = strlen(end);
    return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

// The folder itself, or in a run folder that of its best network.
static EsStatus find_folder(const char *path, char folder[PATH_BYTES]) {
    static const char *const inside[] = {"", "/networks/1"};
    for (size_t i = 0; i < ES_COUNT_OF(inside); i++) {
        char file[PATH_BYTES];
        struct stat info;
        if (snprintf(folder, PATH_BYTES, "%s%s", path, inside[i]) >= PATH_BYTES - 32) {
            return ES_FAIL(ARGUMENT, "the path %.100s... is too long", path);
        }
        ES_TRY(join(folder, ES_NETWORK_JSON_FILE, file));
        if (stat(file, &info) == 0) {
            return ES_STATUS_OK;
        }
    }
    return ES_FAIL(INPUT, "%s holds no network: there is neither %s nor networks/1", path,
                   ES_NETWORK_JSON_FILE);
}

// Both files, from the folder or from one of them: x.json and x.safetensors belong together.
static EsStatus find_files(const char *path, char json_path[PATH_BYTES],
                           char tensors_path[PATH_BYTES]) {
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        char folder[PATH_BYTES];
        ES_TRY(find_folder(path, folder));
        ES_TRY(join(folder, ES_NETWORK_JSON_FILE, json_path));
        return join(folder, ES_NETWORK_TENSORS_FILE, tensors_path);
    }
    int is_json = ends_with(path, ".json"), is_tensors = ends_with(path, ".safetensors");
    if (!is_json && !is_tensors) {
        return ES_FAIL(INPUT,
                       "%s is not a network: give the folder with %s and %s, or one of these files",
                       path, ES_NETWORK_JSON_FILE, ES_NETWORK_TENSORS_FILE);
    }
    size_t stem = strlen(path) - strlen(is_json ? ".json" : ".safetensors");
    if (stem + sizeof ".safetensors" > PATH_BYTES) {
        return ES_FAIL(ARGUMENT, "the path %.100s... is too long", path);
    }
    snprintf(json_path, PATH_BYTES, "%.*s.json", (int)stem, path);
    snprintf(tensors_path, PATH_BYTES, "%.*s.safetensors", (int)stem, path);
    return ES_STATUS_OK;
}

// Opens the tensors that the description names: those beside it, or, where a kill came between the
// writing of both files, those of before.
static EsStatus open_tensors(const Reading *r, char tensors_path[PATH_BYTES],
                             EsSafetensors **file) {
    char before_path[PATH_BYTES];
    EsSafetensors *before = NULL;
    ES_TRY(es_safetensors_open(tensors_path, file));
    if (has_hash(*file, r->hash) || !ends_with(tensors_path, ES_NETWORK_TENSORS_FILE)) {
        return ES_STATUS_OK;
    }
    int n_folder = (int)(strlen(tensors_path) - strlen(ES_NETWORK_TENSORS_FILE));
    snprintf(before_path, sizeof before_path, "%.*s" ES_NETWORK_BEFORE_FILE, n_folder,
             tensors_path);
    if (access(before_path, R_OK) != 0) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_safetensors_open(before_path, &before));
    if (!has_hash(before, r->hash)) {
        es_safetensors_close(before);
        return ES_STATUS_OK;
    }
    es_safetensors_close(*file);
    *file = before;
    snprintf(tensors_path, PATH_BYTES, "%s", before_path);
    return ES_STATUS_OK;
}

static void end_reading(Reading *r) {
    es_release(r->mean);
    es_release(r->std);
    es_release(r->class_names);
    es_release(r->column_names);
}

EsStatus es_grown_network_load(const char *path, EsDevice *device, EsGrownNetwork **network) {
    char json_path[PATH_BYTES], tensors_path[PATH_BYTES];
    Reading r = {.path = json_path, .spec.host = {.name = "", .dataset = ""}};
    EsSafetensors *file = NULL;
    json_t *root = NULL;
    void *text = NULL;
    size_t bytes = 0;
    json_error_t error;
    EsStatus status = ES_STATUS_OK;
    *network = NULL;
    ES_TRY(find_files(path, json_path, tensors_path));
    ES_TRY(es_file_read_all(json_path, JSON_BYTES_MAX, &text, &bytes));
    ES_TRY_GOTO(es_json_parse(json_path, text, bytes, &root, &error));
    ES_TRY_GOTO(read_json(&r, root));
    ES_TRY_GOTO(open_tensors(&r, tensors_path, &file));
    ES_TRY_GOTO(read_network(&r, file, tensors_path, device, network));
done:
    if (status != ES_STATUS_OK) {
        es_grown_network_destroy(*network);
        *network = NULL;
    }
    es_safetensors_close(file);
    json_decref(root);
    end_reading(&r);
    es_release(text);
    return status;
}
