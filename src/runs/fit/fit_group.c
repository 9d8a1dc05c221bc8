// Candidates of one host: epochs, decisions within the limit of parameters, and those that stay.
#include "runs/fit/fit_group.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/folder.h"
#include "base/memory.h"
#include "growth/engine/seed_preparation.h"

// --- life ---

static void forget_candidates(EsFitGroup *group) {
    group->controller = NULL;
    group->policy = NULL;
    group->growth = NULL;
    group->candidates = NULL;
    group->loss = group->accuracy = NULL;
    group->actions = NULL;
    group->masks = NULL;
    group->n = 0;
}

static void close_policy(EsFitGroup *group) {
    if (group->controller != NULL) {
        es_controller_destroy(group->controller);
    } else {
        es_policy_destroy(group->policy);
    }
    group->controller = NULL;
    group->policy = NULL;
}

static int is_none(const EsTopology *topology, void *context) {
    (void)topology;
    (void)context;
    return 0;
}

// Adds what has happened to requests since the last time to the counts of the rails.
static void count_prefetch(EsFitGroup *group) {
    EsFitRails *rails = group->options.rails;
    EsPrefetchCounts now = es_seed_prefetch_counts(group->prefetch);
    const EsPrefetchCounts before = group->prefetched;
    EsPrefetchCounts *all = &rails->prefetch;
    es_rails_prefetch_failed(&rails->rails, now.failed - before.failed,
                             now.timed_out - before.timed_out);
    all->requested += now.requested - before.requested;
    all->used += now.used - before.used;
    all->failed += now.failed - before.failed;
    all->timed_out += now.timed_out - before.timed_out;
    all->canceled += now.canceled - before.canceled;
    all->stale += now.stale - before.stale;
    all->in_flight += now.in_flight - before.in_flight;
    all->ready += now.ready - before.ready;
    all->made += now.made - before.made;
    all->made_ms += now.made_ms - before.made_ms;
    all->last_ms = now.made > before.made ? now.last_ms : all->last_ms;
    group->prefetched = now;
}

static void close_prefetch(EsFitGroup *group) {
    if (group->prefetch != NULL) {
        es_seed_prefetch_drop(group->prefetch, is_none, NULL);
        count_prefetch(group);
        es_seed_prefetch_destroy(group->prefetch);
    }
    es_release(group->foreseen);
}

// For as long as the group: its host stays when candidates are dropped or loaded, and a thread that
// hangs is one.
static EsStatus open_prefetch(EsFitGroup *group) {
    const EsFitRails *rails = group->options.rails;
    int n_ahead = rails != NULL ? rails->rails.settings.prefetch : 0;
    if (n_ahead == 0) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_allocate(sizeof *group->foreseen * (size_t)n_ahead, (void **)&group->foreseen));
    return es_seed_prefetch_create((double)rails->rails.settings.prefetch_timeout_ms,
                                   rails->prefetch_drill, &group->prefetch);
}

static void release_candidates(EsFitGroup *group) {
    close_policy(group);
    es_growth_destroy(group->growth);
    es_release(group->candidates);
    es_release(group->loss);
    es_release(group->accuracy);
    es_release(group->actions);
    es_release(group->masks);
    forget_candidates(group);
}

// Growth as the policy's file wants it: one of version 2 sees the limit as its budget, and stages
// advance, and gates open, as in its training. One that was asked for has the limit in any case;
// others that are chosen do not, neither now nor when candidates are dropped or loaded.
static void suit_policy(EsFitGroup *group, const char *path, EsGrowthSettings *settings) {
    EsPolicyMetadata metadata;
    int32_t limit = (int32_t)ES_MIN(group->options.max_parameters, INT32_MAX);
    int is_asked = group->options.policy[0] != '\0';
    if (es_policy_parse_kind(path) != ES_POLICY_LEARNED) {
        return;
    }
    int is_set = es_policy_file_metadata(path, &metadata) == ES_STATUS_OK && metadata.spec.is_set;
    if (is_asked || is_set) {
        settings->max_parameters = limit;
    }
    if (is_set) {
        settings->auto_forward = metadata.settings.auto_forward;
        settings->is_strict = metadata.settings.is_strict;
    }
}

