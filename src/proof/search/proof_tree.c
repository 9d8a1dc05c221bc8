// The tree grows along the states: `open` holds the nodes still to be proved in the order of the
// state's atoms. Its terms are constants or variables of the whole proof, which are bound once and
// for all; the variables of the states are numbered anew in each. A step that gives the right state
// up to names is as good as any other that does, so the first one found is taken.
#include "proof/search/proof_tree.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "proof/graph/text_line.h"
#include "proof/search/goal_table.h"
#include "proof/search/proof_array.h"

typedef struct Build {
    const EsKnowledgeGraph *graph;
    const EsAtom *query;
    EsProofNode *nodes; // as in the tree, with variables
    int32_t n_nodes;
    int32_t open[ES_PROOF_MAX_ATOMS + ES_HORN_MAX_BODY]; // nodes
    int32_t n_open;
    // variable C + 1 + i is bound to bound[i], 0: free                               (capacity)
    int32_t *bound, *saved;
    int32_t n_variables;
} Build;

// The point that a failed step goes back to.
typedef struct Mark {
    int32_t open[ES_PROOF_MAX_ATOMS];
    int32_t n_open, n_nodes, n_variables, selected;
} Mark;

// --- terms ---

static int32_t value_of(const Build *build, int32_t term) {
    while (term > build->graph->n_constants) {
        int32_t bound = build->bound[term - build->graph->n_constants - 1];
        if (bound == 0) {
            return term;
        }
        term = bound;
    }
    return term;
}

static EsWideAtom atom_of(const Build *build, int32_t node) {
    EsWideAtom atom = build->nodes[node].whole;
    for (int i = 0; i < build->graph->arities[atom.cells->predicate]; i++) {
        es_atom_set_term(atom.cells, i, value_of(build, es_atom_term(atom.cells, i)));
    }
    return atom;
}

static int unify(Build *build, int32_t x, int32_t y) {
    int32_t n_constants = build->graph->n_constants;
    x = value_of(build, x);
    y = value_of(build, y);
    if (x == y) {
        return 1;
    }
    if (x <= n_constants && y <= n_constants) {
        return 0;
    }
    int32_t variable = x > n_constants ? x : y;
    build->bound[variable - n_constants - 1] = x > n_constants ? y : x;
    return 1;
}

// --- steps ---

static Mark set_mark(Build *build, int32_t selected) {
    Mark mark = {.n_open = build->n_open,
                 .n_nodes = build->n_nodes,
                 .n_variables = build->n_variables,
                 .selected = selected};
    memcpy(mark.open, build->open, (size_t)build->n_open * sizeof *mark.open);
    memcpy(build->saved, build->bound, (size_t)build->n_variables * sizeof *build->bound);
    return mark;
}

static void go_back(Build *build, const Mark *mark) {
    build->n_nodes = mark->n_nodes;
    build->n_variables = mark->n_variables;
    memcpy(build->bound, build->saved, (size_t)mark->n_variables * sizeof *build->bound);
}

// Returns whether an atom needs no proof: a fact that may be used or a comparison that is true.
static int holds(const EsKnowledgeGraph *graph, const EsAtom *atom, const EsAtom *query) {
    if (!es_kg_is_test(graph, atom->predicate)) {
        return es_proof_holds(graph, atom, query);
    }
    return es_proof_is_ground(graph, atom) && es_kg_test_holds(graph, atom);
}

// Gives the variables of an atom the names of a state, by first occurrence.
static void rename_variables(const EsKnowledgeGraph *graph, EsAtom *atom, int32_t *names,
                             int32_t *n_names) {
    for (int i = 0; i < graph->arities[atom->predicate]; i++) {
        int32_t term = es_atom_term(atom, i), k = 0;
        if (term > graph->n_constants) {
            while (k < *n_names && names[k] != term) {
                k++;
            }
            if (k == *n_names) {
                names[(*n_names)++] = term;
            }
            es_atom_set_term(atom, i, graph->n_constants + 1 + k);
        }
    }
}

