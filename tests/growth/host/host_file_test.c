// Hosts described in files: the same host written in other words is the same graph, odd ones train,
// malformed ones are refused by file, line and nearest name.
#include "growth/host/host_file.h"

#include "growth/growth_with_device.h"
#include "temp_folder.h"

static EsHostSpec host;
static EsSlot slots[ES_SLOTS_MAX];
static int n_slots;

static EsStatus load(const char *text) {
    return es_host_load(write_temp_text("host.ini", text), &host, slots, &n_slots);
}

static void expect_refusal(const char *text, const char *message) {
    EXPECT_STATUS(load(text), CONFIG);
    EXPECT_TEXT(es_status_detail(), message);
    EXPECT(host.text == NULL && n_slots == 0);
}

static EsGraph *build_graph(const EsHostSpec *spec) {
    EsGraph *graph = NULL;
    REQUIRE_OK(es_graph_create(2, &graph));
    EsValueId images =
        es_graph_input(graph, "x", ES_DTYPE_F32, 4,
                       (int64_t[]){3, spec->image_channels, spec->image_size, spec->image_size});
    es_host_build(graph, spec, images, 1);
    REQUIRE_OK(es_graph_status(graph));
    EXPECT_EQ(es_host_parameter_count(spec), es_graph_parameter_count(graph));
    return graph;
}

// Same values in the same order: names, roles, shapes and places.
static void expect_same_graph(const EsHostSpec *a, const EsHostSpec *b) {
    EsGraph *first = build_graph(a), *second = build_graph(b);
    EXPECT_EQ(first->n_values, second->n_values);
    EXPECT_EQ(first->n_parameters, second->n_parameters);
    EXPECT_EQ(first->n_states, second->n_states);
    EXPECT_EQ(es_graph_parameter_count(first), es_graph_parameter_count(second));
    for (int i = 0; i < first->n_values && i < second->n_values; i++) {
        const EsValue *x = &first->values[i], *y = &second->values[i];
        EXPECT_TEXT(x->name, y->name);
        EXPECT_EQ(x->role, y->role);
        EXPECT_EQ(x->slab_offset, y->slab_offset);
        EXPECT_EQ(x->rank, y->rank);
        EXPECT(memcmp(x->dim, y->dim, sizeof x->dim[0] * (size_t)x->rank) == 0);
    }
    es_graph_destroy(first);
    es_graph_destroy(second);
}

static void expect_same_head(const EsHostSpec *a, const EsHostSpec *b) {
    EXPECT_TEXT(a->name, b->name);
    EXPECT_TEXT(a->dataset, b->dataset);
    EXPECT_EQ(a->image_channels, b->image_channels);
    EXPECT_EQ(a->image_size, b->image_size);
    EXPECT_EQ(a->n_classes, b->n_classes);
    EXPECT_EQ(a->batch, b->batch);
    EXPECT_EQ(a->n_blocks, b->n_blocks);
    EXPECT_EQ(a->n_pools, b->n_pools);
}

// --- the same host in other words ---

TEST(tiny_written_out_is_tiny) {
    EsHostSpec preset;
    REQUIRE_OK(es_host_preset("tiny", &preset));
    REQUIRE_OK(load("[host]\nname = tiny\ndata = tiny\nimage_channels = 1\nimage_size = 16\n"
                    "classes = 10\nbatch = 64\n"
                    "[block0]\nchannels = 4\nkernel = 3\npool = max\nafter_pool = on\n"
                    "[block1]\nchannels = 8\nkernel = 3\npool = max\nafter_pool = on\n"));
    expect_same_head(&host, &preset);
    expect_same_graph(&host, &preset);
    EsSlot all[ES_SLOTS_MAX];
    int n_all = 0;
    REQUIRE_OK(es_slots_parse(&preset, "all", all, &n_all));
    EXPECT_EQ(n_slots, n_all);
    EXPECT(memcmp(slots, all, sizeof *slots * (size_t)n_all) == 0);
    es_host_unload(&host);
    EXPECT_TEXT(host.name, "");
    es_host_unload(&host);
}