// The policy of this name or file, for the growth that there is.
static EsStatus open_controller(EsFitGroup *group, int n, const char *name) {
    const EsPolicyContext context = {.settings = es_growth_settings(group->growth),
                                     .slots = es_growth_model(group->growth)->slots,
                                     .device = group->options.cpu,
                                     .n_envs = n,
                                     .seed = group->options.growth.seed};
    const EsFitRails *rails = group->options.rails;
    if (rails == NULL || rails->rails.settings.controller_deadline_ms <= 0) {
        return es_policy_open(name, &context, &group->policy);
    }
    ES_TRY(es_controller_create(name, &context, rails->drill, &group->controller));
    group->policy = es_controller_policy(group->controller);
    return ES_STATUS_OK;
}

// Growth of n candidates and the policy of this name or file.
static EsStatus open_growth(EsFitGroup *group, int n, const char *name) {
    EsGrowthOptions growth = group->options.growth;
    growth.n_envs = n;
    suit_policy(group, name, &growth.settings);
    ES_TRY(
        es_growth_create(&growth, group->options.dataset, group->options.device, &group->growth));
    EsStatus status = open_controller(group, n, name);
    if (status != ES_STATUS_OK) {
        es_growth_destroy(group->growth);
        group->growth = NULL;
    }
    return status;
}

// Tries a file of the folder; one that does not fit leaves the group without a policy, and a
// reason.
static EsStatus try_file(EsFitGroup *group, int n, const char *file) {
    const char *end = strrchr(file, '.');
    if (group->policy != NULL || end == NULL || strcmp(end, ".safetensors") != 0) {
        return ES_STATUS_OK;
    }
    snprintf(group->policy_name, sizeof group->policy_name, "%.500s/%.500s",
             group->options.policy_folder, file);
    EsStatus status = open_growth(group, n, group->policy_name);
    if (status == ES_STATUS_MEMORY) {
        return status;
    }
    if (status == ES_STATUS_OK) {
        snprintf(group->reason, sizeof group->reason,
                 "it is for hosts of such slots, epochs and budgets");
    } else if (strstr(group->reason, " does not fit: ") == NULL) { // the first one's counts
        snprintf(group->reason, sizeof group->reason, "%.100s does not fit: %.380s", file,
                 es_status_detail());
    }
    return ES_STATUS_OK;
}

// The policy that was asked for or taken before; else the first one in the folder that was trained
// for such a host, the one for hosts of any kind before the others; else the eager one. Notes why.
static EsStatus open_policy(EsFitGroup *group, int n) {
    static const char general[] = "general.safetensors";
    const char *folder = group->options.policy_folder;
    EsFolderEntry *entries = NULL;
    int n_entries = 0, has_general = 0;
    if (group->policy_name[0] != '\0') {
        return open_growth(group, n, group->policy_name);
    }
    if (folder[0] != '\0' && es_folder_list(folder, &entries, &n_entries) != ES_STATUS_OK) {
        n_entries = 0; // the reason says so
    }
    snprintf(group->reason, sizeof group->reason, "there is no policy in %.400s",
             folder[0] != '\0' ? folder : "ES_POLICY_DIR, nor beside the program");
    for (int i = 0; i < n_entries; i++) {
        has_general |= strcmp(entries[i].name, general) == 0;
    }
    EsStatus status = has_general ? try_file(group, n, general) : ES_STATUS_OK;
    for (int i = 0; i < n_entries && status == ES_STATUS_OK; i++) {
        status = strcmp(entries[i].name, general) == 0 ? ES_STATUS_OK
                                                       : try_file(group, n, entries[i].name);
    }
    es_release(entries);
    if (status != ES_STATUS_OK || group->policy != NULL) {
        return status;
    }
    snprintf(group->policy_name, sizeof group->policy_name, "eager");
    return open_growth(group, n, group->policy_name);
}

