// Graphs for tests that compare a CUDA device with the CPU, and the device.
#ifndef ES_TESTS_DEVICE_GRAPHS_H
#define ES_TESTS_DEVICE_GRAPHS_H

#include "es_test.h"
#include "proof/graph/knowledge_file.h"
#include "proof/small_graph.h"
#include "proof/wide_village.h"
#include "tensor/device.h"

// NULL without a device.
static inline EsDevice *open_cuda(void) {
    EsDevice *device = NULL;
    return es_device_cuda_count() > 0 && es_device_open("cuda", NULL, &device) == ES_STATUS_OK
               ? device
               : NULL;
}

#define WITH_DEVICE(device)                                                                        \
    EsDevice *device = open_cuda();                                                                \
    if (device == NULL) {                                                                          \
        SKIP("no CUDA device");                                                                    \
    }

// Steps of a comparison of one graph: ES_FUZZ_STEPS, or so many.
static inline long long count_steps(long long usual) {
    const char *text = getenv("ES_FUZZ_STEPS");
    return text != NULL ? strtoll(text, NULL, 10) : usual;
}

static inline EsKnowledgeGraph *make_village(int n_people) {
    EsKnowledgeGraph *graph = NULL;
    REQUIRE_OK(es_kinship_graph_create(n_people, 1, &graph));
    return graph;
}

// predicates of none to four arguments
static inline EsKnowledgeGraph *make_wide_graph(int n_people) {
    EsKnowledgeGraph *narrow = make_village(n_people), *graph = make_wide_village(narrow);
    es_kg_destroy(narrow);
    return graph;
}

// comparisons that wait for their variables; no train split is left to draw from but the facts'
static inline EsKnowledgeGraph *make_comparing_graph(void) {
    return make_small_graph("p(a,b) p(b,c) p(c,a) p(a,c) p(c,d) p(d,b)",
                            "p(h,x) p(h,y) !=(x,y) -> s(x,y); "
                            "s(x,h) p(h,y) !=(h,y) !=(x,y) -> t(x,y); t(x,h) t(h,y) -> t(x,y)",
                            "t(a,b) t(b,d) t(d,d) s(a,c) s(b,b) t(c,b) t(a,a)");
}

// NULL without ES_KG_DIR, the folder that holds countries_s3, family, umls and wn18rr.
static inline EsKnowledgeGraph *load_published(const char *name) {
    const char *folder = getenv("ES_KG_DIR");
    char path[1024];
    EsKnowledgeGraph *graph = NULL;
    if (folder != NULL) {
        snprintf(path, sizeof path, "%s/%s", folder, name);
        REQUIRE_OK(es_kg_load(path, NULL, &graph));
    }
    return graph;
}

#endif
