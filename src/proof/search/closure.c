// Atoms are taken one by one in the order of their discovery. Taking atom i adds it to the indices,
// then joins it as each body atom of each rule against the atoms taken so far. A body that holds
// atoms i < j < k is so found when k is taken, and not before: no join is made twice for the same
// reason, except where one atom fits two places of a body.
#include "proof/search/closure.h"

#include <string.h>

#include "base/memory.h"

// A rule that has a predicate in place `k` of its body.
typedef struct Use {
    int32_t rule, k;
} Use;

// Lists through the taken atoms, newest first; -1 ends one. Index of an atom in closure->atoms.
typedef struct Chase {
    EsClosure *closure;
    int32_t *first_a, *first_b; // newest p(a,?), p(?,b) by row_of               ((P+1)(C+1))
    int32_t *first;             // newest p(?,?)                                           (P+1)
    int32_t *next_a, *next_b, *next; // the one before in the same list                 (capacity)
    Use *uses;                       // by predicate                              (sum of n_body)
    int32_t *use_start;              //                                                    (P+2)
} Chase;

static size_t row_of(const EsKnowledgeGraph *graph, int32_t predicate, int32_t term) {
    return (size_t)predicate * ((size_t)graph->n_constants + 1) + (size_t)term;
}

// --- the set ---

static uint64_t key_of(const EsClosure *closure, EsAtom atom) {
    uint64_t base = (uint64_t)closure->graph->n_constants + 1;
    return ((uint64_t)atom.predicate * base + (uint64_t)atom.a) * base + (uint64_t)atom.b;
}

static uint64_t *find_key(const EsClosure *closure, uint64_t key) {
    uint64_t mixed = (key ^ (key >> 31)) * 0x9E3779B97F4A7C15u;
    uint64_t slot = (mixed ^ (mixed >> 29)) & (closure->n_slots - 1);
    while (closure->keys[slot] != 0 && closure->keys[slot] != key) {
        slot = (slot + 1) & (closure->n_slots - 1);
    }
    return &closure->keys[slot];
}

int es_closure_has(const EsClosure *closure, EsAtom atom) {
    return *find_key(closure, key_of(closure, atom)) != 0;
}

static EsStatus resize_array(void **items, size_t item_bytes, int32_t count, int32_t capacity) {
    void *larger = NULL;
    ES_TRY(es_allocate((size_t)capacity * item_bytes, &larger));
    if (count > 0) {
        memcpy(larger, *items, (size_t)count * item_bytes);
    }
    es_release(*items);
    *items = larger;
    return ES_STATUS_OK;
}

// Room for one more atom; the set stays at most half full.
static EsStatus grow(Chase *chase) {
    EsClosure *closure = chase->closure;
    if (closure->count < closure->capacity) {
        return ES_STATUS_OK;
    }
    int64_t wanted = ES_MAX((int64_t)closure->capacity * 2, 1024);
    int32_t capacity = (int32_t)ES_MIN(wanted, closure->limit);
    int32_t count = closure->count;
    ES_TRY(resize_array((void **)&closure->atoms, sizeof *closure->atoms, count, capacity));
    ES_TRY(resize_array((void **)&chase->next_a, sizeof(int32_t), count, capacity));
    ES_TRY(resize_array((void **)&chase->next_b, sizeof(int32_t), count, capacity));
    ES_TRY(resize_array((void **)&chase->next, sizeof(int32_t), count, capacity));
    uint64_t n_slots = ES_MAX(closure->n_slots, 1024u);
    while (n_slots < 2 * (uint64_t)capacity) {
        n_slots *= 2;
    }
    uint64_t *keys = NULL;
    ES_TRY(es_allocate(n_slots * sizeof *keys, (void **)&keys));
    es_release(closure->keys);
    closure->keys = keys;
    closure->n_slots = n_slots;
    closure->capacity = capacity;
    for (int32_t i = 0; i < count; i++) {
        uint64_t key = key_of(closure, closure->atoms[i]);
        *find_key(closure, key) = key;
    }
    return ES_STATUS_OK;
}

