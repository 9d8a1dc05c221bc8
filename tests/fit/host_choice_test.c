// Hosts that are chosen stay within their share of the parameters and can be built, for all sizes,
// channels, classes and limits; a limit that is too small is refused with the number that it takes.
#include "fit/host_choice.h"

#include "es_test.h"
#include "growth/host/slot.h"

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

// The next wider host of the same shape would not have been within the limit.
static void check_widest(const EsHostSpec *host, double limit) {
    EsHostSpec wider = *host;
    int step = host->blocks[0].n_channels;
    for (int i = 0; i < wider.n_blocks; i++) { // widths are multiples of 4 channels
        wider.blocks[i].n_channels += 4 * wider.blocks[i].n_channels / step;
    }
    EXPECT(step == 256 || (double)es_host_parameter_count(&wider) > limit);
}

TEST(limits_are_respected) {
    static const int sides[] = {4, 5, 7, 8, 9, 16, 28, 31, 32, 64, 100, 255, 256};
    static const int classes[] = {2, 3, 10, 47, 1000};
    static const int64_t limits[] = {100, 300, 1000, 2000, 5000, 20000, 100000, 3000000, 100000000};
    static const double shares[] = {0.3, 0.6, 1};
    int n_chosen = 0, n_refused = 0, n_single = 0;
    for (size_t i = 0; i < ES_COUNT_OF(sides) * 4 * ES_COUNT_OF(classes); i++) {
        EsDataset dataset =
            describe_images(sides[i % ES_COUNT_OF(sides)], 1 + (int)(i / ES_COUNT_OF(sides)) % 4,
                            classes[i / ES_COUNT_OF(sides) / 4]);
        for (size_t k = 0; k < ES_COUNT_OF(limits) * ES_COUNT_OF(shares); k++) {
            int64_t most = limits[k / ES_COUNT_OF(shares)];
            double share = shares[k % ES_COUNT_OF(shares)];
            EsHostChoice choice;
            EsStatus status = es_host_choose(&dataset, most, share, &choice);
            if (status != ES_STATUS_OK) {
                EXPECT_EQ(status, ES_STATUS_ARGUMENT);
                EXPECT_CONTAINS(es_status_detail(), "is too small for images of");
                n_refused++;
                continue;
            }
            for (int h = 0; h < choice.n_hosts; h++) {
                check_host(&choice.hosts[h], &dataset, share * (double)most);
                check_widest(&choice.hosts[h], share * (double)most);
                EXPECT_CONTAINS(choice.reason, choice.hosts[h].name);
            }
            EXPECT(choice.n_hosts >= 1 && choice.n_hosts <= ES_HOST_SHAPES);
            EXPECT_EQ(choice.reason[strlen(choice.reason) - 1], '.'); // all of it is there
            n_single += choice.n_hosts == 1;
            n_chosen++;
        }
    }
    EXPECT(n_chosen > 1000 && n_refused > 100 && n_single > 10);
}

// The number in the message is the limit: with it a host is found, with one less none.
TEST(the_message_says_how_many_are_needed) {
    static const int sides[] = {4, 16, 28, 64, 256};
    for (size_t i = 0; i < ES_COUNT_OF(sides); i++) {
        EsDataset dataset = describe_images(sides[i], 3, 10);
        EsHostChoice choice;
        EXPECT_STATUS(es_host_choose(&dataset, 1, 1, &choice), ARGUMENT);
        const char *number = strstr(es_status_detail(), "smallest host has ");
        EXPECT(number != NULL);
        int64_t needed = number != NULL ? atoll(number + strlen("smallest host has ")) : 0;
        EXPECT_STATUS(es_host_choose(&dataset, needed - 1, 1, &choice), ARGUMENT);
        EXPECT_STATUS(es_host_choose(&dataset, needed, 1, &choice), OK);
        EXPECT_EQ(es_host_parameter_count(&choice.hosts[0]), needed);
    }
    EsDataset dataset = describe_images(28, 1, 10);
    EsHostChoice choice;
    EXPECT_STATUS(es_host_choose(&dataset, 100, 0.6, &choice), ARGUMENT);
    EXPECT_CONTAINS(es_status_detail(), "--max-params 100 is too small for images of 28 x 28");
    EXPECT_CONTAINS(es_status_detail(), "60 % of the parameters are the host's");
}

TEST(the_choice_is_explained) {
    EsDataset dataset = describe_images(28, 1, 10);
    EsHostChoice choice;
    REQUIRE_OK(es_host_choose(&dataset, 20000, 0.6, &choice));
    EXPECT_EQ(choice.n_hosts, 2);
    char count[64];
    for (int h = 0; h < 2; h++) {
        int64_t n = es_host_parameter_count(&choice.hosts[h]);
        snprintf(count, sizeof count, "%lld parameters, which leaves %lld to seeds", (long long)n,
                 (long long)(20000 - n));
        EXPECT_CONTAINS(choice.reason, count);
    }
    EXPECT_CONTAINS(choice.reason, "Images of 28 x 28 x 1, 10 classes, at most 20000 parameters");
}
