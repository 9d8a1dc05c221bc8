// The scores of an embedding model, and its file.
#include "proof/ranking/embedding_model.h"

#include "base/random_rules.h"
#include "proof/small_graph.h"
#include "temp_folder.h"
#include "tensor/safetensors.h"

#define D 8
#define W (2 * D)

static const char *const facts = "likes(ann,bob) likes(bob,cy) knows(cy,dan) knows(dan,ann)";

static void fill(float *values, int count, uint32_t episode) {
    for (int i = 0; i < count; i++) {
        EsRandom4 draw = es_random_draw(5, episode, ES_PURPOSE_DATA_GENERATION, 0, (uint32_t)i);
        values[i] = es_random_uniform(draw.word[0]) - 0.5f;
    }
}

static EsEmbeddingModel *make_model(const EsKnowledgeGraph *graph) {
    EsEmbeddingModel *model = NULL;
    REQUIRE_OK(es_embedding_model_create(graph, D, &model));
    fill(model->constants, model->n_constants * W, 1);
    fill(model->relations, 2 * model->n_predicates * W, 2);
    return model;
}

// The score of row `row` between two constants by the formula, in double.
static double plain_score(const EsEmbeddingModel *model, int row, int x, int y) {
    const float *a = model->constants + (x - 1) * W, *b = model->constants + (y - 1) * W;
    const float *r = model->relations + row * W;
    double sum = 0;
    for (int d = 0; d < D; d++) {
        // Re(a r conj(b))
        double re = (double)a[d] * (double)r[d] - (double)a[D + d] * (double)r[D + d];
        double im = (double)a[d] * (double)r[D + d] + (double)a[D + d] * (double)r[d];
        sum += re * (double)b[d] + im * (double)b[D + d];
    }
    return sum;
}

static double model_score(const EsEmbeddingModel *model, int row, int x, int y) {
    float query[W];
    es_embedding_question(model, row, x, query);
    return (double)es_embedding_dot(query, model->constants + (y - 1) * W, W);
}

TEST(scores_follow_the_formula) {
    EsKnowledgeGraph *graph = make_small_graph(facts, "", "");
    EsEmbeddingModel *model = make_model(graph);
    for (int row = 0; row < 4; row++) {
        for (int x = 1; x <= 4; x++) {
            for (int y = 1; y <= 4; y++) {
                EXPECT_NEAR(model_score(model, row, x, y), plain_score(model, row, x, y), 1e-6);
            }
        }
    }
    es_embedding_model_destroy(model);
    es_kg_destroy(graph);
}

TEST(real_relations_are_symmetric_and_imaginary_ones_antisymmetric) {
    EsKnowledgeGraph *graph = make_small_graph(facts, "", "");
    EsEmbeddingModel *model = make_model(graph);
    memset(model->relations + D, 0, D * sizeof(float));
    memset(model->relations + W, 0, D * sizeof(float));
    for (int x = 1; x <= 4; x++) {
        for (int y = 1; y <= 4; y++) {
            EXPECT_NEAR(model_score(model, 0, x, y), model_score(model, 0, y, x), 1e-6);
            EXPECT_NEAR(model_score(model, 1, x, y), -model_score(model, 1, y, x), 1e-6);
        }
    }
    es_embedding_model_destroy(model);
    es_kg_destroy(graph);
}

TEST(probabilities_sum_to_one_and_do_not_depend_on_company) {
    EsKnowledgeGraph *graph = make_small_graph(facts, "", "");
    EsEmbeddingModel *model = make_model(graph);
    EsAtom atoms[16];
    float together[16], alone, all[4];
    for (int side = 0; side < ES_N_CORRUPT_SIDES; side++) {
        int n = 0;
        for (int given = 1; given <= 4; given++) {
            for (int asked = 1; asked <= 4; asked++) {
                atoms[n++] =
                    side == ES_CORRUPT_HEAD ? (EsAtom){2, asked, given} : (EsAtom){2, given, asked};
            }
        }
        es_embedding_model_scores(model, (EsCorruptSide)side, atoms, n, together);
        for (int given = 0; given < 4; given++) {
            double sum = 0, normaliser = 0;
            int row = 1 + (side == ES_CORRUPT_HEAD ? 2 : 0);
            es_embedding_model_score_all(model, (EsCorruptSide)side, atoms[4 * given], all);
            for (int i = 0; i < 4; i++) {
                normaliser += exp(plain_score(model, row, given + 1, i + 1));
            }
            for (int i = 0; i < 4; i++) {
                int at = 4 * given + i;
                es_embedding_model_scores(model, (EsCorruptSide)side, &atoms[at], 1, &alone);
                EXPECT(alone == together[at]);
                EXPECT(all[i] == together[at]);
                EXPECT_NEAR(alone, plain_score(model, row, given + 1, i + 1) - log(normaliser),
                            1e-6);
                sum += exp((double)alone);
            }
            EXPECT_NEAR(sum, 1, 1e-6);
        }
    }
    es_embedding_model_destroy(model);
    es_kg_destroy(graph);
}

