// Which of the counted bodies make rules worth listing.
#include "proof/search/proof_array.h"
#include "proof/search/rule_miner_count.h"

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
        if (es_rule_atoms_equal(rule->body[k], rule->head)) {
            return 1;
        }
    }
    return 0;
}

static EsHornRule make_rule(const EsRuleBody *body, int32_t head) {
    EsHornRule rule = {.head = {head, -1, -2}, .n_body = body->form == ES_BODY_ONE ? 1 : 2};
    static const int32_t ends[ES_BODY_N_FORMS][2] = {
        {0, 0}, {-3, -2}, {-1, -2}, {-1, -3}, {-2, -3}};
    rule.body[0] = es_relation_atom(body->first, -1, body->form == ES_BODY_CHAIN ? -3 : -2);
    if (body->form != ES_BODY_ONE) {
        rule.body[1] = es_relation_atom(body->second, ends[body->form][0], ends[body->form][1]);
    }
    rule.n_variables = body->form == ES_BODY_ONE || body->form == ES_BODY_BOTH ? 2 : 3;
    return rule;
}

EsMinedRule es_rule_counter_rule(const EsRuleCounter *counter, const EsRuleBody *body,
                                 int32_t head) {
    size_t row = es_rule_counter_row(counter->graph, body),
           at = es_rule_counter_cell(counter->graph, row, head);
    int64_t n_given = counter->n_given[row];
    if (head == es_relation_predicate(body->first)) {
        n_given -= counter->n_refused[2 * row];
    } else if (body->form != ES_BODY_ONE && head == es_relation_predicate(body->second)) {
        n_given -= counter->n_refused[2 * row + 1];
    }
    return (EsMinedRule){.rule = make_rule(body, head),
                         .n_given = n_given,
                         .support = counter->support[at],
                         .n_closed = counter->n_closed[at],
                         .n_kept = counter->n_kept[at]};
}

// Two atoms that give part of what one of them gives must be more often right than it.
static int is_no_better(const EsRuleCounter *counter, const EsRuleBody *body, int32_t head,
                        double confidence) {
    size_t n_heads = (size_t)counter->graph->n_predicates + 1;
    const double *first = counter->one_atom + (size_t)body->first * n_heads;
    if (body->form == ES_BODY_ONE || body->form == ES_BODY_CHAIN) {
        return 0;
    }
    return confidence <= first[head] ||
           (body->form == ES_BODY_BOTH &&
            confidence <= counter->one_atom[(size_t)body->second * n_heads + (size_t)head]);
}

static EsStatus judge(EsRuleCounter *counter, const EsRuleBody *body, int32_t head) {
    EsMinedRule mined = es_rule_counter_rule(counter, body, head);
    double confidence = es_mined_rule_confidence(&mined);
    if (mined.support < counter->settings->min_support ||
        confidence < counter->settings->min_confidence || is_empty_rule(&mined.rule) ||
        is_no_better(counter, body, head, confidence)) {
        return ES_STATUS_OK;
    }
    return keep_rule(counter, &mined);
}

EsStatus es_rule_counter_judge(EsRuleCounter *counter) {
    int32_t n_predicates = counter->graph->n_predicates;
    EsBodyForm n_forms = counter->settings->max_body > 1 ? ES_BODY_N_FORMS : ES_BODY_CHAIN;
    for (int32_t head = 1; head <= n_predicates; head++) {
        EsRuleBody body = {ES_BODY_ONE, counter->relation, -1};
        ES_TRY(judge(counter, &body, head));
        for (body.form = ES_BODY_CHAIN; body.form < n_forms; body.form++) {
            for (body.second = 0; body.second < 2 * n_predicates; body.second++) {
                ES_TRY(judge(counter, &body, head));
            }
        }
    }
    return ES_STATUS_OK;
}
