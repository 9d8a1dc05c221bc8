// The three standard streams of the process, and what their loss means for the exit code.
//
// A command that prints ends quietly with 0 when its reader goes away (`esper query ... | head`)
// and fails on any other loss (a full disk). A run goes on without stdout or stderr, is saved, and
// ends with exit code 3.
#ifndef ES_PROGRAMS_OUTPUT_H
#define ES_PROGRAMS_OUTPUT_H

#include "cli/command.h"

// Once, before anything is opened or printed. Ignores SIGPIPE and SIGXFSZ, so that a write that
// cannot be done fails like one to a full disk instead of ending the process. A stream that is
// closed is put on /dev/null for reading: no file of a run can become descriptor 0, 1 or 2, and
// what is printed there counts as lost.
void es_output_start(void);

// The status of something that prints on stdout. Its failing write is no failure of the command
// yet: es_output_finish decides and tells.
EsStatus es_output_status(EsStatus status);

// Whether stdout has refused something, so that printing on is of no use.
int es_output_is_lost(void);

// From here on a lost stream is a loss of the run.
void es_output_begin_run(void);

// Once, at the end: writes what is still held back, tells what could not be printed, and returns
// the exit code of a command that ended with `code`.
EsExit es_output_finish(EsExit code);

#endif
