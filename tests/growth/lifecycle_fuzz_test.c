// Random lifecycles: a million steps of legal, illegal and nonsensical actions over hosts of all
// kinds, with losses, gradients and accuracies that may be missing, huge or NaN. After every step
// everything that must hold is checked.
//
// ES_FUZZ_STEPS sets the number of steps.
#include "base/random_rules.h"
#include "es_test.h"
#include "growth/contribution_rules.h"
#include "growth/growth_names.h"
#include "growth/lifecycle_rules.h"

typedef struct Fuzz {
    EsGrowthSettings settings;
    EsGrowthEnv env;
    EsSeed seeds[ES_SLOTS_MAX];
    EsActionMasks masks;
    EsAction action;
    uint64_t seed;
    uint32_t world, step, draw; // where the random numbers are
    uint64_t hash;              // of every state that was passed
    int64_t n_steps;
    int64_t n_transitions[11][11], n_refusals[ES_N_REFUSALS], n_successes[ES_N_GROWTH_OPS];
    int64_t n_snapshots, n_rollbacks;
} Fuzz;

// --- random choices ---

static uint32_t below(Fuzz *f, uint32_t n) {
    EsRandom4 r = es_random_draw(f->seed, f->world, ES_PURPOSE_EVALUATION, f->step, f->draw++);
    return es_random_below(r.word[0], n);
}

static int chance(Fuzz *f, uint32_t percent) { return below(f, 100) < percent; }

static float between(Fuzz *f, float low, float high) {
    return low + (high - low) * (float)below(f, 1u << 20) * 0x1p-20f;
}

static int32_t pick_bit(Fuzz *f, uint32_t bits) {
    uint32_t nth = below(f, (uint32_t)__builtin_popcount(bits));
    int32_t bit = 0;
    for (;; bit++) {
        if ((bits >> bit) & 1u && nth-- == 0) {
            return bit;
        }
    }
}

static void begin_world(Fuzz *f) {
    const int32_t slots[] = {1, 2, 3, 5, 8, 16};
    f->world++;
    f->step = f->draw = 0;
    int32_t n_slots = slots[below(f, 6)];
    f->settings = chance(f, 70) ? es_growth_settings_tiny(n_slots, 10)
                                : es_growth_settings_default(n_slots, 10);
    EsGrowthSettings *s = &f->settings;
    s->episode_steps = 30 + (int32_t)below(f, 120);
    s->is_strict = chance(f, 30);
    s->auto_forward = (int32_t)below(f, 8);
    s->max_seeds = chance(f, 50) ? (int32_t)below(f, (uint32_t)n_slots + 1) : 0;
    s->blueprints = chance(f, 20) ? ES_BLUEPRINTS_TRANSFORMER : ES_BLUEPRINTS_CNN;
    if (chance(f, 30)) { // two rows
        int32_t columns = (n_slots + 1) / 2;
        for (int32_t i = 0; i < n_slots; i++) {
            s->slot_row[i] = i / columns;
            s->slot_column[i] = i % columns;
        }
    }
    EXPECT_STATUS(es_growth_settings_check(s), OK);
    es_env_reset(s, &f->env, f->seeds);
    EXPECT_EQ(f->env.requests, ES_ENV_REQUEST_SNAPSHOT);
}

// Legal, half-legal (a legal op on any slot) or any bytes at all.
static EsAction choose_action(Fuzz *f) {
    EsAction action = es_action_wait();
    uint32_t kind = below(f, 100);
    if (kind < 40) {
        return action;
    }
    if (kind < 85) {
        int32_t op = pick_bit(f, f->masks.head[ES_HEAD_OP]);
        for (int32_t head = 0; head < ES_HEAD_OP; head++) {
            action.head[head] = (int8_t)pick_bit(f, es_masks_head(&f->masks, op, head));
        }
        action.head[ES_HEAD_OP] = (int8_t)op;
        return action;
    }
    for (int32_t head = 0; head < ES_N_HEADS; head++) {
        int32_t size = es_head_size(head, f->settings.n_slots);
        action.head[head] = (int8_t)(kind < 95 ? below(f, (uint32_t)size + 1) : below(f, 256));
    }
    return action;
}

static EsGradientSums choose_gradients(Fuzz *f) {
    EsGradientSums sums = es_gradient_sums_empty();
    uint32_t kind = below(f, 100);
    int n_tensors = kind < 5 ? 0 : 1 + (int)below(f, 4);
    for (int i = 0; i < n_tensors; i++) {
        double norm = (double)between(f, 0.01f, 3);
        norm = kind < 8 ? 0 : kind < 11 ? 1e6 : kind < 12 ? NAN : kind < 13 ? INFINITY : norm;
        es_gradient_add(&f->settings, &sums, norm * norm, 50, 1);
    }
    return sums;
}

