// A family: a couple has one to four children; in the generations before the last a child marries
// with chance 3/4, and then has children in turn.
#include "proof/graph/kinship_graph.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/random_rules.h"
#include "proof/graph/knowledge_text.h"

#define N_GENERATIONS 4
#define MAX_CHILDREN  4
// a uniform draw per atom: below the first it is held out for validation, below the second for the
// test
#define VALID_BELOW 0.1f
#define TEST_BELOW  0.3f

// Siblings are never derived from common parents alone, since nothing in a Horn rule says that two
// variables differ: brother(x,x) would follow, and from it that fathers are uncles. Different sexes
// or a known sibling make them different.
static const char rules_text[] = "% marriage\n"
                                 "k1:1:wife(y,x) -> husband(x,y)\n"
                                 "k2:1:husband(y,x) -> wife(x,y)\n"
                                 "k3:1:father(x,z), mother(y,z) -> husband(x,y)\n"
                                 "k4:1:mother(x,z), father(y,z) -> wife(x,y)\n"
                                 "% parents\n"
                                 "k5:1:husband(x,z), mother(z,y) -> father(x,y)\n"
                                 "k6:1:wife(x,z), father(z,y) -> mother(x,y)\n"
                                 "k7:1:father(x,z), brother(y,z) -> father(x,y)\n"
                                 "k8:1:father(x,z), sister(y,z) -> father(x,y)\n"
                                 "k9:1:mother(x,z), brother(y,z) -> mother(x,y)\n"
                                 "k10:1:mother(x,z), sister(y,z) -> mother(x,y)\n"
                                 "k11:1:son(y,x), husband(x,z) -> father(x,y)\n"
                                 "k12:1:daughter(y,x), husband(x,z) -> father(x,y)\n"
                                 "k13:1:son(y,x), wife(x,z) -> mother(x,y)\n"
                                 "k14:1:daughter(y,x), wife(x,z) -> mother(x,y)\n"
                                 "% children\n"
                                 "k15:1:brother(x,z), father(y,z) -> son(x,y)\n"
                                 "k16:1:brother(x,z), mother(y,z) -> son(x,y)\n"
                                 "k17:1:sister(x,z), father(y,z) -> daughter(x,y)\n"
                                 "k18:1:sister(x,z), mother(y,z) -> daughter(x,y)\n"
                                 "k19:1:husband(z,y), son(x,z) -> son(x,y)\n"
                                 "k20:1:wife(z,y), son(x,z) -> son(x,y)\n"
                                 "k21:1:husband(z,y), daughter(x,z) -> daughter(x,y)\n"
                                 "k22:1:wife(z,y), daughter(x,z) -> daughter(x,y)\n"
                                 "k23:1:father(y,x), husband(x,z) -> son(x,y)\n"
                                 "k24:1:father(y,x), wife(x,z) -> daughter(x,y)\n"
                                 "% siblings\n"
                                 "k25:1:son(x,z), daughter(y,z) -> brother(x,y)\n"
                                 "k26:1:daughter(x,z), son(y,z) -> sister(x,y)\n"
                                 "k27:1:brother(y,x), son(x,z) -> brother(x,y)\n"
                                 "k28:1:sister(y,x), daughter(x,z) -> sister(x,y)\n"
                                 "% uncles and aunts, by marriage too\n"
                                 "k29:1:brother(x,z), father(z,y) -> uncle(x,y)\n"
                                 "k30:1:brother(x,z), mother(z,y) -> uncle(x,y)\n"
                                 "k31:1:husband(x,z), aunt(z,y) -> uncle(x,y)\n"
                                 "k32:1:sister(x,z), father(z,y) -> aunt(x,y)\n"
                                 "k33:1:sister(x,z), mother(z,y) -> aunt(x,y)\n"
                                 "k34:1:wife(x,z), uncle(z,y) -> aunt(x,y)\n"
                                 "k35:1:uncle(x,z), brother(y,z) -> uncle(x,y)\n"
                                 "k36:1:aunt(x,z), sister(y,z) -> aunt(x,y)\n"
                                 "k37:1:uncle(y,x), son(x,z) -> nephew(x,y)\n"
                                 "k38:1:aunt(y,x), son(x,z) -> nephew(x,y)\n"
                                 "k39:1:uncle(y,x), daughter(x,z) -> niece(x,y)\n"
                                 "k40:1:aunt(y,x), daughter(x,z) -> niece(x,y)\n"
                                 "k41:1:nephew(y,x), husband(x,z) -> uncle(x,y)\n"
                                 "k42:1:niece(y,x), wife(x,z) -> aunt(x,y)\n"
                                 "% further away\n"
                                 "k43:1:father(x,z), father(z,y) -> grandfather(x,y)\n"
                                 "k44:1:father(x,z), mother(z,y) -> grandfather(x,y)\n"
                                 "k45:1:mother(x,z), father(z,y) -> grandmother(x,y)\n"
                                 "k46:1:mother(x,z), mother(z,y) -> grandmother(x,y)\n"
                                 "k47:1:husband(x,z), grandmother(z,y) -> grandfather(x,y)\n"
                                 "k48:1:wife(x,z), grandfather(z,y) -> grandmother(x,y)\n"
                                 "k49:1:father(z,x), brother(z,w), father(w,y) -> cousin(x,y)\n"
                                 "k50:1:mother(z,x), sister(z,w), mother(w,y) -> cousin(x,y)\n"
                                 "k51:1:uncle(z,x), father(z,y) -> cousin(x,y)\n"
                                 "k52:1:aunt(z,x), mother(z,y) -> cousin(x,y)\n"
                                 "k53:1:cousin(y,x) -> cousin(x,y)\n";

