// For each constant x the pairs (x,y) of a body are marked with a stamp, so that each counts once,
// and compared with the facts that begin with x, listed by y. Counts of all heads grow in the same
// pass.
#include "proof/search/rule_miner_count.h"

#include <string.h>

#include "base/memory.h"
#include "proof/search/proof_array.h"

// --- relations and bodies ---

// The second atom of a body whose first is r(x,y), in a chain or path r(x,z).
typedef enum BodyForm {
    BODY_ONE,    // there is none
    BODY_CHAIN,  // s(z,y)
    BODY_BOTH,   // s(x,y)
    BODY_FROM_X, // s(x,z)
    BODY_FROM_Y, // s(y,z)
    BODY_N_FORMS,
    BODY_PATH = BODY_N_FORMS // s(z,w), and a third, t(w,y); counted apart from the others
} BodyForm;

// A body at work.
typedef struct RuleBody {
    BodyForm form;
    int32_t first, second; // relations; second is -1 for BODY_ONE
    int32_t third;         // of BODY_PATH
} RuleBody;

static int32_t predicate_of(int32_t relation) { return relation / 2 + 1; }

static int is_reversed(int32_t relation) { return relation % 2; }

// The atom relation(u,v).
static EsAtom atom_of(int32_t relation, int32_t u, int32_t v) {
    int32_t predicate = predicate_of(relation);
    return is_reversed(relation) ? (EsAtom){predicate, v, u} : (EsAtom){predicate, u, v};
}

static int atoms_equal(EsAtom x, EsAtom y) { return es_atom_compare(&x, &y) == 0; }

// Position of a chain's z relative to x and y; an atom of the body can be the head only if z is one
// of them. A path is apart if both its inner constants are, and else Z_IS_X, whichever it is.
enum { Z_APART = 1, Z_IS_X = 2, Z_IS_Y = 4 };

static EsAtomSpan facts_from(const EsKnowledgeGraph *graph, int32_t relation, int32_t u) {
    int32_t predicate = predicate_of(relation);
    return is_reversed(relation) ? es_kg_facts_with_b(graph, predicate, u)
                                 : es_kg_facts_with_a(graph, predicate, u);
}

// The v of a fact relation(u,v).
static int32_t other_end(int32_t relation, EsAtom fact) {
    return is_reversed(relation) ? fact.a : fact.b;
}

// --- cells of the tables ---

static size_t n_rows_of(const EsKnowledgeGraph *graph) {
    return 1 + (BODY_N_FORMS - 1) * 2 * (size_t)graph->n_predicates;
}

static size_t row_of(const EsKnowledgeGraph *graph, const RuleBody *body) {
    size_t n_relations = 2 * (size_t)graph->n_predicates;
    if (body->form == BODY_PATH) {
        return (size_t)body->third;
    }
    return body->form == BODY_ONE
               ? 0
               : 1 + (size_t)(body->form - 1) * n_relations + (size_t)body->second;
}

static size_t cell_of(const EsKnowledgeGraph *graph, size_t row, int32_t head) {
    return row * ((size_t)graph->n_predicates + 1) + (size_t)head;
}

// Distinct predicates of the body, 0 where there are fewer.
static void list_touched(const RuleBody *body, int32_t touched[ES_RULE_COUNTER_TOUCHED]) {
    touched[0] = predicate_of(body->first);
    touched[1] = body->form == BODY_ONE ? 0 : predicate_of(body->second);
    touched[2] = body->form == BODY_PATH ? predicate_of(body->third) : 0;
    touched[2] = touched[2] == touched[0] || touched[2] == touched[1] ? 0 : touched[2];
    touched[1] = touched[1] == touched[0] ? 0 : touched[1];
}

// --- the heads of an x ---

static void add_head(EsRuleCounter *counter, int32_t x, int32_t y, int32_t head) {
    int is_first = counter->head_stamp[y] != x;
    counter->head_of[counter->n_heads] = head;
    counter->head_next[counter->n_heads] = is_first ? 0 : counter->first_head[y];
    counter->head_stamp[y] = x;
    counter->first_head[y] = ++counter->n_heads;
}

