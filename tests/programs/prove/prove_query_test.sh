#!/usr/bin/env bash
# `esper prove query`: answers, proofs as trees, JSON, and what is refused.
#
# usage: prove_query_test.sh PATH_TO_ESPER
set -uo pipefail
esper=$(realpath "$1")
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
cd "$folder" || exit 1

mkdir kg
printf 'parent(ann,bob).\nparent(bob,cy).\nparent(bob,dan).\nparent(dan,eve).\ngrand(ann,dan).\n' > kg/train.txt
printf '%% kin\nr1:1:parent(x,y), parent(y,z) -> grand(x,z)\nr2:1:grand(x,y), parent(y,z) -> great(x,z)\n' > kg/rules.txt

# --- answers ---
run 0 prove query "grand(ann,X)" --data kg
expect_text "stderr" "$err" ""
expect_text "answers" "$out" "grand(ann,X): 2 answers
   fact  grand(ann,dan)
      2  grand(ann,cy)"
run 0 prove query "grand(X,Y)" --data kg --limit 1
expect_text "limit" "$out" "grand(X,Y): 3 answers
   fact  grand(ann,dan)
2 more are not shown (--limit raises it)"
run 0 prove query "grand(X,Y)" --data kg --limit 2
expect_part "limit" "$out" "
1 more is not shown (--limit raises it)"
run 0 prove query "grand(X,X)" --data kg
expect_text "no answer" "$out" "grand(X,X): 0 answers"
run 0 prove query "great(ann,X)" --data kg --max-depth 1
expect_text "the fact helps, so two steps" "$out" "great(ann,X): 1 answer
   more  great(ann,eve)