static const char *const given_names[2][16] = {
    {"ada", "bea", "cleo", "dora", "edna", "faye", "gwen", "hana", "iris", "june", "kaya", "lena",
     "mina", "nora", "olga", "ruth"},
    {"abel", "beau", "carl", "dean", "emil", "finn", "glen", "hugo", "ivan", "joel", "kurt", "leon",
     "max", "noah", "otto", "paul"},
};

typedef enum Relation {
    AUNT,
    BROTHER,
    COUSIN,
    DAUGHTER,
    FATHER,
    GRANDFATHER,
    GRANDMOTHER,
    HUSBAND,
    MOTHER,
    NEPHEW,
    NIECE,
    SISTER,
    SON,
    UNCLE,
    WIFE,
    N_RELATIONS
} Relation;

static const char *const relation_names[N_RELATIONS] = {
    "aunt",   "brother", "cousin", "daughter", "father", "grandfather", "grandmother", "husband",
    "mother", "nephew",  "niece",  "sister",   "son",    "uncle",       "wife"};

typedef struct Person {
    int is_man;
    int generation;
    int32_t father, spouse; // indices, -1: none; the mother is the father's wife
    int32_t child[MAX_CHILDREN];
    int n_children;
} Person;

typedef struct Village {
    Person *people;
    int32_t n_people, capacity;
    uint64_t seed;
    EsKgBuilder *builder; // receives the atoms
    int32_t *constants;   // provisional numbers                                     (capacity)
    int32_t predicates[N_RELATIONS];
    uint32_t n_atoms; // so far; numbers the draws that hold atoms out
} Village;

// --- people ---

static uint32_t draw_word(const Village *village, int32_t person, uint32_t purpose) {
    return es_random_draw(village->seed, (uint32_t)person, ES_PURPOSE_DATA_GENERATION, purpose, 0)
        .word[0];
}

enum { DRAW_SEX, DRAW_CHILDREN, DRAW_MARRIAGE, DRAW_NAME, DRAW_SPLIT };

