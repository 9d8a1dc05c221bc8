// Rows of numbers: hosts and growth learn from them, with the same bits on any number of threads
// and the same numbers on plain kernels; seeds that fit live their lives, the others are refused.
#include "es_test.h"

#include "growth/engine/host_trainer.h"
#include "growth/growing_case.h"
#include "growth/host/host_file.h"
#include "mutate.h"
#include "temp_folder.h"

enum { N_CLASSES = 3, N_PER_CLASS = 100 };

// Clouds of points around a corner per class, as a CSV file.
static void make_rows(int n_columns, EsDataset *dataset) {
    static char text[1 << 21];
    size_t used = 0;
    for (int i = 0; i < N_CLASSES * N_PER_CLASS; i++) {
        int label = i % N_CLASSES;
        for (int c = 0; c < n_columns; c++) {
            EsRandom4 r = es_random_draw(9, (uint32_t)i, ES_PURPOSE_EVALUATION, (uint32_t)c, 0);
            double noise =
                (double)(es_random_uniform(r.word[0]) + es_random_uniform(r.word[1])) - 1;
            double centre = 8.0 + 2.0 * ((c + label) % N_CLASSES);
            used +=
                (size_t)snprintf(text + used, sizeof text - used, "%.4f,", centre + 1.5 * noise);
        }
        used += (size_t)snprintf(text + used, sizeof text - used, "class%d\n", label);
    }
    EsDatasetOptions options = {.seed = 3, .validation_share = 0.2};
    REQUIRE_OK(es_dataset_open(dataset, write_temp_text("rows.csv", text), &options, NULL));
    EXPECT_EQ(dataset->kind, ES_DATASET_ROWS);
    EXPECT_EQ(dataset->n_channels, n_columns);
}

// A dense host of these layers (up to three, 0 ends the list) for the data.
static EsHostSpec dense_host(const EsDataset *dataset, const int *widths) {
    EsHostSpec host;
    REQUIRE_OK(es_host_preset("dense", &host));
    host.n_blocks = 0;
    for (int i = 0; i < 3 && widths[i] > 0; i++) {
        host.blocks[host.n_blocks++] =
            (EsHostBlock){.n_channels = widths[i], .kernel = 1, .places = ES_HOST_BEFORE_POOL};
    }
    host.image_channels = dataset->n_channels;
    host.n_classes = dataset->n_classes;
    return host;
}

// --- hosts alone ---

typedef struct Trained {
    EsHostResult result[2];
    float parameters[2][4096];
    int uses_lanes;
} Trained;

static void train(const EsDataset *dataset, const int *widths, int n_threads, EsCompileMode mode,
                  Trained *trained) {
    EsHostSpec host = dense_host(dataset, widths);
    EsHostTrainerOptions options = es_host_trainer_defaults(&host, 2);
    options.batch = 17; // leaves lanes empty
    options.mode = mode;
    options.optimiser.learning_rate = 0.02f;
    // of images: rows are left as they are
    options.recipe.pad = 1;
    options.recipe.flip = 1;
    options.recipe.erase = 0.5f;
    EsDevice *device = NULL;
    EsHostTrainer *trainer = NULL;
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = n_threads}, &device));
    REQUIRE_OK(es_host_trainer_create(&options, dataset, device, &trainer));
    REQUIRE_OK(es_host_trainer_train(trainer, 100));
    REQUIRE_OK(es_host_trainer_evaluate(trainer, &dataset->test, trained->result));
    const EsTensor *slab = &es_host_trainer_store(trainer)->parameters;
    ES_ASSERT(slab->dim[1] <= 4096);
    for (int e = 0; e < 2; e++) {
        memcpy(trained->parameters[e], slab_row(slab, e), sizeof(float) * (size_t)slab->dim[1]);
    }
    trained->uses_lanes = es_host_trainer_report(trainer).uses_lanes;
    es_host_trainer_destroy(trainer);
    es_device_close(device);
}

// One column and many, no layers and several: they learn, whichever kernels and threads run them.
TEST(hosts_learn_from_rows) {
    static const int columns[] = {1, 3, 17, 64};
    static const int widths[][3] = {{0, 0, 0}, {16, 0, 0}, {5, 24, 0}, {8, 8, 8}};
    for (size_t c = 0; c < ES_COUNT_OF(columns); c++) {
        EsDataset dataset;
        make_rows(columns[c], &dataset);
        for (size_t w = 0; w < ES_COUNT_OF(widths); w++) {
            static Trained one, two, plain;
            memset(&one, 0, sizeof one);
            memset(&two, 0, sizeof two);
            train(&dataset, widths[w], 1, ES_COMPILE_DEFAULT, &one);
            train(&dataset, widths[w], 2, ES_COMPILE_DEFAULT, &two);
            train(&dataset, widths[w], 1, ES_COMPILE_OFF, &plain);
            EXPECT(one.uses_lanes && !plain.uses_lanes);
            EXPECT(memcmp(&one, &two, sizeof one) == 0);
            for (int e = 0; e < 2; e++) {
                EXPECT_NEAR(one.result[e].loss, plain.result[e].loss, 1e-4);
                if (!(one.result[e].accuracy >= (columns[c] == 1 ? 70 : 90))) {
                    ES_TEST_FAIL("%d columns, host %zu: %.1f %%", columns[c], w,
                                 one.result[e].accuracy);
                }
            }
        }
        es_dataset_destroy(&dataset);
    }
}

