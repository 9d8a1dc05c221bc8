// Random lifecycles: a million steps of legal, illegal and nonsensical actions over hosts of all
// kinds, with losses, gradients and accuracies that may be missing, huge or NaN. After every step
// everything that must hold is checked.
//
// ES_FUZZ_STEPS sets the number of steps.
#include "es_test.h"
#include "growth/lifecycle_fuzz_rules.h"
#include "growth/rules/growth_names.h"

typedef struct Fuzz {
    FuzzLife life;
    int64_t n_steps;
    int64_t n_transitions[11][11], n_refusals[ES_N_REFUSALS], n_successes[ES_N_GROWTH_OPS];
    int64_t n_snapshots, n_rollbacks;
} Fuzz;

// --- what must hold ---

#define HOLD_TRUE(f, condition)                                                                    \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            ES_TEST_FAIL("world %u, step %u: expected %s", (f)->life.world, (f)->life.step,        \
                         #condition);                                                              \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static int same_state(const EsSeed *a, const EsSeed *b) {
#define X(type, name, empty, meaning)                                                              \
    if (memcmp(&a->name, &b->name, sizeof a->name) != 0) {                                         \
        return 0;                                                                                  \
    }
    ES_SEED_STATE_FIELDS(X)
#undef X
    return 1;
}

static void check_masks(Fuzz *f) {
    const EsActionMasks *masks = &f->life.masks;
    HOLD_TRUE(f, masks->head[ES_HEAD_OP] & 1);
    for (int32_t head = 0; head < ES_N_HEADS; head++) {
        HOLD_TRUE(f, masks->head[head] != 0);
        HOLD_TRUE(f, masks->head[head] < 1u << es_head_size(head, f->life.settings.n_slots));
    }
    for (int32_t op = 0; op < ES_N_GROWTH_OPS; op++) {
        HOLD_TRUE(f, (masks->slot_by_op[op] != 0) == ((masks->head[ES_HEAD_OP] >> op) & 1));
        HOLD_TRUE(f, (masks->slot_by_op[op] & ~(uint32_t)masks->head[ES_HEAD_SLOT]) == 0);
    }
    HOLD_TRUE(f, (masks->head[ES_HEAD_BLUEPRINT] & 1) == 0);
}

// After the operation: masks and refusals agree, refused means untouched.
static void check_operation(Fuzz *f, const EsSeed *before) {
    int32_t op = es_action_value(&f->life.action, ES_HEAD_OP);
    int32_t slot = es_action_value(&f->life.action, ES_HEAD_SLOT);
    f->n_refusals[f->life.env.refusal]++;
    if (f->life.env.panic != ES_PANIC_NONE) {
        f->n_rollbacks++;
        HOLD_TRUE(f, f->life.env.refusal == ES_REFUSAL_ROLLED_BACK && !f->life.env.is_success);
        HOLD_TRUE(f, f->life.env.requests & ES_ENV_REQUEST_RESTORE);
        HOLD_TRUE(f, !(f->life.env.requests & ES_ENV_REQUEST_SNAPSHOT));
        for (int32_t s = 0; s < f->life.settings.n_slots; s++) {
            HOLD_TRUE(f, !es_stage_in(f->life.seeds[s].stage, ES_STAGES_LIVING) ||
                             f->life.seeds[s].stage == ES_STAGE_FOSSILIZED);
        }
        return;
    }
    HOLD_TRUE(f, !(f->life.env.requests & ES_ENV_REQUEST_RESTORE));
    HOLD_TRUE(f, f->life.env.is_success == (f->life.env.refusal == ES_REFUSAL_NONE));
    int structural = op >= 0 && op < ES_N_GROWTH_OPS &&
                     (op == ES_GROWTH_OP_WAIT || (slot >= 0 && slot < f->life.settings.n_slots &&
                                                  ((f->life.masks.slot_by_op[op] >> slot) & 1)));
    int heads_only =
        f->life.env.refusal == ES_REFUSAL_NONE || f->life.env.refusal == ES_REFUSAL_GATE_CLOSED ||
        f->life.env.refusal == ES_REFUSAL_NOT_MEASURED ||
        f->life.env.refusal == ES_REFUSAL_HEAD_VALUE || f->life.env.refusal == ES_REFUSAL_BLUEPRINT;
    HOLD_TRUE(f, structural == heads_only);
    if (f->life.env.is_success) {
        f->n_successes[f->life.env.effective_op]++;
    }
    for (int32_t s = 0; s < f->life.settings.n_slots; s++) {
        int acted = f->life.env.is_success && s == f->life.env.acted_slot;
        HOLD_TRUE(f, acted || same_state(&before[s], &f->life.seeds[s]));
    }
}

