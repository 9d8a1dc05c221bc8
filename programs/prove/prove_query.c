// `esper prove query`: answers to a question, with their proofs.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/memory.h"
#include "cli/frame.h"
#include "proof/graph/knowledge_graph.h"
#include "proof/graph/knowledge_text.h"
#include "proof/search/answers.h"
#include "proof/search/proof_tree.h"
#include "prove/prove_action.h"
#include "prove/prove_conjunction.h"

// --- proof trees for people and programs ---

const char es_prove_too_large[] = "follows; its proof has over 1,000,000 atoms and is not shown";

#define ATOM_BYTES ES_KG_ATOM_TEXT_BYTES
// of an atom, or a rule with its line
#define TEXT_BYTES (ES_RULE_TEXT_BYTES + 32)

// Strokes of a branch: to a child, to the last child, past children to come, past none; each is as
// wide as its first entry of plain bytes.
#define STROKE_COLUMNS 3
static const char *const plain_strokes[] = {"|- ", "`- ", "|  ", "   "};
static const char *const box_strokes[] = {"\u251c\u2500 ", "\u2514\u2500 ", "\u2502  ", "   "};

typedef struct Drawing {
    const EsProofTree *tree;
    const char *const *strokes;
    FILE *stream;
    int indent, width;      // of the left column, strokes included
    unsigned char *is_last; // the ancestor at a level was the last child           (count)
    // of the node at hand; a proof of a thousand steps is a thousand calls deep, so that no call
    // has room of its own for it
    char text[TEXT_BYTES];
} Drawing;

static int is_utf8_terminal(FILE *stream) {
    const char *names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *locale = NULL;
    for (size_t i = 0; i < ES_COUNT_OF(names) && (locale == NULL || *locale == '\0'); i++) {
        locale = getenv(names[i]);
    }
    return isatty(fileno(stream)) && locale != NULL &&
           (strcasestr(locale, "UTF-8") != NULL || strcasestr(locale, "utf8") != NULL);
}

static int is_negation(const EsProofTree *tree, int32_t i) {
    return tree->graph->test_of[tree->nodes[i].atom.predicate] == ES_KG_NEGATION;
}

static void measure(Drawing *drawing, int32_t i, int level) {
    es_kg_format_atom(drawing->tree->graph, drawing->tree->nodes[i].cells, drawing->text,
                      sizeof drawing->text);
    int width = STROKE_COLUMNS * level + es_padded_text_width(drawing->text);
    drawing->width = ES_MAX(drawing->width, width);
    for (int k = 0; k < es_proof_node_children(drawing->tree, i); k++) {
        measure(drawing, drawing->tree->nodes[i].first + k, level + 1);
    }
}

static void draw(Drawing *drawing, int32_t i, int level) {
    const EsProofTree *tree = drawing->tree;
    const EsProofNode *node = &tree->nodes[i];
    es_kg_format_atom(tree->graph, node->cells, drawing->text, sizeof drawing->text);
    fprintf(drawing->stream, "%*s", drawing->indent, "");
    for (int k = 1; k <= level; k++) {
        fputs(drawing->strokes[(k < level ? 2 : 0) + drawing->is_last[k]], drawing->stream);
    }
    es_padded_text_print(drawing->text, drawing->width - STROKE_COLUMNS * level + 2,
                         drawing->stream);
    es_proof_node_reason(tree, i, drawing->text, sizeof drawing->text);
    es_padded_text_print(drawing->text, 0, drawing->stream);
    fputc('\n', drawing->stream);
    for (int k = 0; k < es_proof_node_children(tree, i); k++) {
        drawing->is_last[level + 1] = k + 1 == es_proof_node_children(tree, i);
        draw(drawing, node->first + k, level + 1);
    }
}

EsStatus es_prove_print_tree(const EsProofTree *tree, int indent, FILE *stream) {
    void *memory;
    ES_TRY(es_allocate((size_t)tree->count + 1, &memory));
    Drawing drawing = {.tree = tree,
                       .strokes = is_utf8_terminal(stream) ? box_strokes : plain_strokes,
                       .stream = stream,
                       .indent = indent,
                       .is_last = memory};
    measure(&drawing, 0, 0);
    draw(&drawing, 0, 0);
    es_release(memory);
    return ES_STATUS_OK;
}

static json_t *text_json(const char *text) {
    // names are bytes; JSON holds UTF-8 alone
    json_t *string = json_string(text);
    return string != NULL ? string : json_null();
}

