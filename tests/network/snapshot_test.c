// Snapshots: a masked environment goes back bit for bit and trains on as before, the others are not
// touched.
#include "network_case.h"

#include "network/snapshot.h"

static void check_snapshot(const char *device, int adam) {
    static float early[8192], late[8192], mixed[8192];
    NetworkRun run = network_begin(&network_shapes[0], device, 1, 0, ES_COMPILE_DEFAULT);
    if (adam) {
        network_use_adam(&run);
    }
    EsTensor mask = es_tensor_view(NULL, ES_DTYPE_U8, run.device, 1, (int64_t[]){2});
    REQUIRE_OK(es_device_allocate(run.device, 2, &mask.data));
    EsSnapshot *snapshot = NULL;
    REQUIRE_OK(es_snapshot_create(run.store, run.optimiser, &snapshot));
    int64_t per_env = run.store->parameters.dim[1];
    ES_ASSERT(2 * per_env <= 8192);
    float losses[4], after_take[4], after_restore[4];
    network_step(&run, losses);
    const uint8_t all[2] = {1, 1}, second[2] = {0, 1};
    REQUIRE_OK(es_stream_copy(run.stream, mask.data, all, 2, ES_COPY_TO_DEVICE));
    es_snapshot_take(snapshot, run.stream, &mask);
    copy_out(&run, early, &run.store->parameters);
    network_step(&run, after_take);
    copy_out(&run, late, &run.store->parameters);
    REQUIRE_OK(es_stream_copy(run.stream, mask.data, second, 2, ES_COPY_TO_DEVICE));
    es_snapshot_restore(snapshot, run.stream, &mask);
    copy_out(&run, mixed, &run.store->parameters);
    size_t bytes = (size_t)per_env * sizeof(float);
    EXPECT(memcmp(mixed, late, bytes) == 0);
    EXPECT(memcmp(mixed + per_env, early + per_env, bytes) == 0);
    EXPECT(memcmp(mixed + per_env, late + per_env, bytes) != 0);
    // momentum came back too: the next two steps of the restored environment are those of before
    network_step(&run, after_restore);
    EXPECT(after_restore[1] == after_take[1]);
    EXPECT(after_restore[0] != after_take[0]);
    copy_out(&run, mixed, &run.store->parameters);
    EXPECT(memcmp(mixed + per_env, late + per_env, bytes) == 0);
    es_snapshot_destroy(snapshot);
    es_device_release(run.device, mask.data);
    network_end(&run);
}

TEST(masked_environments_go_back) {
    check_snapshot("cpu", 0);
    check_snapshot("cpu", 1);
}

TEST(masked_environments_go_back_on_cuda) {
    if (es_device_cuda_count() == 0) {
        SKIP("no CUDA device");
    }
    check_snapshot("cuda", 0);
    check_snapshot("cuda", 1);
}
