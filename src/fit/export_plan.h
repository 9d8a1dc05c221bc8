// A network as calls of plain C functions on one static array: the export to C is written from it,
// and its int8 form is measured with it.
#ifndef ES_FIT_EXPORT_PLAN_H
#define ES_FIT_EXPORT_PLAN_H

#include "fit/network_export.h"

ES_EXTERN_C_BEGIN

// A layer with the norm and ReLU that follow it.
typedef struct EsExportCall {
    int layer;  // of the list
    int norm;   // batch norm folded into it, or -1
    int relu;   // a ReLU follows inside
    int output; // map
} EsExportCall;

typedef struct EsInt8Plan EsInt8Plan;

typedef struct EsExportPlan {
    const EsGrownNetwork *network;
    const char *name;
    const EsInt8Plan *int8; // borrowed; NULL: floats
    EsExportList list;
    EsExportCall *calls; // owned
    int n_calls;
    int *last_use;       // owned, by map: the last call that reads it
    int64_t *map_offset; // owned, by map
    int64_t n_floats;    // of the static array
} EsExportPlan;

EsStatus es_export_plan_create(const EsGrownNetwork *network, const char *name, EsExportPlan *plan);
void es_export_plan_destroy(EsExportPlan *plan);

// Convolutions and linear layers.
int es_export_is_weighted(EsExportKind kind);

// Weights and bias of a weighted call, its norm folded in; both are released by the caller, also
// after a failure.
EsStatus es_export_fold(const EsExportPlan *plan, const EsExportCall *call, float **weight,
                        float **bias, int64_t *n_weights);

ES_EXTERN_C_END

#endif
