// ES_API marks the exports of the shared library; everything else in it is hidden.
#ifndef ESPER_API_H
#define ESPER_API_H

#if defined(__GNUC__)
#define ES_API __attribute__((visibility("default")))
#else
#define ES_API
#endif

#endif
