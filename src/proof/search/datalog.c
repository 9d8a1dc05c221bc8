// Evaluation, stratum by stratum. A relation's tuples are taken in batches; a batch is joined, as
// each body atom of each rule that has the relation there, against the tuples taken before, and the
// heads become candidates for the relation of the rule, which are then sorted out part by part.
// Tuples of one relation are new at a time, and an atom before the one they enter by does not see
// them, so that every combination is met when the last of its tuples is taken, once.
//
// Pieces of a batch write to buffers of their own, and parts are sorted out in the order of the
// pieces: neither knows about threads.
#include "proof/search/datalog.h"

#include <stdlib.h>
#include <string.h>

#include "base/first_error.h"
#include "base/memory.h"
#include "proof/search/datalog_plan.h"

#define MAX_PIECES   32
#define PIECE_TUPLES 256 // fewest of a piece
#define MAX_BATCH    (1 << 17)
// candidates that a batch should give: enough to make threads worth it, few enough for a cache
#define WANTED_CANDIDATES ((int64_t)1 << 18)
// candidates that a piece may give; a batch that exceeds it is joined again by one piece, which
// sorts them out whenever it has as many
#define MAX_CANDIDATES ((int64_t)1 << 20)

struct EsDatalog {
    const EsDatalogProgram *program; // borrowed
    EsDatalogSettings settings;
    EsTupleRelation *relations; // owned
    EsPlans plans;
    int32_t *taken; // tuples of each relation that the stratum at hand has joined; owned
    int64_t n_tuples, n_joined;
    int is_complete;
    EsTupleBuffer buffers[MAX_PIECES * ES_TUPLE_PARTS];
    int64_t batch_tuples; // of the next batch
    int32_t *scratch;     // bindings and matched tuples of every piece; owned
};

// New tuples first to end - 1 of a relation, and the plans they enter, which have one head.
typedef struct Batch {
    EsDatalog *datalog;
    EsThreadPool *pool;
    const EsPlan *plans;
    int32_t n_plans;
    int32_t delta, head;
    int32_t first, end;
    int32_t n_pieces;
    int is_alone; // the one piece sorts out its candidates by itself
    // numbers of the first tuples that the buffers gave
    int64_t number[MAX_PIECES * ES_TUPLE_PARTS];
} Batch;

// A piece of a batch at work; on cache lines of its own, as is its share of the scratch memory.
typedef struct Piece {
    _Alignas(2 * ES_ALIGNMENT) Batch *batch;
    const EsPlan *plan;
    EsTupleRelation *head;
    EsTupleBuffer *buffers;
    int32_t *bindings; // constants of variables                                  (n_variables)
    int32_t *matched;  // numbers of the body's tuples, by place                     (n_places)
    int64_t n_candidates, n_joined;
    int is_over; // too many candidates, or the limit was met
    EsFirstError error;
} Piece;

// --- sorting out ---

static void accept_part(void *context, int64_t part, int worker) {
    Batch *batch = context;
    (void)worker;
    es_tuple_accept(&batch->datalog->relations[batch->head], batch->datalog->buffers,
                    batch->n_pieces, (int)part);
}

static void place_part(void *context, int64_t part, int worker) {
    Batch *batch = context;
    EsDatalog *datalog = batch->datalog;
    int64_t room = datalog->settings.limit - datalog->n_tuples;
    (void)worker;
    EsTupleRelation *head = &datalog->relations[batch->head];
    es_tuple_place(head, datalog->buffers, batch->n_pieces, (int)part, batch->number,
                   head->count + ES_MAX(room, 0));
}