// Wider than the vector engine takes: the plain kernels run it.
TEST(wide_rows) {
    EsDataset dataset;
    make_rows(600, &dataset);
    static Trained trained;
    train(&dataset, (const int[3]){4, 0, 0}, 2, ES_COMPILE_DEFAULT, &trained);
    EXPECT(!trained.uses_lanes);
    EXPECT(trained.result[0].accuracy >= 90);
    es_dataset_destroy(&dataset);
}

// --- growth ---

static EsGrowthOptions dense_options(const EsDataset *dataset, int64_t n_envs) {
    EsHostSpec host = dense_host(dataset, (const int[3]){8, 24, 0});
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots = 0;
    REQUIRE_OK(es_slots_parse(&host, "all", slots, &n_slots));
    EsGrowthOptions options = es_growth_defaults(&host, slots, n_slots, n_envs);
    options.settings.auto_forward = ES_AUTO_FORWARD_ALL;
    options.batch = 16;
    options.step_batches = 2;
    options.n_validation_images = 40;
    return options;
}

static EsAction dense_action(const EsGrowth *growth, int64_t env) {
    static const int blueprints[] = {ES_BLUEPRINT_NORM, ES_BLUEPRINT_MLP_SMALL, ES_BLUEPRINT_MLP};
    EsAction action = wild_action(growth, env, 21);
    action.head[ES_HEAD_BLUEPRINT] = (int8_t)blueprints[action.head[ES_HEAD_BLUEPRINT] % 3];
    return action;
}

// The same lives on 1 and 2 threads, bit for bit, and on plain kernels but for rounding.
TEST(growth_on_rows) {
    enum { ENVS = 5, STEPS = 30 };
    static const struct {
        int n_threads;
        EsCompileMode mode;
    } ways[] = {{1, ES_COMPILE_DEFAULT}, {2, ES_COMPILE_DEFAULT}, {1, ES_COMPILE_OFF}};
    EsDataset dataset;
    make_rows(4, &dataset);
    EsGrowth *growth[3];
    EsGrowthOptions options = dense_options(&dataset, ENVS);
    for (int i = 0; i < 3; i++) {
        options.mode = ways[i].mode;
        growth[i] = create_growth(&options, &dataset, ways[i].n_threads);
        REQUIRE_OK(es_growth_reset(growth[i], 0));
    }
    int n_seeds[ES_BLUEPRINT_END] = {0};
    for (int step = 0; step < STEPS; step++) {
        EsAction actions[ENVS];
        for (int64_t e = 0; e < ENVS; e++) {
            EXPECT(hash_env(growth[0], e) == hash_env(growth[1], e));
            EXPECT_NEAR(es_growth_results(growth[0])[e].train_loss,
                        es_growth_results(growth[2])[e].train_loss, 1e-3);
            actions[e] = dense_action(growth[0], e);
            for (int s = 0; s < options.n_slots; s++) {
                int b =
                    es_growth_snapshot(growth[0])->state.seed.blueprint[e * options.n_slots + s];
                n_seeds[b > 0 ? b : 0]++;
            }
        }
        for (int i = 0; i < 3; i++) {
            REQUIRE_OK(es_growth_step(growth[i], actions));
        }
    }
    EXPECT_EQ(es_growth_plans(growth[0]).n_plain, 0);
    EXPECT(n_seeds[ES_BLUEPRINT_NORM] > 10 && n_seeds[ES_BLUEPRINT_MLP_SMALL] > 10 &&
           n_seeds[ES_BLUEPRINT_MLP] > 10);
    for (int i = 0; i < 3; i++) {
        destroy_growth(growth[i]);
    }
    es_dataset_destroy(&dataset);
}

// Every blueprint of dense hosts becomes a fossil in every style, of the size that the table says.
TEST(dense_seeds_become_fossils) {
    static const int blueprints[] = {ES_BLUEPRINT_NORM, ES_BLUEPRINT_MLP_SMALL, ES_BLUEPRINT_MLP};
    EsDataset dataset;
    make_rows(3, &dataset);
    for (int i = 0; i < 12; i++) {
        EsGrowthOptions options = dense_options(&dataset, 1);
        EsGrowth *growth = create_growth(&options, &dataset, 1);
        int blueprint = blueprints[i % 3], slot = i % 2, width = slot == 0 ? 8 : 24;
        REQUIRE_OK(es_growth_reset(growth, i));
        grow_fossil(growth, slot, blueprint, i / 3);
        int n_weights = blueprint == ES_BLUEPRINT_NORM        ? 2 * width + 1
                        : blueprint == ES_BLUEPRINT_MLP_SMALL ? 4 * width * width + 2 * width
                                                              : 8 * width * width + 2 * width;
        int n_gate = i / 3 == 3 ? (int)es_graph_gate_parameter_count(width) : 0;
        EXPECT_EQ(es_growth_snapshot(growth)->state.seed.n_parameters[slot], n_weights + n_gate);
        destroy_growth(growth);
    }
    es_dataset_destroy(&dataset);
}

