// The run of `esper prove train` in a folder, with the weights of its policy at hand multiplied: no
// learning rate that is allowed takes them where sums overflow, since Adam moves a weight by little
// more than the rate. The checkpoint is saved as a run of its own saves it.
//
// usage: make_diverged_proofs FOLDER FACTOR
#include <stdio.h>
#include <stdlib.h>

#include "proof/agent/proof_policy_network.h"
#include "runs/prove/prove_run.h"

static EsRunWork inner; // the work of the run
static float factor;

static EsStatus round_and_multiply(void *context, EsRun *run, int64_t round,
                                   EsRoundReport *report) {
    EsProofPolicy *policy = es_proof_training_policy(es_prove_run_training(context));
    ES_TRY(inner.round(context, run, round, report));
    float *weights = policy->store->parameters.data;
    for (int64_t i = 0; i < es_tensor_count(&policy->store->parameters); i++) {
        weights[i] *= factor;
    }
    return ES_STATUS_OK;
}

static EsStatus run_folder(const char *folder) {
    EsProveSettings settings;
    EsConfig config = es_prove_run_config(&settings);
    char path[512];
    EsProveRun *prove = NULL;
    EsRun *run = NULL;
    EsRunOutcome outcome;
    snprintf(path, sizeof path, "%s/config.ini", folder);
    es_config_reset(&config);
    ES_TRY(es_config_load(&config, path));
    settings.run.n_rounds++;
    EsRunOptions options = {
        .config = &config, .settings = &settings.run, .resume = folder, .build = "test"};
    ES_TRY(es_prove_run_create(&settings, &prove));
    inner = es_prove_run_work(prove);
    EsRunWork work = inner;
    work.round = round_and_multiply;
    work.finish = NULL;
    EsStatus status = es_run_open(&options, &run);
    if (status == ES_STATUS_OK) {
        status = es_run_start(run);
        status = status == ES_STATUS_OK ? es_run_rounds(run, &work) : status;
        status = es_run_close(run, status, &outcome);
    }
    es_prove_run_destroy(prove);
    return status;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: make_diverged_proofs FOLDER FACTOR\n");
        return 2;
    }
    factor = strtof(argv[2], NULL);
    if (run_folder(argv[1]) != ES_STATUS_OK) {
        fprintf(stderr, "%s\n", es_status_detail());
        return 1;
    }
    return 0;
}
