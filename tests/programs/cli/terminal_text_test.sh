#!/usr/bin/env bash
# Names, paths, values and cells with terminal commands in them: none of their control bytes may reach stdout or stderr,
# whichever command speaks of them. Output for programs (--json, --csv) has its own escapes and is not looked at here.
#
# usage: terminal_text_test.sh PATH_TO_ESPER PATH_TO_MAKE_CASE_RUN
set -uo pipefail
esper=$(realpath "$1")
make_case_run=$(realpath "$2")
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
cd "$folder" || exit 1

# a window's title, a cleared screen, an overwritten line, text from right to left, an isolate, CSI as one C1 character,
# DEL, bytes that are not UTF-8
evil=$'a\e]0;owned\a\e[2J\rb\xe2\x80\xaec\xe2\x81\xa6d\xc2\x9be\x7ff\xff\xc3g'
# the same without C0, which configurations refuse
c1=$'\xc2\x9bm\xe2\x80\xae\xff'
# a name that begins a line of its own; "esper: forged" must not stand at the start of one
forged=$'n\nesper: forged'
forbidden='[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]'
n_checked=0

# check CODE WHAT ARGUMENTS...: run esper, expect its exit code and look at each byte it printed
check() {
    local expected=$1 what=$2 stream code
    shift 2
    "$esper" "$@" > "$folder/out" 2> "$folder/err" < /dev/null
    code=$?
    [[ $code == "$expected" ]] || fail "$what: exit code $code, expected $expected: $(head -c 400 "$folder/err" | cat -v)"
    n_checked=$((n_checked + 1))
    [[ -s $folder/out || -s $folder/err ]] || fail "$what: nothing was printed"
    for stream in out err; do
        ! LC_ALL=C grep -aqP "$forbidden" "$folder/$stream" || fail "$what: control bytes on std$stream: $(head -c 400 "$folder/$stream" | cat -v)"
        iconv -f UTF-8 -t UTF-8 "$folder/$stream" > /dev/null 2>&1 || fail "$what: std$stream is not UTF-8: $(head -c 400 "$folder/$stream" | cat -v)"
        ! grep -aq '^esper: forged' "$folder/$stream" || fail "$what: a forged line on std$stream"
    done
}

# --- command lines, settings, the environment ---
for text in "$evil" "$forged"; do
    check 2 "command" "$text"
    check 2 "option" grow "--$text"
    check 2 "argument" grow "$text"
    check 2 "number" grow --rounds "$text"
    check 2 "section" grow "--$text.key=1"
    check 2 "key" grow "--run.$text=1"
    check 2 "value" grow "--run.seed=$text"
    check 2 "choice" grow "--telemetry.level=$text"
    check 2 "host" hosts --task "$text"
    check 2 "policy" grow --policy "$text"
    check 2 "script" grow --policy "script:$text"
    check 2 "action" prove "$text"
    check 2 "graph" prove closure --data "$text"
    check 2 "split" prove depths --generated 30 --split "$text"
    check 2 "suite" bench "$text"
    check 2 "baseline" bench --compare "$text"
    check 2 "run" query "$text" "SELECT 1"
    check 2 "runs" runs "$text"
    check 2 "diff" diff "$text" "$text"
    check 2 "resume" grow --resume "$text"
    check 2 "config" hosts --config "$text"
    check 2 "trace" profile --trace "$text/trace.json"
    ES_LOG=$text check 2 "ES_LOG" info
    ES_FILE_FAULT=$text check 2 "ES_FILE_FAULT" info
done

# --- files of settings and hosts ---
printf '[host]\nname = h%sh\nblocks = 2\ndata = tiny\n' $'\xe2\x80\xae\xc2\x9b\xff' > "host$c1.ini"
check 0 "host file" hosts --task "./host$c1.ini" --envs 1 --rounds 1 --out host_run
check 0 "host file, dry run" hosts --task "./host$c1.ini" --envs 1 --rounds 1 --dry-run
check 0 "host file, growing" grow --task "./host$c1.ini" --envs 1 --rounds 1 --policy wait --dry-run
printf '[%s]\nkey = 1\n' "$evil" > section.ini
printf '[run]\n%s = 1\n' "$evil" > key.ini
printf '[run]\nseed = %s\n' "$evil" > value.ini
for file in section key value; do
    check 2 "$file of a file" hosts --config $file.ini
    check 2 "$file of a host file" hosts --task ./$file.ini
done

