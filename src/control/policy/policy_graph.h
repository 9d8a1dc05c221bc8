// The policy's network as a graph. One description serves both plans: acting runs one step of all
// environments, training runs all steps of G shards of them and takes gradients with respect to
// its outputs. Their parameters have the same names in the same order, so they share a store.
//
// Inside control/: policy_network.h is for everybody else.
//
// G shards (acting: 1), T steps (acting: 1), N environments of a shard, S slots, H hidden units,
// A logits. Rows of a shard are t N + n.
#ifndef ES_CONTROL_POLICY_GRAPH_H
#define ES_CONTROL_POLICY_GRAPH_H

#include "control/policy/policy_network.h"

ES_EXTERN_C_BEGIN

typedef struct EsPolicyGraphSize {
    int is_training;
    int64_t n_shards; // G
    int64_t n_steps;  // T
    int64_t n_rows;   // N
} EsPolicyGraphSize;

typedef struct EsPolicyGraph {
    EsGraph *graph; // owned
    EsPolicyGraphSize size;

    // inputs of both
    EsValueId features;   // [G, T N, 23 + 31 S]
    EsValueId blueprints; // i32 [G, T N S]
    // of acting
    EsValueId h_start, c_start; // [G, N, H]
    // of training
    EsValueId reset;   // u8 [G, T, N]
    EsValueId op;      // one-hot of the operation that was drawn             [G, T N, 6]
    EsValueId episode; // i32 [G], and
    EsValueId pass;    // i32 [1]: key of the dropout's draws
    EsValueId d_logits, d_value, d_action_value, d_contribution; // as the outputs

    // outputs of both
    EsValueId logits; // heads in the order of EsHead                         [G, T N, A]
    EsValueId value;  // [G, T N, 1]
    // of acting
    EsValueId h, c; // after the step                                        [G, 1, N, H]
    // of training
    EsValueId action_value; // [G, T N, 1]
    EsValueId contribution; // [G, T N, S]
} EsPolicyGraph;

// Values that the size does not have are ES_NO_VALUE. Training graphs are differentiated.
EsStatus es_policy_graph_create(const EsPolicySpec *spec, EsPolicyGraphSize size,
                                EsPolicyGraph *graph);
void es_policy_graph_destroy(EsPolicyGraph *graph);

// Whose own the parameter is: head 0..7, or
enum { ES_POLICY_PART_VALUE = ES_N_HEADS, ES_POLICY_PART_ACTION_VALUE, ES_POLICY_PART_OTHER };
int es_policy_part_of(const char *parameter);

ES_EXTERN_C_END

#endif