// growth.md 1.4: the published counts, of the preset, as a family in a file, and block by block
TEST(every_preset_can_be_written_either_way) {
    static const struct {
        const char *name;
        int64_t n_parameters;
    } published[] = {
        {"tiny", 438},
        {"cifar_baseline", 6418},
        {"cifar_scale", 99922},
        {"cifar_impaired", 77},
        {"cifar_minimal", 164},
        {"cifar_multichannel", 6418},
        {"cifar_postpool", 24346},
        {"cifar_highres", 24346},
        {"cifar_deep_multichannel", 99922},
        {"cifar_deep_impaired", 1140},
    };
    EXPECT_EQ(ES_COUNT_OF(published) + 1, es_host_preset_count()); // and dense
    for (size_t p = 0; p < ES_COUNT_OF(published); p++) {
        EsHostSpec preset;
        REQUIRE_OK(es_host_preset(published[p].name, &preset));
        EsGraph *graph = build_graph(&preset);
        EXPECT_EQ(es_graph_parameter_count(graph), published[p].n_parameters);
        es_graph_destroy(graph);
        char head[512], family[1024], blocks[4096];
        snprintf(head, sizeof head,
                 "[host]\nname = %s\ndata = %s\nimage_channels = %d\nimage_size = %d\n"
                 "batch = %d\n",
                 preset.name, preset.dataset, preset.image_channels, preset.image_size,
                 preset.batch);
        snprintf(family, sizeof family, "%sbase = %d\nkernel = %d\nblocks = %d\npools = %d\n", head,
                 preset.base, preset.kernel, preset.n_blocks, preset.n_pools);
        size_t used = (size_t)snprintf(blocks, sizeof blocks, "%s", head);
        for (int i = 0; i < preset.n_blocks; i++) {
            used += (size_t)snprintf(blocks + used, sizeof blocks - used,
                                     "[block%d]\nchannels = %d\nkernel = %d\npool = %s\n", i,
                                     preset.base << i, preset.kernel,
                                     i < preset.n_pools ? "max" : "none");
        }
        const char *const texts[] = {family, blocks};
        for (int t = 0; t < 2; t++) {
            REQUIRE_OK(load(texts[t]));
            expect_same_head(&host, &preset);
            expect_same_graph(&host, &preset);
            EXPECT_EQ(n_slots, preset.n_blocks);
            EXPECT_TEXT(slots[n_slots - 1].name, preset.n_blocks == 2   ? "r0c1"
                                                 : preset.n_blocks == 3 ? "r0c2"
                                                                        : "r0c4");
            es_host_unload(&host);
        }
    }
}

TEST(defaults) {
    REQUIRE_OK(load(""));
    EXPECT_TEXT(host.name, "host"); // of host.ini
    EXPECT_TEXT(host.dataset, "");
    EXPECT_EQ(host.n_blocks, 2);
    EXPECT_EQ(host.n_pools, 2);
    EXPECT_EQ(n_slots, 2);
    es_host_unload(&host);
    // pools follow the blocks unless they are given, also in a file with a byte order mark
    REQUIRE_OK(load("[host]\nblocks = 4\n"));
    EXPECT_EQ(host.n_pools, 4);
    es_host_unload(&host);
    REQUIRE_OK(load("\xEF\xBB\xBF[host]\r\n  blocks : 4 \r\n\tpools=2 ; two\r\n"));
    EXPECT_EQ(host.n_blocks, 4);
    EXPECT_EQ(host.n_pools, 2);
    es_host_unload(&host);
}

// --- odd hosts ---

static const char odd_text[] = "[host]\nname = odd\ndata = tiny\nbatch = 32\n"
                               "[block0]\nchannels = 12\nkernel = 5\npool = none\n"
                               "[block1] ; narrow, and no seeds before its pool\n"
                               "channels = 3\nkernel = 1\npool = max\nbefore_pool = off\n"
                               "after_pool = on\n"
                               "[block2]\nchannels = 7\nkernel = 7\n"
                               "[block3]\nchannels = 5\nkernel = 3\npool = max\nafter_pool = on\n";

