// The TensorBoard sink: every metric becomes a scalar of the record that its round writes.
//
// Beside them go the configuration as text, the settings as hyperparameters, and in the folder
// env_steps/ the curves of growth/ (proof/ of a run that proves) with the environment steps of the
// whole run as their step. Those need event files of their own: the start of a session makes
// readers drop every later step of a folder, whatever its tag.
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file_fault.h"
#include "base/memory.h"
#include "telemetry/sink.h"
#include "telemetry/sinks/record_file.h"
#include "telemetry/sinks/tensorboard_encoder.h"

// --- the sink ---

#define FILE_PREFIX "events.out.tfevents."

// Columns that make the tag. A seed's stage is none: its curve goes on through its stages.
#define N_TAG_COLUMNS 3
static const char *const tag_names[N_TAG_COLUMNS] = {"name", "seed_id", "layer"};

// An event file and the records on their way to it.
typedef struct Curves {
    EsRecordFile file; // descriptor -1: not open
    EsTensorboardEncoder encoder;
} Curves;

typedef struct TensorboardSink {
    Curves rounds;                     // round on the x axis, and what is of no step
    Curves steps;                      // environment steps; opened with its first record
    char *steps_folder;                // owned
    const char *prefix;                // of the tags by step
    int64_t n_steps;                   // of the run so far; ES_MISSING_INT: not known
    int64_t n_host_parameters;         // ES_MISSING_INT: not known
    int64_t done_round, pending_round; // newest complete one; the one that scalars wait for
    int64_t held_out_round;            // whose first policy was seen
    double ratio_sum;                  // of the parameter ratios of the pending round's episodes,
    int64_t n_ratios;                  // which come in one packet for each group of tasks
    int has_tasks;                     // its hosts have no size in common
    int value_column, tag_columns[N_TAG_COLUMNS];
} TensorboardSink;

static EsStatus open_event_file(const char *folder, EsRecordFile *file);

static EsStatus hand_over_records(Curves *curves) {
    EsText *records = &curves->encoder.records;
    EsStatus status = records->status;
    if (status == ES_STATUS_OK && records->length > 0) {
        status = es_record_file_add(&curves->file, records->bytes, records->length);
    }
    es_text_reset(records);
    return status;
}

static double time_of(const EsPacket *packet) { return (double)packet->header->unix_us * 1e-6; }

// --- curves by environment steps ---

// A scalar prefix/name or prefix/name/variant; missing ones are left out.
static void add_step_scalar(TensorboardSink *sink, const char *name, const char *variant,
                            size_t variant_bytes, double value) {
    if (es_is_missing_real(value) || isnan(value)) {
        return;
    }
    EsTensorboardEncoder *encoder = &sink->steps.encoder;
    es_text_reset(&encoder->tag);
    es_tensorboard_add_tag(encoder, sink->prefix, strlen(sink->prefix));
    es_tensorboard_add_tag(encoder, name, strlen(name));
    if (variant != NULL) {
        es_tensorboard_add_tag(encoder, variant, variant_bytes);
    }
    es_tensorboard_add_scalar(encoder, value);
}

static EsStatus open_steps(TensorboardSink *sink, double wall_time) {
    if (sink->steps.file.descriptor >= 0) {
        return ES_STATUS_OK;
    }
    ES_TRY(open_event_file(sink->steps_folder, &sink->steps.file));
    es_tensorboard_add_version(&sink->steps.encoder, wall_time);
    return hand_over_records(&sink->steps);
}

// Write the scalars that were added at the steps that the run has; none where that is not known.
static EsStatus end_step_scalars(TensorboardSink *sink, double wall_time) {
    EsText *summary = &sink->steps.encoder.summary;
    if (sink->n_steps == ES_MISSING_INT || (summary->length == 0 && summary->status == 0)) {
        es_text_reset(summary);
        return ES_STATUS_OK;
    }
    ES_TRY(open_steps(sink, wall_time));
    es_tensorboard_end_scalars(&sink->steps.encoder, wall_time, sink->n_steps);
    return hand_over_records(&sink->steps);
}

