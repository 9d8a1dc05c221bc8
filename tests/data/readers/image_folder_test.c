// Folders of images: classes, splits, sizes, and folders that are refused with the file at fault.
#include "data/dataset.h"
#include "data/image.h"
#include "temp_folder.h"

#if ES_HAVE_PNG

// An image of one grey (n_channels 1) or with a red of that value (3).
static void put_image(const char *name, int width, int height, int n_channels, int value) {
    static uint8_t pixels[100 * 100 * 3];
    for (int i = 0; i < width * height; i++) {
        pixels[i * n_channels] = (uint8_t)value;
    }
    EsImage image = {width, height, n_channels, pixels};
    REQUIRE_OK(es_image_save(&image, temp_path(name)));
}

// Two classes of n images: cat is dark, dog bright.
static void put_classes(const char *folder, int n) {
    char name[128];
    mkdir(temp_path(folder), 0700);
    for (int i = 0; i < 2 * n; i++) {
        snprintf(name, sizeof name, "%s/%s", folder, i % 2 ? "dog" : "cat");
        mkdir(temp_path(name), 0700);
        snprintf(name, sizeof name, "%s/%s/%d.png", folder, i % 2 ? "dog" : "cat", i);
        put_image(name, 8, 8, 1, i % 2 ? 200 + i : i);
    }
}

static EsStatus open_set(const char *folder, EsDataset *dataset) {
    EsDatasetOptions options = {.seed = 4};
    return es_dataset_open(dataset, temp_path(folder), &options, NULL);
}

static void expect_refused(const char *folder, const char *part) {
    EsDataset dataset;
    EsStatus status = open_set(folder, &dataset);
    EXPECT(status == ES_STATUS_INPUT || status == ES_STATUS_IO);
    EXPECT_CONTAINS(es_status_detail(), part);
    EXPECT(dataset.images == NULL && dataset.class_names == NULL);
}

TEST(folders_are_classes) {
    EsDataset d;
    put_classes("set", 10);
    REQUIRE_OK(open_set("set", &d));
    EXPECT_EQ(d.n_classes, 2);
    EXPECT_TEXT(d.class_names[0], "cat");
    EXPECT_TEXT(d.class_names[1], "dog");
    EXPECT_TEXT(d.name, "set");
    EXPECT_EQ(d.train.count, 16);
    EXPECT_EQ(d.validation.count, 2);
    EXPECT_EQ(d.test.count, 2);
    EXPECT(d.height == 8 && d.width == 8 && d.n_channels == 1 && d.is_fitted);
    for (int64_t i = 0; i < d.n_images; i++) {
        EXPECT_EQ(d.labels[i], d.images[i * 64] >= 200);
    }
    es_dataset_destroy(&d);
}

TEST(own_splits_and_threads) {
    EsDataset d, threaded;
    EsThreadPool *pool = NULL;
    char hash[2][ES_SHA256_TEXT_BYTES];
    mkdir(temp_path("set"), 0700);
    put_classes("set/train", 20);
    put_classes("set/test", 3);
    EsDatasetOptions options = {.seed = 4};
    REQUIRE_OK(open_set("set", &d));
    EXPECT_EQ(d.train.count, 36);
    EXPECT_EQ(d.validation.count, 4);
    EXPECT_EQ(d.test.count, 6);
    REQUIRE_OK(es_thread_pool_create(&pool, 3));
    REQUIRE_OK(es_dataset_open(&threaded, temp_path("set"), &options, pool));
    es_dataset_fingerprint(&d, hash[0]);
    es_dataset_fingerprint(&threaded, hash[1]);
    EXPECT_TEXT(hash[0], hash[1]);
    es_thread_pool_destroy(pool);
    es_dataset_destroy(&threaded);
    es_dataset_destroy(&d);
    mkdir(temp_path("set/test/bird"), 0700);
    put_image("set/test/bird/1.png", 8, 8, 1, 3);
    expect_refused("set", "bird: a class that has no training images");
}

TEST(sizes_and_colours_of_a_set) {
    EsDataset d;
    put_classes("set", 10);
    put_image("set/cat/wide.png", 100, 60, 1, 9);
    put_image("set/dog/red.png", 3, 5, 3, 255);
    REQUIRE_OK(open_set("set", &d));
    EXPECT(d.height == 8 && d.n_channels == 3); // the median, and one image has colours
    EXPECT(d.sizes.smallest[0] == 3 && d.sizes.smallest[1] == 5);
    EXPECT(d.sizes.largest[0] == 100 && d.sizes.largest[1] == 60);
    EXPECT_EQ(d.sizes.median_side, 8);
    es_dataset_destroy(&d);
    EsDatasetOptions options = {.image_size = 20};
    REQUIRE_OK(es_dataset_open(&d, temp_path("set"), &options, NULL));
    EXPECT(d.height == 20 && d.width == 20);
    es_dataset_destroy(&d);
}

TEST(broken_folders_are_refused) {
    put_classes("set", 4);
    fclose(fopen(temp_path("set/cat/notes.txt"), "wb"));
    EsDataset d;
    REQUIRE_OK(open_set("set", &d)); // other files are left out
    es_dataset_destroy(&d);

    mkdir(temp_path("set/empty"), 0700);
    expect_refused("set", "set/empty: a class without images");
    rmdir(temp_path("set/empty"));

    FILE *file = fopen(temp_path("set/dog/broken.png"), "wb");
    fputs("\x89PNG\r\n\x1a\n....", file);
    fclose(file);
    expect_refused("set", "set/dog/broken.png: damaged PNG file");
    unlink(temp_path("set/dog/broken.png"));

    put_image("set/loose.png", 4, 4, 1, 1);
    expect_refused("set", "loose.png: an image beside the folders");
    unlink(temp_path("set/loose.png"));

    mkdir(temp_path("set/dog/more"), 0700);
    expect_refused("set", "set/dog/more: a folder inside a class");
    rmdir(temp_path("set/dog/more"));

    EXPECT_EQ(symlink("loop.png", temp_path("set/dog/loop.png")), 0);
    expect_refused("set", "set/dog/loop.png: Too many levels of symbolic links");
    unlink(temp_path("set/dog/loop.png"));
    EXPECT_EQ(symlink("..", temp_path("set/dog/up")), 0); // a circle of folders
    expect_refused("set", "set/dog/up: a folder inside a class");
    unlink(temp_path("set/dog/up"));

    if (geteuid() != 0) { // root reads everything
        chmod(temp_path("set/cat/0.png"), 0);
        expect_refused("set", "set/cat/0.png");
        chmod(temp_path("set/cat/0.png"), 0600);
        chmod(temp_path("set/dog"), 0);
        expect_refused("set", "set/dog: cannot list the folder");
        chmod(temp_path("set/dog"), 0700);
    }
    mkdir(temp_path("one"), 0700);
    mkdir(temp_path("one/cat"), 0700);
    put_image("one/cat/a.png", 4, 4, 1, 1);
    expect_refused("one", "1 folders of images, expected one for each of at least 2 classes");
}

#else

TEST(a_build_without_libpng_says_so) {
    EsImage image;
    EXPECT_STATUS(es_image_decode("a", "\x89PNG\r\n\x1a\n", 8, &image), UNSUPPORTED);
    EXPECT_CONTAINS(es_status_detail(), "libpng-dev");
}

#endif