// Growth, policy and buffers for n candidates, whose numbers are copied; n may be 0.
static EsStatus create_candidates(EsFitGroup *group, const int *candidates, int n) {
    size_t count = (size_t)n;
    if (n == 0) {
        return ES_STATUS_OK;
    }
    group->options.growth.n_envs = n;
    ES_TRY(open_policy(group, n));
    ES_TRY(es_allocate(sizeof *group->candidates * count, (void **)&group->candidates));
    ES_TRY(es_allocate(sizeof *group->loss * count, (void **)&group->loss));
    ES_TRY(es_allocate(sizeof *group->accuracy * count, (void **)&group->accuracy));
    ES_TRY(es_allocate(sizeof *group->actions * count, (void **)&group->actions));
    ES_TRY(es_allocate(sizeof *group->masks * count, (void **)&group->masks));
    memcpy(group->candidates, candidates, sizeof *candidates * count);
    group->n = n; // last: a group that could not be made has no candidates to report
    return ES_STATUS_OK;
}

// Adds to the reason what of the hosts the policy's training did not cover.
static void note_outside(EsFitGroup *group) {
    char outside[ES_POLICY_OUTSIDE_BYTES];
    size_t used = strlen(group->reason);
    if (group->policy != NULL &&
        es_policy_describe_outside(group->policy, es_growth_settings(group->growth), outside)) {
        snprintf(group->reason + used, sizeof group->reason - used,
                 "; its training did not cover this: %s", outside);
    }
}

EsStatus es_fit_group_create(const EsFitGroupOptions *options, int n, int first,
                             EsFitGroup **group_out) {
    EsFitGroup *group = NULL;
    int *numbers = NULL;
    EsStatus status = ES_STATUS_OK;
    *group_out = NULL;
    ES_TRY(es_allocate(sizeof *group, (void **)&group));
    group->options = *options;
    snprintf(group->policy_name, sizeof group->policy_name, "%s", options->policy);
    snprintf(group->reason, sizeof group->reason, "it was asked for");
    ES_TRY_GOTO(es_allocate(sizeof *numbers * (size_t)n, (void **)&numbers));
    for (int i = 0; i < n; i++) {
        numbers[i] = first + i;
    }
    ES_TRY_GOTO(create_candidates(group, numbers, n));
    ES_TRY_GOTO(open_prefetch(group));
    note_outside(group);
    ES_TRY_GOTO(es_policy_begin(group->policy, first));
done:
    es_release(numbers);
    if (status != ES_STATUS_OK) {
        es_fit_group_destroy(group);
        return status;
    }
    *group_out = group;
    return ES_STATUS_OK;
}

void es_fit_group_destroy(EsFitGroup *group) {
    if (group != NULL) {
        release_candidates(group);
        close_prefetch(group);
        es_release(group);
    }
}

// --- an epoch ---

static EsStatus begin(EsFitGroup *group) {
    ES_TRY(es_growth_begin(group->growth, group->candidates[0]));
    for (int i = 0; group->options.planted != NULL && i < group->n; i++) {
        ES_TRY(es_fit_topology_plant(&group->options.planted[i], group->growth, i));
    }
    return ES_STATUS_OK;
}

void es_fit_group_assign(EsFitGroup *group, int first, int n_all) {
    es_growth_assign(group->growth, first, n_all);
}

int es_fit_group_own(const EsFitGroup *group) {
    return group->n > 0 ? (int)es_growth_own_count(group->growth) : 0;
}

// Evaluation on the whole split, where a step's validation has seen a part of it.
static EsStatus evaluate(EsFitGroup *group, int part) {
    const EsSplit *split = &group->options.dataset->validation;
    if (group->options.growth.n_validation_images < split->count) {
        return part == 2
                   ? es_growth_evaluate_own(group->growth, split, group->loss, group->accuracy)
                   : es_growth_evaluate_gather(group->growth, group->loss, group->accuracy);
    }
    const EsGrowthResult *results = es_growth_results(group->growth); // of the whole split already
    for (int i = 0; i < group->n; i++) {
        group->loss[i] = results[i].validation_loss;
        group->accuracy[i] = results[i].validation_accuracy;
    }
    return ES_STATUS_OK;
}