static void list_heads(EsRuleCounter *counter, int32_t x) {
    const EsKnowledgeGraph *graph = counter->graph;
    counter->n_heads = counter->n_closed_predicates = 0;
    for (int32_t h = 1; h <= graph->n_predicates; h++) {
        EsAtomSpan facts = es_kg_facts_with_a(graph, h, x);
        for (int32_t i = 0; i < facts.count; i++) {
            add_head(counter, x, facts.atoms[i].b, h);
        }
        if (facts.count > 0) {
            counter->closed[counter->n_closed_predicates++] = h;
        }
    }
    const EsAtom *kept = graph->splits[ES_KG_SPLIT_VALID].atoms;
    for (int32_t i = counter->kept_row[x]; i < counter->kept_row[x + 1]; i++) {
        add_head(counter, x, kept[i].b, -kept[i].predicate);
    }
}

// --- the pairs of a body ---

static void begin_pairs(EsRuleCounter *counter) {
    counter->n_y = 0;
    counter->stamp++;
}

static void add_pair(EsRuleCounter *counter, int32_t y, unsigned kinds) {
    if (counter->y_stamp[y] != counter->stamp) {
        counter->y_stamp[y] = counter->stamp;
        counter->y_list[counter->n_y++] = y;
        counter->y_kinds[y] = 0;
    }
    counter->y_kinds[y] = (unsigned char)(counter->y_kinds[y] | kinds);
}

// Returns whether the second atom, which has one end at u and the other free, can only be `head`.
static int has_no_other(const EsKnowledgeGraph *graph, int32_t relation, int32_t u, EsAtom head) {
    EsAtomSpan facts = facts_from(graph, relation, u);
    return facts.count == 1 && atoms_equal(facts.atoms[0], head);
}

// Returns whether every path from x to y uses the atom.
static int is_on_all_paths(const EsKnowledgeGraph *graph, const RuleBody *body, int32_t x,
                           int32_t y, EsAtom atom) {
    EsAtomSpan steps = facts_from(graph, body->first, x);
    for (int32_t i = 0; i < steps.count; i++) {
        int32_t z = other_end(body->first, steps.atoms[i]);
        EsAtomSpan next = facts_from(graph, body->second, z);
        for (int32_t k = 0; k < next.count && !atoms_equal(steps.atoms[i], atom); k++) {
            EsAtom last = atom_of(body->third, other_end(body->second, next.atoms[k]), y);
            if (!atoms_equal(next.atoms[k], atom) && !atoms_equal(last, atom) &&
                es_kg_has_fact(graph, last)) {
                return 0;
            }
        }
    }
    return 1;
}

// Returns whether (x,y) is given only by use of head(x,y) itself.
static int is_refused(const EsRuleCounter *counter, const RuleBody *body, int32_t x, int32_t y,
                      int32_t head) {
    EsAtom atom = {head, x, y};
    unsigned kinds = counter->y_kinds[y];
    if (body->form == BODY_PATH) {
        return (kinds & Z_APART) == 0 && is_on_all_paths(counter->graph, body, x, y, atom);
    }
    if (body->form != BODY_CHAIN && atoms_equal(atom_of(body->first, x, y), atom)) {
        return 1;
    }
    switch (body->form) {
    case BODY_BOTH:
        return atoms_equal(atom_of(body->second, x, y), atom);
    case BODY_FROM_X:
        return has_no_other(counter->graph, body->second, x, atom);
    case BODY_FROM_Y:
        return has_no_other(counter->graph, body->second, y, atom);
    case BODY_CHAIN:
        break;
    default:
        return 0;
    }
    for (int k = 0; k < 2 && (kinds & Z_APART) == 0; k++) {
        int32_t z = k == 0 ? x : y;
        if ((kinds & (k == 0 ? Z_IS_X : Z_IS_Y)) != 0 &&
            !atoms_equal(atom_of(body->first, x, z), atom) &&
            !atoms_equal(atom_of(body->second, z, y), atom)) {
            return 0;
        }
    }
    return (kinds & Z_APART) == 0;
}

