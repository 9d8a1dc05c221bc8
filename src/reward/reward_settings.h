// Every number of the reward in one list: names, defaults, ranges, help. Terms are switched off by a
// weight of 0. docs/reward.md tells what they are for.
#ifndef ES_REWARD_REWARD_SETTINGS_H
#define ES_REWARD_REWARD_SETTINGS_H

#include "esper/status.h"

typedef enum EsRewardMode { ES_REWARD_SHAPED, ES_REWARD_BASIC, ES_REWARD_SPARSE } EsRewardMode;

#endif
