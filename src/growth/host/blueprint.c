// Blueprints as fragments of a graph: every layer of a row of the table becomes its nodes.
#include "growth/host/blueprint.h"

#include <stdio.h>
#include <string.h>

#include "growth/rules/action_rules.h"
#include "growth/rules/growth_names.h"
#include "network/graph/graph_build.h"

_Static_assert(ES_N_BLUEPRINT_IDS <= 16, "masks have 16 bits");

int es_blueprint_exists(int number) {
    static const int numbers[] = {
#define X(identifier, layers) ES_BLUEPRINT_##identifier,
        ES_BLUEPRINT_LIST(X)
#undef X
    };
    for (size_t i = 0; i < ES_COUNT_OF(numbers); i++) {
        if (numbers[i] == number) {
            return 1;
        }
    }
    return 0;
}

const char *es_blueprint_name(EsBlueprint blueprint) {
    ES_ASSERT(es_blueprint_exists((int)blueprint));
    return es_blueprint_id_name((int32_t)blueprint);
}

EsStatus es_blueprint_parse(const char *name, EsBlueprint *blueprint) {
    char names[256] = "";
    size_t used = 0;
    for (int i = 0; i < ES_BLUEPRINT_END; i++) {
        if (!es_blueprint_exists(i)) {
            continue;
        }
        const char *known = es_blueprint_name((EsBlueprint)i);
        if (strcmp(name, known) == 0) {
            *blueprint = (EsBlueprint)i;
            return ES_STATUS_OK;
        }
        used +=
            (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "", known);
    }
    return ES_FAIL(ARGUMENT, "no blueprint is called \"%s\"; there are %s", name, names);
}

int es_blueprint_group_count(int64_t n_channels) {
    int n_groups = 32;
    while (n_groups > 1 && (n_channels % n_groups != 0 || n_channels / n_groups < 16)) {
        n_groups /= 2;
    }
    return n_groups;
}

int64_t es_blueprint_parameter_count(EsBlueprint blueprint, int64_t n_channels) {
    int64_t count = 0;
    for (int k = 0; k < es_blueprint_tensor_count((int)blueprint); k++) {
        EsBlueprintTensor tensor = es_blueprint_tensor((int)n_channels, (int)blueprint, k);
        count += (int64_t)tensor.n_in * tensor.n_out * tensor.kernel * tensor.kernel;
    }
    return count;
}

double es_blueprint_flops(EsBlueprint blueprint, int64_t n_channels, int64_t side) {
    // ATTEND weighs channels by their means: its layers see one pixel
    double n_pixels = blueprint == ES_BLUEPRINT_ATTENTION ? 1 : (double)(side * side), count = 0;
    for (int k = 0; k < es_blueprint_tensor_count((int)blueprint); k++) {
        EsBlueprintTensor tensor = es_blueprint_tensor((int)n_channels, (int)blueprint, k);
        if (tensor.kind != ES_TENSOR_VECTOR) {
            count += 2.0 * tensor.n_in * tensor.n_out * tensor.kernel * tensor.kernel * n_pixels;
        }
    }
    return count;
}

// A fragment under construction: its graph and the names of its layers.
typedef struct Fragment {
    EsGraph *graph;
    const char *name;
    int64_t n_channels;
    float norm_epsilon;
} Fragment;

static EsValueId convolve(const Fragment *f, const char *part, EsValueId x, int64_t n_out,
                          int64_t kernel) {
    char name[ES_NAME_BYTES];
    return es_graph_join_name(f->graph, f->name, part, name)
               ? es_graph_conv2d(f->graph, name, x, n_out, kernel, 0)
               : ES_NO_VALUE;
}

static EsValueId convolve_depthwise(const Fragment *f, const char *part, EsValueId x) {
    char name[ES_NAME_BYTES];
    return es_graph_join_name(f->graph, f->name, part, name)
               ? es_graph_depthwise(f->graph, name, x, 3)
               : ES_NO_VALUE;
}

static EsValueId normalise(const Fragment *f, const char *part, EsValueId x, float gamma_start) {
    char name[ES_NAME_BYTES];
    int n_groups = es_blueprint_group_count(f->n_channels);
    return es_graph_join_name(f->graph, f->name, part, name)
               ? es_graph_groupnorm_with(f->graph, name, x, n_groups, gamma_start, f->norm_epsilon)
               : ES_NO_VALUE;
}

// x + norm(branch), nothing at first
static EsValueId add_branch(const Fragment *f, EsValueId x, const char *part, EsValueId branch) {
    return es_graph_add(f->graph, x, normalise(f, part, branch, 0.0f));
}

EsValueId es_blueprint_build(EsGraph *graph, EsBlueprint blueprint, const char *name, EsValueId x) {
    return es_blueprint_build_with(graph, blueprint, name, x, ES_NORM_EPSILON_IMAGES);
}

EsValueId es_blueprint_build_with(EsGraph *graph, EsBlueprint blueprint, const char *name,
                                  EsValueId x, float norm_epsilon) {
    if (!es_graph_check(graph, name, x, 5, ES_DTYPE_F32)) {
        return ES_NO_VALUE;
    }
    const Fragment f = {graph, name, graph->values[x].dim[2], norm_epsilon};
    const int64_t C = f.n_channels, narrow = es_blueprint_narrow((int)C);
    EsValueId y = x;
#define BUILD_CONV(part, n_in, n_out, kernel) y = convolve(&f, part, y, n_out, kernel);
#define BUILD_DEPTHWISE(part)                 y = convolve_depthwise(&f, part, y);
#define BUILD_RELU()                          y = es_graph_activation(graph, ES_ACTIVATION_RELU, y);
#define BUILD_NORM(part)                      y = normalise(&f, part, y, 1.0f);
#define BUILD_BRANCH(part)                    y = add_branch(&f, x, part, y);
#define BUILD_MIX()                           y = es_graph_norm_mix(graph, name, x, y);
#define BUILD_ATTEND()                        y = es_graph_squeeze_excite(graph, name, x);
#define ROW(identifier, layers)                                                                    \
    case ES_BLUEPRINT_##identifier:                                                                \
        layers return y;
    switch (blueprint) {
        ES_BLUEPRINT_TABLE(ROW, BUILD_CONV, BUILD_DEPTHWISE, BUILD_RELU, BUILD_NORM, BUILD_BRANCH,
                           BUILD_MIX, BUILD_ATTEND)
    case ES_BLUEPRINT_COUNT:
    case ES_BLUEPRINT_END:
        break;
    }
#undef ROW
    return es_graph_fail(graph, ES_STATUS_ARGUMENT, "%s: there is no blueprint %d", name,
                         (int)blueprint);
}