// Turn the candidates in the buffers into tuples, and empty the buffers.
static EsStatus sort_out(Batch *batch) {
    EsDatalog *datalog = batch->datalog;
    EsTupleRelation *head = &datalog->relations[batch->head];
    EsThreadPool *pool = batch->is_alone ? NULL : batch->pool;
    ES_TRY(es_tuple_reserve(head, pool, datalog->buffers, batch->n_pieces));
    es_thread_pool_run(es_tuple_is_split(head) ? pool : NULL, ES_TUPLE_PARTS, accept_part, batch);
    int32_t n_buffers = batch->n_pieces * ES_TUPLE_PARTS;
    int64_t room = ES_MAX(datalog->settings.limit - datalog->n_tuples, 0), n_new;
    ES_TRY(es_tuple_number(head, datalog->buffers, batch->n_pieces, room, batch->number, &n_new));
    es_thread_pool_run(pool, ES_TUPLE_PARTS, place_part, batch);
    datalog->is_complete &= n_new <= room;
    head->count += (int32_t)ES_MIN(n_new, room);
    datalog->n_tuples += ES_MIN(n_new, room);
    for (int32_t i = 0; i < n_buffers; i++) {
        datalog->buffers[i].count = datalog->buffers[i].n_accepted = 0;
    }
    return ES_STATUS_OK;
}

// --- joining ---

static int32_t value_of(const Piece *piece, int32_t term) {
    return term > 0 ? term : piece->bindings[-1 - term];
}

// The body holds: the head becomes a candidate.
static void emit(Piece *piece) {
    const EsPlan *plan = piece->plan;
    EsTupleRelation *head = piece->head;
    int32_t terms[ES_DATALOG_MAX_ARITY];
    piece->n_joined++;
    for (int32_t i = 0; i < head->arity; i++) {
        terms[i] = value_of(piece, plan->head_terms[i]);
    }
    uint64_t key = es_tuple_key(head, terms);
    if (es_tuple_has_bit(head, key)) {
        return;
    }
    int32_t n_proof = head->proofs.n_words;
    int32_t *words =
        es_tuple_buffer_add(&piece->buffers[es_tuple_part(key)], head->arity + n_proof);
    if (words == NULL) {
        es_first_error_capture(&piece->error, ES_STATUS_MEMORY);
        piece->is_over = 1;
        return;
    }
    memcpy(words, terms, (size_t)head->arity * sizeof *terms);
    if (n_proof > 0) {
        words[head->arity] = plan->rule;
        memset(words + head->arity + 1, 0, ((size_t)n_proof - 1) * sizeof *words);
        memcpy(words + head->arity + 1, piece->matched, (size_t)plan->n_places * sizeof *words);
    }
    if (++piece->n_candidates >= MAX_CANDIDATES) {
        if (piece->batch->is_alone) {
            es_first_error_capture(&piece->error, sort_out(piece->batch));
            piece->n_candidates = 0;
        }
        piece->is_over = !piece->batch->is_alone || piece->error.status != ES_STATUS_OK ||
                         !piece->batch->datalog->is_complete;
    }
}

static int compare_holds(const Piece *piece, const EsStep *step) {
    int32_t a = value_of(piece, step->key[0]), b = value_of(piece, step->key[1]);
    const int64_t *values = piece->batch->datalog->program->values;
    if (step->literal == ES_LITERAL_NOT_EQUAL) {
        return a != b;
    }
    if (values == NULL || values[a] == ES_DATALOG_NO_INTEGER ||
        values[b] == ES_DATALOG_NO_INTEGER) {
        return 0;
    }
    switch (step->literal) {
    case ES_LITERAL_LESS:
        return values[a] < values[b];
    case ES_LITERAL_LESS_EQUAL:
        return values[a] <= values[b];
    case ES_LITERAL_GREATER:
        return values[a] > values[b];
    default:
        return values[a] >= values[b];
    }
}

// Tuples that a step sees: those with a smaller number.
static int32_t sight_of(const Batch *batch, const EsStep *step) {
    return step->sight == ES_SIGHT_TAKEN    ? batch->datalog->taken[step->relation]
           : step->sight == ES_SIGHT_BEFORE ? batch->first
                                            : batch->end;
}

