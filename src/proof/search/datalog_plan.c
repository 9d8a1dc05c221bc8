// The atom that new tuples come in by is first; then always the atom with the most known terms, of
// these the one with the fewest unknown, then the first of the body. A comparison or negated atom
// stands as early as its variables are known.
#include "proof/search/datalog_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

// --- checking ---

static const char *relation_name(const EsDatalogProgram *program, int32_t relation, char text[64]) {
    if (program->names != NULL) {
        return program->names[relation];
    }
    snprintf(text, 64, "relation %d", relation);
    return text;
}

static int n_terms(const EsDatalogProgram *program, const EsLiteral *literal) {
    return literal->kind <= ES_LITERAL_NOT ? program->arities[literal->relation] : 2;
}

static EsStatus check_literal(const EsDatalogProgram *program, const EsLiteral *literal,
                              int32_t rule) {
    if (literal->kind <= ES_LITERAL_NOT &&
        (literal->relation < 0 || literal->relation >= program->n_relations)) {
        return ES_FAIL(ARGUMENT, "rule %d has relation %d of %d", rule, literal->relation,
                       program->n_relations);
    }
    for (int i = 0; i < n_terms(program, literal); i++) {
        if (literal->terms[i] == 0 || literal->terms[i] > program->n_constants) {
            return ES_FAIL(ARGUMENT, "rule %d has constant %d of %d", rule, literal->terms[i],
                           program->n_constants);
        }
    }
    return ES_STATUS_OK;
}

// Returns whether an atom of the body that is not negated has the variable.
static int is_bound(const EsDatalogProgram *program, const EsDatalogRule *rule, int32_t variable) {
    for (int32_t k = 0; k < rule->n_body; k++) {
        for (int i = 0;
             rule->body[k].kind == ES_LITERAL_ATOM && i < n_terms(program, &rule->body[k]); i++) {
            if (rule->body[k].terms[i] == variable) {
                return 1;
            }
        }
    }
    return 0;
}

static EsStatus check_rule(const EsDatalogProgram *program, int32_t number) {
    const EsDatalogRule *rule = &program->rules[number];
    if (rule->head.kind != ES_LITERAL_ATOM) {
        return ES_FAIL(ARGUMENT, "the head of rule %d is no atom", number);
    }
    for (int32_t k = -1; k < rule->n_body; k++) {
        const EsLiteral *literal = k < 0 ? &rule->head : &rule->body[k];
        ES_TRY(check_literal(program, literal, number));
        for (int i = 0; i < n_terms(program, literal); i++) {
            if (literal->terms[i] < 0 && !is_bound(program, rule, literal->terms[i])) {
                return ES_FAIL(ARGUMENT,
                               "variable %d of rule %d is in no atom of its body that is not "
                               "negated",
                               -literal->terms[i], number);
            }
        }
    }
    return ES_STATUS_OK;
}

static EsStatus check_program(const EsDatalogProgram *program) {
    for (int32_t i = 0; i < program->n_relations; i++) {
        if (program->arities[i] < 0 || program->arities[i] > ES_DATALOG_MAX_ARITY) {
            return ES_FAIL(ARGUMENT, "relation %d has %d columns, at most %d are allowed", i,
                           program->arities[i], ES_DATALOG_MAX_ARITY);
        }
    }
    for (int32_t i = 0; i < program->n_rules; i++) {
        ES_TRY(check_rule(program, i));
    }
    return ES_STATUS_OK;
}

// --- strata ---

// The rule's body atom that lifted a relation to its stratum.
typedef struct Lift {
    int32_t relation;
    int is_negated;
} Lift;

// Writes "p <- not q <- p", the cycle through `relation` when the lifts are followed.
static EsStatus fail_cycle(const EsDatalogProgram *program, const Lift *lifts, int32_t relation) {
    // far enough back, everything is on the cycle
    for (int32_t i = 0; i < program->n_relations; i++) {
        relation = lifts[relation].relation;
    }
    char text[200] = "", number[64];
    size_t used = 0;
    int32_t at = relation;
    do {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s <- %s",
                                 relation_name(program, at, number),
                                 lifts[at].is_negated ? "not " : "");
        at = lifts[at].relation;
    } while (at != relation && used < sizeof text);
    return ES_FAIL(INPUT, "negation in a cycle, so that nothing is decided first: %s%s",
                   used < sizeof text ? text : "a long one with ",
                   relation_name(program, relation, number));
}