TEST(blocks_are_as_described) {
    REQUIRE_OK(load(odd_text));
    static const EsHostBlock expected[] = {{12, 5, 0, 1}, {3, 1, 1, 2}, {7, 7, 0, 1}, {5, 3, 1, 3}};
    EXPECT_EQ(host.n_blocks, 4);
    for (int i = 0; i < 4; i++) {
        EsHostBlock block = es_host_block(&host, i);
        EXPECT(memcmp(&block, &expected[i], sizeof block) == 0);
    }
    // count by hand: weights, two per channel of the norms, head
    EsGraph *graph = build_graph(&host);
    EXPECT_EQ(es_graph_parameter_count(graph),
              12 * 25 + 24 + 12 * 3 + 6 + 3 * 7 * 49 + 14 + 7 * 5 * 9 + 10 + 5 * 10 + 10);
    es_graph_destroy(graph);
    static const char *const names[] = {"r0c0", "r0c2", "r0c3", "r1c1", "r1c3"};
    static const int channels[] = {12, 7, 5, 3, 5}, order[] = {0, 2, 3, 1, 4};
    EXPECT_EQ(n_slots, 5);
    for (int s = 0; s < n_slots; s++) {
        EXPECT_TEXT(slots[s].name, names[s]);
        EXPECT_EQ(slots[s].n_channels, channels[s]);
        EXPECT_EQ(slots[s].order, order[s]);
    }
    int n_chosen = 0;
    EXPECT_STATUS(es_slots_parse(&host, "r0c1", slots, &n_chosen), ARGUMENT);
    EXPECT_TEXT(es_status_detail(),
                "host \"odd\" has no slot \"r0c1\"; it has r0c0, r0c2, r0c3, r1c1, r1c3");
    es_host_unload(&host);
}

// As many blocks as a host may have.
TEST(twelve_blocks) {
    char text[2048] = "[host]\nimage_size = 8\n";
    for (int i = 0; i < 12; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "[block%d]\nchannels = %d\npool = %s\n", i, 1 + i,
                 i % 4 == 3 ? "max" : "none");
    }
    REQUIRE_OK(load(text));
    EXPECT_EQ(host.n_blocks, 12);
    EXPECT_EQ(host.n_pools, 3);
    EXPECT_EQ(n_slots, 12);
    EsGraph *graph = build_graph(&host);
    EXPECT(es_graph_find(graph, "block11.conv.weight") != ES_NO_VALUE);
    es_graph_destroy(graph);
    es_host_unload(&host);
}

