#!/usr/bin/env bash
# `esper report`: the file holds the numbers of run.db for every kind of run, needs nothing from outside, and shows names
# from outside harmlessly.
#
# usage: report_test.sh PATH_TO_ESPER CONFIGS FIXTURES
set -uo pipefail
esper=$1
configs=$2
fixtures=$3
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
cd "$folder" || exit 1

# plain FILE: its text, without tags, one line
plain() { sed 's/<style>/\n&/; s/<\/style>/&\n/' "$1" | sed '/<style>/,/<\/style>/d' | sed 's/<[^>]*>/ /g' | tr -s ' \n' ' '; }

expect_in_report() { # FILE TEXT
    [[ $(plain "$1") == *"$2"* ]] || fail "$1 does not show \"$2\""
}

growth=(--config "$configs/tiny.ini" --rounds 3 --eval 4 --envs 4 --episode-steps 14 --threads 2 --quiet
    "--evaluate.against=wait,random")
run 0 grow "${growth[@]}" --out runs/a
grow_out=$out
run 0 grow "${growth[@]}" --seed 7 --out runs/b
run 0 hosts --rounds 2 --threads 2 --quiet --out runs/hosts
run 0 fit --data tiny --epochs 6 --epoch-batches 10 --candidates 2 --rails.on=on --rails.epoch_budget_ms=0.5 --quiet --out runs/fit
run 0 prove train --config "$configs/prove_generated.ini" --rounds 5 --quiet --out runs/proofs

# every kind: written where it says, whole, and with nothing to load
for name in a hosts fit proofs; do
    run 0 report "runs/$name"
    expect_text "where the report is" "$out" "runs/$name/report.html"
    report=runs/$name/report.html
    [[ $(head -c 15 "$report") == "<!doctype html>" && $(tail -n 1 "$report") == *"</html>" ]] || fail "$report is not whole"
    ! sed 's/src="data:image[/]bmp;base64,[A-Za-z0-9+/=]*"//g' "$report" | grep -qE '<script|src=|href=|url\(|@import|https?://' ||
        fail "$report loads something"
    busy=$(ask "runs/$name" "SELECT utilisation FROM throughput ORDER BY round DESC LIMIT 1")
    shown=$(sed -n "s/.*aria-label=\"How busy the processors were,[^\"]*; last: $name \([0-9.]*\)\".*/\1/p" "$report")
    awk "BEGIN { exit !($busy > 0 && $busy < 400 && ($busy - ${shown:-0}) ^ 2 < ($busy / 100) ^ 2) }" ||
        fail "$report shows a utilisation of \"$shown\", not $busy"
    expect_in_report "$report" "run $name"
    expect_in_report "$report" "$(ask "runs/$name" "SELECT last_round || ' of ' || n_rounds FROM runs")"
    for number in "max(accuracy)" "(SELECT accuracy FROM rounds ORDER BY round DESC LIMIT 1)"; do
        value=$(ask_percent "runs/$name" "SELECT $number FROM rounds")
        expect_in_report "$report" "$value"
    done
done

# growth: the comparison has the means that `esper grow` prints, decisions and blueprints those of the database
for policy in ppo wait random; do
    mean=$(awk -v name=$policy '$1 == name { print $2; exit }' <<< "$grow_out")
    expect_in_report runs/a/report.html " $policy $policy $mean "
done
expect_in_report runs/a/report.html "$(ask runs/a "SELECT blueprint || ' ' || count(*) FROM seeds GROUP BY blueprint ORDER BY count(*) DESC LIMIT 1")"
expect_part "the grown networks" "$(panel_text runs/a/report.html topologies)" " $(ask runs/a "SELECT slot FROM seeds LIMIT 1") "

# why a decision was taken: the probability of what was chosen; how often the operation was chosen that was chosen most
decisions=$(panel_text runs/a/report.html decisions)
expect_part "an operation and its probability" "$decisions" "$(ask runs/a "
    SELECT op || ' ' || printf('%.1f', 100 * json_extract(op_probabilities, '\$.' || op)) || ' %' FROM decisions
    WHERE is_forced = 0 AND round = 3 AND env =
        (SELECT env FROM event_env_stepped WHERE round = 3 ORDER BY validation_accuracy DESC, env LIMIT 1) ORDER BY step DESC LIMIT 1")"