// The nodes from first_new on and then the rest, without those that are facts, must be the state
// `wanted` up to the names of variables; an empty one stands for True.
static int opens_as(Build *build, const Mark *mark, EsAtomSpan wanted) {
    const EsKnowledgeGraph *graph = build->graph;
    int32_t names[2 * ES_PROOF_MAX_ATOMS];
    int32_t n_names = 0, n_cells = 0, n_new = build->n_nodes - mark->n_nodes;
    build->n_open = 0;
    for (int32_t i = 0; i < n_new + mark->n_open; i++) {
        int32_t node = i < n_new ? mark->n_nodes + i : mark->open[i - n_new];
        if (i - n_new == mark->selected) {
            continue;
        }
        EsWideAtom atom = atom_of(build, node);
        int32_t n_more = es_kg_cells(graph, atom.cells->predicate);
        if (holds(graph, atom.cells, build->query)) {
            continue;
        }
        if (n_cells + n_more > wanted.count) {
            return 0;
        }
        rename_variables(graph, atom.cells, names, &n_names);
        if (!es_goals_equal(atom.cells, wanted.atoms + n_cells, n_more)) {
            return 0;
        }
        n_cells += n_more;
        build->open[build->n_open++] = node;
    }
    return n_cells == wanted.count;
}

// A term of a rule whose variables follow `base` in the proof.
static int32_t rule_term(int32_t base, int32_t term) { return term < 0 ? base - term : term; }

static int unify_atoms(Build *build, const EsAtom *x, const EsAtom *y) {
    for (int i = 0; i < build->graph->arities[x->predicate]; i++) {
        if (!unify(build, es_atom_term(x, i), es_atom_term(y, i))) {
            return 0;
        }
    }
    return 1;
}

// An atom of a rule in the variables of the proof.
static EsWideAtom rule_atom(const Build *build, int32_t base, const EsAtom *atom) {
    int32_t terms[ES_KG_MAX_ARITY];
    int arity = build->graph->arities[atom->predicate];
    for (int i = 0; i < arity; i++) {
        terms[i] = rule_term(base, es_atom_term(atom, i));
    }
    return es_wide_atom_make(atom->predicate, terms, arity);
}

static int try_rule(Build *build, const Mark *mark, const EsHornRule *rule, EsAtomSpan wanted) {
    int32_t goal = mark->open[mark->selected],
            base = build->graph->n_constants + build->n_variables;
    EsWideAtom atom = atom_of(build, goal);
    memset(build->bound + build->n_variables, 0, (size_t)rule->n_variables * sizeof *build->bound);
    build->n_variables += rule->n_variables;
    const EsKnowledgeGraph *graph = build->graph;
    for (int k = 0; k < rule->n_body; k += es_kg_cells(graph, rule->body[k].predicate)) {
        int is_test = es_kg_is_test(graph, rule->body[k].predicate);
        build->nodes[build->n_nodes++] =
            (EsProofNode){.whole = rule_atom(build, base, &rule->body[k]),
                          .rule = is_test ? ES_PROOF_NODE_TEST : ES_PROOF_NODE_FACT};
    }
    EsWideAtom head = rule_atom(build, base, &rule->head);
    if (unify_atoms(build, head.cells, atom.cells) && opens_as(build, mark, wanted)) {
        build->nodes[goal].rule = (int32_t)(rule - build->graph->rules);
        build->nodes[goal].first = mark->n_nodes;
        return 1;
    }
    go_back(build, mark);
    return 0;
}

static int try_fact(Build *build, const Mark *mark, const EsAtom *fact, EsAtomSpan wanted) {
    EsWideAtom atom = atom_of(build, mark->open[mark->selected]);
    int n_cells = es_kg_cells(build->graph, fact->predicate);
    int is_query =
        fact->predicate == build->query->predicate && es_goals_equal(fact, build->query, n_cells);
    if (!is_query && unify_atoms(build, atom.cells, fact) && opens_as(build, mark, wanted)) {
        return 1;
    }
    go_back(build, mark);
    return 0;
}

