// The same graph and the same message from a text for any number of threads: random texts of facts
// in both forms, of none to four arguments, with quotes, comments and blank lines, whole or with
// mistakes anywhere.
#include "base/random_rules.h"
#include "es_test.h"
#include "proof/graph/knowledge_text.h"

#define MAX_BYTES  120000
#define N_TEXTS    120
#define N_POOLS    4
#define LINE_BYTES 256

static const int thread_counts[N_POOLS] = {1, 2, 3, 7};

typedef struct Draws {
    uint32_t text, next;
} Draws;

static uint32_t draw(Draws *draws, uint32_t n) {
    EsRandom4 r = es_random_draw(23, draws->text, ES_PURPOSE_DATA_GENERATION, 0, draws->next++);
    return es_random_below(r.word[0], n);
}

// Names share beginnings and ends, hash alike in part, and come from few or from many.
static void put_name(Draws *draws, uint32_t n_names, char *name, size_t bytes) {
    static const char *const forms[] = {"n%u", "%u_long_name_of_a_constant", "'q %u, (x)'", "c%07u",
                                        "\"d''%u\""};
    snprintf(name, bytes, forms[draw(draws, 5)], draw(draws, n_names));
}

static size_t put_fact(Draws *draws, uint32_t n_names, char line[LINE_BYTES]) {
    uint32_t arity = draw(draws, 5);
    size_t used = (size_t)snprintf(line, LINE_BYTES, "p%u_%u", arity, draw(draws, 4));
    for (uint32_t i = 0; i < arity; i++) {
        char name[64];
        put_name(draws, n_names, name, sizeof name);
        used += (size_t)snprintf(line + used, LINE_BYTES - used, "%s%s%s", i == 0 ? "(" : ",",
                                 draw(draws, 6) == 0 ? " " : "", name);
    }
    used += (size_t)snprintf(line + used, LINE_BYTES - used, "%s", arity > 0 ? ")" : "");
    const char *const ends[] = {".\n", arity > 0 ? "\n" : ".\n", ".  \r\n", ".\n\n", ".\n% note\n"};
    return used + (size_t)snprintf(line + used, LINE_BYTES - used, "%s", ends[draw(draws, 5)]);
}

static size_t put_columns(Draws *draws, uint32_t n_names, char line[LINE_BYTES]) {
    return (size_t)snprintf(line, LINE_BYTES, "a (%u)\trelation %u\tb,%u%s", draw(draws, n_names),
                            draw(draws, 9), draw(draws, n_names), draw(draws, 9) ? "\n" : "\r\n\n");
}

// One of the mistakes that a line can have; some of them only against another line.
static size_t put_mistake(Draws *draws, int has_columns, char line[LINE_BYTES]) {
    static const char *const mistakes[] = {"p2_0(a,b,c).\n", "p2_1(a,b) p2_1(c,d)\n",
                                           "p2_0(a,(b)).\n", "likes(ann bob,c)\n",
                                           "nothing\n",      "X.\n",
                                           "<(a,b)\n",       "p4_1(a,b,c,d,e)\n",
                                           "p2_3(a,b\n",     "'not x'(a,b)\n",
                                           "p3_2(a)\n"};
    static const char *const columns[] = {"a\tb\n", "a\tb\tc\td\n", "\tb\tc\n", "a\t!=\tc\n"};
    if (draw(draws, 8) == 0) {
        static const char with_zero[] = {'a', '\0', 'b', '\n'};
        memcpy(line, with_zero, sizeof with_zero);
        return sizeof with_zero;
    }
    return (size_t)snprintf(line, LINE_BYTES, "%s",
                            has_columns ? columns[draw(draws, 4)] : mistakes[draw(draws, 11)]);
}

