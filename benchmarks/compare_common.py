"""What the compare scripts share: running `esper bench`, a time limit, records and tables. Standard library alone."""
import argparse
import functools
import json
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
# the fields of a record, in the order of README.md beside this; others follow them
FIELDS = ("suite", "case", "parameters", "metric", "unit", "value", "spread", "samples", "peer", "ratio",
          "commit", "device", "build", "command", "date")


class RunFailed(Exception):
    """A program did not give what it was run for; the text says why."""


class Deadline:
    """Seconds left of what a script may take in all."""

    def __init__(self, limit_s):
        self.start, self.limit_s = time.monotonic(), limit_s

    def spent_s(self):
        return time.monotonic() - self.start

    def left_s(self):
        return self.limit_s - self.spent_s()


def default_esper():
    """The program of the bundle or the build folder that this file lies in."""
    in_bundle = HERE.parent / "bin" / "esper"
    return str(in_bundle if in_bundle.exists() else HERE.parent / "build" / "programs" / "esper")


@functools.lru_cache(maxsize=None)
def gpu_sources():
    """The hash of the GPU sources: written into a bundle, computed in a checkout; None elsewhere."""
    written, tool = HERE.parent / "gpu_sources", HERE.parent / "tools" / "gpu_sources_hash"
    if written.exists():
        return written.read_text().strip()
    result = subprocess.run([tool], check=False, capture_output=True, text=True) if tool.exists() else None
    return result.stdout.strip() if result is not None and result.returncode == 0 else None


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def run_bench(esper, arguments, deadline, may_judge=False):
    """Records of `esper bench ARGUMENTS --json`. With may_judge the program may print records and then fail
    because of what they say: then (records, its message) comes back, else (records, "")."""
    command = [esper, "bench", *map(str, arguments), "--json"]
    line = " ".join(command)
    if deadline.left_s() <= 0:
        raise RunFailed(f"{line}: not run, {deadline.limit_s:.0f} s are over")
    try:
        result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=deadline.left_s())
    except subprocess.TimeoutExpired:
        raise RunFailed(f"{line}: stopped, {deadline.limit_s:.0f} s are over") from None
    except OSError as error:
        raise RunFailed(f"cannot run {esper}: {error.strerror} (--esper)") from None
    message = last_line(result.stderr) if result.returncode != 0 else ""
    if result.returncode != 0 and not (may_judge and result.stdout.strip()):
        raise RunFailed(f"{line}: exit code {result.returncode}: {message}")
    try:
        return json.loads(result.stdout), message
    except ValueError:
        raise RunFailed(f"{line}: its output is not JSON") from None


def pick(records, **wanted):
    """The one record whose fields have these values."""
    for record in records:
        if all(record.get(key) == value for key, value in wanted.items()):
            return record
    raise RunFailed(f"esper bench gave no record with {wanted}")


def quartile_range(values):
    """Interquartile range, as `esper bench` reports it; 0 for fewer than two values."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return high - low


def complete(record, **others):
    """The record with fields in the agreed order and `others` in place of its own or after them."""
    merged = {**record, **others}
    sources = gpu_sources()
    if sources is not None:
        merged["gpu_sources"] = sources
    return {**{field: merged.get(field) for field in FIELDS}, **merged}


def out_path(text):
    """The type of --out: found wanting before anything is measured."""
    path = pathlib.Path(text)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"cannot write {text}")
    return path


def number(value):
    """Four digits or all of the integer part: 0.0521, 61.27, 8,412,345; "-" for None."""
    if value is None:
        return "-"
    decimals = 0 if value >= 1000 or value == int(value) else 1 if value >= 100 else 2 if value >= 1 else 4
    return f"{value:,.{decimals}f}"


def print_table(head, rows):
    """The first column to the left, the others to the right, the last one to the left again."""
    table = [head, *rows]
    widths = [max(len(str(row[i])) for row in table) for i in range(len(head))]
    for row in table:
        cells = [str(cell).ljust(width) if i in (0, len(head) - 1) else str(cell).rjust(width)
                 for i, (cell, width) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())


def against_bar(value, bar, is_lower_better=False):
    if bar is None:
        return ""
    return "reached" if (value <= bar if is_lower_better else value >= bar) else "MISSED"


def finish(script, path, records, failures, deadline):
    """Write the records if there are any, name what failed, and return the exit code."""
    if records:
        path.write_text(json.dumps(records, indent=1) + "\n")
        print(f"\n{len(records)} records in {path}, {deadline.spent_s():.0f} s")
    for failure in failures:
        print(f"{script}: {failure}", file=sys.stderr)
    return 1 if failures else 0
