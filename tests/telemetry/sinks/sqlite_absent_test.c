#include "es_test.h"
#include "telemetry/sink.h"
#include "telemetry/sinks/run_database.h"

TEST(opening_says_what_is_missing) {
    EsSink sink = {.name = "untouched"};
    EsRunDatabase *database = NULL;
    EXPECT_STATUS(es_sqlite_sink_open("run.db", -1, &sink), UNSUPPORTED);
    EXPECT_TEXT(es_status_detail(), "run.db: cannot be written: this build has no SQLite");
    EXPECT_TEXT(sink.name, "untouched");
    EXPECT_STATUS(es_run_database_open("run.db", &database), UNSUPPORTED);
    EXPECT_CONTAINS(es_status_detail(), "run.db: cannot be read: this build has no SQLite");
    EXPECT(database == NULL);
    es_run_database_close(database);
}
