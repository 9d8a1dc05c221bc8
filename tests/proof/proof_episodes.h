// A few proofs tried side by side, for tests of policies: an environment has a query, a state and
// its successors; a step moves every environment. A proof is rewarded with 1, everything else with
// 0, and a new query follows.
//
//     Episodes *episodes = episodes_create(graph, n_envs, ES_GOAL_CONSTRAINED, seed);
//     EsProofChoices choices = episodes_choices(episodes);
//     episodes_step(episodes, action);        // then episodes->reward, is_done, is_proved of each
#ifndef ES_TESTS_PROOF_EPISODES_H
#define ES_TESTS_PROOF_EPISODES_H

#include "base/random_rules.h"
#include "es_test.h"
#include "proof/agent/proof_policy_inference.h"
#include "proof/search/prover.h"

enum { EPISODES_ENVS_MAX = 64, EPISODES_ATOMS = 6, EPISODES_STATES = 64, EPISODES_DEPTH = 6 };

typedef struct EpisodeEnv {
    EsAtom query, state[EPISODES_ATOMS];
    int32_t n_atoms;
    EsSuccessors successors;
} EpisodeEnv;

typedef struct Episodes {
    const EsKnowledgeGraph *graph;
    EsProofSettings settings;
    uint64_t seed;
    int n_envs;
    EpisodeEnv env[EPISODES_ENVS_MAX];
    EsDrawKey key[EPISODES_ENVS_MAX];
    float reward[EPISODES_ENVS_MAX];
    uint8_t is_done[EPISODES_ENVS_MAX], is_proved[EPISODES_ENVS_MAX];
    EsAtomSpan states[EPISODES_ENVS_MAX], successors[EPISODES_ENVS_MAX * EPISODES_STATES];
    int32_t first[EPISODES_ENVS_MAX + 1];
} Episodes;

static inline void episodes_expand(Episodes *episodes, int i) {
    EpisodeEnv *env = &episodes->env[i];
    es_proof_expand(episodes->graph, &episodes->settings, &env->query, env->state, env->n_atoms,
                    NULL, &env->successors);
}

// The next query that some rule could prove.
static inline void episodes_begin_episode(Episodes *episodes, int i) {
    const EsQuerySplit *split = &episodes->graph->splits[ES_KG_SPLIT_TRAIN];
    for (uint32_t draw = 0;; draw++) {
        EsRandom4 random = es_random_draw(episodes->seed, episodes->key[i].episode,
                                          ES_PURPOSE_DATA_ORDER, (uint32_t)i, draw);
        EsAtom query = split->atoms[es_random_below(random.word[0], (uint32_t)split->count)];
        int32_t n_rules = 0;
        es_kg_rules_of(episodes->graph, query.predicate, &n_rules);
        if (n_rules > 0) {
            episodes->env[i].query = episodes->env[i].state[0] = query;
            break;
        }
    }
    episodes->env[i].n_atoms = 1;
    episodes->key[i].step = 0;
    episodes_expand(episodes, i);
}

static inline Episodes *episodes_create(const EsKnowledgeGraph *graph, int n_envs,
                                        EsGoalSelection selection, uint64_t seed) {
    Episodes *episodes = calloc(1, sizeof *episodes);
    episodes->graph = graph;
    episodes->settings = (EsProofSettings){.selection = selection,
                                           .max_atoms = EPISODES_ATOMS,
                                           .max_states = EPISODES_STATES,
                                           .has_end = 1};
    episodes->seed = seed;
    episodes->n_envs = n_envs;
    for (int i = 0; i < n_envs; i++) {
        episodes->key[i].env = (uint32_t)i;
        REQUIRE_OK(
            es_successors_create(EPISODES_STATES, EPISODES_ATOMS, &episodes->env[i].successors));
        episodes_begin_episode(episodes, i);
    }
    return episodes;
}

static inline void episodes_destroy(Episodes *episodes) {
    for (int i = 0; i < episodes->n_envs; i++) {
        es_successors_destroy(&episodes->env[i].successors);
    }
    free(episodes);
}

// Valid until the next step.
static inline EsProofChoices episodes_choices(Episodes *episodes) {
    int32_t n = 0;
    for (int i = 0; i < episodes->n_envs; i++) {
        const EpisodeEnv *env = &episodes->env[i];
        episodes->states[i] = (EsAtomSpan){env->state, env->n_atoms};
        episodes->first[i] = n;
        for (int32_t k = 0; k < env->successors.count; k++) {
            episodes->successors[n++] = es_successor(&env->successors, k);
        }
    }
    episodes->first[episodes->n_envs] = n;
    return (EsProofChoices){.states = episodes->states,
                            .first = episodes->first,
                            .successors = episodes->successors,
                            .n_states = episodes->n_envs,
                            .selection = episodes->settings.selection};
}

static inline void episodes_step(Episodes *episodes, const int32_t *action) {
    for (int i = 0; i < episodes->n_envs; i++) {
        EpisodeEnv *env = &episodes->env[i];
        EsAtomSpan next = es_successor(&env->successors, action[i]);
        int32_t special = next.atoms[0].predicate - episodes->graph->n_predicates;
        episodes->is_proved[i] = special == ES_PROOF_PROVED;
        episodes->reward[i] = episodes->is_proved[i];
        episodes->key[i].step++;
        episodes->is_done[i] = special > 0 || episodes->key[i].step == EPISODES_DEPTH;
        if (episodes->is_done[i]) {
            episodes->key[i].episode++;
            episodes_begin_episode(episodes, i);
            continue;
        }
        memmove(env->state, next.atoms, sizeof *next.atoms * (size_t)next.count);
        env->n_atoms = next.count;
        episodes_expand(episodes, i);
    }
}

// A step by chance, without a policy.
static inline void episodes_step_randomly(Episodes *episodes) {
    int32_t action[EPISODES_ENVS_MAX];
    for (int i = 0; i < episodes->n_envs; i++) {
        EsRandom4 random =
            es_random_draw(episodes->seed, episodes->key[i].episode, ES_PURPOSE_EVALUATION,
                           episodes->key[i].step, (uint32_t)i);
        action[i] =
            (int32_t)es_random_below(random.word[0], (uint32_t)episodes->env[i].successors.count);
    }
    episodes_step(episodes, action);
}

#endif