// Forget the scalars that waited for the end of a round that was dropped.
static void begin_pending(TensorboardSink *sink, int64_t round) {
    if (round != sink->pending_round) {
        es_text_reset(&sink->steps.encoder.summary);
        sink->pending_round = round;
        sink->ratio_sum = 0;
        sink->n_ratios = 0;
        sink->has_tasks = 0;
    }
}

// Scalars of a round wait for its end, which has the steps; later ones are written at once.
static EsStatus end_or_wait(TensorboardSink *sink, const EsPacket *packet) {
    return packet->header->round > sink->done_round ? ES_STATUS_OK
                                                    : end_step_scalars(sink, time_of(packet));
}

static double real_of(const EsPacket *packet, const char *column) {
    return es_packet_real(packet, 0, es_event_column(packet->type, column));
}

static double count_of(const EsPacket *packet, const char *column) {
    int64_t count = es_packet_int(packet, 0, es_event_column(packet->type, column));
    return count == ES_MISSING_INT ? es_missing_real() : (double)count;
}

// Mean of a column over all rows that have it.
static double mean_of(const EsPacket *packet, const char *column) {
    int index = es_event_column(packet->type, column);
    double sum = 0;
    int64_t n = 0;
    for (int64_t row = 0; row < packet->n_rows; row++) {
        double value = es_packet_real(packet, row, index);
        if (!es_is_missing_real(value)) {
            sum += value;
            n++;
        }
    }
    return n > 0 ? sum / (double)n : es_missing_real();
}

static double parameters_of(const TensorboardSink *sink, double ratio) {
    return sink->n_host_parameters == ES_MISSING_INT || es_is_missing_real(ratio)
               ? es_missing_real()
               : ratio * (double)sink->n_host_parameters;
}

// Adds the episodes of a packet to those of the pending round.
static void count_ratios(TensorboardSink *sink, const EsPacket *packet) {
    int ratio = es_event_column(packet->type, "parameter_ratio");
    int task = es_event_column(packet->type, "task");
    size_t bytes = 0;
    for (int64_t row = 0; row < packet->n_rows; row++) {
        double value = es_packet_real(packet, row, ratio);
        if (!es_is_missing_real(value)) {
            sink->ratio_sum += value;
            sink->n_ratios++;
        }
        sink->has_tasks |= es_packet_text(packet, row, task, &bytes) != NULL;
    }
}

// The sizes of the pending round's networks, if its episodes are known.
static void add_sizes(TensorboardSink *sink) {
    if (sink->n_ratios > 0) {
        double ratio = sink->ratio_sum / (double)sink->n_ratios;
        add_step_scalar(sink, "parameter_ratio", NULL, 0, ratio);
        add_step_scalar(sink, "parameters", NULL, 0,
                        sink->has_tasks ? es_missing_real() : parameters_of(sink, ratio));
    }
}

// Episodes of the round, or held-out ones of one policy; the first policy is the run's own, and
// has the plain tags, too.
static EsStatus write_outcomes(TensorboardSink *sink, const EsPacket *packet) {
    size_t bytes = 0;
    const char *variant =
        es_packet_text(packet, 0, es_event_column(ES_EVENT_EPISODE_OUTCOME, "arm"), &bytes);
    if (variant == NULL) {
        begin_pending(sink, packet->header->round);
        count_ratios(sink, packet);
        if (packet->header->round > sink->done_round) {
            return ES_STATUS_OK; // the round's own record has them
        }
        add_sizes(sink);
        return end_step_scalars(sink, time_of(packet));
    }
    const struct {
        const char *name;
        double value;
    } scalars[] = {{"test_accuracy", mean_of(packet, "test_accuracy")},
                   {"held_out_accuracy", mean_of(packet, "final_accuracy")},
                   {"held_out_parameter_ratio", mean_of(packet, "parameter_ratio")},
                   {"held_out_reward", mean_of(packet, "reward")}};
    int is_own = packet->header->round != sink->held_out_round;
    sink->held_out_round = packet->header->round;
    es_text_reset(&sink->steps.encoder.summary);
    for (size_t i = 0; i < ES_COUNT_OF(scalars); i++) {
        if (is_own) {
            add_step_scalar(sink, scalars[i].name, NULL, 0, scalars[i].value);
        }
        add_step_scalar(sink, scalars[i].name, variant, bytes, scalars[i].value);
    }
    return end_step_scalars(sink, time_of(packet));
}

