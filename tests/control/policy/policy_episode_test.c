// A policy in the midst of an episode: saved, loaded into another or moved to one of fewer
// environments it decides as if nothing had happened. Crafted files whose checksums are right are
// refused by name and change nothing.
#include "control/policy/policy.h"

#include "control/ruled_hosts.h"
#include "mutate.h"

enum { N_ENVS = 5, N_SLOTS = 3, FIRST_EPISODE = 11 };

// Kinds of policies; "learned" stands for a file that the test writes.
static const char *const kinds[] = {"wait", "random", "heuristic", "learned", "eager"};

static EsPolicy *open_policy(const char *kind, const Hosts *hosts, EsDevice *device) {
    EsPolicy *policy = NULL;
    EsPolicyContext context = hosts_context(hosts, device, 3);
    const char *text = strcmp(kind, "learned") == 0 ? temp_path("policy.safetensors") : kind;
    REQUIRE_OK(es_policy_open(text, &context, &policy));
    return policy;
}

// Weights as after some training: heads of fresh ones hardly depend on the memory.
static void write_learned(const Hosts *hosts, EsDevice *device) {
    EsPolicy *policy = create_learned(hosts, device, 5);
    EsStore *store = es_policy_network_store(es_policy_network(policy));
    float *weights = store->parameters.data;
    for (int64_t i = 0; i < store->parameters.dim[1]; i++) {
        EsRandom4 r = es_random_draw(1, 0, ES_PURPOSE_EVALUATION, 0, (uint32_t)i);
        weights[i] += 0.6f * (es_random_uniform(r.word[0]) - 0.5f);
    }
    REQUIRE_OK(es_policy_save(policy, temp_path("policy.safetensors")));
    es_policy_destroy(policy);
}

static void begin_hosts(Hosts *hosts) {
    hosts_create(hosts, N_SLOTS, N_ENVS);
    hosts->noise = 0.01f; // plateaus, for the heuristic
    hosts_begin(hosts, FIRST_EPISODE);
}

// Both policies decide on the same state, up to the end; the first one's actions are carried out.
// Environment i of the second is envs[i] of the first. Returns how many did not wait.
static int expect_same_decisions(Hosts *hosts, EsPolicy *policy, EsPolicy *other,
                                 const int64_t *envs, int64_t n) {
    Hosts fewer;
    int n_acted = 0;
    hosts_create(&fewer, N_SLOTS, (int32_t)n);
    while (hosts->state.env.step[0] <= hosts->settings.episode_steps) {
        hosts_measure(hosts);
        for (int64_t i = 0; i < n; i++) {
            size_t from = (size_t)envs[i];
            EsGrowthEnv env = es_growth_env_load(&hosts->state.env, from);
            es_growth_env_store(&fewer.state.env, (size_t)i, &env);
            for (size_t s = 0; s < N_SLOTS; s++) {
                EsSeed seed = es_seed_load(&hosts->state.seed, from * N_SLOTS + s);
                es_seed_store(&fewer.state.seed, (size_t)i * N_SLOTS + s, &seed);
            }
            fewer.masks[i] = hosts->masks[from];
        }
        REQUIRE_OK(es_policy_decide(other, &fewer.state, fewer.masks, fewer.actions));
        REQUIRE_OK(es_policy_decide(policy, &hosts->state, hosts->masks, hosts->actions));
        for (int64_t i = 0; i < n; i++) {
            EXPECT(memcmp(&fewer.actions[i], &hosts->actions[envs[i]], sizeof(EsAction)) == 0);
            n_acted += fewer.actions[i].head[ES_HEAD_OP] != ES_GROWTH_OP_WAIT;
        }
        hosts_act(hosts);
    }
    hosts_destroy(&fewer);
    return n_acted;
}

static void run_steps(Hosts *hosts, EsPolicy *policy, int n) {
    REQUIRE_OK(es_policy_begin(policy, FIRST_EPISODE));
    for (int i = 0; i < n; i++) {
        hosts_step(hosts, policy);
    }
}

TEST(a_loaded_policy_decides_as_the_saved_one) {
    static const int64_t all[N_ENVS] = {0, 1, 2, 3, 4};
    EsDevice *device = open_cpu();
    for (size_t k = 0; k < ES_COUNT_OF(kinds); k++) {
        Hosts hosts;
        begin_hosts(&hosts);
        write_learned(&hosts, device);
        EsPolicy *policy = open_policy(kinds[k], &hosts, device);
        EsPolicy *loaded = open_policy(kinds[k], &hosts, device);
        REQUIRE_OK(es_policy_begin(loaded, 900)); // another memory, to be replaced
        run_steps(&hosts, policy, 12);
        REQUIRE_OK(es_policy_save_episode(policy, temp_path("episode.safetensors")));
        REQUIRE_OK(es_policy_load_episode(loaded, temp_path("episode.safetensors")));
        int n_acted = expect_same_decisions(&hosts, policy, loaded, all, N_ENVS);
        EXPECT((n_acted > 0) == (k > 0));
        es_policy_destroy(policy);
        es_policy_destroy(loaded);
        hosts_destroy(&hosts);
    }
    es_device_close(device);
}