// An odd host grows like any other: the fused and the plain way agree, a seed is taken in and the
// host learns.
TEST(odd_hosts_grow) {
    REQUIRE_OK(load(odd_text));
    EsDataset dataset;
    EsDatasetOptions small = {.seed = 3, .n_train = 320, .n_validation = 64, .n_test = 20};
    REQUIRE_OK(es_dataset_open(&dataset, host.dataset, &small, NULL));
    EsGrowth *growth[2];
    for (int i = 0; i < 2; i++) {
        EsGrowthOptions options = es_growth_defaults(&host, slots, n_slots, 1);
        options.settings.episode_steps = 5;
        options.settings.auto_forward = ES_AUTO_FORWARD_ALL;
        options.step_batches = 2;
        options.n_validation_images = 64;
        options.mode = i == 0 ? ES_COMPILE_DEFAULT : ES_COMPILE_OFF;
        growth[i] = create_growth(&options, &dataset, 0);
        REQUIRE_OK(es_growth_reset(growth[i], 0));
    }
    EsAction action = es_action_wait();
    action.head[ES_HEAD_OP] = ES_GROWTH_OP_GERMINATE;
    action.head[ES_HEAD_SLOT] = 3; // r1c1
    action.head[ES_HEAD_BLUEPRINT] = ES_BLUEPRINT_ID_CONV_LIGHT;
    double first_loss = es_growth_results(growth[0])[0].train_loss, last_loss = 0;
    while (!es_growth_is_over(growth[0])) {
        EsGrowthResult fused = *es_growth_results(growth[0]), plain = *es_growth_results(growth[1]);
        EXPECT_NEAR(fused.train_loss, plain.train_loss, 1e-4);
        EXPECT_NEAR(fused.validation_loss, plain.validation_loss, 1e-4);
        last_loss = fused.train_loss;
        REQUIRE_OK(es_growth_step(growth[0], &action));
        REQUIRE_OK(es_growth_step(growth[1], &action));
        action = es_action_wait();
    }
    EXPECT(last_loss < first_loss);
    EXPECT_EQ(es_growth_snapshot(growth[0])->state.seed.stage[3], ES_STAGE_TRAINING);
    // conv_light on three channels
    EXPECT_EQ(es_growth_snapshot(growth[0])->state.seed.n_parameters[3], 9 * 9 + 2 * 3);
    destroy_growth(growth[0]);
    destroy_growth(growth[1]);
    es_dataset_destroy(&dataset);
    es_host_unload(&host);
}

// --- dense hosts ---

TEST(layers_of_a_dense_host) {
    static const int widths[] = {32, 5, 4096}, after_norms = 2 * (32 + 5 + 4096);
    REQUIRE_OK(load("[host]\nkind = dense\nclasses = 3\nlayers = 32, 5 ,4096\n"));
    EXPECT_EQ(host.kind, ES_HOST_DENSE);
    EXPECT_EQ(host.n_blocks, 3);
    EXPECT_EQ(n_slots, 3);
    for (int i = 0; i < n_slots; i++) {
        EsHostBlock layer = es_host_block(&host, i);
        EsHostBlock expected = {widths[i], 1, 0, ES_HOST_BEFORE_POOL};
        EXPECT(memcmp(&layer, &expected, sizeof layer) == 0);
        EXPECT_EQ(slots[i].n_channels, widths[i]);
        EXPECT_EQ(slots[i].row, 0);
        EXPECT_EQ(slots[i].column, i);
    }
    host.image_channels = 7;
    EsGraph *graph = build_graph(&host);
    EXPECT_EQ(es_graph_parameter_count(graph),
              7 * 32 + 32 * 5 + 5 * 4096 + after_norms + 4096 * 3 + 3);
    es_graph_destroy(graph);
    es_host_unload(&host);
    REQUIRE_OK(load("[host]\nkind = dense\nlayers = 1,2,3,4,5,6,7,8,9,10,11,12\n"));
    EXPECT_EQ(n_slots, 12);
    es_host_unload(&host);
}

// No layers: a linear classifier, which has no slots.
TEST(a_dense_host_without_layers) {
    REQUIRE_OK(load("[host]\nname = line\nkind = dense\nclasses = 4\n"));
    EXPECT_EQ(host.n_blocks, 0);
    EXPECT_EQ(n_slots, 0);
    host.image_channels = 6;
    EsGraph *graph = build_graph(&host);
    EXPECT_EQ(es_graph_parameter_count(graph), 6 * 4 + 4);
    es_graph_destroy(graph);
    int n_chosen = 0;
    EXPECT_STATUS(es_slots_parse(&host, "r0c0", slots, &n_chosen), ARGUMENT);
    EXPECT_TEXT(es_status_detail(),
                "host \"line\" has no layers and so no slots: nothing can grow in it");
    es_host_unload(&host);
}

TEST(seeds_that_fit) {
    REQUIRE_OK(load("[host]\nkind = dense\nlayers = 8\n"));
    EXPECT_EQ(es_slots_blueprints(&host), 1 | 1 << ES_BLUEPRINT_ID_NORM |
                                              1 << ES_BLUEPRINT_ID_MLP_SMALL |
                                              1 << ES_BLUEPRINT_ID_MLP);
    es_host_unload(&host);
    REQUIRE_OK(load(""));
    EXPECT_EQ(es_slots_blueprints(&host), 0xFF);
    es_host_unload(&host);
}