static void measure(Fuzz *f) {
    uint32_t kind = below(f, 400);
    float loss = kind == 0   ? NAN
                 : kind == 1 ? INFINITY
                 : kind < 12 ? 60
                 : kind < 14 ? f->settings.random_loss
                             : between(f, 0.2f, 1.2f);
    float accuracy = kind == 20 ? NAN : between(f, 10, 90);
    es_env_measure(&f->settings, &f->env, f->seeds, loss, accuracy);
    EsGradientSums host = choose_gradients(f);
    for (int32_t s = 0; s < f->settings.n_slots; s++) {
        if (f->seeds[s].stage != ES_STAGE_DORMANT && chance(f, 90)) {
            EsGradientSums sums = choose_gradients(f);
            es_gradient_record(&f->settings, &f->seeds[s], &sums, &host);
        }
    }
    EsAblation list = es_ablation_list(&f->settings, f->seeds);
    float patterns[ES_ABLATION_PATTERNS_MAX];
    EsInteractions pairs;
    for (int32_t k = 0; k < es_ablation_count(&list); k++) {
        patterns[k] = chance(f, 2) ? NAN : accuracy + between(f, -5, k > 0 ? 2 : 0);
    }
    es_contribution_record(&f->settings, &f->env, f->seeds, &list, patterns, &pairs);
}

// --- what must hold ---

#define HOLD_TRUE(f, condition)                                                                    \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            ES_TEST_FAIL("world %u, step %u: expected %s", (f)->world, (f)->step, #condition);     \
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
    const EsActionMasks *masks = &f->masks;
    HOLD_TRUE(f, masks->head[ES_HEAD_OP] & 1);
    for (int32_t head = 0; head < ES_N_HEADS; head++) {
        HOLD_TRUE(f, masks->head[head] != 0);
        HOLD_TRUE(f, masks->head[head] < 1u << es_head_size(head, f->settings.n_slots));
    }
    for (int32_t op = 0; op < ES_N_GROWTH_OPS; op++) {
        HOLD_TRUE(f, (masks->slot_by_op[op] != 0) == ((masks->head[ES_HEAD_OP] >> op) & 1));
        HOLD_TRUE(f, (masks->slot_by_op[op] & ~(uint32_t)masks->head[ES_HEAD_SLOT]) == 0);
    }
    HOLD_TRUE(f, (masks->head[ES_HEAD_BLUEPRINT] & 1) == 0);
}

// After the operation: masks and refusals agree, refused means untouched.
static void check_operation(Fuzz *f, const EsSeed *before) {
    int32_t op = es_action_value(&f->action, ES_HEAD_OP);
    int32_t slot = es_action_value(&f->action, ES_HEAD_SLOT);
    f->n_refusals[f->env.refusal]++;
    if (f->env.panic != ES_PANIC_NONE) {
        f->n_rollbacks++;
        HOLD_TRUE(f, f->env.refusal == ES_REFUSAL_ROLLED_BACK && !f->env.is_success);
        HOLD_TRUE(f, f->env.requests & ES_ENV_REQUEST_RESTORE);
        HOLD_TRUE(f, !(f->env.requests & ES_ENV_REQUEST_SNAPSHOT));
        for (int32_t s = 0; s < f->settings.n_slots; s++) {
            HOLD_TRUE(f, !es_stage_in(f->seeds[s].stage, ES_STAGES_LIVING) ||
                             f->seeds[s].stage == ES_STAGE_FOSSILIZED);
        }
        return;
    }
    HOLD_TRUE(f, !(f->env.requests & ES_ENV_REQUEST_RESTORE));
    HOLD_TRUE(f, f->env.is_success == (f->env.refusal == ES_REFUSAL_NONE));
    int structural = op >= 0 && op < ES_N_GROWTH_OPS &&
                     (op == ES_GROWTH_OP_WAIT || (slot >= 0 && slot < f->settings.n_slots &&
                                                  ((f->masks.slot_by_op[op] >> slot) & 1)));
    int heads_only =
        f->env.refusal == ES_REFUSAL_NONE || f->env.refusal == ES_REFUSAL_GATE_CLOSED ||
        f->env.refusal == ES_REFUSAL_NOT_MEASURED || f->env.refusal == ES_REFUSAL_HEAD_VALUE ||
        f->env.refusal == ES_REFUSAL_BLUEPRINT;
    HOLD_TRUE(f, structural == heads_only);
    if (f->env.is_success) {
        f->n_successes[f->env.effective_op]++;
    }
    for (int32_t s = 0; s < f->settings.n_slots; s++) {
        int acted = f->env.is_success && s == f->env.acted_slot;
        HOLD_TRUE(f, acted || same_state(&before[s], &f->seeds[s]));
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
        HOLD_TRUE(f, f->env.requests & ES_ENV_REQUEST_SNAPSHOT); // covered in its own step
    }
    if (seed->stage == ES_STAGE_DORMANT) {
        EsSeed blank;
        es_seed_reset(&blank);
        HOLD_TRUE(f, same_state(&blank, seed));
    } else {
        HOLD_TRUE(f, seed->steps_in_stage == (n > 0 ? 1 : before->steps_in_stage + 1));
        HOLD_TRUE(f, seed->age == f->env.step - seed->germinated_step);
        HOLD_TRUE(f, es_blueprint_is_legal(&f->settings, seed->blueprint));
        HOLD_TRUE(f, seed->tempo > 0 && seed->first_target > 0);
    }
    int pruned = es_stage_in(seed->stage, ES_STAGES_COOLING);
    HOLD_TRUE(f, pruned == (seed->prune_reason != ES_PRUNE_NONE));
    HOLD_TRUE(f, !(seed->requests & ES_SEED_REQUEST_CLEAR) || seed->requests == 8);
    check_alpha(f, seed);
    check_measurements(f, seed);
}