// A dense host has no room for convolutions, a host for images none for layers.
TEST(seeds_of_the_other_kind_are_refused) {
    EsDataset rows, images;
    make_rows(3, &rows);
    make_small_dataset(&images, 64, 40);
    EsGrowthOptions options[2] = {dense_options(&rows, 1), small_options("all", 1)};
    static const int wrong[2][2] = {{ES_BLUEPRINT_CONV_SMALL, ES_BLUEPRINT_ATTENTION},
                                    {ES_BLUEPRINT_MLP_SMALL, ES_BLUEPRINT_MLP}};
    for (int k = 0; k < 2; k++) {
        options[k].settings.blueprints = ES_BLUEPRINTS_ALL;
        EsGrowth *growth = create_growth(&options[k], k == 0 ? &rows : &images, 1);
        REQUIRE_OK(es_growth_reset(growth, 0));
        for (int i = 0; i < 2; i++) {
            EXPECT(!(es_growth_masks(growth)->head[ES_HEAD_BLUEPRINT] >> wrong[k][i] & 1));
            step_all(growth, germinate(0, wrong[k][i], 0));
            EXPECT_EQ(es_growth_snapshot(growth)->state.env.refusal[0], ES_REFUSAL_BLUEPRINT);
            EXPECT_EQ(stage_of(growth, 0, 0), ES_STAGE_DORMANT);
        }
        destroy_growth(growth);
    }
    EsGrowth *growth = NULL;
    EXPECT_STATUS(create_growth_on("cpu", 1, &options[0], &images, &growth), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "takes rows");
    EXPECT_STATUS(create_growth_on("cpu", 1, &options[1], &rows, &growth), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "takes images");
    es_dataset_destroy(&rows);
    destroy_small_dataset(&images);
}

// An episode that is saved and loaded goes on with the same bits; a seed that the host cannot hold
// is refused.
TEST(episodes_on_rows_are_saved) {
    EsDataset dataset;
    make_rows(3, &dataset);
    EsGrowthOptions options = dense_options(&dataset, 2);
    EsGrowth *growth = create_growth(&options, &dataset, 1);
    EsGrowth *again = create_growth(&options, &dataset, 1);
    REQUIRE_OK(es_growth_reset(growth, 0));
    REQUIRE_OK(es_growth_reset(again, 0));
    step_all(growth, germinate(0, ES_BLUEPRINT_MLP, 0));
    step_all(growth, es_action_wait());
    EsAction waits[2] = {es_action_wait(), es_action_wait()};
    REQUIRE_OK(es_growth_decide(growth, waits));
    REQUIRE_OK(es_growth_save(growth, temp_path("episode.safetensors")));
    REQUIRE_OK(es_growth_load(again, temp_path("episode.safetensors")));
    REQUIRE_OK(es_growth_advance(growth));
    REQUIRE_OK(es_growth_advance(again));
    EXPECT(hash_env(growth, 0) == hash_env(again, 0) && hash_env(growth, 1) == hash_env(again, 1));
    REQUIRE_OK(es_growth_decide(growth, waits));
    growth->shown.state.seed.blueprint[0] = ES_BLUEPRINT_CONV_LIGHT;
    REQUIRE_OK(es_growth_save(growth, temp_path("episode.safetensors")));
    EXPECT_STATUS(es_growth_load(again, temp_path("episode.safetensors")), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "seed.blueprint[0] is 1, which does not fit the host");
    // an episode of other norms, which does not say so
    growth->shown.state.seed.blueprint[0] = ES_BLUEPRINT_MLP;
    REQUIRE_OK(es_growth_save(growth, temp_path("episode.safetensors")));
    FileBytes file = read_bytes(temp_path("episode.safetensors"));
    char *name = memmem(file.bytes, file.count, "norm_epsilon", strlen("norm_epsilon"));
    ES_ASSERT(name != NULL);
    name[0] = 'x';
    write_bytes(temp_path("episode.safetensors"), file.bytes, file.count);
    es_release(file.bytes);
    EXPECT_STATUS(es_growth_load(again, temp_path("episode.safetensors")), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "its norms have the epsilon 1e-05, those of this program "
                                        "0.01");
    destroy_growth(growth);
    destroy_growth(again);
    es_dataset_destroy(&dataset);
}