static int take_step(Build *build, const Mark *mark, EsAtomSpan wanted) {
    const EsKnowledgeGraph *graph = build->graph;
    EsWideAtom atom = atom_of(build, mark->open[mark->selected]);
    const EsAtom *goal = atom.cells;
    int32_t n_rules;
    const EsHornRule *rules = es_kg_rules_of(graph, goal->predicate, &n_rules);
    for (int32_t r = 0; r < n_rules; r++) {
        if (try_rule(build, mark, &rules[r], wanted)) {
            return 1;
        }
    }
    if (es_proof_is_ground(graph, goal)) {
        return es_kg_is_fact(graph, goal) && try_fact(build, mark, goal, wanted);
    }
    int is_wide = es_kg_cells(graph, goal->predicate) == 2;
    EsAtomSpan facts = {NULL, 0};
    EsWideSpan wide = {NULL, 0, 0};
    if (is_wide) {
        wide = es_kg_wide_facts(graph, goal);
    } else {
        facts = es_proof_matching_facts(graph, *goal);
    }
    int32_t n_facts = is_wide ? wide.end - wide.begin : facts.count;
    for (int32_t i = 0; i < n_facts; i++) {
        const EsAtom *fact =
            is_wide ? graph->wide.atoms + 2 * (size_t)wide.order[wide.begin + i] : &facts.atoms[i];
        if (try_fact(build, mark, fact, wanted)) {
            return 1;
        }
    }
    return 0;
}

// --- the tree ---

static EsStatus check_states(const EsKnowledgeGraph *graph, const EsAtomSpan *states,
                             int32_t n_states) {
    if (n_states < 1 || states[0].count < 1 || states[0].atoms[0].predicate < 0 ||
        states[0].atoms[0].predicate > graph->n_predicates ||
        states[0].count != es_kg_cells(graph, states[0].atoms[0].predicate)) {
        return ES_FAIL(ARGUMENT, "a proof of %d states; the first must be the query alone",
                       n_states);
    }
    for (int32_t i = 0; i < n_states; i++) {
        if (states[i].count < 1 || states[i].count > ES_PROOF_MAX_ATOMS) {
            return ES_FAIL(ARGUMENT, "state %d of a proof has %d atoms, expected 1 to %d", i,
                           states[i].count, ES_PROOF_MAX_ATOMS);
        }
    }
    return es_proof_check_query(graph, states[0].atoms);
}

// Atoms in cells.
static int32_t count_atoms(const EsKnowledgeGraph *graph, const EsAtom *cells, int32_t n_cells) {
    int32_t n = 0;
    for (int32_t i = 0; i < n_cells; i += es_kg_cells(graph, cells[i].predicate)) {
        n++;
    }
    return n;
}

static EsStatus follow_states(Build *build, EsGoalSelection selection, const EsAtomSpan *states,
                              int32_t n_states) {
    const EsKnowledgeGraph *graph = build->graph;
    build->nodes[0] = (EsProofNode){.rule = ES_PROOF_NODE_FACT};
    memcpy(build->nodes[0].cells, build->query,
           (size_t)es_kg_cells(graph, build->query->predicate) * sizeof(EsAtom));
    build->n_nodes = build->n_open = 1;
    build->open[0] = 0;
    for (int32_t i = 0; i < n_states; i++) {
        EsAtomSpan wanted = {NULL, 0};
        if (i + 1 < n_states) {
            wanted = states[i + 1];
        }
        int32_t selected = es_proof_select(graph, states[i].atoms, states[i].count, selection);
        Mark mark = set_mark(build, count_atoms(graph, states[i].atoms, selected));
        if (!take_step(build, &mark, wanted)) {
            return ES_FAIL(ARGUMENT, "state %d of %d of a proof is not followed by the next one", i,
                           n_states);
        }
    }
    for (int32_t i = 0; i < build->n_nodes; i++) {
        build->nodes[i].whole = atom_of(build, i);
    }
    return ES_STATUS_OK;
}

EsStatus es_proof_tree_create(const EsKnowledgeGraph *graph, EsGoalSelection selection,
                              const EsAtomSpan *states, int32_t n_states, EsProofTree **tree) {
    *tree = NULL;
    ES_TRY(check_states(graph, states, n_states));
    Build build;
    memset(&build, 0, sizeof build);
    build.graph = graph;
    build.query = states[0].atoms;
    // one rule per step, and one more that is tried and given up
    size_t n_steps = (size_t)n_states + 1, bytes = 0;
    size_t nodes = es_slab_add(&bytes, (1 + n_steps * ES_HORN_MAX_BODY) * sizeof *build.nodes);
    size_t bound = es_slab_add(&bytes, n_steps * ES_HORN_MAX_VARIABLES * sizeof *build.bound);
    size_t saved = es_slab_add(&bytes, n_steps * ES_HORN_MAX_VARIABLES * sizeof *build.saved);
    void *memory = NULL, *made = NULL, *kept = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_allocate(bytes, &memory));
    build.nodes = (void *)((unsigned char *)memory + nodes);
    build.bound = (void *)((unsigned char *)memory + bound);
    build.saved = (void *)((unsigned char *)memory + saved);
    ES_TRY_GOTO(follow_states(&build, selection, states, n_states));
    ES_TRY_GOTO(es_allocate((size_t)build.n_nodes * sizeof *build.nodes, &kept));
    ES_TRY_GOTO(es_allocate(sizeof **tree, &made));
    memcpy(kept, build.nodes, (size_t)build.n_nodes * sizeof *build.nodes);
    *tree = made;
    **tree = (EsProofTree){graph, kept, build.n_nodes};
    kept = NULL;