// Set the variables that a tuple gives; returns whether it has again what it must.
static int bind_tuple(Piece *piece, const EsStep *step, const int32_t *terms) {
    for (int i = 0; i < step->n_set; i++) {
        piece->bindings[step->set[i].variable] = terms[step->set[i].column];
    }
    for (int i = 0; i < step->n_same; i++) {
        if (piece->bindings[step->same[i].variable] != terms[step->same[i].column]) {
            return 0;
        }
    }
    return 1;
}

static void run_steps(Piece *piece, int32_t s);

static void follow(Piece *piece, const EsStep *step, int32_t s, int32_t number) {
    const EsTupleRelation *relation = &piece->batch->datalog->relations[step->relation];
    if (bind_tuple(piece, step, es_tuple_at(relation, number))) {
        piece->matched[step->place] = number;
        run_steps(piece, s + 1);
    }
}

static void run_index(Piece *piece, const EsStep *step, int32_t s) {
    const EsTupleRelation *relation = &piece->batch->datalog->relations[step->relation];
    const EsTupleIndex *index = &relation->indices[step->index];
    int64_t sight = sight_of(piece->batch, step);
    int32_t key[ES_DATALOG_MAX_ARITY];
    for (int i = 0; i < step->n_key; i++) {
        key[i] = value_of(piece, step->key[i]);
    }
    uint32_t next = es_tuple_index_first(relation, index, key);
    while (next != 0 && !piece->is_over) {
        // numbers fall along a list
        if ((int64_t)next <= sight) {
            follow(piece, step, s, (int32_t)(next - 1));
        }
        next = index->next[next - 1];
    }
}

// One tuple whose terms are all known.
static void run_find(Piece *piece, const EsStep *step, int32_t s) {
    const EsTupleRelation *relation = &piece->batch->datalog->relations[step->relation];
    int32_t terms[ES_DATALOG_MAX_ARITY];
    for (int i = 0; i < step->n_key; i++) {
        terms[i] = value_of(piece, step->key[i]);
    }
    if (step->kind == ES_STEP_NOT) {
        if (!es_tuple_has(relation, terms)) {
            run_steps(piece, s + 1);
        }
    } else if (relation->bits != NULL) {
        // bits show tuples that are not taken yet, too; their combinations come twice
        if (es_tuple_has_bit(relation, es_tuple_key(relation, terms))) {
            run_steps(piece, s + 1);
        }
    } else {
        int32_t number = es_tuple_find(relation, terms);
        if (number >= 0 && number < sight_of(piece->batch, step)) {
            piece->matched[step->place] = number;
            run_steps(piece, s + 1);
        }
    }
}

static void run_steps(Piece *piece, int32_t s) {
    if (s == piece->plan->n_steps) {
        emit(piece);
        return;
    }
    const EsStep *step = &piece->plan->steps[s];
    switch (step->kind) {
    case ES_STEP_SCAN:
        for (int32_t i = 0, n = sight_of(piece->batch, step); i < n && !piece->is_over; i++) {
            follow(piece, step, s, i);
        }
        break;
    case ES_STEP_INDEX:
        run_index(piece, step, s);
        break;
    case ES_STEP_FIND:
    case ES_STEP_NOT:
        run_find(piece, step, s);
        break;
    case ES_STEP_COMPARE:
        if (compare_holds(piece, step)) {
            run_steps(piece, s + 1);
        }
        break;
    }
}

// Returns whether a new tuple has the constants of the atom it enters by.
static int has_constants(const EsPlan *plan, const int32_t *terms) {
    for (int i = 0; i < plan->steps[0].n_key; i++) {
        if (terms[plan->columns[i]] != plan->steps[0].key[i]) {
            return 0;
        }
    }
    return 1;
}