EsStatus es_fit_group_advance_part(EsFitGroup *group, int part) {
    switch (part) {
    case 0:
        ES_TRY(es_growth_snapshot(group->growth)->step == 0 ? begin(group) : ES_STATUS_OK);
        return es_growth_advance_own(group->growth);
    case 1:
        return es_growth_advance(group->growth);
    default:
        return evaluate(group, part);
    }
}

EsStatus es_fit_group_advance(EsFitGroup *group) {
    for (int part = 0; part < ES_FIT_ADVANCE_PARTS; part++) {
        ES_TRY(es_fit_group_advance_part(group, part));
    }
    return ES_STATUS_OK;
}

// --- decisions within the limit ---

// Parameters that a candidate may still take.
static int64_t parameters_left(const EsFitGroup *group, int env) {
    return group->options.max_parameters - es_growth_parameter_count(group->growth, env);
}

// A seed of this blueprint in this slot; with a gate that may come with it, where is_gated.
static int64_t seed_cost(const EsFitGroup *group, int slot, int blueprint, int is_gated) {
    const EsGrowthSettings *settings = es_growth_settings(group->growth);
    return (int64_t)settings->blueprint_parameters[slot][blueprint] +
           (is_gated ? settings->gate_parameters[slot] : 0);
}

// The first slot of `slots` in which the seed does not exceed the limit; -1: there is none.
static int find_slot(const EsFitGroup *group, uint32_t slots, int blueprint, int is_gated,
                     int64_t left) {
    for (int s = 0; s < es_growth_settings(group->growth)->n_slots; s++) {
        if (((slots >> s) & 1) && seed_cost(group, s, blueprint, is_gated) <= left) {
            return s;
        }
    }
    return -1;
}

// Masks without the blueprints that fit in no slot, and without GERMINATE where none fits.
static EsActionMasks limit_masks(const EsFitGroup *group, int env) {
    EsActionMasks masks = es_growth_masks(group->growth)[env];
    uint16_t slots = masks.slot_by_op[ES_GROWTH_OP_GERMINATE];
    int64_t left = parameters_left(group, env);
    uint16_t fitting = 0;
    for (int b = 0; b < ES_N_BLUEPRINT_IDS; b++) {
        if (((masks.head[ES_HEAD_BLUEPRINT] >> b) & 1) &&
            find_slot(group, slots, b, 0, left) >= 0) {
            fitting |= (uint16_t)(1u << b);
        }
    }
    if (fitting != 0) {
        masks.head[ES_HEAD_BLUEPRINT] = fitting;
    } else {
        masks.slot_by_op[ES_GROWTH_OP_GERMINATE] = 0;
        masks.head[ES_HEAD_OP] &= (uint16_t) ~(1u << ES_GROWTH_OP_GERMINATE);
    }
    return masks;
}

// A germination that would exceed the limit moves to a slot where it does not, or waits; so does a
// gate that a seed would get later.
static EsAction limit_action(const EsFitGroup *group, int env, EsAction action) {
    int op = es_action_value(&action, ES_HEAD_OP);
    int blueprint = es_action_value(&action, ES_HEAD_BLUEPRINT);
    int slot = es_action_value(&action, ES_HEAD_SLOT);
    int is_gated = es_style_algorithm(es_action_value(&action, ES_HEAD_STYLE)) == ES_ALGORITHM_GATE;
    int64_t left = parameters_left(group, env);
    if (es_growth_settings(group->growth)->max_parameters > 0) {
        return action; // the masks it was drawn from keep the limit
    }
    if (op == ES_GROWTH_OP_SET_ALPHA_TARGET && is_gated &&
        es_growth_settings(group->growth)->gate_parameters[slot] > left) {
        return es_action_wait();
    }
    if (op != ES_GROWTH_OP_GERMINATE || seed_cost(group, slot, blueprint, is_gated) <= left) {
        return action;
    }
    slot = find_slot(group, group->masks[env].slot_by_op[ES_GROWTH_OP_GERMINATE], blueprint,
                     is_gated, left);
    if (slot < 0) {
        return es_action_wait();
    }
    action.head[ES_HEAD_SLOT] = (int8_t)slot;
    return action;
}