static int lift_heads(const EsDatalogProgram *program, int32_t *strata, Lift *lifts,
                      int32_t *highest) {
    int is_changed = 0;
    for (int32_t r = 0; r < program->n_rules; r++) {
        const EsDatalogRule *rule = &program->rules[r];
        int32_t head = rule->head.relation;
        for (int32_t k = 0; k < rule->n_body; k++) {
            const EsLiteral *literal = &rule->body[k];
            int is_negated = literal->kind == ES_LITERAL_NOT;
            if (literal->kind <= ES_LITERAL_NOT &&
                strata[literal->relation] + is_negated > strata[head]) {
                strata[head] = strata[literal->relation] + is_negated;
                lifts[head] = (Lift){literal->relation, is_negated};
                *highest = strata[head] > strata[*highest] ? head : *highest;
                is_changed = 1;
            }
        }
    }
    return is_changed;
}

EsStatus es_datalog_stratify(const EsDatalogProgram *program, int32_t *strata) {
    void *memory;
    size_t n = (size_t)ES_MAX(program->n_relations, 1);
    ES_TRY(es_allocate(n * sizeof(Lift), &memory));
    Lift *lifts = memory;
    int32_t highest = 0;
    memset(strata, 0, n * sizeof *strata);
    EsStatus status = ES_STATUS_OK;
    while (lift_heads(program, strata, lifts, &highest)) {
        if (strata[highest] >= program->n_relations) {
            status = fail_cycle(program, lifts, highest);
            break;
        }
    }
    es_release(memory);
    return status;
}

// --- plans ---

typedef struct Planner {
    const EsDatalogProgram *program;
    EsTupleRelation *relations;
    EsPlans *plans;
    int32_t *variables; // of the rule at hand: their names by place; room for all
    int32_t n_variables;
    unsigned char *is_known; // by place
    unsigned char *is_done;  // by literal of the body
    int32_t n_steps;         // of all plans
} Planner;

// The place of a variable in the bindings.
static int32_t place_of(Planner *planner, int32_t variable) {
    int32_t i = 0;
    while (i < planner->n_variables && planner->variables[i] != variable) {
        i++;
    }
    if (i == planner->n_variables) {
        planner->variables[planner->n_variables++] = variable;
        planner->is_known[i] = 0;
    }
    return i;
}

static int is_known(Planner *planner, int32_t term) {
    return term > 0 || planner->is_known[place_of(planner, term)];
}

static int32_t key_term(Planner *planner, int32_t term) {
    return term > 0 ? term : -1 - place_of(planner, term);
}

static int32_t literal_place(const EsDatalogRule *rule, int32_t k) {
    int32_t place = 0;
    for (int32_t i = 0; i < k; i++) {
        place += rule->body[i].kind == ES_LITERAL_ATOM;
    }
    return place;
}

// Split the columns of an atom into those with known terms and those that give variables. `columns`
// become the known ones.
static void split_columns(Planner *planner, const EsLiteral *literal, EsStep *step, int *columns) {
    int32_t arity = planner->program->arities[literal->relation];
    for (int i = 0; i < arity; i++) {
        if (is_known(planner, literal->terms[i])) {
            columns[step->n_key] = i;
            step->key[step->n_key++] = key_term(planner, literal->terms[i]);
        }
    }
    for (int i = 0; i < arity; i++) {
        int32_t term = literal->terms[i];
        if (term < 0 && !planner->is_known[place_of(planner, term)]) {
            EsColumnUse use = {i, place_of(planner, term)};
            int is_again = 0;
            for (int j = 0; j < step->n_set; j++) {
                is_again |= step->set[j].variable == use.variable;
            }
            if (is_again) {
                step->same[step->n_same++] = use;
            } else {
                step->set[step->n_set++] = use;
            }
        }
    }
    for (int j = 0; j < step->n_set; j++) {
        planner->is_known[step->set[j].variable] = 1;
    }
}