done:
    es_release(memory);
    es_release(kept);
    return status;
}

void es_proof_tree_destroy(EsProofTree *tree) {
    if (tree != NULL) {
        es_release(tree->nodes);
        es_release(tree);
    }
}

// --- checking ---

static int match_term(int32_t *terms, int32_t pattern, int32_t term) {
    if (pattern >= 0) {
        return pattern == term;
    }
    int32_t *bound = &terms[-1 - pattern];
    *bound = *bound != 0 ? *bound : term;
    return *bound == term;
}

static int match(const EsKnowledgeGraph *graph, int32_t *terms, const EsAtom *pattern,
                 const EsAtom *atom) {
    int is_same = pattern->predicate == atom->predicate;
    for (int i = 0; i < graph->arities[pattern->predicate] && is_same; i++) {
        is_same = match_term(terms, es_atom_term(pattern, i), es_atom_term(atom, i));
    }
    return is_same;
}

// A node without children.
static EsStatus check_leaf(const EsProofTree *tree, int32_t i) {
    const EsKnowledgeGraph *graph = tree->graph;
    EsProofNode node = tree->nodes[i];
    int is_test = es_kg_is_test(graph, node.atom.predicate);
    if (is_test != (node.rule == ES_PROOF_NODE_TEST) || i == 0) {
        return ES_FAIL(INPUT, "node %d of a proof cannot be a leaf", i);
    }
    if (!holds(graph, node.cells, tree->nodes[0].cells)) {
        return is_test ? ES_FAIL(INPUT, "node %d of a proof is a comparison that does not hold", i)
                       : ES_FAIL(INPUT,
                                 "node %d of a proof is a leaf, but no fact that may be used", i);
    }
    return ES_STATUS_OK;
}

static EsStatus check_node(const EsProofTree *tree, int32_t i) {
    const EsKnowledgeGraph *graph = tree->graph;
    EsProofNode node = tree->nodes[i];
    if (!es_kg_is_ground(graph, node.cells)) {
        return ES_FAIL(INPUT, "node %d of a proof is not a ground atom of the graph", i);
    }
    if (node.rule == ES_PROOF_NODE_FACT || node.rule == ES_PROOF_NODE_TEST) {
        return check_leaf(tree, i);
    }
    if (node.rule < 0 || node.rule >= graph->n_rules || node.first <= i ||
        node.first > tree->count - es_kg_count_body(graph, &graph->rules[node.rule])) {
        return ES_FAIL(INPUT,
                       "node %d of a proof has rule %d and children from %d, which cannot be", i,
                       node.rule, node.first);
    }
    const EsHornRule *rule = &graph->rules[node.rule];
    int32_t terms[ES_HORN_MAX_VARIABLES] = {0};
    int follows = match(graph, terms, &rule->head, node.cells);
    int32_t child = node.first;
    for (int k = 0; k < rule->n_body && follows; k += es_kg_cells(graph, rule->body[k].predicate)) {
        follows = match(graph, terms, &rule->body[k], tree->nodes[child++].cells);
    }
    return follows
               ? ES_STATUS_OK
               : ES_FAIL(INPUT, "node %d of a proof does not follow from its children by rule %d",
                         i, node.rule);
}

