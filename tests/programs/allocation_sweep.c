// Runs commands of the program again and again, each time with another allocation that fails
// (allocation_fault.c), and judges how they end. Allowed is: exit code 0 with the output of the
// healthy command, because the failure did no harm; or exit code 1, for a run that lost telemetry
// alone 3, with a message that speaks of memory and an output that is the beginning of the healthy
// one. A run that failed is finished afterwards without faults and must end with the same bytes.
//
// usage: allocation_sweep ESPER FAULT_LIBRARY [option value]...
//   --samples N   allocations per command: a third of them the first, the rest spread over all
//                 others; a sixth of N for runs, which take longer (default 0: every allocation)
//   --stride N    every N-th allocation instead (default 1) ...
//   --offset N    ... from this one on (default 1)
//   --jobs N      processes side by side (default 2)
//   --only NAME   this command alone
//
// Each allocation fails twice: once alone, once with all that follow.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_WORDS   40
#define LIMIT_S     60 // of one command; more is a hang
#define MAX_TOLD    40 // failures that a process describes
#define PATH_BYTES  512
#define OUTPUT_FILE "stdout.txt"
#define ERROR_FILE  "stderr.txt"
#define COUNT_FILE  "count.txt"
#define MADE_FILE   "made.txt" // that a command writes beside what it prints

// what a run of each kind needs to be small
#define HOSTS "hosts --task tiny --envs 1 --threads 1 --checkpoint.every=1 --checkpoint.keep=9"
#define GROW                                                                                       \
    "grow --task tiny --envs 2 --threads 1 --episode-steps 4 --step-batches 1 "                    \
    "--validation-images 50 --policy ppo --hidden 8 --eval 2 --checkpoint.every=1 "                \
    "--checkpoint.keep=9"
#define FIT                                                                                        \
    "fit --data tiny --candidates 2 --epochs 2 --epoch-batches 1 --batch 32 --max-params 4000 "    \
    "--policy random --threads 1 --checkpoint.every=1 --checkpoint.keep=9"
#define TRAIN                                                                                      \
    "prove train --generated 12 --envs 2 --steps 4 --policy.embed=8 --policy.hidden=8 "            \
    "--policy.layers=1 --nodes 4 --depth 2 --validate.queries=3 --validate.corruptions=2 "         \
    "--eval-every 1 --eval 2 --evaluate.corruptions=2 --threads 1 --checkpoint.every=1 "           \
    "--checkpoint.keep=9"
#define ALL_SINKS   " --telemetry.jsonl=on --telemetry.prometheus_port=0 "
#define NO_DATABASE " --telemetry.sqlite=off"
#define HALF        " --rounds 1 --out "

// Words apart by one space; '...' holds them together. `made_with` is a command that makes the
// folder "out" first; `finish` is one that completes "out" after a failure.
typedef struct Case {
    const char *name;
    const char *command;
    const char *made_with;
    const char *finish;
} Case;

