#include "growth/host/blueprint.h"

#include <stdio.h>
#include <string.h>

#include "growth/rules/action_rules.h"
#include "network/graph/graph_build.h"

// A seed's state has the number of the policy's head; graphs take it as it is.
#define X(identifier, name)                                                                        \
    _Static_assert((int)ES_BLUEPRINT_##identifier == (int)ES_BLUEPRINT_ID_##identifier,            \
                   "a blueprint has one number, here and in action_rules.h");
ES_BLUEPRINT_LIST(X)
#undef X
_Static_assert(ES_N_BLUEPRINT_IDS <= 16, "masks have 16 bits");

// The narrow middle of a bottleneck.
static int64_t bottleneck_width(int64_t n_channels) { return ES_MAX(8, n_channels / 4); }

const char *es_blueprint_name(EsBlueprint blueprint) {
    static const char *const names[] = {
#define X(identifier, name) name,
        ES_BLUEPRINT_LIST(X)
#undef X
    };
    ES_ASSERT(blueprint >= 0 && blueprint < ES_BLUEPRINT_COUNT);
    return names[blueprint];
}

EsStatus es_blueprint_parse(const char *name, EsBlueprint *blueprint) {
    char names[256] = "";
    size_t used = 0;
    for (int i = 0; i < ES_BLUEPRINT_COUNT; i++) {
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
    const int64_t C = n_channels, b = bottleneck_width(C);
    switch (blueprint) {
    case ES_BLUEPRINT_CONV_LIGHT:
        return 9 * C * C + 2 * C;
    case ES_BLUEPRINT_ATTENTION:
        return 2 * C * ES_MAX(1, C / 4) + C;
    case ES_BLUEPRINT_NORM:
        return 2 * C + 1;
    case ES_BLUEPRINT_DEPTHWISE:
        return 9 * C + C * C + 2 * C;
    case ES_BLUEPRINT_BOTTLENECK:
        return 2 * C * b + 9 * b * b + 2 * C;
    case ES_BLUEPRINT_CONV_SMALL:
        return C * C + 2 * C;
    case ES_BLUEPRINT_CONV_HEAVY:
        return 18 * C * C + 4 * C;
    case ES_BLUEPRINT_NOOP:
    case ES_BLUEPRINT_COUNT:
        break;
    }
    return 0;
}

// A fragment under construction: where it goes and what its layers are called.
typedef struct Fragment {
    EsGraph *graph;
    const char *name;
    int64_t n_channels;
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
               ? es_graph_groupnorm_with(f->graph, name, x, n_groups, gamma_start)
               : ES_NO_VALUE;
}

static EsValueId relu(const Fragment *f, EsValueId x) {
    return es_graph_activation(f->graph, ES_ACTIVATION_RELU, x);
}

// x + norm(branch), nothing at first
static EsValueId add_branch(const Fragment *f, EsValueId x, EsValueId branch) {
    return es_graph_add(f->graph, x, normalise(f, "norm", branch, 0.0f));
}

static EsValueId build_norm(const Fragment *f, EsValueId x) {
    return es_graph_norm_mix(f->graph, f->name, x, normalise(f, "norm", x, 1.0f));
}

static EsValueId build_depthwise(const Fragment *f, EsValueId x) {
    EsValueId y = convolve_depthwise(f, "depthwise", x);
    return add_branch(f, x, convolve(f, "pointwise", y, f->n_channels, 1));
}

static EsValueId build_bottleneck(const Fragment *f, EsValueId x) {
    int64_t width = bottleneck_width(f->n_channels);
    EsValueId y = relu(f, convolve(f, "down", x, width, 1));
    y = relu(f, convolve(f, "conv", y, width, 3));
    return add_branch(f, x, convolve(f, "up", y, f->n_channels, 1));
}

static EsValueId build_conv_heavy(const Fragment *f, EsValueId x) {
    EsValueId y = convolve(f, "conv0", x, f->n_channels, 3);
    y = relu(f, normalise(f, "norm0", y, 1.0f));
    return add_branch(f, x, convolve(f, "conv1", y, f->n_channels, 3));
}

EsValueId es_blueprint_build(EsGraph *graph, EsBlueprint blueprint, const char *name, EsValueId x) {
    if (!es_graph_check(graph, name, x, 5, ES_DTYPE_F32)) {
        return ES_NO_VALUE;
    }
    const Fragment f = {graph, name, graph->values[x].dim[2]};
    switch (blueprint) {
    case ES_BLUEPRINT_NOOP:
        return x;
    case ES_BLUEPRINT_CONV_LIGHT:
        return add_branch(&f, x, convolve(&f, "conv", x, f.n_channels, 3));
    case ES_BLUEPRINT_ATTENTION:
        return es_graph_squeeze_excite(graph, name, x);
    case ES_BLUEPRINT_NORM:
        return build_norm(&f, x);
    case ES_BLUEPRINT_DEPTHWISE:
        return build_depthwise(&f, x);
    case ES_BLUEPRINT_BOTTLENECK:
        return build_bottleneck(&f, x);
    case ES_BLUEPRINT_CONV_SMALL:
        return add_branch(&f, x, convolve(&f, "conv", x, f.n_channels, 1));
    case ES_BLUEPRINT_CONV_HEAVY:
        return build_conv_heavy(&f, x);
    case ES_BLUEPRINT_COUNT:
        break;
    }
    return es_graph_fail(graph, ES_STATUS_ARGUMENT, "%s: there is no blueprint %d", name,
                         (int)blueprint);
}