EsStatus es_proof_tree_check(const EsProofTree *tree) {
    void *memory;
    ES_TRY(es_allocate((size_t)ES_MAX(tree->count, 1), &memory));
    unsigned char *is_child = memory;
    EsStatus status = tree->count < 1 ? ES_FAIL(INPUT, "a proof without nodes") : ES_STATUS_OK;
    for (int32_t i = 0; i < tree->count && status == ES_STATUS_OK; i++) {
        const EsProofNode *node = &tree->nodes[i];
        status = check_node(tree, i);
        int is_leaf = status != ES_STATUS_OK || node->rule < 0;
        int n_body = is_leaf ? 0 : es_kg_count_body(tree->graph, &tree->graph->rules[node->rule]);
        for (int k = 0; k < n_body && status == ES_STATUS_OK; k++) {
            unsigned char *is_taken = &is_child[node->first + k];
            status = *is_taken
                         ? ES_FAIL(INPUT, "node %d of a proof has two parents", node->first + k)
                         : ES_STATUS_OK;
            *is_taken = 1;
        }
    }
    for (int32_t i = 1; i < tree->count && status == ES_STATUS_OK; i++) {
        status = is_child[i] ? ES_STATUS_OK : ES_FAIL(INPUT, "node %d of a proof has no parent", i);
    }
    es_release(memory);
    return status;
}

// --- text ---

int es_proof_node_children(const EsProofTree *tree, int32_t node) {
    int32_t rule = tree->nodes[node].rule;
    return rule < 0 ? 0 : es_kg_count_body(tree->graph, &tree->graph->rules[rule]);
}

int es_proof_node_reason(const EsProofTree *tree, int32_t node, char *text, size_t bytes) {
    const EsKnowledgeGraph *graph = tree->graph;
    const EsProofNode *at = &tree->nodes[node];
    if (at->rule == ES_PROOF_NODE_FACT) {
        return snprintf(text, bytes, "fact");
    }
    if (at->rule == ES_PROOF_NODE_TEST) {
        int is_negation = graph->test_of[at->atom.predicate] == ES_KG_NEGATION;
        return snprintf(text, bytes, "%s", is_negation ? "does not follow" : "comparison");
    }
    const EsHornRule *rule = &graph->rules[at->rule];
    int n = snprintf(text, bytes, "rule %d: ", rule->line);
    size_t used = ES_MIN((size_t)n, bytes);
    return n + es_horn_rule_format(graph, rule, used < bytes ? text + used : NULL, bytes - used);
}

// Counts what was written behind a text under construction, and makes one line of it.
static void take_written(EsTextOut *out, int n_written) {
    size_t end = ES_MIN(out->length + (size_t)n_written + 1, out->bytes);
    for (size_t i = out->length; i + 1 < end; i++) {
        unsigned char byte = (unsigned char)out->at[i];
        out->at[i] = byte < 0x20 || byte == 0x7f ? '?' : out->at[i];
    }
    out->length += (size_t)n_written;
}

// The node and all below it.
static void write_node(const EsProofTree *tree, int32_t node, int level, EsTextOut *out) {
    for (int i = 0; i < level; i++) {
        es_text_out_add_text(out, "  ");
    }
    size_t used = ES_MIN(out->length, out->bytes);
    take_written(out,
                 es_kg_format_atom(tree->graph, tree->nodes[node].cells,
                                   used < out->bytes ? out->at + used : NULL, out->bytes - used));
    es_text_out_add_text(out, "\t");
    used = ES_MIN(out->length, out->bytes);
    take_written(out, es_proof_node_reason(tree, node, used < out->bytes ? out->at + used : NULL,
                                           out->bytes - used));
    es_text_out_add_text(out, "\n");
    for (int k = 0; k < es_proof_node_children(tree, node); k++) {
        write_node(tree, tree->nodes[node].first + k, level + 1, out);
    }
}

int es_proof_tree_format(const EsProofTree *tree, char *text, size_t bytes) {
    EsTextOut out = {text, bytes, 0};
    write_node(tree, 0, 0, &out);
    return es_text_out_end(&out);
}

// --- the shortest proof ---
//
// The search of prover.c once more, with the way kept. The prover says first whether there is a
// proof and how long it is, which leaves out most states.

// Origin of a state.
typedef struct Origin {
    int32_t parent; // number of the state before, -1: none
    int32_t n_steps;
} Origin;

typedef struct Search {
    const EsKnowledgeGraph *graph;
    EsProofSettings settings;
    const EsAtom *query;
    EsGoalTable goals;
    Origin *origins; // of each state; owned
    int64_t capacity;
    EsSuccessors successors;
} Search;

