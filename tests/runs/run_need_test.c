// A run's estimate of its memory before it begins, against the most that it held while it ran: both
// as es_allocate counts, so that no machine, clock or allocator decides.
#include "base/memory.h"
#include "runs/fit/fit_run.h"
#include "runs/fit/fit_search.h"
#include "runs/grow/grow_run.h"
#include "runs/grow/hosts_run.h"
#include "runs/prove/prove_run.h"
#include "temp_folder.h"

// Of the three kinds, as the programs see them.
typedef struct Kind {
    EsStatus (*create)(const void *settings, void **work);
    EsStatus (*find_need)(void *work, EsRunNeed *need); // nullable
    EsRunWork (*make_work)(void *work);
    void (*destroy)(void *work);
} Kind;

static EsStatus create_hosts(const void *settings, void **work) {
    return es_hosts_run_create(settings, (EsHostsRun **)work);
}
static EsRunWork make_hosts_work(void *work) { return es_hosts_run_work(work); }
static void destroy_hosts(void *work) { es_hosts_run_destroy(work); }
static const Kind hosts_kind = {create_hosts, NULL, make_hosts_work, destroy_hosts};

static EsStatus create_grow(const void *settings, void **work) {
    return es_grow_run_create(settings, (EsGrowRun **)work);
}
static EsStatus find_grow_need(void *work, EsRunNeed *need) { return es_grow_run_need(work, need); }
static EsRunWork make_grow_work(void *work) { return es_grow_run_work(work); }
static void destroy_grow(void *work) { es_grow_run_destroy(work); }
static const Kind grow_kind = {create_grow, find_grow_need, make_grow_work, destroy_grow};

static EsStatus create_prove(const void *settings, void **work) {
    return es_prove_run_create(settings, (EsProveRun **)work);
}
static EsStatus find_prove_need(void *work, EsRunNeed *need) {
    return es_prove_run_need(work, need);
}
static EsRunWork make_prove_work(void *work) { return es_prove_run_work(work); }
static void destroy_prove(void *work) { es_prove_run_destroy(work); }
static const Kind prove_kind = {create_prove, find_prove_need, make_prove_work, destroy_prove};

static EsStatus create_fit(const void *settings, void **work) {
    return es_fit_run_create(settings, (EsFitRun **)work);
}
static EsStatus find_fit_need(void *work, EsRunNeed *need) { return es_fit_run_need(work, need); }
static EsRunWork make_fit_work(void *work) { return es_fit_run_work(work); }
static void destroy_fit(void *work) { es_fit_run_destroy(work); }
static const Kind fit_kind = {create_fit, find_fit_need, make_fit_work, destroy_fit};

// Runs what the configuration describes; the estimate is within `share` of what it held,
// and the sure part is not more than that.
static void check_run(const Kind *kind, EsConfig *config, const EsRunSettings *settings,
                      const char *name, double share) {
    void *work = NULL;
    EsRun *run = NULL;
    EsRunOutcome outcome;
    EsRunOptions options = {
        .config = config, .settings = settings, .out = temp_path(name), .build = "test"};
    EsRunNeed need = {0}, beside = es_run_need(settings, 0);
    es_allocation_begin(0);
    size_t before = es_allocation_held();
    REQUIRE_OK(kind->create(config->settings, &work));
    size_t held = es_allocation_held() - before;
    size_t created = es_allocation_end().peak_bytes;
    if (kind->find_need != NULL) {
        REQUIRE_OK(kind->find_need(work, &need));
    }
    // asking leaves nothing behind but lists that the first step would make
    EXPECT(es_allocation_held() - before <= held + 65536);
    double sure = (double)ES_MAX(created, held + need.sure_bytes) + (double)beside.sure_bytes;
    double peak = (double)ES_MAX(created, held + need.peak_bytes) + (double)beside.peak_bytes;

    EsRunWork steps = kind->make_work(work);
    es_allocation_begin(0);
    REQUIRE_OK(es_run_open(&options, &run));
    REQUIRE_OK(es_run_start(run));
    REQUIRE_OK(es_run_close(run, es_run_rounds(run, &steps), &outcome));
    double seen = (double)ES_MAX(created, held + es_allocation_end().peak_bytes);
    printf("%s: %.2f MiB sure, %.2f MiB at the peak, %.2f MiB seen: %.2f\n", name, sure / 1048576,
           peak / 1048576, seen / 1048576, peak / seen);
    EXPECT(sure <= 1.02 * seen && sure <= peak);
    EXPECT(peak >= (1 - share) * seen && peak <= (1 + share) * seen);
    kind->destroy(work);
}

