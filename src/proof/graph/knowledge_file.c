// The files of a folder are read in two rounds: triples and rules into a builder, then depths and
// domains into the finished graph, because these name queries and constants that must exist. Soft
// facts make the graph a second time.
#include "proof/graph/knowledge_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "esper/log.h"
#include "proof/graph/knowledge_builder.h"
#include "proof/graph/knowledge_text.h"
#include "proof/graph/text_line.h"

#define PATH_BYTES     4096
#define MAX_FILE_BYTES ((size_t)1 << 32)

static const char *const split_names[ES_KG_N_SPLITS] = {"train", "valid", "test"};

typedef char Path[PATH_BYTES];

typedef struct Content {
    Path path;
    void *text; // owned
    size_t bytes;
} Content;

static EsStatus join_path(Path path, const char *folder, const char *stem, const char *ending) {
    int length = snprintf(path, PATH_BYTES, "%s/%s%s", folder, stem, ending);
    if (length < 0 || length >= PATH_BYTES) {
        return ES_FAIL(INPUT, "the path of %s%s in \"%.100s...\" is longer than %d bytes", stem,
                       ending, folder, PATH_BYTES - 1);
    }
    return ES_STATUS_OK;
}

static int is_prolog(const char *path) {
    size_t length = strlen(path);
    return length > 3 && strcmp(path + length - 3, ".pl") == 0;
}

static int is_present(const char *path) { return access(path, F_OK) == 0; }

// A file that cannot be read is wrong input: the user has named it, or its folder.
static EsStatus read_file(const char *path, void **text, size_t *bytes) {
    EsStatus status = es_file_read_all(path, MAX_FILE_BYTES, text, bytes);
    return status == ES_STATUS_IO ? ES_FAIL(INPUT, "%s", es_status_detail()) : status;
}

static EsStatus read_content(Content *content) {
    return read_file(content->path, &content->text, &content->bytes);
}

static EsStatus check_folder(const char *folder) {
    struct stat facts;
    if (stat(folder, &facts) != 0) {
        return ES_FAIL(INPUT, "%s: %s; expected a folder with train.txt and rules.txt", folder,
                       strerror(errno));
    }
    if (!S_ISDIR(facts.st_mode)) {
        return ES_FAIL(INPUT, "%s: not a folder; expected one with train.txt and rules.txt",
                       folder);
    }
    return ES_STATUS_OK;
}

// --- before the graph exists ---

static EsStatus read_split(EsKgBuilder *builder, const char *folder, EsKgSplit split) {
    Content content = {.text = NULL};
    ES_TRY(join_path(content.path, folder, split_names[split], ".txt"));
    if (!is_present(content.path)) {
        ES_TRY(join_path(content.path, folder, split_names[split], ".tsv"));
    }
    if (!is_present(content.path)) {
        return split == ES_KG_SPLIT_TRAIN
                   ? ES_FAIL(
                         INPUT,
                         "%s: neither train.txt nor train.tsv, one of which must hold the facts",
                         folder)
                   : ES_STATUS_OK;
    }
    ES_TRY(read_content(&content));
    int32_t n_read;
    EsStatus status =
        es_kg_text_read_triples(builder, split, content.path, content.text, content.bytes, &n_read);
    es_release(content.text);
    if (status == ES_STATUS_OK && n_read == 0 && split == ES_KG_SPLIT_TRAIN) {
        return ES_FAIL(INPUT, "%s: holds no facts", content.path);
    }
    return status;
}

static EsStatus find_rules(const EsKgSource *source, Path path) {
    const char *rules = source->rules != NULL ? source->rules : "rules.txt";
    if (strchr(rules, '/') == NULL) {
        return join_path(path, is_prolog(source->path) ? "." : source->path, rules, "");
    }
    if (strlen(rules) >= PATH_BYTES) {
        return ES_FAIL(INPUT, "the path of the rules is longer than %d bytes", PATH_BYTES - 1);
    }
    memcpy(path, rules, strlen(rules) + 1);
    return ES_STATUS_OK;
}

