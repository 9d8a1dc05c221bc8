// Helpers of the builders in graph.h and graph_blend.h: checks of their inputs, and new values and
// nodes. A check that fails notes it in the graph and returns 0, as it does after an earlier
// failure; `what` names the builder in the message.
#ifndef ES_NETWORK_GRAPH_BUILD_H
#define ES_NETWORK_GRAPH_BUILD_H

#include "network/graph/graph.h"

ES_EXTERN_C_BEGIN

// --- checks ---

// Is the value there? A missing one means an earlier builder failed, or a wrong name.
int es_graph_check_exists(EsGraph *graph, const char *what, EsValueId id);

// A value of each environment with this rank and type.
int es_graph_check(EsGraph *graph, const char *what, EsValueId id, int rank, EsDtype dtype);

// The same with exactly these dims, environment axis left out.
int es_graph_check_dims(EsGraph *graph, const char *what, EsValueId id, int rank,
                        const int64_t *dims, EsDtype dtype);

// A tensor that all environments share, with this rank and type.
int es_graph_check_shared(EsGraph *graph, const char *what, EsValueId id, int rank, EsDtype dtype);

// f32 of any rank that a layer can take: parameters and states stand apart in their slabs and have
// operations of their own.
int es_graph_check_layer_input(EsGraph *graph, const char *what, EsValueId id);

// Two values that a layer can take, of one shape.
int es_graph_check_same_shape(EsGraph *graph, const char *what, EsValueId a, EsValueId b);

// --- values and nodes ---

// Takes the plan's precision where it is f32.
EsValueId es_graph_add_activation(EsGraph *graph, const char *name, EsDtype dtype, int rank,
                                  const int64_t *dims);

// A mean or the like: f32 in every precision.
EsValueId es_graph_add_statistic(EsGraph *graph, const char *name, int rank, const int64_t *dims);

// Another activation of the same shape.
EsValueId es_graph_add_like(EsGraph *graph, const char *name, EsValueId model);

// A parameter called "<layer>.<part>".
EsValueId es_graph_add_parameter(EsGraph *graph, const char *layer, const char *part, int rank,
                                 const int64_t *dims, float bound, float start);
EsValueId es_graph_add_parameter_with(EsGraph *graph, const char *layer, const char *part, int rank,
                                      const int64_t *dims, EsInitial initial, float bound,
                                      float start);

// "<layer>.<part>" into `name`; 0 when it is too long.
int es_graph_join_name(EsGraph *graph, const char *layer, const char *part,
                       char name[ES_NAME_BYTES]);

// One node with as many inputs and outputs as its operation has.
EsNode *es_graph_add_node(EsGraph *graph, EsOp op, const EsValueId *inputs,
                          const EsValueId *outputs);

// The same for an operation with any number of inputs.
EsNode *es_graph_add_node_of(EsGraph *graph, EsOp op, int n_inputs, const EsValueId *inputs,
                             const EsValueId *outputs);

ES_EXTERN_C_END

#endif
