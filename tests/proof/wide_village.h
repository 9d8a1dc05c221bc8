// A generated village whose predicates have 0 to 4 arguments, for tests: the atoms of a kinship
// graph (kinship_graph.h) written with fewer predicates and a constant for the rest of the name, as
// father(x,y) -> parent(x,y,m). Facts, queries and rules are those of the village one by one, so
// that the two graphs have the same proofs. married(x) and wedding come on top, one argument and
// none.
//
//     EsKnowledgeGraph *narrow, *wide;
//     REQUIRE_OK(es_kinship_graph_create(60, 1, &narrow));
//     wide = make_wide_village(narrow);
#ifndef ES_TESTS_WIDE_VILLAGE_H
#define ES_TESTS_WIDE_VILLAGE_H

#include <string.h>

#include "es_test.h"
#include "proof/graph/kinship_graph.h"
#include "proof/graph/knowledge_builder.h"

// A relation of the village: name(x,y), name(x,y,sex) or name(kind,x,y,sex).
typedef struct WideRelation {
    const char *from, *name;
    int arity;
    const char *kind, *sex;
} WideRelation;

static const WideRelation wide_relations[] = {
    {"father", "parent", 3, NULL, "m"},      {"mother", "parent", 3, NULL, "f"},
    {"son", "child", 3, NULL, "m"},          {"daughter", "child", 3, NULL, "f"},
    {"brother", "sibling", 3, NULL, "m"},    {"sister", "sibling", 3, NULL, "f"},
    {"uncle", "kin", 4, "elder", "m"},       {"aunt", "kin", 4, "elder", "f"},
    {"nephew", "kin", 4, "younger", "m"},    {"niece", "kin", 4, "younger", "f"},
    {"grandfather", "kin", 4, "grand", "m"}, {"grandmother", "kin", 4, "grand", "f"},
    {"husband", "husband", 2, NULL, NULL},   {"wife", "wife", 2, NULL, NULL},
    {"cousin", "cousin", 2, NULL, NULL}};

static inline const WideRelation *wide_relation_of(const char *name) {
    for (size_t i = 0; i < ES_COUNT_OF(wide_relations); i++) {
        if (strcmp(wide_relations[i].from, name) == 0) {
            return &wide_relations[i];
        }
    }
    ES_TEST_FAIL("no relation %s", name);
    return NULL;
}

static inline int32_t intern_wide(EsKgBuilder *builder, EsKgNameKind kind, const char *name) {
    int32_t number = 0;
    REQUIRE_OK(es_kg_builder_intern(builder, kind, name, strlen(name), &number));
    return number;
}

static inline int32_t claim_wide(EsKgBuilder *builder, const char *name, int arity) {
    int32_t number = intern_wide(builder, ES_KG_PREDICATE, name);
    EXPECT_EQ(es_kg_builder_claim_arity(builder, number, arity), arity);
    return number;
}

// A constant of the village in the builder's numbers; variables of rules stay.
static inline int32_t move_wide_term(const EsKnowledgeGraph *village, EsKgBuilder *builder,
                                     int32_t term) {
    return term < 0 ? term : intern_wide(builder, ES_KG_CONSTANT, village->constant_names[term]);
}

static inline EsWideAtom widen_atom(const EsKnowledgeGraph *village, EsKgBuilder *builder,
                                    EsAtom atom) {
    const WideRelation *to = wide_relation_of(village->predicate_names[atom.predicate]);
    int32_t terms[ES_KG_MAX_ARITY], n = 0;
    if (to->kind != NULL) {
        terms[n++] = intern_wide(builder, ES_KG_CONSTANT, to->kind);
    }
    terms[n++] = move_wide_term(village, builder, atom.a);
    terms[n++] = move_wide_term(village, builder, atom.b);
    if (to->sex != NULL) {
        terms[n++] = intern_wide(builder, ES_KG_CONSTANT, to->sex);
    }
    return es_wide_atom_make(claim_wide(builder, to->name, to->arity), terms, to->arity);
}