static EsStatus read_rules(EsKgBuilder *builder, const EsKgSource *source) {
    int may_be_missing = source->rules_use == ES_KG_RULES_IF_THERE && source->rules == NULL;
    Content content = {.text = NULL};
    ES_TRY(find_rules(source, content.path));
    if (!is_present(content.path)) {
        return may_be_missing ? ES_STATUS_OK
                              : ES_FAIL(INPUT, "%s: no such rule file", content.path);
    }
    ES_TRY(read_content(&content));
    int32_t n_read;
    EsStatus status =
        es_kg_text_read_rules(builder, content.path, content.text, content.bytes, &n_read);
    es_release(content.text);
    if (status == ES_STATUS_OK && n_read == 0 && !may_be_missing) {
        return ES_FAIL(INPUT, "%s: holds no rules", content.path);
    }
    return status;
}

static EsStatus read_prolog(EsKgBuilder *builder, const EsKgSource *source,
                            EsPrologCounts *counts) {
    Content content = {.text = NULL};
    if (strlen(source->path) >= sizeof content.path) {
        return ES_FAIL(INPUT, "the path of the Prolog file is longer than %d bytes",
                       PATH_BYTES - 1);
    }
    memcpy(content.path, source->path, strlen(source->path) + 1);
    if (!is_present(content.path)) {
        return ES_FAIL(INPUT, "%s: no such Prolog file", content.path);
    }
    ES_TRY(read_content(&content));
    EsStatus status = es_prolog_text_read(builder, content.path, content.text, content.bytes,
                                          source->skips_unknown, counts);
    es_release(content.text);
    ES_TRY(status);
    if (counts->n_skipped > 0) {
        es_log(ES_LOG_WARNING,
               "%s: skipped %d clause%s not understood, %son line %d; what follows may be "
               "incomplete",
               content.path, counts->n_skipped, counts->n_skipped == 1 ? " that is" : "s that are",
               counts->n_skipped == 1 ? "" : "the first ", counts->first_skipped);
    }
    if (counts->n_facts == 0) {
        return ES_FAIL(INPUT, "%s: holds no facts", content.path);
    }
    if (counts->n_rules == 0 && source->rules == NULL && source->rules_use == ES_KG_RULES_NEEDED) {
        return ES_FAIL(INPUT, "%s: holds no rules", content.path);
    }
    return ES_STATUS_OK;
}

static EsStatus read_folder(EsKgBuilder *builder, const EsKgSource *source) {
    ES_TRY(check_folder(source->path));
    for (int split = 0; split < ES_KG_N_SPLITS; split++) {
        ES_TRY(read_split(builder, source->path, (EsKgSplit)split));
    }
    return ES_STATUS_OK;
}

// --- soft facts ---

// Each line is parsed whole before it is filtered, so that a damaged line is an error at any score
// and rank. Queries of valid and test are found in one sorted list.

typedef struct SoftLine {
    EsAtomText atom;
    double score;
    int64_t rank;
} SoftLine;

// Take one number from the front of *rest.
static EsStatus take_number(const EsTextLines *lines, EsPiece *rest, const char *what,
                            double *value) {
    *rest = es_piece_skip_blanks(*rest);
    EsPiece word = {rest->text, 0};
    while (word.bytes < rest->bytes && strchr(" \t", word.text[word.bytes]) == NULL) {
        word.bytes++;
    }
    char number[64] = "", *stop = number;
    if (word.bytes < sizeof number) {
        memcpy(number, word.text, word.bytes);
        number[word.bytes] = '\0';
        *value = strtod(number, &stop);
    }
    if (stop == number || *stop != '\0' || !isfinite(*value)) {
        EsExcerpt excerpt;
        return ES_LINE_FAIL(lines, word.text, "the %s %s is not a number", what,
                            es_text_excerpt(word, excerpt));
    }
    *rest = (EsPiece){word.text + word.bytes, rest->bytes - word.bytes};
    return ES_STATUS_OK;
}

