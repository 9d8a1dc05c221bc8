// Division of work in evaluation, against a plain search: leaders of every instance at every depth,
// and the instances that each block and slot lists.
#include "es_test.h"

#include "base/random_rules.h"
#include "growth/fused/fused_kernels.h"
#include "tensor/device_internal.h"

#define N_SLOTS  5
#define N_BLOCKS 3
#define N_POINTS (N_BLOCKS + N_SLOTS)
#define MOST     700

// block 0 has a slot on each side of its pool, block 1 likewise, block 2 one before it; slots are
// numbered instance by instance, so their order in a pass is another.
static const int32_t order[N_SLOTS] = {0, 3, 1, 4, 2};
static const int32_t block_depth[N_BLOCKS] = {0, 2, 4};

typedef struct Case {
    EsDevice *device;
    EsStream *stream;
    EsFusedArguments args;
    int32_t env[MOST];
    EsFusedSlot slots[MOST][N_SLOTS];
    int n_active;
} Case;

static void *send(Case *c, const void *from, size_t bytes) {
    void *to = NULL;
    REQUIRE_OK(es_device_allocate(c->device, bytes, &to));
    if (from != NULL) {
        REQUIRE_OK(es_stream_copy(c->stream, to, from, bytes, ES_COPY_TO_DEVICE));
        REQUIRE_OK(es_stream_synchronize(c->stream));
    }
    return to;
}

static void fetch(Case *c, void *to, const void *from, size_t bytes) {
    REQUIRE_OK(es_stream_copy(c->stream, to, from, bytes, ES_COPY_TO_HOST));
    REQUIRE_OK(es_stream_synchronize(c->stream));
    REQUIRE_OK(es_device_status(c->device));
}

// Instances in any order or, as growth lists them, by environment; any seed on or off; what is
// there and does not mix (incubated, noop) counts as off.
static void draw_rows(Case *c, int n_instances, int n_envs, int is_sorted, uint64_t seed) {
    for (int r = 0; r < n_instances; r++) {
        EsRandom4 draw = es_random_draw(seed, (uint32_t)r, ES_PURPOSE_EVALUATION, 0, 0);
        c->env[r] =
            is_sorted ? r * n_envs / n_instances : (int32_t)(draw.word[0] % (uint32_t)n_envs);
        for (int s = 0; s < N_SLOTS; s++) {
            int is_on = (int)(draw.word[1] >> s & 1), kind = (int)(draw.word[2] >> 2 * s & 3);
            EsFusedSlot on = {ES_BLUEPRINT_NORM, s == 2 ? ES_BLEND_GATE : ES_BLEND_ADD, 0.5f, 1};
            EsFusedSlot off = {ES_NO_SEED, ES_BLEND_NONE, 0.0f, 0};
            EsFusedSlot incubated = {ES_BLUEPRINT_NORM, ES_BLEND_INCUBATE, 0.5f, 0};
            EsFusedSlot noop = {ES_BLUEPRINT_NOOP, ES_BLEND_ADD, 0.5f, 0};
            c->slots[r][s] = is_on ? on : kind == 0 ? incubated : kind == 1 ? noop : off;
        }
    }
}

static int mixes(const Case *c, int row, int slot) {
    const EsFusedSlot *at = &c->slots[row][slot];
    return at->blueprint > ES_BLUEPRINT_NOOP && at->mode >= ES_BLEND_ADD;
}

static int expected_leader(const Case *c, int row, int depth) {
    for (int other = 0; other < row; other++) {
        int is_like = c->env[other] == c->env[row];
        for (int d = 0; d < depth; d++) {
            is_like &= mixes(c, other, order[d]) == mixes(c, row, order[d]);
        }
        if (is_like) {
            return other;
        }
    }
    return row;
}