# --- run folders ---
"$make_case_run" "runs/$evil" 3 || fail "no run"
"$make_case_run" "runs/$forged" 3 || fail "no run"
mkdir "runs/no$evil"
check 0 "list" runs
check 0 "list of one" runs "runs/$evil"
check 0 "prune" runs --prune "runs/$evil" "runs/$forged" "runs/no$evil"
check 0 "prune checkpoints" runs --prune --keep 1 "runs/$evil"
check 2 "compare" diff "runs/$evil" "runs/$forged"
check 0 "hosts" hosts --envs 2 --rounds 1 --checkpoint.every=1 --out "runs/h$c1"
check 0 "hosts again" hosts --resume "runs/h$c1"
check 0 "growing" grow --envs 2 --rounds 1 --policy random --episode-steps 4 --out "runs/g$c1"
check 1 "compare kinds" diff --superset "runs/g$c1" "runs/h$c1"
check 0 "query" query "runs/g$c1" "SELECT char(27, 7, 155, 8238, 13, 10, 127) || 'x' AS \"c$evil\", CAST(x'ff1b' AS TEXT) AS \"$forged\" FROM runs"
check 2 "column that is not there" query "runs/g$c1" "SELECT \`$evil\` FROM runs"
check 2 "query that is none" query "runs/g$c1" "$evil"
printf 'nothing' > "runs/g$c1/run.db"
check 2 "database that is none" query "runs/g$c1" "SELECT 1"
ES_LOG=debug check 0 "a damaged database" grow --resume "runs/g$c1" --rounds 2

# --- knowledge graphs ---
graph=$folder/graph$evil
mkdir "$graph"
name=$'\e]0;owned\a\xe2\x80\xae\xc2\x9b\xff'
for i in 1 2 3 4 5 6 7 8; do
    printf 'a%s%d\tp%s\tb%s%d\n' "$name" $i "$name" "$name" $i
    printf 'a%s%d\tq%s\tb%s%d\n' "$name" $i "$name" "$name" $i
done > "$graph/train.txt"
printf 'a%s1\tp%s\tb%s1\n' "$name" "$name" "$name" > "$graph/valid.txt"
printf 'a%s2\tp%s\tb%s2\n' "$name" "$name" "$name" > "$graph/test.txt"
rules=$folder/rules$evil.txt
check 0 "mine" prove mine --data "$graph" --min-support 1 --held-out 0 --out "$rules"
cp "$rules" "$graph/rules.txt" || fail "no rules were mined"
mkdir "$graph$forged"
cp "$graph"/* "$graph$forged"
for data in "$graph" "$graph$forged"; do
    check 0 "closure" prove closure --data "$data" --rules "$rules"
    check 0 "query" prove query "p$name(X,Y)" --data "$data" --explain
    check 0 "query without an answer" prove query "p$name(a${name}1,b${name}2)" --data "$data"
    check 2 "query of nothing" prove query "$evil(X,$evil)" --data "$data"
    check 0 "depths" prove depths --data "$data"
    check 0 "curve" prove curve --data "$data" --min-depth 1
    check 0 "embed" prove embed --data "$data" --dimensions 8 --epochs 1 --out "$folder/model$evil"
    check 0 "eval" prove eval --data "$data" --by-predicate --embedding "$folder/model$evil"
    check 0 "eval, embedding alone" prove eval --data "$data" --embedding-alone --embedding "$folder/model$evil"
    check 2 "eval, no policy" prove eval --data "$data" --policy "$evil"
    check 0 "export" prove export --data "$data" --out "$folder/$forged.pl"
done
cp -r "$graph" "$folder/graph$c1"
small=(--envs 4 --steps 4 --rounds 1 --policy.embed=8 --policy.hidden=8 --policy.layers=1 --nodes 4)
check 0 "train, dry run" prove train "${small[@]}" --data "$folder/graph$c1" --dry-run
check 0 "train" prove train "${small[@]}" --data "$folder/graph$c1" --out "runs/p$c1"
check 0 "eval of the policy" prove eval --data "$folder/graph$c1" --policy "runs/p$c1/policy.safetensors" --search best_first
check 2 "train on nothing" prove train --data "$graph"
for line in "$evil" "$evil(a,b"; do
    printf '%s\n' "$line" > "$graph/train.txt"
    check 2 "a line that does not fit" prove closure --data "$graph"
    printf '%s\n' "$line" > "$folder/soft"
    check 2 "a soft fact that does not fit" prove closure --data "$graph$forged" --soft "$folder/soft"
    printf '%s.\n' "$line" > "$folder/$evil.pl"
    check 2 "a clause that does not fit" prove closure --data "$folder/$evil.pl"
done

((n_checked > 100)) || fail "only $n_checked commands were looked at"
finish
