// The settings every kind of run shares: sections [run], [checkpoint] and [telemetry].
//
// A kind embeds EsRunSettings in a settings struct of its own and puts ES_RUN_CONFIG_KEYS into its
// list of keys.
//
//     typedef struct EsHostsSettings { EsRunSettings run; char task[64]; ... } EsHostsSettings;
//     static const EsConfigKey keys[] = {
//         ES_RUN_CONFIG_KEYS(EsHostsSettings, run, "hosts", "20"),
//         ES_CONFIG_TEXT(EsHostsSettings, task, "hosts", "task", "tiny", "preset"),
//     };
#ifndef ES_RUNS_RUN_SETTINGS_H
#define ES_RUNS_RUN_SETTINGS_H

#include "distributed/ranks.h"
#include "esper/config.h"

typedef struct EsRunSettings {
    // [run]
    char kind[16];
    int n_rounds;
    int seed;
    char device[32];
    int n_threads;
    float stop_seconds;
    // [checkpoint]
    int checkpoint_every;
    int checkpoint_keep;
    // [telemetry]
    int level; // EsTelemetryLevel
    int stride;
    int sqlite, jsonl, tensorboard;
    int prometheus_port;
    char prometheus_address[64];
    int queue_packets;
    int spill_mib;
    // no key: set by the program
    EsRanks *ranks; // borrowed: those that share the run; NULL: one process
} EsRunSettings;

#define ES_RUN_CONFIG_KEYS(T, m, kind_name, rounds)                                                \
    ES_RUN_CONFIG_KEYS_FROM(T, m, kind_name, rounds, 1)

// The same for a kind with another least number of rounds.
#define ES_RUN_CONFIG_KEYS_FROM(T, m, kind_name, rounds, least)                                    \
    ES_RUN_CONFIG_KEYS_CALLED(T, m, kind_name, "round", rounds, least, "total number of rounds",   \
                              "cpu, cuda or cuda:N")

// The same for a kind with another word for a round, as es_run_kind_round has it, or with other
// devices.
#define ES_RUN_CONFIG_KEYS_CALLED(T, m, kind_name, word, rounds, least, meaning, devices)          \
    ES_CONFIG_TEXT(T, m.kind, "run", "kind", kind_name, "kind of run"),                            \
        ES_CONFIG_INT(T, m.n_rounds, "run", "rounds", rounds, least, 1000000000, meaning),         \
        ES_CONFIG_INT(T, m.seed, "run", "seed", "42", 0, 2147483647, "seed of the run"),           \
        ES_CONFIG_TEXT(T, m.device, "run", "device", "cpu", devices),                              \
        ES_CONFIG_INT(T, m.n_threads, "run", "threads", "0", 0, 1024,                              \
                      "CPU threads, 0 = one per processor"),                                       \
        ES_CONFIG_FLOAT(T, m.stop_seconds, "run", "stop_seconds", "10", 0, 1e6,                    \
                        "seconds that the " word " may take after Ctrl-C before it is dropped"),   \
        ES_CONFIG_INT(T, m.checkpoint_every, "checkpoint", "every", "10", 1, 1000000000,           \
                      word "s between checkpoints; the last " word " always has one"),             \
        ES_CONFIG_INT(T, m.checkpoint_keep, "checkpoint", "keep", "3", 1, 1000000,                 \
                      "newest checkpoints kept; the best is kept too"),                            \
        ES_CONFIG_CHOICE(T, m.level, "telemetry", "level", "normal", "off|minimal|normal|debug",   \
                         "amount of telemetry that is recorded"),                                  \
        ES_CONFIG_INT(T, m.stride, "telemetry", "stride", "10", 1, 1000000,                        \
                      "steps between records of single steps"),                                    \
        ES_CONFIG_BOOL(T, m.sqlite, "telemetry", "sqlite", "on", "write run.db"),                  \
        ES_CONFIG_BOOL(T, m.jsonl, "telemetry", "jsonl", "off", "write events.jsonl"),             \
        ES_CONFIG_BOOL(T, m.tensorboard, "telemetry", "tensorboard", "on", "write tensorboard/"),  \
        ES_CONFIG_INT(T, m.prometheus_port, "telemetry", "prometheus_port", "-1", -1, 65535,       \
                      "port of /metrics over HTTP; 0 takes a free one, -1 = off"),                 \
        ES_CONFIG_TEXT(T, m.prometheus_address, "telemetry", "prometheus_address", "127.0.0.1",    \
                       "address of the /metrics endpoint"),                                        \
        ES_CONFIG_INT(T, m.queue_packets, "telemetry", "queue_packets", "1000", 1, 1000000,        \
                      "packets a sink may lag behind before events are dropped"),                  \
        ES_CONFIG_INT(T, m.spill_mib, "telemetry", "spill_mib", "64", 0, 1000000,                  \
                      "maximum size of a sink's spill file, MiB; 0 = no spill files")

// Returns whether a resumed run may change this key: one without influence on results, the number
// of rounds, or another limit of a run's length.
int es_run_setting_is_free(const EsConfigKey *key);

// The kind of run that these keys declare: "hosts".
const char *es_run_settings_kind(const EsConfig *config);

// The command of a kind of run: its own name, but "prove train" for "prove".
const char *es_run_kind_command(const char *kind);

// The word for a round of this kind: "epoch" for "fit", else "round".
const char *es_run_kind_round(const char *kind);

// CONFIG when the settings are those of another kind of run.
EsStatus es_run_settings_check_kind(const EsConfig *config);

// CONFIG, naming the first key that `now` changes although a resumed run may not; both are settings
// of `config`'s keys.
EsStatus es_run_settings_check_resumed(const EsConfig *config, const void *before, const void *now);

// The settings that a resumed run may not change, as text for a checkpoint: a line
// "section.key=value" for each, in ASCII. The caller lets go of it with es_release.
EsStatus es_run_settings_write_fixed(const EsConfig *config, char **text);

// CONFIG, naming the first setting that differs from `saved`. Settings that `saved` does not
// know are newer than it and pass.
EsStatus es_run_settings_check_fixed(const EsConfig *config, const char *saved);

#endif