// "predicate(a,b)" as JSON, null when it is not UTF-8.
static json_t *atom_json(const EsKnowledgeGraph *graph, const EsAtom *atom) {
    char text[ATOM_BYTES];
    es_kg_format_atom(graph, atom, text, sizeof text);
    return text_json(text);
}

// `text` is room of TEXT_BYTES, shared by all nodes as in a drawing.
static json_t *node_json(const EsProofTree *tree, int32_t i, char *text) {
    const EsProofNode *node = &tree->nodes[i];
    es_kg_format_atom(tree->graph, node->cells, text, TEXT_BYTES);
    json_t *atom = text_json(text);
    if (node->rule == ES_PROOF_NODE_FACT) {
        return json_pack("{s:o, s:b}", "atom", atom, "fact", 1);
    }
    if (node->rule == ES_PROOF_NODE_TEST) {
        return json_pack("{s:o, s:b}", "atom", atom,
                         is_negation(tree, i) ? "negation" : "comparison", 1);
    }
    const EsHornRule *rule = &tree->graph->rules[node->rule];
    es_horn_rule_format(tree->graph, rule, text, TEXT_BYTES);
    json_t *spelt = text_json(text), *body = json_array();
    for (int k = 0; k < es_proof_node_children(tree, i); k++) {
        json_array_append_new(body, node_json(tree, node->first + k, text));
    }
    return json_pack("{s:o, s:o, s:i, s:o}", "atom", atom, "rule", spelt, "line", rule->line,
                     "body", body);
}

json_t *es_prove_tree_json(const EsProofTree *tree) {
    char text[TEXT_BYTES];
    return node_json(tree, 0, text);
}

static const char *const method_names[] = {"direct", "closure", "search"};

typedef struct Query {
    const EsProveSource *source;
    const char *text;
    EsAnswersSettings settings;
    int limit, explains, as_json, n_threads;
    const EsKnowledgeGraph *graph;
    EsQuestion question;
    EsAnswers answers;
} Query;

static int is_ground(const Query *query) { return query->question.n_variables == 0; }

// A proof of an answer, checked again; NULL for a fact of an open question, for a fact that has no
// other proof, and for one that is too large.
static EsStatus find_proof(const Query *query, EsAnswer answer, EsProofTree **tree,
                           int *is_too_large) {
    EsProverAnswer found;
    *tree = NULL;
    *is_too_large = 0;
    if (answer.n_steps == 0 && !is_ground(query)) {
        return ES_STATUS_OK;
    }
    if (answer.n_steps == ES_ANSWER_BEYOND) {
        ES_TRY(es_proof_tree_derive(query->answers.closure, answer.cells, tree, is_too_large));
    } else {
        ES_TRY(
            es_proof_tree_find(query->graph, &query->settings.prover, answer.cells, tree, &found));
    }
    return *tree != NULL ? es_proof_tree_check(*tree) : ES_STATUS_OK;
}

// --- JSON ---

static json_t *name_json(const char *name) {
    json_t *text = json_string(name);
    return text != NULL ? text : json_null();
}

static EsStatus answer_json(const Query *query, EsAnswer answer, json_t **object) {
    const EsKnowledgeGraph *graph = query->graph;
    json_t *steps = answer.n_steps == ES_ANSWER_BEYOND ? json_null() : json_integer(answer.n_steps);
    json_t *arguments = json_array();
    int arity = graph->arities[answer.atom.predicate];
    for (int i = 0; i < arity; i++) {
        const char *name = graph->constant_names[es_atom_term(answer.cells, i)];
        json_array_append_new(arguments, name_json(name));
    }
    *object = json_pack("{s:o, s:o, s:o, s:b}", "atom", atom_json(graph, answer.cells), "arguments",
                        arguments, "steps", steps, "fact", answer.n_steps == 0);
    if (arity == 2) {
        json_object_set_new(*object, "a", name_json(graph->constant_names[answer.atom.a]));
        json_object_set_new(*object, "b", name_json(graph->constant_names[answer.atom.b]));
    }
    if (query->explains) {
        EsProofTree *tree;
        int is_too_large;
        ES_TRY(find_proof(query, answer, &tree, &is_too_large));
        if (is_too_large) {
            json_object_set_new(*object, "proof_too_large", json_true());
        }
        json_object_set_new(*object, "proof",
                            tree != NULL ? es_prove_tree_json(tree) : json_null());
        es_proof_tree_destroy(tree);
    }
    return ES_STATUS_OK;
}

