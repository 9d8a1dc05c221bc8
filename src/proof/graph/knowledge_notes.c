// What files say about a graph that exists: depths of queries, domains of constants.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "proof/graph/knowledge_text.h"
#include "proof/graph/text_line.h"

#define MAX_DEPTH 1000000
// they are looked up one after the other
#define MAX_DOMAINS 10000

typedef char Name[ES_KG_MAX_NAME_BYTES + 1];

static const char *copy_name(EsPiece piece, Name name) {
    ES_ASSERT(piece.bytes < sizeof(Name));
    memcpy(name, piece.text, piece.bytes);
    name[piece.bytes] = '\0';
    return name;
}

// --- depths ---

static int compare_queries(const void *left, const void *right, void *context) {
    const EsAtom *atoms = context;
    return es_atom_compare(&atoms[*(const int32_t *)left], &atoms[*(const int32_t *)right]);
}

// Quotes are part of a name from columns, and no part of one from "predicate(a,b)".
static int32_t find_constant(const EsKnowledgeGraph *graph, EsPiece piece) {
    Name name;
    int32_t constant = es_kg_constant(graph, copy_name(piece, name));
    return constant != 0 ? constant
                         : es_kg_constant(graph, copy_name(es_piece_strip_quotes(piece), name));
}

// 0 in a field whose name the graph does not have.
static EsStatus parse_query(const EsTextLines *lines, const EsKnowledgeGraph *graph, EsPiece *rest,
                            EsAtom *atom) {
    EsAtomText spelt;
    Name name;
    ES_TRY(es_text_take_atom(lines, rest, &spelt));
    atom->predicate = es_kg_predicate(graph, copy_name(spelt.predicate, name));
    atom->a = find_constant(graph, spelt.a);
    atom->b = find_constant(graph, spelt.b);
    return ES_STATUS_OK;
}

static EsStatus parse_depth(const EsTextLines *lines, EsPiece rest, int32_t *depth) {
    char number[16] = "", *stop = number;
    EsPiece piece = es_piece_trim(rest);
    if (piece.bytes == 0) {
        return ES_LINE_FAIL(lines, rest.text, "%s", "no depth after the atom");
    }
    long value = 0;
    if (piece.bytes < sizeof number) {
        memcpy(number, piece.text, piece.bytes);
        number[piece.bytes] = '\0';
        value = strtol(number, &stop, 10);
    }
    if (stop == number || *stop != '\0' || value < ES_KG_DEPTH_NONE || value > MAX_DEPTH) {
        EsExcerpt excerpt;
        return ES_LINE_FAIL(lines, piece.text, "%s where a depth is expected, -1 to %d",
                            es_text_excerpt(piece, excerpt), MAX_DEPTH);
    }
    *depth = (int32_t)value;
    return ES_STATUS_OK;
}