// The place of a predicate among those of the body, -1: none.
static int place_of(const int32_t touched[ES_RULE_COUNTER_TOUCHED], int32_t predicate) {
    for (int k = 0; k < ES_RULE_COUNTER_TOUCHED; k++) {
        if (touched[k] == predicate) {
            return k;
        }
    }
    return -1;
}

// Count the pairs (x, y_list) of a body for all heads.
static void count_pairs(EsRuleCounter *counter, const RuleBody *body, int32_t x) {
    const EsKnowledgeGraph *graph = counter->graph;
    size_t row = row_of(graph, body);
    int32_t touched[ES_RULE_COUNTER_TOUCHED];
    int64_t n_refused[ES_RULE_COUNTER_TOUCHED] = {0};
    list_touched(body, touched);
    for (int32_t i = 0; i < counter->n_y; i++) {
        int32_t y = counter->y_list[i];
        unsigned refused = 0; // bits by place in touched
        for (int k = 0; k < ES_RULE_COUNTER_TOUCHED; k++) {
            int is_one = touched[k] != 0 && is_refused(counter, body, x, y, touched[k]);
            refused |= (unsigned)is_one << k;
            n_refused[k] += is_one;
        }
        int32_t entry = counter->head_stamp[y] == x ? counter->first_head[y] : 0;
        for (; entry != 0; entry = counter->head_next[entry - 1]) {
            int32_t signed_head = counter->head_of[entry - 1];
            int32_t head = signed_head < 0 ? -signed_head : signed_head;
            int place = place_of(touched, head);
            if (place < 0 || (refused >> place & 1) == 0) {
                int64_t *counts = signed_head < 0 ? counter->n_kept : counter->support;
                counts[cell_of(graph, row, head)]++;
            }
        }
    }
    counter->n_given[row] += counter->n_y;
    for (size_t k = 0; k < ES_RULE_COUNTER_TOUCHED; k++) {
        counter->n_refused[ES_RULE_COUNTER_TOUCHED * row + k] += n_refused[k];
    }
    for (int32_t i = 0; i < counter->n_closed_predicates && counter->n_y > 0; i++) {
        int32_t head = counter->closed[i];
        int place = place_of(touched, head);
        counter->n_closed[cell_of(graph, row, head)] +=
            counter->n_y - (place < 0 ? 0 : n_refused[place]);
    }
}

static void count_chain(EsRuleCounter *counter, EsAtomSpan steps, int32_t x, int32_t second) {
    const EsKnowledgeGraph *graph = counter->graph;
    begin_pairs(counter);
    for (int32_t i = 0; i < steps.count; i++) {
        int32_t z = other_end(counter->relation, steps.atoms[i]);
        EsAtomSpan next = facts_from(graph, second, z);
        for (int32_t k = 0; k < next.count; k++) {
            int32_t y = other_end(second, next.atoms[k]);
            unsigned kinds = (z == x ? Z_IS_X : 0u) | (z == y ? Z_IS_Y : 0u);
            add_pair(counter, y, kinds != 0 ? kinds : Z_APART);
        }
    }
    RuleBody body = {BODY_CHAIN, counter->relation, second, -1};
    count_pairs(counter, &body, x);
}

// Pairs that both relations hold of. `second` comes after the first, so that each two meet once.
static void count_both(EsRuleCounter *counter, EsAtomSpan steps, int32_t x, int32_t second) {
    EsAtomSpan other = facts_from(counter->graph, second, x);
    int32_t i = 0, k = 0;
    begin_pairs(counter);
    // both spans are sorted by their other end
    while (i < steps.count && k < other.count) {
        int32_t y = other_end(counter->relation, steps.atoms[i]);
        int32_t y_other = other_end(second, other.atoms[k]);
        if (y == y_other) {
            add_pair(counter, y, 0);
        }
        i += y <= y_other;
        k += y_other <= y;
    }
    RuleBody body = {BODY_BOTH, counter->relation, second, -1};
    count_pairs(counter, &body, x);
}

