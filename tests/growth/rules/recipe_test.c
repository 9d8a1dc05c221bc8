// Recipes that a device cannot run are refused, with the key to leave out.
#include "es_test.h"

#include "growth/rules/recipe.h"
#include "tensor/device_internal.h"

TEST(a_gpu_refuses_keys_of_the_cpu) {
    EsDevice cpu = {.info = {.kind = ES_DEVICE_CPU}}, gpu = {.info = {.kind = ES_DEVICE_CUDA}};
    EsRecipe recipe = es_recipe_plain();
    REQUIRE_OK(es_recipe_check(&recipe, &gpu));
    recipe.average = 0.5f;
    recipe.decay = ES_DECAY_STEP;
    REQUIRE_OK(es_recipe_check(&recipe, &gpu));
    recipe = es_recipe_plain();
    recipe.optimiser = ES_RECIPE_ADAMW;
    REQUIRE_OK(es_recipe_check(&recipe, &cpu));
    EXPECT_STATUS(es_recipe_check(&recipe, &gpu), UNSUPPORTED);
    EXPECT_CONTAINS(es_status_detail(), "recipe.optimiser = adamw trains on the CPU alone");
}

TEST(steps_halve_the_learning_rate) {
    EsRecipe recipe = es_recipe_plain();
    EXPECT_NEAR(es_recipe_epoch_share(&recipe, 35), 1, 0);
    recipe.decay = ES_DECAY_STEP;
    EXPECT_NEAR(es_recipe_epoch_share(&recipe, 0), 1, 0);
    EXPECT_NEAR(es_recipe_epoch_share(&recipe, 9), 1, 0);
    EXPECT_NEAR(es_recipe_epoch_share(&recipe, 10), 0.5, 0);
    EXPECT_NEAR(es_recipe_epoch_share(&recipe, 35), 0.125, 0);
    recipe.step_factor = 0.3f;
    recipe.step_epochs = 7;
    EXPECT_NEAR(es_recipe_epoch_share(&recipe, 14), 0.09, 1e-8);
}