// Give every query that equals the atom its depth; `order` lists the queries by atom.
static int32_t set_depth(EsQuerySplit *split, const int32_t *order, EsAtom atom, int32_t depth) {
    int32_t low = 0, high = split->count, n_set = 0;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (es_atom_compare(&split->atoms[order[middle]], &atom) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (; low < split->count && es_atom_compare(&split->atoms[order[low]], &atom) == 0; low++) {
        split->depths[order[low]] = depth;
        n_set++;
    }
    return n_set;
}

static EsStatus read_depth_lines(EsTextLines *lines, const EsKnowledgeGraph *graph,
                                 EsQuerySplit *split, const int32_t *order) {
    for (;;) {
        EsPiece line;
        int is_there;
        ES_TRY(es_text_lines_next(lines, &line, &is_there));
        if (!is_there) {
            return ES_STATUS_OK;
        }
        if (line.text[0] == '%') {
            continue;
        }
        EsPiece rest = line;
        EsAtom atom;
        int32_t depth = ES_KG_DEPTH_ABSENT;
        ES_TRY(parse_query(lines, graph, &rest, &atom));
        ES_TRY(parse_depth(lines, rest, &depth));
        if (set_depth(split, order, atom, depth) == 0) {
            EsExcerpt excerpt;
            EsPiece spelt = {line.text, (size_t)(rest.text - line.text)};
            return ES_LINE_FAIL(lines, line.text, "%s is not among the queries it gives depths for",
                                es_text_excerpt(spelt, excerpt));
        }
    }
}

EsStatus es_kg_text_read_depths(EsKnowledgeGraph *graph, EsKgSplit split, const char *name,
                                const char *text, size_t bytes) {
    EsQuerySplit *queries = &graph->splits[split];
    int32_t *order = NULL;
    ES_TRY(es_allocate((size_t)queries->count * sizeof *order, (void **)&order));
    for (int32_t i = 0; i < queries->count; i++) {
        order[i] = i;
    }
    qsort_r(order, (size_t)queries->count, sizeof *order, compare_queries, queries->atoms);
    EsTextLines lines = es_text_lines_begin(name, text, bytes);
    EsStatus status = read_depth_lines(&lines, graph, queries, order);
    es_release(order);
    return status;
}

// --- domains ---

static EsPiece take_word(EsPiece *rest) {
    EsPiece piece = es_piece_skip_blanks(*rest);
    size_t bytes = 0;
    while (bytes < piece.bytes && piece.text[bytes] != ' ' && piece.text[bytes] != '\t') {
        bytes++;
    }
    *rest = (EsPiece){piece.text + bytes, piece.bytes - bytes};
    return (EsPiece){piece.text, bytes};
}

static int32_t find_domain(const EsDomains *domains, const char *name) {
    int32_t d = domains->count;
    while (d > 0 && strcmp(domains->names[d], name) != 0) {
        d--;
    }
    return d;
}

// "predicate:domain:domain"
static EsStatus read_typing(const EsTextLines *lines, EsKnowledgeGraph *graph, EsPiece line) {
    EsPiece parts[3];
    const char *at = line.text, *end = line.text + line.bytes;
    for (int i = 0; i < 3; i++) {
        const char *colon = i < 2 ? memchr(at, ':', (size_t)(end - at)) : end;
        if (colon == NULL) {
            EsExcerpt excerpt;
            return ES_LINE_FAIL(lines, line.text,
                                "%s is neither a domain with its constants nor "
                                "predicate:domain:domain",
                                es_text_excerpt(line, excerpt));
        }
        parts[i] = (EsPiece){at, (size_t)(colon - at)};
        at = colon + 1;
        ES_TRY(es_text_check_name(lines, parts[i], i == 0 ? "predicate" : "domain"));
    }
    Name name;
    EsExcerpt excerpt;
    int32_t predicate = es_kg_predicate(graph, copy_name(parts[0], name));
    if (predicate == 0) {
        return ES_LINE_FAIL(lines, parts[0].text, "no fact, query or rule has the predicate %s",
                            es_text_excerpt(parts[0], excerpt));
    }
    for (int i = 1; i < 3; i++) {
        int32_t domain = find_domain(&graph->domains, copy_name(parts[i], name));
        if (domain == 0) {
            return ES_LINE_FAIL(lines, parts[i].text, "no line above lists the domain %s",
                                es_text_excerpt(parts[i], excerpt));
        }
        graph->domains.of_argument[2 * predicate + i - 1] = domain;
    }
    return ES_STATUS_OK;
}

// "domain constant constant ..."; the caller has made room. *text is where its name goes.
static EsStatus read_domain(const EsTextLines *lines, EsKnowledgeGraph *graph, EsPiece domain,
                            EsPiece rest, char **text) {
    EsDomains *domains = &graph->domains;
    ES_TRY(es_text_check_name(lines, domain, "domain"));
    Name name;
    EsExcerpt excerpt;
    if (find_domain(domains, copy_name(domain, name)) != 0) {
        return ES_LINE_FAIL(lines, domain.text, "the domain %s is there twice",
                            es_text_excerpt(domain, excerpt));
    }
    if (domains->count == MAX_DOMAINS) {
        return ES_LINE_FAIL(lines, domain.text, "more than %d domains", MAX_DOMAINS);
    }
    int32_t number = ++domains->count;
    domains->names[number] = strcpy(*text, name);
    *text += domain.bytes + 1;
    int32_t end = domains->start[number];
    for (;;) {
        EsPiece word = take_word(&rest);
        if (word.bytes == 0) {
            break;
        }
        ES_TRY(es_text_check_name(lines, word, "constant"));
        int32_t constant = es_kg_constant(graph, copy_name(word, name));
        if (constant == 0) {
            domains->n_unknown++;
            continue;
        }
        domains->members[end++] = constant;
        if (domains->of_constant[constant] == 0) {
            domains->of_constant[constant] = number;
        }
    }
    domains->start[number + 1] = end;
    return ES_STATUS_OK;
}

// Room for as many domains as there are lines and as many members as there are words.
static EsStatus allocate_domains(EsKnowledgeGraph *graph, const char *text, size_t bytes) {
    size_t n_lines = 1, n_words = 1;
    for (size_t i = 0; i < bytes; i++) {
        n_lines += text[i] == '\n';
        n_words += text[i] == ' ' || text[i] == '\t' || text[i] == '\n';
    }
    if (n_words > INT32_MAX) {
        return ES_FAIL(INPUT, "more than %d words in a file of domains", INT32_MAX);
    }
    EsDomains *domains = &graph->domains;
    size_t n_constants = (size_t)graph->n_constants, n_predicates = (size_t)graph->n_predicates;
    ES_TRY(es_allocate((n_lines + 1) * sizeof(char *), (void **)&domains->names));
    ES_TRY(es_allocate((n_lines + 2) * sizeof(int32_t), (void **)&domains->start));
    ES_TRY(es_allocate(n_words * sizeof(int32_t), (void **)&domains->members));
    ES_TRY(es_allocate((n_constants + 1) * sizeof(int32_t), (void **)&domains->of_constant));
    ES_TRY(es_allocate(2 * (n_predicates + 1) * sizeof(int32_t), (void **)&domains->of_argument));
    ES_TRY(es_allocate(bytes + 1, (void **)&domains->name_text));
    domains->names[0] = "";
    return ES_STATUS_OK;
}

EsStatus es_kg_text_read_domains(EsKnowledgeGraph *graph, const char *name, const char *text,
                                 size_t bytes) {
    ES_ASSERT(graph->domains.names == NULL);
    ES_TRY(allocate_domains(graph, text, bytes));
    char *names_end = graph->domains.name_text;
    EsTextLines lines = es_text_lines_begin(name, text, bytes);
    for (;;) {
        EsPiece line;
        int is_there;
        ES_TRY(es_text_lines_next(&lines, &line, &is_there));
        if (!is_there) {
            return ES_STATUS_OK;
        }
        if (line.text[0] == '%') {
            continue;
        }
        EsPiece rest = line, first = take_word(&rest);
        ES_TRY(rest.bytes == 0 ? read_typing(&lines, graph, first)
                               : read_domain(&lines, graph, first, rest, &names_end));
    }
}