static void wait_all(EsFitGroup *group) {
    for (int i = 0; i < group->n; i++) {
        group->actions[i] = es_action_wait();
    }
}

// The policy's actions, or waiting where the rails say so.
static EsStatus ask_policy(EsFitGroup *group, const EsGrowthState *state) {
    EsFitRails *rails = group->options.rails;
    EsDeadlineOutcome outcome = ES_DEADLINE_MET;
    EsStatus status = ES_STATUS_OK;
    group->is_answered = rails == NULL;
    if (rails == NULL) {
        return es_policy_decide(group->policy, state, group->masks, group->actions);
    }
    wait_all(group);
    if (!es_rails_asks_controller(&rails->rails)) {
        return ES_STATUS_OK;
    }
    double deadline_ms = (double)rails->rails.settings.controller_deadline_ms;
    int64_t start_ns = es_clock_ns();
    if (group->controller == NULL) {
        status = es_policy_decide(group->policy, state, group->masks, group->actions);
    } else {
        outcome = es_controller_decide(&group->controller, rails->deadline, deadline_ms, state,
                                       group->masks, group->actions, &status);
    }
    switch (outcome) {
    case ES_DEADLINE_MISSED:
        es_rails_controller_timed_out(&rails->rails, deadline_ms);
        group->policy = NULL; // its thread has it
        ES_TRY(open_controller(group, group->n, group->policy_name));
        return es_policy_begin(group->policy, group->candidates[0]);
    case ES_DEADLINE_SPENT:
        es_rails_controller_spent(&rails->rails, ES_DEADLINE_ABANDONED_MAX);
        return ES_STATUS_OK;
    case ES_DEADLINE_MET:
        break;
    }
    if (status != ES_STATUS_OK) {
        es_rails_controller_failed(&rails->rails, es_status_detail());
        wait_all(group);
        return ES_STATUS_OK;
    }
    group->is_answered = 1;
    es_rails_controller_answered(&rails->rails, 1e3 * es_clock_seconds_since(start_ns));
    return ES_STATUS_OK;
}

// --- seeds within their deadline ---

// A preparation on its way, shared with its thread: a late one ends it there.
typedef struct SeedJob {
    EsSeedPreparation *preparation; // owned
    EsDeadlineDrill drill;
} SeedJob;

static EsStatus run_job(void *context) {
    SeedJob *job = context;
    if (job->drill.before != NULL) {
        ES_TRY(job->drill.before(job->drill.context));
    }
    return es_seed_preparation_run(job->preparation);
}

static void release_job(void *context) {
    SeedJob *job = context;
    es_seed_preparation_destroy(job->preparation);
    es_release(job);
}

static int count_operations(const EsFitGroup *group) {
    int n = 0;
    for (int i = 0; i < group->n; i++) {
        n += es_action_value(&group->actions[i], ES_HEAD_OP) != ES_GROWTH_OP_WAIT;
    }
    return n;
}

// Runs the job within the deadline. Returns the preparation where it is ready; else NULL, the rails
// know why, and all wait.
static EsSeedPreparation *await_seeds(EsFitGroup *group, SeedJob *job) {
    EsRails *rails = &group->options.rails->rails;
    double deadline_ms = (double)rails->settings.seed_deadline_ms;
    const EsDeadlineJob work = {run_job, release_job, job};
    EsSeedPreparation *ready = NULL;
    EsStatus status = ES_STATUS_OK;
    int n_operations = count_operations(group);
    int64_t start_ns = es_clock_ns();
    switch (es_deadline_run(group->options.rails->deadline, &work, deadline_ms, &status)) {
    case ES_DEADLINE_MISSED: // its thread has the job
        es_rails_seeds_timed_out(rails, deadline_ms, n_operations);
        wait_all(group);
        return NULL;
    case ES_DEADLINE_SPENT:
        es_rails_controller_spent(rails, ES_DEADLINE_ABANDONED_MAX);
        wait_all(group);
        break;
    case ES_DEADLINE_MET:
        if (status == ES_STATUS_OK) {
            es_rails_seeds_prepared(rails, 1e3 * es_clock_seconds_since(start_ns));
            ready = job->preparation;
            job->preparation = NULL;
        } else {
            es_rails_seeds_failed(rails, es_status_detail(), n_operations);
            wait_all(group);
        }
        break;
    }
    release_job(job);
    return ready;
}

