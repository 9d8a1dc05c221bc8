// Training of a proof policy: the same bits whatever the threads, and from a checkpoint on; and it
// learns.
#include "proof/agent/proof_training.h"

#include "base/file.h"
#include "base/memory.h"
#include "proof/agent/proof_policy_inference.h"
#include "proof/search/proof_curve.h"
#include "proof/search/prover.h"
#include "proof/wide_village.h"
#include "temp_folder.h"

typedef struct TrainingCase {
    EsKnowledgeGraph *graph;
    EsDevice *device;
    EsProofTraining *training;
} TrainingCase;

static EsProofTrainingSettings small_training(void) {
    EsProofTrainingSettings settings = es_proof_training_defaults();
    settings.env.n_envs = 24;
    settings.n_steps = 8;
    settings.policy.embed = 16;
    settings.policy.hidden = 24;
    settings.policy.layers = 1;
    settings.ppo.rate = 0.003f;
    settings.schedule.n_rounds = 8;
    return settings;
}

// On a village of predicates of two arguments, or of 0 to 4.
static TrainingCase make_training_on(const EsProofTrainingSettings *settings, int n_people,
                                     int is_wide, int n_threads) {
    TrainingCase test = {.graph = NULL};
    EsDeviceOptions options = {.n_threads = n_threads};
    REQUIRE_OK(es_kinship_graph_create(n_people, 1, &test.graph));
    if (is_wide) {
        EsKnowledgeGraph *wide = make_wide_village(test.graph);
        es_kg_destroy(test.graph);
        test.graph = wide;
    }
    REQUIRE_OK(es_device_open("cpu", &options, &test.device));
    REQUIRE_OK(es_proof_training_create(test.device, test.graph, settings, &test.training));
    return test;
}

static TrainingCase make_training(const EsProofTrainingSettings *settings, int n_people,
                                  int n_threads) {
    return make_training_on(settings, n_people, 0, n_threads);
}

static void destroy_training(TrainingCase *test) {
    es_proof_training_destroy(test->training);
    es_device_close(test->device);
    es_kg_destroy(test->graph);
}

static EsProofRound train(TrainingCase *test, int n_rounds) {
    EsProofRound round = {.learning_rate = 0};
    for (int i = 0; i < n_rounds; i++) {
        REQUIRE_OK(es_proof_training_round(test->training, NULL, &round));
    }
    return round;
}

// Both files of a training, one after the other.
typedef struct Saved {
    const char *weights, *state;
} Saved;

static Saved save(const TrainingCase *test, const char *name) {
    char state[32];
    snprintf(state, sizeof state, "%s.state", name);
    Saved saved = {temp_path(name), temp_path(state)};
    REQUIRE_OK(es_proof_training_save(test->training, saved.weights, saved.state));
    return saved;
}

static int is_same_file(const char *a, const char *b) {
    void *left = NULL, *right = NULL;
    size_t n_left = 0, n_right = 0;
    REQUIRE_OK(es_file_read_all(a, 1 << 28, &left, &n_left));
    REQUIRE_OK(es_file_read_all(b, 1 << 28, &right, &n_right));
    int is_same = n_left == n_right && memcmp(left, right, n_left) == 0;
    es_release(left);
    es_release(right);
    return is_same;
}

static void expect_same(const Saved *a, const Saved *b) {
    EXPECT(is_same_file(a->weights, b->weights));
    EXPECT(is_same_file(a->state, b->state));
}

// Training on proofs alone, by structure.
static EsProofTrainingSettings small_search_training(void) {
    EsProofTrainingSettings settings = small_training();
    settings.policy.encoder = ES_PROOF_ENCODER_STRUCTURE;
    settings.env.n_negatives = 0;
    settings.env.has_end = 0;
    settings.env.reward_type = 0;
    settings.env.max_depth = 6;
    return settings;
}

// States of wide atoms have more cells.
static EsProofTrainingSettings widen(EsProofTrainingSettings settings) {
    settings.env.max_atoms = 12;
    return settings;
}

static void compare_threads(EsProofTrainingSettings settings, int is_wide) {
    TrainingCase one = make_training_on(&settings, 60, is_wide, 1);
    TrainingCase two = make_training_on(&settings, 60, is_wide, 2);
    train(&one, 4);
    train(&two, 4);
    Saved a = save(&one, "one"), b = save(&two, "two");
    expect_same(&a, &b);
    train(&two, 1);
    Saved c = save(&two, "later");
    EXPECT(!is_same_file(a.weights, c.weights));
    destroy_training(&one);
    destroy_training(&two);
}