static EsStatus parse_line(const EsTextLines *lines, EsPiece line, SoftLine *soft) {
    EsPiece rest = line;
    double rank;
    ES_TRY(es_text_take_atom(lines, &rest, &soft->atom));
    ES_TRY(take_number(lines, &rest, "score", &soft->score));
    const char *rank_text = es_piece_skip_blanks(rest).text;
    ES_TRY(take_number(lines, &rest, "rank", &rank));
    if (rank < 1 || rank > 1e15 || rank != floor(rank)) {
        return ES_LINE_FAIL(lines, rank_text, "the rank is %g, expected a whole number from 1",
                            rank);
    }
    soft->rank = (int64_t)rank;
    rest = es_piece_skip_blanks(rest);
    if (rest.bytes > 0) {
        EsExcerpt excerpt;
        return ES_LINE_FAIL(lines, rest.text, "%s after the rank", es_text_excerpt(rest, excerpt));
    }
    return ES_STATUS_OK;
}

// Queries of valid and test, sorted.
static EsStatus list_queries(const EsKnowledgeGraph *graph, EsWideAtom **atoms, size_t *count) {
    const EsKgSplit splits[] = {ES_KG_SPLIT_VALID, ES_KG_SPLIT_TEST};
    size_t most = (size_t)graph->splits[splits[0]].count + (size_t)graph->splits[splits[1]].count;
    ES_TRY(es_allocate((most + 1) * sizeof **atoms, (void **)atoms));
    *count = 0;
    for (size_t s = 0; s < ES_COUNT_OF(splits); s++) {
        for (int32_t i = 0; i < graph->splits[splits[s]].count; i++) {
            memcpy((*atoms)[(*count)++].cells, es_kg_query(graph, splits[s], i),
                   (size_t)graph->query_cells * sizeof(EsAtom));
        }
    }
    qsort(*atoms, *count, sizeof **atoms, es_wide_atom_compare);
    return ES_STATUS_OK;
}

// Returns whether an atom in a builder's numbers is a fact; numbers beyond those of the graph are
// names that it does not have.
static int is_known(const EsKnowledgeGraph *graph, const EsAtomText *spelt, const EsAtom *atom) {
    for (int i = 0; i < spelt->n_terms; i++) {
        if (es_atom_term(atom, i) > graph->n_constants) {
            return 0;
        }
    }
    return atom->predicate <= graph->n_predicates && es_kg_is_fact(graph, atom);
}

static EsStatus add_atom(EsKgBuilder *builder, const EsTextLines *lines,
                         const EsKnowledgeGraph *graph, const EsAtomText *spelt,
                         const EsWideAtom *queries, size_t n_queries, EsSoftCounts *counts) {
    EsWideAtom atom;
    ES_TRY(es_text_intern_atom(lines, builder, spelt, &atom));
    if (bsearch(&atom, queries, n_queries, sizeof atom, es_wide_atom_compare) != NULL) {
        counts->n_queries++;
        return ES_STATUS_OK;
    }
    if (is_known(graph, spelt, atom.cells)) {
        counts->n_known++;
        return ES_STATUS_OK;
    }
    counts->n_added++;
    return es_kg_builder_add_fact(builder, atom.cells);
}

EsStatus es_soft_facts_read(EsKgBuilder *builder, const EsKnowledgeGraph *graph,
                            const EsSoftFilter *filter, const char *name, const char *text,
                            size_t bytes, EsSoftCounts *counts) {
    memset(counts, 0, sizeof *counts);
    EsTextLines lines = es_text_lines_begin(name, text, bytes);
    EsWideAtom *queries = NULL;
    size_t n_queries;
    EsStatus status = ES_STATUS_OK;
    ES_TRY(list_queries(graph, &queries, &n_queries));
    for (;;) {
        EsPiece line;
        int is_there;
        SoftLine soft;
        ES_TRY_GOTO(es_text_lines_next(&lines, &line, &is_there));
        if (!is_there) {
            break;
        }
        if (line.text[0] == '#' || line.text[0] == '%') {
            continue;
        }
        ES_TRY_GOTO(parse_line(&lines, line, &soft));
        counts->n_read++;
        if (soft.score < filter->min_score ||
            (filter->max_rank > 0 && soft.rank > filter->max_rank)) {
            counts->n_filtered++;
            continue;
        }
        ES_TRY_GOTO(add_atom(builder, &lines, graph, &soft.atom, queries, n_queries, counts));
    }
done:
    es_release(queries);
    return status;
}

