// A run of kind "prove" keeps the weights of its best validation apart from the last ones. Before
// each round the weights are replaced by ones of a known rank, so that validation gets worse after
// its best round; what the files hold is then compared with the checkpoint of that round, and
// ranked again.
#include "base/file.h"
#include "base/memory.h"
#include "proof/agent/proof_policy_file.h"
#include "runs/prove/prove_evaluate.h"
#include "runs/prove/prove_run.h"
#include "temp_folder.h"

#define MAX_ROUNDS 5
#define N_DRAWN    8

// The graph, weights of which some rank clearly better than others, and what ranks them.
typedef struct Bench {
    EsProveSettings settings;
    EsKnowledgeGraph *graph;
    EsDevice *device;
    EsThreadPool *pool;
    EsKnownAtoms *known;
    EsProofPolicy *good, *bad;
} Bench;

// --- set-up ---

static EsProveSettings small_settings(void) {
    EsProveSettings settings;
    EsConfig config = es_prove_run_config(&settings);
    es_config_reset(&config);
    settings.run.n_threads = 1;
    settings.run.level = 0;
    settings.run.checkpoint_every = 1;
    settings.run.checkpoint_keep = MAX_ROUNDS;
    settings.n_people = 60;
    settings.n_envs = 8;
    settings.n_steps = 4;
    settings.policy.embed = 8;
    settings.policy.hidden = 16;
    settings.policy.layers = 1;
    settings.ppo.rate = 1e-6f; // a round leaves the weights nearly as they were put in
    settings.anneal_rounds = MAX_ROUNDS;
    settings.n_nodes = 8;
    settings.search_depth = 3;
    settings.n_validated = 40;
    settings.n_validated_corruptions = 5;
    settings.n_evaluated = 10;
    settings.n_evaluated_corruptions = 3;
    return settings;
}

static int never(void *context) {
    (void)context;
    return 0;
}

// The MRR on validation queries, or on those of the comparison.
static double rank(const Bench *bench, const EsProofPolicy *policy, EsKgSplit split) {
    EsProveRanker ranker = {.settings = &bench->settings,
                            .graph = bench->graph,
                            .known = bench->known,
                            .pool = bench->pool,
                            .must_stop = never};
    int is_valid = split == ES_KG_SPLIT_VALID;
    EsProveQueries queries;
    EsRanking *ranking = NULL;
    EsScorerReport report;
    REQUIRE_OK(es_prove_queries_create(
        bench->graph, split, is_valid ? bench->settings.n_validated : bench->settings.n_evaluated,
        &queries));
    REQUIRE_OK(es_prove_rank(&ranker, policy, &queries,
                             is_valid ? bench->settings.n_validated_corruptions
                                      : bench->settings.n_evaluated_corruptions,
                             &ranking, &report));
    double mrr = ranking->all.reciprocal.mean;
    es_ranking_destroy(ranking);
    es_prove_queries_destroy(&queries);
    return mrr;
}

// Of fresh weights of several seeds those that rank best and worst.
static void draw_weights(Bench *bench) {
    double best = -1, worst = 2;
    EsProofTrainingSettings training = es_prove_settings_training(&bench->settings);
    for (uint64_t seed = 0; seed < N_DRAWN; seed++) {
        EsProofPolicy *drawn = NULL;
        REQUIRE_OK(
            es_proof_policy_create(bench->device, bench->graph, &training.policy, seed, &drawn));
        double mrr = rank(bench, drawn, ES_KG_SPLIT_VALID);
        if (mrr > best) {
            best = mrr;
            es_proof_policy_copy(bench->good, drawn);
        }
        if (mrr < worst) {
            worst = mrr;
            es_proof_policy_copy(bench->bad, drawn);
        }
        es_proof_policy_destroy(drawn);
    }
    printf("MRR of drawn weights: %.4f to %.4f\n", worst, best);
    EXPECT(best - worst > 0.02);
}

static void begin(Bench *bench) {
    EsDeviceOptions options = {.n_threads = 1};
    *bench = (Bench){.settings = small_settings()};
    EsProofTrainingSettings training = es_prove_settings_training(&bench->settings);
    REQUIRE_OK(es_prove_settings_graph(&bench->settings, &bench->graph));
    REQUIRE_OK(es_device_open("cpu", &options, &bench->device));
    REQUIRE_OK(es_thread_pool_create(&bench->pool, 1));
    REQUIRE_OK(es_known_atoms_create(bench->graph, &bench->known));
    REQUIRE_OK(
        es_proof_policy_create(bench->device, bench->graph, &training.policy, 0, &bench->good));
    REQUIRE_OK(
        es_proof_policy_create(bench->device, bench->graph, &training.policy, 0, &bench->bad));
    draw_weights(bench);
}

