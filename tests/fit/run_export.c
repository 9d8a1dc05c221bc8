// Runs an exported network on inputs.f32 and compares with logits.f32: at most 1e-5 of the largest
// logit apart. With N: int8, which must find the same class for N of the first 100 inputs. Compiled
// together with the exported network.c.
//
// usage: run_export FOLDER [N]
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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
    int n = 0, n_wrong = 0, n_equal = 0, k;
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
        for (k = 0; k < NETWORK_CLASSES && expected[k] <= expected[best]; k++) {
        }
        n_equal += n < 100 && k == NETWORK_CLASSES;
        n++;
    }
    fclose(inputs);
    fclose(outputs);
    printf("%d inputs, largest logit %.4g, apart %.3g of it, %d of 100 equal\n", n, (double)most,
           (double)(apart / most), n_equal);
    if (n != 1000 || n_wrong != 0 || network_classes[0][0] == '\0') {
        return 1;
    }
    return argc > 2 ? n_equal != atoi(argv[2]) : !(apart <= 1e-5f * most);
}
