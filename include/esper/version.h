// The version of these headers, and of the library that a program runs with.
//
// Before 1.0 a new minor version may change the interface, and the shared library's name changes
// with it; patches never do.
#ifndef ESPER_VERSION_H
#define ESPER_VERSION_H

#include "esper/api.h"

#ifdef __cplusplus
extern "C" {
#endif

// The build reads the version from here.
#define ES_VERSION_MAJOR 0
#define ES_VERSION_MINOR 1
#define ES_VERSION_PATCH 0

#define ES_VERSION_PARTS_(a, b, c) #a "." #b "." #c
#define ES_VERSION_TEXT_(a, b, c)  ES_VERSION_PARTS_(a, b, c)

// "0.1.0"
#define ES_VERSION ES_VERSION_TEXT_(ES_VERSION_MAJOR, ES_VERSION_MINOR, ES_VERSION_PATCH)

// Returns ES_VERSION as it was when the library was built.
ES_API const char *es_version(void);

#ifdef __cplusplus
}
#endif

#endif