TEST(threads_change_no_bit) {
    compare_threads(small_training(), 0);
    compare_threads(small_search_training(), 0);
    compare_threads(widen(small_training()), 1);
    compare_threads(widen(small_search_training()), 1);
}

static void compare_with_resumed(EsProofTrainingSettings settings, int is_wide) {
    TrainingCase whole = make_training_on(&settings, 60, is_wide, 1);
    TrainingCase first = make_training_on(&settings, 60, is_wide, 1);
    train(&whole, 6);
    train(&first, 2);
    Saved middle = save(&first, "middle");
    destroy_training(&first);
    TrainingCase second = make_training_on(&settings, 60, is_wide, 2);
    train(&second, 1); // what it did before does not matter
    REQUIRE_OK(es_proof_training_load(second.training, middle.weights, middle.state));
    EXPECT_EQ(es_proof_training_rounds_done(second.training), 2);
    train(&second, 4);
    Saved a = save(&whole, "whole"), b = save(&second, "resumed");
    expect_same(&a, &b);
    destroy_training(&whole);
    destroy_training(&second);
}

TEST(a_checkpoint_goes_on_with_the_same_bits) {
    compare_with_resumed(small_training(), 0);
    compare_with_resumed(small_search_training(), 0);
    compare_with_resumed(widen(small_training()), 1);
    compare_with_resumed(widen(small_search_training()), 1);
}

TEST(other_files_are_refused) {
    EsProofTrainingSettings settings = small_training();
    TrainingCase test = make_training(&settings, 60, 1);
    Saved saved = save(&test, "kept");
    settings.env.n_envs = 12;
    TrainingCase other = make_training(&settings, 60, 1);
    EXPECT_STATUS(es_proof_training_load(other.training, saved.weights, saved.state), INPUT);
    EXPECT_STATUS(es_proof_training_load(test.training, saved.weights, saved.weights), INPUT);
    EXPECT_STATUS(es_proof_training_load(test.training, saved.state, saved.state), INPUT);
    EXPECT_STATUS(es_proof_training_load(test.training, saved.weights, saved.state), OK);
    destroy_training(&other);
    destroy_training(&test);
}

TEST(a_round_counts_what_it_did) {
    EsProofTrainingSettings settings = small_training();
    settings.schedule.n_rounds = 0;
    TrainingCase test = make_training(&settings, 60, 1);
    // the first choices were listed when the environment was made
    EsProofEnvCounters sum = es_proof_env_counters(es_proof_training_env(test.training));
    for (int i = 0; i < 3; i++) {
        EsProofRound round = train(&test, 1);
        EXPECT_EQ(round.counted.n_steps, 24 * 8);
        EXPECT_EQ(round.kept.n_rows, 24 * 8);
        EXPECT_EQ(round.learning_rate, (double)settings.ppo.rate);
        EXPECT(round.update.n_epochs > 0);
        sum.n_episodes[1] += round.counted.n_episodes[1];
        sum.n_proved[1] += round.counted.n_proved[1];
        sum.n_successors += round.counted.n_successors;
    }
    EsProofEnvCounters all = es_proof_env_counters(es_proof_training_env(test.training));
    EXPECT_EQ(all.n_steps, 3 * 24 * 8);
    EXPECT_EQ(sum.n_episodes[1], all.n_episodes[1]);
    EXPECT_EQ(sum.n_proved[1], all.n_proved[1]);
    EXPECT_EQ(sum.n_successors, all.n_successors);
    destroy_training(&test);
}

// The observer of a step can end the round.
static EsStatus stop_at_three(void *context, const EsProofEnv *env, int32_t step) {
    int *n_steps = context;
    EXPECT_EQ(step, *n_steps);
    EXPECT(es_proof_env_result(env) != NULL);
    (*n_steps)++;
    return step < 2 ? ES_STATUS_OK : ES_FAIL(INTERRUPTED, "enough");
}

TEST(a_watch_can_end_a_round) {
    EsProofTrainingSettings settings = small_training();
    TrainingCase test = make_training(&settings, 60, 1);
    EsProofRound round;
    int n_steps = 0;
    EsProofWatch watch = {&n_steps, stop_at_three};
    EXPECT_STATUS(es_proof_training_round(test.training, &watch, &round), INTERRUPTED);
    EXPECT_EQ(n_steps, 3);
    EXPECT_EQ(es_proof_training_rounds_done(test.training), 0);
    destroy_training(&test);
}

