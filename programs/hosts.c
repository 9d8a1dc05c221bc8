// `esper hosts`: trains hosts side by side without growing them, and prints what they reach: the
// starting point that growth has to beat.
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "command.h"
#include "growth/host_trainer.h"
#include "options.h"

typedef struct HostsOptions {
    const char *task, *data, *folder, *device, *precision;
    int n_envs, n_epochs, batch, base, n_blocks, n_threads, seed, data_seed, pad, flip;
    int as_json, is_quiet, unfused;
    double rate;
} HostsOptions;

// Ctrl-C ends the run after the epoch at hand; the table is still printed.
static volatile sig_atomic_t is_interrupted;

static void note_interrupt(int signal_number) {
    (void)signal_number;
    static const char text[] = "\nfinishing this epoch; Ctrl-C again quits at once\n";
    if (is_interrupted) {
        _exit(ES_EXIT_INTERRUPTED);
    }
    is_interrupted = 1;
    // nothing can be done about a failure here
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) {
        return;
    }
}

typedef struct Run {
    const HostsOptions *options;
    EsHostSpec host;
    EsDevice *device;         // owned
    EsDataset dataset;        // owned
    EsHostTrainer *trainer;   // owned
    EsHostResult *validation; // owned [E]
    EsHostResult *test;       // owned [E]
    int n_epochs_done;
    double train_seconds;
} Run;

// The data set asked for; the host takes on the size of its images.
static EsStatus open_dataset(Run *run, EsThreadPool *pool) {
    const HostsOptions *options = run->options;
    const char *name = options->data != NULL ? options->data : run->host.dataset;
    int is_read = strcmp(name, "cifar10") == 0 || strcmp(name, "idx") == 0;
    const char *folder = options->folder != NULL ? options->folder : getenv("ES_DATA_DIR");
    if (is_read && (folder == NULL || folder[0] == '\0')) {
        return ES_FAIL(ARGUMENT, "data set \"%s\" needs --folder or ES_DATA_DIR", name);
    }
    if (!is_read && options->folder != NULL) {
        return ES_FAIL(ARGUMENT,
                       "--folder has no use for data set \"%s\", which is generated; "
                       "--data cifar10 and --data idx read files",
                       name);
    }
    EsDatasetOptions wanted = {.seed = (uint64_t)options->data_seed, .folder = folder};
    ES_TRY(es_dataset_create(&run->dataset, name, &wanted, pool));
    if (run->dataset.height != run->dataset.width) {
        return ES_FAIL(INPUT, "hosts take square images, data set \"%s\" has %d x %d", name,
                       run->dataset.height, run->dataset.width);
    }
    run->host.image_channels = run->dataset.n_channels;
    run->host.image_size = run->dataset.height;
    run->host.n_classes = run->dataset.n_classes;
    return ES_STATUS_OK;
}

static EsStatus begin_run(Run *run) {
    const HostsOptions *options = run->options;
    ES_TRY(es_host_preset(options->task, &run->host));
    if (options->base > 0) {
        run->host.base = options->base;
    }
    if (options->n_blocks > 0) {
        run->host.n_blocks = run->host.n_pools = options->n_blocks;
    }
    int is_bf16 = strcmp(options->precision, "bf16") == 0;
    if (!is_bf16 && strcmp(options->precision, "f32") != 0) {
        return ES_FAIL(ARGUMENT, "precision \"%.100s\" is not f32 or bf16", options->precision);
    }
    EsDeviceOptions device_options = {.n_threads = options->n_threads};
    ES_TRY(es_device_open(options->device, &device_options, &run->device));
    EsThreadPool *pool = NULL;
    ES_TRY(es_thread_pool_create(&pool, options->n_threads));
    EsStatus status = open_dataset(run, pool);
    es_thread_pool_destroy(pool);
    ES_TRY(status);
    ES_TRY(es_host_check(&run->host));

    EsHostTrainerOptions trainer = es_host_trainer_defaults(&run->host, options->n_envs);
    trainer.batch = options->batch > 0 ? options->batch : run->host.batch;
    trainer.seed = (uint64_t)options->seed;
    trainer.precision = is_bf16 ? ES_DTYPE_BF16 : ES_DTYPE_F32;
    trainer.pad = options->pad;
    trainer.flip = options->flip;
    trainer.mode = options->unfused ? ES_COMPILE_OFF : ES_COMPILE_DEFAULT;
    trainer.optimiser.rate = (float)options->rate;
    if (trainer.batch > run->dataset.train.count) {
        return ES_FAIL(ARGUMENT, "a batch of %lld is larger than the %lld training images",
                       (long long)trainer.batch, (long long)run->dataset.train.count);
    }
    ES_TRY(es_host_trainer_create(&trainer, &run->dataset, run->device, &run->trainer));
    ES_TRY(es_allocate(sizeof(EsHostResult) * (size_t)options->n_envs, (void **)&run->validation));
    return es_allocate(sizeof(EsHostResult) * (size_t)options->n_envs, (void **)&run->test);
}

