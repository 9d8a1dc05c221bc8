// The actions of `esper prove`, one file each; prove.c holds the table.
#ifndef ES_PROGRAMS_PROVE_ACTION_H
#define ES_PROGRAMS_PROVE_ACTION_H

#include "cli/frame.h"

// argv[0] is the action's name.
EsExit es_prove_closure_run(int argc, char **argv);
EsExit es_prove_curve_run(int argc, char **argv);
EsExit es_prove_depths_run(int argc, char **argv);
EsExit es_prove_eval_run(int argc, char **argv);
EsExit es_prove_embed_run(int argc, char **argv);
EsExit es_prove_export_run(int argc, char **argv);
EsExit es_prove_mine_run(int argc, char **argv);
EsExit es_prove_query_run(int argc, char **argv);
EsExit es_prove_train_run(int argc, char **argv);

#endif