TEST(ratios_are_differences_of_scores) {
    EsKnowledgeGraph *graph = make_small_graph(facts, "", "");
    EsEmbeddingModel *model = make_model(graph);
    const EsAtom query = {1, 2, 3};
    for (int side = 0; side < ES_N_CORRUPT_SIDES; side++) {
        float scores[4], ratios[4], own;
        EsAtom atoms[4] = {query, query, query, query};
        for (int i = 0; i < 4; i++) {
            *(side == ES_CORRUPT_HEAD ? &atoms[i].a : &atoms[i].b) = i + 1;
        }
        es_embedding_model_scores(model, (EsCorruptSide)side, atoms, 4, scores);
        es_embedding_model_scores(model, (EsCorruptSide)side, &query, 1, &own);
        es_embedding_model_ratios(model, (EsCorruptSide)side, query, atoms, 4, ratios);
        for (int i = 0; i < 4; i++) {
            EXPECT_NEAR(ratios[i], (double)scores[i] - (double)own, 1e-6);
        }
        EXPECT(ratios[side == ES_CORRUPT_HEAD ? 1 : 2] == 0);
    }
    es_embedding_model_destroy(model);
    es_kg_destroy(graph);
}

TEST(dimensions_are_checked) {
    EsKnowledgeGraph *graph = make_small_graph(facts, "", "");
    EsEmbeddingModel *model = NULL;
    const int32_t wrong[] = {0, -8, 4, 12, ES_EMBEDDING_MAX_DIMENSIONS + 8};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        EXPECT_STATUS(es_embedding_model_create(graph, wrong[i], &model), ARGUMENT);
        EXPECT(model == NULL);
    }
    es_embedding_model_destroy(NULL);
    es_kg_destroy(graph);
}

// --- the file ---

static void expect_refused(const char *path, const EsKnowledgeGraph *graph, const char *why) {
    EsEmbeddingModel *model = NULL;
    EXPECT_STATUS(es_embedding_model_load(path, graph, &model), INPUT);
    EXPECT(model == NULL);
    EXPECT_CONTAINS(es_status_detail(), why);
}

TEST(a_model_survives_its_file) {
    const char *path = temp_path("model.safetensors");
    EsKnowledgeGraph *graph = make_small_graph(facts, "", "");
    EsEmbeddingModel *model = make_model(graph), *read = NULL;
    REQUIRE_OK(es_embedding_model_save(model, path));
    REQUIRE_OK(es_embedding_model_load(path, graph, &read));
    EXPECT_EQ(read->n_dimensions, D);
    EXPECT_EQ(memcmp(read->constants, model->constants, 4 * W * sizeof(float)), 0);
    EXPECT_EQ(memcmp(read->relations, model->relations, 4 * W * sizeof(float)), 0);
    es_embedding_model_destroy(read);
    es_embedding_model_destroy(model);
    es_kg_destroy(graph);
}

TEST(another_graph_is_refused) {
    const char *path = temp_path("model.safetensors");
    EsKnowledgeGraph *graph = make_small_graph(facts, "", "");
    EsKnowledgeGraph *larger = make_small_graph(facts, "", "likes(eve,ann)");
    EsKnowledgeGraph *renamed =
        make_small_graph("likes(ann,bob) likes(bob,cy) knows(cy,eve) knows(eve,ann)", "", "");
    EsEmbeddingModel *model = make_model(graph);
    REQUIRE_OK(es_embedding_model_save(model, path));
    expect_refused(path, larger, "this one has 5 constants and 2 predicates");
    expect_refused(path, renamed, "another graph of the same sizes");
    es_embedding_model_destroy(model);
    es_kg_destroy(renamed);
    es_kg_destroy(larger);
    es_kg_destroy(graph);
}