// Ranked test queries; those of validations come as metrics.
static EsStatus write_ranking(TensorboardSink *sink, const EsPacket *packet) {
    size_t bytes = 0, split_bytes = 0;
    const char *variant =
        es_packet_text(packet, 0, es_event_column(ES_EVENT_PROOF_RANKED, "arm"), &bytes);
    const char *split =
        es_packet_text(packet, 0, es_event_column(ES_EVENT_PROOF_RANKED, "split"), &split_bytes);
    if (variant == NULL || split_bytes != 4 || memcmp(split, "test", 4) != 0) {
        return ES_STATUS_OK;
    }
    es_text_reset(&sink->steps.encoder.summary);
    if (bytes == 6 && memcmp(variant, "policy", 6) == 0) {
        add_step_scalar(sink, "test_mrr", NULL, 0, real_of(packet, "mrr"));
    }
    add_step_scalar(sink, "test_mrr", variant, bytes, real_of(packet, "mrr"));
    return end_step_scalars(sink, time_of(packet));
}

static EsStatus write_round(TensorboardSink *sink, const EsPacket *packet) {
    static const char *const reals[] = {"accuracy", "reward", "loss"};
    begin_pending(sink, packet->header->round);
    sink->done_round = packet->header->round;
    sink->n_steps =
        es_packet_int(packet, 0, es_event_column(ES_EVENT_ROUND_COMPLETED, "total_steps"));
    for (size_t i = 0; i < ES_COUNT_OF(reals); i++) {
        add_step_scalar(sink, reals[i], NULL, 0, real_of(packet, reals[i]));
    }
    add_step_scalar(sink, "seeds", NULL, 0, count_of(packet, "n_seeds"));
    add_step_scalar(sink, "fossils", NULL, 0, count_of(packet, "n_fossils"));
    add_sizes(sink);
    return end_step_scalars(sink, time_of(packet));
}

// A resumed run: readers drop the points of earlier files above the checkpoint's steps.
static EsStatus write_resumption(TensorboardSink *sink, const EsPacket *packet) {
    sink->n_steps =
        es_packet_int(packet, 0, es_event_column(ES_EVENT_CHECKPOINT_LOADED, "total_steps"));
    sink->done_round = packet->header->round;
    if (sink->n_steps == ES_MISSING_INT) {
        return ES_STATUS_OK;
    }
    ES_TRY(open_steps(sink, time_of(packet)));
    es_tensorboard_add_session_start(&sink->steps.encoder, time_of(packet), sink->n_steps + 1);
    return hand_over_records(&sink->steps);
}

// Metrics that are curves of growth or proofs, too. A fit has -1 and 0 before it has a network.
static void add_step_metric(TensorboardSink *sink, const char *name, size_t bytes, double value) {
    static const struct {
        const char *metric, *name;
        double above;
    } shown[] = {{"esper.fit.best_accuracy", "validation_accuracy", -1},
                 {"esper.fit.test_accuracy", "test_accuracy", -1},
                 {"esper.fit.parameters", "parameters", 0},
                 {"esper.hosts.test_accuracy", "test_accuracy", -1},
                 {"proof/validation_mrr", "validation_mrr", -1}};
    for (size_t i = 0; i < ES_COUNT_OF(shown); i++) {
        if (bytes == strlen(shown[i].metric) && memcmp(name, shown[i].metric, bytes) == 0 &&
            value > shown[i].above) {
            add_step_scalar(sink, shown[i].name, NULL, 0, value);
        }
    }
}

// --- packets ---