static void check_host(Fuzz *f) {
    const EsGrowthEnv *env = &f->env;
    int32_t n_young = 0, n_living = 0, n_fossils = 0, n_contributing = 0;
    for (int32_t s = 0; s < f->settings.n_slots; s++) {
        int32_t stage = f->seeds[s].stage;
        n_young += stage == ES_STAGE_GERMINATED || stage == ES_STAGE_TRAINING;
        n_living += es_stage_in(stage, ES_STAGES_LIVING);
        n_fossils += stage == ES_STAGE_FOSSILIZED;
        n_contributing += f->seeds[s].is_contributing;
    }
    HOLD_TRUE(f, n_young <= 1);
    HOLD_TRUE(f, f->settings.max_seeds == 0 || n_living <= f->settings.max_seeds);
    HOLD_TRUE(f, env->n_fossils == n_fossils);
    HOLD_TRUE(f, env->n_contributing == n_contributing);
    HOLD_TRUE(f, env->n_germinated == n_living + env->n_pruned);
    HOLD_TRUE(f, env->n_governor_pruned <= env->n_pruned);
    HOLD_TRUE(f, env->n_unpaid_prunes == env->n_governor_pruned);
    HOLD_TRUE(f, env->step == (int32_t)f->step + 1);
    HOLD_TRUE(f, env->n_divergences < f->settings.divergences_to_panic);
    if (env->requests & ES_ENV_REQUEST_SNAPSHOT) {
        f->n_snapshots++;
        HOLD_TRUE(f, env->n_divergences == 0 && env->snapshot_step == env->step - 1);
    }
    HOLD_TRUE(f, env->n_governed <= f->settings.governor_window);
    double variance;
    HOLD_TRUE(f, env->n_governed == 0 || es_math_is_finite(es_governor_mean(env, &variance)));
}

static void mix(Fuzz *f, const void *data, size_t n_bytes) {
    const unsigned char *bytes = data;
    for (size_t i = 0; i + 4 <= n_bytes; i += 4) {
        uint32_t word;
        memcpy(&word, bytes + i, 4);
        f->hash = (f->hash ^ word) * 1099511628211u;
    }
}

static void run(Fuzz *f, uint64_t seed, int64_t n_steps) {
    memset(f, 0, sizeof *f);
    f->seed = seed;
    f->hash = 14695981039346656037u;
    begin_world(f);
    for (f->n_steps = 0; f->n_steps < n_steps; f->n_steps++) {
        EsSeed before[ES_SLOTS_MAX], decided[ES_SLOTS_MAX];
        size_t n_bytes = (size_t)f->settings.n_slots * sizeof before[0];
        f->step++;
        f->draw = 0;
        memcpy(before, f->seeds, n_bytes);
        measure(f);
        f->masks = es_env_masks(&f->settings, &f->env, f->seeds);
        check_masks(f);
        f->action = choose_action(f);
        memcpy(decided, f->seeds, n_bytes);
        es_env_apply(&f->settings, &f->env, f->seeds, &f->action);
        check_operation(f, decided);
        es_env_tick(&f->settings, &f->env, f->seeds);
        for (int32_t s = 0; s < f->settings.n_slots; s++) {
            check_seed(f, &before[s], &f->seeds[s]);
        }
        check_host(f);
        mix(f, f->seeds, n_bytes);
        mix(f, &f->env, sizeof f->env);
        if ((int32_t)f->step >= f->settings.episode_steps) {
            begin_world(f);
        }
    }
}

TEST(random_lifecycles) {
    const char *text = getenv("ES_FUZZ_STEPS");
    int64_t n_steps = text != NULL ? strtoll(text, NULL, 10) : 1000000;
    static Fuzz f;
    run(&f, 1, n_steps);
    printf("  %lld steps in %u episodes, %lld snapshots, %lld rollbacks\n", (long long)f.n_steps,
           f.world, (long long)f.n_snapshots, (long long)f.n_rollbacks);
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
    EXPECT(a.hash == b.hash);
    EXPECT(a.hash != other.hash);
}
