// Hosts that are chosen stay within their share of the parameters and can be built, for all sizes,
// channels, classes and limits; a limit that is too small is refused with the number that it takes.
#include "fit/host_choice.h"

#include "es_test.h"
#include "growth/host/host.h"

static EsDataset describe_images(int side, int n_channels, int n_classes) {
    return (EsDataset){
        .n_channels = n_channels, .height = side, .width = side, .n_classes = n_classes};
}

// What is promised of every host: within the limit, for this data, with slots, and pooled.
static void check_host(const EsHostSpec *host, const EsDataset *dataset, double limit) {
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots = 0;
    EXPECT_STATUS(es_host_check(host), OK);
    EXPECT((double)es_host_parameter_count(host) <= limit);
    EXPECT_EQ(host->image_size, dataset->height);
    EXPECT_EQ(host->image_channels, dataset->n_channels);
    EXPECT_EQ(host->n_classes, dataset->n_classes);
    EXPECT_STATUS(es_slots_parse(host, "all", slots, &n_slots), OK);
    EXPECT(n_slots >= 1);
    int side = dataset->height >> host->n_pools;
    EXPECT(side >= 2 && side <= 8);
}

TEST(limits_are_respected) {
    static const int sides[] = {4, 5, 7, 8, 9, 16, 28, 31, 32, 64, 100, 255, 256};
    static const int classes[] = {2, 3, 10, 47, 1000};
    static const int64_t limits[] = {100, 300, 1000, 2000, 5000, 20000, 100000, 3000000, 100000000};
    int n_chosen = 0, n_refused = 0, n_some = 0;
    for (size_t i = 0; i < ES_COUNT_OF(sides) * 4 * ES_COUNT_OF(classes); i++) {
        EsDataset dataset =
            describe_images(sides[i % ES_COUNT_OF(sides)], 1 + (int)(i / ES_COUNT_OF(sides)) % 4,
                            classes[i / ES_COUNT_OF(sides) / 4]);
        for (size_t k = 0; k < ES_COUNT_OF(limits); k++) {
            EsHostChoice choice;
            EsStatus status = es_host_choose(&dataset, limits[k], &choice);
            if (status != ES_STATUS_OK) {
                EXPECT_EQ(status, ES_STATUS_ARGUMENT);
                EXPECT_CONTAINS(es_status_detail(), "is too small for");
                n_refused++;
                continue;
            }
            for (int h = 0; h < choice.n_hosts; h++) {
                int is_small = strncmp(choice.hosts[h].name, "small", 5) == 0;
                check_host(&choice.hosts[h], &dataset, (is_small ? 0.6 : 0.95) * (double)limits[k]);
                EXPECT_CONTAINS(choice.reason, choice.hosts[h].name);
            }
            EXPECT(choice.n_hosts >= 1 && choice.n_hosts <= ES_HOST_SHAPES);
            EXPECT_EQ(choice.reason[strlen(choice.reason) - 1], '.'); // all of it is there
            n_some += choice.n_hosts < ES_HOST_SHAPES;
            n_chosen++;
        }
    }
    EXPECT(n_chosen > 1000 && n_refused > 100 && n_some > 10);
}

// A large limit is used: the widest host of a shape leaves little of its share.
TEST(hosts_are_as_wide_as_they_may_be) {
    EsDataset dataset = describe_images(28, 1, 10);
    for (int64_t most = 20000; most < 2000000; most = most * 3 / 2) {
        EsHostChoice choice;
        REQUIRE_OK(es_host_choose(&dataset, most, &choice));
        EXPECT_EQ(choice.n_hosts, ES_HOST_SHAPES);
        for (int h = 0; h < choice.n_hosts; h++) {
            double share = strncmp(choice.hosts[h].name, "small", 5) == 0 ? 0.6 : 0.95;
            EXPECT((double)es_host_parameter_count(&choice.hosts[h]) > 0.8 * share * (double)most);
        }
    }
}

TEST(rows_get_layers) {
    for (int n_columns = 1; n_columns < 3000; n_columns *= 5) {
        EsDataset dataset = describe_images(1, n_columns, 3);
        EsHostChoice choice;
        dataset.kind = ES_DATASET_ROWS;
        REQUIRE_OK(es_host_choose(&dataset, 100000, &choice));
        EXPECT_EQ(choice.n_hosts, 2);
        for (int h = 0; h < choice.n_hosts; h++) {
            EXPECT_EQ(choice.hosts[h].kind, ES_HOST_DENSE);
            EXPECT_EQ(choice.hosts[h].n_blocks, h + 1);
            EXPECT_STATUS(es_host_check(&choice.hosts[h]), OK);
            EXPECT(es_host_parameter_count(&choice.hosts[h]) <= 60000);
        }
        EXPECT_CONTAINS(choice.reason, "units");
    }
}