static void run_plan(Piece *piece, int32_t first, int32_t end) {
    const EsPlan *plan = piece->plan;
    if (plan->delta < 0) {
        run_steps(piece, 0);
        return;
    }
    const EsTupleRelation *relation = &piece->batch->datalog->relations[plan->delta];
    for (int32_t i = first; i < end && !piece->is_over; i++) {
        const int32_t *terms = es_tuple_at(relation, i);
        if (has_constants(plan, terms) && bind_tuple(piece, &plan->steps[0], terms)) {
            piece->matched[plan->steps[0].place] = i;
            run_steps(piece, 1);
        }
    }
}

// Returns whether every atom of the plan but the first sees some tuple.
static int may_hold(const Batch *batch, const EsPlan *plan) {
    for (int32_t s = plan->delta >= 0; s < plan->n_steps; s++) {
        const EsStep *step = &plan->steps[s];
        if (step->kind <= ES_STEP_FIND && sight_of(batch, step) == 0) {
            return 0;
        }
    }
    return 1;
}

static void join_piece(void *context, int64_t number, int worker) {
    Piece *piece = &((Piece *)context)[number];
    Batch *batch = piece->batch;
    int64_t n = (int64_t)batch->end - batch->first;
    int32_t first = batch->first + (int32_t)(n * number / batch->n_pieces);
    int32_t end = batch->first + (int32_t)(n * (number + 1) / batch->n_pieces);
    (void)worker;
    for (int32_t i = 0; i < batch->n_plans && !piece->is_over; i++) {
        piece->plan = &batch->plans[i];
        if (may_hold(batch, piece->plan)) {
            run_plan(piece, first, end);
        }
    }
}

// --- batches ---

// Bring the indices that the plans look into up to date.
static EsStatus update_indices(const Batch *batch) {
    EsDatalog *datalog = batch->datalog;
    for (int32_t i = 0; i < batch->n_plans; i++) {
        const EsPlan *plan = &batch->plans[i];
        for (int32_t s = plan->delta >= 0; s < plan->n_steps && may_hold(batch, plan); s++) {
            const EsStep *step = &plan->steps[s];
            if (step->kind == ES_STEP_INDEX) {
                ES_TRY(es_tuple_index_update(&datalog->relations[step->relation], step->index,
                                             datalog->taken[step->relation]));
            }
        }
    }
    return ES_STATUS_OK;
}

// Words of scratch memory of a piece: bindings and matched tuples.
static size_t count_scratch(const EsPlans *plans) {
    size_t n_bytes = ((size_t)plans->n_variables + (size_t)plans->n_places) * sizeof(int32_t);
    return es_align_up(n_bytes + ES_ALIGNMENT) / sizeof(int32_t);
}

// Join with n_pieces pieces. *is_over: one had too many candidates, and all are to be dropped.
static EsStatus join_pieces(Batch *batch, int *is_over) {
    EsDatalog *datalog = batch->datalog;
    size_t n_variables = (size_t)datalog->plans.n_variables;
    size_t n_words = count_scratch(&datalog->plans);
    Piece pieces[MAX_PIECES];
    for (int32_t i = 0; i < batch->n_pieces; i++) {
        int32_t *words = datalog->scratch + (size_t)i * n_words;
        pieces[i] = (Piece){.batch = batch,
                            .head = &datalog->relations[batch->head],
                            .buffers = &datalog->buffers[i * ES_TUPLE_PARTS],
                            .bindings = words,
                            .matched = words + n_variables};
    }
    es_thread_pool_run(batch->pool, batch->n_pieces, join_piece, pieces);
    int64_t n_joined = 0;
    *is_over = 0;
    for (int32_t i = 0; i < batch->n_pieces; i++) {
        ES_TRY(es_first_error_rethrow(&pieces[i].error));
        *is_over |= pieces[i].is_over && !batch->is_alone;
        n_joined += pieces[i].n_joined;
    }
    datalog->n_joined += *is_over ? 0 : n_joined;
    return ES_STATUS_OK;
}