static EsStep *add_step(Planner *planner, EsPlan *plan, int32_t k) {
    EsStep *step = &planner->plans->steps[planner->n_steps++];
    const EsLiteral *literal = &planner->program->rules[plan->rule].body[k];
    memset(step, 0, sizeof *step);
    step->literal = literal->kind;
    step->relation = literal->relation;
    step->place = literal_place(&planner->program->rules[plan->rule], k);
    plan->n_steps++;
    planner->is_done[k] = 1;
    return step;
}

// Adds all comparisons and negated atoms whose variables are known.
static void add_tests(Planner *planner, EsPlan *plan) {
    const EsDatalogRule *rule = &planner->program->rules[plan->rule];
    for (int32_t k = 0; k < rule->n_body; k++) {
        const EsLiteral *literal = &rule->body[k];
        int n = n_terms(planner->program, literal), n_known = 0;
        for (int i = 0; i < n; i++) {
            n_known += is_known(planner, literal->terms[i]);
        }
        if (planner->is_done[k] || literal->kind == ES_LITERAL_ATOM || n_known < n) {
            continue;
        }
        EsStep *step = add_step(planner, plan, k);
        step->kind = literal->kind == ES_LITERAL_NOT ? ES_STEP_NOT : ES_STEP_COMPARE;
        for (int i = 0; i < n; i++) {
            step->key[step->n_key++] = key_term(planner, literal->terms[i]);
        }
    }
}

// The atom that is best looked up next, -1: all are done.
static int32_t choose_atom(Planner *planner, const EsDatalogRule *rule) {
    int32_t best = -1;
    int best_known = -1, best_unknown = 0;
    for (int32_t k = 0; k < rule->n_body; k++) {
        const EsLiteral *literal = &rule->body[k];
        if (planner->is_done[k] || literal->kind != ES_LITERAL_ATOM) {
            continue;
        }
        int n = n_terms(planner->program, literal), n_known = 0;
        for (int i = 0; i < n; i++) {
            n_known += is_known(planner, literal->terms[i]);
        }
        int is_whole = n_known == n, best_is_whole = best >= 0 && best_unknown == 0;
        if (best < 0 || is_whole > best_is_whole ||
            (is_whole == best_is_whole &&
             (n_known > best_known || (n_known == best_known && n - n_known < best_unknown)))) {
            best = k;
            best_known = n_known;
            best_unknown = n - n_known;
        }
    }
    return best;
}

static EsStatus add_atom(Planner *planner, EsPlan *plan, int32_t k, int32_t delta_k) {
    const EsLiteral *literal = &planner->program->rules[plan->rule].body[k];
    EsStep *step = add_step(planner, plan, k);
    int columns[ES_DATALOG_MAX_ARITY];
    split_columns(planner, literal, step, columns);
    step->sight = literal->relation != plan->delta ? ES_SIGHT_TAKEN
                                                   : (k < delta_k ? ES_SIGHT_BEFORE : ES_SIGHT_ALL);
    step->kind = step->n_key == planner->program->arities[literal->relation] ? ES_STEP_FIND
                 : step->n_key == 0                                          ? ES_STEP_SCAN
                                                                             : ES_STEP_INDEX;
    return step->kind == ES_STEP_INDEX
               ? es_tuple_index_create(&planner->relations[literal->relation], columns, step->n_key,
                                       &step->index)
               : ES_STATUS_OK;
}

// Plan a rule with new tuples for atom delta_k of its body, -1: a body without atoms.
static EsStatus plan_rule(Planner *planner, int32_t number, int32_t delta_k) {
    const EsDatalogRule *rule = &planner->program->rules[number];
    EsPlan *plan = &planner->plans->plans[planner->plans->count++];
    *plan = (EsPlan){.rule = number,
                     .stratum = planner->plans->strata[rule->head.relation],
                     .delta = delta_k < 0 ? -1 : rule->body[delta_k].relation,
                     .head = rule->head.relation,
                     .steps = &planner->plans->steps[planner->n_steps],
                     .n_places = literal_place(rule, rule->n_body)};
    planner->n_variables = 0;
    memset(planner->is_done, 0, (size_t)ES_MAX(rule->n_body, 1));
    if (delta_k >= 0) {
        EsStep *first = add_step(planner, plan, delta_k);
        split_columns(planner, &rule->body[delta_k], first, plan->columns);
    }
    add_tests(planner, plan);
    for (int32_t k; (k = choose_atom(planner, rule)) >= 0;) {
        ES_TRY(add_atom(planner, plan, k, delta_k));
        add_tests(planner, plan);
    }
    for (int i = 0; i < planner->program->arities[plan->head]; i++) {
        plan->head_terms[i] = key_term(planner, rule->head.terms[i]);
    }
    planner->plans->n_places = ES_MAX(planner->plans->n_places, plan->n_places);
    planner->plans->n_variables = ES_MAX(planner->plans->n_variables, planner->n_variables);
    return ES_STATUS_OK;
}

