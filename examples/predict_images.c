// A network grown for a few steps is kept as files, opened again, and told to name pictures that
// lie in memory.
//
// Shows the network's side of the public headers: es_grow_save_network, then open, info, predict,
// softmax, close.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "esper/grow.h"
#include "esper/network.h"

enum { STEPS = 6, PICTURES = 3, SIDE = 16 };

static EsStatus grow_and_save(const char *folder) {
    EsGrow *grow = NULL;
    EsStatus status = ES_STATUS_OK;
    int8_t action[ES_N_HEADS];
    EsGrowOptions options = {.task = "tiny", .step_batches = 32};
    ES_TRY_GOTO(es_grow_create(&options, &grow));
    ES_TRY_GOTO(es_grow_reset(grow, 0));
    es_grow_fill_action(action, ES_GROWTH_OP_WAIT, 0);
    for (int i = 0; i < STEPS; i++) {
        ES_TRY_GOTO(es_grow_step(grow, action));
    }
    ES_TRY_GOTO(es_grow_save_network(grow, 0, folder));
done:
    es_grow_destroy(grow);
    return status;
}

// A frame, a cross and a ladder, white on black.
static void draw(uint8_t pictures[PICTURES][SIDE][SIDE]) {
    for (int y = 0; y < SIDE; y++) {
        for (int x = 0; x < SIDE; x++) {
            int is_frame = x == 3 || x == 12 || y == 3 || y == 12;
            int is_ladder = x == 5 || x == 10 || (x > 5 && x < 10 && y % 3 == 1);
            pictures[0][y][x] = is_frame && x > 2 && x < 13 && y > 2 && y < 13 ? 255 : 0;
            pictures[1][y][x] = x == y || x == SIDE - 1 - y ? 255 : 0;
            pictures[2][y][x] = is_ladder ? 255 : 0;
        }
    }
}

static EsStatus predict(const char *folder) {
    EsNetwork *network = NULL;
    EsStatus status = ES_STATUS_OK;
    static uint8_t pictures[PICTURES][SIDE][SIDE];
    float scores[PICTURES * 10];
    ES_TRY_GOTO(es_network_open(folder, 1, &network));
    const EsNetworkInfo *info = es_network_info(network);
    printf("%s, %lld parameters, %d x %d pixels, %d classes, %.1f %% of the validation images\n",
           info->host, (long long)info->n_parameters, info->height, info->width, info->n_classes,
           info->validation_accuracy);
    draw(pictures);
    ES_TRY_GOTO(es_network_predict_bytes(network, &pictures[0][0][0], PICTURES, scores));
    es_network_softmax(network, scores, PICTURES);
    for (int i = 0; i < PICTURES; i++) {
        int best = 0;
        for (int k = 1; k < info->n_classes; k++) {
            best = scores[i * info->n_classes + k] > scores[i * info->n_classes + best] ? k : best;
        }
        printf("picture %d: %s\n", i + 1, info->class_names[best]);
    }
done:
    es_network_close(network);
    return status;
}

int main(void) {
    char folder[] = "/tmp/esper-example-XXXXXX", path[sizeof folder + 32];
    if (mkdtemp(folder) == NULL) {
        perror(folder);
        return 1;
    }
    EsStatus status = grow_and_save(folder);
    if (status == ES_STATUS_OK) {
        status = predict(folder);
    }
    if (status != ES_STATUS_OK) {
        fprintf(stderr, "%s: %s\n", es_status_message(status), es_status_detail());
    }
    snprintf(path, sizeof path, "%s/network.json", folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/network.safetensors", folder);
    unlink(path);
    rmdir(folder);
    return status == ES_STATUS_OK ? 0 : 1;
}