// --- once it exists ---

// Make the graph again, with soft facts.
static EsStatus add_soft_facts(const EsKgSource *source, EsSoftCounts *counts,
                               EsKnowledgeGraph **graph) {
    EsKgBuilder *builder = NULL;
    EsKnowledgeGraph *made = NULL;
    void *text = NULL;
    size_t bytes;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(read_file(source->soft, &text, &bytes));
    ES_TRY_GOTO(es_kg_builder_create_from(*graph, &builder));
    es_kg_builder_set_pool(builder, source->pool);
    for (int32_t i = 0; i < (*graph)->n_facts; i++) {
        ES_TRY_GOTO(es_kg_builder_add_fact(builder, &(*graph)->facts[i]));
    }
    for (int32_t i = 0; i < (*graph)->wide.count; i++) {
        ES_TRY_GOTO(es_kg_builder_add_fact(builder, (*graph)->wide.atoms + 2 * (size_t)i));
    }
    ES_TRY_GOTO(
        es_soft_facts_read(builder, *graph, &source->filter, source->soft, text, bytes, counts));
    ES_TRY_GOTO(es_kg_builder_finish(builder, &made));
    es_kg_destroy(*graph);
    *graph = made;
done:
    es_release(text);
    es_kg_builder_destroy(builder);
    return status;
}

// A predicate of the rule's body that is in no fact and heads no rule, 0: none.
static int32_t find_lost_goal(const EsKnowledgeGraph *graph, const EsHornRule *rule) {
    for (int k = 0; k < rule->n_body; k += es_kg_cells(graph, rule->body[k].predicate)) {
        int32_t predicate = rule->body[k].predicate, n_rules;
        es_kg_rules_of(graph, predicate, &n_rules);
        if (n_rules == 0 && es_kg_count_facts_of(graph, predicate) == 0 &&
            !es_kg_is_test(graph, predicate)) {
            return predicate;
        }
    }
    return 0;
}

// Returns whether the rule was read before the other: a Prolog file is read before a file of rules.
static int comes_before(const EsHornRule *rule, const EsHornRule *other) {
    return rule->is_prolog != other->is_prolog ? rule->is_prolog : rule->line < other->line;
}

// Such a rule proves nothing, and mostly has a predicate that the facts spell in another way.
static EsStatus warn_of_lost_rules(const EsKgSource *source, const EsKnowledgeGraph *graph) {
    Path path;
    int32_t n_lost = 0;
    const EsHornRule *first = NULL;
    for (int32_t r = 0; r < graph->n_rules; r++) {
        const EsHornRule *rule = &graph->rules[r];
        if (find_lost_goal(graph, rule) > 0) {
            first = first == NULL || comes_before(rule, first) ? rule : first;
            n_lost++;
        }
    }
    if (first == NULL) {
        return ES_STATUS_OK;
    }
    ES_TRY(find_rules(source, path));
    // rules of a Prolog file may have company from a file of rules
    int is_both = is_prolog(source->path) && source->rules != NULL;
    const char *first_path = first->is_prolog ? source->path : path;
    es_log(ES_LOG_WARNING,
           "%s%s%s: %d rule%s can never be used, for a predicate of the body that is in no fact "
           "and heads no rule; the first is in line %d%s%s, with \"%.100s\"",
           is_both ? source->path : first_path, is_both ? " and " : "", is_both ? path : "", n_lost,
           n_lost == 1 ? "" : "s", first->line, is_both ? " of " : "", is_both ? first_path : "",
           graph->predicate_names[find_lost_goal(graph, first)]);
    return ES_STATUS_OK;
}