static void end_run(Run *run) {
    es_host_trainer_destroy(run->trainer);
    es_dataset_destroy(&run->dataset);
    es_device_close(run->device);
    es_release(run->validation);
    es_release(run->test);
}

static double mean_accuracy(const EsHostResult *results, int n, double *spread) {
    double sum = 0, squares = 0;
    for (int i = 0; i < n; i++) {
        sum += results[i].accuracy;
        squares += results[i].accuracy * results[i].accuracy;
    }
    double mean = sum / n;
    double variance = n > 1 ? (squares - sum * mean) / (n - 1) : 0;
    *spread = sqrt(variance > 0 ? variance : 0);
    return mean;
}

static void print_progress(const Run *run, double loss) {
    const HostsOptions *options = run->options;
    int64_t batch = options->batch > 0 ? options->batch : run->host.batch;
    int64_t per_epoch = run->dataset.train.count / batch * batch * options->n_envs;
    double rate = (double)(per_epoch * run->n_epochs_done) / run->train_seconds, spread = 0;
    double accuracy = mean_accuracy(run->validation, options->n_envs, &spread);
    int remaining = options->n_epochs - run->n_epochs_done;
    if (options->is_quiet) {
        return;
    }
    fprintf(stderr, "epoch %3d/%d  loss %.4f  validation %5.2f %%  %8.0f images/s  %4.0f s left\n",
            run->n_epochs_done, options->n_epochs, loss, accuracy, rate,
            remaining * run->train_seconds / run->n_epochs_done);
}

static EsStatus train(Run *run) {
    const HostsOptions *options = run->options;
    int64_t batch = options->batch > 0 ? options->batch : run->host.batch;
    int64_t n_steps = run->dataset.train.count / batch;
    while (run->n_epochs_done < options->n_epochs && !is_interrupted) {
        int64_t start_ns = es_clock_ns();
        ES_TRY(es_host_trainer_train(run->trainer, n_steps));
        ES_TRY(es_host_trainer_wait(run->trainer));
        run->train_seconds += es_clock_seconds_since(start_ns);
        run->n_epochs_done++;
        ES_TRY(es_host_trainer_last_batch(run->trainer, run->validation));
        double loss = 0;
        for (int e = 0; e < options->n_envs; e++) {
            loss += run->validation[e].loss / options->n_envs;
        }
        ES_TRY(es_host_trainer_evaluate(run->trainer, &run->dataset.validation, run->validation));
        print_progress(run, loss);
    }
    return es_host_trainer_evaluate(run->trainer, &run->dataset.test, run->test);
}

static void print_table(const Run *run) {
    const HostsOptions *options = run->options;
    double validation_spread = 0, test_spread = 0;
    double validation = mean_accuracy(run->validation, options->n_envs, &validation_spread);
    double test = mean_accuracy(run->test, options->n_envs, &test_spread);
    printf("%d x %s, %lld parameters each, data set \"%s\", %d epochs, seed %d\n", options->n_envs,
           run->host.name, (long long)es_graph_parameter_count(es_host_trainer_graph(run->trainer)),
           run->dataset.name, run->n_epochs_done, options->seed);
    printf("host   validation loss   validation %%   test %%\n");
    for (int e = 0; e < ES_MIN(options->n_envs, 16); e++) {
        printf("%4d   %15.4f   %12.2f   %6.2f\n", e, run->validation[e].loss,
               run->validation[e].accuracy, run->test[e].accuracy);
    }
    if (options->n_envs > 16) {
        printf("        (%d more)\n", options->n_envs - 16);
    }
    printf("mean                     %12.2f   %6.2f\n", validation, test);
    printf("std                      %12.2f   %6.2f\n", validation_spread, test_spread);
}

// A number, or null where a host has diverged: JSON has no NaN.
static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static EsStatus print_json(const Run *run) {
    json_t *hosts = json_array();
    int is_complete = hosts != NULL;
    for (int e = 0; e < run->options->n_envs && is_complete; e++) {
        json_t *host = json_pack("{s:i, s:o, s:o, s:o}", "host", e, "validation_loss",
                                 number(run->validation[e].loss), "validation_accuracy",
                                 number(run->validation[e].accuracy), "test_accuracy",
                                 number(run->test[e].accuracy));
        is_complete = host != NULL && json_array_append_new(hosts, host) == 0;
    }
    json_t *root = json_pack(
        "{s:s, s:s, s:I, s:i, s:i, s:f, s:o}", "task", run->host.name, "data", run->dataset.name,
        "parameters", (json_int_t)es_graph_parameter_count(es_host_trainer_graph(run->trainer)),
        "seed", run->options->seed, "epochs", run->n_epochs_done, "train_seconds",
        run->train_seconds, "hosts", hosts);
    is_complete = is_complete && root != NULL && json_dumpf(root, stdout, JSON_INDENT(1)) == 0 &&
                  printf("\n") == 1;
    json_decref(root);
    return is_complete ? ES_STATUS_OK : ES_FAIL(IO, "cannot write the result as JSON");
}

