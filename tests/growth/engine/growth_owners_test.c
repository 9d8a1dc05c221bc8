// Who trains which environment: loads of ranks are made even by whole environments, the same on
// every rank, and left alone where they are even. No process is started: nothing is sent here.
#include "es_test.h"
#include "growth/engine/growth_internal.h"

#define N_ENVS 8

static EsDevice *device;
static EsDataset dataset;

// Hosts of `tiny` at the begin of an episode; this process is rank `ranks->number`.
static EsGrowth *create(EsRanks *ranks) {
    EsHostSpec host;
    EsSlot slots[ES_SLOTS_MAX];
    EsGrowth *growth = NULL;
    int n_slots = 0;
    REQUIRE_OK(es_host_preset("tiny", &host));
    REQUIRE_OK(es_slots_parse(&host, "all", slots, &n_slots));
    EsGrowthOptions options = es_growth_defaults(&host, slots, n_slots, N_ENVS);
    options.batch = 8;
    options.n_validation_images = 40;
    options.ranks = ranks;
    REQUIRE_OK(es_growth_create(&options, &dataset, device, &growth));
    REQUIRE_OK(es_growth_begin(growth, 0));
    return growth;
}

// Seeds in the first four hosts, which are those of the first of two ranks.
static void plant(EsGrowth *growth) {
    for (int64_t e = 0; e < N_ENVS / 2; e++) {
        for (int slot = 0; slot < growth->model.n_slots; slot++) {
            REQUIRE_OK(es_growth_plant(growth, e, slot, ES_BLUEPRINT_ID_CONV_HEAVY, 0));
        }
    }
}

static double most_load(const EsGrowth *growth, int n_ranks) {
    double most = 0;
    for (int r = 0; r < n_ranks; r++) {
        most = growth->load[r] > most ? growth->load[r] : most;
    }
    return most;
}

static double mean_load(const EsGrowth *growth, int n_ranks) {
    double sum = 0;
    for (int64_t e = 0; e < N_ENVS; e++) {
        sum += growth->cost[e];
    }
    return sum / n_ranks;
}

static void open_data(void) {
    REQUIRE_OK(es_device_open("cpu", &(EsDeviceOptions){.n_threads = 1}, &device));
    EsDatasetOptions wanted = {.n_train = 64, .n_validation = 40, .n_test = 40};
    REQUIRE_OK(es_dataset_open(&dataset, "tiny", &wanted, NULL));
}

static void close_data(void) {
    es_dataset_destroy(&dataset);
    es_device_close(device);
}

TEST(equal_hosts_stay) {
    open_data();
    for (int n_ranks = 1; n_ranks <= 5; n_ranks++) {
        EsRanks ranks = {.count = n_ranks};
        EsGrowth *growth = create(&ranks);
        EXPECT_EQ(es_growth_find_owners(growth), 0);
        es_growth_destroy(growth);
    }
    close_data();
}

TEST(seeds_are_shared_out) {
    open_data();
    for (int n_ranks = 2; n_ranks <= 3; n_ranks++) {
        int32_t wanted[N_ENVS];
        for (int number = 0; number < n_ranks; number++) {
            EsRanks ranks = {.count = n_ranks, .number = number};
            EsGrowth *growth = create(&ranks);
            plant(growth);
            EXPECT(es_growth_find_owners(growth) > 0);
            EXPECT(growth->cost[0] > 1.5 * growth->cost[N_ENVS - 1]);
            if (n_ranks == 2) { // four hosts of each kind
                EXPECT(most_load(growth, n_ranks) < 1.001 * mean_load(growth, n_ranks));
            }
            EXPECT(most_load(growth, n_ranks) < mean_load(growth, n_ranks) + growth->cost[0]);
            if (number > 0) {
                EXPECT(memcmp(wanted, growth->wanted, sizeof wanted) == 0);
            }
            memcpy(wanted, growth->wanted, sizeof wanted);
            es_growth_destroy(growth);
        }
    }
    close_data();
}

// Candidates 3 .. 10 of 12, as a group of a fit has them.
TEST(an_assignment_stays) {
    open_data();
    EsRanks ranks = {.count = 3, .number = 1};
    EsGrowth *growth = create(&ranks);
    es_growth_assign(growth, 3, 12);
    for (int64_t e = 0; e < N_ENVS; e++) {
        EXPECT_EQ(growth->owner[e], (3 + e) / 4);
    }
    EXPECT_EQ(es_growth_own_count(growth), 4);
    plant(growth);
    REQUIRE_OK(es_growth_balance(growth)); // nothing is sent
    EXPECT_EQ(growth->owner[1], 1);
    es_growth_destroy(growth);
    close_data();
}