static EsStatus add_atom(Chase *chase, EsAtom atom) {
    EsClosure *closure = chase->closure;
    uint64_t key = key_of(closure, atom);
    if (*find_key(closure, key) != 0) {
        return ES_STATUS_OK;
    }
    if (closure->count == closure->limit) {
        closure->is_complete = 0;
        return ES_STATUS_OK;
    }
    ES_TRY(grow(chase));
    *find_key(closure, key) = key;
    closure->atoms[closure->count++] = atom;
    return ES_STATUS_OK;
}

// --- joining ---

// Constants of a rule's variables, 0 = free; variable -v is at v.
typedef struct Binding {
    int32_t of[ES_HORN_MAX_VARIABLES + 1];
} Binding;

static int bind_term(Binding *binding, int32_t variable, int32_t constant) {
    int32_t *bound = &binding->of[-variable];
    if (*bound == 0) {
        *bound = constant;
    }
    return *bound == constant;
}

static int bind_atom(Binding *binding, EsAtom pattern, EsAtom atom) {
    return bind_term(binding, pattern.a, atom.a) && bind_term(binding, pattern.b, atom.b);
}

// The open body atom with the most bound arguments: its list is the shortest to walk.
static int choose_open(const EsHornRule *rule, unsigned open, const Binding *binding) {
    int best = -1, best_bound = -1;
    for (int k = 0; k < rule->n_body; k++) {
        int n_bound = (binding->of[-rule->body[k].a] != 0) + (binding->of[-rule->body[k].b] != 0);
        if ((open >> k & 1u) != 0 && n_bound > best_bound) {
            best = k;
            best_bound = n_bound;
        }
    }
    return best;
}

static EsStatus join_rest(Chase *chase, const EsHornRule *rule, unsigned open,
                          const Binding *binding) {
    EsClosure *closure = chase->closure;
    if (open == 0) {
        closure->n_joined++;
        EsAtom head = {rule->head.predicate, binding->of[-rule->head.a],
                       binding->of[-rule->head.b]};
        return add_atom(chase, head);
    }
    int k = choose_open(rule, open, binding);
    EsAtom pattern = rule->body[k];
    int32_t a = binding->of[-pattern.a], b = binding->of[-pattern.b];
    // growing moves these arrays, so they are looked up anew each time
    int32_t i = chase->first[pattern.predicate];
    if (a != 0) {
        i = chase->first_a[row_of(closure->graph, pattern.predicate, a)];
    } else if (b != 0) {
        i = chase->first_b[row_of(closure->graph, pattern.predicate, b)];
    }
    while (i >= 0 && closure->is_complete) {
        Binding extended = *binding;
        if (bind_atom(&extended, pattern, closure->atoms[i])) {
            ES_TRY(join_rest(chase, rule, open & ~(1u << k), &extended));
        }
        i = a != 0 ? chase->next_a[i] : (b != 0 ? chase->next_b[i] : chase->next[i]);
    }
    return ES_STATUS_OK;
}

// Add atom i to the lists and join it as every body atom that has its predicate.
static EsStatus take_atom(Chase *chase, int32_t i) {
    const EsKnowledgeGraph *graph = chase->closure->graph;
    EsAtom atom = chase->closure->atoms[i];
    int32_t *first_a = &chase->first_a[row_of(graph, atom.predicate, atom.a)];
    int32_t *first_b = &chase->first_b[row_of(graph, atom.predicate, atom.b)];
    int32_t *first = &chase->first[atom.predicate];
    chase->next_a[i] = *first_a;
    chase->next_b[i] = *first_b;
    chase->next[i] = *first;
    *first_a = *first_b = *first = i;
    int32_t end = chase->use_start[atom.predicate + 1];
    for (int32_t u = chase->use_start[atom.predicate]; u < end; u++) {
        const EsHornRule *rule = &graph->rules[chase->uses[u].rule];
        int32_t k = chase->uses[u].k;
        Binding binding = {{0}};
        if (bind_atom(&binding, rule->body[k], atom)) {
            unsigned open = ((1u << rule->n_body) - 1u) & ~(1u << k);
            ES_TRY(join_rest(chase, rule, open, &binding));
        }
    }
    return ES_STATUS_OK;
}

