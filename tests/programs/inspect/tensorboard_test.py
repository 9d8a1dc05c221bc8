"""Read the event files of runs of every kind with a reader of its own, and compare them with run.db and config.ini.

usage: tensorboard_test.py ESPER CONFIGS

The reader knows frames, checksums and protobuf's wire format, and nothing of the sink. read_tensorboard.py does the
same with TensorBoard's own reader, where that is installed.
"""
import configparser
import csv
import glob
import io
import os
import struct
import subprocess
import sys
import tempfile

failures = []
GROW = ["grow", "--task", "tiny", "--data", "tiny", "--envs", "4", "--grow.policy=ppo", "--hidden", "8",
        "--grow.episode_steps=6", "--grow.step_batches=1", "--grow.validation_images=50", "--evaluate.episodes=4",
        "--evaluate.against=wait,wider", "--checkpoint.every=2"]
FIT = ["fit", "--data", "tiny", "--task", "tiny", "--candidates", "2", "--epoch-batches", "2", "--policy", "random",
       "--epochs", "6"]


def expect(what, seen, expected):
    if seen != expected:
        failures.append(what)
        print(f"{what} is {seen!r}, expected {expected!r}")


# --- the reader ---

TABLE = []
for number in range(256):
    for _ in range(8):
        number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
    TABLE.append(number)


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """{field: [values]} of a message; nested messages and texts stay bytes."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 1:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        elif key & 7 == 5:
            value, at = struct.unpack_from("<f", data, at)[0], at + 4
        else:
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
            assert len(value) == length
        found.setdefault(key >> 3, []).append(value)
    assert at == len(data)
    return found


def events(folder):
    """All events of a folder's files, in the order of their names."""
    for path in sorted(glob.glob(os.path.join(folder, "events.out.tfevents.*"))):
        with open(path, "rb") as stream:
            data = stream.read()
        at = 0
        while at < len(data):
            length, checksum = struct.unpack_from("<QI", data, at)
            expect("checksum of a length", masked_crc(data[at:at + 8]), checksum)
            message = data[at + 12:at + 12 + length]
            expect("checksum of a record", masked_crc(message), struct.unpack_from("<I", data, at + 12 + length)[0])
            at += 16 + length
            yield fields(message)


def read(folder):
    """Curves {tag: [(step, value)]}, plugins {tag: [(plugin, content, tensor)]}, steps of session starts."""
    curves, plugins, starts = {}, {}, []
    for event in events(folder):
        step = event.get(2, [0])[0]
        if 7 in event:
            starts.append(step)
            for tag in curves:
                curves[tag] = [point for point in curves[tag] if point[0] < step]
        for summary in event.get(5, []):
            for value in fields(summary).get(1, []):
                value = fields(value)
                tag = value[1][0].decode()
                if 2 in value:
                    curves.setdefault(tag, []).append((step, value[2][0]))
                else:
                    data = fields(fields(value[9][0])[1][0])
                    plugins.setdefault(tag, []).append((data[1][0].decode(), data[2][0], fields(value[8][0])))
    return curves, plugins, starts


# --- the checks ---

def single(value):
    return struct.unpack("f", struct.pack("f", value))[0]