// Hosts whose numbers are no longer finite, told once at the end.
static void warn_diverged(const Run *run) {
    int n_diverged = 0;
    for (int e = 0; e < run->options->n_envs; e++) {
        n_diverged += !isfinite(run->validation[e].loss);
    }
    if (n_diverged > 0) {
        fprintf(stderr,
                "warning: %d of %d hosts diverged (their loss is not finite); try a lower --rate\n",
                n_diverged, run->options->n_envs);
    }
}

static EsStatus run_hosts(const HostsOptions *options) {
    Run run = {.options = options};
    signal(SIGINT, note_interrupt);
    EsStatus status = begin_run(&run);
    if (status == ES_STATUS_OK) {
        char text[512];
        es_dataset_describe(&run.dataset, text, sizeof text);
        if (!options->is_quiet) {
            fprintf(stderr, "%s\n", text);
        }
        status = train(&run);
        warn_diverged(&run);
    }
    if (status == ES_STATUS_OK && run.n_epochs_done > 0) {
        if (options->as_json) {
            status = print_json(&run);
        } else {
            print_table(&run);
        }
    }
    end_run(&run);
    if (status == ES_STATUS_OK && is_interrupted) {
        return ES_FAIL(INTERRUPTED, "interrupted after %d of %d epochs", run.n_epochs_done,
                       options->n_epochs);
    }
    return status;
}

static void print_tasks(void) {
    printf("\nhosts:\n");
    for (int i = 0; i < es_host_preset_count(); i++) {
        const EsHostSpec *host = es_host_preset_at(i);
        printf(
            "  %-24s blocks %d, first channels %d, kernel %dx%d, pools %d, batch %d, data \"%s\"\n",
            host->name, host->n_blocks, host->base, host->kernel, host->kernel, host->n_pools,
            host->batch, host->dataset);
    }
}

EsExit es_hosts_run(int argc, char **argv) {
    HostsOptions wanted;
    const EsOption options[] = {
        ES_OPTION_TEXT("task", &wanted.task, "tiny", "NAME", "host and its data set, listed below"),
        ES_OPTION_INT("envs", &wanted.n_envs, "8", 1, 4096, "N", "hosts trained side by side"),
        ES_OPTION_INT("epochs", &wanted.n_epochs, "20", 1, 100000, "N", "passes over the data"),
        ES_OPTION_INT("batch", &wanted.batch, "0", 0, 65536, "N",
                      "images per step, 0 = the task's"),
        ES_OPTION_FLOAT("rate", &wanted.rate, "0.01", 1e-9, 1e3, "X", "learning rate of SGD"),
        ES_OPTION_INT("pad", &wanted.pad, "0", 0, 16, "N", "random crop from a border of N pixels"),
        ES_OPTION_FLAG("flip", &wanted.flip, "random horizontal flip"),
        ES_OPTION_INT("base", &wanted.base, "0", 0, 1024, "N",
                      "channels of the first block, 0 = the task's"),
        ES_OPTION_INT("blocks", &wanted.n_blocks, "0", 0, 12, "N",
                      "blocks, each with a pool, 0 = the task's"),
        ES_OPTION_TEXT("data", &wanted.data, NULL, "NAME",
                       "tiny, generated, cifar10 or idx instead of the task's"),
        ES_OPTION_TEXT("folder", &wanted.folder, NULL, "DIR",
                       "where cifar10 or idx files are (default: ES_DATA_DIR)"),
        ES_OPTION_TEXT("device", &wanted.device, "cpu", "NAME", "cpu, cuda or cuda:N"),
        ES_OPTION_TEXT("precision", &wanted.precision, "f32", "P", "f32, or bf16 on CUDA"),
        ES_OPTION_INT("threads", &wanted.n_threads, "0", 0, 1024, "N",
                      "CPU threads, 0 = one per processor"),
        ES_OPTION_INT("seed", &wanted.seed, "42", 0, 2147483647, "N", "seed of the run"),
        ES_OPTION_INT("data-seed", &wanted.data_seed, "1", 0, 2147483647, "N",
                      "seed of a generated data set"),
        ES_OPTION_FLAG("quiet", &wanted.is_quiet, "no progress on stderr"),
        ES_OPTION_FLAG("unfused", &wanted.unfused, "run operation by operation, for debugging"),
        ES_OPTION_FLAG("json", &wanted.as_json, "print the result as JSON"),
    };
    const EsOptionTable table = {
        .command = "hosts",
        .usage = "[options]",
        .summary = "Train hosts side by side without growing them, each from its own start and in "
                   "its own\norder of the samples, and print what they reach. Hosts of one shape "
                   "differ later, in their\nslots. Ctrl-C ends after the epoch at hand.",
        .example = "esper hosts --task cifar_baseline --envs 3 --epochs 20",
        .options = options,
        .n_options = ES_COUNT_OF(options),
    };
    EsArguments arguments;
    EsStatus status = es_options_parse(&table, argc, argv, &arguments);
    if (status == ES_STATUS_OK && arguments.wants_help) {
        es_options_print_help(&table, stdout);
        print_tasks();
        return ES_EXIT_DONE;
    }
    if (status == ES_STATUS_OK) {
        status = run_hosts(&wanted);
    }
    return es_command_finish("hosts", status);
}