// -1 when the village is full.
static int32_t add_person(Village *village, int is_man, int generation, int32_t father) {
    if (village->n_people == village->capacity) {
        return -1;
    }
    int32_t index = village->n_people++;
    village->people[index] =
        (Person){.is_man = is_man, .generation = generation, .father = father, .spouse = -1};
    return index;
}

// Marries a partner from outside and adds children. They are behind their parents in the list, so
// one walk over it makes the whole family.
static void found_household(Village *village, int32_t index) {
    Person *person = &village->people[index];
    int32_t spouse = add_person(village, !person->is_man, person->generation, -1);
    if (spouse < 0) {
        return;
    }
    person->spouse = spouse;
    village->people[spouse].spouse = index;
    int32_t father = person->is_man ? index : spouse;
    uint32_t n_children =
        1 + es_random_below(draw_word(village, index, DRAW_CHILDREN), MAX_CHILDREN);
    for (uint32_t i = 0; i < n_children; i++) {
        int is_man = (int)(draw_word(village, village->n_people, DRAW_SEX) >> 31);
        int32_t child = add_person(village, is_man, person->generation + 1, father);
        if (child < 0) {
            return;
        }
        Person *parents[2] = {person, &village->people[spouse]};
        for (int k = 0; k < 2; k++) {
            parents[k]->child[parents[k]->n_children++] = child;
        }
    }
}

static void populate(Village *village) {
    int32_t next = 0;
    while (village->n_people < village->capacity) {
        if (next == village->n_people) {
            // the last family is complete
            add_person(village, 1, 0, -1);
            found_household(village, next);
        } else {
            const Person *person = &village->people[next];
            int is_born_here = person->father >= 0;
            int marries = es_random_below(draw_word(village, next, DRAW_MARRIAGE), 4) != 0;
            if (is_born_here && marries && person->generation < N_GENERATIONS - 1) {
                found_household(village, next);
            }
        }
        next++;
    }
}

// --- relations ---

static EsStatus name_all(Village *village) {
    int n_digits = 1;
    for (int32_t rest = village->n_people - 1; rest >= 10; rest /= 10) {
        n_digits++;
    }
    for (int32_t i = 0; i < village->n_people; i++) {
        char name[48];
        const char *given = given_names[village->people[i].is_man]
                                       [es_random_below(draw_word(village, i, DRAW_NAME), 16)];
        int bytes = snprintf(name, sizeof name, "%s_%0*d", given, n_digits, i);
        ES_TRY(es_kg_builder_intern(village->builder, ES_KG_CONSTANT, name, (size_t)bytes,
                                    &village->constants[i]));
    }
    for (int r = 0; r < N_RELATIONS; r++) {
        ES_TRY(es_kg_builder_intern(village->builder, ES_KG_PREDICATE, relation_names[r],
                                    strlen(relation_names[r]), &village->predicates[r]));
    }
    return ES_STATUS_OK;
}

// relation(a,b), as a fact or held out.
static EsStatus add_atom(Village *village, Relation relation, int32_t a, int32_t b) {
    EsAtom atom = {village->predicates[relation], village->constants[a], village->constants[b]};
    float u = es_random_uniform(draw_word(village, (int32_t)village->n_atoms++, DRAW_SPLIT));
    if (u < VALID_BELOW) {
        return es_kg_builder_add_query(village->builder, ES_KG_SPLIT_VALID, &atom);
    }
    if (u < TEST_BELOW) {
        return es_kg_builder_add_query(village->builder, ES_KG_SPLIT_TEST, &atom);
    }
    ES_TRY(es_kg_builder_add_query(village->builder, ES_KG_SPLIT_TRAIN, &atom));
    return es_kg_builder_add_fact(village->builder, &atom);
}

// "a is b's ..." by the sex of a.
static EsStatus add_sexed(Village *village, Relation man, Relation woman, int32_t a, int32_t b) {
    return add_atom(village, village->people[a].is_man ? man : woman, a, b);
}

