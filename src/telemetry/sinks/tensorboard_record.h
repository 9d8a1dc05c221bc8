// TensorBoard's event records: protobuf messages in TFRecord frames.
//
// Only the four fields that curves need are written, by hand (tensorflow/core/util/event.proto):
//     Event       { double wall_time = 1; int64 step = 2; string file_version = 3;
//                   Summary summary = 5; SessionLog session_log = 7; }
//     Summary     { repeated Value value = 1; }  Value { string tag = 1; float simple_value = 2; }
//     SessionLog  { Status status = 1; }         START = 1
// A frame is: length (8 bytes), its masked CRC-32C, the message, its masked CRC-32C.
#ifndef ES_TELEMETRY_TENSORBOARD_RECORD_H
#define ES_TELEMETRY_TENSORBOARD_RECORD_H

#include "telemetry/text.h"

typedef struct EsTensorboardEncoder {
    EsText records; // finished frames; the caller takes and resets them
    EsText summary; // scalars added since the last end
    EsText tag;
} EsTensorboardEncoder;

void es_tensorboard_encoder_destroy(EsTensorboardEncoder *encoder);

// The record every event file begins with.
void es_tensorboard_add_version(EsTensorboardEncoder *encoder, double wall_time);

// Readers drop what earlier files hold at this step and above.
void es_tensorboard_add_session_start(EsTensorboardEncoder *encoder, double wall_time,
                                      int64_t step);

// One value of the next record. What a float cannot hold becomes an infinity; what is not UTF-8 in
// the tag is replaced, as readers would refuse the whole record.
void es_tensorboard_add_scalar(EsTensorboardEncoder *encoder, const char *tag, size_t tag_bytes,
                               double value);

// Make one record of the scalars added; none when there are none.
void es_tensorboard_end_scalars(EsTensorboardEncoder *encoder, double wall_time, int64_t step);

#endif
