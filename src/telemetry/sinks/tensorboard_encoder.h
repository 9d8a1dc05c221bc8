// Records of TensorBoard's event files: scalars, the configuration as text, hyperparameters.
//
// Finished records gather in `records`, which the caller writes and resets; lack of memory stays in
// its status.
//
//     EsTensorboardEncoder encoder = {0};
//     es_tensorboard_add_version(&encoder, now);
//     es_tensorboard_add_tag(&encoder, "loss", 4);
//     es_tensorboard_add_scalar(&encoder, 0.5);
//     es_tensorboard_end_scalars(&encoder, now, round);
//     ... encoder.records.bytes ...
//     es_tensorboard_encoder_destroy(&encoder);
#ifndef ES_TELEMETRY_TENSORBOARD_ENCODER_H
#define ES_TELEMETRY_TENSORBOARD_ENCODER_H

#include <stdint.h>

#include "telemetry/text.h"

// of the curves by environment steps, beside the event file of the rounds
#define ES_TENSORBOARD_STEPS_FOLDER "env_steps"

typedef struct EsTensorboardEncoder {
    EsText records; // finished frames; the caller takes and resets them
    EsText summary; // values added since the last end
    EsText tag;     // of the next scalar; the caller resets it
} EsTensorboardEncoder;

void es_tensorboard_encoder_destroy(EsTensorboardEncoder *encoder);

// The record that every event file begins with.
void es_tensorboard_add_version(EsTensorboardEncoder *encoder, double wall_time);

// Readers drop points of earlier files at this step and above.
void es_tensorboard_add_session_start(EsTensorboardEncoder *encoder, double wall_time,
                                      int64_t step);

// --- scalars ---

// A part of the next value's tag, after a slash unless it is the first. Bytes that are not UTF-8
// are replaced, as readers would refuse the whole record.
void es_tensorboard_add_tag(EsTensorboardEncoder *encoder, const char *part, size_t bytes);

// One value of the next record, with the tag that was added. Values beyond a float become
// infinities.
void es_tensorboard_add_scalar(EsTensorboardEncoder *encoder, double value);

// Makes one record of the values added; none when there are none.
void es_tensorboard_end_scalars(EsTensorboardEncoder *encoder, double wall_time, int64_t step);

// --- texts and hyperparameters, values of the next record ---

// `text` is the run's configuration, INI.
void es_tensorboard_add_configuration(EsTensorboardEncoder *encoder, const char *text,
                                      size_t bytes);

// The settings and metrics that the tab of hyperparameters has columns for; the values of the
// settings; how the run ended.
void es_tensorboard_add_experiment(EsTensorboardEncoder *encoder, const char *config, size_t bytes,
                                   double wall_time);
void es_tensorboard_add_settings(EsTensorboardEncoder *encoder, const char *config, size_t bytes,
                                 double wall_time);
void es_tensorboard_add_session_end(EsTensorboardEncoder *encoder, int is_success,
                                    double wall_time);

#endif