// Pairs of the first relation with an end that the second leaves too. Where the second is the first
// once more, it says nothing.
static void count_ends(EsRuleCounter *counter, EsAtomSpan steps, int32_t x, int32_t second) {
    const EsKnowledgeGraph *graph = counter->graph;
    int is_x_there = second != counter->relation && facts_from(graph, second, x).count > 0;
    begin_pairs(counter);
    for (int32_t i = 0; i < steps.count && is_x_there; i++) {
        add_pair(counter, other_end(counter->relation, steps.atoms[i]), 0);
    }
    RuleBody body = {BODY_FROM_X, counter->relation, second, -1};
    count_pairs(counter, &body, x);
    begin_pairs(counter);
    for (int32_t i = 0; i < steps.count && second != (counter->relation ^ 1); i++) {
        int32_t y = other_end(counter->relation, steps.atoms[i]);
        if (facts_from(graph, second, y).count > 0) {
            add_pair(counter, y, 0);
        }
    }
    body.form = BODY_FROM_Y;
    count_pairs(counter, &body, x);
}

static void count_one(EsRuleCounter *counter, EsAtomSpan steps, int32_t x) {
    begin_pairs(counter);
    for (int32_t i = 0; i < steps.count; i++) {
        add_pair(counter, other_end(counter->relation, steps.atoms[i]), 0);
    }
    RuleBody body = {BODY_ONE, counter->relation, -1, -1};
    count_pairs(counter, &body, x);
}

static void count_from(EsRuleCounter *counter, int32_t x, int max_body) {
    int32_t n_relations = 2 * counter->graph->n_predicates;
    EsAtomSpan steps = facts_from(counter->graph, counter->relation, x);
    if (steps.count == 0) {
        return;
    }
    list_heads(counter, x);
    count_one(counter, steps, x);
    for (int32_t second = 0; second < n_relations && max_body > 1; second++) {
        count_chain(counter, steps, x, second);
        count_ends(counter, steps, x, second);
        if (second > counter->relation) {
            count_both(counter, steps, x, second);
        }
    }
}

// --- rules worth listing ---

static EsStatus keep_rule(EsRuleCounter *counter, const EsMinedRule *rule) {
    if (counter->n_rules == INT32_MAX) {
        return ES_FAIL(MEMORY, "more than %d rules of one thread", counter->n_rules);
    }
    ES_TRY(es_proof_array_grow((void **)&counter->rules, sizeof *counter->rules, counter->n_rules,
                               (int64_t)counter->n_rules + 1, &counter->capacity));
    counter->rules[counter->n_rules++] = *rule;
    return ES_STATUS_OK;
}

// A head that is an atom of its own body says nothing.
static int is_empty_rule(const EsHornRule *rule) {
    for (int k = 0; k < rule->n_body; k++) {
        if (atoms_equal(rule->body[k], rule->head)) {
            return 1;
        }
    }
    return 0;
}

static EsHornRule make_path_rule(const RuleBody *body, int32_t head) {
    return (EsHornRule){.head = {head, -1, -2},
                        .body = {atom_of(body->first, -1, -3), atom_of(body->second, -3, -4),
                                 atom_of(body->third, -4, -2)},
                        .n_body = 3,
                        .n_variables = 4};
}