// Returns whether no answer is missing at any depth: all clauses were understood, and the closure
// is known or a ground question has its only one.
static int has_all(const Query *query) {
    int is_answered = is_ground(query) && query->answers.count > 0;
    return query->graph->n_skipped == 0 && (query->answers.is_closure_known || is_answered);
}

static EsStatus print_json(const Query *query, int32_t n_shown) {
    const EsAnswers *answers = &query->answers;
    json_t *list = json_array();
    EsStatus status = ES_STATUS_OK;
    for (int32_t i = 0; i < n_shown && status == ES_STATUS_OK; i++) {
        json_t *object = NULL;
        status = answer_json(query, answers->items[i], &object);
        json_array_append_new(list, object);
    }
    if (status != ES_STATUS_OK) {
        json_decref(list);
        return status;
    }
    json_t *root = json_pack(
        "{s:o, s:o, s:i, s:i, s:b, s:b, s:i, s:i, s:b, s:I, s:s, s:i, s:i, s:o}", "data",
        name_json(es_prove_source_name(query->source)), "question", name_json(query->text), "count",
        answers->count, "shown", n_shown, "complete", has_all(query), "closure_known",
        answers->is_closure_known, "deeper", answers->n_deeper, "undecided", answers->n_undecided,
        "search_full", answers->search.is_full, "search_overlong",
        (json_int_t)answers->search.n_overlong, "method", method_names[answers->method],
        "max_depth", query->settings.prover.max_depth, "max_atoms",
        query->settings.prover.max_atoms, "answers", list);
    if (root != NULL && is_ground(query)) {
        json_object_set_new(root, "steps_without_fact", json_integer(answers->n_steps_otherwise));
    }
    return es_json_print(root, 6);
}

// --- tables ---

static void print_atom(const Query *query, const EsAtom *atom) {
    char text[ATOM_BYTES];
    es_kg_format_atom(query->graph, atom, text, sizeof text);
    es_padded_text_print(text, 0, stdout);
}

static EsStatus print_proof(const Query *query, EsAnswer answer, int indent) {
    EsProofTree *tree;
    int is_too_large;
    ES_TRY(find_proof(query, answer, &tree, &is_too_large));
    EsStatus status = tree != NULL ? es_prove_print_tree(tree, indent, stdout) : ES_STATUS_OK;
    if (is_too_large) {
        printf("%*s", indent, "");
        print_atom(query, answer.cells);
        printf("  %s\n", es_prove_too_large);
    }
    es_proof_tree_destroy(tree);
    return status;
}

static const char *steps_word(int32_t n) { return es_prove_noun(n, "step", "steps"); }

static const char *atoms_word(int32_t n) { return es_prove_noun(n, "atom", "atoms"); }

static const char *states_word(int32_t n) { return es_prove_noun(n, "state", "states"); }

// Prints why a ground question has no answer within the limits.
static void print_no(const Query *query) {
    const EsAnswers *answers = &query->answers;
    const EsProverSettings *prover = &query->settings.prover;
    if (answers->count > 0 && answers->n_undecided > 0) {
        printf(": follows; its steps are undecided after %d %s (--max-states raises it)\n",
               prover->max_states, states_word(prover->max_states));
    } else if (answers->n_undecided > 0) {
        printf(": undecided after %d %s (--max-states raises it)\n", prover->max_states,
               states_word(prover->max_states));
    } else if (answers->n_deeper > 0) {
        printf(": follows, but not within %d %s and %d %s (--max-depth, --max-atoms raise it)\n",
               prover->max_depth, steps_word(prover->max_depth), prover->max_atoms,
               atoms_word(prover->max_atoms));
    } else if (answers->is_closure_known) {
        printf(": no, it does not follow\n");
    } else {
        printf(": no proof within %d %s and %d %s\n", prover->max_depth,
               steps_word(prover->max_depth), prover->max_atoms, atoms_word(prover->max_atoms));
    }
}

