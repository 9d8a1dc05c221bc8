// Questions of several goals: the answers as a table or JSON, each with the proofs of its goals.
#include "prove/prove_conjunction.h"

#include "base/macros.h"
#include "cli/frame.h"
#include "prove/prove_action.h"

// The proof of one goal of an answer.
typedef struct GoalProof {
    int is_fact, is_too_large;
    EsProofTree *tree; // NULL for a fact, and when it is too large; owned
} GoalProof;

// A shortest proof within the limits, else the first that the closure met.
static EsStatus find_proof(const EsProveConjunction *ask, const EsJoinedAnswers *answers,
                           const EsAtom *atom, GoalProof *proof) {
    EsProverAnswer found;
    *proof = (GoalProof){.is_fact = es_kg_is_fact(ask->graph, atom)};
    if (proof->is_fact) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_proof_tree_find(ask->graph, &ask->prover, atom, &proof->tree, &found));
    if (proof->tree == NULL) {
        ES_TRY(es_proof_tree_derive(answers->closure, atom, &proof->tree, &proof->is_too_large));
    }
    ES_ASSERT(proof->tree != NULL || proof->is_too_large);
    return proof->tree != NULL ? es_proof_tree_check(proof->tree) : ES_STATUS_OK;
}

static json_t *text_json(const char *text) {
    // names are bytes; JSON holds UTF-8 alone
    json_t *string = json_string(text);
    return string != NULL ? string : json_null();
}

// --- JSON ---

static EsStatus goal_json(const EsProveConjunction *ask, const EsJoinedAnswers *answers,
                          const EsAtom *atom, json_t *list) {
    char text[ES_KG_ATOM_TEXT_BYTES];
    GoalProof proof;
    es_kg_format_atom(ask->graph, atom, text, sizeof text);
    ES_TRY(find_proof(ask, answers, atom, &proof));
    json_t *object = json_pack("{s:o, s:b}", "atom", text_json(text), "fact", proof.is_fact);
    if (proof.is_too_large) {
        json_object_set_new(object, "proof_too_large", json_true());
    } else if (!proof.is_fact) {
        json_object_set_new(object, "proof", es_prove_tree_json(proof.tree));
    }
    json_array_append_new(list, object);
    es_proof_tree_destroy(proof.tree);
    return ES_STATUS_OK;
}

static EsStatus row_json(const EsProveConjunction *ask, const EsQuestion *question,
                         const EsJoinedAnswers *answers, int32_t i, json_t *list) {
    const int32_t *row = es_joined_row(answers, i);
    json_t *bindings = json_object(), *goals = json_array();
    EsStatus status = ES_STATUS_OK;
    for (int v = 1; v <= question->n_variables; v++) {
        char name[64];
        EsPiece piece = question->variables[v - 1];
        snprintf(name, sizeof name, "%.*s", (int)ES_MIN(piece.bytes, sizeof name - 1), piece.text);
        if (es_question_is_named(question, v)) {
            json_object_set_new(bindings, name, text_json(ask->graph->constant_names[row[v - 1]]));
        }
    }
    for (int k = 0; k < question->n_goals && ask->explains && status == ES_STATUS_OK; k++) {
        EsWideAtom goal = es_question_goal(ask->graph, question, k, row);
        status = goal_json(ask, answers, goal.cells, goals);
    }
    json_t *object = json_pack("{s:o}", "bindings", bindings);
    if (ask->explains) {
        json_object_set(object, "goals", goals);
    }
    json_decref(goals);
    json_array_append_new(list, object);
    return status;
}

static EsStatus print_json(const EsProveConjunction *ask, const EsQuestion *question,
                           const EsJoinedAnswers *answers, int32_t n_shown) {
    json_t *list = json_array();
    EsStatus status = ES_STATUS_OK;
    for (int32_t i = 0; i < n_shown && status == ES_STATUS_OK; i++) {
        status = row_json(ask, question, answers, i, list);
    }
    if (status != ES_STATUS_OK) {
        json_decref(list);
        return status;
    }
    json_t *root =
        json_pack("{s:o, s:o, s:i, s:i, s:b, s:b, s:s, s:o}", "data", text_json(ask->data),
                  "question", text_json(ask->text), "count", answers->count, "shown", n_shown,
                  "complete", answers->is_complete, "closure_known", answers->is_closure_known,
                  "method", "closure", "answers", list);
    return es_json_print(root, 6);
}

