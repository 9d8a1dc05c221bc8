// The public header of proofs: asking, searching, training, policies as files, what is refused.
#include "esper/prove.h"

#include <math.h>

#include "temp_folder.h"

static EsProve *make_prove(int n_threads) {
    EsProveOptions options = {
        .n_people = 60, .n_envs = 16, .n_steps = 8, .n_threads = n_threads, .n_nodes = 200};
    EsProve *prove = NULL;
    REQUIRE_OK(es_prove_create(&options, &prove));
    return prove;
}

static EsProveFound search(EsProve *prove, const EsProveAnswer *answer) {
    EsProveFound found;
    char atom[256];
    snprintf(atom, sizeof atom, "%s(%s,%s)", answer->predicate, answer->a, answer->b);
    REQUIRE_OK(es_prove_search(prove, atom, &found));
    if (found.is_proved) {
        // the first line is the query itself
        EXPECT_EQ(strncmp(found.proof, atom, strlen(atom)), 0);
        EXPECT(found.n_steps >= 1 && found.log_probability <= 0);
    }
    return found;
}

TEST(answers_are_proved_by_searches) {
    EsProve *prove = make_prove(1);
    EsProveAnswers answers;
    char text[128];
    int n_proved = 0, n_derived = 0;
    es_prove_describe(prove, text, sizeof text);
    EXPECT_EQ(strncmp(text, "60 constants, 15 predicates, ", 29), 0);
    REQUIRE_OK(es_prove_ask(prove, "uncle(X,Y)", &answers));
    EXPECT(answers.count > 5 && answers.is_complete);
    for (int32_t i = 0; i < answers.count; i++) {
        EXPECT_TEXT(answers.items[i].predicate, "uncle");
        if (answers.items[i].n_steps > 0) {
            n_derived++;
            n_proved += search(prove, &answers.items[i]).is_proved;
        }
    }
    EXPECT(n_derived > 0 && n_proved > 0 && n_proved <= n_derived);
    es_prove_destroy(prove);
}

TEST(training_is_the_same_for_any_threads_and_changes_the_search) {
    EsProve *one = make_prove(1), *two = make_prove(2);
    EsProveProgress a, b;
    EsProveAnswers answers;
    REQUIRE_OK(es_prove_ask(one, "uncle(X,Y)", &answers));
    EsProveAnswer last = answers.items[answers.count - 1];
    EsProveFound before = search(one, &last);
    REQUIRE_OK(es_prove_train(one, 3, &a));
    REQUIRE_OK(es_prove_train(two, 1, NULL));
    REQUIRE_OK(es_prove_train(two, 2, &b));
    EXPECT_EQ(a.n_rounds, 3);
    EXPECT_EQ(b.n_rounds, 3);
    EXPECT_EQ(a.positives_proved, b.positives_proved);
    EXPECT_EQ(a.entropy, b.entropy);
    EsProveFound left = search(one, &last), right = search(two, &last);
    EXPECT_EQ(left.n_expanded, right.n_expanded);
    EXPECT_EQ(left.log_probability, right.log_probability);
    EXPECT(left.log_probability != before.log_probability);
    es_prove_destroy(one);
    es_prove_destroy(two);
}

TEST(a_policy_can_be_kept) {
    EsProve *prove = make_prove(1), *other = make_prove(1);
    EsProveAnswers answers;
    const char *path = temp_path("policy.safetensors");
    REQUIRE_OK(es_prove_ask(prove, "uncle(X,Y)", &answers));
    EsProveAnswer last = answers.items[answers.count - 1];
    REQUIRE_OK(es_prove_train(prove, 2, NULL));
    REQUIRE_OK(es_prove_save_policy(prove, path));
    REQUIRE_OK(es_prove_load_policy(other, path));
    EXPECT_EQ(search(prove, &last).log_probability, search(other, &last).log_probability);
    // training goes on with its own weights
    REQUIRE_OK(es_prove_train(other, 2, NULL));
    EXPECT_EQ(search(prove, &last).log_probability, search(other, &last).log_probability);
    EXPECT_STATUS(es_prove_load_policy(other, "/nowhere/at.all"), INPUT);
    EsProveOptions options = {.n_people = 50};
    EsProve *smaller = NULL;
    REQUIRE_OK(es_prove_create(&options, &smaller));
    EXPECT_STATUS(es_prove_load_policy(smaller, path), INPUT);
    es_prove_destroy(prove);
    es_prove_destroy(other);
    es_prove_destroy(smaller);
}

TEST(mistakes_are_told) {
    EsProve *prove = make_prove(1);
    EsProveAnswers answers;
    EsProveFound found;
    EXPECT_STATUS(es_prove_ask(prove, "uncle(X", &answers), INPUT);
    EXPECT_STATUS(es_prove_ask(prove, "uncel(X,Y)", &answers), INPUT);
    EXPECT_EQ(answers.count, 0);
    EXPECT_STATUS(es_prove_search(prove, "uncle(X,Y)", &found), ARGUMENT);
    EXPECT_STATUS(es_prove_train(prove, 0, NULL), ARGUMENT);
    es_prove_destroy(prove);
    static const EsProveOptions wrong[] = {{.n_people = -1},         {.n_people = 1},
                                           {.max_atoms = 1000},      {.n_envs = 1 << 20},
                                           {.learning_rate = -1.0f}, {.learning_rate = NAN},
                                           {.rules = "rules.txt"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        EXPECT_STATUS(es_prove_create(&wrong[i], &prove), ARGUMENT);
        EXPECT(prove == NULL);
    }
    EsProveOptions nowhere = {.folder = "/nowhere/at/all"};
    EXPECT_STATUS(es_prove_create(&nowhere, &prove), INPUT);
    es_prove_destroy(NULL);
}