static int compare_plans(const void *left, const void *right) {
    const EsPlan *x = left, *y = right;
    const int32_t a[] = {x->stratum, x->delta, x->head, x->rule};
    const int32_t b[] = {y->stratum, y->delta, y->head, y->rule};
    for (size_t i = 0; i < ES_COUNT_OF(a); i++) {
        if (a[i] != b[i]) {
            return a[i] < b[i] ? -1 : 1;
        }
    }
    // one rule entered by several atoms: in the order they were planned
    return (x->steps > y->steps) - (x->steps < y->steps);
}

static EsStatus plan_all(Planner *planner) {
    const EsDatalogProgram *program = planner->program;
    for (int32_t r = 0; r < program->n_rules; r++) {
        const EsDatalogRule *rule = &program->rules[r];
        int n_atoms = literal_place(rule, rule->n_body);
        for (int32_t k = 0; k < rule->n_body; k++) {
            if (rule->body[k].kind == ES_LITERAL_ATOM) {
                ES_TRY(plan_rule(planner, r, k));
            }
        }
        if (n_atoms == 0) {
            ES_TRY(plan_rule(planner, r, -1));
        }
    }
    if (planner->plans->count > 0) {
        qsort(planner->plans->plans, (size_t)planner->plans->count, sizeof(EsPlan), compare_plans);
    }
    return ES_STATUS_OK;
}

EsStatus es_plans_begin(const EsDatalogProgram *program, EsTupleRelation *relations,
                        EsPlans *plans) {
    memset(plans, 0, sizeof *plans);
    ES_TRY(check_program(program));
    ES_TRY(es_allocate((size_t)ES_MAX(program->n_relations, 1) * sizeof *plans->strata,
                       (void **)&plans->strata));
    ES_TRY(es_datalog_stratify(program, plans->strata));
    for (int32_t i = 0; i < program->n_relations; i++) {
        plans->n_strata = ES_MAX(plans->n_strata, plans->strata[i] + 1);
    }
    size_t n_plans = 1, n_steps = 1, n_body = 1;
    for (int32_t r = 0; r < program->n_rules; r++) {
        size_t n = (size_t)ES_MAX(program->rules[r].n_body, 1);
        n_plans += n;
        n_steps += n * n;
        n_body = ES_MAX(n_body, n);
    }
    size_t n_variables = (n_body + 1) * ES_DATALOG_MAX_ARITY, bytes = 0;
    ES_TRY(es_allocate(n_plans * sizeof *plans->plans, (void **)&plans->plans));
    ES_TRY(es_allocate(n_steps * sizeof *plans->steps, (void **)&plans->steps));
    size_t variables = es_slab_add(&bytes, n_variables * sizeof(int32_t));
    size_t known = es_slab_add(&bytes, n_variables), done = es_slab_add(&bytes, n_body);
    void *memory;
    ES_TRY(es_allocate(bytes, &memory));
    unsigned char *room = memory;
    Planner planner = {.program = program,
                       .relations = relations,
                       .plans = plans,
                       .variables = (void *)(room + variables),
                       .is_known = room + known,
                       .is_done = room + done};
    EsStatus status = plan_all(&planner);
    es_release(memory);
    return status;
}

void es_plans_end(EsPlans *plans) {
    es_release(plans->plans);
    es_release(plans->steps);
    es_release(plans->strata);
    memset(plans, 0, sizeof *plans);
}