// The limit in the message is enough.
TEST(the_message_says_how_many_are_needed) {
    static const int sides[] = {4, 16, 28, 64, 256};
    for (size_t i = 0; i < ES_COUNT_OF(sides); i++) {
        EsDataset dataset = describe_images(sides[i], 3, 10);
        EsHostChoice choice;
        EXPECT_STATUS(es_host_choose(&dataset, 1, &choice), ARGUMENT);
        const char *number = strstr(es_status_detail(), "needs a limit of ");
        EXPECT(number != NULL);
        int64_t needed = number != NULL ? atoll(number + strlen("needs a limit of ")) : 0;
        EXPECT_STATUS(es_host_choose(&dataset, needed, &choice), OK);
        EXPECT_STATUS(es_host_choose(&dataset, needed * 9 / 10, &choice), ARGUMENT);
    }
}

TEST(the_choice_is_explained) {
    EsDataset dataset = describe_images(28, 1, 10);
    EsHostChoice choice;
    REQUIRE_OK(es_host_choose(&dataset, 20000, &choice));
    char count[64];
    for (int h = 0; h < choice.n_hosts; h++) {
        int64_t n = es_host_parameter_count(&choice.hosts[h]);
        snprintf(count, sizeof count, "%lld parameters, which leaves %lld to seeds", (long long)n,
                 (long long)(20000 - n));
        EXPECT_CONTAINS(choice.reason, count);
    }
    EXPECT_CONTAINS(choice.reason,
                    "For images of 28 x 28 x 1, 10 classes and at most 20000 parameters");
}

// Larger hosts keep to the limit, can be built, and use most of it.
TEST(hosts_are_enlarged) {
    EsHostSpec host;
    REQUIRE_OK(es_host_preset("cifar_baseline", &host));
    int64_t count = es_host_parameter_count(&host);
    for (int64_t most = count; most < 50 * count; most += count / 3) {
        EsHostSpec wider = es_host_widen(&host, most);
        EsHostSpec deeper = es_host_deepen(&host, most, ES_HOST_BLOCKS_MAX);
        EXPECT_STATUS(es_host_check(&wider), OK);
        EXPECT_STATUS(es_host_check(&deeper), OK);
        EXPECT(es_host_parameter_count(&wider) <= most);
        EXPECT(es_host_parameter_count(&wider) > most * 9 / 10);
        EXPECT(es_host_parameter_count(&deeper) <= most);
        EXPECT_EQ(wider.n_blocks, host.n_blocks);
        EXPECT_EQ(deeper.n_pools, host.n_pools);
        EXPECT(most < 3 * count || deeper.n_blocks > host.n_blocks);
    }
    EsHostSpec same = es_host_widen(&host, 1);
    EXPECT_EQ(es_host_parameter_count(&same), count);
    EXPECT_EQ(es_host_deepen(&host, count, ES_HOST_BLOCKS_MAX).n_blocks, host.n_blocks);
    EXPECT_EQ(es_host_deepen(&host, 50 * count, 6).n_blocks, 6);
}

// A topology that is drawn keeps to the limit and the slots; numbers give others.
TEST(topologies_are_drawn) {
    EsHostSpec host;
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots = 0, n_drawn = 0, n_changed = 0;
    REQUIRE_OK(es_host_preset("cifar_baseline", &host));
    REQUIRE_OK(es_slots_parse(&host, "r0c0,r0c1,r0c2", slots, &n_slots));
    int64_t count = es_host_parameter_count(&host);
    EsFitTopology before = {0};
    for (uint32_t number = 0; number < 100; number++) {
        EsFitTopology topology;
        int64_t n = count;
        es_fit_topology_draw(&topology, &host, slots, n_slots, count * 3 / 2, 7, number);
        for (int k = 0; k < topology.n_seeds; k++) {
            EXPECT(topology.seeds[k].slot >= 0 && topology.seeds[k].slot < n_slots);
            EXPECT(k == 0 || topology.seeds[k].slot > topology.seeds[k - 1].slot);
            n += es_blueprint_parameter_count((EsBlueprint)topology.seeds[k].blueprint,
                                              slots[topology.seeds[k].slot].n_channels);
        }
        EXPECT(n <= count * 3 / 2);
        n_drawn += topology.n_seeds;
        n_changed += memcmp(&topology, &before, sizeof topology) != 0;
        before = topology;
    }
    EXPECT(n_drawn > 80 && n_drawn < 160); // half of 300 slots, less those beyond the limit
    EXPECT(n_changed > 80);
}

TEST(a_seed_in_no_slot_is_refused) {
    EsHostSpec host;
    EsSlot slots[ES_SLOTS_MAX];
    int n_slots = 0;
    EsFitTopology topology;
    REQUIRE_OK(es_host_preset("cifar_baseline", &host));
    REQUIRE_OK(es_slots_parse(&host, "r0c0,r0c2", slots, &n_slots));
    EsGrownSpec spec = {.host = host, .n_seeds = 1};
    spec.seeds[0] = (EsGrownSeed){
        .slot = slots[1], .blueprint = ES_BLUEPRINT_NORM, .style = ES_STYLE_GATED_GATE, .alpha = 1};
    REQUIRE_OK(es_fit_topology_of(&topology, &spec, slots, n_slots));
    EXPECT_EQ(topology.n_seeds, 1);
    EXPECT_EQ(topology.seeds[0].slot, 1);
    EXPECT_EQ(topology.seeds[0].style, ES_STYLE_GATED_GATE);
    EXPECT_STATUS(es_fit_topology_of(&topology, &spec, slots, 1), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "slot r0c2");
}
