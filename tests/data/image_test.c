// Fitting: sizes, bars, grey and colour, and scaling against sums by hand.
#include "data/image.h"
#include "es_test.h"

static void fit(int width, int height, int n_channels, uint8_t *pixels, int size, int n_planes,
                uint8_t *planes) {
    EsImage image = {width, height, n_channels, pixels};
    memset(planes, 77, (size_t)n_planes * (size_t)size * (size_t)size);
    REQUIRE_OK(es_image_fit(&image, size, n_planes, planes));
}

TEST(an_image_of_the_size_keeps_its_bytes) {
    uint8_t pixels[3 * 9], planes[3 * 9];
    for (int i = 0; i < 27; i++) {
        pixels[i] = (uint8_t)(i * 9);
    }
    fit(3, 3, 3, pixels, 3, 3, planes);
    for (int c = 0; c < 3; c++) {
        for (int p = 0; p < 9; p++) {
            EXPECT_EQ(planes[c * 9 + p], pixels[p * 3 + c]);
        }
    }
}

TEST(bars_have_the_mean_of_the_edge) {
    uint8_t pixels[8] = {10, 20, 30, 40, 50, 60, 70, 80}, planes[16];
    fit(4, 2, 1, pixels, 4, 1, planes);
    for (int x = 0; x < 4; x++) {
        EXPECT_EQ(planes[x], 45); // above
        EXPECT_EQ(planes[4 + x], pixels[x]);
        EXPECT_EQ(planes[8 + x], pixels[4 + x]);
        EXPECT_EQ(planes[12 + x], 45);
    }
    fit(2, 4, 1, pixels, 4, 1, planes);
    EXPECT_EQ(planes[0], 45); // beside
    EXPECT_EQ(planes[1], 10);
    EXPECT_EQ(planes[2], 20);
    EXPECT_EQ(planes[3], 45);
}

TEST(shrinking_averages) {
    uint8_t pixels[64], planes[4];
    for (int i = 0; i < 64; i++) { // left half black, right half white
        pixels[i] = i % 8 < 4 ? 0 : 255;
    }
    fit(8, 8, 1, pixels, 2, 1, planes);
    // triangle of half-width 4 around 2: weights of pixels 0 to 3 sum to 6.5 + ... = 7/8 of all
    EXPECT_NEAR(planes[0], 255.0 * 2.0 / 16.0, 12.0);
    EXPECT_EQ(planes[0] + planes[1], 255);
    EXPECT_EQ(planes[0], planes[2]);
    memset(pixels, 93, sizeof pixels);
    fit(8, 8, 1, pixels, 3, 1, (uint8_t[9]){0});
    fit(8, 8, 1, pixels, 2, 1, planes);
    EXPECT_EQ(planes[3], 93); // a constant stays
}

TEST(enlarging_is_bilinear) {
    uint8_t pixels[4] = {0, 100, 0, 100}, planes[16];
    fit(2, 2, 1, pixels, 4, 1, planes);
    for (int y = 0; y < 4; y++) {
        EXPECT_EQ(planes[4 * y], 0);
        EXPECT_EQ(planes[4 * y + 1], 25);
        EXPECT_EQ(planes[4 * y + 2], 75);
        EXPECT_EQ(planes[4 * y + 3], 100);
    }
}

TEST(grey_and_colour) {
    uint8_t grey[1] = {200}, colour[3] = {100, 150, 50}, planes[3];
    fit(1, 1, 1, grey, 1, 3, planes);
    EXPECT_EQ(planes[0], 200);
    EXPECT_EQ(planes[2], 200);
    fit(1, 1, 3, colour, 1, 1, planes);
    EXPECT_EQ(planes[0], (299 * 100 + 587 * 150 + 114 * 50 + 500) / 1000);
}

TEST(extreme_shapes) {
    static uint8_t pixels[20000], planes[64 * 64];
    memset(pixels, 31, sizeof pixels);
    fit(20000, 1, 1, pixels, 64, 1, planes);
    EXPECT_EQ(planes[0], 31);
    fit(1, 20000, 1, pixels, 64, 1, planes);
    EXPECT_EQ(planes[64 * 64 - 1], 31);
    fit(1, 1, 1, pixels, 64, 1, planes);
    EXPECT_EQ(planes[2080], 31);
}

TEST(names_of_images) {
    EXPECT(es_image_is_name("a.png") && es_image_is_name("a.b.JPG") && es_image_is_name("x.jpeg"));
    EXPECT(!es_image_is_name("png") && !es_image_is_name("a.png.txt") && !es_image_is_name("a."));
}