// Join the new tuples with all plans of one head.
static EsStatus run_batch(Batch *batch, int64_t *n_candidates) {
    EsDatalog *datalog = batch->datalog;
    int is_over;
    ES_TRY(update_indices(batch));
    batch->n_pieces = ES_MAX(ES_MIN((batch->end - batch->first) / PIECE_TUPLES, MAX_PIECES), 1);
    batch->is_alone = 0;
    ES_TRY(join_pieces(batch, &is_over));
    if (is_over) {
        for (int32_t i = 0; i < batch->n_pieces * ES_TUPLE_PARTS; i++) {
            datalog->buffers[i].count = 0;
        }
        batch->n_pieces = batch->is_alone = 1;
        ES_TRY(join_pieces(batch, &is_over));
    }
    for (int32_t i = 0; i < batch->n_pieces * ES_TUPLE_PARTS; i++) {
        *n_candidates += datalog->buffers[i].count;
    }
    batch->is_alone = 0;
    return datalog->is_complete ? sort_out(batch) : ES_STATUS_OK;
}

// Take tuples first to end - 1 of a relation: join them with all plans they enter.
static EsStatus take_tuples(EsDatalog *datalog, EsThreadPool *pool, const EsPlan *plans,
                            int32_t n_plans, int32_t first, int32_t end, int64_t *n_candidates) {
    for (int32_t i = 0, n; i < n_plans && datalog->is_complete; i += n) {
        n = 1;
        while (i + n < n_plans && plans[i + n].head == plans[i].head) {
            n++;
        }
        Batch batch = {.datalog = datalog,
                       .pool = pool,
                       .plans = plans + i,
                       .n_plans = n,
                       .delta = plans[i].delta,
                       .head = plans[i].head,
                       .first = first,
                       .end = end};
        ES_TRY(run_batch(&batch, n_candidates));
    }
    return ES_STATUS_OK;
}

// --- strata ---

// The plans of a stratum that new tuples of one relation enter.
typedef struct Entry {
    const EsPlan *plans;
    int32_t n_plans, relation;
    int32_t is_growing; // rules of the stratum add to the relation
    int32_t count;      // its tuples at the start
} Entry;

// Relations that are done come first, the largest before the others: what is taken while another
// atom of a body has nothing costs nothing, so that the smallest is joined with the rest.
static int compare_entries(const void *left, const void *right) {
    const Entry *x = left, *y = right;
    if (x->is_growing != y->is_growing) {
        return x->is_growing - y->is_growing;
    }
    if (x->count != y->count) {
        return x->count > y->count ? -1 : 1;
    }
    return x->relation - y->relation;
}

// Take everything of a relation that is there now, in batches that fit what the last one gave.
static EsStatus take_relation(EsDatalog *datalog, EsThreadPool *pool, const Entry *entry) {
    int32_t *taken = &datalog->taken[entry->relation];
    int32_t all = datalog->relations[entry->relation].count;
    while (*taken < all && datalog->is_complete) {
        int32_t first = *taken, end = (int32_t)ES_MIN(first + datalog->batch_tuples, all);
        int64_t n_candidates = 0;
        *taken = end;
        ES_TRY(take_tuples(datalog, pool, entry->plans, entry->n_plans, first, end, &n_candidates));
        if (n_candidates > 2 * WANTED_CANDIDATES) {
            datalog->batch_tuples = ES_MAX(datalog->batch_tuples / 2, PIECE_TUPLES);
        } else if (n_candidates < WANTED_CANDIDATES / 2 && end - first == datalog->batch_tuples) {
            datalog->batch_tuples = ES_MIN(datalog->batch_tuples * 2, MAX_BATCH);
        }
    }
    return ES_STATUS_OK;
}