// Positives of the environment that are proved, over some rounds.
static double measure(TrainingCase *test, int n_rounds) {
    int64_t n_proved = 0, n_episodes = 0;
    for (int i = 0; i < n_rounds; i++) {
        EsProofRound round = train(test, 1);
        n_proved += round.counted.n_proved[1];
        n_episodes += round.counted.n_episodes[1];
    }
    return (double)n_proved / (double)n_episodes;
}

TEST(it_learns_to_prove) {
    EsProofTrainingSettings settings = small_training();
    settings.env.n_envs = 64;
    settings.n_steps = 8;
    settings.policy.embed = 32;
    settings.policy.hidden = 64;
    settings.ppo.rate = 0.01f;
    settings.ppo.entropy_start = 0.02f;
    settings.ppo.entropy_end = 0.002f;
    settings.ppo.max_norm = 0.5f;
    settings.schedule.n_rounds = 100;
    TrainingCase test = make_training(&settings, 60, 1);
    double before = measure(&test, 4);
    train(&test, 80);
    double after = measure(&test, 16);
    printf("  positives proved: %.3f in the first rounds, %.3f in the last of 100\n", before,
           after);
    EXPECT(after > before + 0.15);
    destroy_training(&test);
}

// Test queries whose shortest proof has three or four steps, and how many of them a search proves
// within 20 expansions; policy NULL: equal probabilities.
static EsProofTally count_proofs(const TrainingCase *test, const EsProofPolicy *policy,
                                 EsSearchKind kind) {
    const EsQuerySplit *split = &test->graph->splits[ES_KG_SPLIT_TEST];
    EsThreadPool *pool = es_proof_training_pool(test->training);
    EsProofSearchSettings settings = es_proof_search_defaults();
    EsProverSettings prover = es_prover_defaults();
    EsProverReport report;
    EsProofGuides guides = {.n_guides = 0};
    EsProofCurve *curve = NULL;
    settings.kind = kind;
    settings.max_expanded = 20;
    settings.max_depth = 6;
    settings.max_atoms = prover.max_atoms = 12;
    settings.value_weight = policy != NULL ? 4 : 0;
    prover.max_depth = 4;
    REQUIRE_OK(es_prover_find_depths(test->graph, &prover, pool, split->atoms, split->count,
                                     split->depths, &report));
    if (policy != NULL) {
        REQUIRE_OK(es_proof_guides_create(policy, es_thread_pool_size(pool), &guides));
    }
    REQUIRE_OK(es_proof_curve_create(test->graph, &settings, guides.guides, pool, split->atoms,
                                     split->count, &curve));
    EsProofTally tally = es_proof_curve_tally(curve, split->depths, 3, 4, settings.max_expanded);
    es_proof_curve_destroy(curve);
    es_proof_guides_destroy(&guides);
    return tally;
}

TEST(it_learns_on_predicates_of_0_to_4_arguments) {
    EsProofTrainingSettings settings = widen(small_search_training());
    settings.env.n_envs = 64;
    settings.policy.embed = 32;
    settings.policy.hidden = 64;
    settings.ppo.rate = 0.005f;
    settings.ppo.entropy_start = 0.1f;
    settings.ppo.entropy_end = 0.05f;
    settings.schedule.n_rounds = 80;
    TrainingCase test = make_training_on(&settings, 100, 1, 2);
    train(&test, 80);
    EsProofTally trained =
        count_proofs(&test, es_proof_training_policy(test.training), ES_SEARCH_BEST_FIRST);
    EsProofTally uniform = count_proofs(&test, NULL, ES_SEARCH_BEST_FIRST);
    EsProofTally breadth = count_proofs(&test, NULL, ES_SEARCH_BREADTH);
    printf("  of %d test queries of 3 and 4 steps, within 20 expansions: %d trained, %d uniform "
           "best-first, %d breadth-first\n",
           trained.n_queries, trained.n_proved, uniform.n_proved, breadth.n_proved);
    EXPECT(trained.n_proved > 2 * uniform.n_proved);
    EXPECT(trained.n_proved > 2 * breadth.n_proved);
    destroy_training(&test);
}
