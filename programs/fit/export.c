// `esper export`: a grown network for other programs: ONNX, C99, PyTorch.
#include <stdio.h>

#include "base/macros.h"
#include "cli/options.h"
#include "esper/network.h"

static const char summary[] =
    "Write a grown network for other programs. NETWORK is a folder with network.json and\n"
    "network.safetensors, one of these files, or a run of `esper fit` (or `esper grow\n"
    "--keep-best`), whose best network is taken. Every export takes plain inputs, pixels 0..255 or "
    "columns as "
    "measured,\n"
    "and normalises inside:\n\n"
    "  --onnx   opset 17; input float32 [N, C, H, W], rows [N, C], any N; output \"logits\"\n"
    "  --c      DIR/NAME.c and NAME.h: C99 with weights and static memory, no malloc, libm alone;\n"
    "           int NAME_predict(const float *input, float *logits) returns the class\n"
    "  --torch  a module that reads network.safetensors and needs torch alone";

typedef struct ExportCommand {
    const char *onnx, *c, *torch, *name;
    const char *data; // with is_int8
    int is_int8;
} ExportCommand;

static EsStatus write_int8(const ExportCommand *command, EsNetwork *network) {
    EsNetworkInt8 report;
    ES_TRY(es_network_export_int8(network, command->c, command->name, command->data, &report));
    es_print("%lld validation samples of %s: %.2f %% with floats, %.2f %% with 8 bits (%+.2f "
             "points)\n",
             (long long)report.n_samples, command->data, report.float_accuracy,
             report.int8_accuracy, report.int8_accuracy - report.float_accuracy);
    return ES_STATUS_OK;
}

static EsStatus write_all(const ExportCommand *command, const char *path) {
    EsNetwork *network = NULL;
    EsStatus status = ES_STATUS_OK;
    const struct {
        EsNetworkFormat format;
        const char *path, *name;
    } exports[] = {{ES_NETWORK_ONNX, command->onnx, NULL},
                   {ES_NETWORK_C99, command->c, command->name},
                   {ES_NETWORK_TORCH, command->torch, NULL}};
    ES_TRY_GOTO(es_network_open(path, 0, &network));
    for (size_t i = 0; i < ES_COUNT_OF(exports); i++) {
        if (exports[i].path == NULL) {
            continue;
        }
        if (exports[i].format == ES_NETWORK_C99 && command->is_int8) {
            ES_TRY_GOTO(write_int8(command, network));
        } else {
            ES_TRY_GOTO(
                es_network_export(network, exports[i].format, exports[i].path, exports[i].name));
        }
        es_message("wrote %s%s%s%s\n", exports[i].path, exports[i].name != NULL ? "/" : "",
                   exports[i].name != NULL ? exports[i].name : "",
                   exports[i].name != NULL ? ".c and .h" : "");
    }
    if (command->torch != NULL) {
        es_message("it reads network.safetensors beside it, or Network(path)\n");
    }
done:
    es_network_close(network);
    return status;
}

EsExit cmd_export(int argc, char **argv) {
    ExportCommand command;
    EsArguments arguments;
    EsExit code;
    const EsOption options[] = {
        ES_OPTION_TEXT("onnx", &command.onnx, NULL, "FILE", "write an ONNX model"),
        ES_OPTION_TEXT("c", &command.c, NULL, "DIR", "write C99 for a microcontroller"),
        ES_OPTION_TEXT("name", &command.name, "network", "NAME", "with --c: begins all its names"),
        ES_OPTION_FLAG("int8", &command.is_int8,
                       "with --c: weights and activations in 8 bits; prints what that costs"),
        ES_OPTION_TEXT("data", &command.data, NULL, "DATA",
                       "with --int8: the data set, whose validation samples give the scales"),
        ES_OPTION_TEXT("torch", &command.torch, NULL, "FILE", "write a PyTorch module"),
    };
    const EsOptionTable table = {
        .command = "export",
        .usage = "NETWORK [options]",
        .summary = summary,
        .example = "esper export runs/first/networks/1 --onnx network.onnx --c firmware",
        .options = options,
        .n_options = ES_COUNT_OF(options),
        .max_positional = 1,
    };
    if (!es_options_begin(&table, argc, argv, &arguments, &code)) {
        return code;
    }
    if (arguments.n_positional != 1) {
        return es_command_finish("export", ES_FAIL(ARGUMENT, "which network? name its folder"));
    }
    if (command.onnx == NULL && command.c == NULL && command.torch == NULL) {
        return es_command_finish(
            "export", ES_FAIL(ARGUMENT, "export as what? --onnx FILE, --c DIR or --torch FILE"));
    }
    if (command.c == NULL) {
        es_options_note_unused(&table, &arguments, "name int8", "without --c");
    } else if (command.is_int8 && command.data == NULL) {
        return es_command_finish(
            "export", ES_FAIL(ARGUMENT, "--int8 needs --data: its samples give the scales"));
    }
    if (!command.is_int8) {
        es_options_note_unused(&table, &arguments, "data", "without --int8");
    }
    return es_command_finish("export", write_all(&command, arguments.positional[0]));
}
