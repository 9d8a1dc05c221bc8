#include "prove/prove_tree.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/frame.h"
#include "proof/graph/knowledge_text.h"
#include "proof/graph/knowledge_graph.h"

#define ATOM_BYTES (3 * ES_KG_MAX_NAME_BYTES + 4)
// of an atom or a rule
#define TEXT_BYTES ES_MAX(ATOM_BYTES, ES_RULE_TEXT_BYTES)

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
    unsigned char *is_last; // whether the ancestor at a level was the last child   (count)
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

static int n_children(const EsProofTree *tree, int32_t i) {
    int32_t rule = tree->nodes[i].rule;
    return rule == ES_PROOF_NODE_FACT ? 0 : tree->graph->rules[rule].n_body;
}

static void measure(Drawing *drawing, int32_t i, int level) {
    es_kg_format_atom(drawing->tree->graph, drawing->tree->nodes[i].atom, drawing->text,
                      sizeof drawing->text);
    int width = STROKE_COLUMNS * level + es_padded_text_width(drawing->text);
    drawing->width = ES_MAX(drawing->width, width);
    for (int k = 0; k < n_children(drawing->tree, i); k++) {
        measure(drawing, drawing->tree->nodes[i].first + k, level + 1);
    }
}

static void draw(Drawing *drawing, int32_t i, int level) {
    const EsProofTree *tree = drawing->tree;
    const EsProofNode *node = &tree->nodes[i];
    es_kg_format_atom(tree->graph, node->atom, drawing->text, sizeof drawing->text);
    fprintf(drawing->stream, "%*s", drawing->indent, "");
    for (int k = 1; k <= level; k++) {
        fputs(drawing->strokes[(k < level ? 2 : 0) + drawing->is_last[k]], drawing->stream);
    }
    es_padded_text_print(drawing->text, drawing->width - STROKE_COLUMNS * level + 2,
                         drawing->stream);
    if (node->rule == ES_PROOF_NODE_FACT) {
        fprintf(drawing->stream, "fact\n");
        return;
    }
    es_horn_rule_format(tree->graph, &tree->graph->rules[node->rule], drawing->text,
                        sizeof drawing->text);
    fprintf(drawing->stream, "rule %d: ", tree->graph->rules[node->rule].line);
    es_padded_text_print(drawing->text, 0, drawing->stream);
    fputc('\n', drawing->stream);
    for (int k = 0; k < n_children(tree, i); k++) {
        drawing->is_last[level + 1] = k + 1 == n_children(tree, i);
        draw(drawing, node->first + k, level + 1);
    }
}

EsStatus es_prove_tree_print(const EsProofTree *tree, int indent, FILE *stream) {
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
    // names are bytes; what is not UTF-8 cannot be written as JSON
    json_t *string = json_string(text);
    return string != NULL ? string : json_null();
}

json_t *es_prove_atom_json(const EsKnowledgeGraph *graph, EsAtom atom) {
    char text[ATOM_BYTES];
    es_kg_format_atom(graph, atom, text, sizeof text);
    return text_json(text);
}

// `text` is room of TEXT_BYTES, shared by all nodes as in a drawing.
static json_t *node_json(const EsProofTree *tree, int32_t i, char *text) {
    const EsProofNode *node = &tree->nodes[i];
    es_kg_format_atom(tree->graph, node->atom, text, TEXT_BYTES);
    json_t *atom = text_json(text);
    if (node->rule == ES_PROOF_NODE_FACT) {
        return json_pack("{s:o, s:b}", "atom", atom, "fact", 1);
    }
    const EsHornRule *rule = &tree->graph->rules[node->rule];
    es_horn_rule_format(tree->graph, rule, text, TEXT_BYTES);
    json_t *spelt = text_json(text), *body = json_array();
    for (int k = 0; k < n_children(tree, i); k++) {
        json_array_append_new(body, node_json(tree, node->first + k, text));
    }
    return json_pack("{s:o, s:o, s:i, s:o}", "atom", atom, "rule", spelt, "line", rule->line,
                     "body", body);
}

json_t *es_prove_tree_json(const EsProofTree *tree) {
    char text[TEXT_BYTES];
    return node_json(tree, 0, text);
}