static void end(Bench *bench) {
    es_proof_policy_destroy(bench->good);
    es_proof_policy_destroy(bench->bad);
    es_known_atoms_destroy(bench->known);
    es_thread_pool_destroy(bench->pool);
    es_device_close(bench->device);
    es_kg_destroy(bench->graph);
}

// --- a run ---

// The work of a run, with other weights before each round.
typedef struct Replaced {
    const Bench *bench;
    const char *weights; // 'g' or 'b' for each round
    EsProveRun *prove;
    EsRunWork work;
} Replaced;

static EsStatus replaced_round(void *context, EsRun *run, int64_t round, EsRoundReport *report) {
    const Replaced *replaced = context;
    es_proof_policy_copy(es_proof_training_policy(es_prove_run_training(replaced->prove)),
                         replaced->weights[round - 1] == 'g' ? replaced->bench->good
                                                             : replaced->bench->bad);
    return replaced->work.round(replaced->work.context, run, round, report);
}

static EsStatus replaced_save(void *context, EsCheckpoint *checkpoint) {
    const Replaced *replaced = context;
    return replaced->work.save(replaced->work.context, checkpoint);
}

static EsStatus replaced_load(void *context, const EsCheckpoint *checkpoint) {
    const Replaced *replaced = context;
    return replaced->work.load(replaced->work.context, checkpoint);
}

static EsStatus replaced_finish(void *context, EsRun *run) {
    const Replaced *replaced = context;
    return replaced->work.finish(replaced->work.context, run);
}

static void replaced_describe(void *context, EsRunStartedEvent *row) {
    const Replaced *replaced = context;
    replaced->work.describe(replaced->work.context, row);
}

// Play rounds up to `n_rounds`; returns the round of the best validation.
static int64_t play(const Bench *bench, const char *name, const char *weights, int n_rounds,
                    int validate_every, int is_resumed, double *mrr) {
    static EsProveSettings declared;
    EsConfig config = es_prove_run_config(&declared); // for its keys
    EsProveSettings settings = bench->settings;
    settings.run.n_rounds = n_rounds;
    settings.validate_every = validate_every;
    config.settings = &settings;
    char path[512];
    snprintf(path, sizeof path, "%s/%s", temp_folder(), name);
    EsRunOptions options = {.config = &config,
                            .settings = &settings.run,
                            .out = is_resumed ? NULL : path,
                            .resume = is_resumed ? path : NULL,
                            .build = "test"};
    Replaced replaced = {.bench = bench, .weights = weights};
    EsRun *run = NULL;
    EsRunOutcome outcome;
    REQUIRE_OK(es_prove_run_create(&settings, &replaced.prove));
    replaced.work = es_prove_run_work(replaced.prove);
    EsRunWork work = {.context = &replaced,
                      .describe = replaced_describe,
                      .round = replaced_round,
                      .save = replaced_save,
                      .load = replaced_load,
                      .finish = replaced_finish};
    REQUIRE_OK(es_run_open(&options, &run));
    REQUIRE_OK(es_run_start(run));
    REQUIRE_OK(es_run_close(run, es_run_rounds(run, &work), &outcome));
    EXPECT_EQ(outcome.n_rounds_done, n_rounds);
    int64_t best_round = es_prove_run_best(replaced.prove, mrr);
    es_prove_run_destroy(replaced.prove);
    return best_round;
}

// --- its files ---

static EsProofPolicy *load_weights(const Bench *bench, const char *name, const char *file) {
    char path[512];
    EsProofPolicy *policy = NULL;
    snprintf(path, sizeof path, "%s/%s/%s", temp_folder(), name, file);
    REQUIRE_OK(es_proof_policy_file_load(bench->device, bench->graph, path, &policy));
    return policy;
}