TEST(moved_environments_are_decided_on_alike) {
    static const int64_t envs[] = {4, 1, 2};
    EsDevice *device = open_cpu();
    for (size_t k = 0; k < ES_COUNT_OF(kinds); k++) {
        Hosts hosts, fewer;
        begin_hosts(&hosts);
        hosts_create(&fewer, N_SLOTS, 3);
        write_learned(&hosts, device);
        EsPolicy *policy = open_policy(kinds[k], &hosts, device);
        EsPolicy *moved = open_policy(kinds[k], &fewer, device);
        run_steps(&hosts, policy, 9);
        REQUIRE_OK(es_policy_take_envs(moved, policy, envs));
        int n_acted = expect_same_decisions(&hosts, policy, moved, envs, 3);
        EXPECT((n_acted > 0) == (k > 0));
        es_policy_destroy(policy);
        es_policy_destroy(moved);
        hosts_destroy(&hosts);
        hosts_destroy(&fewer);
    }
    es_device_close(device);
}

// --- files that are refused ---

// The memory of a policy as bytes: of a file, since two saves of the same are the same.
static FileBytes save_memory(const EsPolicy *policy) {
    REQUIRE_OK(es_policy_save_episode(policy, temp_path("memory.safetensors")));
    return read_bytes(temp_path("memory.safetensors"));
}

static void expect_refused(EsPolicy *policy, const char *path, const char *message) {
    FileBytes before = save_memory(policy);
    EXPECT_STATUS(es_policy_load_episode(policy, path), INPUT);
    EXPECT_CONTAINS(es_status_detail(), message);
    FileBytes after = save_memory(policy);
    EXPECT(before.count == after.count && memcmp(before.bytes, after.bytes, after.count) == 0);
    es_release(before.bytes);
    es_release(after.bytes);
}

TEST(numbers_that_make_no_sense_are_refused) {
    enum { WORDS = sizeof(EsHeuristic) / 4 };
    static const struct {
        size_t kind;
        const char *tensor;
        int64_t index;
        uint32_t bits;
        const char *message;
    } cases[] = {
        {0, "episode", 3, 0xFFFFFFFF, "episode[3] is -1"},
        {1, "episode", 0, 0x80000000, "episode[0] is -2147483648"},
        {2, "heuristic", 2 * WORDS, 5, "heuristic[32] is 5"}, // next in the rotation
        {2, "heuristic", 2 * WORDS, 0xFFFFFFFF, "heuristic[32] is -1"},
        {2, "heuristic", WORDS + 3, 0x7FC00000, "is nan"}, // a penalty
        {2, "heuristic", WORDS + 3, 0x7F800000, "is inf"},
        {2, "heuristic", WORDS + 3, 0xBF800000, "is -1"},
        {3, "h", 7, 0x7FC00000, "h[7] is nan"},
        {3, "c", 70, 0xFF800000, "c[70] is -inf"},
    };
    Hosts hosts;
    EsDevice *device = open_cpu();
    begin_hosts(&hosts);
    write_learned(&hosts, device);
    const char *good = temp_path("good.safetensors"), *bad = temp_path("bad.safetensors");
    for (size_t i = 0; i < ES_COUNT_OF(cases); i++) {
        EsPolicy *policy = open_policy(kinds[cases[i].kind], &hosts, device);
        hosts_begin(&hosts, FIRST_EPISODE);
        run_steps(&hosts, policy, 8);
        REQUIRE_OK(es_policy_save_episode(policy, good));
        craft_number(good, bad, cases[i].tensor, cases[i].index, &cases[i].bits, 4);
        hosts_step(&hosts, policy); // what a load would take back
        expect_refused(policy, bad, cases[i].message);
        craft_metadata(good, bad, "format", "esper.growth.1");
        expect_refused(policy, bad, "its format is \"esper.growth.1\"");
        es_policy_destroy(policy);
    }
    es_device_close(device);
    hosts_destroy(&hosts);
}

TEST(files_of_other_policies_are_refused) {
    Hosts hosts, fewer;
    EsDevice *device = open_cpu();
    begin_hosts(&hosts);
    hosts_create(&fewer, N_SLOTS, N_ENVS - 1);
    write_learned(&hosts, device);
    EsPolicy *random = open_policy("random", &hosts, device);
    EsPolicy *heuristic = open_policy("heuristic", &hosts, device);
    EsPolicy *learned = open_policy("learned", &hosts, device);
    EsPolicy *small = open_policy("heuristic", &fewer, device);
    const char *path = temp_path("episode.safetensors");
    REQUIRE_OK(es_policy_save_episode(random, path));
    expect_refused(heuristic, path, "\"heuristic\"");
    expect_refused(learned, path, "\"h\"");
    REQUIRE_OK(es_policy_save_episode(heuristic, path));
    expect_refused(small, path, "\"episode\" is not of this policy and its environments");
    es_policy_destroy(random);
    es_policy_destroy(heuristic);
    es_policy_destroy(learned);
    es_policy_destroy(small);
    es_device_close(device);
    hosts_destroy(&hosts);
    hosts_destroy(&fewer);
}
