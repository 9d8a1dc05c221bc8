#!/usr/bin/env bash
# Runs written by earlier programs: each schema of run.db from 1 on, and checkpoints of schema 1 of every kind of run, from
# before there were markers. All are listed, queried, resumed to the bits of a run of today, marked by that, and never
# removed before. A run of a later schema is refused and left as it is.
#
# usage: old_runs_test.sh PATH_TO_ESPER FOLDER_OF_FIXTURES IS_RELEASE
# The fixtures were written by release builds on CPUs with vectors of 16 floats: only there the bits of their first rounds
# come again. Elsewhere the fixtures, each resumed, are compared with each other.
set -uo pipefail
esper=$(realpath "$1")
fixtures=$(realpath "$2")
has_their_bits=$3
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
cd "$folder" || exit 1
[[ $("$esper" info) == *" 16 images per vector"* ]] || has_their_bits=0
mkdir runs
for archive in "$fixtures"/*-schema*.tar.gz; do
    name=$(basename "$archive" .tar.gz)
    mkdir "runs/$name"
    tar -C "runs/$name" -xzf "$archive" || fail "cannot unpack $archive"
done

# all files of a run but the lock, which says who looked at it, and what SQLite makes to read
sums() { (cd "$1" && find . -type f ! -name lock ! -name 'run.db-*' -exec sha256sum {} + | sort); }

# --- looked at, and not removed ---
run 0 runs
expect_text "runs listed" "$(grep -c -- -schema <<< "$out")" "$(find "$fixtures" -name '*-schema*' | wc -l)"
grep -q -- ' -$' <<< "$out" && fail "a run of unknown outcome: $out"
for path in runs/*; do
    before=$(sums "$path")
    run 0 runs --prune --yes "$path"
    expect_part "prune of $path" "$err" "$path has no esper-run.json: left alone; a run from before there were markers"
    for view in runs rounds episodes decisions rewards throughput metrics raw_events; do
        run 0 query "$path" "SELECT count(*) FROM $view"
    done
    expect_text "files of $path" "$(sums "$path")" "$before"
done

# --- resumed: with the bits of a run that today's program began ---
# compare KIND FILES OPTIONS...: every fixture of the kind, one round further
compare() {
    local kind=$1 files=$2 path file reference
    local -a command=("$kind")
    [[ $kind == prove ]] && command=(prove train)
    shift 2
    run 0 "${command[@]}" "$@" --rounds 2 --threads 1 --quiet --telemetry.tensorboard=off --out "today-$kind"
    run 0 "${command[@]}" --resume "today-$kind" --rounds 3 --quiet
    for path in runs/"$kind"-schema*; do
        run 0 "${command[@]}" --resume "$path" --rounds 3 --quiet
    done
    for path in runs/"$kind"-schema*; do
        [[ $has_their_bits == 1 ]] && reference=today-$kind || reference=runs/$kind-schema6
        for file in $files; do
            cmp "$reference/checkpoints/3/$file" "$path/checkpoints/3/$file" || fail "$path: $file differs"
        done
        expect_text "rounds of $path" "$(ask "$path" "SELECT count(*) FROM rounds")" 3
        expect_text "schema of $path" "$(ask "$path" "$schema")" "$(ask "today-$kind" "$schema")"
        run 0 runs --json "$path"
        expect_part "marker of $path" "$out" '"marked": true'
    done
}
schema="SELECT value FROM meta WHERE key = 'schema_version'"
compare hosts hosts.safetensors --task tiny --envs 1 --checkpoint.every=1
# the preset of the fixtures, which came before there were recipes
plain=(--recipe.schedule=constant --recipe.warmup=0 --recipe.nesterov=off --recipe.border=black)
tiny=(--config "$fixtures/../../configs/tiny.ini" --envs 2 --policy ppo --hidden 8 --eval 0 --episode-steps 12 --telemetry.stride=1000)
compare grow training.safetensors "${tiny[@]}" "${plain[@]}" --checkpoint.every=2
compare prove "training.safetensors training.bin" --generated 30 --envs 4 --steps 4 --eval -1 --eval-every 1 \
    --policy.embed=4 --policy.hidden=4 --policy.layers=1 --checkpoint.every=2

# --- a fit of schema 8, which has a marker: read, resumed, and its seeds measured from there on ---
mkdir fit8
tar -C fit8 -xzf "$fixtures/schema8-fit.tar.gz" || fail "cannot unpack a fit of schema 8"
expect_text "schema of a fit" "$(ask fit8 "$schema")" 8
for view in runs rounds epochs metrics trainer_events raw_events; do run 0 query fit8 "SELECT count(*) FROM $view"; done
run 0 fit --resume fit8 --target-accuracy 0 --quiet
expect_text "epochs of a fit" "$(ask fit8 "SELECT count(*) FROM epochs")" 8
expect_text "schema of a resumed fit" "$(ask fit8 "$schema")" "$(ask today-hosts "$schema")"
# its checkpoint does not have the steps, its database does
expect_text "steps of a resumed fit" "$(ask fit8 "SELECT total_steps - (SELECT sum(n_steps) FROM event_round_completed) \
    FROM event_round_completed ORDER BY round DESC LIMIT 1")" 0
(($(ask fit8 "SELECT count(*) FROM seed_metrics WHERE gradient_norm > 0") > 0)) || fail "no seed of a resumed fit is measured"

# --- a run of schema 9, whose database has no summaries: read without them, and summed up when it is resumed ---
mkdir grow9
tar -C grow9 -xzf "$fixtures/schema9-grow.tar.gz" || fail "cannot unpack a run of schema 9"
expect_text "schema of a run" "$(ask grow9 "$schema")" 9
run 0 report grow9 --out grow9.html
run 0 grow --resume grow9 --rounds 21 --quiet
for event in round_completed update_completed episode_outcome; do
    expect_text "the first 16 rounds of $event" "$(ask grow9 "SELECT n_rows = (SELECT count(*) FROM event_$event WHERE round <= 16) \
        FROM summary_$event WHERE level = 16")" 1
done
expect_text "decisions by round" "$(ask grow9 "SELECT count(DISTINCT first) || ' ' || sum(n_rows) FROM summary_decision_taken \
    WHERE level = 1")" "21 $(ask grow9 "SELECT count(*) FROM event_decision_taken \
    WHERE (round, step) IN (SELECT round, step FROM event_env_stepped)")"

# --- a config.ini without recipe keys: a constant learning rate, crops from black borders ---
# compare_recipes KIND FILE OPTIONS...: of two equal runs one loses its section; a third has the border of today's presets
compare_recipes() {
    local kind=$1 file=checkpoints/2/$2 border name
    shift 2
    for border in black reflect; do
        run 0 "$kind" "$@" "${plain[@]}" "--recipe.border=$border" --pad 2 --rounds 1 --threads 1 --checkpoint.every=1 --quiet \
            --telemetry.tensorboard=off --out "$kind-$border"
    done
    cp -r "$kind-black" "$kind-none"
    sed -i '/^\[recipe\]/,/^\[/{/^\[recipe\]/d;/^\[/!d}' "$kind-none/config.ini"
    grep -q schedule "$kind-none/config.ini" && fail "$kind-none/config.ini still has a recipe"
    for name in none black reflect; do
        run 0 "$kind" --resume "$kind-$name" --rounds 2 --quiet
    done
    cmp "$kind-none/$file" "$kind-black/$file" || fail "$kind without recipe keys is another run"
    cmp -s "$kind-none/$file" "$kind-reflect/$file" && fail "the border of $kind makes no difference"
}
compare_recipes hosts hosts.safetensors --task tiny --envs 1
compare_recipes grow training.safetensors "${tiny[@]}"

# --- a database of a later schema ---
if command -v python3 > /dev/null; then
    python3 - << 'END' || fail "cannot edit the database"
import sqlite3
db = sqlite3.connect("runs/hosts-schema6/run.db")
db.execute("UPDATE meta SET value = 99 WHERE key = 'schema_version'")
db.commit()
END
    before=$(sums runs/hosts-schema6)
    run 2 hosts --resume runs/hosts-schema6 --rounds 4 --quiet
    expect_part "a later schema" "$err" "runs/hosts-schema6/run.db has schema 99; this program writes schema "
    expect_text "a refused run" "$(sums runs/hosts-schema6)" "$before"
    run 0 query runs/hosts-schema6 "SELECT count(*) FROM rounds"
fi

# --- once marked, they can be removed ---
run 0 runs --prune --yes runs/*
expect_text "what is left" "$(find runs -mindepth 1 | wc -l)" 0

finish