typedef struct HostileFile {
    const char *kind, *version, *model, *constants_name;
    EsDtype dtype;
    int64_t n_constants, width, relations_width;
    float value;
    const char *why;
} HostileFile;

static void write_hostile(const HostileFile *hostile, const char *names_hash, const char *path) {
    static float zeros[4096];
    static float values[4096];
    values[7] = hostile->value;
    int64_t constants[] = {hostile->n_constants, hostile->width};
    int64_t relations[] = {4, hostile->relations_width};
    EsNamedTensor tensors[] = {
        {hostile->constants_name, es_tensor_view(values, hostile->dtype, NULL, 2, constants)},
        {"relations", es_tensor_view(zeros, ES_DTYPE_F32, NULL, 2, relations)},
    };
    EsMetadata metadata[] = {{"kind", hostile->kind},
                             {"version", hostile->version},
                             {"model", hostile->model},
                             {"names_sha256", names_hash}};
    REQUIRE_OK(es_safetensors_save(path, tensors, 2, metadata, 4));
}

TEST(hostile_files_are_refused) {
    const HostileFile cases[] = {
        {"esper-policy", "1", "complex", "constants", ES_DTYPE_F32, 4, W, W, 0, "esper-policy"},
        {"esper-embedding", "2", "complex", "constants", ES_DTYPE_F32, 4, W, W, 0, "version"},
        {"esper-embedding", "1", "rotate", "constants", ES_DTYPE_F32, 4, W, W, 0, "rotate"},
        {"esper-embedding", "1", "complex", "others", ES_DTYPE_F32, 4, W, W, 0, "constants"},
        {"esper-embedding", "1", "complex", "constants", ES_DTYPE_I32, 4, W, W, 0, "I32"},
        {"esper-embedding", "1", "complex", "constants", ES_DTYPE_F32, 3, W, W, 0, "3 constants"},
        {"esper-embedding", "1", "complex", "constants", ES_DTYPE_F32, 4, 20, 20, 0, "rows of 20"},
        {"esper-embedding", "1", "complex", "constants", ES_DTYPE_F32, 4, 0, 0, 0, "rows of 0"},
        {"esper-embedding", "1", "complex", "constants", ES_DTYPE_F32, 4, W, 2 * W, 0, "32"},
        {"esper-embedding", "1", "complex", "constants", ES_DTYPE_F32, 4, W, W, NAN,
         "constants[7] is nan"},
        {"esper-embedding", "1", "complex", "constants", ES_DTYPE_F32, 4, W, W, -INFINITY,
         "constants[7] is -inf, must be finite"},
    };
    const char *path = temp_path("model.safetensors");
    char hash[ES_SHA256_TEXT_BYTES];
    EsKnowledgeGraph *graph = make_small_graph(facts, "", "");
    es_kg_names_hash(graph, hash);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_hostile(&cases[i], hash, path);
        expect_refused(path, graph, cases[i].why);
    }
    es_kg_destroy(graph);
}

TEST(damaged_and_missing_files_are_refused) {
    const char *path = temp_path("model.safetensors");
    EsKnowledgeGraph *graph = make_small_graph(facts, "", "");
    EsEmbeddingModel *model = make_model(graph), *read = NULL;
    REQUIRE_OK(es_embedding_model_save(model, path));
    // every length below the whole is an error
    FILE *stream = fopen(path, "rb");
    static char bytes[65536];
    size_t length = fread(bytes, 1, sizeof bytes, stream);
    fclose(stream);
    for (size_t cut = 0; cut < length; cut += 61) {
        stream = fopen(path, "wb");
        fwrite(bytes, 1, cut, stream);
        fclose(stream);
        EXPECT_STATUS(es_embedding_model_load(path, graph, &read), INPUT);
        EXPECT(read == NULL);
    }
    unlink(path);
    expect_refused(path, graph, path);
    es_embedding_model_destroy(model);
    es_kg_destroy(graph);
}
