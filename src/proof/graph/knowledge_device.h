// A knowledge graph in the memory of a device, for the rules that run there (proof_rules.h).
//
// One block holds what the rules read: first the small tables that every step looks at (arities,
// starts, rules), then the two indices, then the facts in their two orders, so that what is used
// most lies together. A fact takes 24 bytes, 12 in either order, and the index at most 36 more
// (EsFactIndex). The published graph `family` (19,845 facts, 2,968 constants, 12 predicates, 87
// rules) takes 0.82 MB, `wn18rr` (86,835 facts) 6.1 MB: both stay in a second-level cache of 50 MB.
//
//     EsKnowledgeDevice *there; ES_TRY(es_kg_device_create(graph, stream, &there));
//     start_kernel(es_kg_device_view(there));
//     es_kg_device_destroy(there);
#ifndef ES_PROOF_KNOWLEDGE_DEVICE_H
#define ES_PROOF_KNOWLEDGE_DEVICE_H

#include "proof/graph/knowledge_graph.h"
#include "tensor/device.h"

ES_EXTERN_C_BEGIN

// Copies the graph to the stream's device and waits for it; `graph` may go afterwards.
typedef struct EsKnowledgeDevice EsKnowledgeDevice;
EsStatus es_kg_device_create(const EsKnowledgeGraph *graph, EsStream *stream,
                             EsKnowledgeDevice **there);
void es_kg_device_destroy(EsKnowledgeDevice *there);

// The struct with device pointers, to be passed to kernels by value. It has neither names nor
// queries, and of the domains the number and `of_constant`.
EsKnowledgeGraph es_kg_device_view(const EsKnowledgeDevice *there);
size_t es_kg_device_bytes(const EsKnowledgeDevice *there);

ES_EXTERN_C_END

#endif