static EsStatus print_ground(const Query *query) {
    const EsAnswers *answers = &query->answers;
    const EsProverSettings *prover = &query->settings.prover;
    print_atom(query, query->question.goals[0].cells);
    if (answers->count == 0) {
        print_no(query);
        return ES_STATUS_OK;
    }
    EsAnswer answer = answers->items[0];
    int32_t n_otherwise = answers->n_steps_otherwise;
    if (answer.n_steps == ES_ANSWER_BEYOND) {
        print_no(query);
    } else if (answer.n_steps > 0) {
        printf(": proved in %d %s\n", answer.n_steps, steps_word(answer.n_steps));
    } else if (n_otherwise > 0) {
        printf(": a fact; without it proved in %d %s\n", n_otherwise, steps_word(n_otherwise));
    } else if (n_otherwise == ES_PROVER_DEPTH_UNKNOWN) {
        printf(": a fact; without it undecided after %d %s\n", prover->max_states,
               states_word(prover->max_states));
    } else {
        printf(": a fact; without it no proof within %d %s and %d %s\n", prover->max_depth,
               steps_word(prover->max_depth), prover->max_atoms, atoms_word(prover->max_atoms));
    }
    return query->explains ? print_proof(query, answer, 0) : ES_STATUS_OK;
}

// Prints how many answers have no proof within the limits; they are listed where the closure is
// known.
static void print_beyond(const Query *query) {
    const EsAnswers *answers = &query->answers;
    const EsProverSettings *prover = &query->settings.prover;
    const char *which = answers->is_closure_known ? "of them" : "more";
    if (answers->n_deeper > 0) {
        printf("%d %s %s, but not within %d %s and %d %s (--max-depth, --max-atoms raise it)\n",
               answers->n_deeper, which, es_prove_noun(answers->n_deeper, "follows", "follow"),
               prover->max_depth, steps_word(prover->max_depth), prover->max_atoms,
               atoms_word(prover->max_atoms));
    }
    if (answers->is_closure_known && answers->n_undecided > 0) {
        printf("%d of them %s, in steps that %d %s do not find (--max-states raises it)\n",
               answers->n_undecided, es_prove_noun(answers->n_undecided, "follows", "follow"),
               prover->max_states, states_word(prover->max_states));
    }
}

static void print_limits(const Query *query, int32_t n_shown) {
    const EsAnswers *answers = &query->answers;
    const EsProverSettings *prover = &query->settings.prover;
    if (n_shown < answers->count) {
        printf("%d more %s not shown (--limit raises it)\n", answers->count - n_shown,
               es_prove_noun(answers->count - n_shown, "is", "are"));
    }
    print_beyond(query);
    if (!answers->is_closure_known && (answers->search.is_full || answers->n_undecided > 0)) {
        printf("more may exist: the limit of %d %s was met (--max-states raises it)\n",
               prover->max_states, states_word(prover->max_states));
    }
    if (answers->search.n_overlong > 0) {
        printf("more may exist: states of over %d atoms, the most a search can hold, were left out "
               "%lld %s (a lower --max-depth has fewer; no search is needed where the closure "
               "fits --closure-limit)\n",
               ES_PROOF_MAX_ATOMS, (long long)answers->search.n_overlong,
               es_prove_noun(answers->search.n_overlong, "time", "times"));
    }
    if (answers->is_complete && !answers->is_closure_known) {
        printf("more may exist that take over %d %s\n", prover->max_depth,
               steps_word(prover->max_depth));
    }
}

static EsStatus print_answers(const Query *query, int32_t n_shown) {
    const EsAnswers *answers = &query->answers;
    es_padded_text_print(query->text, 0, stdout);
    printf(": %d %s\n", answers->count, es_prove_noun(answers->count, "answer", "answers"));
    for (int32_t i = 0; i < n_shown; i++) {
        EsAnswer answer = answers->items[i];
        if (answer.n_steps == 0) {
            printf("   fact  ");
        } else if (answer.n_steps == ES_ANSWER_BEYOND) {
            printf("   more  ");
        } else {
            printf("%7d  ", answer.n_steps);
        }
        if (query->explains && answer.n_steps > 0) {
            printf("%s\n", steps_word(ES_MIN(answer.n_steps, 2)));
            ES_TRY(print_proof(query, answer, 9));
        } else {
            print_atom(query, answer.cells);
            putchar('\n');
        }
    }
    print_limits(query, n_shown);
    return ES_STATUS_OK;
}

// --- the command ---

// A question of several goals.
static EsStatus ask_all(const Query *query) {
    EsProveConjunction conjunction = {.data = es_prove_source_name(query->source),
                                      .text = query->text,
                                      .graph = query->graph,
                                      .question = &query->question,
                                      .prover = query->settings.prover,
                                      .closure_limit = ES_MAX(query->settings.closure_limit, 1),
                                      .limit = query->limit,
                                      .explains = query->explains,
                                      .as_json = query->as_json};
    return es_prove_conjunction(&conjunction);
}

