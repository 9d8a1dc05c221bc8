// Paths in settings: a run may be resumed from anywhere, so that they are kept in full.
#ifndef ES_PROGRAMS_SETTLED_PATHS_H
#define ES_PROGRAMS_SETTLED_PATHS_H

#include "esper/config.h"

// Make the paths of the configuration absolute: folders of data ("folder"), hosts described in a
// file ("task"), policies and schedules ("policy", "against"). INPUT when a folder is not there;
// files that are not are left to who opens them. A list that would grow too long for a line of
// config.ini stays as it is.
EsStatus es_settle_paths(const EsConfig *config);

#endif
