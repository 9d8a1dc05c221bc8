// A sweep: lists of values for keys of the settings, and the variants that their product makes.
//
//     EsSweep sweep; ES_TRY(es_sweep_parse(&config, "grow.clip=1,5;momentum=0.5,0.9", &sweep));
//     for (int v = 0; v < sweep.n_variants; v++) {            // "clip=1 momentum=0.9"
//         ES_TRY(es_sweep_apply(&sweep, v, &config));         // the settings of this variant
//     }
//
// Rates that growth holds for each environment can run side by side: E environments of each
// variant in one growth, all in the same held-out episodes. The outcomes are those of a run with
// the variant's settings alone; on a GPU their last bits may differ with the number of hosts.
#ifndef ES_RUNS_GROW_SWEEP_H
#define ES_RUNS_GROW_SWEEP_H

#include "runs/grow/grow_evaluate.h"

#define ES_SWEEP_KEYS_MAX    4
#define ES_SWEEP_VALUES_MAX  ES_GROW_VARIANTS_MAX
#define ES_SWEEP_VALUE_BYTES 64

typedef struct EsSweptKey {
    const EsConfigKey *key; // borrowed from the configuration
    int n_values;
    char values[ES_SWEEP_VALUES_MAX][ES_SWEEP_VALUE_BYTES];
} EsSweptKey;

typedef struct EsSweep {
    EsSweptKey keys[ES_SWEEP_KEYS_MAX];
    int n_keys;
    int n_variants; // the product; the last key varies fastest
} EsSweep;

// "key=a,b;section.key=c,d". A key without its section is the one of that name. CONFIG names what
// is wrong: a key that is unknown (and the nearest), ambiguous or not for sweeps, a value that the
// key does not take or that is there twice, more than ES_GROW_VARIANTS_MAX variants.
EsStatus es_sweep_parse(const EsConfig *config, const char *text, EsSweep *sweep);

// Puts the values of a variant into the settings of the configuration.
EsStatus es_sweep_apply(const EsSweep *sweep, int variant, const EsConfig *config);

#define ES_SWEEP_NAME_BYTES (ES_SWEEP_KEYS_MAX * (48 + ES_SWEEP_VALUE_BYTES))

// "clip=1 momentum=0.9". Returns `name`.
const char *es_sweep_name(const EsSweep *sweep, int variant, char name[ES_SWEEP_NAME_BYTES]);

// Returns NULL when a run with these settings can hold all variants side by side, else the reason.
const char *es_sweep_find_obstacle(const EsSweep *sweep, const EsGrowSettings *settings);

// The sweep of the settings, which must be one that runs side by side.
EsStatus es_sweep_of_settings(const EsGrowSettings *settings, EsSweep *sweep);

// Runs the held-out episodes of all variants of the evaluation side by side, on hosts and data like
// those of `model`, with the policy `text`; fills the variants' outcomes [n_episodes]. INTERRUPTED
// when the user asks to stop.
EsStatus es_sweep_run(const EsSweep *sweep, const EsEpisodeRunner *model, const char *text,
                      EsRun *run, EsGrowEvaluation *evaluation);

#endif
