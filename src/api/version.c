// The version of the library, as a program that links it dynamically can ask for it.
#include "esper/version.h"

const char *es_version(void) { return ES_VERSION; }