// A variable is often meant where a constant of that name is written, and the other way round.
static EsStatus warn_of_shadows(const EsKgSource *source, const EsKnowledgeGraph *graph) {
    Path path;
    if (graph->n_shadowed == 0) {
        return ES_STATUS_OK;
    }
    ES_TRY(find_rules(source, path));
    es_log(ES_LOG_WARNING,
           "%s:%d: \"%.100s\" is a variable here, though the graph has a constant of that name; in "
           "quotes it is the constant%s",
           path, graph->shadowed_line, graph->constant_names[graph->shadowed],
           graph->n_shadowed > 1 ? " (and so for other variables of the file)" : "");
    return ES_STATUS_OK;
}

// Returns whether a name is a number with a decimal point.
static int is_decimal(const char *name) {
    name += *name == '-';
    size_t n_whole = strspn(name, "0123456789");
    size_t n_more = name[n_whole] == '.' ? strspn(name + n_whole + 1, "0123456789") : 0;
    return n_whole > 0 && n_more > 0 && name[n_whole + 1 + n_more] == '\0';
}

// Comparisons in order hold of integers alone, which the author of 9.5 may not expect.
static void warn_of_decimals(const EsKnowledgeGraph *graph) {
    int32_t n_decimals = 0, first = 0;
    int is_ordered = 0;
    for (int32_t p = 1; p <= graph->n_predicates && graph->has_tests; p++) {
        is_ordered |= graph->test_of[p] > ES_KG_NOT_EQUAL && graph->test_of[p] < ES_KG_NEGATION;
    }
    for (int32_t c = 1; c <= graph->n_constants && is_ordered; c++) {
        if (is_decimal(graph->constant_names[c])) {
            first = first == 0 ? c : first;
            n_decimals++;
        }
    }
    if (n_decimals > 0) {
        es_log(
            ES_LOG_WARNING,
            "%d constant%s with a decimal point, such as \"%.100s\": rules compare in order by <, "
            "<=, > or >=, which hold of integers alone",
            n_decimals, n_decimals == 1 ? "" : "s", graph->constant_names[first]);
    }
}

static void mark_cells(unsigned char *is_used, const EsAtom *cells, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        is_used[cells[i].a] = is_used[cells[i].b] = 1;
    }
}

// A constant in the body of a rule file's rule that no fact and no query has, where no rule could
// give it either; 0: none.
static int32_t find_strange(const EsKnowledgeGraph *graph, const EsHornRule *rule,
                            const unsigned char *is_used) {
    int n_cells = 1;
    for (int k = 0; k < rule->n_body && !rule->is_prolog; k += n_cells) {
        const EsAtom *atom = &rule->body[k];
        int32_t n_rules;
        n_cells = es_kg_cells(graph, atom->predicate);
        es_kg_rules_of(graph, atom->predicate, &n_rules);
        int is_looked_up = n_rules == 0 && !es_kg_is_test(graph, atom->predicate);
        for (int i = 0; i < 2 * n_cells && is_looked_up; i++) {
            int32_t term = es_atom_term(atom, i);
            if (term > 0 && !is_used[term]) {
                return term;
            }
        }
    }
    return 0;
}

