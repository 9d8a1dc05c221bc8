// Policies as files: the weights by name (network/network_file.h), with settings and the hash of
// the graph's names in the metadata. The names themselves are not kept. Policies of the encoder
// `names` have format 1; those of `structure` format 2, so that programs that know only the first
// refuse them by it.
#include "proof/agent/proof_policy_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "network/network_file.h"
#include "proof/agent/proof_policy_network.h"
#include "proof/graph/knowledge_graph.h"

#define FORMAT           "esper proof policy 1"
#define STRUCTURE_FORMAT "esper proof policy 2"

// --- writing ---

static char *add_entry(EsProofPolicyMetadata *notes, const char *key) {
    ES_ASSERT(notes->count < ES_PROOF_POLICY_METADATA);
    char *text = notes->text[notes->count];
    notes->entry[notes->count++] = (EsMetadata){key, text};
    return text;
}

void es_proof_policy_file_metadata(const EsProofPolicy *policy, EsProofPolicyMetadata *notes) {
    size_t bytes = sizeof notes->text[0];
    notes->count = 0;
    int is_structure = policy->settings.encoder == ES_PROOF_ENCODER_STRUCTURE;
    snprintf(add_entry(notes, "format"), bytes, "%s", is_structure ? STRUCTURE_FORMAT : FORMAT);
    if (is_structure) {
        snprintf(add_entry(notes, "encoder"), bytes, "structure");
        snprintf(add_entry(notes, "features"), bytes, "%d", ES_PROOF_FEATURES_VERSION);
    }
    snprintf(add_entry(notes, "n_constants"), bytes, "%d", policy->graph->n_constants);
    snprintf(add_entry(notes, "n_predicates"), bytes, "%d", policy->graph->n_predicates);
    es_kg_names_hash(policy->graph, add_entry(notes, "names"));
    if (es_kg_count_not_binary(policy->graph, NULL) >
        0) { // files without it are of two arguments throughout
        es_kg_arities_hash(policy->graph, add_entry(notes, "arities"));
    }
    // nine digits bring back any float
#define X(type, name, start, lowest, highest, help)                                                \
    snprintf(add_entry(notes, #name), bytes, "%.9g", (double)policy->settings.name);
    ES_PROOF_POLICY_SETTINGS(X)
#undef X
    snprintf(add_entry(notes, "embedder"), bytes, "%d", (int)policy->settings.embedder);
    ES_ASSERT(notes->count < ES_PROOF_POLICY_METADATA);
    notes->entry[notes->count++] = ES_TENSORS_HASH_ENTRY;
}

EsStatus es_proof_policy_file_save(const EsProofPolicy *policy, const char *path) {
    EsProofPolicyMetadata notes;
    es_proof_policy_file_metadata(policy, &notes);
    return es_network_file_save(path, policy->layout, policy->store, NULL, policy->stream,
                                notes.entry, notes.count);
}

// --- reading ---

// A file that cannot be read is wrong input: the user has named it.
static EsStatus open_file(const char *path, EsSafetensors **file) {
    EsStatus status = es_safetensors_open(path, file);
    return status == ES_STATUS_IO ? ES_FAIL(INPUT, "%s", es_status_detail()) : status;
}

static EsStatus read_number(const EsSafetensors *file, const char *path, const char *key,
                            double *number) {
    const char *text = es_safetensors_metadata(file, key);
    char *end = NULL;
    *number = text != NULL ? strtod(text, &end) : 0;
    if (text == NULL || end == text || *end != '\0') {
        return ES_FAIL(INPUT, "%s: \"%s\" is missing or not a number in the metadata", path, key);
    }
    // of no use for any setting, and not for conversion to int
    if (!(*number >= -1e9 && *number <= 1e9)) {
        return ES_FAIL(INPUT, "%s: \"%s\" is %s in the metadata", path, key, text);
    }
    return ES_STATUS_OK;
}

// Checks that a setting holds the number: whole where the setting is an integer, else to the digits
// of a float.
static EsStatus check_kept(const char *path, const char *key, double number, double kept) {
    return fabs(number - kept) <= 1e-6 * fabs(number)
               ? ES_STATUS_OK
               : ES_FAIL(INPUT, "%s: \"%s\" is %g in the metadata, must be a whole number", path,
                         key, number);
}

// The encoder that the format stands for.
static EsStatus read_encoder(const EsSafetensors *file, const char *path, EsProofEncoder *encoder) {
    const char *format = es_safetensors_metadata(file, "format");
    *encoder = ES_PROOF_ENCODER_NAMES;
    if (format != NULL && strcmp(format, FORMAT) == 0) {
        return ES_STATUS_OK;
    }
    if (format == NULL || strcmp(format, STRUCTURE_FORMAT) != 0) {
        return ES_FAIL(INPUT, "%s is not a proof policy (format \"%s\", must be \"%s\" or \"%s\")",
                       path, format != NULL ? format : "", FORMAT, STRUCTURE_FORMAT);
    }
    const char *word = es_safetensors_metadata(file, "encoder");
    double version = 0;
    if (word == NULL || strcmp(word, "structure") != 0) {
        return ES_FAIL(INPUT,
                       "%s: \"encoder\" is \"%.100s\" in the metadata, must be \"structure\"", path,
                       word != NULL ? word : "");
    }
    ES_TRY(read_number(file, path, "features", &version));
    if (version != ES_PROOF_FEATURES_VERSION) {
        return ES_FAIL(INPUT, "%s reads features of version %g, this program has version %d", path,
                       version, ES_PROOF_FEATURES_VERSION);
    }
    *encoder = ES_PROOF_ENCODER_STRUCTURE;
    return ES_STATUS_OK;
}

static EsStatus read_settings(const EsSafetensors *file, const char *path,
                              EsProofPolicySettings *settings) {
    double number = 0;
    ES_TRY(read_encoder(file, path, &settings->encoder));
#define X(type, name, start, lowest, highest, help)                                                \
    ES_TRY(read_number(file, path, #name, &number));                                               \
    settings->name = (type)number;                                                                 \
    ES_TRY(check_kept(path, #name, number, (double)settings->name));
    ES_PROOF_POLICY_SETTINGS(X)
#undef X
    ES_TRY(read_number(file, path, "embedder", &number));
    settings->embedder = (EsProofEmbedder)(int)number;
    ES_TRY(check_kept(path, "embedder", number, (double)(int)number));
    if (es_proof_policy_settings_check(settings) != ES_STATUS_OK) {
        return ES_FAIL(INPUT, "%s: %s", path, es_status_detail());
    }
    return ES_STATUS_OK;
}

// Weights that stand for names belong to them; features are those of any graph.
static EsStatus check_graph(const EsSafetensors *file, const char *path,
                            const EsKnowledgeGraph *graph, EsProofEncoder encoder) {
    double n_constants = 0, n_predicates = 0;
    ES_TRY(read_number(file, path, "n_constants", &n_constants));
    ES_TRY(read_number(file, path, "n_predicates", &n_predicates));
    if (encoder == ES_PROOF_ENCODER_STRUCTURE) {
        return ES_STATUS_OK;
    }
    if (n_constants != (double)graph->n_constants || n_predicates != (double)graph->n_predicates) {
        return ES_FAIL(INPUT,
                       "%s was trained on another graph: %g constants and %g predicates, this one "
                       "has %d and %d",
                       path, n_constants, n_predicates, graph->n_constants, graph->n_predicates);
    }
    char wanted[ES_SHA256_TEXT_BYTES];
    const char *names = es_safetensors_metadata(file, "names");
    es_kg_names_hash(graph, wanted);
    if (names == NULL || strcmp(names, wanted) != 0) {
        return ES_FAIL(INPUT,
                       "%s was trained on another graph: as many constants and predicates, but "
                       "not the same names",
                       path);
    }
    const char *arities = es_safetensors_metadata(file, "arities");
    es_kg_arities_hash(graph, wanted);
    if (arities != NULL ? strcmp(arities, wanted) != 0 : es_kg_count_not_binary(graph, NULL) > 0) {
        return ES_FAIL(INPUT,
                       "%s was trained on another graph: the same names, but predicates of other "
                       "numbers of arguments",
                       path);
    }
    return ES_STATUS_OK;
}

// Policies are built from the metadata, so that these may not ask for more than the file holds.
static EsStatus check_size(const EsSafetensors *file, const char *path, const char *name,
                           int64_t n_out, int64_t n_in, const EsProofPolicySettings *settings) {
    const int64_t dims[] = {1, n_out, n_in};
    EsTensor view, wanted = es_tensor_view(NULL, ES_DTYPE_F32, NULL, 3, dims);
    ES_TRY(es_safetensors_find(file, name, &view));
    if (!es_tensor_same_shape(&view, &wanted)) {
        char found[96];
        return ES_FAIL(INPUT, "%s: \"%s\" is %s; hidden %d and embed %d are not its sizes", path,
                       name, es_tensor_describe(&view, found, sizeof found), settings->hidden,
                       settings->embed);
    }
    return ES_STATUS_OK;
}

static EsStatus check_sizes(const EsSafetensors *file, const char *path,
                            const EsProofPolicySettings *settings) {
    int is_structure = settings->encoder == ES_PROOF_ENCODER_STRUCTURE;
    int64_t n_input = is_structure ? ES_PROOF_FEATURES : 2 * (int64_t)settings->embed;
    ES_TRY(check_size(file, path, "body0.weight", settings->hidden, n_input, settings));
    return is_structure
               ? check_size(file, path, "head1.weight", settings->embed, settings->hidden, settings)
               : ES_STATUS_OK;
}

// Files of checkpoints have a hash elsewhere: `is_alone` says that this one has not.
static EsStatus read_notes(const char *path, const EsKnowledgeGraph *graph, int is_alone,
                           EsProofPolicySettings *settings) {
    EsSafetensors *file = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(open_file(path, &file));
    ES_TRY_GOTO(read_settings(file, path, settings));
    ES_TRY_GOTO(check_graph(file, path, graph, settings->encoder));
    ES_TRY_GOTO(check_sizes(file, path, settings));
    if (is_alone) {
        es_safetensors_note_hash(file);
    }
done:
    es_safetensors_close(file);
    return status;
}

int es_proof_policy_file_is_foreign(const char *path, const EsKnowledgeGraph *graph) {
    EsSafetensors *file = NULL;
    EsProofEncoder encoder;
    if (open_file(path, &file) != ES_STATUS_OK) {
        return 0;
    }
    int is_foreign = read_encoder(file, path, &encoder) == ES_STATUS_OK &&
                     check_graph(file, path, graph, encoder) != ES_STATUS_OK;
    es_safetensors_close(file);
    return is_foreign;
}

EsStatus es_proof_policy_file_check(const EsProofPolicy *policy, const char *path) {
    EsProofPolicySettings settings = {0};
    ES_TRY(read_notes(path, policy->graph, 0, &settings));
#define X(type, name, start, lowest, highest, help)                                                \
    if (settings.name != policy->settings.name) {                                                  \
        return ES_FAIL(INPUT, "%s: %s is %g in the file and %g in the policy", path, #name,        \
                       (double)settings.name, (double)policy->settings.name);                      \
    }
    ES_PROOF_POLICY_SETTINGS(X)
#undef X
    if (settings.embedder != policy->settings.embedder) {
        return ES_FAIL(INPUT, "%s: the file and the policy have different embedders of %s", path,
                       ES_PROOF_EMBEDDERS);
    }
    if (settings.encoder != policy->settings.encoder) {
        return ES_FAIL(INPUT, "%s: the file and the policy have different encoders of %s", path,
                       ES_PROOF_ENCODERS);
    }
    return ES_STATUS_OK;
}

EsStatus es_proof_policy_file_load(EsDevice *device, const EsKnowledgeGraph *graph,
                                   const char *path, EsProofPolicy **policy_out) {
    *policy_out = NULL;
    EsProofPolicySettings settings = {0};
    EsProofPolicy *policy = NULL;
    ES_TRY(read_notes(path, graph, 1, &settings));
    ES_TRY(es_proof_policy_create(device, graph, &settings, 0, &policy));
    EsStatus status = es_network_file_load(path, policy->layout, policy->store, NULL,
                                           policy->stream, ES_NUMBERS_FINITE);
    if (status != ES_STATUS_OK) {
        es_proof_policy_destroy(policy);
        return status;
    }
    es_proof_network_clear_padding(policy);
    *policy_out = policy;
    return ES_STATUS_OK;
}

EsStatus es_proof_policy_file_reload(EsProofPolicy *policy, const char *path) {
    ES_TRY(es_proof_policy_file_check(policy, path));
    ES_TRY(es_network_file_load(path, policy->layout, policy->store, NULL, policy->stream,
                                ES_NUMBERS_FINITE));
    es_proof_network_clear_padding(policy);
    policy->version++;
    return ES_STATUS_OK;
}