// Rows for dense hosts, images for the others; the host takes columns and classes of the data.
TEST(hosts_take_their_kind_of_data) {
    const char *rows = write_temp_text("rows.csv", "a,b,c,k\n"
                                                   "1,2,3,x\n2,3,1,y\n3,1,2,x\n1,3,2,y\n"
                                                   "2,1,3,x\n3,2,1,y\n1,1,2,x\n2,2,3,y\n");
    EsDataset dataset;
    EsDatasetOptions first = {.seed = 1};
    REQUIRE_OK(es_host_preset("dense", &host));
    REQUIRE_OK(es_host_open_dataset(&host, rows, &first, 1, &dataset));
    EXPECT_EQ(host.image_channels, 3);
    EXPECT_EQ(host.image_size, 1);
    EXPECT_EQ(host.n_classes, 2);
    REQUIRE_OK(es_host_check(&host));
    es_dataset_destroy(&dataset);
    first.label = "nothing"; // options reach the reader
    EXPECT_STATUS(es_host_open_dataset(&host, rows, &first, 1, &dataset), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "no column is called \"nothing\"");
    first.label = NULL;
    EXPECT_STATUS(es_host_open_dataset(&host, "tiny", &first, 1, &dataset), INPUT);
    EXPECT_CONTAINS(es_status_detail(),
                    "data set \"tiny\" has images, and host \"dense\" is dense");
    REQUIRE_OK(es_host_preset("tiny", &host));
    EXPECT_STATUS(es_host_open_dataset(&host, rows, &first, 1, &dataset), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "choose --task dense, or a host file with kind = dense");
}

TEST(dense_hosts_that_cannot_be) {
    static const char *const lists[] = {
        "32,",   ",32", "32,,16", "0",   "4097",
        "32;16", "x",   "-8",     "8 8", "1,1,1,1,1,1,1,1,1,1,1,1,1"};
    for (size_t i = 0; i < ES_COUNT_OF(lists); i++) {
        char text[128];
        snprintf(text, sizeof text, "[host]\nkind = dense\nlayers = %s\n", lists[i]);
        EXPECT_STATUS(load(text), CONFIG);
        EXPECT_CONTAINS(es_status_detail(), "host.ini:3: [host] layers: \"");
    }
    expect_refusal("[host]\nlayers = 8\n", "host.ini:2: [host] layers is of hosts of kind dense");
    expect_refusal("[host]\nkind = dense\nbase = 4\n",
                   "host.ini:3: [host] base is of hosts of kind cnn; a dense host has layers");
    expect_refusal(
        "[host]\nkind = dense\n[block0]\nchannels = 4\n",
        "host.ini:3: [block0] is of hosts of kind cnn; a dense host has layers = 32, 16");
    EsHostSpec wrong;
    REQUIRE_OK(es_host_preset("dense", &wrong));
    wrong.kernel = 3;
    EXPECT_STATUS(es_host_check(&wrong), ARGUMENT);
    wrong.kernel = 1;
    wrong.n_pools = 1;
    EXPECT_STATUS(es_host_check(&wrong), ARGUMENT);
    wrong.n_pools = 0;
    wrong.image_size = 2;
    EXPECT_STATUS(es_host_check(&wrong), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "a dense host takes rows, not images of 2 x 2");
    wrong.image_size = 1;
    wrong.n_blocks = 13;
    EXPECT_STATUS(es_host_check(&wrong), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "13 layers, must be 0..12");
}

// --- what is refused ---

