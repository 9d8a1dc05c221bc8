// The parsers on damaged texts, the same ones each time: no crash, and either success or a message
// that begins with the name of the text.
#include "proof/damaged_text.h"
#include "proof/knowledge_case.h"

#define N_ROUNDS 20000

static const char *const seeds[] = {
    "likes(ann,bob).\n% note\nknows(\"c\",'d').\r\np(a,b)\n",
    "ann\tlikes\tbob\ncy\tknows\tann\n",
    "r1:0.75:likes(x,y), likes(y,z) -> knows(x,z)\nr2:1:knows(x,y) -> knows(y,x)\n",
    "likes(ann,bob) 3\nknows(c,d) -1\n",
    "people ann bob c d\nothers x y\nlikes:people:others\n",
};

static size_t draw_text(uint32_t round, char text[DAMAGED_MAX_BYTES]) {
    static const char special[] = "(),.:->\t\n\r \"'%\0x\xff";
    DamageDraws draws = {7, round};
    const char *seed = seeds[damage_draw(draws, 0, sizeof seeds / sizeof seeds[0])];
    return damage_text(draws, special, sizeof special - 1, text, put_text(text, seed));
}

static EsStatus read_all_ways(int way, const char *text, size_t bytes) {
    EsKnowledgeGraph *graph = NULL;
    EsKgBuilder *builder = NULL;
    int32_t n_read;
    EsStatus status = ES_STATUS_OK;
    if (way < 2) {
        REQUIRE_OK(es_kg_builder_create(&builder));
        status = way == 0 ? es_kg_text_read_triples(builder, ES_KG_SPLIT_TRAIN, "fuzz", text, bytes,
                                                    &n_read)
                          : es_kg_text_read_rules(builder, "fuzz", text, bytes, &n_read);
        // what was read before the failure still makes a graph
        REQUIRE_OK(es_kg_builder_finish(builder, &graph));
        es_kg_builder_destroy(builder);
    } else {
        REQUIRE_OK(build_case("likes(ann,bob)\nknows(c,d)\n", "likes(ann,bob)\nknows(c,d)\n", NULL,
                              &graph));
        status = way == 2 ? es_kg_text_read_depths(graph, ES_KG_SPLIT_TEST, "fuzz", text, bytes)
                          : es_kg_text_read_domains(graph, "fuzz", text, bytes);
    }
    es_kg_destroy(graph);
    return status;
}

TEST(damaged_texts_never_break_a_parser) {
    int n_read[4] = {0}, n_refused[4] = {0};
    for (uint32_t round = 0; round < N_ROUNDS; round++) {
        char text[DAMAGED_MAX_BYTES];
        size_t bytes = draw_text(round, text);
        // exactly as many bytes as there are, so that a sanitizer sees a step beyond
        char *copy = malloc(bytes);
        memcpy(copy, text, bytes);
        for (int way = 0; way < 4; way++) {
            EsStatus status = read_all_ways(way, copy, bytes);
            n_read[way] += status == ES_STATUS_OK;
            n_refused[way] += status == ES_STATUS_INPUT;
            if (status != ES_STATUS_OK && strncmp(es_status_detail(), "fuzz:", 5) != 0) {
                ES_TEST_FAIL("round %u, way %d: \"%s\"", round, way, es_status_detail());
            }
        }
        free(copy);
    }
    for (int way = 0; way < 4; way++) {
        EXPECT_EQ(n_read[way] + n_refused[way], N_ROUNDS);
        // both sides are really visited
        EXPECT(n_read[way] > N_ROUNDS / 50);
        EXPECT(n_refused[way] > N_ROUNDS / 10);
    }
}