// A third of the texts are without a mistake; the others have one to three, most of them rarely.
static size_t make_text(uint32_t number, char *text) {
    Draws draws = {number, 0};
    static const uint32_t sizes[] = {3000, 9000, 20000, MAX_BYTES - 2 * LINE_BYTES};
    size_t bytes = 0, wanted = sizes[draw(&draws, 4)] - draw(&draws, 2000);
    uint32_t n_names = draw(&draws, 2) ? 40 : 20000;
    int has_columns = draw(&draws, 4) == 0;
    size_t mistakes[3] = {0};
    uint32_t n_mistakes = number % 3 == 0 ? 0 : 1 + draw(&draws, 3);
    for (uint32_t i = 0; i < n_mistakes; i++) {
        mistakes[i] = 1 + draw(&draws, (uint32_t)wanted);
    }
    if (draw(&draws, 5) == 0) {
        static const char mark[] = {'\xef', '\xbb', '\xbf'}; // of UTF-8
        memcpy(text, mark, sizeof mark);
        bytes = sizeof mark;
    }
    while (bytes < wanted) {
        int is_wrong = 0;
        for (int i = 0; i < 3; i++) {
            is_wrong |= mistakes[i] > 0 && mistakes[i] <= bytes;
            mistakes[i] = mistakes[i] <= bytes ? 0 : mistakes[i];
        }
        bytes += is_wrong      ? put_mistake(&draws, has_columns, text + bytes)
                 : has_columns ? put_columns(&draws, n_names, text + bytes)
                               : put_fact(&draws, n_names, text + bytes);
    }
    // the last line may lack its end
    return bytes - draw(&draws, 2);
}

// --- comparing ---

static int same(const void *x, const void *y, size_t bytes) {
    return bytes == 0 || memcmp(x, y, bytes) == 0;
}

static int same_names(const char *const *x, const char *const *y, int32_t count) {
    for (int32_t i = 0; i <= count; i++) {
        if (strcmp(x[i], y[i]) != 0) {
            return 0;
        }
    }
    return 1;
}

// Entries of the last predicate are counted, too: rows, or slots of three.
static size_t count_entries(const EsKnowledgeGraph *graph, const EsFactIndex *index) {
    EsFactRows last = index->rows[graph->n_predicates];
    return (size_t)last.first +
           (last.mask < 0 ? (size_t)graph->n_constants + 2 : 3 * ((size_t)last.mask + 1));
}

static int same_index(const EsKnowledgeGraph *graph, const EsFactIndex *x, const EsFactIndex *y) {
    for (int32_t p = 0; p <= graph->n_predicates; p++) {
        if (x->rows[p].first != y->rows[p].first || x->rows[p].mask != y->rows[p].mask) {
            return 0;
        }
    }
    return same(x->entries, y->entries, count_entries(graph, x) * sizeof *x->entries);
}

static int same_wide(const EsKnowledgeGraph *graph, const EsWideFacts *x, const EsWideFacts *y) {
    size_t count = (size_t)x->count;
    int is_same = x->count == y->count && same(x->atoms, y->atoms, 2 * count * sizeof(EsAtom));
    for (int place = 0; place < ES_KG_MAX_ARITY && is_same && graph->has_wide; place++) {
        is_same = same(x->order[place], y->order[place], count * sizeof(int32_t));
    }
    return is_same;
}

static int same_graphs(const EsKnowledgeGraph *x, const EsKnowledgeGraph *y) {
    size_t n_facts = (size_t)x->n_facts, n_predicates = (size_t)x->n_predicates;
    if (x->n_constants != y->n_constants || x->n_predicates != y->n_predicates ||
        x->n_facts != y->n_facts || x->has_wide != y->has_wide ||
        !same_names(x->constant_names, y->constant_names, x->n_constants) ||
        !same_names(x->predicate_names, y->predicate_names, x->n_predicates) ||
        !same(x->arities, y->arities, n_predicates + 1) ||
        !same(x->facts, y->facts, n_facts * sizeof(EsAtom)) ||
        !same(x->facts_by_b, y->facts_by_b, n_facts * sizeof(EsAtom)) ||
        !same(x->fact_start, y->fact_start, (n_predicates + 2) * sizeof(int32_t)) ||
        !same_index(x, &x->by_a, &y->by_a) || !same_index(x, &x->by_b, &y->by_b) ||
        !same_wide(x, &x->wide, &y->wide)) {
        return 0;
    }
    for (int split = 0; split < ES_KG_N_SPLITS; split++) {
        const EsQuerySplit *a = &x->splits[split], *b = &y->splits[split];
        size_t bytes = (size_t)a->count * (size_t)x->query_cells * sizeof(EsAtom);
        if (a->count != b->count || !same(a->atoms, b->atoms, bytes)) {
            return 0;
        }
    }
    return 1;
}

// --- reading ---

typedef struct Reading {
    EsStatus status;
    char detail[512];
    int32_t n_read, first_number, last_number; // of names that are there before and behind
    EsKnowledgeGraph *graph;
} Reading;