TEST(wrong_words_name_the_nearest) {
    expect_refusal("[host]\nbass = 4\n",
                   "host.ini:2: unknown key \"bass\" in [host]; did you mean \"base\"?");
    expect_refusal("[host]\n[blok0]\nchannels = 4\n",
                   "host.ini:2: unknown section [blok0]; did you mean [block0]?");
    expect_refusal("[host]\ndata = tinny\n",
                   "host.ini:2: [host] data: \"tinny\" is not one of tiny, generated, cifar10, "
                   "idx, fashion-mnist; did you mean \"tiny\"?");
    expect_refusal("[block0]\nchannels = 4\npool = mux\n",
                   "host.ini:3: [block0] pool: \"mux\" is not one of none, max; did you mean "
                   "\"max\"?");
    expect_refusal("[block0]\nkernel = 4\n",
                   "host.ini:2: [block0] kernel: \"4\" is not one of 1, 3, 5, 7; did you mean "
                   "\"1\"?");
    expect_refusal("[block0]\nchannels = 0\n",
                   "host.ini:2: [block0] channels: 0 is outside 1..4096");
}

TEST(contradictions_are_refused) {
    expect_refusal("[host]\nbase = 4\n[block0]\nchannels = 4\n",
                   "host.ini:2: [host] base describes all blocks, but the file also has [block0] "
                   "and so on; use one of the two");
    expect_refusal("[block0]\nchannels = 4\n[block1]\nkernel = 3\n",
                   "host.ini:3: [block1] needs channels");
    expect_refusal("[block0]\nchannels = 4\n[block1]\n", "host.ini:3: [block1] needs channels");
    expect_refusal("[block0]\nchannels = 4\n\n[block2]\nchannels = 4\n",
                   "host.ini:4: [block2] is there without [block1]");
    expect_refusal("[block0]\nchannels = 4\n",
                   "host.ini:1: one block is too few; a host has 2 to 12");
    expect_refusal("[block0]\nchannels = 4\nafter_pool = on\n[block1]\nchannels = 4\n",
                   "host.ini:3: [block0] after_pool is on, but the block has no pool");
    expect_refusal("[host]\nblocks = 2\npools = 3\n",
                   "host.ini:3: [host] pools: 3 pools in 2 blocks");
    expect_refusal("[host]\nbase = 1024\nblocks = 4\n",
                   "host.ini:2: [host] base: block 3 has 8192 channels, at most 4096");
    expect_refusal("[host]\nimage_size = 7\nblocks = 3\n",
                   "host.ini: 3 pools are too many for images of 7 x 7");
    expect_refusal("[host]\nbefore_pool = off\n",
                   "host.ini: before_pool and after_pool make 0 slots, must be 1..16; switch on "
                   "some of them");
    expect_refusal("[host]\nimage_size = 256\nblocks = 9\npools = 8\nbase = 1\nafter_pool = on\n",
                   "host.ini: before_pool and after_pool make 17 slots, must be 1..16; switch off "
                   "some of them");
}

TEST(a_missing_file) {
    EXPECT_STATUS(es_host_load("/tmp/esper-no-such-host.ini", &host, slots, &n_slots), IO);
    EXPECT_CONTAINS(es_status_detail(), "esper-no-such-host.ini");
}

// The host in the README is one.
TEST(the_example_in_the_readme) {
    FILE *file = fopen(ES_TEST_DATA "/../../README.md", "rb");
    if (file == NULL) {
        SKIP("the sources are not here");
    }
    static char text[1 << 16];
    size_t n = fread(text, 1, sizeof text - 1, file);
    text[n] = '\0';
    fclose(file);
    char *start = strstr(text, "```ini\n"), *end = start != NULL ? strstr(start + 7, "```") : NULL;
    EXPECT(end != NULL);
    if (end != NULL) {
        *end = '\0';
        REQUIRE_OK(load(start + 7));
        EXPECT_TEXT(host.name, "hourglass");
        EXPECT_TEXT(host.dataset, "tiny");
        EXPECT_EQ(n_slots, 3);
        EXPECT_TEXT(slots[2].name, "r1c0");
        es_host_unload(&host);
    }
}
