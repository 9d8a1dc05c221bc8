// Written schedules: what they mean, and what is said about those that mean nothing.
#include "growth/engine/schedule.h"

#include "temp_folder.h"

static EsSlot slots[ES_SLOTS_MAX];
static int n_slots;
static const char *path;

static EsStatus load(const char *text, EsSchedule *schedule) {
    EsHostSpec host;
    REQUIRE_OK(es_host_preset("tiny", &host));
    REQUIRE_OK(es_slots_parse(&host, "r0c0,r0c1", slots, &n_slots));
    path = write_temp_text("schedule", text);
    EsScheduleLimits limits = {slots, n_slots, 6, 30, ES_BLUEPRINTS_CNN};
    return es_schedule_load(path, &limits, schedule);
}

static void expect_refusal(const char *text, const char *position, const char *part) {
    EsSchedule schedule;
    char expected[300];
    EXPECT_STATUS(load(text, &schedule), INPUT);
    snprintf(expected, sizeof expected, "%s:%s", path, position);
    EXPECT_CONTAINS(es_status_detail(), expected);
    EXPECT_CONTAINS(es_status_detail(), part);
    EXPECT(schedule.entries == NULL);
}

TEST(reads_what_is_written) {
    EsSchedule schedule;
    REQUIRE_OK(load("# a comment\n"
                    "\n"
                    "1  *      germinate r0c1 conv_light style=gated_gate tempo=slow target=half\n"
                    "3  1-2,5  PRUNE r0c0 speed=fast curve=cosine # and another\n"
                    "4 0 set_alpha r0c1 target=seventy\n"
                    "4 0 fossilize r0c1",
                    &schedule));
    EsAction actions[6];
    es_schedule_actions(&schedule, 1, 6, actions);
    for (int e = 0; e < 6; e++) {
        EXPECT_EQ(actions[e].head[ES_HEAD_OP], ES_GROWTH_OP_GERMINATE);
        EXPECT_EQ(actions[e].head[ES_HEAD_SLOT], 1);
        EXPECT_EQ(actions[e].head[ES_HEAD_BLUEPRINT], ES_BLUEPRINT_ID_CONV_LIGHT);
        EXPECT_EQ(actions[e].head[ES_HEAD_STYLE], ES_STYLE_GATED_GATE);
        EXPECT_EQ(actions[e].head[ES_HEAD_TEMPO], 2);
        EXPECT_EQ(actions[e].head[ES_HEAD_ALPHA_TARGET], 0);
    }
    es_schedule_actions(&schedule, 2, 6, actions);
    EXPECT_EQ(actions[0].head[ES_HEAD_OP], ES_GROWTH_OP_WAIT);
    es_schedule_actions(&schedule, 3, 6, actions);
    for (int e = 0; e < 6; e++) {
        int is_pruned = e == 1 || e == 2 || e == 5;
        EXPECT_EQ(actions[e].head[ES_HEAD_OP], is_pruned ? ES_GROWTH_OP_PRUNE : ES_GROWTH_OP_WAIT);
    }
    EXPECT_EQ(actions[1].head[ES_HEAD_ALPHA_SPEED], 1);
    EXPECT_EQ(actions[1].head[ES_HEAD_ALPHA_CURVE], 1);
    // the later of two lines wins
    es_schedule_actions(&schedule, 4, 1, actions);
    EXPECT_EQ(actions[0].head[ES_HEAD_OP], ES_GROWTH_OP_FOSSILIZE);
    // fewer environments than the file names
    es_schedule_actions(&schedule, 3, 2, actions);
    EXPECT_EQ(actions[1].head[ES_HEAD_OP], ES_GROWTH_OP_PRUNE);
    es_schedule_destroy(&schedule);
}

TEST(says_what_is_wrong_and_where) {
    expect_refusal("1 * germinat r0c0 norm\n", "1:5", "\"germinat\" is no operation");
    expect_refusal("\n1 * germinate r9c9 norm\n", "2:15", "\"r9c9\" is not a slot of this run");
    expect_refusal("1 * germinate r0c0 nrom\n", "1:20", "\"nrom\" is no blueprint");
    EXPECT(strstr(es_status_detail(), "conv_light") != NULL);
    // what this host cannot hold is not offered
    EXPECT(strstr(es_status_detail(), "lora") == NULL);
    EXPECT(strstr(es_status_detail(), "noop") == NULL);
    expect_refusal("1 * germinate r0c0\n", "1", "needs a blueprint");
    expect_refusal("1 * prune\n", "1", "PRUNE needs a slot");
    expect_refusal("0 * wait\n", "1:1", "a step, 1 or more");
    expect_refusal("x * wait\n", "1:1", "a step, 1 or more");
    expect_refusal("1 5-2 wait\n", "1:3", "the first is above the last");
    expect_refusal("1 -1 wait\n", "1:3", "an environment");
    expect_refusal("1 *\n", "1", "a line is: step, environments, operation");
    expect_refusal("1 * fossilize r0c0 tempo=slow\n", "1:20", "FOSSILIZE has no use for tempo");
    expect_refusal("1 * prune r0c0 speed=warp\n", "1:16", "\"warp\" is no speed");
    expect_refusal("1 6 wait\n", "1:3", "there is no environment 6; the run has 6");
    expect_refusal("1 , wait\n", "1:3", "a list of environments");
    expect_refusal("31 * wait\n", "1:1", "there is no step 31; an episode has 30");
    expect_refusal("1 * germinate r0c0 lora\n", "1:20", "a blueprint that this host can hold");
    expect_refusal("1 * germinate r0c0 noop\n", "1:20", "a blueprint that this host can hold");
    expect_refusal("1 * prune r0c0 fast\n", "1:16", "a setting: style=");
}

TEST(a_file_that_is_not_there_is_wrong_input) {
    EsSchedule schedule;
    EsScheduleLimits limits = {slots, n_slots, 6, 30, ES_BLUEPRINTS_CNN};
    EXPECT_STATUS(es_schedule_load("/nowhere/plan.txt", &limits, &schedule), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "schedule: cannot open /nowhere/plan.txt");
    EXPECT_STATUS(es_schedule_load("", &limits, &schedule), INPUT);
    EXPECT_CONTAINS(es_status_detail(), "a schedule needs a file: script:FILE");
}

// Any bytes give an entry or a message, never anything else.
TEST(hostile_files) {
    const char *text = "1 * germinate r0c1 conv_light style=gated_gate\n3 1-2,5 prune r0c0\n";
    size_t length = strlen(text);
    uint64_t state = 88172645463325252u;
    int n_refused = 0;
    for (int round = 0; round < 3000; round++) {
        char broken[128];
        memcpy(broken, text, length + 1);
        for (int k = 0; k < 3; k++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            broken[state % length] = (char)(1 + (state >> 32) % 255);
        }
        EsSchedule schedule;
        n_refused += load(broken, &schedule) != ES_STATUS_OK;
        es_schedule_destroy(&schedule);
    }
    EXPECT(n_refused > 1000);
}