static const Case cases[] = {
    {"info", "info", NULL, NULL},
    {"info-json", "info --json", NULL, NULL},
    {"runs", "runs ../runs", NULL, NULL},
    {"runs-json", "runs --json ../runs", NULL, NULL},
    {"runs-one", "runs ../runs/a", NULL, NULL},
    {"runs-prune", "runs --prune ../runs/a ../runs/b", NULL, NULL},
    {"query", "query ../runs/a 'select * from rounds'", NULL, NULL},
    {"query-json", "query ../runs/a 'select * from rounds' --json", NULL, NULL},
    {"query-csv", "query ../runs/a 'select * from rounds' --csv", NULL, NULL},
    {"diff", "diff ../runs/a ../runs/b", NULL, NULL},
    {"diff-json", "diff --json ../runs/a ../runs/b", NULL, NULL},
    {"prove-closure", "prove closure --data ../graph --json", NULL, NULL},
    {"prove-depths", "prove depths --data ../graph --json", NULL, NULL},
    {"prove-query", "prove query --generated 8 grandfather(X,Y) --explain", NULL, NULL},
    {"prove-query-json", "prove query --data ../graph in(X,Y) --json", NULL, NULL},
    {"prove-mine", "prove mine --generated 12", NULL, NULL},
    {"prove-mine-json", "prove mine --generated 12 --json --out " MADE_FILE, NULL, NULL},
    {"prove-embed", "prove embed --generated 12 --epochs 1 --out " MADE_FILE, NULL, NULL},
    {"prove-eval", "prove eval --generated 12 --json", NULL, NULL},
    {"prove-export", "prove export --generated 8 --out " MADE_FILE, NULL, NULL},
    {"hosts", HOSTS NO_DATABASE " --rounds 2 --quiet --out out", NULL, "hosts --quiet"},
    {"hosts-sinks", HOSTS ALL_SINKS "--rounds 2 --out out", NULL, "hosts --quiet"},
    {"hosts-resume", "hosts --resume out --rounds 2 --json", HOSTS HALF "out", "hosts"},
    {"grow", GROW NO_DATABASE " --rounds 2 --quiet --out out", NULL, "grow --quiet"},
    {"grow-sinks", GROW ALL_SINKS "--rounds 2 --out out", NULL, "grow --quiet"},
    {"grow-resume", "grow --resume out --rounds 2 --json", GROW HALF "out", "grow"},
    {"fit", FIT NO_DATABASE " --quiet --out out", NULL, "fit --quiet"},
    {"fit-sinks", FIT ALL_SINKS "--out out", NULL, "fit --quiet"},
    {"fit-resume", "fit --resume out --json", FIT " --out out", "fit"}, // of one that is done
    {"prove-train", TRAIN NO_DATABASE " --rounds 2 --quiet --out out", NULL, "prove train --quiet"},
    {"prove-train-sinks", TRAIN ALL_SINKS "--rounds 2 --out out", NULL, "prove train --quiet"},
    {"prove-train-resume", "prove train --resume out --rounds 2", TRAIN HALF "out", "prove train"},
};

typedef struct Tally {
    long n_harmless; // exit code 0, everything as it should be
    long n_errors;   // exit code 1, cleanly
    long n_lost;     // exit code 3: telemetry is incomplete, and the program says so
    long n_foreign;  // crashed inside another library's code
    long n_wrong;
} Tally;

typedef struct Sweep {
    const char *esper;
    const char *library;
    long n_samples, stride, offset;
    int n_jobs;
    const char *only;
    char root[PATH_BYTES]; // of everything that is written
} Sweep;

// Results of a command.
typedef struct Outcome {
    int code;   // -1 when a signal ended it
    int signal; // 0 when none did
    char *output;
    char *errors;
} Outcome;

// --- files ---

static void stop(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "allocation_sweep: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, ": %s\n", strerror(errno));
    va_end(arguments);
    exit(1);
}

// NULL when there is no such file; lines with `left_out`, and then those that end in seconds, are
// not part of it.
static char *read_text(const char *path, const char *left_out, size_t *n_bytes) {
    FILE *file = fopen(path, "rbe");
    if (file == NULL) {
        return NULL;
    }
    char *text = NULL, *line = NULL;
    size_t bytes = 0, room = 0;
    ssize_t length;
    FILE *stream = open_memstream(&text, &bytes);
    while ((length = getline(&line, &room, file)) > 0) {
        int tells_time = length > 3 && strcmp(line + length - 3, " s\n") == 0;
        if (left_out == NULL || (strstr(line, left_out) == NULL && !tells_time)) {
            fwrite(line, 1, (size_t)length, stream);
        }
    }
    free(line);
    fclose(file);
    if (fclose(stream) != 0) {
        stop("%s", path);
    }
    if (n_bytes != NULL) {
        *n_bytes = bytes;
    }
    return text;
}

static int remove_entry(const char *path, const struct stat *facts, int kind, struct FTW *place) {
    (void)facts;
    (void)kind;
    (void)place;
    return remove(path);
}

static void remove_tree(const char *path) { nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS); }