static void override(const EsConfig *config, const char *const *arguments, size_t n) {
    es_config_reset(config);
    for (size_t i = 0; i < n; i++) {
        REQUIRE_OK(es_config_override(config, arguments[i]));
    }
}
#define OVERRIDE(config, ...)                                                                      \
    override(config, (const char *const[]){__VA_ARGS__},                                           \
             ES_COUNT_OF(((const char *const[]){__VA_ARGS__})))

TEST(hosts) {
    EsHostsSettings settings;
    EsConfig config = es_hosts_run_config(&settings);
    OVERRIDE(&config, "--run.rounds=1", "--run.threads=2", "--hosts.envs=4");
    check_run(&hosts_kind, &config, &settings.run, "few", 0.1);
    OVERRIDE(&config, "--run.rounds=1", "--run.threads=2", "--hosts.envs=32",
             "--telemetry.level=off");
    check_run(&hosts_kind, &config, &settings.run, "silent", 0.1);
}

TEST(grow) {
    EsGrowSettings settings;
    EsConfig config = es_grow_run_config(&settings);
    OVERRIDE(&config, "--run.rounds=2", "--run.threads=2", "--grow.envs=8", "--grow.policy=random",
             "--grow.validation_images=300", "--evaluate.episodes=0", "--telemetry.level=off");
    check_run(&grow_kind, &config, &settings.run, "random", 0.25);
    OVERRIDE(&config, "--run.rounds=1", "--run.threads=1", "--grow.envs=8", "--grow.policy=wait",
             "--grow.validation_images=300", "--evaluate.episodes=0", "--telemetry.level=off");
    check_run(&grow_kind, &config, &settings.run, "wait", 0.25);
    OVERRIDE(&config, "--run.rounds=2", "--run.threads=2", "--grow.envs=8", "--grow.policy=ppo",
             "--grow.validation_images=200", "--evaluate.episodes=4", "--telemetry.jsonl=off");
    check_run(&grow_kind, &config, &settings.run, "ppo", 0.25);
}

TEST(prove) {
    EsProveSettings settings;
    EsConfig config = es_prove_run_config(&settings);
    OVERRIDE(&config, "--run.rounds=1", "--run.threads=2", "--prove.people=60",
             "--validate.every=0", "--evaluate.queries=-1", "--telemetry.level=off");
    check_run(&prove_kind, &config, &settings.run, "rounds", 0.25);
    OVERRIDE(&config, "--run.rounds=1", "--run.threads=1", "--prove.people=60", "--env.envs=16",
             "--env.steps=8", "--evaluate.queries=20", "--telemetry.level=off");
    check_run(&prove_kind, &config, &settings.run, "rankings", 0.25);
}

// States for rollback are most of what it holds; a small ring keeps few of them.
TEST(fit) {
    EsFitSettings settings;
    EsConfig config = es_fit_run_config(&settings);
    OVERRIDE(&config, "--run.rounds=12", "--run.threads=1", "--fit.data=tiny", "--fit.task=tiny",
             "--fit.candidates=1", "--fit.epoch_batches=2", "--fit.policy=wait",
             "--telemetry.level=off");
    check_run(&fit_kind, &config, &settings.run, "plain", 0.25);
    OVERRIDE(&config, "--run.rounds=60", "--run.threads=1", "--fit.data=tiny", "--fit.task=tiny",
             "--fit.candidates=1", "--fit.epoch_batches=2", "--fit.policy=wait", "--rails.on=on",
             "--rails.rollback=on", "--rails.rollback_every=1", "--rails.rollback_mib=64",
             "--telemetry.level=off");
    check_run(&fit_kind, &config, &settings.run, "held", 0.25);
    OVERRIDE(&config, "--run.rounds=60", "--run.threads=1", "--fit.data=tiny", "--fit.task=tiny",
             "--fit.candidates=1", "--fit.epoch_batches=2", "--fit.policy=wait", "--rails.on=on",
             "--rails.rollback=on", "--rails.rollback_every=1", "--rails.rollback_mib=2",
             "--telemetry.level=off");
    check_run(&fit_kind, &config, &settings.run, "small", 0.25);
}
