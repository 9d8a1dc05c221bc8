// One host grows one seed, by hand: plant it, let it train and blend in, keep it once it is worth
// something.
//
// Shows the life of growth through the public header alone: create, describe, reset, observe, step.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "esper/grow.h"

// Steps in which the host learns alone.
enum { PLANTING_STEP = 4 };

static int may(const EsGrowView *view, EsGrowthOp op) { return view->masks[0].slot_by_op[op] & 1; }

// Plant one seed, keep it when it has come so far and the host is better with it, else wait.
static void choose(const EsGrowView *view, int8_t action[ES_N_HEADS]) {
    const EsGrowSlot *slot = &view->slots[0];
    EsGrowthOp op = ES_GROWTH_OP_WAIT;
    if (view->step == PLANTING_STEP && may(view, ES_GROWTH_OP_GERMINATE)) {
        op = ES_GROWTH_OP_GERMINATE;
    } else if (may(view, ES_GROWTH_OP_FOSSILIZE) && slot->contribution > 0) {
        op = ES_GROWTH_OP_FOSSILIZE; // NaN, not measured, is not above 0
    }
    es_grow_fill_action(action, op, 0);
}

static void print_step(const EsGrowView *view, const int8_t *action) {
    const EsGrowSlot *slot = &view->slots[0];
    const EsGrowHost *host = &view->hosts[0];
    if (slot->stage == ES_STAGE_FOSSILIZED && view->step % 5 != 0) {
        return; // nothing is left to decide
    }
    char contribution[32] = "-";
    if (!isnan(slot->contribution)) {
        snprintf(contribution, sizeof contribution, "%+.2f", (double)slot->contribution);
    }
    printf("%4d  %8.4f  %8.2f  %10lld  %-10s  %5.2f  %8s  %s\n", view->step, host->train_loss,
           host->validation_accuracy, (long long)host->n_parameters,
           es_grow_stage_name(slot->stage), (double)slot->alpha, contribution,
           es_grow_op_name(action[ES_HEAD_OP]));
}

static EsStatus grow_one(void) {
    EsGrow *grow = NULL;
    EsStatus status = ES_STATUS_OK;
    char text[2048];
    int8_t action[ES_N_HEADS];
    EsGrowOptions options = {.task = "tiny", .slots = "r0c1", .auto_forward = 1};
    ES_TRY_GOTO(es_grow_create(&options, &grow));
    es_grow_describe(grow, text, sizeof text);
    printf("%s\nstep      loss  accuracy  parameters  stage       alpha    points  action\n", text);
    ES_TRY_GOTO(es_grow_reset(grow, 0));
    for (EsGrowView view = es_grow_observe(grow); !view.is_over; view = es_grow_observe(grow)) {
        choose(&view, action);
        print_step(&view, action);
        ES_TRY_GOTO(es_grow_step(grow, action));
    }
    printf("at the end the slot is %s\n", es_grow_stage_name(es_grow_observe(grow).slots[0].stage));
done:
    es_grow_destroy(grow);
    return status;
}

int main(void) {
    if (grow_one() != ES_STATUS_OK) {
        fprintf(stderr, "%s\n", es_status_detail());
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