class Case:
    def __init__(self, esper, folder):
        self.esper, self.folder = esper, folder

    def run(self, name, *words, goes_on=False):
        path = os.path.join(self.folder, name)
        place = ["--resume", path] if goes_on else ["--out", path]
        command = [self.esper, *words, *place, "--threads", "1", "--quiet"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        expect(f"exit code of {command}: {result.stderr}", result.returncode, 0)
        return path

    def ask(self, name, sql):
        """Rows of numbers; NULL is None."""
        result = subprocess.run([self.esper, "query", os.path.join(self.folder, name), sql, "--csv", "--limit", "0"],
                                capture_output=True, text=True, check=True)
        rows = list(csv.reader(io.StringIO(result.stdout)))[1:]
        return [tuple(float(cell) if cell else None for cell in row) for row in rows]


def check_settings(path, plugins):
    """Text and hyperparameters against config.ini."""
    with open(os.path.join(path, "config.ini"), encoding="utf-8") as stream:
        text = stream.read()
    plugin, _, tensor = plugins["configuration"][-1]
    expect("plugin of the configuration", plugin, "text")
    expect("configuration", tensor[8][0].decode(), "".join(f"    {line}\n" for line in text.splitlines()))
    config = configparser.ConfigParser(interpolation=None)
    config.read_string(text)
    wanted = {f"{section}.{key}": value for section in config.sections() for key, value in config[section].items()
              if value and section not in ("telemetry", "checkpoint")}
    content = {tag: fields(plugins[f"_hparams_/{tag}"][-1][1]) for tag in
               ("experiment", "session_start_info", "session_end_info")}
    start = fields(content["session_start_info"][3][0])
    seen = {}
    for entry in start[1]:
        entry = fields(entry)
        value = fields(entry[2][0])
        seen[entry[1][0].decode()] = (value[3][0].decode() if 3 in value else value[2][0] if 2 in value
                                      else ("false", "true")[value[4][0]])
    expect("names of settings", sorted(seen), sorted(wanted))
    for name, value in seen.items():
        same = value == wanted[name] if isinstance(value, str) else value == float(wanted[name])
        expect(f"setting {name} = {value!r}, {wanted[name]!r}", same, True)
    expect("a setting that is a number", isinstance(seen["run.seed"], float), True)
    experiment = fields(content["experiment"][2][0])
    infos = {fields(info)[1][0].decode(): fields(info)[4][0] for info in experiment[4]}
    expect("names of the experiment", sorted(infos), sorted(wanted))
    expect("types", all((infos[name] == 3) == isinstance(value, float) for name, value in seen.items()), True)
    expect("outcome", fields(content["session_end_info"][4][0])[1], [1])
    return {fields(fields(info)[1][0])[2][0].decode() for info in experiment[5]}


TASKS = ["grow", "--envs", "6", "--grow.validation_images=60", "--grow.pace=swift", "--tasks.groups=2", "--tasks.blocks=2",
         "--tasks.base=2..3", "--tasks.kernel=3", "--tasks.pools=1", "--tasks.slots=1..3", "--tasks.image_size=8,12",
         "--tasks.classes=2..4", "--tasks.images=200", "--tasks.batch=16", "--tasks.step_batches=2", "--tasks.steps=20..24",
         "--tasks.budget=1.5..6", "--reward.mode=budget", "--policy.version=2", "--policy.hidden=16", "--ppo.n_epochs=2",
         "--evaluate.episodes=0", "--grow.policy=ppo"]


def check_tasks(case):
    """Groups of tasks have outcomes in a packet each, and hosts of different sizes."""
    path = case.run("tasks", *TASKS, "--rounds", "2")
    curves, _, _ = read(os.path.join(path, "tensorboard/env_steps"))
    ratios = case.ask("tasks", "SELECT avg(parameter_ratio) FROM event_episode_outcome WHERE arm IS NULL GROUP BY round")
    expect("ratios of tasks", [round(value, 3) for _, value in curves["growth/parameter_ratio"]],
           [round(row[0], 3) for row in ratios])
    expect("sizes of tasks", "growth/parameters" in curves, False)


def check_grow(case):
    path = case.run("grow", *GROW, "--rounds", "4")
    case.run("grow", "grow", "--rounds", "6", goes_on=True)
    curves, plugins, starts = read(os.path.join(path, "tensorboard"))
    metrics = check_settings(path, plugins)
    expect("starts by round", starts, [5])
    expect("rounds", curves["esper.round.accuracy"],
           [(int(x), single(y)) for x, y in case.ask("grow", "SELECT round, accuracy FROM event_round_completed")])
    expect("no curves by step among those by round", [tag for tag in curves if tag.startswith("growth/")], [])
    curves, _, starts = read(os.path.join(path, "tensorboard/env_steps"))
    rows = case.ask("grow", "SELECT sum(b.n_steps), a.total_steps, a.accuracy, a.reward, a.loss, a.n_seeds, a.n_fossils"
                            " FROM event_round_completed a JOIN event_round_completed b ON b.round <= a.round"
                            " GROUP BY a.round")
    expect("steps", [row[0] for row in rows], [row[1] for row in rows])
    expect("starts by step", starts, [int(rows[3][0]) + 1])
    for i, name in enumerate(("accuracy", "reward", "loss", "seeds", "fossils")):
        expect(f"growth/{name}", curves[f"growth/{name}"], [(int(row[0]), single(row[2 + i])) for row in rows])
    ratios = case.ask("grow", "SELECT avg(parameter_ratio), avg(parameter_ratio) * 438 FROM event_episode_outcome "
                              "WHERE arm IS NULL GROUP BY round")
    for i, name in enumerate(("parameter_ratio", "parameters")):
        seen = [value for _, value in curves[f"growth/{name}"]]
        expect(f"growth/{name}", [round(value, 3) for value in seen], [round(row[i], 3) for row in ratios])
    for variant in ("ppo", "wait", "wider"):
        (test, held_out), = case.ask("grow", "SELECT avg(test_accuracy), avg(final_accuracy) FROM "
                                             f"event_episode_outcome WHERE arm = '{variant}'")
        for name, value in (("test_accuracy", test), ("held_out_accuracy", held_out)):
            for tag in [f"growth/{name}/{variant}"] + [f"growth/{name}"] * (variant == "ppo"):
                expect(tag, [(s, round(v, 4)) for s, v in curves[tag][-1:]], [(int(rows[-1][0]), round(value, 4))])
    expect("results beside the settings", {"growth/test_accuracy", "growth/parameter_ratio"} <= metrics, True)


def check_without_database(case):
    """The steps of earlier sessions come from the checkpoint."""
    path = case.run("bare", *GROW, "--rounds", "2", "--telemetry.sqlite=off")
    case.run("bare", "grow", "--rounds", "4", goes_on=True)
    curves, _, starts = read(os.path.join(path, "tensorboard/env_steps"))
    expect("steps without a database", [step for step, _ in curves["growth/accuracy"]], [24, 48, 72, 96])
    expect("starts without a database", starts, [49])


def check_others(case, configs):
    last = "SELECT value FROM metrics WHERE name = '{}' ORDER BY round DESC LIMIT 1"
    path = case.run("fit", *FIT)
    curves, plugins, _ = read(os.path.join(path, "tensorboard"))
    check_settings(path, plugins)
    curves, _, _ = read(os.path.join(path, "tensorboard/env_steps"))
    for tag, metric in (("validation_accuracy", "esper.fit.best_accuracy"),
                        ("test_accuracy", "esper.fit.test_accuracy"), ("parameters", "esper.fit.parameters")):
        (value,), = case.ask("fit", last.format(metric))
        expect(f"growth/{tag} of the fit", curves[f"growth/{tag}"][-1][1], single(value))
    path = case.run("hosts", "hosts", "--task", "tiny", "--data", "tiny", "--envs", "2", "--rounds", "2")
    check_settings(path, read(os.path.join(path, "tensorboard"))[1])
    curves, _, _ = read(os.path.join(path, "tensorboard/env_steps"))
    (value,), = case.ask("hosts", last.format("esper.hosts.test_accuracy"))
    expect("test accuracy of hosts", curves["growth/test_accuracy"], [(4, single(value))])
    config = os.path.join(configs, "prove_generated.ini")
    path = case.run("prove", "prove", "train", "--config", config, "--rounds", "3")
    check_settings(path, read(os.path.join(path, "tensorboard"))[1])
    curves, _, _ = read(os.path.join(path, "tensorboard/env_steps"))
    rows = case.ask("prove", "SELECT total_steps, accuracy FROM event_round_completed ORDER BY round")
    expect("proof/accuracy", curves["proof/accuracy"], [(int(x), single(y)) for x, y in rows])


def main():
    esper, configs = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    expect("checksum of RFC 3720", masked_crc(bytes(32)), ((0x8A9136AA >> 15 | 0x8A9136AA << 17) + 0xA282EAD8)
           & 0xFFFFFFFF)
    with tempfile.TemporaryDirectory() as folder:
        case = Case(esper, folder)
        check_grow(case)
        check_tasks(case)
        check_without_database(case)
        check_others(case, configs)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
