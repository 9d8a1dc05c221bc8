#!/usr/bin/env bash
# Alerts, dashboard and the table of names against a fit with rails: every metric they name is emitted, and every metric
# and trainer event that a fit emits is in the table.
#
# usage: alerts_test.sh PATH_TO_ESPER
set -uo pipefail
esper=$(realpath "$1")
docs=$(cd "$(dirname "$0")/../../../docs" && pwd)
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
cd "$folder" || exit 1

quick=(--data tiny --task tiny --candidates 2 --epoch-batches 2 --policy random --epochs 6 --quiet --rails.on=on)
run 0 fit "${quick[@]}" --out calm
run 1 fit "${quick[@]}" --rails.epoch_budget_ms=0.001 --rails.hook_budget_ms=0.000001 --rails.halt_failures=4 --out halted
run 0 query calm --csv "SELECT DISTINCT name FROM metrics"
tr -d '\r' <<< "$out" | tail -n +2 > metrics
run 0 query halted --csv "SELECT DISTINCT name FROM trainer_events"
tr -d '\r' <<< "$out" | tail -n +2 > events
python3 - "$docs" << 'PYTHON' || fail "names"
import json, re, sys
docs = sys.argv[1]
metrics, events = (set(open(name).read().split()) for name in ("metrics", "events"))
exposed = {re.sub("[^a-zA-Z0-9_:]", "_", name) for name in metrics}
exposed = {name if re.match("(esper|tolaria|kasmina|tamiyo)_", name) else "esper_" + name for name in exposed}
alerts = open(docs + "/alerts.yml").read()
expressions = re.findall(r"^ +expr: (.*)$", alerts, re.M)
board = json.load(open(docs + "/dashboard.json"))
expressions += [target["expr"] for panel in board["panels"] for target in panel["targets"]]
assert len(expressions) > 15, expressions
named = {name for text in expressions for name in re.findall(r"\b(?:tolaria|kasmina|tamiyo|esper)_[a-z0-9_]+", text)}
assert named and named <= exposed, f"not emitted: {sorted(named - exposed)}"
page = open(docs + "/telemetry.md").read()
table = page[page.index("## Names"):page.index("## Example queries")]
missing = [name for name in metrics | events if f"`{name}`" not in table and not name.startswith("esper.fit.epoch_p")]
assert not missing, f"not in docs/telemetry.md, Names: {sorted(missing)}"
book = open(docs + "/runbook.md").read()
missing = [name for name in re.findall(r"alert: (\w+)", alerts) if f"**{name}**" not in book]
assert not missing, f"not in docs/runbook.md: {missing}"
PYTHON
if command -v promtool > /dev/null; then
    promtool check rules "$docs/alerts.yml" || fail "promtool"
else
    python3 - "$docs/alerts.yml" << 'PYTHON' || fail "alerts.yml"
import sys
try:
    import yaml
except ImportError:
    sys.exit(0)
rules = yaml.safe_load(open(sys.argv[1]))["groups"][0]["rules"]
assert all({"alert", "expr", "labels", "annotations"} <= set(rule) for rule in rules), rules
PYTHON
fi
finish