static int32_t list_entries(EsDatalog *datalog, const EsPlan *plans, int32_t n_plans,
                            int32_t stratum, Entry *entries) {
    int32_t n_entries = 0;
    for (int32_t i = 0, n; i < n_plans; i += n) {
        int32_t relation = plans[i].delta;
        n = 1;
        while (i + n < n_plans && plans[i + n].delta == relation) {
            n++;
        }
        if (relation >= 0) {
            datalog->taken[relation] = 0;
            entries[n_entries++] =
                (Entry){&plans[i], n, relation, datalog->plans.strata[relation] == stratum,
                        datalog->relations[relation].count};
        }
    }
    qsort(entries, (size_t)n_entries, sizeof *entries, compare_entries);
    return n_entries;
}

static EsStatus run_stratum(EsDatalog *datalog, EsThreadPool *pool, const EsPlan *plans,
                            int32_t n_plans, Entry *entries) {
    int32_t n_first = 0, is_growing = 1;
    int64_t n_candidates = 0;
    while (n_first < n_plans && plans[n_first].delta < 0) {
        n_first++;
    }
    int32_t n_entries = list_entries(datalog, plans, n_plans, plans[0].stratum, entries);
    ES_TRY(take_tuples(datalog, pool, plans, n_first, 0, 0, &n_candidates));
    while (is_growing && datalog->is_complete) {
        is_growing = 0;
        for (int32_t i = 0; i < n_entries && datalog->is_complete; i++) {
            int32_t relation = entries[i].relation;
            is_growing |= datalog->taken[relation] < datalog->relations[relation].count;
            ES_TRY(take_relation(datalog, pool, &entries[i]));
        }
    }
    return ES_STATUS_OK;
}

EsStatus es_datalog_run(EsDatalog *datalog, EsThreadPool *pool) {
    const EsPlans *plans = &datalog->plans;
    void *entries;
    ES_TRY(es_allocate((size_t)ES_MAX(datalog->program->n_relations, 1) * sizeof(Entry), &entries));
    EsStatus status = ES_STATUS_OK;
    for (int32_t i = 0, n; i < plans->count && datalog->is_complete; i += n) {
        n = 1;
        while (i + n < plans->count && plans->plans[i + n].stratum == plans->plans[i].stratum) {
            n++;
        }
        ES_TRY_GOTO(run_stratum(datalog, pool, &plans->plans[i], n, entries));
    }
done:
    es_release(entries);
    for (size_t i = 0; i < ES_COUNT_OF(datalog->buffers); i++) {
        es_tuple_buffer_end(&datalog->buffers[i]);
    }
    return status;
}

// --- life ---

// Words of provenance of a relation: a rule, and the atoms of the largest body.
static int32_t count_proof_words(const EsDatalogProgram *program, int32_t relation) {
    int32_t most = 0;
    for (int32_t r = 0; r < program->n_rules; r++) {
        const EsDatalogRule *rule = &program->rules[r];
        int32_t n = 0;
        for (int32_t k = 0; k < rule->n_body; k++) {
            n += rule->body[k].kind == ES_LITERAL_ATOM;
        }
        most = rule->head.relation == relation ? ES_MAX(most, n) : most;
    }
    return 1 + most;
}

EsStatus es_datalog_create(const EsDatalogProgram *program, const EsDatalogSettings *settings,
                           EsDatalog **datalog) {
    *datalog = NULL;
    ES_TRY(es_allocate(sizeof **datalog, (void **)datalog));
    EsDatalog *made = *datalog;
    size_t n = (size_t)ES_MAX(program->n_relations, 1);
    made->program = program;
    made->settings = *settings;
    made->settings.limit = ES_MIN(settings->limit, INT32_MAX);
    made->is_complete = 1;
    made->batch_tuples = MAX_PIECES * PIECE_TUPLES;
    EsStatus status = ES_STATUS_OK;
    ES_TRY_GOTO(es_allocate(n * sizeof *made->relations, (void **)&made->relations));
    ES_TRY_GOTO(es_allocate(n * sizeof *made->taken, (void **)&made->taken));
    for (int32_t i = 0; i < program->n_relations; i++) {
        es_tuple_relation_begin(&made->relations[i], program->arities[i], program->n_constants,
                                settings->keeps_provenance ? count_proof_words(program, i) : 0);
    }
    ES_TRY_GOTO(es_plans_begin(program, made->relations, &made->plans));
    size_t n_words = count_scratch(&made->plans);
    ES_TRY_GOTO(es_allocate(MAX_PIECES * n_words * sizeof(int32_t), (void **)&made->scratch));
done:
    if (status != ES_STATUS_OK) {
        es_datalog_destroy(made);
        *datalog = NULL;
    }
    return status;
}

