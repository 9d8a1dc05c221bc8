// The reader of soft facts on damaged texts, the same ones each time: no crash, and either a
// message that says file, line and column, or facts that a graph can hold, every one by a finite
// score.
#include <ctype.h>
#include <float.h>

#include "proof/damaged_text.h"
#include "proof/graph/knowledge_builder.h"
#include "proof/graph/knowledge_file.h"
#include "proof/knowledge_case.h"

#define N_ROUNDS 20000

static const char *const seeds[] = {
    "# predicted\nlikes(ann,cy) 0.93 1\nknows(\"c\",'d') -1.5e-3 20\r\n\nknows(d,d) 1 3\n",
    "likes(ann,bob) 0.9 1\nlikes(bob,ann) 0x1p-2 2\nknows(new,other) 3 1",
    "knows(c,d) 0.5 1\n% note\nknows(ann,d) 1e308 1000000000000000\nlikes(d,c) +.5 01\n",
};

// in the place of an atom, a score or a rank; few of them are any
static const char *const words[] = {
    "nan", "inf", "-inf", "1e999", "-1e999", "1e-999",      "0x", "--1",
    "1.5", "0",   "()",   "\t",    "a(b,c)", "\xff\xfe(,)", "-2", "999999999999999999999999"};

// Put a word in the place of the one that `at` is in.
static size_t replace_word(char text[DAMAGED_MAX_BYTES], size_t bytes, size_t at,
                           const char *word) {
    size_t begin = at, end = at, length = strlen(word);
    while (begin > 0 && !isspace((unsigned char)text[begin - 1])) {
        begin--;
    }
    while (end < bytes && !isspace((unsigned char)text[end])) {
        end++;
    }
    if (bytes - (end - begin) + length > DAMAGED_MAX_BYTES) {
        return bytes;
    }
    memmove(text + begin + length, text + end, bytes - end);
    put_text(text + begin, word);
    return bytes - (end - begin) + length;
}

// A seed, three times in four with a word of it replaced, then damaged byte by byte half the time.
static size_t draw_text(uint32_t round, char text[DAMAGED_MAX_BYTES]) {
    static const char special[] = "(),.#%eE+-x\t\n\r \"'0\0\xff";
    DamageDraws draws = {8, round};
    const char *seed = seeds[damage_draw(draws, 0, sizeof seeds / sizeof seeds[0])];
    size_t bytes = put_text(text, seed);
    if (damage_draw(draws, 2, 4) > 0) {
        const char *word = words[damage_draw(draws, 3, sizeof words / sizeof words[0])];
        bytes = replace_word(text, bytes, damage_draw(draws, 4, (uint32_t)bytes), word);
    }
    return damage_draw(draws, 5, 2) == 0
               ? bytes
               : damage_text(draws, special, sizeof special - 1, text, bytes);
}

// Returns whether a message begins with file, line and column.
static int names_its_place(const char *message) {
    int line = 0, column = 0, n_read = 0;
    return sscanf(message, "soft.txt:%d:%d: %n", &line, &column, &n_read) == 2 && n_read > 0 &&
           line >= 1 && column >= 1 && message[n_read] != '\0';
}

typedef struct Reading {
    EsStatus status;
    EsSoftCounts counts;
    int32_t n_facts; // of the graph made of it
} Reading;

static Reading read_damaged(const EsKnowledgeGraph *before, double min_score, const char *text,
                            size_t bytes) {
    Reading reading;
    EsKgBuilder *builder;
    EsKnowledgeGraph *graph;
    EsSoftFilter filter = {min_score, 0};
    REQUIRE_OK(es_kg_builder_create_from(before, &builder));
    for (int32_t i = 0; i < before->n_facts; i++) {
        REQUIRE_OK(es_kg_builder_add_fact(builder, &before->facts[i]));
    }
    reading.status =
        es_soft_facts_read(builder, before, &filter, "soft.txt", text, bytes, &reading.counts);
    // what was read before a failure still makes a graph
    REQUIRE_OK(es_kg_builder_finish(builder, &graph));
    reading.n_facts = graph->n_facts;
    for (int32_t i = 0; i < graph->n_facts; i++) {
        EXPECT(es_kg_is_ground(graph, &graph->facts[i]));
    }
    es_kg_destroy(graph);
    es_kg_builder_destroy(builder);
    return reading;
}

// A finite score is at least -DBL_MAX and below infinity: the first filter leaves nothing out, the
// second everything. One that is none fails the first (-inf) or the second (inf, nan).
static void expect_finite(const EsKnowledgeGraph *before, uint32_t round, const char *text,
                          size_t bytes) {
    Reading all = read_damaged(before, -DBL_MAX, text, bytes);
    Reading none = read_damaged(before, (double)INFINITY, text, bytes);
    EsSoftCounts counts = all.counts;
    if (counts.n_filtered != 0 || none.counts.n_filtered != counts.n_read ||
        none.n_facts != before->n_facts) {
        ES_TEST_FAIL("round %u: of %d scores %d are below all numbers and %d below infinity", round,
                     counts.n_read, counts.n_filtered, none.counts.n_filtered);
    }
    EXPECT_EQ(counts.n_queries + counts.n_known + counts.n_added, counts.n_read);
    // a line may come twice
    EXPECT(all.n_facts >= before->n_facts && all.n_facts <= before->n_facts + counts.n_added);
    EXPECT_EQ(all.n_facts > before->n_facts, counts.n_added > 0);
}

TEST(damaged_texts_never_break_the_reader) {
    int n_read = 0, n_refused = 0, n_added = 0;
    EsKnowledgeGraph *before;
    REQUIRE_OK(
        build_case("likes(ann,bob)\nknows(c,d)\n", "likes(ann,cy)\nknows(d,d)\n", NULL, &before));
    for (uint32_t round = 0; round < N_ROUNDS; round++) {
        char text[DAMAGED_MAX_BYTES];
        size_t bytes = draw_text(round, text);
        // exactly as many bytes as there are, so that a sanitizer sees a step beyond
        char *copy = malloc(bytes);
        memcpy(copy, text, bytes);
        Reading reading = read_damaged(before, -DBL_MAX, copy, bytes);
        if (reading.status == ES_STATUS_OK) {
            n_read++;
            n_added += reading.counts.n_added;
            expect_finite(before, round, copy, bytes);
        } else {
            n_refused += reading.status == ES_STATUS_INPUT;
            if (!names_its_place(es_status_detail())) {
                ES_TEST_FAIL("round %u: \"%s\"", round, es_status_detail());
            }
        }
        free(copy);
    }
    printf("%d texts read with %d facts, %d refused\n", n_read, n_added, n_refused);
    EXPECT_EQ(n_read + n_refused, N_ROUNDS);
    // both sides are really visited
    EXPECT(n_read > N_ROUNDS / 10 && n_added > N_ROUNDS / 10);
    EXPECT(n_refused > N_ROUNDS / 10);
    es_kg_destroy(before);
}