// --- tables ---

static EsStatus print_goal(const EsProveConjunction *ask, const EsJoinedAnswers *answers,
                           const EsAtom *atom, int indent) {
    char text[ES_KG_ATOM_TEXT_BYTES];
    GoalProof proof;
    ES_TRY(find_proof(ask, answers, atom, &proof));
    EsStatus status = ES_STATUS_OK;
    if (proof.tree != NULL) {
        status = es_prove_print_tree(proof.tree, indent, stdout);
    } else {
        es_kg_format_atom(ask->graph, atom, text, sizeof text);
        printf("%*s", indent, "");
        es_padded_text_print(text, 0, stdout);
        printf("  %s\n", proof.is_fact ? "fact" : es_prove_too_large);
    }
    es_proof_tree_destroy(proof.tree);
    return status;
}

static void print_row(const EsProveConjunction *ask, const EsQuestion *question,
                      const int32_t *row) {
    const char *before = "  ";
    for (int v = 1; v <= question->n_variables; v++) {
        char name[ES_KG_ATOM_TEXT_BYTES];
        if (es_question_is_named(question, v)) {
            EsPiece piece = question->variables[v - 1];
            es_kg_format_name(ask->graph->constant_names[row[v - 1]], name, sizeof name);
            printf("%s%.*s = ", before, (int)piece.bytes, piece.text);
            es_padded_text_print(name, 0, stdout);
            before = ", ";
        }
    }
    putchar('\n');
}

static int n_named(const EsQuestion *question) {
    int n = 0;
    for (int v = 1; v <= question->n_variables; v++) {
        n += es_question_is_named(question, v);
    }
    return n;
}

static void print_head(const EsProveConjunction *ask, const EsQuestion *question,
                       const EsJoinedAnswers *answers) {
    es_padded_text_print(ask->text, 0, stdout);
    if (n_named(question) > 0) {
        printf(": %d %s\n", answers->count, es_prove_noun(answers->count, "answer", "answers"));
    } else if (answers->count > 0) {
        printf(": yes\n");
    } else {
        printf(answers->is_complete ? ": no, it does not follow\n" : ": no answer was found\n");
    }
}

static EsStatus print_table(const EsProveConjunction *ask, const EsQuestion *question,
                            const EsJoinedAnswers *answers, int32_t n_shown) {
    print_head(ask, question, answers);
    for (int32_t i = 0; i < n_shown; i++) {
        const int32_t *row = es_joined_row(answers, i);
        int is_open = n_named(question) > 0;
        if (is_open) {
            print_row(ask, question, row);
        }
        for (int k = 0; k < question->n_goals && ask->explains; k++) {
            EsWideAtom goal = es_question_goal(ask->graph, question, k, row);
            ES_TRY(print_goal(ask, answers, goal.cells, is_open ? 6 : 2));
        }
    }
    if (n_shown < answers->count) {
        printf("%d more %s not shown (--limit raises it)\n", answers->count - n_shown,
               es_prove_noun(answers->count - n_shown, "is", "are"));
    }
    if (!answers->is_closure_known) {
        printf("more may exist: the closure was stopped at %d atoms (--closure-limit raises it)\n",
               answers->n_closure);
    }
    return ES_STATUS_OK;
}

EsStatus es_prove_conjunction(const EsProveConjunction *ask) {
    EsJoinedAnswers answers;
    const EsClosureSettings settings = {.limit = ask->closure_limit,
                                        .keeps_provenance = ask->explains};
    ES_TRY(es_question_join(ask->graph, ask->question, &settings, &answers));
    int32_t n_shown = ES_MIN(ask->limit, answers.count);
    EsStatus status = ask->as_json ? print_json(ask, ask->question, &answers, n_shown)
                                   : print_table(ask, ask->question, &answers, n_shown);
    es_joined_answers_destroy(&answers);
    return status;
}