static EsStatus add_state(Search *search, EsAtomSpan state, uint64_t hash, Origin origin) {
    int32_t n_before = search->goals.count, number;
    ES_TRY(es_goal_table_add(&search->goals, state.atoms, state.count, hash, &number));
    if (number < n_before) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_proof_array_grow((void **)&search->origins, sizeof origin, number,
                               (int64_t)number + 1, &search->capacity));
    search->origins[number] = origin;
    return ES_STATUS_OK;
}

// The number of the last state before True of a proof of `depth` steps, which there is.
static EsStatus find_last(Search *search, int32_t depth, int32_t *last) {
    EsSuccessors *successors = &search->successors;
    EsAtomSpan first = {search->query, es_kg_cells(search->graph, search->query->predicate)};
    ES_TRY(add_state(search, first, es_proof_hash(first.atoms, first.count), (Origin){-1, 0}));
    for (int32_t i = 0; i < search->goals.count; i++) {
        int32_t n_steps = search->origins[i].n_steps + 1;
        EsAtomSpan state = es_goal_table_at(&search->goals, i);
        es_proof_expand(search->graph, &search->settings, search->query, state.atoms, state.count,
                        NULL, successors);
        ES_ASSERT(successors->n_overflow == 0);
        if (successors->outcome == ES_PROOF_PROVED) {
            *last = i;
            return ES_STATUS_OK;
        }
        for (int32_t k = 0; k < successors->count && n_steps < depth; k++) {
            EsAtomSpan next = es_successor(successors, k);
            if (successors->outcome == ES_PROOF_OPEN &&
                es_proof_may_end(search->graph, next, depth - n_steps)) {
                ES_TRY(add_state(search, next, successors->hash[k], (Origin){i, n_steps}));
            }
        }
    }
    return ES_FAIL(NUMERIC, "the proof of %d steps that the prover found is not there", depth);
}

static EsStatus make_tree(const Search *search, int32_t last, EsProofTree **tree) {
    int32_t n_states = search->origins[last].n_steps + 1;
    void *memory;
    ES_TRY(es_allocate((size_t)n_states * sizeof(EsAtomSpan), &memory));
    EsAtomSpan *way = memory;
    for (int32_t i = last, k = n_states; i >= 0; i = search->origins[i].parent) {
        way[--k] = es_goal_table_at(&search->goals, i);
    }
    EsStatus status =
        es_proof_tree_create(search->graph, search->settings.selection, way, n_states, tree);
    es_release(memory);
    return status;
}

EsStatus es_proof_tree_find(const EsKnowledgeGraph *graph, const EsProverSettings *settings,
                            const EsAtom *query, EsProofTree **tree, EsProverAnswer *answer) {
    *tree = NULL;
    EsProver *prover = NULL;
    ES_ASSERT(!settings->uses_published_naming);
    ES_TRY(es_prover_create(graph, settings, &prover));
    EsStatus status = es_prover_find_depth(prover, query, answer);
    es_prover_destroy(prover);
    if (status != ES_STATUS_OK || answer->depth < 1) {
        return status;
    }
    Search search;
    memset(&search, 0, sizeof search);
    search.graph = graph;
    search.query = query;
    search.settings = (EsProofSettings){.selection = settings->selection,
                                        .max_atoms = settings->max_atoms,
                                        .max_states = es_proof_max_candidates(graph)};
    int32_t last = 0;
    ES_TRY_GOTO(
        es_successors_create(search.settings.max_states, settings->max_atoms, &search.successors));
    ES_TRY_GOTO(find_last(&search, answer->depth, &last));
    ES_TRY_GOTO(make_tree(&search, last, tree));
done:
    es_successors_destroy(&search.successors);
    es_goal_table_destroy(&search.goals);
    es_release(search.origins);
    return status;
}

// --- first derivations ---

// A tree that grows, and the closure's number of each node's atom among those of its predicate.
typedef struct Unfolding {
    const EsClosure *closure;
    EsProofNode *nodes; // owned
    int32_t *numbers;   // owned
    int64_t count, node_capacity, number_capacity;
} Unfolding;

// `number` is of no use for a test.
static EsStatus add_node(Unfolding *unfolding, EsWideAtom atom, int32_t kind, int32_t number) {
    int64_t n = unfolding->count;
    ES_TRY(es_proof_array_grow((void **)&unfolding->nodes, sizeof *unfolding->nodes, n, n + 1,
                               &unfolding->node_capacity));
    ES_TRY(es_proof_array_grow((void **)&unfolding->numbers, sizeof *unfolding->numbers, n, n + 1,
                               &unfolding->number_capacity));
    unfolding->nodes[n] = (EsProofNode){.whole = atom, .rule = kind};
    unfolding->numbers[n] = number;
    unfolding->count++;
    return ES_STATUS_OK;
}

