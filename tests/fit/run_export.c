// Runs an exported network on inputs.f32 and compares with logits.f32: at most 1e-5 of the largest
// logit apart. Compiled together with the exported network.c.
//
// usage: run_export FOLDER
#include <math.h>
#include <stdio.h>

#include "network.h"

static FILE *open_file(const char *folder, const char *name) {
    char path[4096];
    FILE *stream;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    stream = fopen(path, "rb");
    if (stream == NULL) {
        perror(path);
    }
    return stream;
}

int main(int argc, char **argv) {
    static float input[NETWORK_INPUTS], logits[NETWORK_CLASSES], expected[NETWORK_CLASSES];
    float most = 0.0f, apart = 0.0f;
    int n = 0, n_wrong = 0, k;
    FILE *inputs = open_file(argc > 1 ? argv[1] : ".", "inputs.f32");
    FILE *outputs = open_file(argc > 1 ? argv[1] : ".", "logits.f32");
    if (inputs == NULL || outputs == NULL) {
        return 1;
    }
    while (fread(input, sizeof input, 1, inputs) == 1 &&
           fread(expected, sizeof expected, 1, outputs) == 1) {
        int best = network_predict(input, logits);
        for (k = 0; k < NETWORK_CLASSES; k++) {
            most = fmaxf(most, fabsf(expected[k]));
            apart = fmaxf(apart, fabsf(logits[k] - expected[k]));
            n_wrong += !(fabsf(logits[k] - expected[k]) >= 0.0f) || logits[k] > logits[best];
        }
        n++;
    }
    fclose(inputs);
    fclose(outputs);
    printf("%d inputs, largest logit %.4g, apart %.3g of it\n", n, (double)most,
           (double)(apart / most));
    return n == 1000 && n_wrong == 0 && apart <= 1e-5f * most && network_classes[0][0] != '\0' ? 0
                                                                                               : 1;
}