// --- set-up ---

static EsStatus list_uses(Chase *chase) {
    const EsKnowledgeGraph *graph = chase->closure->graph;
    size_t n_starts = (size_t)graph->n_predicates + 2;
    ES_TRY(es_allocate(n_starts * sizeof(int32_t), (void **)&chase->use_start));
    int32_t *start = chase->use_start, n_uses = 0;
    for (int32_t r = 0; r < graph->n_rules; r++) {
        n_uses += graph->rules[r].n_body;
        for (int k = 0; k < graph->rules[r].n_body; k++) {
            start[graph->rules[r].body[k].predicate + 1]++;
        }
    }
    ES_TRY(es_allocate((size_t)n_uses * sizeof(Use), (void **)&chase->uses));
    for (size_t p = 1; p < n_starts; p++) {
        start[p] += start[p - 1];
    }
    // from the back: start[p + 1] runs down to where the uses of p begin
    for (int32_t r = graph->n_rules; r-- > 0;) {
        for (int k = graph->rules[r].n_body; k-- > 0;) {
            chase->uses[--start[graph->rules[r].body[k].predicate + 1]] = (Use){r, k};
        }
    }
    memmove(start, start + 1, (n_starts - 1) * sizeof *start);
    start[n_starts - 1] = n_uses;
    return ES_STATUS_OK;
}

static EsStatus create_lists(Chase *chase) {
    const EsKnowledgeGraph *graph = chase->closure->graph;
    size_t n_rows = row_of(graph, graph->n_predicates + 1, 0);
    size_t n_predicates = (size_t)graph->n_predicates + 1;
    ES_TRY(es_allocate(n_rows * sizeof(int32_t), (void **)&chase->first_a));
    ES_TRY(es_allocate(n_rows * sizeof(int32_t), (void **)&chase->first_b));
    ES_TRY(es_allocate(n_predicates * sizeof(int32_t), (void **)&chase->first));
    // every byte 0xff is -1, the end of a list
    memset(chase->first_a, 0xff, n_rows * sizeof(int32_t));
    memset(chase->first_b, 0xff, n_rows * sizeof(int32_t));
    memset(chase->first, 0xff, n_predicates * sizeof(int32_t));
    ES_TRY(list_uses(chase));
    return grow(chase);
}

static void destroy_lists(Chase *chase) {
    es_release(chase->first_a);
    es_release(chase->first_b);
    es_release(chase->first);
    es_release(chase->next_a);
    es_release(chase->next_b);
    es_release(chase->next);
    es_release(chase->uses);
    es_release(chase->use_start);
}

EsStatus es_closure_create(const EsKnowledgeGraph *graph, int32_t limit, EsClosure **closure) {
    *closure = NULL;
    Chase chase;
    memset(&chase, 0, sizeof chase);
    ES_TRY(es_allocate(sizeof *chase.closure, (void **)&chase.closure));
    EsClosure *made = chase.closure;
    made->graph = graph;
    made->limit = ES_MAX(ES_MAX(limit, graph->n_facts), 1);
    made->is_complete = 1;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(create_lists(&chase));
    for (int32_t i = 0; i < graph->n_facts; i++) {
        ES_TRY_GOTO(add_atom(&chase, graph->facts[i]));
    }
    made->n_facts = made->count;
    for (int32_t i = 0; i < made->count && made->is_complete; i++) {
        ES_TRY_GOTO(take_atom(&chase, i));
    }
    *closure = made;
    made = NULL;
done:
    destroy_lists(&chase);
    es_closure_destroy(made);
    return status;
}

void es_closure_destroy(EsClosure *closure) {
    if (closure != NULL) {
        es_release(closure->atoms);
        es_release(closure->keys);
        es_release(closure);
    }
}

int32_t es_closure_count_queries(const EsClosure *closure, EsKgSplit split) {
    const EsQuerySplit *queries = &closure->graph->splits[split];
    int32_t n = 0;
    for (int32_t i = 0; i < queries->count; i++) {
        n += es_closure_has(closure, queries->atoms[i]);
    }
    return n;
}