// Has the seeds of the actions made on a worker where there is a deadline for that, and takes the
// graphs that were made ahead, which a seed needs when it begins to train, some steps after it was
// planted. *preparation is NULL without both, and where nothing is needed.
static EsStatus prepare_seeds(EsFitGroup *group, EsSeedPreparation **preparation) {
    const EsFitRails *rails = group->options.rails;
    int has_deadline =
        rails != NULL && rails->rails.settings.seed_deadline_ms > 0 && count_operations(group) > 0;
    EsSeedPreparation *wanted = NULL;
    SeedJob *job = NULL;
    *preparation = NULL;
    if (!has_deadline && group->prefetch == NULL) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_seed_preparation_create(group->growth, group->actions, &wanted));
    if (wanted == NULL) {
        return ES_STATUS_OK;
    }
    if (group->prefetch != NULL) {
        es_seed_prefetch_take(group->prefetch, wanted);
    }
    EsStatus status =
        has_deadline ? es_allocate(sizeof *job, (void **)&job) : es_seed_preparation_run(wanted);
    if (status != ES_STATUS_OK) {
        es_seed_preparation_destroy(wanted);
        return status;
    }
    if (has_deadline) {
        job->preparation = wanted;
        job->drill = rails->seed_drill != NULL ? *rails->seed_drill : (EsDeadlineDrill){0};
        wanted = await_seeds(group, job);
    }
    *preparation = wanted;
    return ES_STATUS_OK;
}

// --- graphs made ahead ---

static int is_foreseen(const EsTopology *topology, void *context) {
    const EsFitGroup *group = context;
    for (int i = 0; i < group->n_foreseen; i++) {
        if (memcmp(&group->foreseen[i], topology, sizeof *topology) == 0) {
            return 1;
        }
    }
    return 0;
}

// The blueprint of the next lower cost in a slot, the largest first; -1 when there is none.
static int next_blueprint(const EsFitGroup *group, int slot, int before) {
    const EsGrowthSettings *settings = es_growth_settings(group->growth);
    int64_t bound = before < 0 ? INT64_MAX : seed_cost(group, slot, before, 0);
    int found = -1;
    for (int b = 0; b < ES_N_BLUEPRINT_IDS; b++) {
        int64_t cost = seed_cost(group, slot, b, 0);
        int is_behind = cost < bound || (cost == bound && b > before);
        if (es_blueprint_is_legal(settings, b) && is_behind &&
            (found < 0 || cost > seed_cost(group, slot, found, 0))) {
            found = b;
        }
    }
    return found;
}

// Requests the graph of a host with the seeds that it has and one that may come (slot -1: none),
// unless it is there or on its way.
static EsStatus foresee(EsFitGroup *group, int env, int slot, int blueprint) {
    EsSeedPreparation *preparation = NULL;
    if (group->n_foreseen == group->options.rails->rails.settings.prefetch) {
        return ES_STATUS_OK;
    }
    ES_TRY(es_seed_preparation_foresee(group->growth, env, slot, blueprint, &preparation));
    if (preparation == NULL) {
        return ES_STATUS_OK;
    }
    const EsTopology topology = *es_seed_preparation_topology(preparation);
    int is_new = !is_foreseen(&topology, group);
    if (is_new) {
        group->foreseen[group->n_foreseen++] = topology;
    }
    if (is_new && !es_seed_prefetch_has(group->prefetch, &topology)) {
        es_seed_prefetch_request(group->prefetch, preparation);
    } else {
        es_seed_preparation_destroy(preparation);
    }
    return ES_STATUS_OK;
}