1 of them follows, but not within 1 step and 6 atoms (--max-depth, --max-atoms raise it)"
run 0 prove query "great(ann,X)" --data kg --max-depth 1 --explain
expect_part "beyond the limits, by its first derivation" "$out" "   more  steps
         great(ann,eve)      rule 3: grand(x,z), parent(z,y) -> great(x,y)
         |- grand(ann,dan)   fact
         \`- parent(dan,eve)  fact"
run 0 prove query "great(ann,eve)" --data kg --max-depth 1 --explain
expect_text "a ground one" "$out" "great(ann,eve): follows, but not within 1 step and 6 atoms (--max-depth, --max-atoms raise it)
great(ann,eve)      rule 3: grand(x,z), parent(z,y) -> great(x,y)
|- grand(ann,dan)   fact
\`- parent(dan,eve)  fact"
run 0 prove query "great(ann,X)" --data kg --max-depth 1 --json
for part in '"complete": true' '"count": 1' '"steps": null' '"deeper": 1'; do
    expect_part "beyond the limits" "$out" "$part"
done
run 0 prove query "great(ann,X)" --data kg --max-depth 1 --closure-limit 0 --json
for part in '"complete": false' '"count": 0' '"deeper": 1'; do
    expect_part "nothing is complete without the closure" "$out" "$part"
done
run 0 prove query "great(ann,eve)" --data kg --closure-limit 0 --json
expect_part "a ground answer is complete" "$out" '"complete": true'
run 0 prove query "great(eve,ann)" --data kg --closure-limit 0 --json
expect_part "no proof found is no answer" "$out" '"complete": false'
run 0 prove query "great(ann,X)" --data kg --max-depth 1 --closure-limit 0
expect_text "without closure" "$out" "great(ann,X): 0 answers
1 more follows, but not within 1 step and 6 atoms (--max-depth, --max-atoms raise it)
more may exist that take over 1 step"
run 0 prove query "grand(X,Y)" --data kg --max-states 1 --closure-limit 0
expect_part "states" "$out" "more may exist: the limit of 1 state was met (--max-states raises it)"
[[ $out != *"over 20 atoms"* ]] || fail "the other limit is told, too: $out"

# goals that grow without end: no number of states helps
mkdir long
printf 'p(a,b).\np(b,c).\nq(c,d).\nq(d,e).\n' > long/train.txt
printf 'r%d:1:%s\n' 1 'p(x,z), p(z,y) -> p(x,y)' 2 'q(x,z), p(z,y) -> p(x,y)' 3 'p(x,z), q(z,y) -> p(x,y)' \
    4 'p(x,z), p(z,u), q(u,y) -> q(x,y)' > long/rules.txt
run 0 prove query "q(e,X)" --data long --closure-limit 1 --max-depth 20 --max-atoms 2
expect_part "atoms" "$out" "more may exist: states of over 20 atoms, the most a search can hold, were left out"
[[ $out != *max-states* ]] || fail "a limit that was not met is told: $out"
run 0 prove query "q(e,X)" --data long --closure-limit 1 --max-depth 20 --max-atoms 2 --json
expect_part "atoms" "$out" '"search_full": false'
expect_part "atoms" "$out" '"complete": false'

# --- proofs ---
run 0 prove query "grand(ann,cy)" --data kg --explain
expect_text "tree" "$out" "grand(ann,cy): proved in 2 steps
grand(ann,cy)       rule 2: parent(x,z), parent(z,y) -> grand(x,y)
|- parent(ann,bob)  fact
\`- parent(bob,cy)   fact"
run 0 prove query "grand(ann,dan)" --data kg --explain
expect_text "a fact" "$out" "grand(ann,dan): a fact; without it proved in 2 steps
grand(ann,dan)      rule 2: parent(x,z), parent(z,y) -> grand(x,y)
|- parent(ann,bob)  fact
\`- parent(bob,dan)  fact"
run 0 prove query "parent(ann,bob)" --data kg --explain
expect_text "a fact alone" "$out" "parent(ann,bob): a fact; without it no proof within 4 steps and 6 atoms"
run 0 prove query "grand(cy,ann)" --data kg
expect_text "no" "$out" "grand(cy,ann): no, it does not follow"
run 0 prove query "grand(cy,ann)" --data kg --closure-limit 0
expect_text "no closure" "$out" "grand(cy,ann): no proof within 4 steps and 6 atoms"
run 0 prove query "grand(bob,X)" --data kg --explain
expect_text "open" "$out" "grand(bob,X): 1 answer
      2  steps
         grand(bob,eve)      rule 2: parent(x,z), parent(z,y) -> grand(x,y)
         |- parent(bob,dan)  fact
         \`- parent(dan,eve)  fact"

# --- JSON, and a graph without files ---
run 0 prove query "grand(ann,X)" --data kg --json --explain
for part in '"count": 2' '"complete": true' '"method": "closure"' '"atom": "grand(ann,cy)"' \
    '"rule": "parent(x,z), parent(z,y) -> grand(x,y)"' '"fact": true' '"steps": 2'; do
    expect_part "JSON" "$out" "$part"
done
run 0 prove query "cousin(X,Y)" --limit 1
expect_text "the graph asked" "$err" "note: without --data the question is asked of the generated village (1000 people, --graph-seed 1)"
run 0 prove query "cousin(X,Y)" --generated 60 --limit 2
expect_text "the graph is named" "$err" ""
expect_part "generated" "$out" "answers"
first=$out
run 0 prove query "cousin(X,Y)" --generated 60 --limit 2 --threads 3
expect_text "threads" "$out" "$first"

# --- a proof of a thousand levels, with little room to recurse ---
mkdir chain
echo 'p1000(a,b).' > chain/train.txt
for ((i = 0; i < 1000; i++)); do echo "r$i:1:p$((i + 1))(x,y) -> p$i(x,y)"; done > chain/rules.txt
stack_kib=$(ulimit -s)
ulimit -S -s 2048
run 0 prove query "p0(a,b)" --data chain --max-depth 1000 --explain
expect_part "a deep proof" "$out" "p1000(a,b)  fact"
run 0 prove query "p0(a,b)" --data chain --max-depth 1000 --explain --json
expect_part "a deep proof as JSON" "$out" '"atom": "p1000(a,b)"'
ulimit -S -s "$stack_kib"

# --- what is refused ---
run 2 prove query --data kg
expect_part "no question" "$err" "which question?"
run 2 prove query "grand(ann,X)" extra --data kg
run 2 prove query "grnd(ann,X)" --data kg
expect_part "a slip" "$err" 'question:1:1: unknown predicate "grnd"; did you mean "grand"?'
run 2 prove query "grand(an,X)" --data kg
expect_part "a slip" "$err" 'unknown constant "an"; did you mean "ann"?'
for text in "" "(" "grand(" "grand(ann" "grand(ann,X" "grand(ann,X))" "grand((a,b)" "))))" "grand('ann,X)" $'grand(\n,\x01)'; do
    run 2 prove query "$text" --data kg
    expect_part "hostile" "$err" "question:1:"
done
run 2 prove query "grand($(head -c 100000 /dev/zero | tr '\0' a),X)" --data kg
expect_part "a long name" "$err" "the first argument has a name of 100000 bytes, at most 1024 are allowed"
finish
