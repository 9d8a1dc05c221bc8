// Who is whose uncle? Asks a generated family tree, then trains a policy that finds proofs with
// fewer detours.
//
// Shows proofs through the public header alone: create, describe, ask, search, train.
#include <stdio.h>
#include <stdlib.h>

#include "esper/prove.h"

// A few rounds, for an example: `esper prove train` makes hundreds.
enum { N_ROUNDS = 36, N_SHOWN = 5 };

// States that searches for proofs of all answers expand.
static EsStatus count_expanded(EsProve *prove, const EsProveAnswers *answers, int64_t *n_expanded,
                               int *n_proved) {
    *n_expanded = *n_proved = 0;
    for (int32_t i = 0; i < answers->count; i++) {
        EsProveFound found;
        char atom[256];
        snprintf(atom, sizeof atom, "%s(%s,%s)", answers->items[i].predicate, answers->items[i].a,
                 answers->items[i].b);
        ES_TRY(es_prove_search(prove, atom, &found));
        *n_expanded += found.n_expanded;
        *n_proved += found.is_proved;
        if (i == 0 && found.is_proved) {
            printf("a proof of %s, by what is left to show:\n%s", atom, found.proof);
        }
    }
    return ES_STATUS_OK;
}

static EsStatus prove_kinship(void) {
    EsProve *prove = NULL;
    EsStatus status = ES_STATUS_OK;
    EsProveOptions options = {.n_people = 100, .n_envs = 32, .n_steps = 8, .learning_rate = 0.002f};
    EsProveAnswers answers;
    EsProveProgress progress;
    char text[256];
    int64_t n_expanded;
    int n_proved;
    ES_TRY_GOTO(es_prove_create(&options, &prove));
    es_prove_describe(prove, text, sizeof text);
    printf("%s\n", text);
    ES_TRY_GOTO(es_prove_ask(prove, "uncle(X,Y)", &answers));
    for (int32_t i = 0; i < answers.count && i < N_SHOWN; i++) {
        printf("%s is an uncle of %s: %d steps\n", answers.items[i].a, answers.items[i].b,
               answers.items[i].n_steps);
    }
    printf("%d in all\n", answers.count);
    ES_TRY_GOTO(count_expanded(prove, &answers, &n_expanded, &n_proved));
    printf("untrained: %d proved, %lld states\n", n_proved, (long long)n_expanded);
    ES_TRY_GOTO(es_prove_train(prove, N_ROUNDS, &progress));
    printf("after %lld rounds %.0f %% of what is true gets proved\n", (long long)progress.n_rounds,
           progress.positives_proved);
    ES_TRY_GOTO(count_expanded(prove, &answers, &n_expanded, &n_proved));
    printf("trained: %d proved, %lld states\n", n_proved, (long long)n_expanded);
done:
    es_prove_destroy(prove);
    return status;
}

int main(void) {
    if (prove_kinship() != ES_STATUS_OK) {
        fprintf(stderr, "%s\n", es_status_detail());
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