// Has graphs made for seeds that have germinated, then of what the next decision may plant, the
// largest that fit first, for as many as the rails say; gives up those that cannot come any more.
static EsStatus look_ahead(EsFitGroup *group) {
    const EsGrowthSettings *settings = es_growth_settings(group->growth);
    group->n_foreseen = 0;
    for (int env = 0; env < group->n; env++) {
        ES_TRY(foresee(group, env, -1, 0));
    }
    for (int env = 0; env < group->n; env++) {
        int64_t left = parameters_left(group, env);
        for (int slot = 0; slot < settings->n_slots; slot++) {
            for (int b = next_blueprint(group, slot, -1); b >= 0;
                 b = next_blueprint(group, slot, b)) {
                if (seed_cost(group, slot, b, 0) <= left) {
                    ES_TRY(foresee(group, env, slot, b));
                }
            }
        }
    }
    es_seed_prefetch_drop(group->prefetch, is_foreseen, group);
    count_prefetch(group);
    return ES_STATUS_OK;
}

EsStatus es_fit_group_decide(EsFitGroup *group) {
    EsSeedPreparation *preparation = NULL;
    const EsGrowthState *state = &es_growth_snapshot(group->growth)->state;
    for (int i = 0; i < group->n; i++) {
        group->masks[i] = limit_masks(group, i);
    }
    ES_TRY(ask_policy(group, state));
    for (int i = 0; i < group->n; i++) {
        group->actions[i] = limit_action(group, i, group->actions[i]);
    }
    ES_TRY(prepare_seeds(group, &preparation));
    EsStatus status = es_growth_decide_prepared(group->growth, group->actions, preparation);
    es_seed_preparation_destroy(preparation);
    ES_TRY(status);
    // no reward accounts for prunes here
    ES_TRY(es_growth_settle_prunes(group->growth, state->env.n_unrewarded_prunes));
    return group->prefetch != NULL ? look_ahead(group) : ES_STATUS_OK;
}

// --- those that stay ---

// The policy of those that stay was opened again, from a file that may have changed since.
static EsStatus check_same_policy(const EsFitGroup *now, const EsFitGroup *before) {
    return strcmp(es_policy_hash(now->policy), es_policy_hash(before->policy)) == 0
               ? ES_STATUS_OK
               : ES_FAIL(INPUT,
                         "%s has changed since the fit began, which goes on with the policy that "
                         "it began with; put that back and resume",
                         before->policy_name);
}

EsStatus es_fit_group_keep(EsFitGroup *group, const int *kept, int n_kept) {
    EsFitGroup smaller = *group; // options and the policy's name
    int *numbers = NULL;
    int64_t *envs = NULL;
    EsStatus status = ES_STATUS_OK;
    if (n_kept == group->n) {
        return ES_STATUS_OK;
    }
    forget_candidates(&smaller);
    ES_TRY_GOTO(es_allocate(sizeof *numbers * (size_t)ES_MAX(n_kept, 1), (void **)&numbers));
    ES_TRY_GOTO(es_allocate(sizeof *envs * (size_t)ES_MAX(n_kept, 1), (void **)&envs));
    for (int i = 0; i < n_kept; i++) {
        envs[i] = kept[i];
        numbers[i] = group->candidates[kept[i]];
    }
    ES_TRY_GOTO(create_candidates(&smaller, numbers, n_kept));
    if (n_kept > 0) {
        ES_TRY_GOTO(check_same_policy(&smaller, group));
        ES_TRY_GOTO(es_growth_take_envs(smaller.growth, group->growth, envs));
        ES_TRY_GOTO(es_policy_take_envs(smaller.policy, group->policy, envs));
    }
    release_candidates(group);
    *group = smaller;
    forget_candidates(&smaller);
done:
    release_candidates(&smaller);
    es_release(numbers);
    es_release(envs);
    return status;
}

EsStatus es_fit_group_save(EsFitGroup *group, const char *growth_path, const char *policy_path) {
    ES_TRY(es_growth_save(group->growth, growth_path));
    return es_policy_save_episode(group->policy, policy_path);
}

EsStatus es_fit_group_load(EsFitGroup *group, const int *candidates, int n, const char *growth_path,
                           const char *policy_path) {
    release_candidates(group);
    ES_TRY(create_candidates(group, candidates, n));
    ES_TRY(es_growth_load(group->growth, growth_path));
    return es_policy_load_episode(group->policy, policy_path);
}