read -r op n < <(ask runs/a "SELECT op || ' ' || count(*) FROM event_decision_taken
    WHERE (round, step) IN (SELECT round, step FROM event_env_stepped) GROUP BY op ORDER BY count(*) DESC LIMIT 1")
[[ $decisions =~ \ $op\ $op\ [0-9.]+\ \($n\)\  ]] || fail "the share of $op, $n times, is not in: $decisions"
for title in Operation Slot Blueprint Style Tempo "Alpha target" "Alpha speed" "Alpha curve"; do
    expect_part "heads" "$decisions" " $title % (number) of "
done

# a fit: what its rails did, with its name in telemetry; the budget beside the latency
rails=$(panel_text runs/fit/report.html rails)
for words in "tolaria.epoch_budget_exceeded" " measured budget " "tolaria.training.latency_ms"; do
    expect_part "the rails" "$rails" "$words"
done
# nearest rank of six epochs: the third and the last
for pair in "p50 2" "p95 5"; do
    read -r name offset <<< "$pair"
    latency=$(ask runs/fit "SELECT latency_ms FROM epochs ORDER BY latency_ms LIMIT 1 OFFSET $offset")
    shown=$(sed -n "s/.* epoch, $name \([0-9.]*\) ms .*/\1/p" <<< "${rails//$'\xe2\x80\xaf'/}") # without thin spaces
    awk "BEGIN { exit !(($latency - ${shown:-0}) ^ 2 < ($latency / 500) ^ 2) }" || fail "$name of an epoch is $shown, not $latency"
done
for metric in tolaria.epochs.failed tolaria.rollback.fast_hits_total kasmina.seeds.active tolaria.timeout.tamiyo_total; do
    value=$(ask runs/fit "SELECT value FROM metrics WHERE name = '$metric' ORDER BY round DESC LIMIT 1")
    expect_part "the rails" "$rails" " ${value%.0} $metric "
done
for metric in train.compile_enabled train.graph_enabled compile_warmup_remaining grad_agg.conflict_ratio grad_agg.teacher_share; do
    expect_part "the rails" "$rails" " not measured tolaria.$metric "
done

# what its network confuses: the numbers and as many pictures as the file has
python3 - runs/fit << 'PYTHON' || fail "the confusions of runs/fit/report.html"
import base64, html, json, re, sys

with open(sys.argv[1] + "/networks/1/confusion.json", encoding="utf-8") as file:
    confusion = json.load(file)
with open(sys.argv[1] + "/report.html", encoding="utf-8") as file:
    panel = re.search(r'<section[^>]*id="panel-confusion".*?</section>', file.read(), re.S).group(0)
rows = re.findall(r"<tr><th scope=.row.[^>]*>(.*?)</th>(.*?)</tr>", panel)
assert [html.unescape(name) for name, _ in rows] == confusion["classes"], rows
cells = {(label, found): n for label, found, n in confusion["cells"]}
for label, (_, row) in enumerate(rows):
    shown = [int(n) for n in re.findall(r'<td class="cell [a-z0-9]*"[^>]*>(\d+)', row)]
    assert shown == [cells.get((label, found), 0) for found in range(len(rows))], (label, shown)
pictures = re.findall(r'<img src="data:image/bmp;base64,([^"]*)" alt="([^"]*)">.*?\(([0-9.]+) %\) no. (\d+)<', panel)
assert len(pictures) == len(confusion["mistakes"]) > 0, len(pictures)
for (bitmap, names, percent, index), mistake in zip(pictures, confusion["mistakes"]):
    classes = [confusion["classes"][mistake[key]] for key in ("label", "predicted")]
    assert names == " \u2192 ".join(classes) and int(index) == mistake["index"], names
    assert abs(float(percent) - 100 * mistake["probability"]) < 0.06, percent
    pixels, bitmap = base64.b64decode(mistake["pixels"]), base64.b64decode(bitmap)
    assert bitmap[:2] == b"BM" and bytes(bitmap[54 + 48 * (15 - y) + 3 * x] for y in range(16) for x in range(16)) == pixels
PYTHON
cp runs/fit/networks/1/confusion.json whole.json
head -c 700 whole.json > runs/fit/networks/1/confusion.json
run 0 report runs/fit
expect_part "a file that is cut short" "$(panel_text runs/fit/report.html confusion)" "This panel is not whole: networks/1/confusion.json"
sed 's/"classes":\["/&<img src=q onerror=1>\\u001b[31m/' whole.json > runs/fit/networks/1/confusion.json
run 0 report runs/fit
! grep -qF '<img src=q' runs/fit/report.html || fail "markup of a class is in the report"
! LC_ALL=C grep -q $'\x1b' runs/fit/report.html || fail "an escape of a class is in the report"
grep -qF '&lt;img src=q onerror=1&gt;' runs/fit/report.html || fail "the class is not shown"
rm runs/fit/networks/1/confusion.json
run 0 report runs/fit
expect_part "a file that is missing" "$(panel_text runs/fit/report.html confusion)" "When the fit has ended"

# proofs: queries as they were asked, all episodes by depth, proofs as trees
proofs=$(panel_text runs/proofs/report.html proofs)
expect_part "proofs by depth" "$proofs" " $(ask runs/proofs "SELECT '% of ' || sum(n_asked) FROM proof_depths WHERE counted_by = 'proof' AND depth = 4 AND label = 1") "
expect_part "proofs by predicate" "$proofs" " $(ask runs/proofs "SELECT '% of ' || sum(n_asked) FROM proof_predicates WHERE predicate = 'uncle' AND label = 1") "
expect_part "a proof" "$proofs" "$(ask runs/proofs "SELECT query || ' round ' || round || ', environment ' || env FROM event_proof_found ORDER BY rowid DESC LIMIT 1" | tr -d '"')"
expect_part "a tree" "$proofs" " $(ask runs/proofs "SELECT substr(proof, 1, instr(proof, char(9)) - 1) FROM event_proof_found ORDER BY rowid DESC LIMIT 1" | tr -d '"') rule "
expect_in_report runs/proofs/report.html "$(ask runs/proofs "SELECT query FROM event_proof_episode ORDER BY rowid DESC LIMIT 1" | tr -d '"')"

# two runs that differ by their seed alone are one line with an interval; a third of another kind is its own
run 0 report runs/a runs/b --out both.html
expect_in_report both.html "a and 1 more seed"
grep -q 'class="band c0"' both.html || fail "no interval over seeds"
run 0 report runs/a runs/fit --out mixed.html
! grep -q 'more seed' mixed.html || fail "a fit is no repetition of growth"
! grep -q 'beside each other' mixed.html || fail "runs of two kinds are compared"
[[ $(grep -c 'id="panel-curves"' mixed.html) == 2 ]] || fail "each of two kinds has curves of its own"

# a report belongs to its run: it goes when the run goes
run 0 runs --prune --yes runs/a
[[ ! -e runs/a ]] || fail "runs/a is still there: $(ls runs/a)"

# names from outside
evil=$'x<script>alert(1)<img src=q>\x1b[31m&\xff"'
mkdir -p strange
run 0 hosts --rounds 1 --threads 2 --quiet --out "strange/$evil"
run 0 report "strange/$evil" --out strange.html
! grep -qF '<script' strange.html || fail "markup of a name is in the report"
! grep -qF '<img' strange.html || fail "an image of a name is in the report"
! LC_ALL=C grep -q $'\x1b' strange.html || fail "an escape of a name is in the report"
grep -qF 'x&lt;script&gt;alert(1)' strange.html || fail "the name is not shown"
iconv -f utf-8 -t utf-8 strange.html > /dev/null || fail "the report is not UTF-8"

# runs of all earlier schemas
for fixture in "$fixtures"/*.tar.gz; do
    name=$(basename "$fixture" .tar.gz)
    mkdir "$name"
    tar xzf "$fixture" -C "$name"
    old=$(dirname "$(find "$name" -name run.db)")
    run 0 report "$old" --out "$name.html"
    expect_in_report "$name.html" "$(ask "$old" "SELECT last_round || ' of ' || n_rounds FROM runs")"
    grep -q 'class="line c0"' "$name.html" || fail "$name.html has no curve"
done

# mistakes
run 2 report
run 2 report no-such-run
expect_part "the message" "$err" "no-such-run"
run 2 report strange
run 0 report --help
expect_part "the help" "$out" "--out FILE"
finish
