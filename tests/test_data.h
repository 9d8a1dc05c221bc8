// Folder of recorded data: the one that the build names, unless ES_TEST_DATA in the environment
// says otherwise.
#ifndef ES_TEST_DATA_H
#define ES_TEST_DATA_H

#include <stdlib.h>

static inline const char *es_test_data(void) {
    const char *folder = getenv("ES_TEST_DATA");
    return folder != NULL ? folder : ES_TEST_DATA;
}

#endif