static EsStatus ask(Query *query) {
    EsThreadPool *pool = NULL;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(es_question_parse(query->graph, query->text, &query->question));
    if (query->question.shadowed != 0) {
        es_message("note: \"%.100s\" is read as a variable; in quotes it is the constant of that "
                   "name\n",
                   query->graph->constant_names[query->question.shadowed]);
    }
    if (!es_question_is_single(&query->question)) {
        return ask_all(query);
    }
    query->settings.keeps_closure = query->explains;
    ES_TRY(es_thread_pool_create(&pool, query->n_threads));
    ES_TRY_GOTO(es_answers_find(query->graph, &query->settings, pool,
                                query->question.goals[0].cells, &query->answers));
    int32_t n_shown = ES_MIN(query->limit, query->answers.count);
    if (query->as_json) {
        status = print_json(query, n_shown);
    } else {
        status = is_ground(query) ? print_ground(query) : print_answers(query, n_shown);
    }
    es_answers_destroy(&query->answers);
done:
    es_thread_pool_destroy(pool);
    return status;
}

static EsStatus run_query(Query *query) {
    EsKnowledgeGraph *graph = NULL;
    ES_TRY(es_prove_source_load(query->source, &graph));
    query->graph = graph;
    int32_t limit = query->settings.closure_limit;
    EsStatus status =
        graph->has_negation && limit == 0
            ? ES_FAIL(ARGUMENT, "--closure-limit 0 asks for no closure, which rules with negation "
                                "need; give it the atoms that a closure may have")
            : es_closure_decide(graph, limit);
    if (status == ES_STATUS_OK) {
        status = ask(query);
    }
    es_kg_destroy(graph);
    return status;
}

EsExit cmd_prove_query(int argc, char **argv) {
    EsProveSource source = {.folder = NULL};
    Query query = {.source = &source, .settings = es_answers_defaults()};
    EsAnswersSettings *settings = &query.settings;
    const EsOption options[] = {
        ES_PROVE_SOURCE_OPTIONS(&source),
        ES_OPTION_INT("limit", &query.limit, "20", 1, 2147483647, "N", "show at most N answers"),
        ES_OPTION_FLAG("explain", &query.explains,
                       "show a proof of each, as a tree: a shortest one within the limits"),
        ES_OPTION_INT("max-depth", &settings->prover.max_depth, "4", 1, 1000, "N",
                      "maximum steps of a proof"),
        ES_OPTION_INT("max-atoms", &settings->prover.max_atoms, "6", 1, ES_PROOF_MAX_ATOMS, "N",
                      "maximum atoms left to prove at a time"),
        ES_OPTION_INT("max-states", &settings->prover.max_states, "4000000", 1, 1 << 28, "N",
                      "maximum states of a search; up to ~0.5 kB each: 4000000 may take 2 GB"),
        ES_OPTION_INT("closure-limit", &settings->closure_limit, "1000000", 0, ES_CLOSURE_MAX_LIMIT,
                      "N", "maximum atoms of the closure; beyond it answers are searched for"),
        ES_OPTION_INT("threads", &query.n_threads, "0", 0, 1024, "N",
                      "threads; 0: one per processor"),
        ES_OPTION_FLAG("json", &query.as_json, "print the result as JSON"),
    };
    const EsOptionTable table = {
        .command = "prove query",
        .usage = "QUESTION [options]",
        .summary =
            "Answers a question such as \"uncle(otto,X)\": all atoms of that form that can be "
            "proved, the\nfewest steps first. A name that begins with a capital letter, _ or ? is "
            "a variable, any\nother or one in quotes a constant. Facts take no step. Several goals "
            "and "
            "comparisons may be\nasked for at once: \"uncle(X,Y), lives(Y,paris), X != otto\". "
            "Predicates have none to four\narguments.",
        .example = "esper prove query \"grandfather(X,Y)\" --generated 100 --limit 5 --explain",
        .options = options,
        .n_options = ES_COUNT_OF(options),
        .max_positional = 1,
    };
    EsArguments arguments;
    EsExit code;
    if (!es_prove_source_begin(&source, &table, argc, argv, &arguments, &code)) {
        return code;
    }
    if (arguments.n_positional != 1) {
        return es_command_finish(
            "prove query", ES_FAIL(ARGUMENT, "which question? For example \"uncle(otto,X)\""));
    }
    query.text = arguments.positional[0];
    if (source.folder == NULL && source.n_people == 0) {
        es_message("note: without --data the question is asked of the generated village (1000 "
                   "people, --graph-seed %d)\n",
                   source.seed);
    }
    return es_command_finish("prove query", run_query(&query));
}