// Find the terms of a rule's variables from the atoms of a derivation. Tests have no number in it
// and no variable of their own.
static void bind_derivation(const EsClosure *closure, const EsHornRule *rule,
                            const int32_t *numbers, int32_t *terms) {
    const EsKnowledgeGraph *graph = closure->graph;
    for (int k = 0; k < rule->n_body; k += es_kg_cells(graph, rule->body[k].predicate)) {
        const EsAtom *body = &rule->body[k];
        if (!es_kg_is_test(graph, body->predicate)) {
            EsWideAtom atom = es_closure_atom(closure, body->predicate, *numbers++);
            match(graph, terms, body, atom.cells);
        }
    }
}

// An atom of a rule with its variables bound.
static EsWideAtom bound_atom(const EsKnowledgeGraph *graph, const int32_t *bound,
                             const EsAtom *atom) {
    int32_t terms[ES_KG_MAX_ARITY];
    int arity = graph->arities[atom->predicate];
    for (int i = 0; i < arity; i++) {
        int32_t term = es_atom_term(atom, i);
        terms[i] = term < 0 ? bound[-1 - term] : term;
    }
    return es_wide_atom_make(atom->predicate, terms, arity);
}

// Put the body of a node's derivation behind all nodes.
static EsStatus unfold_node(Unfolding *unfolding, int64_t i) {
    const EsKnowledgeGraph *graph = unfolding->closure->graph;
    if (unfolding->nodes[i].rule == ES_PROOF_NODE_TEST) {
        return ES_STATUS_OK;
    }
    EsDerivation derivation = es_datalog_derivation(
        unfolding->closure->datalog, unfolding->nodes[i].atom.predicate, unfolding->numbers[i]);
    if (derivation.rule < 0) {
        return ES_STATUS_OK;
    }
    const EsHornRule *rule = &graph->rules[derivation.rule];
    int32_t terms[ES_HORN_MAX_VARIABLES] = {0};
    bind_derivation(unfolding->closure, rule, derivation.body, terms);
    unfolding->nodes[i].rule = derivation.rule;
    unfolding->nodes[i].first = (int32_t)unfolding->count;
    const int32_t *number = derivation.body;
    for (int k = 0; k < rule->n_body; k += es_kg_cells(graph, rule->body[k].predicate)) {
        EsWideAtom atom = bound_atom(graph, terms, &rule->body[k]);
        if (es_kg_is_test(graph, rule->body[k].predicate)) {
            ES_TRY(add_node(unfolding, atom, ES_PROOF_NODE_TEST, 0));
        } else {
            ES_TRY(add_node(unfolding, atom, ES_PROOF_NODE_FACT, *number++));
        }
    }
    return ES_STATUS_OK;
}

EsStatus es_proof_tree_derive(const EsClosure *closure, const EsAtom *atom, EsProofTree **tree,
                              int *is_too_large) {
    *tree = NULL;
    *is_too_large = 0;
    int32_t number = es_closure_find(closure, atom);
    if (number < es_closure_count_facts(closure, atom->predicate)) {
        return ES_STATUS_OK;
    }
    Unfolding unfolding = {.closure = closure};
    void *made = NULL;
    EsStatus status = ES_STATUS_OK;
    EsWideAtom root = es_closure_atom(closure, atom->predicate, number);
    ES_TRY_GOTO(add_node(&unfolding, root, ES_PROOF_NODE_FACT, number));
    for (int64_t i = 0; i < unfolding.count && !*is_too_large; i++) {
        ES_TRY_GOTO(unfold_node(&unfolding, i));
        *is_too_large = unfolding.count > ES_PROOF_TREE_MAX_NODES;
    }
    if (*is_too_large) {
        goto done;
    }
    ES_TRY_GOTO(es_allocate(sizeof **tree, &made));
    *tree = made;
    **tree = (EsProofTree){closure->graph, unfolding.nodes, (int32_t)unfolding.count};
    unfolding.nodes = NULL;
done:
    es_release(unfolding.nodes);
    es_release(unfolding.numbers);
    return status;
}
