// Recipes that a device cannot run are refused, with the key to leave out.
#include "es_test.h"

#include "growth/rules/recipe.h"
#include "tensor/device_internal.h"

TEST(a_gpu_refuses_keys_of_the_cpu) {
    EsDevice cpu = {.info = {.kind = ES_DEVICE_CPU}}, gpu = {.info = {.kind = ES_DEVICE_CUDA}};
    EsRecipe recipe = es_recipe_plain();
    REQUIRE_OK(es_recipe_check(&recipe, &gpu));
    recipe.average = 0.5f;
    REQUIRE_OK(es_recipe_check(&recipe, &cpu));
    EXPECT_STATUS(es_recipe_check(&recipe, &gpu), UNSUPPORTED);
    EXPECT_CONTAINS(es_status_detail(), "recipe.average = 0.5");
    recipe = es_recipe_plain();
    recipe.optimiser = ES_RECIPE_ADAMW;
    REQUIRE_OK(es_recipe_check(&recipe, &cpu));
    EXPECT_STATUS(es_recipe_check(&recipe, &gpu), UNSUPPORTED);
    EXPECT_CONTAINS(es_status_detail(), "recipe.optimiser = adamw trains on the CPU alone");
}