void es_datalog_destroy(EsDatalog *datalog) {
    if (datalog == NULL) {
        return;
    }
    for (int32_t i = 0; i < datalog->program->n_relations && datalog->relations != NULL; i++) {
        es_tuple_relation_end(&datalog->relations[i]);
    }
    for (size_t i = 0; i < ES_COUNT_OF(datalog->buffers); i++) {
        es_tuple_buffer_end(&datalog->buffers[i]);
    }
    es_plans_end(&datalog->plans);
    es_release(datalog->relations);
    es_release(datalog->taken);
    es_release(datalog->scratch);
    es_release(datalog);
}

EsStatus es_datalog_add_fact(EsDatalog *datalog, int32_t relation, const int32_t *terms) {
    return es_datalog_add_facts(datalog, relation, terms, 0, 1, NULL);
}

EsStatus es_datalog_add_facts(EsDatalog *datalog, int32_t relation, const int32_t *terms,
                              int32_t stride, int32_t count, EsThreadPool *pool) {
    EsTupleRelation *to = &datalog->relations[relation];
    int32_t before = to->count;
    ES_TRY(es_tuple_add_facts(to, pool, terms, stride, count));
    datalog->n_tuples += to->count - before;
    return ES_STATUS_OK;
}

// --- results ---

int es_datalog_is_complete(const EsDatalog *datalog) { return datalog->is_complete; }

int64_t es_datalog_n_joined(const EsDatalog *datalog) { return datalog->n_joined; }

int32_t es_datalog_count(const EsDatalog *datalog, int32_t relation) {
    return datalog->relations[relation].count;
}

int32_t es_datalog_count_facts(const EsDatalog *datalog, int32_t relation) {
    return datalog->relations[relation].n_facts;
}

const int32_t *es_datalog_tuple(const EsDatalog *datalog, int32_t relation, int32_t i) {
    return es_tuple_at(&datalog->relations[relation], i);
}

int es_datalog_has(const EsDatalog *datalog, int32_t relation, const int32_t *terms) {
    return es_tuple_has(&datalog->relations[relation], terms);
}

int32_t es_datalog_find(const EsDatalog *datalog, int32_t relation, const int32_t *terms) {
    const EsTupleRelation *in = &datalog->relations[relation];
    if (in->bits == NULL || !es_tuple_has(in, terms)) {
        return in->bits == NULL ? es_tuple_find(in, terms) : -1;
    }
    int32_t i = 0;
    while (memcmp(es_tuple_at(in, i), terms, (size_t)in->arity * sizeof *terms) != 0) {
        i++;
    }
    return i;
}

EsDerivation es_datalog_derivation(const EsDatalog *datalog, int32_t relation, int32_t i) {
    const EsTupleRelation *in = &datalog->relations[relation];
    ES_ASSERT(in->proofs.n_words > 0 && i < in->count);
    if (i < in->n_facts) {
        return (EsDerivation){-1, NULL};
    }
    const int32_t *words = es_tuple_store_at(&in->proofs, i - in->n_facts);
    return (EsDerivation){words[0], words + 1};
}

size_t es_datalog_provenance_bytes(const EsDatalog *datalog, int32_t relation) {
    return (size_t)datalog->relations[relation].proofs.n_words * sizeof(int32_t);
}
