"""Let TensorBoard's own reader load what the sink wrote: one session, then one that was resumed.

usage: read_tensorboard.py TENSORBOARD_SINK_TEST      exit code 77: the package tensorboard is not installed
"""
import math
import os
import subprocess
import sys
import tempfile

try:
    import tensorboard
    from tensorboard.backend.event_processing import event_accumulator, event_file_loader
except ImportError as problem:
    print(f"skipped: {problem}")
    sys.exit(77)

HOSTILE = "hostile/\ufffd\ufffd tag"
failures = []


def expect(what, seen, expected):
    if seen != expected:
        failures.append(what)
        print(f"{what} is {seen!r}, expected {expected!r}")


def export(program, folder, is_resumed):
    environment = dict(os.environ, ES_TEST_EXPORT=folder)
    if is_resumed:
        environment["ES_TEST_RESUME"] = "1"
    subprocess.run([program, "export_for_reader"], env=environment, check=True, stdout=subprocess.DEVNULL)


def load_raw(folder):
    """Every event of every file, files in the order of their names."""
    events = []
    for name in sorted(os.listdir(folder)):
        events += event_file_loader.RawEventFileLoader(os.path.join(folder, name)).Load()
    return len(events)


def load(folder):
    accumulator = event_accumulator.EventAccumulator(folder, size_guidance={event_accumulator.TENSORS: 0})
    accumulator.Reload()
    tags = accumulator.Tags()
    curves = {}
    for tag in tags["scalars"]:
        curves[tag] = [(event.step, event.value) for event in accumulator.Scalars(tag)]
    for tag in tags["tensors"]:
        curves[tag] = [(event.step, event.tensor_proto.float_val[0]) for event in accumulator.Tensors(tag)]
    return curves


def check_first(curves):
    expect("tags", sorted(curves), sorted(["losses/value_loss", "charts/SPS", "only/first", HOSTILE, "sometimes"]))
    expect("steps", [step for step, _ in curves["charts/SPS"]], list(range(1, 201)))
    expect("values", [value for _, value in curves["charts/SPS"]], [1000.0 + step for step in range(1, 201)])
    expect("steps with a value", [step for step, _ in curves["sometimes"]], list(range(2, 201, 2)))
    not_finite = [value for _, value in curves[HOSTILE]]
    expect("NaN at", [step + 1 for step, value in enumerate(not_finite) if math.isnan(value)], [7])
    expect("infinities", sum(math.isinf(value) for value in not_finite), 199)


def check_resumed(curves):
    """The first file had rounds up to 200; the second starts after 150 and ends at 160."""
    kept = [(step, 1000.0 + step) for step in range(1, 151)]
    expect("resumed curve", curves["charts/SPS"], kept + [(step, 5.0) for step in range(151, 161)])
    expect("purged curve", [step for step, _ in curves["only/first"]], list(range(1, 151)))


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as resumed:
        export(program, first, is_resumed=False)
        curves = load(first)
        check_first(curves)
        n_first = load_raw(first)
        expect("records", n_first, 1 + 200)
        export(program, resumed, is_resumed=True)
        resumed_curves = load(resumed)
        check_resumed(resumed_curves)
        n_resumed = load_raw(resumed)
        expect("records of both files", n_resumed, 1 + 200 + 2 + 10)
    n_points = sum(len(curve) for curve in curves.values())
    n_resumed_points = sum(len(curve) for curve in resumed_curves.values())
    print(f"tensorboard {tensorboard.__version__}: {n_first} records, {n_points} points in {len(curves)} curves; "
          f"resumed: {n_resumed} records, {n_resumed_points} points")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