// Returns whether two files hold the same weights; one of a checkpoint holds more, so both are
// saved again.
static int hold_the_same(const Bench *bench, const char *name, const char *file,
                         const char *other) {
    char hashes[2][ES_SHA256_TEXT_BYTES], path[512];
    const char *files[] = {file, other};
    for (int i = 0; i < 2; i++) {
        EsProofPolicy *policy = load_weights(bench, name, files[i]);
        snprintf(path, sizeof path, "%s/again.safetensors", temp_folder());
        REQUIRE_OK(es_proof_policy_file_save(policy, path));
        REQUIRE_OK(es_sha256_file(path, hashes[i], NULL));
        es_proof_policy_destroy(policy);
    }
    return strcmp(hashes[0], hashes[1]) == 0;
}

// policy.safetensors has the weights of `best`, last.safetensors those of `last`, and the
// comparison is of the former.
static void expect_files(const Bench *bench, const char *name, int best, int last, double mrr) {
    char path[512], hash[ES_SHA256_TEXT_BYTES];
    snprintf(path, sizeof path, "checkpoints/%d/training.safetensors", best);
    EXPECT(hold_the_same(bench, name, "policy.safetensors", path));
    snprintf(path, sizeof path, "checkpoints/%d/training.safetensors", last);
    EXPECT(hold_the_same(bench, name, "last.safetensors", path));
    EXPECT_EQ(hold_the_same(bench, name, "policy.safetensors", "last.safetensors"), best == last);

    EsProveEvaluation evaluation;
    snprintf(path, sizeof path, "%s/%s/evaluation.json", temp_folder(), name);
    REQUIRE_OK(es_prove_evaluation_load(path, &evaluation));
    EXPECT_EQ(evaluation.best_round, best);
    EXPECT(evaluation.best_mrr == mrr);
    snprintf(path, sizeof path, "%s/%s/policy.safetensors", temp_folder(), name);
    REQUIRE_OK(es_sha256_file(path, hash, NULL));
    EXPECT_TEXT(evaluation.policy_hash, hash);

    EsProofPolicy *kept = load_weights(bench, name, "policy.safetensors");
    EXPECT(rank(bench, kept, ES_KG_SPLIT_VALID) == mrr);
    EXPECT(rank(bench, kept, ES_KG_SPLIT_TEST) ==
           evaluation.variants[ES_PROVE_VARIANT_POLICY].all.reciprocal.mean);
    es_proof_policy_destroy(kept);
    EsProofPolicy *at_last = load_weights(bench, name, "last.safetensors");
    double last_mrr = rank(bench, at_last, ES_KG_SPLIT_VALID);
    printf("%s: best round %d with MRR %.4f, the last %.4f\n", name, best, mrr, last_mrr);
    EXPECT(best == last ? last_mrr == mrr : last_mrr < mrr - 0.01);
    es_proof_policy_destroy(at_last);
}

TEST(best_weights_are_not_the_last) {
    Bench bench;
    double mrr, whole_mrr;
    begin(&bench);
    // worse after its best round, and before
    EXPECT_EQ(play(&bench, "falls", "bgbb", 4, 1, 0, &whole_mrr), 2);
    expect_files(&bench, "falls", 2, 4, whole_mrr);
    EXPECT(hold_the_same(&bench, "falls", "policy.safetensors", "checkpoints/4/best.safetensors"));
    // the best come with the checkpoint
    EXPECT_EQ(play(&bench, "resumed", "bgbb", 3, 1, 0, &mrr), 2);
    EXPECT_EQ(play(&bench, "resumed", "bgbb", 4, 1, 1, &mrr), 2);
    EXPECT(mrr == whole_mrr);
    expect_files(&bench, "resumed", 2, 4, mrr);
    end(&bench);
}

TEST(the_last_weights_count_among_the_best) {
    Bench bench;
    double mrr;
    begin(&bench);
    EXPECT_EQ(play(&bench, "rises", "bbg", 3, 1, 0, &mrr), 3);
    expect_files(&bench, "rises", 3, 3, mrr);
    // rounds 2 and 4 are validated, and the last for being the last; good weights that were not
    // ranked are not known to be good
    EXPECT_EQ(play(&bench, "ends", "gbg", 3, 2, 0, &mrr), 3);
    expect_files(&bench, "ends", 3, 3, mrr);
    EXPECT_EQ(play(&bench, "fell", "bgbbb", 5, 2, 0, &mrr), 2);
    expect_files(&bench, "fell", 2, 5, mrr);
    end(&bench);
}