static inline void widen_rule(const EsKnowledgeGraph *village, EsKgBuilder *builder,
                              const EsHornRule *rule) {
    EsHornRule made = {.n_variables = rule->n_variables, .line = rule->line};
    EsWideAtom head = widen_atom(village, builder, rule->head);
    memcpy(made.head_cells, head.cells, sizeof head.cells);
    for (int i = 0; i < rule->n_body; i++) {
        EsWideAtom atom = widen_atom(village, builder, rule->body[i]);
        int n_cells = atom.cells[1].predicate == ES_ATOM_MORE ? 2 : 1;
        memcpy(made.body + made.n_body, atom.cells, (size_t)n_cells * sizeof(EsAtom));
        made.n_body += n_cells;
    }
    REQUIRE_OK(es_kg_builder_add_rule(builder, &made));
}

// husband(x,y) -> married(x); wife(x,y) -> married(x); married(x) -> wedding
static inline void add_weddings(const EsKnowledgeGraph *village, EsKgBuilder *builder) {
    int32_t married = claim_wide(builder, "married", 1),
            wedding = claim_wide(builder, "wedding", 0);
    const char *const spouses[] = {"husband", "wife"};
    for (size_t i = 0; i < ES_COUNT_OF(spouses); i++) {
        EsHornRule rule = {.head = {married, -1, 0}, .n_body = 1, .n_variables = 2};
        rule.body[0] = (EsAtom){claim_wide(builder, spouses[i], 2), -1, -2};
        REQUIRE_OK(es_kg_builder_add_rule(builder, &rule));
        EsAtomSpan facts = es_kg_facts_of(village, es_kg_predicate(village, spouses[i]));
        for (int32_t k = 0; k < facts.count; k++) {
            EsAtom atom = {married, move_wide_term(village, builder, facts.atoms[k].a), 0};
            REQUIRE_OK(es_kg_builder_add_query(
                builder, k % 4 == 0 ? ES_KG_SPLIT_TEST : ES_KG_SPLIT_TRAIN, &atom));
        }
    }
    EsHornRule rule = {.head = {wedding, 0, 0}, .n_body = 1, .n_variables = 1};
    rule.body[0] = (EsAtom){married, -1, 0};
    REQUIRE_OK(es_kg_builder_add_rule(builder, &rule));
    REQUIRE_OK(es_kg_builder_add_query(builder, ES_KG_SPLIT_TRAIN, &(EsAtom){wedding, 0, 0}));
    REQUIRE_OK(es_kg_builder_add_query(builder, ES_KG_SPLIT_TEST, &(EsAtom){wedding, 0, 0}));
}

static inline EsKnowledgeGraph *make_wide_village(const EsKnowledgeGraph *village) {
    EsKnowledgeGraph *graph = NULL;
    EsKgBuilder *builder = NULL;
    REQUIRE_OK(es_kg_builder_create(&builder));
    for (int32_t i = 0; i < village->n_facts; i++) {
        EsWideAtom atom = widen_atom(village, builder, village->facts[i]);
        REQUIRE_OK(es_kg_builder_add_fact(builder, atom.cells));
    }
    for (int32_t r = 0; r < village->n_rules; r++) {
        widen_rule(village, builder, &village->rules[r]);
    }
    for (int split = 0; split < ES_KG_N_SPLITS; split++) {
        for (int32_t i = 0; i < village->splits[split].count; i++) {
            EsWideAtom atom = widen_atom(village, builder, village->splits[split].atoms[i]);
            REQUIRE_OK(es_kg_builder_add_query(builder, (EsKgSplit)split, atom.cells));
        }
    }
    add_weddings(village, builder);
    REQUIRE_OK(es_kg_builder_finish(builder, &graph));
    es_kg_builder_destroy(builder);
    return graph;
}

#endif