static void check_alpha(Fuzz *f, const EsSeed *seed) {
    HOLD_TRUE(f, seed->alpha >= 0 && seed->alpha <= 1);
    HOLD_TRUE(f, seed->alpha_target >= 0 && seed->alpha_target <= 1);
    HOLD_TRUE(f, seed->alpha_ticks_done <= seed->alpha_ticks || seed->alpha_ticks == 0);
    int moves = seed->alpha_mode != ES_ALPHA_HOLD;
    HOLD_TRUE(f, !moves || seed->stage == ES_STAGE_BLENDING);
    HOLD_TRUE(f, !es_seed_is_frozen(seed) || seed->alpha_target < seed->alpha);
    if (seed->stage == ES_STAGE_HOLDING || seed->stage == ES_STAGE_FOSSILIZED) {
        HOLD_TRUE(f, seed->alpha == 1);
    } else if (seed->stage == ES_STAGE_BLENDING) {
        HOLD_TRUE(f, seed->alpha > 0); // no step is trained at alpha 0
    } else {
        HOLD_TRUE(f, seed->alpha == 0);
    }
}

static void check_measurements(Fuzz *f, const EsSeed *seed) {
    HOLD_TRUE(f, seed->gradient_health == ES_NOT_MEASURED ||
                     (seed->gradient_health >= 0 && seed->gradient_health <= 1));
    HOLD_TRUE(f, (seed->gradient_health == ES_NOT_MEASURED) ==
                     (seed->gradient_norm == ES_NOT_MEASURED));
    HOLD_TRUE(f,
              (seed->gradient_health == ES_NOT_MEASURED) == (seed->n_exploding == ES_NOT_MEASURED));
    HOLD_TRUE(f, es_math_is_finite((double)seed->gradient_ratio));
    HOLD_TRUE(f, es_math_is_finite((double)seed->contribution));
    HOLD_TRUE(f, es_math_is_finite((double)seed->contribution_velocity));
    HOLD_TRUE(f, seed->contribution_age >= 0 || seed->contribution == 0);
    HOLD_TRUE(f, seed->accuracy_now <= seed->accuracy_best);
    int trained = es_stage_in(seed->stage, ES_STAGES_TRAINED);
    HOLD_TRUE(f, trained || seed->gradient_health == ES_NOT_MEASURED);
}

static void check_seed(Fuzz *f, const EsSeed *before, const EsSeed *seed) {
    int32_t n = es_stage_path_length(seed->stage_path), at = before->stage, from, to;
    for (int32_t i = 0; i < n; i++) {
        es_stage_path_step(seed->stage_path, i, &from, &to);
        HOLD_TRUE(f, from == at);
        HOLD_TRUE(f, es_stage_may_follow(from, to));
        f->n_transitions[from][to]++;
        at = to;
    }
    HOLD_TRUE(f, at == seed->stage);
    HOLD_TRUE(f, seed->stage != ES_STAGE_UNKNOWN && seed->stage != ES_STAGE_PRUNED);
    if (before->stage == ES_STAGE_FOSSILIZED) {
        HOLD_TRUE(f, seed->stage == ES_STAGE_FOSSILIZED);
        HOLD_TRUE(f, seed->number == before->number && seed->blueprint == before->blueprint);
    } else if (seed->stage == ES_STAGE_FOSSILIZED) {
        HOLD_TRUE(f, f->life.env.requests & ES_ENV_REQUEST_SNAPSHOT); // covered in its own step
    }
    if (seed->stage == ES_STAGE_DORMANT) {
        EsSeed blank;
        es_seed_reset(&blank);
        HOLD_TRUE(f, same_state(&blank, seed));
    } else {
        HOLD_TRUE(f, seed->steps_in_stage == (n > 0 ? 1 : before->steps_in_stage + 1));
        HOLD_TRUE(f, seed->age == f->life.env.step - seed->germinated_step);
        HOLD_TRUE(f, es_blueprint_is_legal(&f->life.settings, seed->blueprint));
        HOLD_TRUE(f, seed->tempo > 0 && seed->first_target > 0);
    }
    int pruned = es_stage_in(seed->stage, ES_STAGES_COOLING);
    HOLD_TRUE(f, pruned == (seed->prune_reason != ES_PRUNE_NONE));
    HOLD_TRUE(f, !(seed->requests & ES_SEED_REQUEST_CLEAR) || seed->requests == 8);
    check_alpha(f, seed);
    check_measurements(f, seed);
}