static EsHornRule make_rule(const RuleBody *body, int32_t head) {
    if (body->form == BODY_PATH) {
        return make_path_rule(body, head);
    }
    EsHornRule rule = {.head = {head, -1, -2}, .n_body = body->form == BODY_ONE ? 1 : 2};
    static const int32_t ends[BODY_N_FORMS][2] = {{0, 0}, {-3, -2}, {-1, -2}, {-1, -3}, {-2, -3}};
    rule.body[0] = atom_of(body->first, -1, body->form == BODY_CHAIN ? -3 : -2);
    if (body->form != BODY_ONE) {
        rule.body[1] = atom_of(body->second, ends[body->form][0], ends[body->form][1]);
    }
    rule.n_variables = body->form == BODY_ONE || body->form == BODY_BOTH ? 2 : 3;
    return rule;
}

// The counts of one rule.
static EsMinedRule rule_at(const EsRuleCounter *counter, const RuleBody *body, int32_t head) {
    size_t row = row_of(counter->graph, body), at = cell_of(counter->graph, row, head);
    int64_t n_given = counter->n_given[row];
    int32_t touched[ES_RULE_COUNTER_TOUCHED];
    list_touched(body, touched);
    int place = place_of(touched, head);
    if (place >= 0) {
        n_given -= counter->n_refused[ES_RULE_COUNTER_TOUCHED * row + (size_t)place];
    }
    return (EsMinedRule){.rule = make_rule(body, head),
                         .n_given = n_given,
                         .support = counter->support[at],
                         .n_closed = counter->n_closed[at],
                         .n_kept = counter->n_kept[at]};
}

// Two atoms that give a part of the pairs of one of them must be right more often than it.
static int is_no_better(const EsRuleCounter *counter, const RuleBody *body, int32_t head,
                        double confidence) {
    size_t n_heads = (size_t)counter->graph->n_predicates + 1;
    const double *first = counter->one_atom + (size_t)body->first * n_heads;
    if (body->form == BODY_ONE || body->form == BODY_CHAIN || body->form == BODY_PATH) {
        return 0;
    }
    return confidence <= first[head] ||
           (body->form == BODY_BOTH &&
            confidence <= counter->one_atom[(size_t)body->second * n_heads + (size_t)head]);
}

static EsStatus keep_if_good(EsRuleCounter *counter, const RuleBody *body, int32_t head) {
    EsMinedRule mined = rule_at(counter, body, head);
    double confidence = es_mined_rule_confidence(&mined);
    if (mined.support < counter->settings->min_support ||
        confidence < counter->settings->min_confidence || is_empty_rule(&mined.rule) ||
        is_no_better(counter, body, head, confidence)) {
        return ES_STATUS_OK;
    }
    return keep_rule(counter, &mined);
}

// Add the rules of the counted bodies that are good enough.
static EsStatus keep_good_rules(EsRuleCounter *counter) {
    int32_t n_predicates = counter->graph->n_predicates;
    BodyForm n_forms = counter->settings->max_body > 1 ? BODY_N_FORMS : BODY_CHAIN;
    for (int32_t head = 1; head <= n_predicates; head++) {
        RuleBody body = {BODY_ONE, counter->relation, -1, -1};
        ES_TRY(keep_if_good(counter, &body, head));
        for (body.form = BODY_CHAIN; body.form < n_forms; body.form++) {
            for (body.second = 0; body.second < 2 * n_predicates; body.second++) {
                ES_TRY(keep_if_good(counter, &body, head));
            }
        }
    }
    return ES_STATUS_OK;
}

// --- all pairs ---

static void clear_counts(EsRuleCounter *counter) {
    const EsKnowledgeGraph *graph = counter->graph;
    size_t n_cells = n_rows_of(graph) * ((size_t)graph->n_predicates + 1);
    memset(counter->n_given, 0, n_rows_of(graph) * sizeof *counter->n_given);
    memset(counter->n_refused, 0,
           ES_RULE_COUNTER_TOUCHED * n_rows_of(graph) * sizeof *counter->n_refused);
    memset(counter->support, 0, n_cells * sizeof *counter->support);
    memset(counter->n_closed, 0, n_cells * sizeof *counter->n_closed);
    memset(counter->n_kept, 0, n_cells * sizeof *counter->n_kept);
}

