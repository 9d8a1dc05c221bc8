// Episodes on a GPU: growth, policy and reward are queued work, and the host looks at a step while
// the next one trains. Whoever looks on sees what it would see on the CPU.
#ifndef ES_RUNS_GROW_PLAY_DEVICE_H
#define ES_RUNS_GROW_PLAY_DEVICE_H

#include "runs/grow/grow_play.h"

// For es_grow_play_create_like: make room for the decisions of this play in growth's packed copy,
// and the events that time them. Nothing happens where growth runs on the CPU.
EsStatus es_grow_play_reserve(EsGrowPlay *play);

// es_grow_play_begin, _step and _end where growth runs on a GPU.
EsStatus es_grow_play_begin_on_device(EsGrowPlay *play, EsPolicy *policy, int64_t first_episode);
EsStatus es_grow_play_step_on_device(EsGrowPlay *play, EsPolicy *policy, int64_t step,
                                     const EsGrowWatch *watch);
EsStatus es_grow_play_end_on_device(EsGrowPlay *play, EsPolicy *policy);

#endif