static EsStatus add_uncle_or_aunt(Village *village, int32_t elder, int32_t younger) {
    ES_TRY(add_sexed(village, UNCLE, AUNT, elder, younger));
    return add_sexed(village, NEPHEW, NIECE, younger, elder);
}

// A sibling of the parent, with spouse and children.
static EsStatus relate_to_household(Village *village, int32_t person, int32_t sibling) {
    const Person *elder = &village->people[sibling];
    ES_TRY(add_uncle_or_aunt(village, sibling, person));
    if (elder->spouse >= 0) {
        ES_TRY(add_uncle_or_aunt(village, elder->spouse, person));
    }
    for (int i = 0; i < elder->n_children; i++) {
        ES_TRY(add_atom(village, COUSIN, person, elder->child[i]));
    }
    return ES_STATUS_OK;
}

// Everything a person is through one of the parents; siblings are counted with the father.
static EsStatus relate_through(Village *village, int32_t person, int32_t parent) {
    const Person *people = village->people;
    ES_TRY(add_sexed(village, FATHER, MOTHER, parent, person));
    ES_TRY(add_sexed(village, SON, DAUGHTER, person, parent));
    int32_t grandfather = people[parent].father;
    if (grandfather < 0) {
        return ES_STATUS_OK;
    }
    ES_TRY(add_atom(village, GRANDFATHER, grandfather, person));
    ES_TRY(add_atom(village, GRANDMOTHER, people[grandfather].spouse, person));
    for (int i = 0; i < people[grandfather].n_children; i++) {
        int32_t sibling = people[grandfather].child[i];
        if (sibling != parent) {
            ES_TRY(relate_to_household(village, person, sibling));
        }
    }
    return ES_STATUS_OK;
}

static EsStatus relate(Village *village, int32_t index) {
    const Person *person = &village->people[index];
    if (person->spouse >= 0) {
        ES_TRY(add_sexed(village, HUSBAND, WIFE, index, person->spouse));
    }
    if (person->father < 0) {
        return ES_STATUS_OK;
    }
    const Person *father = &village->people[person->father];
    ES_TRY(relate_through(village, index, person->father));
    ES_TRY(relate_through(village, index, father->spouse));
    for (int i = 0; i < father->n_children; i++) {
        if (father->child[i] != index) {
            ES_TRY(add_sexed(village, BROTHER, SISTER, index, father->child[i]));
        }
    }
    return ES_STATUS_OK;
}

EsStatus es_kinship_graph_create(int32_t n_people, uint64_t seed, EsKnowledgeGraph **graph) {
    *graph = NULL;
    if (n_people < ES_KINSHIP_MIN_PEOPLE || n_people > ES_KINSHIP_MAX_PEOPLE) {
        return ES_FAIL(ARGUMENT, "a generated graph has %d to %d people, not %d",
                       ES_KINSHIP_MIN_PEOPLE, ES_KINSHIP_MAX_PEOPLE, n_people);
    }
    Village village = {.capacity = n_people, .seed = seed};
    EsStatus status = ES_STATUS_OK;
    size_t count = (size_t)n_people;
    ES_TRY_GOTO(es_kg_builder_create(&village.builder));
    ES_TRY_GOTO(es_allocate(count * sizeof(Person), (void **)&village.people));
    ES_TRY_GOTO(es_allocate(count * sizeof(int32_t), (void **)&village.constants));
    populate(&village);
    ES_TRY_GOTO(name_all(&village));
    for (int32_t i = 0; i < village.n_people; i++) {
        ES_TRY_GOTO(relate(&village, i));
    }
    int32_t n_rules;
    ES_TRY_GOTO(es_kg_text_read_rules(village.builder, "kinship rules", rules_text,
                                      sizeof rules_text - 1, &n_rules));
    ES_TRY_GOTO(es_kg_builder_finish(village.builder, graph));
done:
    es_kg_builder_destroy(village.builder);
    es_release(village.people);
    es_release(village.constants);
    return status;
}