static EsStatus write_metrics(TensorboardSink *sink, const EsPacket *packet) {
    EsTensorboardEncoder *encoder = &sink->rounds.encoder;
    begin_pending(sink, packet->header->round);
    for (int64_t row = 0; row < packet->n_rows; row++) {
        double value = es_packet_real(packet, row, sink->value_column);
        es_text_reset(&encoder->tag);
        for (int i = 0; i < N_TAG_COLUMNS; i++) {
            size_t bytes = 0;
            const char *part = es_packet_text(packet, row, sink->tag_columns[i], &bytes);
            if (bytes > 0) {
                es_tensorboard_add_tag(encoder, part, bytes);
            } else if (i == 0) { // nothing without a name
                value = es_missing_real();
            }
        }
        if (!es_is_missing_real(value)) {
            size_t bytes = 0;
            const char *name = es_packet_text(packet, row, sink->tag_columns[0], &bytes);
            es_tensorboard_add_scalar(encoder, value);
            add_step_metric(sink, name, bytes, value);
        }
    }
    es_tensorboard_end_scalars(encoder, time_of(packet), packet->header->round);
    ES_TRY(hand_over_records(&sink->rounds));
    return end_or_wait(sink, packet);
}

static EsStatus write_start(TensorboardSink *sink, const EsPacket *packet) {
    size_t bytes = 0, kind_bytes = 0;
    const char *config =
        es_packet_text(packet, 0, es_event_column(ES_EVENT_RUN_STARTED, "config"), &bytes);
    const char *kind =
        es_packet_text(packet, 0, es_event_column(ES_EVENT_RUN_STARTED, "kind"), &kind_bytes);
    int is_proof = kind_bytes == 5 && memcmp(kind, "prove", 5) == 0;
    sink->prefix = is_proof ? "proof" : "growth";
    sink->n_host_parameters =
        es_packet_int(packet, 0, es_event_column(ES_EVENT_RUN_STARTED, "n_host_parameters"));
    if (config == NULL) {
        return ES_STATUS_OK;
    }
    EsTensorboardEncoder *encoder = &sink->rounds.encoder;
    es_tensorboard_add_configuration(encoder, config, bytes);
    es_tensorboard_add_experiment(encoder, config, bytes, time_of(packet));
    es_tensorboard_add_settings(encoder, config, bytes, time_of(packet));
    es_tensorboard_end_scalars(encoder, time_of(packet), packet->header->round);
    return hand_over_records(&sink->rounds);
}

// Readers keep the first end that they find: none is written for a run that can go on.
static EsStatus write_end(TensorboardSink *sink, const EsPacket *packet) {
    size_t bytes = 0;
    const char *outcome =
        es_packet_text(packet, 0, es_event_column(ES_EVENT_RUN_ENDED, "outcome"), &bytes);
    int is_done = bytes == 4 && memcmp(outcome, "done", 4) == 0;
    int is_halted = bytes == 6 && memcmp(outcome, "halted", 6) == 0;
    if (!is_done && !is_halted) {
        return ES_STATUS_OK;
    }
    es_tensorboard_add_session_end(&sink->rounds.encoder, is_done, time_of(packet));
    es_tensorboard_end_scalars(&sink->rounds.encoder, time_of(packet), packet->header->round);
    return hand_over_records(&sink->rounds);
}

static EsStatus write_packet(void *state, const EsPacket *packet) {
    switch (packet->type) {
    case ES_EVENT_METRIC:
        return write_metrics(state, packet);
    case ES_EVENT_RUN_STARTED:
        return write_start(state, packet);
    case ES_EVENT_RUN_ENDED:
        return write_end(state, packet);
    case ES_EVENT_CHECKPOINT_LOADED:
        return write_resumption(state, packet);
    case ES_EVENT_EPISODE_OUTCOME:
        return write_outcomes(state, packet);
    case ES_EVENT_PROOF_RANKED:
        return write_ranking(state, packet);
    case ES_EVENT_ROUND_COMPLETED:
        return write_round(state, packet);
    default:
        return ES_STATUS_OK;
    }
}

static EsStatus flush_file(void *state) {
    TensorboardSink *sink = state;
    EsStatus status = es_record_file_flush(&sink->rounds.file);
    EsStatus of_steps =
        sink->steps.file.descriptor >= 0 ? es_record_file_flush(&sink->steps.file) : ES_STATUS_OK;
    return status == ES_STATUS_OK ? of_steps : status;
}

static void close_sink(void *state) {
    TensorboardSink *sink = state;
    es_record_file_close(&sink->rounds.file);
    es_record_file_close(&sink->steps.file);
    es_tensorboard_encoder_destroy(&sink->rounds.encoder);
    es_tensorboard_encoder_destroy(&sink->steps.encoder);
    es_release(sink->steps_folder);
    es_release(sink);
}