// Such a rule proves nothing; its author may have meant a variable.
static EsStatus warn_of_strange(const EsKgSource *source, const EsKnowledgeGraph *graph) {
    Path path;
    void *is_used;
    const EsHornRule *first = NULL;
    int32_t n_rules = 0, constant = 0;
    ES_TRY(es_allocate((size_t)graph->n_constants + 1, &is_used));
    mark_cells(is_used, graph->facts, graph->n_facts);
    mark_cells(is_used, graph->wide.atoms, 2 * (int64_t)graph->wide.count);
    for (int split = 0; split < ES_KG_N_SPLITS; split++) {
        const EsQuerySplit *queries = &graph->splits[split];
        mark_cells(is_used, queries->atoms, (int64_t)queries->count * graph->query_cells);
    }
    for (int32_t r = 0; r < graph->n_rules; r++) {
        int32_t strange = find_strange(graph, &graph->rules[r], is_used);
        n_rules += strange != 0;
        if (strange != 0 && (first == NULL || graph->rules[r].line < first->line)) {
            first = &graph->rules[r];
            constant = strange;
        }
    }
    es_release(is_used);
    if (first == NULL) {
        return ES_STATUS_OK;
    }
    ES_TRY(find_rules(source, path));
    es_log(ES_LOG_WARNING,
           "%s:%d: \"%.100s\" is a constant here, and no fact and no query has it; a variable is "
           "one letter with digits behind it, or begins with a capital letter, _ or ? (%d rule%s)",
           path, first->line, graph->constant_names[constant], n_rules, n_rules == 1 ? "" : "s");
    return ES_STATUS_OK;
}

static EsStatus read_depths(EsKnowledgeGraph *graph, const char *folder, EsKgSplit split) {
    Content content = {.text = NULL};
    ES_TRY(join_path(content.path, folder, split_names[split], "_depths.txt"));
    if (!is_present(content.path)) {
        return ES_STATUS_OK;
    }
    ES_TRY(read_content(&content));
    EsStatus status =
        es_kg_text_read_depths(graph, split, content.path, content.text, content.bytes);
    es_release(content.text);
    return status;
}

static EsStatus read_domains(EsKnowledgeGraph *graph, const char *folder) {
    Content content = {.text = NULL};
    ES_TRY(join_path(content.path, folder, "domain2constants", ".txt"));
    if (!is_present(content.path)) {
        return ES_STATUS_OK;
    }
    ES_TRY(read_content(&content));
    EsStatus status = es_kg_text_read_domains(graph, content.path, content.text, content.bytes);
    es_release(content.text);
    return status;
}

EsStatus es_kg_load_source(const EsKgSource *source, EsKgReading *reading,
                           EsKnowledgeGraph **graph) {
    *graph = NULL;
    EsKgBuilder *builder = NULL;
    EsKnowledgeGraph *made = NULL;
    EsKgReading unused;
    reading = reading != NULL ? reading : &unused;
    memset(reading, 0, sizeof *reading);
    EsStatus status = ES_STATUS_OK;
    int is_folder = !is_prolog(source->path);
    ES_TRY(es_kg_builder_create(&builder));
    es_kg_builder_set_pool(builder, source->pool);
    ES_TRY_GOTO(is_folder ? read_folder(builder, source)
                          : read_prolog(builder, source, &reading->prolog));
    if (source->rules_use != ES_KG_RULES_LEFT_OUT && (is_folder || source->rules != NULL)) {
        ES_TRY_GOTO(read_rules(builder, source));
    }
    ES_TRY_GOTO(es_kg_builder_finish(builder, &made));
    ES_TRY_GOTO(warn_of_shadows(source, made));
    if (source->soft != NULL) {
        ES_TRY_GOTO(add_soft_facts(source, &reading->soft, &made));
    }
    made->n_skipped = reading->prolog.n_skipped;
    if (source->rules_use == ES_KG_RULES_NEEDED) {
        ES_TRY_GOTO(warn_of_lost_rules(source, made));
        ES_TRY_GOTO(warn_of_strange(source, made));
        warn_of_decimals(made);
    }
    for (int split = 0; split < ES_KG_N_SPLITS && is_folder; split++) {
        ES_TRY_GOTO(read_depths(made, source->path, (EsKgSplit)split));
    }
    if (is_folder) {
        ES_TRY_GOTO(read_domains(made, source->path));
    }
    *graph = made;
    made = NULL;
done:
    es_kg_builder_destroy(builder);
    es_kg_destroy(made);
    return status;
}

EsStatus es_kg_load(const char *path, const char *rules, EsKnowledgeGraph **graph) {
    EsKgSource source = {.path = path, .rules = rules};
    return es_kg_load_source(&source, NULL, graph);
}