// A stamp is used once; before it comes round the old ones go.
static void renew_stamps(EsRuleCounter *counter) {
    if (counter->stamp > INT32_MAX / 2) {
        memset(counter->y_stamp, 0, ((size_t)counter->graph->n_constants + 1) * sizeof(int32_t));
        counter->stamp = 0;
    }
}

static void count_all(EsRuleCounter *counter, int32_t relation, int max_body) {
    const EsKnowledgeGraph *graph = counter->graph;
    counter->relation = relation;
    counter->is_clear = 0;
    clear_counts(counter);
    memset(counter->head_stamp, 0, ((size_t)graph->n_constants + 1) * sizeof(int32_t));
    for (int32_t x = 1; x <= graph->n_constants; x++) {
        renew_stamps(counter);
        count_from(counter, x, max_body);
    }
}

void es_rule_counter_take_one(EsRuleCounter *counter, int32_t relation, double *confidence) {
    RuleBody body = {BODY_ONE, relation, -1, -1};
    count_all(counter, relation, 1);
    confidence[0] = 0;
    for (int32_t head = 1; head <= counter->graph->n_predicates; head++) {
        EsMinedRule mined = rule_at(counter, &body, head);
        confidence[head] = es_mined_rule_confidence(&mined);
    }
}

EsStatus es_rule_counter_take(EsRuleCounter *counter, int32_t relation) {
    count_all(counter, relation, counter->settings->max_body);
    return keep_good_rules(counter);
}

// --- paths of three steps ---

// Pairs of all paths from x, of which the first two steps are at hand.
static void count_path(EsRuleCounter *counter, EsAtomSpan steps, int32_t x, RuleBody *body) {
    const EsKnowledgeGraph *graph = counter->graph;
    begin_pairs(counter);
    for (int32_t i = 0; i < steps.count; i++) {
        int32_t z = other_end(body->first, steps.atoms[i]);
        EsAtomSpan next = facts_from(graph, body->second, z);
        for (int32_t k = 0; k < next.count; k++) {
            int32_t w = other_end(body->second, next.atoms[k]);
            EsAtomSpan last = facts_from(graph, body->third, w);
            for (int32_t n = 0; n < last.count; n++) {
                int32_t y = other_end(body->third, last.atoms[n]);
                int is_apart = z != x && z != y && w != x && w != y;
                add_pair(counter, y, is_apart ? Z_APART : Z_IS_X);
            }
        }
    }
    if (counter->n_y > 0) {
        count_pairs(counter, body, x);
    }
}

// Returns whether the second relation goes on from some end of the first.
static int goes_on(const EsKnowledgeGraph *graph, EsAtomSpan steps, const RuleBody *body) {
    for (int32_t i = 0; i < steps.count; i++) {
        if (facts_from(graph, body->second, other_end(body->first, steps.atoms[i])).count > 0) {
            return 1;
        }
    }
    return 0;
}

// Take the good rules of one row and clear it.
static EsStatus take_path(EsRuleCounter *counter, const RuleBody *body) {
    const EsKnowledgeGraph *graph = counter->graph;
    size_t row = row_of(graph, body), first = cell_of(graph, row, 0);
    size_t bytes = ((size_t)graph->n_predicates + 1) * sizeof(int64_t);
    if (counter->n_given[row] == 0) {
        return ES_STATUS_OK;
    }
    for (int32_t head = 1; head <= graph->n_predicates; head++) {
        ES_TRY(keep_if_good(counter, body, head));
    }
    counter->n_given[row] = 0;
    memset(counter->n_refused + ES_RULE_COUNTER_TOUCHED * row, 0,
           ES_RULE_COUNTER_TOUCHED * sizeof *counter->n_refused);
    memset(counter->support + first, 0, bytes);
    memset(counter->n_closed + first, 0, bytes);
    memset(counter->n_kept + first, 0, bytes);
    return ES_STATUS_OK;
}