static int exists(const char *path) { return access(path, F_OK) == 0; }

static void shell(const char *format, ...) {
    char command[4 * PATH_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    if (system(command) != 0) {
        stop("failed: %s", command);
    }
}

static int same_file(const char *a, const char *b, const char *left_out) {
    size_t a_bytes = 0, b_bytes = 0;
    char *a_text = read_text(a, left_out, &a_bytes), *b_text = read_text(b, left_out, &b_bytes);
    int same = a_text != NULL && b_text != NULL && a_bytes == b_bytes &&
               memcmp(a_text, b_text, a_bytes) == 0;
    free(a_text);
    free(b_text);
    return same;
}

// Returns whether the run in "out" ended with the bytes of the healthy one in "../healthy"; `what`
// gets the first file that differs.
static int same_run(char what[PATH_BYTES]) {
    static const char *const folders[] = {".", "checkpoints/2"};
    for (int f = 0; f < 2; f++) {
        char folder[PATH_BYTES];
        snprintf(folder, sizeof folder, "../healthy/%s", folders[f]);
        DIR *entries = opendir(folder);
        if (entries == NULL) {
            stop("%s", folder);
        }
        const struct dirent *entry;
        int same = 1;
        while (same && (entry = readdir(entries)) != NULL) {
            const char *name = entry->d_name;
            // configuration and lock name the run; the database and events hold times
            if (name[0] == '.' || (f == 0 && strstr(name, ".safetensors") == NULL &&
                                   strcmp(name, "evaluation.json") != 0)) {
                continue;
            }
            char healthy[PATH_BYTES + 300];
            snprintf(healthy, sizeof healthy, "../healthy/%s/%s", folders[f], name);
            snprintf(what, PATH_BYTES, "out/%s/%.200s", folders[f], name);
            same = same_file(healthy, what, f == 0 ? "\"seconds\"" : NULL);
        }
        closedir(entries);
        if (!same) {
            return 0;
        }
    }
    return 1;
}

// --- commands ---

// Cuts `text` into words, in place.
static int split(char *text, char **words) {
    int n = 0;
    while (*text != '\0') {
        char end = *text == '\'' ? '\'' : ' ';
        text += end == '\'';
        words[n++] = text;
        text += strcspn(text, end == '\'' ? "'" : " ");
        while (*text == ' ' || *text == '\'') {
            *text++ = '\0';
            if (*text == '\'') {
                break;
            }
        }
    }
    words[n] = NULL;
    return n;
}

static void exec_command(const Sweep *sweep, const char *command, const char *fault) {
    char text[2048], *words[MAX_WORDS];
    snprintf(text, sizeof text, "esper %s", command);
    split(text, words);
    words[0] = (char *)sweep->esper; // stacks show the program by this name
    int output = open(OUTPUT_FILE, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    int errors = open(ERROR_FILE, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (output < 0 || errors < 0 || dup2(output, 1) < 0 || dup2(errors, 2) < 0) {
        _exit(99);
    }
    if (fault != NULL) {
        setenv("LD_PRELOAD", sweep->library, 1);
        setenv("ES_TEST_ALLOCATION_COUNT", COUNT_FILE, 1);
        setenv("ES_TEST_ALLOCATION_FAIL", fault, 1);
        setenv("MALLOC_PERTURB_", "165", 1); // memory that was freed does not look alive
    }
    alarm(LIMIT_S);
    execv(sweep->esper, words);
    _exit(99);
}

// `fault` is "7", "7+", "0" for counting alone, or NULL for a program without the library.
static Outcome run(const Sweep *sweep, const char *command, const char *fault) {
    pid_t child = fork();
    if (child == 0) {
        exec_command(sweep, command, fault);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        stop("cannot run %s", command);
    }
    return (Outcome){.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                     .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                     // times differ from run to run
                     .output = read_text(OUTPUT_FILE, "\"seconds\"", NULL),
                     .errors = read_text(ERROR_FILE, NULL, NULL)};
}

static void forget(Outcome *outcome) {
    free(outcome->output);
    free(outcome->errors);
}

static void run_well(const Sweep *sweep, const char *command) {
    Outcome outcome = run(sweep, command, NULL);
    if (outcome.code != 0) {
        fprintf(stderr, "allocation_sweep: esper %s: exit code %d\n%s", command, outcome.code,
                outcome.errors);
        exit(1);
    }
    forget(&outcome);
}

// --- judging ---

// Words that must not describe a lack of memory. Each is part of a message of ours about something
// else.
static const char *const wrong_words[] = {
    "damaged", "UTF-8",     "not valid",  "unknown",    "corrupt",  "malformed", "Usage",
    "usage",   "not a run", "is no run",  "no such",    "No such",  "invalid",   "truncated",
    "missing", "is not",    "start over", "try: esper", "expected",
};

// The library of the innermost frame that is neither the C library's nor ours to test with; NULL
// when it is the program itself.
static const char *foreign_library(const Sweep *sweep, char *stack) {
    char *frame = strstr(stack, "allocation_fault: signal");
    for (frame = frame != NULL ? strtok(frame, "\n") : NULL; frame != NULL;
         frame = strtok(NULL, "\n")) {
        if (strstr(frame, sweep->library) != NULL || strstr(frame, "/libc.so") != NULL ||
            strstr(frame, "/ld-linux") != NULL || strstr(frame, "linux-vdso") != NULL ||
            frame[0] != '/') {
            continue;
        }
        return strncmp(frame, sweep->esper, strlen(sweep->esper)) == 0 ? NULL : frame;
    }
    return NULL;
}

// NULL when the command ended as it may.
static const char *find_fault(const Case *test, const Outcome *healthy, const Outcome *outcome) {
    if (outcome->signal != 0) {
        return outcome->signal == SIGALRM ? "hangs" : "crashes";
    }
    for (size_t i = 0; i < sizeof wrong_words / sizeof wrong_words[0]; i++) {
        if (strstr(outcome->errors, wrong_words[i]) != NULL &&
            strstr(healthy->errors, wrong_words[i]) == NULL) {
            static char what[80];
            snprintf(what, sizeof what, "lack of memory is called \"%s\"", wrong_words[i]);
            return what;
        }
    }
    if (outcome->code == 0) {
        return strcmp(outcome->output, healthy->output) == 0 ? NULL : "success with other output";
    }
    if (outcome->code != 1 && !(outcome->code == 3 && test->finish != NULL)) {
        return "wrong exit code";
    }
    if (strcasestr(outcome->errors, "memory") == NULL) {
        return "no message speaks of memory";
    }
    return strncmp(outcome->output, healthy->output, strlen(outcome->output)) == 0
               ? NULL
               : "an output that is not the beginning of the healthy one";
}

// The last messages on one line.
static const char *last_messages(char *errors) {
    size_t length = strlen(errors);
    for (char *c = errors; *c != '\0'; c++) {
        *c = *c == '\n' ? '|' : *c;
    }
    return errors + (length > 400 ? length - 400 : 0);
}

// Whether the number of such events depends on the clock: progress, and the phase of the writer
// thread, which has a row in every round during which it finished something.
static int follows_clock(const char *line, size_t length) {
    return memmem(line, length, "_progressed", 11) != NULL ||
           (memmem(line, length, "phase_profiled", 14) != NULL &&
            memmem(line, length, "\"write\"", 7) != NULL);
}

// Removes the lines of events whose number depends on the clock, and returns how many stay.
static long drop_clock_lines(char *text) {
    long n = 0;
    char *to = text;
    for (char *line = text; line != NULL && *line != '\0';) {
        size_t length = strcspn(line, "\n") + 1;
        char *next = line[length - 1] == '\0' ? NULL : line + length;
        if (!follows_clock(line, length)) {
            memmove(to, line, length);
            to += length;
            n++;
        }
        line = next;
    }
    if (text != NULL) {
        *to = '\0';
    }
    return n;
}

static long count_events(const char *path) {
    char *text = read_text(path, NULL, NULL);
    long n = drop_clock_lines(text);
    free(text);
    return n;
}

// NULL when "out", whose program says that no event is lost, has as many as the healthy run.
static const char *find_missing_events(const Sweep *sweep) {
    static char what[1200];
    long expected_lines = count_events("../healthy/events.jsonl");
    long lines = count_events("out/events.jsonl");
    if (lines != expected_lines) {
        snprintf(what, sizeof what, "exit code 0 with %ld lines of %ld in events.jsonl", lines,
                 expected_lines);
        return what;
    }
    if (!exists("../healthy/run.db")) {
        return NULL;
    }
    const char *const count = " 'select event, count(*) from raw_events where event <> "
                              "\"phase_profiled\" or data ->> \"phase\" <> \"write\" "
                              "group by event' --csv";
    char command[PATH_BYTES];
    snprintf(command, sizeof command, "query ../healthy%s", count);
    Outcome expected = run(sweep, command, NULL);
    snprintf(command, sizeof command, "query out%s", count);
    Outcome found = run(sweep, command, NULL);
    drop_clock_lines(expected.output);
    drop_clock_lines(found.output);
    int is_same = expected.code == 0 && strcmp(expected.output, found.output) == 0;
    snprintf(what, sizeof what, "exit code 0 with other events in run.db: %.500s, not %.500s",
             found.output, expected.output);
    forget(&expected);
    forget(&found);
    return is_same ? NULL : what;
}

// Finishes the run in "out" without faults where it failed. NULL when it ends with the right bytes.
static const char *find_harm(const Sweep *sweep, const Case *test, const Outcome *outcome) {
    static char what[2 * PATH_BYTES];
    char path[PATH_BYTES];
    if (outcome->code != 0 && outcome->code != 3) {
        char command[2048];
        snprintf(command, sizeof command, "%s", test->command);
        if (exists("out/config.ini")) {
            snprintf(command, sizeof command, "%s --resume out --run.rounds=2", test->finish);
        }
        Outcome finished = run(sweep, command, NULL);
        // only a run without any checkpoint may ask for this
        if (finished.code == 2 && strstr(finished.errors, "--restart") != NULL &&
            !exists("out/checkpoints/1/DONE") && !exists("out/checkpoints/2/DONE")) {
            forget(&finished);
            snprintf(command, sizeof command, "%s --resume out --run.rounds=2 --restart",
                     test->finish);
            finished = run(sweep, command, NULL);
        }
        int code = finished.code;
        snprintf(what, sizeof what, "afterwards `%.300s`: exit code %d: %.400s", command, code,
                 last_messages(finished.errors));
        forget(&finished);
        if (code != 0) {
            return what;
        }
    }
    if (!same_run(path)) {
        snprintf(what, sizeof what, "other bytes in %s", path);
        return what;
    }
    // a checkpoint that had to wait for the next round or epoch has no event
    if (outcome->code == 0 && strstr(outcome->errors, "warning: checkpoint of ") == NULL) {
        return find_missing_events(sweep);
    }
    return NULL;
}

// --- the sweep ---

static void prepare(const Case *test) {
    remove_tree("out");
    remove(MADE_FILE);
    if (test->made_with != NULL) {
        shell("cp -r ../%s out", test->name);
    }
}

static void try_fault(const Sweep *sweep, const Case *test, const Outcome *healthy,
                      const char *fault, Tally *tally) {
    prepare(test);
    Outcome outcome = run(sweep, test->command, fault);
    const char *wrong = find_fault(test, healthy, &outcome);
    if (wrong == NULL && outcome.code == 0 && exists("../" MADE_FILE) &&
        !same_file(MADE_FILE, "../" MADE_FILE, NULL)) {
        wrong = "success with another file";
    }
    if (wrong == NULL && test->finish != NULL) {
        wrong = find_harm(sweep, test, &outcome);
    }
    if (wrong == NULL) {
        tally->n_harmless += outcome.code == 0;
        tally->n_errors += outcome.code == 1;
        tally->n_lost += outcome.code == 3;
    } else {
        char stack[8192];
        snprintf(stack, sizeof stack, "%s", outcome.errors);
        const char *foreign = outcome.signal != 0 ? foreign_library(sweep, stack) : NULL;
        tally->n_foreign += foreign != NULL;
        tally->n_wrong += foreign == NULL;
        if (tally->n_wrong + tally->n_foreign <= MAX_TOLD) {
            printf("%s: %s: allocation %s: %s; exit code %d, signal %d: %s\n",
                   foreign != NULL ? "not ours" : "WRONG", test->name, fault,
                   foreign != NULL ? foreign : wrong, outcome.code, outcome.signal,
                   last_messages(outcome.errors));
        }
    }
    forget(&outcome);
}

// The allocation of sample `i` of `n`: a third of the samples are the first ones, the others lie at
// equal distances behind them, the last allocation among them.
static long sampled(long i, long n, long n_allocations) {
    long n_first = n / 3, rest = n_allocations - n_first;
    return i < n_first || n >= n_allocations ? i + 1
                                             : n_first + (i - n_first + 1) * rest / (n - n_first);
}

static Tally sweep_share(const Sweep *sweep, const Case *test, const Outcome *healthy,
                         long n_allocations, int job) {
    Tally tally = {0};
    long n_samples = test->finish != NULL ? (sweep->n_samples + 5) / 6 : sweep->n_samples;
    long n = n_samples > 0 ? (n_samples < n_allocations ? n_samples : n_allocations)
                           : (n_allocations - sweep->offset) / sweep->stride + 1;
    for (long i = job; i < n; i += sweep->n_jobs) {
        char fault[32];
        long at = n_samples > 0 ? sampled(i, n, n_allocations) : sweep->offset + i * sweep->stride;
        snprintf(fault, sizeof fault, "%ld", at);
        try_fault(sweep, test, healthy, fault, &tally);
        snprintf(fault, sizeof fault, "%ld+", at);
        try_fault(sweep, test, healthy, fault, &tally);
    }
    return tally;
}

static void enter(const Sweep *sweep, int job) {
    char path[PATH_BYTES + 32];
    snprintf(path, sizeof path, "%s/job%d", sweep->root, job);
    if ((mkdir(path, 0777) != 0 && errno != EEXIST) || chdir(path) != 0) {
        stop("%s", path);
    }
}

// Runs, and a graph to prove things in, that the commands read; then the runs that are resumed.
static void make_inputs(const Sweep *sweep) {
    enter(sweep, 0);
    run_well(sweep, HOSTS " --rounds 2 --seed 1 --quiet --out ../runs/a");
    run_well(sweep, HOSTS " --rounds 2 --seed 2 --quiet --out ../runs/b");
    // so old that their age, which `runs` prints, stays the same
    shell("find ../runs -exec touch -d '40 days ago' {} +");
    shell("mkdir ../graph; cd ../graph; printf 'near(a,b).\\nnear(b,c).\\nin(c,d).\\n' > train.txt;"
          "printf 'in(a,d).\\n' > test.txt; cp test.txt valid.txt;"
          "printf 'r1:1:near(X,Y), in(Y,Z) -> in(X,Z)\\n' > rules.txt");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (cases[i].made_with != NULL &&
            (sweep->only == NULL || !strcmp(sweep->only, cases[i].name))) {
            remove_tree("out");
            run_well(sweep, cases[i].made_with);
            shell("mv out ../%s", cases[i].name);
        }
    }
}

// Divides the allocations of one command among processes. Returns the number of wrong endings.
static long sweep_case(const Sweep *sweep, const Case *test) {
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    enter(sweep, 0);
    prepare(test);
    Outcome healthy = run(sweep, test->command, "0");
    char *count = read_text(COUNT_FILE, NULL, NULL);
    if (healthy.code != 0 || count == NULL) {
        printf("WRONG: %s: exit code %d without a fault: %s\n", test->name, healthy.code,
               healthy.errors);
        return 1;
    }
    remove_tree("../healthy");
    remove("../" MADE_FILE);
    rename(MADE_FILE, "../" MADE_FILE); // of the few that write one
    if (test->finish != NULL && rename("out", "../healthy") != 0) {
        stop("out");
    }
    int ends[2];
    if (pipe(ends) != 0) {
        stop("pipe");
    }
    fflush(stdout);
    for (int job = 0; job < sweep->n_jobs; job++) {
        if (fork() == 0) {
            enter(sweep, job);
            Tally tally = sweep_share(sweep, test, &healthy, atol(count), job);
            fflush(stdout);
            _exit(write(ends[1], &tally, sizeof tally) == sizeof tally ? 0 : 1);
        }
    }
    close(ends[1]);
    Tally all = {0}, tally;
    int n_told = 0;
    for (; read(ends[0], &tally, sizeof tally) == sizeof tally; n_told++) {
        all.n_harmless += tally.n_harmless;
        all.n_errors += tally.n_errors;
        all.n_lost += tally.n_lost;
        all.n_foreign += tally.n_foreign;
        all.n_wrong += tally.n_wrong;
    }
    close(ends[0]);
    while (wait(NULL) > 0) {
    }
    if (n_told != sweep->n_jobs) {
        stop("%s: a process of the sweep itself failed", test->name);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%-20s %8ld %8ld %9ld %8ld %8ld %8ld %8ld %6ld s\n", test->name, atol(count),
           all.n_harmless + all.n_errors + all.n_lost + all.n_foreign + all.n_wrong, all.n_harmless,
           all.n_errors, all.n_lost, all.n_foreign, all.n_wrong, (long)(end.tv_sec - begin.tv_sec));
    fflush(stdout);
    free(count);
    forget(&healthy);
    return all.n_wrong;
}

int main(int argc, char **argv) {
    Sweep sweep = {.n_jobs = 2, .stride = 1, .offset = 1};
    if (argc < 3) {
        fprintf(stderr, "usage: allocation_sweep ESPER FAULT_LIBRARY [--samples N] [--stride N] "
                        "[--offset N] [--jobs N] [--only NAME]\n");
        return 2;
    }
    sweep.esper = realpath(argv[1], NULL);
    sweep.library = realpath(argv[2], NULL);
    for (int i = 3; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--samples") == 0) {
            sweep.n_samples = atol(argv[i + 1]);
        } else if (strcmp(argv[i], "--stride") == 0) {
            sweep.stride = atol(argv[i + 1]);
        } else if (strcmp(argv[i], "--offset") == 0) {
            sweep.offset = atol(argv[i + 1]);
        } else if (strcmp(argv[i], "--jobs") == 0) {
            sweep.n_jobs = atoi(argv[i + 1]);
        } else if (strcmp(argv[i], "--only") == 0) {
            sweep.only = argv[i + 1];
        }
    }
    // thousands of runs that wait for a disk would take hours
    const char *folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(sweep.root, sizeof sweep.root, "%s/allocation_sweep.XXXXXX", folder);
    if (sweep.esper == NULL || sweep.library == NULL || mkdtemp(sweep.root) == NULL) {
        stop("%s, %s or %s", argv[1], argv[2], sweep.root);
    }
    static char lines[8192];
    setvbuf(stdout, lines, _IOLBF, sizeof lines); // of several processes, each whole
    make_inputs(&sweep);
    printf("%-20s %8s %8s %9s %8s %8s %8s %8s\n", "command", "allocs", "tried", "harmless",
           "errors", "lost", "foreign", "wrong");
    long n_wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (sweep.only == NULL || strcmp(sweep.only, cases[i].name) == 0) {
            n_wrong += sweep_case(&sweep, &cases[i]);
        }
    }
    if (chdir("/") == 0) {
        remove_tree(sweep.root);
    }
    printf("allocation_sweep: %ld wrong\n", n_wrong);
    return n_wrong > 0;
}