static void check_host(Fuzz *f) {
    const EsGrowthEnv *env = &f->life.env;
    int32_t n_young = 0, n_living = 0, n_fossils = 0, n_contributing = 0;
    for (int32_t s = 0; s < f->life.settings.n_slots; s++) {
        int32_t stage = f->life.seeds[s].stage;
        n_young += stage == ES_STAGE_GERMINATED || stage == ES_STAGE_TRAINING;
        n_living += es_stage_in(stage, ES_STAGES_LIVING);
        n_fossils += stage == ES_STAGE_FOSSILIZED;
        n_contributing += f->life.seeds[s].is_contributing;
    }
    HOLD_TRUE(f, n_young <= 1);
    HOLD_TRUE(f, f->life.settings.max_seeds == 0 || n_living <= f->life.settings.max_seeds);
    HOLD_TRUE(f, env->n_fossils == n_fossils);
    HOLD_TRUE(f, env->n_contributing == n_contributing);
    HOLD_TRUE(f, env->n_germinated == n_living + env->n_pruned);
    HOLD_TRUE(f, env->n_governor_pruned <= env->n_pruned);
    HOLD_TRUE(f, env->n_unrewarded_prunes == env->n_governor_pruned);
    HOLD_TRUE(f, env->step == (int32_t)f->life.step + 1);
    HOLD_TRUE(f, env->n_divergences < f->life.settings.divergences_to_panic);
    if (env->requests & ES_ENV_REQUEST_SNAPSHOT) {
        f->n_snapshots++;
        HOLD_TRUE(f, env->n_divergences == 0 && env->snapshot_step == env->step - 1);
    }
    HOLD_TRUE(f, env->n_governed <= f->life.settings.governor_window);
    double variance;
    HOLD_TRUE(f, env->n_governed == 0 || es_math_is_finite(es_governor_mean(env, &variance)));
}

static void begin_world(Fuzz *f) {
    fuzz_begin_world(&f->life);
    EXPECT_STATUS(es_growth_settings_check(&f->life.settings), OK);
    EXPECT_EQ(f->life.env.requests, ES_ENV_REQUEST_SNAPSHOT);
}

// fuzz_step with everything checked between its parts.
static void step(Fuzz *f) {
    FuzzLife *life = &f->life;
    EsSeed before[ES_SLOTS_MAX], decided[ES_SLOTS_MAX];
    if (fuzz_needs_world(life)) {
        begin_world(f);
    }
    size_t n_bytes = (size_t)life->settings.n_slots * sizeof before[0];
    memcpy(before, life->seeds, n_bytes);
    fuzz_decide(life);
    check_masks(f);
    memcpy(decided, life->seeds, n_bytes);
    es_env_apply(&life->settings, &life->env, life->seeds, &life->action);
    check_operation(f, decided);
    es_env_tick(&life->settings, &life->env, life->seeds);
    for (int32_t s = 0; s < life->settings.n_slots; s++) {
        check_seed(f, &before[s], &life->seeds[s]);
    }
    check_host(f);
    fuzz_note(life);
}

static void run(Fuzz *f, uint64_t seed, int64_t n_steps) {
    memset(f, 0, sizeof *f);
    fuzz_begin(&f->life, seed);
    for (f->n_steps = 0; f->n_steps < n_steps; f->n_steps++) {
        step(f);
    }
}

TEST(random_lifecycles) {
    const char *text = getenv("ES_FUZZ_STEPS");
    int64_t n_steps = text != NULL ? strtoll(text, NULL, 10) : 1000000;
    static Fuzz f;
    run(&f, 1, n_steps);
    printf("  %lld steps in %u episodes, %lld snapshots, %lld rollbacks\n", (long long)f.n_steps,
           f.life.world, (long long)f.n_snapshots, (long long)f.n_rollbacks);
    if (n_steps < 1000000) {
        return; // too few to have seen everything
    }
    // every row of the table, every operation and every refusal came up
    for (int32_t from = ES_STAGE_DORMANT; from <= ES_STAGE_RESETTING; from++) {
        for (int32_t to = 0; to <= ES_STAGE_RESETTING; to++) {
            int seen = f.n_transitions[from][to] > 0;
            if (seen != es_stage_may_follow(from, to)) {
                ES_TEST_FAIL("%s to %s came up %lld times", es_stage_name(from), es_stage_name(to),
                             (long long)f.n_transitions[from][to]);
            }
        }
    }
    for (int32_t op = 0; op < ES_N_GROWTH_OPS; op++) {
        if (f.n_successes[op] == 0) {
            ES_TEST_FAIL("%s was never carried out", es_growth_op_name(op));
        }
    }
    for (int32_t refusal = 0; refusal < ES_N_REFUSALS; refusal++) {
        if (f.n_refusals[refusal] == 0) {
            ES_TEST_FAIL("nothing was refused with %s", es_refusal_name(refusal));
        }
    }
}

TEST(equal_seeds_give_equal_histories) {
    static Fuzz a, b, other;
    run(&a, 5, 20000);
    run(&b, 5, 20000);
    run(&other, 6, 20000);
    EXPECT(a.life.hash == b.life.hash);
    EXPECT(a.life.hash != other.life.hash);
}

// The parity test runs fuzz_step, which must be what is checked here.
TEST(checked_steps_are_those_of_the_parity_test) {
    static Fuzz checked;
    static FuzzLife life;
    run(&checked, 7, 20000);
    fuzz_begin(&life, 7);
    for (int i = 0; i < 20000; i++) {
        fuzz_step(&life);
    }
    EXPECT(life.hash == checked.life.hash);
}