EsStatus es_rule_counter_take_paths(EsRuleCounter *counter, int32_t first, int32_t second) {
    const EsKnowledgeGraph *graph = counter->graph;
    RuleBody body = {BODY_PATH, first, second, 0};
    if (!counter->is_clear) {
        clear_counts(counter);
        counter->is_clear = 1;
    }
    memset(counter->head_stamp, 0, ((size_t)graph->n_constants + 1) * sizeof(int32_t));
    for (int32_t x = 1; x <= graph->n_constants; x++) {
        EsAtomSpan steps = facts_from(graph, first, x);
        if (!goes_on(graph, steps, &body)) {
            continue;
        }
        renew_stamps(counter);
        list_heads(counter, x);
        for (body.third = 0; body.third < 2 * graph->n_predicates; body.third++) {
            count_path(counter, steps, x, &body);
        }
    }
    for (body.third = 0; body.third < 2 * graph->n_predicates; body.third++) {
        ES_TRY(take_path(counter, &body));
    }
    return ES_STATUS_OK;
}

// --- memory ---

// The most facts and kept facts that begin with one constant.
static size_t most_heads(const EsKnowledgeGraph *graph, const int32_t *kept_row) {
    size_t most = 1;
    for (int32_t x = 1; x <= graph->n_constants; x++) {
        size_t n = (size_t)(kept_row[x + 1] - kept_row[x]);
        for (int32_t h = 1; h <= graph->n_predicates; h++) {
            n += (size_t)es_kg_facts_with_a(graph, h, x).count;
        }
        most = ES_MAX(most, n);
    }
    return most;
}

EsStatus es_rule_counter_create(const EsKnowledgeGraph *graph, const EsMinerSettings *settings,
                                const int32_t *kept_row, const double *one_atom,
                                EsRuleCounter *counter) {
    memset(counter, 0, sizeof *counter);
    counter->one_atom = one_atom;
    counter->graph = graph;
    counter->settings = settings;
    counter->kept_row = kept_row;
    size_t rows = n_rows_of(graph), cells = rows * ((size_t)graph->n_predicates + 1);
    size_t n_constants = (size_t)graph->n_constants + 1, n_heads = most_heads(graph, kept_row);
    const struct {
        void *member; // a pointer to a pointer
        size_t bytes;
    } parts[] = {
        {&counter->n_given, rows * sizeof(int64_t)},
        {&counter->n_refused, ES_RULE_COUNTER_TOUCHED * rows * sizeof(int64_t)},
        {&counter->support, cells * sizeof(int64_t)},
        {&counter->n_closed, cells * sizeof(int64_t)},
        {&counter->n_kept, cells * sizeof(int64_t)},
        {&counter->first_head, n_constants * sizeof(int32_t)},
        {&counter->head_stamp, n_constants * sizeof(int32_t)},
        {&counter->head_next, n_heads * sizeof(int32_t)},
        {&counter->head_of, n_heads * sizeof(int32_t)},
        {&counter->closed, ((size_t)graph->n_predicates + 1) * sizeof(int32_t)},
        {&counter->y_list, n_constants * sizeof(int32_t)},
        {&counter->y_stamp, n_constants * sizeof(int32_t)},
        {&counter->y_kinds, n_constants},
    };
    size_t bytes = 0;
    for (size_t i = 0; i < ES_COUNT_OF(parts); i++) {
        es_slab_add(&bytes, parts[i].bytes);
    }
    void *memory;
    ES_TRY(es_allocate(bytes, &memory));
    size_t offset = 0;
    for (size_t i = 0; i < ES_COUNT_OF(parts); i++) {
        void *member = (unsigned char *)memory + es_slab_add(&offset, parts[i].bytes);
        memcpy(parts[i].member, &member, sizeof member);
    }
    return ES_STATUS_OK;
}

void es_rule_counter_destroy(EsRuleCounter *counter) {
    es_release(counter->n_given); // first in the slab
    es_release(counter->rules);
    memset(counter, 0, sizeof *counter);
}
