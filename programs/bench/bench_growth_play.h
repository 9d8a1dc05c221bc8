// Growth played as `esper grow` plays it (runs/grow/grow_play.h): a policy in training decides for
// all environments, rewards are paid, rollout rows and telemetry are written. The network is the
// task's with fresh weights, but for one: its bias towards WAIT is so large, and no probability has
// a floor, that it never draws anything else. All operations stay legal, all heads are computed and
// sampled, and the hosts stay what they are.
//
// Rounds follow each other without an update: rows are fetched and begun anew.
#ifndef ES_PROGRAMS_BENCH_GROWTH_PLAY_H
#define ES_PROGRAMS_BENCH_GROWTH_PLAY_H

#include "growth/engine/growth.h"

typedef struct EsBenchPlay EsBenchPlay;

// Before growth's first step; growth is borrowed. n_steps: of a round.
EsStatus es_bench_play_create(EsGrowth *growth, const char *task, int64_t n_steps,
                              EsBenchPlay **play);
void es_bench_play_destroy(EsBenchPlay *play);

// One step of all environments. Growth wants a decision before it and after it.
EsStatus es_bench_play_step(EsBenchPlay *play);

// What growth and policy asked of their devices so far.
EsDeviceCounters es_bench_play_counters(const EsBenchPlay *play);

#endif