static void compare(Case *c, int n_envs) {
    static int32_t leader[N_SLOTS + 1][MOST], listed[N_POINTS][MOST];
    int n_instances = (int)c->args.instances.n_instances;
    for (int d = 0; d <= N_SLOTS; d++) {
        fetch(c, leader[d], c->args.sharing.leader + d * n_instances,
              sizeof(int32_t) * (size_t)c->n_active);
        for (int r = 0; r < c->n_active; r++) {
            EXPECT_EQ(leader[d][r], expected_leader(c, r, d));
        }
    }
    for (int point = 0; point < N_POINTS; point++) {
        int slot = point - N_BLOCKS, n = 0;
        int before = slot < 0 ? c->args.net.block[point].depth : c->args.net.place[slot].depth;
        int depth = before + (slot >= 0);
        fetch(c, listed[point], c->args.sharing.listed + point * n_instances,
              sizeof(int32_t) * (size_t)n_instances);
        for (int r = 0; r < c->n_active; r++) {
            if (leader[depth][r] == r && (slot < 0 || mixes(c, r, slot))) {
                EXPECT_EQ(listed[point][n++], r);
            }
        }
        for (int i = n; i < n_instances; i++) {
            EXPECT_EQ(listed[point][i], -1);
        }
        EXPECT(n <= n_envs << before); // the size of its grid
    }
}

static void run(int n_instances, int n_active, int n_envs, int is_sorted, uint64_t seed) {
    static Case c;
    memset(&c, 0, sizeof c);
    REQUIRE_OK(es_device_open("cuda", NULL, &c.device));
    REQUIRE_OK(es_stream_create(c.device, &c.stream));
    EsFusedNet *net = &c.args.net;
    net->n_blocks = N_BLOCKS;
    net->n_slots = N_SLOTS;
    for (int b = 0; b < N_BLOCKS; b++) {
        net->block[b].depth = block_depth[b];
    }
    for (int d = 0; d < N_SLOTS; d++) {
        net->order[d] = order[d];
        net->place[order[d]].depth = d;
    }
    draw_rows(&c, n_instances, n_envs, is_sorted, seed);
    c.n_active = n_active;
    const int32_t count = n_active;
    size_t row_bytes = sizeof(int32_t) * (size_t)n_instances;
    void *memory[] = {send(&c, c.env, row_bytes),
                      send(&c, c.slots, sizeof c.slots[0] * (size_t)n_instances),
                      send(&c, &count, sizeof count),
                      send(&c, NULL, (N_SLOTS + 1) * row_bytes),
                      send(&c, NULL, N_POINTS * row_bytes),
                      send(&c, NULL, sizeof(int32_t) * (size_t)n_envs)};
    c.args.instances = (EsFusedInstances){.n_instances = n_instances,
                                          .n_active = n_active < n_instances ? memory[2] : NULL,
                                          .env = memory[0],
                                          .slots = memory[1]};
    c.args.sharing = (EsFusedSharing){memory[3], memory[4], memory[5]};
    c.args.n_envs = n_envs;
    es_fused_share(c.stream, &c.args);
    compare(&c, n_envs);
    for (size_t i = 0; i < ES_COUNT_OF(memory); i++) {
        es_device_release(c.device, memory[i]);
    }
    es_stream_destroy(c.stream);
    es_device_close(c.device);
}

TEST(leaders_and_lists_equal_a_plain_search) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    run(1, 1, 1, 0, 1);
    run(32, 32, 1, 0, 2); // all in one environment: nearly every pattern
    run(100, 70, 4, 0, 3);
    run(128, 128, 128, 0, 4); // hardly any instance has a partner
    run(129, 129, 7, 0, 5);
    run(700, 641, 19, 0, 6); // rows of an environment lie in several tiles
    run(128, 128, 9, 1, 7);
    run(700, 641, 41, 1, 8); // environments reach over the ends of tiles
    run(300, 300, 1, 1, 9);  // one environment over several tiles
}

// Not "the GPU has 0 bytes": what CUDA says is passed on.
TEST(a_gpu_that_does_not_answer_has_no_limit) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    EsDevice *device = NULL;
    size_t bytes = 0;
    REQUIRE_OK(es_device_open("cuda", NULL, &device));
    REQUIRE_OK(es_fused_shared_limit(device, &bytes));
    EXPECT(bytes >= 48 * 1024); // every GPU has them
    EsDevice lost = *device;
    lost.info.index = 1000;
    EXPECT_STATUS(es_fused_shared_limit(&lost, &bytes), DEVICE);
    EXPECT_CONTAINS(es_status_detail(), "cudaDeviceGetAttribute");
    es_device_close(device);
}