// Two texts into one builder, the second on top of the names of the first; what was read before a
// mistake makes a graph as well.
static Reading read_texts(EsThreadPool *pool, const char *facts, size_t n_facts,
                          const char *queries, size_t n_queries) {
    Reading reading = {.status = ES_STATUS_OK};
    EsKgBuilder *builder;
    int32_t n_more = 0;
    REQUIRE_OK(es_kg_builder_create(&builder));
    es_kg_builder_set_pool(builder, pool);
    reading.status = es_kg_text_read_triples(builder, ES_KG_SPLIT_TRAIN, "facts", facts, n_facts,
                                             &reading.n_read);
    if (reading.status == ES_STATUS_OK) {
        reading.status = es_kg_text_read_triples(builder, ES_KG_SPLIT_TEST, "queries", queries,
                                                 n_queries, &n_more);
        reading.n_read += n_more;
    }
    if (reading.status != ES_STATUS_OK) {
        snprintf(reading.detail, sizeof reading.detail, "%s", es_status_detail());
    }
    // provisional numbers, too
    REQUIRE_OK(es_kg_builder_intern(builder, ES_KG_CONSTANT, "n7", 2, &reading.first_number));
    REQUIRE_OK(es_kg_builder_intern(builder, ES_KG_CONSTANT, "fresh", 5, &reading.last_number));
    REQUIRE_OK(es_kg_builder_finish(builder, &reading.graph));
    es_kg_builder_destroy(builder);
    return reading;
}

static void expect_same(const Reading *plain, const Reading *other, uint32_t number, int n) {
    EXPECT_EQ(other->status, plain->status);
    EXPECT_EQ(other->n_read, plain->n_read);
    EXPECT_EQ(other->first_number, plain->first_number);
    EXPECT_EQ(other->last_number, plain->last_number);
    if (strcmp(other->detail, plain->detail) != 0) {
        ES_TEST_FAIL("text %u, %d threads: \"%s\" instead of \"%s\"", number, n, other->detail,
                     plain->detail);
    }
    if (!same_graphs(plain->graph, other->graph)) {
        ES_TEST_FAIL("text %u, %d threads: another graph", number, n);
    }
}

TEST(any_number_of_threads_reads_the_same) {
    static char facts[MAX_BYTES], queries[MAX_BYTES];
    EsThreadPool *pools[N_POOLS];
    int n_whole = 0, n_refused = 0;
    for (int i = 0; i < N_POOLS; i++) {
        REQUIRE_OK(es_thread_pool_create(&pools[i], thread_counts[i]));
    }
    for (uint32_t number = 0; number < N_TEXTS; number++) {
        size_t n_facts = make_text(number, facts), n_queries = make_text(number + 3, queries);
        Reading plain = read_texts(NULL, facts, n_facts, queries, n_queries);
        n_whole += plain.status == ES_STATUS_OK;
        n_refused += plain.status == ES_STATUS_INPUT;
        for (int i = 0; i < N_POOLS; i++) {
            Reading other = read_texts(pools[i], facts, n_facts, queries, n_queries);
            expect_same(&plain, &other, number, thread_counts[i]);
            es_kg_destroy(other.graph);
        }
        es_kg_destroy(plain.graph);
    }
    // both happen: otherwise the texts say little
    EXPECT(n_whole >= N_TEXTS / 5);
    EXPECT(n_refused >= N_TEXTS / 5);
    for (int i = 0; i < N_POOLS; i++) {
        es_thread_pool_destroy(pools[i]);
    }
}

// Two lines that are far apart disagree on the number of arguments: the later one is wrong, though
// each part of the text is right by itself.
TEST(parts_that_disagree_name_the_later_line) {
    static char text[40000];
    size_t bytes = 0;
    for (int line = 1; line <= 2000; line++) {
        bytes += (size_t)snprintf(text + bytes, sizeof text - bytes, "%s\n",
                                  line == 1     ? "p(a,b)."
                                  : line < 1900 ? "q(c,d)."
                                                : "p(a,b,c).");
    }
    EsThreadPool *pool;
    EsKgBuilder *builder;
    int32_t n_read;
    REQUIRE_OK(es_thread_pool_create(&pool, 3));
    REQUIRE_OK(es_kg_builder_create(&builder));
    es_kg_builder_set_pool(builder, pool);
    EXPECT_STATUS(
        es_kg_text_read_triples(builder, ES_KG_SPLIT_TRAIN, "facts", text, bytes, &n_read), INPUT);
    EXPECT_EQ(n_read, 1899);
    EXPECT_TEXT(es_status_detail(), "facts:1900:1: \"p\" has 3 arguments here and 2 before; a "
                                    "predicate has one number of arguments");
    es_kg_builder_destroy(builder);
    es_thread_pool_destroy(pool);
}
