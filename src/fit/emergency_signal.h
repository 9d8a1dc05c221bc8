// The writing side of esper/signal.h: a run's own signal, made at its start, removed at its end.
//
//     EsEmergencySignal *signal; ES_TRY(es_emergency_signal_create(run_folder, &signal));
//     es_emergency_signal_raise(signal, 3, "breaker_open");
//     es_emergency_signal_clear(signal);
//     es_emergency_signal_destroy(signal);
#ifndef ES_FIT_EMERGENCY_SIGNAL_H
#define ES_FIT_EMERGENCY_SIGNAL_H

#include "esper/signal.h"

typedef struct EsEmergencySignal EsEmergencySignal;

// Takes the place of one that a killed run left behind.
EsStatus es_emergency_signal_create(const char *run_folder, EsEmergencySignal **signal);
void es_emergency_signal_destroy(EsEmergencySignal *signal);

// A longer reason is cut. A reader sees the old signal or the new one, never a mixture.
void es_emergency_signal_raise(EsEmergencySignal *signal, int level, const char *reason);
void es_emergency_signal_clear(EsEmergencySignal *signal);

#endif