// Seconds for the new file's name. Readers take the files of a folder in the order of their names,
// so a new one must come last, even if the clock was set back or two start within a second.
static EsStatus choose_seconds(const char *folder, int64_t *seconds) {
    *seconds = (int64_t)time(NULL);
    DIR *handle = opendir(folder);
    if (handle == NULL) {
        return ES_FAIL(IO, "cannot read the folder %s: %s", folder, strerror(errno));
    }
    for (struct dirent *entry; (entry = readdir(handle)) != NULL;) {
        if (strncmp(entry->d_name, FILE_PREFIX, strlen(FILE_PREFIX)) == 0) {
            int64_t other = strtoll(entry->d_name + strlen(FILE_PREFIX), NULL, 10);
            // ten digits sort as numbers do; a longer number is not a time
            if (other >= *seconds && other < 9999999999) {
                *seconds = other + 1;
            }
        }
    }
    closedir(handle);
    return ES_STATUS_OK;
}

static void describe_host(char host[65]) {
    if (gethostname(host, 65) != 0 || host[0] == '\0') {
        strcpy(host, "localhost");
    }
    host[64] = '\0';
    for (char *letter = host; *letter != '\0'; letter++) {
        if (!isalnum((unsigned char)*letter) && strchr(".-_", *letter) == NULL) {
            *letter = '-';
        }
    }
}

static EsStatus open_event_file(const char *folder, EsRecordFile *file) {
    if (es_system_make_folder(folder, 0777) != 0 && errno != EEXIST) {
        return ES_FAIL(IO, "cannot create the folder %s: %s", folder, strerror(errno));
    }
    int64_t seconds = 0;
    ES_TRY(choose_seconds(folder, &seconds));
    char host[65];
    describe_host(host);
    size_t path_bytes = strlen(folder) + sizeof host + 100;
    char *path = NULL;
    ES_TRY(es_allocate(path_bytes, (void **)&path));
    snprintf(path, path_bytes, "%s/" FILE_PREFIX "%010lld.%s.%ld.esper", folder, (long long)seconds,
             host, (long)getpid());
    EsStatus status = es_record_file_open(path, 1, file);
    es_release(path);
    return status;
}

EsStatus es_tensorboard_sink_open(const char *folder, int64_t last_round, EsSink *sink) {
    TensorboardSink *state = NULL;
    ES_TRY(es_allocate(sizeof *state, (void **)&state));
    *state = (TensorboardSink){.rounds.file.descriptor = -1,
                               .steps.file.descriptor = -1,
                               .prefix = "growth",
                               .n_steps = last_round < 0 ? 0 : ES_MISSING_INT,
                               .n_host_parameters = ES_MISSING_INT,
                               .done_round = ES_MAX(last_round, 0),
                               .pending_round = -1,
                               .held_out_round = -1};
    for (int i = 0; i < N_TAG_COLUMNS; i++) {
        state->tag_columns[i] = es_event_column(ES_EVENT_METRIC, tag_names[i]);
    }
    state->value_column = es_event_column(ES_EVENT_METRIC, "value");
    EsStatus status = ES_STATUS_OK;
    size_t folder_bytes = strlen(folder) + sizeof ES_TENSORBOARD_STEPS_FOLDER + 1;
    ES_TRY_GOTO(es_allocate(folder_bytes, (void **)&state->steps_folder));
    snprintf(state->steps_folder, folder_bytes, "%s/" ES_TENSORBOARD_STEPS_FOLDER, folder);
    ES_TRY_GOTO(open_event_file(folder, &state->rounds.file));
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double wall_time = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    es_tensorboard_add_version(&state->rounds.encoder, wall_time);
    if (last_round >= 0) {
        es_tensorboard_add_session_start(&state->rounds.encoder, wall_time, last_round + 1);
    }
    ES_TRY_GOTO(hand_over_records(&state->rounds));
    // at once, so that TensorBoard finds the run before its first round ends
    ES_TRY_GOTO(es_record_file_flush(&state->rounds.file));
    *sink = (EsSink){"tensorboard", state, write_packet, flush_file, close_sink};
    return ES_STATUS_OK;
done:
    close_sink(state);
    return status;
}
