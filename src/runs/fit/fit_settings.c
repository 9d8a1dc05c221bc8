// The configuration of a fit: its keys with their limits, and the recipe that fits begin with.
#include "runs/fit/fit_settings.h"

#include <string.h>

#include "base/macros.h"

static const EsConfigKey keys[] = {
    ES_RUN_CONFIG_KEYS(EsFitSettings, run, "fit", "20"),
    ES_CONFIG_TEXT(EsFitSettings, data, "fit", "data", "",
                   "data set: a folder of images by class, .npy, .csv, IDX or CIFAR-10 files, "
                   "fashion-mnist, tiny, generated"),
    ES_CONFIG_TEXT(EsFitSettings, folder, "fit", "folder", "",
                   "folder of the cifar10 or idx files (empty: ES_DATA_DIR)"),
    ES_CONFIG_INT(EsFitSettings, data_seed, "fit", "data_seed", "1", 0, 2147483647,
                  "seed of the split into training, validation and test samples"),
    ES_CONFIG_INT(EsFitSettings, image_size, "fit", "image_size", "0", 0, 256,
                  "side that images are fitted to, 0 = their median side, at most 64"),
    ES_CONFIG_TEXT(EsFitSettings, label, "fit", "label", "",
                   "column of the labels in a table, by name or number (empty: the last)"),
    ES_CONFIG_TEXT(EsFitSettings, labels, "fit", "labels", "",
                   "file of the labels of a .npy array (empty: found by its name)"),
    ES_CONFIG_TEXT(EsFitSettings, task, "fit", "task", "",
                   "host to grow: a preset or the path of a host file (empty: chosen)"),
    ES_CONFIG_INT(EsFitSettings, max_parameters, "fit", "max_params", "100000", 100, 100000000,
                  "most parameters of the grown network"),
    ES_CONFIG_INT(EsFitSettings, n_candidates, "fit", "candidates", "4", 1, 256,
                  "networks that grow side by side; half of them is dropped again and again"),
    ES_CONFIG_TEXT(EsFitSettings, policy, "fit", "policy", "",
                   "who decides on growth: heuristic, random, wait, script:FILE or a policy's file "
                   "(empty: chosen)"),
    ES_CONFIG_FLOAT(EsFitSettings, max_seconds, "fit", "max_seconds", "0", 0, 1e9,
                    "no epoch begins after this time, 0 = no limit"),
    ES_CONFIG_FLOAT(EsFitSettings, target_accuracy, "fit", "target_accuracy", "0", 0, 100,
                    "validation accuracy at which the fit ends, percent; 0 = none"),
    ES_CONFIG_INT(EsFitSettings, n_compared, "fit", "compare", "0", 0, 32,
                  "seeds of a comparison with simple alternatives at the end, 0 = none"),
    ES_CONFIG_INT(EsFitSettings, batch, "fit", "batch", "0", 0, 65536,
                  "samples per update, 0 = 128, or fewer for small data"),
    ES_CONFIG_INT(EsFitSettings, epoch_batches, "fit", "epoch_batches", "0", 0, 100000,
                  "updates between two decisions, 0 = a pass over the training samples"),
    ES_CONFIG_FLOAT(EsFitSettings, host_learning_rate, "fit", "rate", "0.1", 1e-9, 1e3,
                    "learning rate of hosts, at its highest"),
    ES_CONFIG_FLOAT(EsFitSettings, seed_learning_rate, "fit", "seed_rate", "0.1", 1e-9, 1e3,
                    "learning rate of seeds, at its highest"),
    ES_CONFIG_FLOAT(EsFitSettings, clip, "fit", "clip", "5", 0, 1e6,
                    "most norm of a host's or seed's gradient, 0 = any"),
    ES_CONFIG_INT(EsFitSettings, recipe.pad, "fit", "pad", "2", 0, 16,
                  "images: random crop from a border of N pixels"),
    ES_CONFIG_BOOL(EsFitSettings, recipe.flip, "fit", "flip", "on",
                   "images: random horizontal flip; off for letters and digits"),
    ES_RECIPE_CONFIG_KEYS_TUNED(EsFitSettings, recipe),
};

EsConfig es_fit_run_config(EsFitSettings *settings) {
    EsConfig config = {keys, ES_COUNT_OF(keys), settings, sizeof *settings};
    memset(settings, 0, sizeof *settings);
    es_config_reset(&config);
    return config;
}
